"""Several limits in one step: `decide`, `refund`, `unreserve` against the reference store, and their rules one by one."""

import random

import pytest

import goblin
from engines import CORE
from limit_references import HORIZON_NS, INT64_MAX, NEVER, SEED, SOAK, ReferenceStore

SECOND = 10**9

FIXED = ("fixed-window", 3, 10, None)
SLIDING = ("sliding-window", 3, 10, None)
GCRA = ("gcra", 3, 10, None)
QUOTAS = [
    FIXED,
    SLIDING,
    GCRA,
    ("fixed-window", 5, None, None),
    ("fixed-window", 0, 10, None),
    ("fixed-window", 7, 23, None),
    ("sliding-window", 1, 7, None),
    ("sliding-window", 6, 31, None),
    ("gcra", 7, 3, 4),
    ("gcra", 2, 10, 1),
    ("gcra", 5, 31, 2),
    ("gcra", 3_559, 30 * 86_400 * SECOND, 3),
    ("gcra", 3 * 10**8, SECOND, 2),
]
ONLY_GCRA = [quota for quota in QUOTAS if quota[0] == "gcra"]


class Story:
    """The core and the reference store side by side; every reply compared, and what is left under each key."""

    def __init__(self, seed, quotas, start_ns):
        self.rng, self.rig, self.reference = random.Random(seed), CORE.make(start_ns), ReferenceStore()
        self.quota = {f"k{number}": quota for number, quota in enumerate(quotas)}
        self.hits = []  # (stamps of the core, of the reference, cost)
        self.waits = []
        self.lines = [f"GOBLIN_SEED={SEED}, program {seed}, start {start_ns}: {self.quota}"]
        self.seen = set()

    @property
    def now(self):
        return self.rig.clock.now_ns

    def same(self, got, expected, what):
        self.lines.append(f"at {self.now}: {what} -> {got}")
        assert got == expected, "\n".join([self.lines[0], *self.lines[-20:], f"expected {expected}"])
        for key, quota in self.quota.items():
            reference = self.reference.keys.get(key)
            state = reference and self.reference.state(key, self.now)
            end = reference.end if state else -2
            left = -1 if end is None else -2 if end == -2 else -((self.now - end) // 10**6)
            assert self.rig.store.pttl(key) == left, "\n".join([*self.lines[-20:], key])
            if quota[0] == "fixed-window":
                assert self.rig.store.get(key) == (state and state[0])

    def decide(self, mode):
        keys = self.rng.sample(list(self.quota), self.rng.randrange(1, len(self.quota) + 1))
        entries = [(key, self.quota[key]) for key in keys]
        cost = self.rng.choice([0, 1, 1, 1, 1, 2, 3])
        most = self.rng.choice([None, 0, 5, 50]) if mode == "reserve" else None
        got = self.rig.store.decide(entries, cost, mode, max_wait_ns=most)
        expected = self.reference.decide(self.now, entries, cost, mode, most)
        verdict, remaining, reset, index, at, stamps = got
        assert all(type(part) is int for part in got[:5])
        self.same(
            (verdict, remaining, reset, index, at, stamps is not None),
            (expected.verdict, expected.remaining, expected.reset, expected.index, expected.at, expected.spent),
            f"{mode} {keys} {cost=} {most=}",
        )
        self.seen.add((mode, "never" if verdict == NEVER else "passed" if verdict >= 0 else "refused", expected.spent))
        if stamps is not None:
            assert len(stamps) == len(entries)
            row = (stamps, self.reference.stamps(entries, at), cost)
            (self.waits if mode == "reserve" else self.hits).append(row)

    def refund(self):
        rows = self.hits + self.waits
        if rows:
            stamps, expected, cost = rows[-1] if self.rng.random() < 0.5 else self.rng.choice(rows)
            got = self.rig.store.refund(stamps, cost)
            self.same(got, self.reference.refund(self.now, expected, cost), f"refund {stamps} {cost=}")
            self.seen.add(("refund", got))
            self.hits = [row for row in self.hits if row[0] is not stamps]  # once each, as the limiter does
            self.waits = [row for row in self.waits if row[0] is not stamps]

    def unreserve(self):
        if self.waits:
            row = self.waits.pop(self.rng.choice([-1, -1, self.rng.randrange(len(self.waits))]))
            got = self.rig.store.unreserve(row[0])
            self.same(got, self.reference.unreserve(self.now, row[1]), f"unreserve {row[0]}")

    def step(self):
        ends = [reference.end - self.now for reference in self.reference.keys.values() if reference.end]
        near = [end + shift for end in ends if 0 <= end < 2**62 for shift in (-1, 0, 1)]
        step = max(0, self.rng.choice([0, 1, 2, self.rng.randrange(40), self.rng.choice(near or [0])]))
        self.rig.advance_ns(step)


def test_random_programs_of_several_limits_core_and_reference_agree():
    seen = set()
    for number in range(4_000 if SOAK else 150):
        rng = random.Random(SEED + number)
        story = Story(SEED + number, rng.sample(QUOTAS, rng.randrange(1, 4)), rng.choice([0, 10**15, 2**61]))
        for _ in range(60):
            rng.choice([story.refund, story.step, *[lambda s=story: s.decide("hit")] * 3, lambda s=story: s.decide("peek")])()
        seen |= story.seen
        story.rig.store._check()
    ends = {"passed", "refused", "never"}
    assert {mode[:2] for mode in seen if len(mode) == 3} == {(mode, end) for mode in ("hit", "peek") for end in ends}
    assert {("refund", True), ("refund", False)} <= seen


def test_random_programs_with_reservations_core_and_reference_agree():
    """Without refunds, after which the core may leave a slot empty: what they may never do is in test_limit_bounds.py."""
    seen = set()
    for number in range(4_000 if SOAK else 150):
        rng = random.Random(SEED + number)
        story = Story(SEED + number, rng.sample(ONLY_GCRA, rng.randrange(1, 4)), rng.choice([0, 10**15]))
        for _ in range(60):
            kind = rng.choice(["reserve"] * 4 + ["hit", "unreserve", "unreserve", "step"])
            story.decide(kind) if kind in ("reserve", "hit") else getattr(story, kind)()
        seen |= story.seen
        story.rig.store._check()
    assert ("reserve", "refused", True) in seen and ("reserve", "refused", False) in seen


# The rules one by one


@pytest.fixture
def rig():
    return CORE.make()


@pytest.fixture
def store(rig):
    return rig.store


def test_decide_is_all_or_nothing(rig):
    store = rig.store
    entries = [("a", ("fixed-window", 9, 10, None)), ("b", ("sliding-window", 9, 10, None)), ("c", ("gcra", 1, 10, None))]
    assert store.decide(entries)[0] == 0
    before = (store.get("a"), store.sliding_window("b", 9, 1e-8, 0), store.pttl("a"), len(store))
    for _ in range(5):
        verdict, remaining, reset, index, at, stamps = store.decide(entries)
        assert (verdict, remaining, reset, index, at, stamps) == (-10, 0, 10, 2, 0, None)
        assert (store.get("a"), store.sliding_window("b", 9, 1e-8, 0), store.pttl("a"), len(store)) == before


def test_decide_refused_by_one_makes_no_key_for_the_others(store):
    store.gcra("last", 1, 60)
    for mode in ("hit", "peek"):
        assert store.decide([("a", FIXED), ("b", SLIDING), ("last", ("gcra", 1, 60 * SECOND, None))], 1, mode)[0] < 0
    assert list(store) == ["last"]


def test_decide_wrong_kind_in_one_changes_nothing_in_the_others(store):
    store.set("last", 1)
    store.set("fixed", 1)
    for entries in ([("a", GCRA), ("last", GCRA)], [("fixed", FIXED), ("last", SLIDING)], [("last", GCRA)]):
        for mode in ("hit", "peek"):
            with pytest.raises(goblin.WrongTypeError, match="^Operation against a key holding the wrong kind of value$"):
                store.decide(entries, 1, mode)
    assert dict(store.items()) == {"last": 1, "fixed": 1} and len(store) == 2


@pytest.mark.parametrize("mode", ["hit", "peek"])
def test_decide_never_on_another_kind_shows_figures_and_not_what_lay_in_memory(mode, store):
    """What can never pass is told before the state is looked at; a state of another kind has nothing to say."""
    store.gcra("k", 5, 60)
    for others in ([], [("a", FIXED)], [("a", GCRA), ("b", SLIDING)]):
        for entries in ([("k", FIXED), *others], [*others, ("k", FIXED)]):
            verdict, remaining, reset, _, _, stamps = store.decide(entries, 4, mode)
            assert verdict == NEVER and stamps is None
            assert 0 <= remaining <= 3 and -1 <= reset <= 20


@pytest.mark.parametrize(
    ("waits", "index"),
    [([5, 9, 3], 1), ([5, 5, 3], 0), ([3, 5, 5], 1), ([NEVER, 9, 3], 0), ([9, NEVER, NEVER], 1), ([1, 1, 1], 0)],
)
def test_decide_longest_wait_decides_the_first_named_on_a_tie(waits, index, store):
    entries = []
    for number, wait in enumerate(waits):
        quota = ("gcra", 1, 1 if wait == NEVER else wait, None)
        if wait == NEVER:
            quota = ("gcra", 0, 1, None)
        else:
            store.gcra(f"k{number}", 1, wait / SECOND)
        entries.append((f"k{number}", quota))
    for mode in ("hit", "peek"):
        verdict, _, _, decided, _, stamps = store.decide(entries, 1, mode)
        assert (verdict, decided, stamps) == (NEVER if NEVER in waits else -max(waits), index, None)


@pytest.mark.parametrize(("limits", "index"), [([5, 3, 9], 1), ([3, 5, 3], 0), ([7, 3, 3], 1), ([4, 4, 4], 0)])
def test_decide_when_all_admit_the_least_remaining_decides(limits, index, store):
    for kind in ("fixed-window", "sliding-window", "gcra"):
        entries = [(f"{kind}{number}", (kind, limit, 10, None)) for number, limit in enumerate(limits)]
        for spent in range(3):
            verdict, remaining, _, decided, at, stamps = store.decide(entries, 1)
            assert (verdict, remaining, decided, at) == (min(limits) - 1 - spent, min(limits) - 1 - spent, index, 0)
            assert len(stamps) == 3


def test_decide_remaining_is_the_least_of_all_also_where_another_limit_refuses(rig):
    """The one that decides is who waits longest; what remains is what all leave."""
    store = rig.store
    store.fixed_window("long", 5, 100, 4)
    store.fixed_window("short", 2, 10, 2)
    entries = [("long", ("fixed-window", 5, 100 * SECOND, None)), ("short", ("fixed-window", 2, 10 * SECOND, None))]
    assert store.decide(entries, 2)[:4] == (-100 * SECOND, 0, 100 * SECOND, 0)
    rig.advance(10)
    assert store.decide(entries, 2)[:4] == (-90 * SECOND, 1, 90 * SECOND, 0)
    assert store.decide(entries, 1)[:4] == (0, 0, 90 * SECOND, 0)


def test_decide_peek_spends_nothing_and_shows_what_remains_now(store):
    entries = [("a", FIXED), ("b", GCRA)]
    assert store.decide(entries, 2, "peek") == (1, 3, 0, 0, 0, None)
    assert store.decide(entries, 2, "hit")[:5] == (1, 1, 10, 0, 0)
    assert store.decide(entries, 1, "peek") == (0, 1, 10, 0, 0, None)
    assert store.decide(entries, 3, "peek")[0] == -10
    assert store.decide(entries, 4, "peek")[:2] == (NEVER, 1)
    assert store.decide(entries, 0, "hit")[:2] == (1, 1)


def test_decide_one_entry_and_the_single_call_agree(rig):
    for quota in QUOTAS:
        kind, limit, period, burst = quota
        twin = CORE.make()
        seconds = None if period is None else period / SECOND
        call = {"fixed-window": twin.store.fixed_window, "sliding-window": twin.store.sliding_window}.get(kind)
        for cost in (0, 1, 1, 2, 5, 1):
            single = call("k", limit, seconds, cost) if call else twin.store.gcra("k", limit, seconds, cost, burst=burst)
            assert rig.store.decide([(f"{quota}", quota)], cost)[0] == single
            rig.advance_ns(1)
            twin.advance_ns(1)
        rig = CORE.make()


def test_decide_key_named_twice_raises_valueerror(store):
    for first, second in (("k", "k"), ("k", b"k"), ("ä", "ä".encode())):
        for mode in ("hit", "peek"):
            with pytest.raises(ValueError, match="twice"):
                store.decide([(first, FIXED), ("other", FIXED), (second, GCRA)], 1, mode)
    assert len(store) == 0


@pytest.mark.parametrize(
    ("entries", "error", "pattern"),
    [
        ([], ValueError, "entries"),
        ([("k", ("leaky", 1, 1, None))], ValueError, "leaky"),
        ([("k", ("gcra", -1, 1, None))], ValueError, "-1"),
        ([("k", ("gcra", 1, 0, None))], ValueError, "0"),
        ([("k", ("gcra", 1, None, None))], (TypeError, ValueError), "None"),
        ([("k", ("sliding-window", 1, None, None))], (TypeError, ValueError), "None"),
        ([("k", ("sliding-window", 2**31, 1, None))], ValueError, "2147483647"),
        ([("k", ("gcra", 1, 1, 0))], ValueError, "burst=0"),
        ([("k", ("fixed-window", 1, 1, 2))], ValueError, "burst"),
        ([("k", ("fixed-window", 1, 1.5, None))], TypeError, "1.5"),
        ([("k", ("fixed-window", True, 1, None))], TypeError, "True"),
        ([("k", ("fixed-window", 2**63, 1, None))], OverflowError, "9223372036854775808"),
        ([("k", ("fixed-window", 1, 1))], (TypeError, ValueError), "quota|tuple"),
        ([("k",)], (TypeError, ValueError), "unpack|tuple"),
        ([(5, FIXED)], TypeError, "key must be str or bytes, not int"),
        ([("k", ("gcra", 1, HORIZON_NS + 1, None))], ValueError, "invalid expire time"),
        ([("a", FIXED), ("k", ("sliding-window", 1, 2**62, None))], ValueError, "invalid expire time"),
        (None, TypeError, "iter"),
    ],
)
def test_decide_bad_entries_raise_and_change_nothing(entries, error, pattern, store):
    for mode in ("hit", "peek"):
        with pytest.raises(error, match=pattern):
            store.decide(entries, 1, mode)
    assert len(store) == 0


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((-1,), {}, ValueError),
        ((1.0,), {}, TypeError),
        ((2**63,), {}, OverflowError),
        ((1, "take"), {}, ValueError),
        ((1, "reserve"), {"max_wait_ns": 1.5}, TypeError),
    ],
)
def test_decide_bad_cost_mode_or_wait_raises(arguments, options, error, store):
    with pytest.raises(error):
        store.decide([("k", GCRA)], *arguments, **options)
    assert len(store) == 0


def test_reserve_is_for_gcra_only(store):
    for quota in (FIXED, SLIDING):
        with pytest.raises(ValueError, match="gcra"):
            store.decide([("a", GCRA), ("b", quota)], 1, "reserve")
    assert len(store) == 0


def test_now_ns_is_the_latest_reading(rig):
    assert rig.store.now_ns() == 0
    rig.advance_ns(7)
    assert rig.store.now_ns() == 7
    rig.advance_ns(-3)
    assert rig.store.now_ns() == 7


# Refunds


def hit(store, *entries, cost=1):
    return store.decide(list(entries), cost)[-1]


def test_refund_fixed_gives_the_cost_back_within_its_window_only(rig):
    store = rig.store
    first = hit(store, ("k", FIXED), cost=2)
    assert store.refund(first, 2) is True and store.get("k") == 0 and store.pttl("k") == 1
    second = hit(store, ("k", FIXED))
    rig.advance_ns(10)
    third = hit(store, ("k", FIXED))
    assert store.refund(second, 1) is False and store.get("k") == 1  # another window
    rig.advance_ns(10)
    assert store.refund(third, 1) is False and store.get("k") is None


@pytest.mark.parametrize("value", [0, -1, -(2**63)])
def test_refund_fixed_never_takes_a_count_below_zero(value, store):
    stamps = hit(store, ("k", FIXED), cost=3)
    store.set("k", value, keepttl=True)
    assert store.refund(stamps, 3) is False and store.get("k") == value
    store.set("k", 2, keepttl=True)
    assert store.refund(stamps, 3) is True and store.get("k") == 0


def test_refund_fixed_not_after_the_ttl_was_changed(store):
    for change in (lambda: store.persist("k"), lambda: store.expire("k", 5), lambda: store.set("k", 1)):
        store.delete("k")
        stamps = hit(store, ("k", FIXED))
        change()
        assert store.refund(stamps, 1) is False and store.get("k") == 1


def test_refund_of_a_count_without_an_end_while_it_has_no_deadline(store):
    endless = ("k", ("fixed-window", 5, None, None))
    stamps = [hit(store, endless) for _ in range(3)]
    assert store.refund(stamps[0], 1) is True and store.get("k") == 2 and store.ttl("k") == -1
    store.expire("k", 60)
    assert store.refund(stamps[1], 1) is False and store.get("k") == 2
    store.persist("k")
    assert store.refund(stamps[1], 1) is True and store.get("k") == 1


def test_refund_sliding_goes_off_the_window_that_the_hit_was_counted_in(rig):
    store, entry = rig.store, ("k", ("sliding-window", 10, 10, None))

    def weighted():
        return 10 - store.sliding_window("k", 10, 1e-8, 0)

    first = hit(store, entry, cost=3)
    hit(store, entry, cost=2)
    assert weighted() == 5 and store.refund(first, 3) is True and weighted() == 2
    second = hit(store, entry, cost=4)
    rig.advance_ns(10)
    hit(store, entry, cost=1)  # the next window: the first one's 6 weigh floor(6 * 9 / 10)
    assert weighted() == 5 + 1 and store.refund(second, 4) is True and weighted() == 1 + 1
    third = hit(store, entry, cost=2)
    rig.advance_ns(20)
    assert store.refund(third, 2) is False and weighted() == 0


def test_refund_sliding_once_its_window_weighs_no_more_gives_nothing(rig):
    store, entry = rig.store, ("k", ("sliding-window", 10, 10, None))
    first = hit(store, entry, cost=3)
    rig.advance_ns(10)
    hit(store, entry, cost=4)
    rig.advance_ns(10)  # two windows on, though nothing has been counted in the new one yet
    assert store.sliding_window("k", 10, 1e-8, 0) == 10 - 3
    assert store.refund(first, 3) is False
    assert store.sliding_window("k", 10, 1e-8, 0) == 10 - 3


def test_refund_gcra_gives_back_what_the_hit_still_weighs(rig):
    """Three hits of 10/3 ns: at 4 ns the first has drained, and of the last 30/3 - 4 ns are left to wait for."""
    store, entry = rig.store, ("k", GCRA)
    first, second, third = (hit(store, entry) for _ in range(3))
    assert store.gcra("k", 3, 1e-8, 3) == -10
    rig.advance_ns(2)
    assert store.refund(third, 1) is True  # 10/3 - 2 ns come back: TAT 8 + 2/3
    assert store.gcra("k", 3, 1e-8, 3) == -7
    rig.advance_ns(1)
    assert store.refund(second, 1) is True  # 1/3 ns: TAT 8 + 1/3
    assert store.gcra("k", 3, 1e-8, 3) == -6
    rig.advance_ns(1)
    assert store.refund(first, 1) is False
    assert store.gcra("k", 3, 1e-8, 3) == -5


def test_refund_gcra_of_all_at_once_frees_the_entry(store):
    stamps = [hit(store, ("k", GCRA)) for _ in range(3)]
    assert [store.refund(stamp, 1) for stamp in stamps] == [True] * 3
    assert store.type("k") is None and len(store) == 0
    assert store.refund(stamps[0], 1) is False


def test_refund_gcra_not_while_somebody_sleeps_on_a_reservation(rig):
    store, entry = rig.store, ("k", GCRA)
    stamps = [hit(store, entry) for _ in range(3)]
    waits = store.decide([entry], 1, "reserve")
    assert waits[0] == -4 and waits[4] == 4
    rig.advance_ns(2)
    assert store.refund(stamps[2], 1) is False
    store.unreserve(waits[-1])
    assert store.refund(stamps[2], 1) is True


def test_refund_each_limit_by_itself(rig):
    """True if any gave something; an entry that another kind has taken is left alone."""
    store = rig.store
    stamps = hit(store, ("a", FIXED), ("b", SLIDING), ("c", GCRA), cost=2)
    store.delete("a")
    store.gcra("a", 5, 60)
    store.set("c", 7)
    before = store.pttl("a")
    assert store.refund(stamps, 2) is True
    assert store.type("a") == "gcra" and store.pttl("a") == before and store.get("c") == 7
    assert store.sliding_window("b", 3, 1e-8, 0) == 3
    assert store.refund(stamps, 2) is False


def test_refund_of_stamps_that_name_a_key_twice_raises_valueerror(store):
    stamps = hit(store, ("a", FIXED))
    with pytest.raises(ValueError, match="twice"):
        store.refund(stamps * 2, 1)
    with pytest.raises(ValueError, match="cost=-1"):
        store.refund(stamps, -1)
    assert store.get("a") == 1
    assert store.refund((), 1) is False


# Reservations


def reserve(store, *entries, cost=1, most=None):
    return store.decide(list(entries), cost, "reserve", max_wait_ns=most)


def test_reserve_that_can_pass_now_is_a_hit(store):
    verdict, remaining, reset, index, at, stamps = reserve(store, ("k", GCRA))
    assert (verdict, remaining, index, at) == (2, 2, 0, 0) and len(stamps) == 1
    assert reset == 4 and store.refund(stamps, 1) is True and len(store) == 0


def test_reserve_names_instants_one_interval_apart(store):
    entry = ("k", ("gcra", 1, 10, None))
    assert [reserve(store, entry)[0] for _ in range(5)] == [0, -10, -20, -30, -40]
    assert [reserve(store, entry)[4] for _ in range(3)] == [50, 60, 70]
    assert store.decide([entry])[0] == -80  # a hit is told the true wait, behind all of them


def test_reserve_beyond_the_longest_wait_reserves_nothing(store):
    entry = ("k", ("gcra", 1, 10, None))
    reserve(store, entry)
    for most, stays in ((9, True), (0, True), (10, False), (10, True), (20, False)):
        before = store.decide([entry], 1, "peek")
        verdict, _, _, _, at, stamps = reserve(store, entry, most=most)
        assert (stamps is None) == stays and at == (0 if stays else -verdict) and verdict == before[0]
        assert (store.decide([entry], 1, "peek") == before) == stays


def test_reserve_of_what_never_passes_reserves_nothing(store):
    for entry, cost in ((("k", GCRA), 4), (("k", ("gcra", 0, 10, None)), 1), (("k", ("gcra", 9, 10, 2)), 3)):
        verdict, *_, stamps = reserve(store, entry, cost=cost)
        assert verdict == NEVER and stamps is None and len(store) == 0


def test_reserve_past_the_end_of_time_is_never(store):
    """The instant would be within int64 and the deadline after it not."""
    entry = ("k", ("gcra", 1, 2**61, None))
    assert [reserve(store, entry)[0] for _ in range(4)] == [0, -(2**61), -(2**62), NEVER]
    assert store.gcra("k", 1, 1) == -3 * 2**61


def test_reserve_in_several_limits_counts_in_all_at_one_instant(rig):
    """As a hit made at the instant it is told: the limit that need not wait is charged from that instant on."""
    store, slow, fast = rig.store, ("slow", ("gcra", 1, 100, None)), ("fast", ("gcra", 2, 10, None))
    assert reserve(store, slow, fast)[0] == 0
    assert reserve(store, slow, fast)[::4] == (-100, 100)
    # 5 ns, counted from 100: two more fit then, and none now (TAT 105 is a burst of 10 and more ahead).
    assert store.decide([fast])[0] == -100
    rig.advance_ns(100)
    assert [store.decide([fast])[0] for _ in range(2)] == [0, -5]


def test_reserve_remaining_and_reset_are_those_at_the_instant_told(rig):
    for quotas in ([GCRA], [("gcra", 1, 100, None), ("gcra", 5, 50, None)], [("gcra", 5, 50, None), ("gcra", 1, 100, None)]):
        waiting, twin = CORE.make(), CORE.make()
        entries = [(f"k{number}", quota) for number, quota in enumerate(quotas)]
        while (told := waiting.store.decide(entries, 1, "reserve"))[0] >= 0:
            twin.store.decide(entries)
        twin.advance_ns(told[4])
        assert twin.store.decide(entries)[1:4] == told[1:4]


def waiters(store, count, entry=("k", ("gcra", 1, 10, None))):
    return [reserve(store, entry) for _ in range(count + 1)][1:]  # the first need not wait


def ahead(store, quota=("gcra", 1, 10, None)):
    """What a newcomer would wait."""
    return max(0, -store.decide([("k", quota)], 1, "peek")[0])


@pytest.mark.parametrize(
    ("order", "waits"),
    [
        ([2, 1, 0], [30, 20, 10]),
        ([0, 1, 2], [40, 40, 10]),
        ([1, 2, 0], [40, 20, 10]),
        ([1, 0, 2], [40, 40, 10]),
        ([0, 2, 1], [40, 30, 10]),
        ([2, 0, 1], [30, 30, 10]),
    ],
)
def test_unreserve_in_any_order_frees_all_that_has_no_live_waiter_behind(order, waits, store):
    told = waiters(store, 3)
    assert ahead(store) == 40
    for number, expected in zip(order, waits, strict=True):
        store.unreserve(told[number][-1])
        assert ahead(store) == expected


@pytest.mark.parametrize("order", ["first to last", "last to first", "shuffled"])
def test_unreserve_a_thousand_leaves_a_newcomer_one_interval(order, store):
    told = waiters(store, 1_000)
    told = {"first to last": told, "last to first": told[::-1], "shuffled": random.Random(1).sample(told, 1_000)}[order]
    for row in told:
        store.unreserve(row[-1])
    assert reserve(store, ("k", ("gcra", 1, 10, None)))[0] == -10


def test_unreserve_slot_before_a_live_waiter_stays_empty(rig):
    store = rig.store
    first, second, third = waiters(store, 3)
    store.unreserve(second[-1])
    assert ahead(store) == 40
    assert reserve(store, ("k", ("gcra", 1, 10, None)))[4] == 40
    rig.advance_ns(25)  # in the empty slot: nobody is let in beside who has been told 30
    assert ahead(store) == 25


def test_unreserve_of_one_reserved_at_once_gives_it_back(store):
    told = reserve(store, ("k", GCRA))
    store.unreserve(told[-1])
    assert store.type("k") is None and len(store) == 0


def test_unreserve_after_others_hit_leaves_their_hits(rig):
    store = rig.store
    (told,) = waiters(store, 1)
    rig.advance_ns(20)
    assert store.gcra("k", 1, 1e-8) == 0
    store.unreserve(told[-1])
    assert store.gcra("k", 1, 1e-8) == -10


def test_unreserve_after_the_key_was_deleted_or_replaced_changes_nothing(rig):
    for clear in (lambda s: s.delete("k"), lambda s: s.clear(), lambda s: s.set("k", 5), lambda s: s.mset({"k": 5})):
        store = CORE.make().store
        told = waiters(store, 3)
        store.unreserve(told[0][-1])
        clear(store)
        for row in told[1:]:
            store.unreserve(row[-1])
        assert store.get("k") in (None, 5)
        store.delete("k")
        # The new waiters stand where the old ones stood; what was noted of those must not move them.
        again = waiters(store, 2)
        store.unreserve(again[1][-1])
        assert ahead(store) == 20
        store.unreserve(again[0][-1])
        assert ahead(store) == 10


def test_unreserve_in_several_limits_puts_each_entry_back(store):
    entries = [("a", ("gcra", 1, 10, None)), ("b", ("gcra", 1, 30, None))]
    reserve(store, *entries)
    told = [reserve(store, *entries) for _ in range(3)]
    other = reserve(store, entries[0])  # behind them in one of the two
    assert other[4] == 100
    for row in told:
        store.unreserve(row[-1])
    assert store.decide([entries[1]], 1, "peek")[0] == -30
    assert store.decide([entries[0]], 1, "peek")[0] == -110
    store.unreserve(other[-1])
    assert store.decide([entries[0]], 1, "peek")[0] == -10


def test_unreserve_of_a_hit_does_nothing(store):
    stamps = hit(store, ("k", GCRA), ("f", FIXED))
    assert store.unreserve(stamps) is None
    assert store.get("f") == 1 and store.type("k") == "gcra"


def test_given_up_slots_are_forgotten_with_time(rig):
    """Notes of slots that nobody asks for again must not pile up: the figure is sys.getsizeof's, through gc."""
    store = rig.store
    import gc

    def notes():
        return sum(len(thing) for thing in gc.get_referents(store) if type(thing) is dict)

    for number in range(2_000):
        entry = (f"user:{number}", ("gcra", 1, 10, None))
        first, second, _ = (reserve(store, entry) for _ in range(3))
        store.unreserve(second[-1])  # stays empty: there is a waiter behind
        rig.advance_ns(1_000)
    assert notes() <= 10, notes()
    assert INT64_MAX > store.now_ns()
