"""A bounded store: max_keys and on_full. Never more entries than allowed, and what must not be forgotten stays."""

import pytest

import goblin


@pytest.fixture
def clock():
    return goblin.ManualClock()


def bounded(clock, max_keys, on_full):
    return goblin.Counters(clock=clock, max_keys=max_keys, on_full=on_full)


GCRA = ("gcra", 1, 10**9, None)

CREATING = {
    "incr": lambda s, k: s.incr(k),
    "decr": lambda s, k: s.decr(k),
    "increx": lambda s, k: s.increx(k, 60),
    "pincrex": lambda s, k: s.pincrex(k, 60),
    "incrbound": lambda s, k: s.incrbound(k, 1, 9),
    "set": lambda s, k: s.set(k, 1),
    "getset": lambda s, k: s.getset(k, 1),
    "mset": lambda s, k: s.mset({k: 1}),
    "fixed_window": lambda s, k: s.fixed_window(k, 9, 60),
    "sliding_window": lambda s, k: s.sliding_window(k, 9, 60),
    "gcra": lambda s, k: s.gcra(k, 9, 60),
    "decide": lambda s, k: s.decide([(k, GCRA)]),
    "decide_two": lambda s, k: s.decide([(k, GCRA), (k + "2", GCRA)]),
    "reserve": lambda s, k: s.decide([(k, GCRA)], 1, "reserve"),
}


@pytest.mark.parametrize("create", CREATING.values(), ids=CREATING)
@pytest.mark.parametrize("on_full", ["raise", "evict"])
def test_full_of_lasting_entries_new_key_raises_and_changes_nothing(clock, on_full, create):
    store = bounded(clock, 3, on_full)
    store.mset({"a": 1, "b": 2, "c": 3})
    with pytest.raises(goblin.CapacityError, match="max_keys"):
        create(store, "new")
    assert dict(store.items()) == {"a": 1, "b": 2, "c": 3} and len(store) == 3
    assert store.incr("a") == 2  # what is there goes on
    store._check()


@pytest.mark.parametrize("limits", ["5/minute", "5/minute; 100/hour"])
@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_full_store_a_limiter_raises_for_a_newcomer_and_serves_who_is_known(clock, algorithm, limits):
    store = bounded(clock, 2, "raise")
    limiter = goblin.RateLimiter(limits, algorithm=algorithm, store=store)
    while len(store) < 2:
        limiter.hit(len(store))
    decorated = goblin.rate_limit(limiter, key="{who}")(lambda who: who)
    for method in (limiter.hit, limiter.allow, limiter.acquire, decorated):
        with pytest.raises(goblin.CapacityError, match="max_keys"):
            method("newcomer")
    assert limiter.hit(0).remaining == 3 and len(store) == 2
    store._check()


@pytest.mark.parametrize("create", CREATING.values(), ids=CREATING)
def test_full_with_expired_entries_new_key_takes_their_place(clock, create):
    store = bounded(clock, 3, "raise")
    store.mset({"a": 1})
    store.increx("b", 1)
    store.increx("c", 1)
    clock.advance(1)
    create(store, "new")
    assert store.get("a") == 1 and "new" in store and len(store) <= 3
    assert store.stats().evicted == 0 and store.stats().expired == 2
    store._check()


@pytest.mark.parametrize("create", CREATING.values(), ids=CREATING)
def test_full_evict_entry_with_ttl_makes_room(clock, create):
    store = bounded(clock, 4, "evict")
    store.mset({"a": 1, "b": 1})
    store.increx("t", 60)
    store.increx("u", 60)
    create(store, "new")
    assert "new" in store and store.mget("a", "b") == [1, 1] and len(store) <= 4
    assert store.stats().evicted in (1, 2)
    store._check()


def test_several_keys_without_room_for_all_none_is_made_and_nothing_evicted(clock):
    store = bounded(clock, 4, "evict")
    store.mset({"a": 1, "b": 1})
    store.increx("t", 60)
    store.increx("u", 60)
    before = sorted(store.items())
    with pytest.raises(goblin.CapacityError):
        store.mset({"x": 1, "y": 1, "z": 1})
    assert sorted(store.items()) == before and store.stats().evicted == 0
    store.mset({"x": 1, "y": 1})
    assert sorted(store) == ["a", "b", "x", "y"] and store.stats().evicted == 2
    store._check()


def test_several_keys_its_own_entries_never_make_room_for_each_other(clock):
    store = bounded(clock, 2, "evict")
    store.increx("t", 60)
    store.increx("u", 60)
    with pytest.raises(goblin.CapacityError):
        store.mset({"t": 7, "u": 7, "new": 7})
    assert store.mget("t", "u", "new") == [1, 1, None] and store.ttl("t") == 60
    store.mset({"t": 7, "new": 7})
    assert store.mget("t", "u", "new") == [7, None, 7]


def test_mset_more_new_keys_than_the_store_may_hold_raises(clock):
    store = bounded(clock, 100, "evict")
    with pytest.raises(goblin.CapacityError):
        store.mset({str(i): i for i in range(101)})
    assert len(store) == 0
    store.mset({str(i): i for i in range(100)})
    assert len(store) == 100


@pytest.mark.parametrize("call", ["fixed_window", "sliding_window", "gcra"])
def test_evict_entry_that_refused_outlives_those_that_did_not(clock, call):
    store = bounded(clock, 16, "evict")
    while getattr(store, call)("victim", 5, 60) >= 0:
        pass
    for number in range(1000):
        getattr(store, call)(f"flood{number}", 5, 60)
        assert len(store) <= 16
    assert getattr(store, call)("victim", 5, 60) < 0
    assert store.stats().evicted >= 900


def test_evict_several_limits_refusing_one_is_marked(clock):
    limiter = goblin.RateLimiter("5/minute; 100/hour", store=bounded(clock, 32, "evict"))
    while limiter.allow("victim"):
        pass
    for number in range(1000):
        limiter.allow(number)
    assert not limiter.peek("victim").allowed


def test_evict_increx_higher_count_stays(clock):
    store = bounded(clock, 16, "evict")
    for _ in range(6):
        store.increx("victim", 60)
    for number in range(1000):
        store.increx(f"flood{number}", 60)
    assert store.get("victim") == 6


def test_evict_of_equal_counts_the_soonest_to_expire_goes(clock):
    store = bounded(clock, 8, "evict")
    for number in range(8):
        store.increx(f"k{number}", 60 + number)
    for number in range(3):
        store.set(f"lasting{number}", 1)
    assert sorted(store) == sorted([f"k{number}" for number in range(3, 8)] + [f"lasting{number}" for number in range(3)])


def test_evict_incrbound_refusal_marks_the_entry(clock):
    store = bounded(clock, 4, "evict")
    store.incrbound("quota", 1, 1, seconds=60)
    assert store.incrbound("quota", 1, 1, seconds=60) == -1
    for number in range(50):
        store.increx(f"flood{number}", 600)
    assert store.get("quota") == 1


def test_flood_of_keys_memory_stays_flat(clock):
    store = bounded(clock, 10_000, "evict")
    for number in range(20_000):
        store.increx(f"key:{number:012d}", 60)
    half = store.stats().memory_bytes
    for number in range(20_000, 200_000):
        store.increx(f"key:{number:012d}", 60)
    assert len(store) == 10_000
    assert store.stats().memory_bytes < 1.1 * half
    store._check()


def test_default_store_is_bounded_and_evicts():
    before = goblin.set_default_store(None)
    try:
        store = goblin.default_store()
        with pytest.raises(ValueError, match="called again with others"):
            store.__init__()
        store.__init__(max_keys=1_000_000, on_full="evict")  # the same again: nothing happens
    finally:
        goblin.set_default_store(before)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"max_keys": 0}, ValueError, r"max_keys=0 \(allowed: at least 1\)"),
        ({"max_keys": -1}, ValueError, r"max_keys=-1 \(allowed: at least 1\)"),
        ({"max_keys": 1.5}, TypeError, "max_keys=1.5"),
        ({"max_keys": True}, TypeError, "max_keys=True"),
        ({"max_keys": 2**63}, OverflowError, "max_keys="),
        ({"on_full": "drop"}, ValueError, r"on_full='drop' \(allowed: 'raise', 'evict'\)"),
        ({"on_full": None}, ValueError, r"on_full=None \(allowed: 'raise', 'evict'\)"),
    ],
)
def test_bound_malformed_raises_naming_value_and_range(arguments, error, text):
    with pytest.raises(error, match=text):
        goblin.Counters(**arguments)
