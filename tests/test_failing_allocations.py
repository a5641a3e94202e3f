"""Memory that runs out: each allocation of the map in turn fails, in every method. Nothing is lost, nothing half done.

Only a debug build can be told to fail (GOBLIN_DEBUG=1; `.ci/run` tests one).
"""

import sysconfig

import pytest

import goblin
from catalogue import BY_KEY
from goblin import _core

fail_allocation = getattr(_core, "_fail_allocation", None)
allocations = getattr(_core, "_allocations", None)

pytestmark = [
    pytest.mark.skipif(fail_allocation is None, reason="not a debug build: allocations cannot be made to fail"),
    pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="the hooks need the GIL"),
]

LONG = "x" * 100
GCRA = ("gcra", 3, 10**9, None)
FIXED = ("fixed-window", 3, 10**9, None)
SLIDING = ("sliding-window", 3, 10**9, None)
MOST_ALLOCATIONS = 2_000  # of one call; a test that needs more does not end


@pytest.fixture(autouse=True)
def none_fails_afterwards():
    yield
    fail_allocation(0)


# ---- Stores, each about to need memory in another place. (Made anew for each n, always alike.) ------------------------


def make(**options):
    return goblin.Counters(clock=goblin.ManualClock(), **options)


def empty():
    return make()


def with_the_key():
    store = make()
    store.set("new", 5, ex=50)
    store.set(LONG, 5, ex=50)
    return store


def before_a_chunk():
    store = make()
    store.mset({f"k{number}": number for number in range(64)})
    return store


def split_point():
    """How many keys of the name k<number> fit before the first segment splits: the insert that asks for most memory."""
    store = make()
    for number in range(2_000):
        before = allocations()
        store.incr(f"k{number}")
        if allocations() - before >= 8:
            return number
    raise AssertionError("no insert has split the segment")


def before_a_split():
    store = make()
    store.mset({f"k{number}": number for number in range(split_point())})
    return store


def full():
    store = make(max_keys=20, on_full="evict")
    for number in range(20):
        store.increx(f"{number}" * 15, 60)
    return store


def full_of_expired():
    store = full()
    store.clock.advance(60)
    return store


STORES = [empty, with_the_key, before_a_chunk, before_a_split, full, full_of_expired]

# ---- Calls -----------------------------------------------------------------------------------------------------------


def limiter(text, **options):
    return lambda store: goblin.RateLimiter(text, store=store, **options)


ONE_KEY = BY_KEY | {
    "fixed_window": lambda s, k: s.fixed_window(k, 3, 60),
    "sliding_window": lambda s, k: s.sliding_window(k, 3, 60),
    "gcra": lambda s, k: s.gcra(k, 3, 60),
    "decide": lambda s, k: s.decide([(k, GCRA)]),
    "decide_peek": lambda s, k: s.decide([(k, GCRA)], 1, "peek"),
    "reserve": lambda s, k: s.decide([(k, GCRA)], 1, "reserve"),
    "type": lambda s, k: s.type(k),
    "limiter_allow": lambda s, k: limiter("3/minute")(s).allow(k),
    "limiter_hit": lambda s, k: bool(limiter("3/minute", algorithm="gcra")(s).hit(k)),
    "limiter_peek": lambda s, k: bool(limiter("3/minute", algorithm="sliding-window")(s).peek(k)),
    "limiter_reset": lambda s, k: limiter("3/minute")(s).reset(k),
    "limiter_two_limits": lambda s, k: bool(limiter("3/minute; 9/hour")(s).hit(k)),
    "limiter_refund": lambda s, k: (lambda rate: rate.refund(rate.hit(k)))(limiter("3/minute")(s)),
}
SEVERAL_KEYS = {
    "mset": lambda s: s.mset({f"{number}" * 12: number for number in range(18)}),
    "mset_many": lambda s: s.mset({f"many{number}": number for number in range(150)}),
    "mset_partly_there": lambda s: s.mset({"k1": 5, LONG + "1": 1, "k2": 5, LONG + "2": 2}),
    "decide_three": lambda s: s.decide([("a" * 30, GCRA), ("b" * 30, SLIDING), ("c" * 30, FIXED)]),
    "delete": lambda s: s.delete("new", LONG, *[f"k{number}" for number in range(1_700)]),
    "mget": lambda s: s.mget("new", LONG, "absent"),
    "exists": lambda s: s.exists("new", LONG, "absent"),
}
WHOLE = {
    "iterate": lambda s: sorted(s),
    "items": lambda s: sorted(s.items()),
    "scan_iter": lambda s: sorted(s.scan_iter("*1*")),
    "most_common": lambda s: sorted(s.most_common()),
    "most_common_three": lambda s: sorted(value for _, value in s.most_common(3)),
    "sweep": lambda s: s.sweep(),
    "clear": lambda s: s.clear(),
    "len": lambda s: len(s),
    "stats": lambda s: s.stats().keys,
    "repr": lambda s: repr(s),
}
CALLS = (
    {f"{name}-short": lambda s, call=call: call(s, "new") for name, call in ONE_KEY.items()}
    | {f"{name}-long": lambda s, call=call: call(s, LONG) for name, call in ONE_KEY.items()}
    | SEVERAL_KEYS
    | WHOLE
)


def content(store):
    """All that a caller could see of a store."""
    seen = {}
    for key in store:
        kind = store.type(key)
        seen[key] = (kind, store.pttl(key), store.get(key) if kind == "counter" else None)
    return seen


def outcome(call, store):
    try:
        return call(store)
    except (KeyError, goblin.CapacityError, goblin.WrongTypeError) as error:
        return type(error)


@pytest.mark.parametrize("make_store", STORES, ids=lambda make_store: make_store.__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_each_allocation_of_a_call_fails_in_turn_it_raises_memory_error_and_changes_nothing(call, make_store):
    undisturbed = make_store()
    expected = outcome(call, undisturbed)
    after = content(undisturbed)
    for n in range(1, MOST_ALLOCATIONS):
        store = make_store()
        before = content(store)
        asked = allocations()
        fail_allocation(n)
        try:
            got = outcome(call, store)
        except MemoryError:
            got = MemoryError
        fail_allocation(0)
        reached = allocations() - asked >= n
        store._check()
        if got is MemoryError:
            assert reached and content(store) == before, f"allocation {n}"
            assert outcome(call, store) == expected, f"allocation {n}: the same call, with memory again"
            store._check()
        else:  # not reached, or one it could do without: to give memory back, or to swap a full list for a small one
            assert got == expected, f"allocation {n}"
        assert content(store) == after, f"allocation {n}"
        if not reached:
            break
    else:
        raise AssertionError("more allocations than expected")


def test_each_allocation_of_a_new_store_fails_in_turn_it_raises_memory_error():
    failed = 0
    for n in range(1, MOST_ALLOCATIONS):
        fail_allocation(n)
        try:
            goblin.Counters()
            break
        except MemoryError:
            failed += 1
    fail_allocation(0)
    assert failed >= 2


def test_iteration_meets_a_failure_and_goes_on_where_it_was():
    store = make()
    store.mset({f"k{number}": number for number in range(5_000)})
    walk, seen, failed = iter(store), [], 0
    for number in range(5_000):
        if number % 10 == 0:
            fail_allocation(1)
        try:
            seen.append(next(walk))
        except MemoryError:
            failed += 1
        fail_allocation(0)
    seen += walk
    assert failed >= 1 and sorted(seen) == sorted(store)


def test_a_program_that_meets_failures_all_the_time_loses_nothing():
    store, model = make(), {}
    failed = 0
    for number in range(20_000):
        key = f"key{number * 7919 % 3_000}" + "y" * (number % 3 * 10)
        fail_allocation(1 if number % 3 else 2)
        try:
            if number // 5_000 % 2:
                store.delete(key)
                model.pop(key, None)
            else:
                value = store.incr(key)
                model[key] = value
        except MemoryError:
            failed += 1
        fail_allocation(0)
    store._check()
    assert failed > 100 and dict(store.items()) == model
