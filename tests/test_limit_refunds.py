"""`refund`, rule by rule: what a hit still weighs comes back, each limit by itself, and never more."""

import pytest

from engines import CORE

FIXED = ("fixed-window", 3, 10, None)
SLIDING = ("sliding-window", 3, 10, None)
GCRA = ("gcra", 3, 10, None)


@pytest.fixture
def rig():
    return CORE.make()


@pytest.fixture
def store(rig):
    return rig.store


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


@pytest.mark.parametrize("quota", [FIXED, SLIDING, GCRA])
def test_refund_of_stamps_with_a_time_below_zero_raises_and_gives_nothing(quota, store):
    stamps = hit(store, ("a", FIXED), ("k", quota))
    (first, (key, _, _, *states)) = stamps
    before = store.decide([("k", quota)], 1, "peek")
    with pytest.raises(ValueError, match="stamp=-1"):
        store.refund((first, (key, quota, -1, *states)), 1)
    assert store.get("a") == 1 and store.decide([("k", quota)], 1, "peek") == before
    assert store.refund(stamps, 1) is True and store.get("a") == 0
