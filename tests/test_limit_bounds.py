"""How much each algorithm lets through, whatever the callers do: checked over every stretch of random histories.

fixed-window: the limit per window. sliding-window: fewer than limit x (1 + t / period) + 1 in any stretch t. gcra: at
most burst + limit x t / period, counting what was not refunded; refunds, reservations and their giving up may come in
any order and at any time. A reservation counts at the instant it was told.

GOBLIN_SEED repeats a run; GOBLIN_SOAK=1 makes it long.
"""

import random
from fractions import Fraction

import pytest

from engines import CORE
from limit_references import NEVER
from scale import SEED, rounds

SECOND = 10**9

# Where the figures are small, every stretch is a corner case. (limit, period in ns, burst)
QUOTAS = [(3, 30, 3), (1, 10, 1), (1, 10, 4), (2, 7, 3), (7, 3, 4), (5, 31, 2), (6, 60, 2), (3 * 10**8, SECOND, 2)]


def excess(hits, limit, period, size):
    """The most that any stretch from hit to hit holds above size + limit x t / period; hits are (instant, cost)."""
    worst, least, total = -size * period, None, 0  # all times period, to stay with integers
    for at, cost in sorted(hits):
        before = total * period - limit * at
        least = before if least is None else min(least, before)
        total += cost
        worst = max(worst, total * period - limit * at - least - size * period)
    return Fraction(worst, period)


def test_excess_by_hand():
    """The checker itself: three at once over a size of two; two a nanosecond apart at one per ten."""
    assert excess([(5, 1)] * 3, 1, 10, 2) == 1
    assert excess([(0, 1), (5, 1)], 1, 10, 1) == Fraction(1, 2)
    assert excess([(0, 1), (10, 1), (20, 1)], 1, 10, 1) == 0
    assert excess([], 1, 1, 3) == -3


class Callers:
    """Random callers of some keys under gcra, and all that they were let through."""

    def __init__(self, seed, kind="gcra"):
        self.rng, self.rig = random.Random(seed), CORE.make()
        many = self.rng.choice([1, 1, 2, 3]) if kind == "gcra" else 1
        self.quotas = {f"k{n}": (kind, *self.rng.choice(QUOTAS)) for n in range(many)}
        if kind != "gcra":
            self.quotas = {key: (*quota[:3], None) for key, quota in self.quotas.items()}
        self.hits = []  # [entries, cost, at, stamps, "waits" or "passed"]
        self.lines = [f"GOBLIN_SEED={SEED}, program {seed}: {self.quotas}"]

    @property
    def now(self):
        return self.rig.clock.now_ns

    def note(self, text):
        self.lines.append(f"at {self.now}: {text}")

    def hit(self, mode="hit"):
        keys = self.rng.sample(list(self.quotas), self.rng.randrange(1, len(self.quotas) + 1))
        most = min(self.quotas[key][3] or self.quotas[key][1] for key in keys)
        cost = self.rng.choice([1, 1, 1, self.rng.randrange(1, min(most, 8) + 1), most if most < 9 else 1])
        entries = [(key, self.quotas[key]) for key in keys]
        verdict, *_, at, stamps = self.rig.store.decide(entries, cost, mode)
        if stamps is not None:
            self.hits.append([keys, cost, at, stamps])
            self.note(f"{mode} {keys} {cost=} counts at {at}")
        return verdict

    def reserve(self):
        self.hit("reserve")

    def some(self):
        return self.hits[self.rng.choice([-1, -2, self.rng.randrange(len(self.hits))]) % len(self.hits)]

    def refund(self):
        """Who has been let through may give back once; who waits has nothing yet to give."""
        if self.hits and (hit := self.some())[2] <= self.now and hit[3] is not None:
            given = self.rig.store.refund(hit[3], hit[1])
            self.note(f"refund {hit} -> {given}")
            hit[3] = None
            if given:  # not "given in full": the bound holds without it all the same
                self.hits.remove(hit)

    def give_up(self, late=True):
        """A waiter who is cancelled: mostly before his time, sometimes when it has come but he has not run."""
        waits = [hit for hit in self.hits if hit[3] is not None and hit[3][0][4] is not None]
        waits = [hit for hit in waits if hit[2] > self.now or (late and hit[2] > self.now - 20)]
        if waits:
            hit = self.rng.choice([waits[-1], self.rng.choice(waits)])
            self.rig.store.unreserve(hit[3])
            self.note(f"give up {hit}")
            self.hits.remove(hit)

    def wait(self):
        self.rig.advance_ns(self.rng.choice([0, 1, 1, 2, 3, 5, 10, self.rng.randrange(60)]))

    def check(self):
        for key, (_, limit, period, burst) in self.quotas.items():
            hits = [(at, cost) for keys, cost, at, _ in self.hits if key in keys]
            over = excess(hits, limit, period, burst)
            if over > 0:
                pytest.fail("\n".join([self.lines[0], *self.lines[-40:], f"{key}: {over} too many: {sorted(hits)}"]))


def run(program, seed, length, moves):
    callers = Callers(seed)
    for step in range(length):
        getattr(callers, callers.rng.choice(moves))()
        if step % 10 == 9:
            callers.check()
            # What is far behind can be part of no stretch that is not checked already.
            callers.hits = [hit for hit in callers.hits if hit[2] > callers.now - 500]
    callers.check()
    callers.rig.store._check()


PROGRAMS = {
    "hits": ["hit", "hit", "wait"],
    "refunds": ["hit", "hit", "hit", "refund", "wait"],
    "reservations": ["reserve", "reserve", "hit", "wait"],
    "given_up": ["reserve", "reserve", "reserve", "hit", "give_up", "give_up", "wait"],
    "everything": ["reserve", "reserve", "hit", "hit", "give_up", "give_up", "refund", "refund", "wait"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_gcra_bound_holds_over_every_stretch(program):
    for number in rounds(150, soak=5_000):
        run(program, SEED + number, 250, PROGRAMS[program])


def test_gcra_bound_is_reached():
    """As much as is allowed does pass: the bound is no accident of a limiter that refuses too much."""
    for limit, period, burst in QUOTAS:
        rig, hits = CORE.make(), []
        for _ in range(400):
            for _ in range(50):
                if rig.store.decide([("k", ("gcra", limit, period, burst))])[-1] is None:
                    break
                hits.append((rig.clock.now_ns, 1))
            rig.advance_ns(1)
        assert -1 < excess(hits, limit, period, burst) <= 0


def test_plain_give_back_would_break_the_bound():
    """Why a refund is the cost less the time since: a bucket that is given the whole hit back holds too much.

    One per 10 ns, burst 2. The hit of 0 drains till 10; given back in full at 10 it would empty the bucket of the hit
    made at 9, and two more would pass at 10: three in two nanoseconds.
    """
    rig, entry = CORE.make(), ("k", ("gcra", 1, 10, 2))
    first = rig.store.decide([entry])[-1]
    rig.advance_ns(9)
    assert rig.store.decide([entry])[0] == 0
    rig.advance_ns(1)
    assert rig.store.refund(first, 1) is False
    assert [rig.store.decide([entry])[0] for _ in range(2)] == [0, -10]


def waiter_who_gives_up_late(rig, entries_of_the_waiter):
    """A hit of the whole burst, and a waiter behind it. The hit is refunded when his time has come, so that the bucket
    is where he alone stands. (Then two others fill it, and he gives up before he ran.)"""
    store, entry = rig.store, ("k", ("gcra", 3, 30, 3))
    first = store.decide([entry], 3)
    waits = store.decide(entries_of_the_waiter, 1, "reserve")
    assert (first[0], waits[0]) == (0, -10)
    rig.advance_ns(10)
    assert store.refund(first[-1], 3) is True
    return store, entry, waits


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another limit"])
@pytest.mark.parametrize("when", ["before the others", "after the others"])
def test_giving_up_after_a_refund_does_not_take_anothers_place(others, when):
    rig = CORE.make()
    entries = [("k", ("gcra", 3, 30, 3)), ("free", ("gcra", 3, 30, 3))][: others + 1]
    store, entry, waits = waiter_who_gives_up_late(rig, entries)
    hits = []

    def hit(mode="hit"):
        outcome = store.decide([entry], 1, mode)
        if mode == "hit" and outcome[0] >= 0:
            hits.append((rig.clock.now_ns, 1))
        return outcome

    if when == "before the others":
        store.unreserve(waits[-1])
    rig.advance_ns(5)
    assert hit()[0] >= 0 and hit()[0] >= 0
    if when == "after the others":
        store.unreserve(waits[-1])
    else:  # a waiter behind them, who gives up in his turn
        behind = hit("reserve")
        if behind[-1] is not None:
            store.unreserve(behind[-1])
    for _ in range(20):
        for _ in range(5):
            hit()
        rig.advance_ns(1)
    assert excess(hits, 1, 10, 3) <= 0, hits


@pytest.mark.parametrize(("cost", "wait_ns"), [(1, 0), (2, 10)], ids=["who need not wait", "who has waited"])
def test_giving_up_at_the_very_instant_does_not_take_anothers_place(cost, wait_ns):
    """A hit, and a reservation behind it. When its time has come the hit is refunded, and another reservation, made to
    wait by a second limit, leaves the bucket just where the first one did; which is given up only now."""
    rig, hits = CORE.make(), []
    entry, pace = ("k", ("gcra", 1, 10, 2)), ("pace", ("gcra", 1, 8, 1))
    before = rig.store.decide([entry], cost)
    first = rig.store.decide([entry], 1, "reserve")
    assert max(0, -first[0]) == wait_ns
    rig.advance_ns(wait_ns)
    rig.store.decide([pace])
    assert rig.store.refund(before[-1], cost) is True
    other = rig.store.decide([entry, pace], 1, "reserve")
    assert other[0] == -8
    hits.append((other[4], 1))
    rig.store.unreserve(first[-1])
    rig.advance_ns(8)
    for _ in range(20):
        for _ in range(3):
            if rig.store.decide([entry])[0] >= 0:
                hits.append((rig.clock.now_ns, 1))
        rig.advance_ns(1)
    assert excess(hits, 1, 10, 2) <= 0, hits


def test_refund_gives_nothing_back_while_somebody_sleeps_for_the_sake_of_another_limit():
    """`pace` makes the waiters wait; in `slow` their reservations are less than a burst ahead, and yet to come.

    Refunded at 0, the hit of 0 would take `slow` to 10 ns ahead, and the waiter of 5 ns alone takes it to 15.
    """
    rig, hits = CORE.make(), []
    slow, pace = ("slow", ("gcra", 1, 10, 4)), ("pace", ("gcra", 2, 10, 2))
    first = rig.store.decide([slow, pace], 2)
    for number in range(12):
        outcome = rig.store.decide([slow, pace], 1, "reserve")
        hits.append((outcome[4], 1))
        if number == 0:
            assert outcome[4] == 5
            rig.store.refund(first[-1], 2)
    assert excess(hits, 1, 10, 4) <= 0, hits
    assert excess(hits, 1, 5, 2) <= 0, hits


# The windows


def windows_of(rng, kind, length, costs=(1, 1, 1, 2)):
    """[(instant, cost)] let through, from callers who save their hits for the edges."""
    limit, period = rng.choice([(1, 10), (2, 7), (3, 30), (5, 13), (10, 100)])
    rig, hits, refunds = CORE.make(), [], []
    entry = [("k", (kind, limit, period, None))]
    for _ in range(length):
        for _ in range(rng.choice([1, 1, 2, limit, 2 * limit])):
            cost = rng.choice(costs)
            verdict, *_, stamps = rig.store.decide(entry, cost)
            if verdict >= 0:
                hits.append((rig.clock.now_ns, cost))
                refunds.append((stamps, hits[-1]))
            elif rng.random() < 0.3 and verdict != NEVER:
                rig.advance_ns(-verdict)
        rig.advance_ns(rng.choice([0, 1, 1, 2, period // 2, period - 1, period, period + 1, rng.randrange(3 * period)]))
    return limit, period, hits


def test_fixed_window_bound_holds_in_every_window():
    for number in rounds(200, soak=10_000):
        limit, period, hits = windows_of(random.Random(SEED + number), "fixed-window", 60)
        start, count = None, 0
        for at, cost in hits:
            if start is None or at >= start + period:
                start, count = at, 0
            count += cost
            assert count <= limit, f"GOBLIN_SEED={SEED}, {number}: {hits}"


def test_fixed_window_admits_twice_the_limit_around_an_edge():
    rig = CORE.make()
    entry = [("k", ("fixed-window", 5, 100, None))]
    assert rig.store.decide(entry, 1)[0] == 4
    rig.advance_ns(99)
    assert rig.store.decide(entry, 4)[0] == 0
    rig.advance_ns(1)
    assert rig.store.decide(entry, 5)[0] == 0


def test_sliding_window_bound_holds_over_every_stretch():
    """Strictly fewer than limit x (1 + t / period) + 1."""
    for number in rounds(400, soak=20_000):
        limit, period, hits = windows_of(random.Random(SEED + number), "sliding-window", 60, costs=(1,))
        over = excess(hits, limit, period, limit)
        assert over < 1, f"GOBLIN_SEED={SEED}, {number}: {over} {limit}/{period}: {hits}"


def test_sliding_window_admits_exactly_the_limit_per_period_under_steady_overload():
    for limit, period in ((1, 10), (2, 1_000), (7, 1_000), (100, 1_000)):
        rig, hits = CORE.make(), []
        for _ in range(10 * period):
            if rig.store.decide([("k", ("sliding-window", limit, period, None))])[0] >= 0:
                hits.append(rig.clock.now_ns)
            rig.advance_ns(1)
        per_window = [sum(period * n <= at < period * (n + 1) for at in hits) for n in range(10)]
        assert per_window == [limit] * 10


def test_sliding_window_saved_for_its_last_instant_is_followed_by_the_limit_and_no_more():
    rig = CORE.make()
    entry = [("k", ("sliding-window", 10, 1_000, None))]
    assert rig.store.decide(entry, 1)[0] == 9
    rig.advance_ns(999)
    assert rig.store.decide(entry, 9)[0] == 0
    passed = []
    for _ in range(1_000):
        rig.advance_ns(1)
        passed += [1] if rig.store.decide(entry, 1)[0] >= 0 else []
    assert len(passed) == 10
