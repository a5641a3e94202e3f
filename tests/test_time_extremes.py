"""Time at its edges: jumps of 292 years, clocks set back or standing still, the last nanosecond, a million deaths at once."""

import pytest

import goblin
from catalogue import INT64_MAX
from scale import size

LAST_NS = INT64_MAX - 1  # of a deadline; INT64_MAX stands for "never"
YEARS_292 = INT64_MAX
SECOND = 10**9

LIMITS = {
    "fixed_window": lambda s, k: s.fixed_window(k, 5, 60),
    "sliding_window": lambda s, k: s.sliding_window(k, 5, 60),
    "gcra": lambda s, k: s.gcra(k, 5, 60),
}


def used_up(store, call, key="k"):
    admitted = 0
    while call(store, key) >= 0:
        admitted += 1
    return admitted


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("start", [0, 1, LAST_NS - 120 * SECOND])  # sliding windows look two periods ahead
def test_limits_at_any_time_admit_exactly_their_bound(limit, start):
    store = goblin.Counters(clock=goblin.ManualClock(start))
    assert used_up(store, LIMITS[limit]) == 5
    store._check()


@pytest.mark.parametrize("limit", LIMITS)
def test_clock_that_jumps_292_years_everything_is_over_and_counts_again(limit):
    clock = goblin.ManualClock()
    store = goblin.Counters(clock=clock)
    store.mset({"lasting": 7})
    store.increx("short", 60)
    assert used_up(store, LIMITS[limit]) == 5
    clock.advance_ns(YEARS_292 - 200 * SECOND)
    assert store.get("short") is None and store.get("lasting") == 7 and store.ttl("lasting") == -1
    assert used_up(store, LIMITS[limit]) == 5
    store._check()


def test_clock_at_its_very_end_what_never_expires_is_still_there():
    clock = goblin.ManualClock()
    store = goblin.Counters(clock=clock)
    store.incr("lasting")
    store.increx("short", 60)
    clock.advance_ns(YEARS_292)
    assert store.get("lasting") == 1 and "short" not in store
    assert store.sweep() <= 1 and list(store) == ["lasting"]
    with pytest.raises(ValueError, match="seconds=1"):
        store.increx("new", 1)  # there is no later time
    for call in LIMITS.values():
        with pytest.raises(ValueError, match="seconds=60"):
            call(store, "new")
    assert store.incr("lasting") == 2 and len(store) == 1
    store._check()


def test_deadline_at_the_last_nanosecond_holds_until_then_and_no_longer():
    clock = goblin.ManualClock(LAST_NS - SECOND)
    store = goblin.Counters(clock=clock)
    assert store.increx("k", 1) == 1 and store.incrbound("q", 1, 5, seconds=1) == 1
    with pytest.raises(ValueError, match="seconds=2"):
        store.increx("later", 2)
    clock.advance_ns(SECOND - 1)
    assert store.get("k") == 1 and store.pttl("k") == 1 and store.incr("k") == 2
    clock.advance_ns(1)
    assert store.get("k") is None and store.get("q") is None and list(store) == []
    store._check()


def test_deadline_one_nanosecond_beyond_the_last_is_refused_and_nothing_changes():
    clock = goblin.ManualClock(LAST_NS - SECOND + 1)
    store = goblin.Counters(clock=clock)
    for call in (
        lambda: store.increx("k", 1),
        lambda: store.set("k", 1, ex=1),
        lambda: store.incr("k", ex=1),
        lambda: store.incrbound("k", 1, 5, seconds=1),
        lambda: store.fixed_window("k", 5, 1),
    ):
        with pytest.raises(ValueError):
            call()
    assert len(store) == 0


@pytest.mark.parametrize("back", [1, SECOND, 3600 * SECOND, 10**18])
def test_clock_set_back_stands_still_until_it_has_caught_up(back):
    clock = goblin.ManualClock(2 * 10**18)
    store = goblin.Counters(clock=clock)
    store.increx("k", 60)
    clock.advance_ns(30 * SECOND)
    assert store.ttl("k") == 30
    clock.advance_ns(-back)
    assert store.ttl("k") == 30 and store.increx("k", 60) == 2
    clock.advance_ns(back)
    assert store.ttl("k") == 30
    clock.advance_ns(30 * SECOND)
    assert store.get("k") is None
    store._check()


def test_clock_thrown_to_and_fro_never_lets_time_run_backwards():
    clock = goblin.ManualClock(10**18)
    store = goblin.Counters(clock=clock)
    store.set("k", 1, px=10**9)
    left = store.pttl("k")
    for step in range(1, 2_000):
        clock.advance_ns((-1) ** step * step * 10**12)
        now = store.pttl("k")
        assert now <= left
        left = now
    store._check()


@pytest.mark.parametrize("limit", LIMITS)
def test_clock_set_back_292_years_frees_nobody(limit):
    clock = goblin.ManualClock(INT64_MAX - 200 * SECOND)
    store = goblin.Counters(clock=clock)
    assert used_up(store, LIMITS[limit]) == 5
    clock.advance_ns(-(INT64_MAX - 200 * SECOND))
    assert LIMITS[limit](store, "k") < 0
    store._check()


def test_clock_that_stands_still_nothing_expires_and_everything_works():
    store = goblin.Counters(clock=goblin.ManualClock())
    for number in range(20_000):
        store.increx(f"k{number % 5_000}", 1)
    assert len(store) == 5_000 and store.stats().expired == 0 and store.sweep() == 0
    assert all(value == 4 for _, value in store.items())
    for call in LIMITS.values():
        assert used_up(store, call, f"limited{id(call)}") == 5
    store._check()


MOST_REMOVED = 2 * 24 + 2  # by one call: a creation's share of the sweep, a tick's, and the key's own corpse


def test_keys_that_all_expire_in_one_nanosecond_burden_no_single_call():
    """Each call removes at most its share; when enough calls have come by, all are gone."""
    clock = goblin.ManualClock()
    store = goblin.Counters(clock=clock)
    count = size(50_000, soak=1_000_000, least=20_000)
    for number in range(count):
        store.increx(f"dying{number}", 1)
    for number in range(1_000):
        store.incr(f"lasting{number}")
    clock.advance_ns(SECOND - 1)
    assert store.stats().expired == 0
    clock.advance_ns(1)
    before, calls, most = 0, 0, 0
    while before < count:
        kind = calls % 4
        if kind == 0:
            store.increx(f"new{calls}", 60)
        elif kind == 1:
            store.incr(f"lasting{calls % 1_000}")
        elif kind == 2:
            store.increx(f"dying{calls % count}", 3600)
        else:
            store.get(f"dying{calls % count}")
        expired = store.stats().expired
        most = max(most, expired - before)
        before = expired
        calls += 1
        assert calls < 2 * count, f"{expired} of {count} reclaimed after {calls} calls"
    assert most <= MOST_REMOVED
    assert store.get("lasting0") >= 1
    store._check()


def test_keys_that_all_expire_in_one_nanosecond_several_keys_pay_for_each():
    clock = goblin.ManualClock()
    store = goblin.Counters(clock=clock)
    for number in range(20_000):
        store.increx(f"dying{number}", 1)
    clock.advance(1)
    before = store.stats().expired
    store.mset({f"new{number}": 1 for number in range(10)})
    # A share for each new key, and one where a part's 64th step comes due: there is one part under a GIL, else 64.
    assert 10 <= store.stats().expired - before <= (10 + 10) * 24
