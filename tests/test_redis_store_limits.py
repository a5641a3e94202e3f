"""The limits of RedisCounters beside those of Counters: the same replies to random histories, and the same promise.

On a clock of microseconds, for that is what a server's clock reads; a fixed window on one of milliseconds, for the end
of one is rounded up to a millisecond there. On these grids nothing is rounded, and every word must be the same.
"""

import os
import random

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import goblin
from redis_stores import MS, SECOND, US, Twin, client, store, twin  # noqa: F401 - fixtures
from scale import SEED, rounds, size

DAY = 86_400 * SECOND
# Of each algorithm, by the grid that the clock moves on: (amount, period in ns, burst).
QUOTAS = {
    "fixed-window": [(1, MS, None), (3, 10 * MS, None), (10, SECOND, None), (2**63 - 1, DAY, None), (5, None, None)],
    "sliding-window": [(1, US, None), (5, 13 * US, None), (3, 7, None), (10, SECOND, None), (97, 1_000_003, None),
                       (2**31 - 1, 30 * DAY, None), (3_559, 30 * DAY, None), (0, SECOND, None)],
    "gcra": [(1, US, None), (3, 10 * US, 2), (7, 3, 4), (10, SECOND, None), (97, 1_000_003, 5), (4, 60 * SECOND, 1),
             (3 * 10**8, SECOND, 2), (2**31 - 1, 30 * DAY, None), (11_863, 365 * DAY, 11_863_000),
             (2**62 + 1, 10**9 + 7, None), (2**63 - 1, 10**18, 2**63 - 1), (1, 10**17, 9), (0, SECOND, None)],
}  # fmt: skip
GRID_NS = {"fixed-window": MS, "sliding-window": US, "gcra": US}


def quota_of(kind, rng):
    return (kind, *rng.choice(QUOTAS[kind]))


def without_told(stamps):
    """Stamps as both write them: the states of a server's have the time that was told as well."""
    return stamps and tuple((*stamp[:3], *(state and state[:2] for state in stamp[3:])) for stamp in stamps)


class History:
    """Random calls on both stores, on a few keys of one algorithm; every reply must be the same."""

    def __init__(self, client, kind, seed):  # noqa: F811
        self.twin, self.kind, self.rng = Twin(client), kind, random.Random(seed)
        self.quotas = {key: quota_of(kind, self.rng) for key in ("a", "b", "c")}
        self.hits = []  # (the stamps of each store, cost)
        self.last = 0
        self.story = [f"{kind}, GOBLIN_SEED={seed}, {self.quotas}"]
        self.seen = set()

    def both(self, verb, *args, **kwargs):
        self.story.append(f"{self.twin.clock.now_ns}: {verb}{args}{kwargs}")
        try:
            return self.twin.both(verb, *args, **kwargs)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *self.story[-30:]])) from None

    def move(self):
        grid = GRID_NS[self.kind]
        period = self.rng.choice(list(self.quotas.values()))[2] or SECOND
        ns = self.rng.choice(
            [0, 0, grid, period // 3, period - grid, period, 2 * period, -self.last, -self.last - grid]
        )
        self.twin.clock.advance_ns(min(max(0, -(-ns // grid) * grid), 10**17))

    def decide(self):
        keys = self.rng.sample(sorted(self.quotas), self.rng.choice([1, 1, 1, 2, 3]))
        entries = [(key, self.quotas[key]) for key in keys]
        amount = min(quota[1] for _, quota in entries)
        cost = self.rng.choice([0, 1, 1, 1, 2, amount, max(amount - 1, 0), min(amount + 1, 2**63 - 1)])
        mode = self.rng.choice(["hit", "hit", "hit", "peek", *(["reserve"] * 2 if self.kind == "gcra" else [])])
        options = {"max_wait_ns": self.rng.choice([None, SECOND])} if mode == "reserve" else {}
        self.story.append(f"{self.twin.clock.now_ns}: decide({entries}, {cost}, {mode}, {options})")
        replies = []
        for store in (self.twin.redis, self.twin.core):  # noqa: F402
            try:
                replies.append(store.decide(entries, cost, mode, **options))
            except ValueError as error:
                replies.append((str(error), None))
        words = [(*reply[:-1], without_told(reply[-1])) for reply in replies]
        assert words[0] == words[1], "\n".join([f"{words[0]}\n{words[1]}", *self.story[-30:]])
        self.seen.add((mode, "spent" if replies[0][-1] else "not spent"))
        if len(replies[0]) == 6:
            self.last = max(replies[0][0], -DAY) if replies[0][0] < 0 else 0
        if replies[0][-1]:
            self.hits.append((replies[0][-1], replies[1][-1], cost))

    def undo(self):
        if not self.hits:
            return
        on_server, here, cost = self.hits.pop(self.rng.randrange(max(0, len(self.hits) - 6), len(self.hits)))
        verb = "unreserve" if on_server[0][-1] is not None and self.rng.random() < 0.7 else "refund"
        self.story.append(f"{self.twin.clock.now_ns}: {verb} {here} {cost}")
        arguments = (cost,) if verb == "refund" else ()
        given = [
            getattr(one, verb)(stamps, *arguments)
            for one, stamps in ((self.twin.redis, on_server), (self.twin.core, here))
        ]
        assert given[0] == given[1], "\n".join([f"{given}", *self.story[-30:]])
        self.seen.add((verb, given[0]))

    def look(self):
        for key in self.quotas:
            self.both("type", key)
            self.both("pttl", key)
            self.both("get", key)

    def run(self, steps):
        for _ in range(steps):
            self.move()
            self.rng.choice(
                [self.decide] * 5 + [self.undo] * 3 + [lambda: self.both("delete", "b")] * (self.rng.random() < 0.1)
            )()
        self.look()


@pytest.mark.parametrize("kind", QUOTAS)
def test_history_on_the_server_and_here_is_the_same(kind, client):  # noqa: F811
    print(f"GOBLIN_SEED={SEED}")
    seen = set()
    for number in rounds(20, soak=5_000, least=10):
        history = History(client, kind, SEED + number)
        history.run(40)
        seen |= history.seen
        client.flushall()
    wanted = {("hit", "spent"), ("hit", "not spent"), ("peek", "not spent"), ("refund", True), ("refund", False)}
    wanted |= {("reserve", "spent"), ("unreserve", None)} if kind == "gcra" else set()
    assert wanted <= seen


@st.composite
def cases(draw):
    """A quota, hits with waits of microseconds between them, and the cost that is asked at the end."""
    kind = draw(st.sampled_from(["fixed-window", "sliding-window", "gcra"]))
    limit = draw(st.integers(1, 6) | st.sampled_from([97, 3_559, 2**31 - 1]))
    period = draw(st.integers(1, 50_000) | st.sampled_from([SECOND, 30 * DAY, 1_000_000_007]))
    burst = draw(st.none() | st.integers(1, 8)) if kind == "gcra" else None
    most = burst or limit
    hits = draw(st.lists(st.tuples(st.integers(0, 3 * period // US + 2), st.integers(1, most)), max_size=5))
    return (kind, limit, period, burst), hits, draw(st.integers(1, most))


@settings(max_examples=size(60, soak=3_000), deadline=None, print_blob=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(case=cases(), part=st.floats(0, 1, exclude_max=True))
@example(case=(("gcra", 1, 1_500, None), [(0, 1)], 1), part=0.5)
@example(case=(("fixed-window", 1, 1_500, None), [(0, 1)], 1), part=0.5)
def test_refusal_keeps_the_promise_to_the_microsecond(case, part, client):  # noqa: F811
    """At the first reading of the clock that is not before the instant it named the same hit passes, and at the one
    before it does not; in between the verdict is what is left of the wait."""
    quota, hits, cost = case
    client.flushall()
    twin = Twin(client)  # noqa: F811
    for wait_us, spent in hits:
        twin.clock.advance_ns(wait_us * US)
        twin.redis.decide([("k", quota)], spent)

    def ask():
        return twin.redis.decide([("k", quota)], cost)[0]

    verdict = ask()
    assume(verdict < 0)
    assert verdict != goblin.NEVER
    wait_us = -(verdict // US)  # rounded up to the clock's grain
    gone_us = 0
    for at_us in sorted({int(wait_us * part), wait_us - 1} - {0}):
        twin.clock.advance_ns((at_us - gone_us) * US)
        gone_us = at_us
        assert ask() == verdict + at_us * US
    twin.clock.advance_ns((wait_us - gone_us) * US)
    assert ask() >= 0


@pytest.mark.parametrize("period_ns", [1, 999_999, MS + 1, 2_500_000])
def test_fixed_window_is_at_most_a_millisecond_longer(period_ns, twin):  # noqa: F811
    twin.clock.advance_ns(300 * US)
    twin.redis.decide([("k", ("fixed-window", 1, period_ns, None))])
    wait_ns = -twin.redis.decide([("k", ("fixed-window", 1, period_ns, None))])[0]
    assert period_ns <= wait_ns < period_ns + MS
    assert (twin.clock.now_ns + wait_ns) % MS == 0


def test_gcra_admits_no_more_than_burst_and_rate_in_any_stretch(twin):  # noqa: F811
    rng = random.Random(SEED)
    print(f"GOBLIN_SEED={SEED}")
    start, admitted = twin.clock.now_ns, []
    for _ in range(300):
        twin.clock.advance_ns(rng.randrange(0, 400) * US)
        if twin.redis.gcra("k", 7, 0.001, burst=3) >= 0:
            admitted.append(twin.clock.now_ns - start)
    for first, begin in enumerate(admitted):
        for last in range(first, len(admitted)):
            assert last - first + 1 <= 3 + 7 * (admitted[last] - begin) / MS


def test_clock_set_back_does_not_admit_more_within_a_window(twin):  # noqa: F811
    """A server's clock may be set back, and this one is not a monotonic one: windows shift, and nothing breaks."""
    for kind in ("fixed-window", "sliding-window", "gcra"):
        entry = [(kind, (kind, 2, 10 * SECOND, None))]
        assert [twin.redis.decide(entry)[0] >= 0 for _ in range(3)] == [True, True, False]
        twin.clock.advance_ns(-5 * SECOND)
        assert twin.redis.decide(entry)[0] < 0
        twin.clock.advance_ns(26 * SECOND)
        assert twin.redis.decide(entry)[0] >= 0


def test_refund_on_a_key_with_a_sleeper_of_another_process_gives_nothing_back(client):  # noqa: F811
    """The entry itself knows until when somebody sleeps, so another store object on it knows as well."""
    first = Twin(client)
    other = Twin(client)
    other.redis._now_us = first.redis._now_us
    entry = [("k", ("gcra", 2, 2 * SECOND, None))]
    hit, _, waits = (first.redis.decide(entry, 1, mode) for mode in ("hit", "hit", "reserve"))
    assert waits[0] == -SECOND
    first.clock.advance_ns(SECOND // 2)
    assert other.redis.refund(hit[-1], 1) is False
    first.clock.advance_ns(SECOND // 2)  # his time has come
    assert other.redis.refund(waits[-1], 1) is True


def test_given_up_slot_in_the_middle_goes_back_with_the_one_behind_in_this_process_only(client):  # noqa: F811
    entry = [("k", ("gcra", 1, SECOND, None))]
    for same_process, left_ns in ((True, -SECOND), (False, -2 * SECOND)):
        client.flushall()
        here = Twin(client)
        there = Twin(client)
        there.redis._now_us = here.redis._now_us
        here.redis.decide(entry)
        middle, last = (here.redis.decide(entry, 1, "reserve")[-1] for _ in range(2))
        here.redis.unreserve(middle)
        (here if same_process else there).redis.unreserve(last)
        assert here.redis.decide(entry, 1, "peek")[0] == left_ns
        assert len(here.redis._given_up) == (0 if same_process else 1)
        here.clock.advance_ns(10 * SECOND)
        here.redis.unreserve(here.redis.decide([("other", entry[0][1])], 1, "reserve")[-1])
        here.redis.delete("k")
        assert len(here.redis._given_up) == 0


def test_delete_forgets_what_was_given_up(twin):  # noqa: F811
    entry = [("k", ("gcra", 1, SECOND, None))]
    for replace in (lambda: twin.redis.delete("k"), lambda: twin.redis.set("k", 1), lambda: twin.redis.mset({"k": 1})):
        twin.redis.delete("k")
        twin.redis.decide(entry)
        middle, _ = (twin.redis.decide(entry, 1, "reserve")[-1] for _ in range(2))
        twin.redis.unreserve(middle)
        assert len(twin.redis._given_up) == 1
        replace()
        assert len(twin.redis._given_up) == 0


@pytest.mark.parametrize("words", [5, (1, 2), ("1", 2, 3), (1, 2, 2**63)])
def test_unreserve_of_another_stores_stamps_is_refused(words, twin):  # noqa: F811
    with pytest.raises((TypeError, OverflowError), match="stamp"):
        twin.redis.unreserve((("k", ("gcra", 1, SECOND, None), 5, None, words),))
    assert len(twin.redis._given_up) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_child_begins_without_its_parents_notes(twin):  # noqa: F811
    """And does not wait for a lock that a thread of its parent's held at that moment."""
    notes = twin.redis._given_up
    notes.note(b"k", ((1, 0, 1), None, 1))
    with notes._guard():
        child = os.fork()
        if child == 0:
            try:
                noted = notes.note(b"k", ((2, 0, 2), None, 2))
                os._exit(0 if len(noted) == len(notes) == 1 else 1)
            finally:
                os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0 and len(notes) == 1
