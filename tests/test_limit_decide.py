"""Several limits in one step: random programs of `decide`, `refund` and `unreserve` against the reference store, and
the rules of `decide` one by one. Those of the others: test_limit_refunds.py, test_limit_reservations.py."""

import random

import pytest

import goblin
from engines import CORE
from limit_references import HORIZON_NS, NEVER, ReferenceStore
from scale import SEED, rounds

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
    for number in rounds(150, soak=4_000):
        rng = random.Random(SEED + number)
        story = Story(SEED + number, rng.sample(QUOTAS, rng.randrange(1, 4)), rng.choice([0, 10**15, 2**61]))
        for _ in range(60):
            rng.choice(
                [story.refund, story.step, *[lambda s=story: s.decide("hit")] * 3, lambda s=story: s.decide("peek")]
            )()
        seen |= story.seen
        story.rig.store._check()
    ends = {"passed", "refused", "never"}
    assert {mode[:2] for mode in seen if len(mode) == 3} == {(mode, end) for mode in ("hit", "peek") for end in ends}
    assert {("refund", True), ("refund", False)} <= seen


def test_random_programs_with_reservations_core_and_reference_agree():
    """Without refunds, after which the core may leave a slot empty; test_limit_bounds.py has them together."""
    seen = set()
    for number in rounds(150, soak=4_000):
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
    entries = [
        ("a", ("fixed-window", 9, 10, None)),
        ("b", ("sliding-window", 9, 10, None)),
        ("c", ("gcra", 1, 10, None)),
    ]
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
            with pytest.raises(
                goblin.WrongTypeError, match="^Operation against a key holding the wrong kind of value$"
            ):
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
            single = (
                call("k", limit, seconds, cost) if call else twin.store.gcra("k", limit, seconds, cost, burst=burst)
            )
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


def test_now_ns_is_the_latest_reading(rig):
    assert rig.store.now_ns() == 0
    rig.advance_ns(7)
    assert rig.store.now_ns() == 7
    rig.advance_ns(-3)
    assert rig.store.now_ns() == 7
