"""`decide(mode="reserve")` and `unreserve`: instants are handed out in order, and what is given up is free again."""

import gc
import operator
import random

import pytest

from engines import CORE
from limit_references import NEVER

SECOND = 10**9

FIXED = ("fixed-window", 3, 10, None)
SLIDING = ("sliding-window", 3, 10, None)
GCRA = ("gcra", 3, 10, None)


@pytest.fixture
def rig():
    return CORE.make()


@pytest.fixture
def store(rig):
    return rig.store


def test_reserve_is_for_gcra_only(store):
    for quota in (FIXED, SLIDING):
        with pytest.raises(ValueError, match="gcra"):
            store.decide([("a", GCRA), ("b", quota)], 1, "reserve")
    assert len(store) == 0


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
    for quotas in (
        [GCRA],
        [("gcra", 1, 100, None), ("gcra", 5, 50, None)],
        [("gcra", 5, 50, None), ("gcra", 1, 100, None)],
    ):
        waiting, twin = CORE.make(), CORE.make()
        entries = [(f"k{number}", quota) for number, quota in enumerate(quotas)]
        for _ in range(20):
            told = waiting.store.decide(entries, 1, "reserve")
            if told[0] < 0:
                break
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
    _, second, _ = waiters(store, 3)
    store.unreserve(second[-1])
    assert ahead(store) == 40
    assert reserve(store, ("k", ("gcra", 1, 10, None)))[4] == 40
    rig.advance_ns(25)  # in the empty slot: nobody is let in beside who has been told 30
    assert ahead(store) == 25


def test_unreserve_once_the_time_has_come_gives_nothing_back(rig):
    """Whoever need not wait, or has waited, has run: that is what refund() is for."""
    told = reserve(rig.store, ("k", GCRA))
    rig.store.unreserve(told[-1])
    assert rig.store.decide([("k", GCRA)], 1, "peek")[1] == 2
    assert rig.store.refund(told[-1], 1) is True and len(rig.store) == 0
    (waits,) = waiters(rig.store, 1)
    rig.advance_ns(10)
    rig.store.unreserve(waits[-1])
    assert ahead(rig.store) == 10


def test_unreserve_after_others_hit_leaves_their_hits(rig):
    store = rig.store
    (told,) = waiters(store, 1)
    rig.advance_ns(20)
    assert store.gcra("k", 1, 1e-8) == 0
    store.unreserve(told[-1])
    assert store.gcra("k", 1, 1e-8) == -10


def test_unreserve_after_the_key_was_deleted_or_replaced_changes_nothing(rig):
    for clear in (
        *(lambda s: s.delete("k"), lambda s: operator.delitem(s, "k"), lambda s: s.clear()),
        *(lambda s: s.set("k", 5), lambda s: s.mset({"k": 5})),
    ):
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
    stamps = store.decide([("k", GCRA), ("f", FIXED)])[-1]
    assert store.unreserve(stamps) is None
    assert store.get("f") == 1 and store.type("k") == "gcra"


@pytest.mark.parametrize("place", [3, 4])  # of the states before and after in a stamp
@pytest.mark.parametrize("state", [5, "ab", (1,), (1, 2, 3), [1, 2], ("1", 2), (1, 2.0)])
def test_unreserve_of_a_stamp_with_bad_states_raises_and_gives_nothing_up(place, state, store):
    (told,) = waiters(store, 1)
    (stamp,) = told[-1]
    with pytest.raises(TypeError, match="stamp"):
        store.unreserve((stamp[:place] + (state,) + stamp[place + 1 :],))
    assert ahead(store) == 20
    store.unreserve(told[-1])
    assert ahead(store) == 10


def test_given_up_slots_are_forgotten_with_time(rig):
    """Notes of slots that nobody asks for again must not pile up."""
    store = rig.store

    def notes():
        return sum(len(thing) for thing in gc.get_referents(store) if type(thing) is dict)

    for number in range(2_000):
        entry = (f"user:{number}", ("gcra", 1, 10, None))
        _, second, _ = (reserve(store, entry) for _ in range(3))
        store.unreserve(second[-1])  # stays empty: there is a waiter behind
        rig.advance_ns(1_000)
    assert notes() <= 10, notes()
