"""Keys chosen to collide: the classic sets cost no more than random ones, and what does collide costs what it must."""

import itertools
import statistics
import time

import pytest

import goblin
from goblin import _core

force_hash = getattr(_core, "_force_hash", None)
needs_debug_build = pytest.mark.skipif(force_hash is None, reason="not a debug build: hashes cannot be forced")

ROUNDS = 7
GENEROUS = 3  # a ratio of medians within one run: one that degenerates is a hundred times slower
BLOCKS = 14  # 2 ** 14 = 16,384 strings


def combined(one, other):
    """All strings of 14 blocks of these two, which hash alike (under x33 or x31): so do all the strings."""
    return ["".join(blocks) for blocks in itertools.product((one, other), repeat=BLOCKS)]


COLLIDING = {
    "djb2": combined("Ez", "FY"),  # h = h * 33 + c
    "java": combined("Aa", "BB"),  # h = h * 31 + c, as in java.lang.String
    "equal_low_bits": [f"{number << 16:028b}" for number in range(1 << BLOCKS)],
    "counting": [f"{number:028d}" for number in range(1 << BLOCKS)],
}


def times_33(text):
    value = 5381
    for char in text:
        value = (value * 33 + ord(char)) & 0xFFFFFFFF
    return value


def times_31(text):
    value = 0
    for char in text:
        value = (value * 31 + ord(char)) & 0xFFFFFFFF
    return value


def test_the_classic_sets_do_collide_under_their_own_hashes():
    for name, hash_of in (("djb2", times_33), ("java", times_31)):
        assert len(set(COLLIDING[name])) == 16_384
        assert len({hash_of(text) for text in COLLIDING[name]}) == 1


def random_keys():
    mixed = [f"{number * 0x9E3779B97F4A7C15 % 2**64:028d}" for number in range(1 << BLOCKS)]
    assert len(set(mixed)) == len(mixed)
    return mixed


def filled(keys):
    store = goblin.Counters(clock=goblin.ManualClock())
    for key in keys:
        store.incr(key)
    return store


def seconds_of(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@pytest.mark.parametrize("name", COLLIDING)
def test_colliding_keys_take_the_memory_of_random_ones(name):
    keys = COLLIDING[name]
    store, other = filled(keys), filled(random_keys())
    assert len(store) == len(other) == len(keys) and store.mget(keys) == [1] * len(keys)
    # A flooded segment could not be parted, and would have doubled its index instead.
    assert store.stats().memory_bytes < 1.15 * other.stats().memory_bytes
    assert store.stats().slots < 1.15 * other.stats().slots
    store._check()


@pytest.mark.parametrize("name", COLLIDING)
def test_colliding_keys_take_the_time_of_random_ones(name):
    keys, others = COLLIDING[name], random_keys()
    filled(keys), filled(others)  # each str keeps its hash from here on
    times = [(seconds_of(lambda: filled(keys)), seconds_of(lambda: filled(others))) for _ in range(ROUNDS)]
    mine, theirs = (statistics.median(column) for column in zip(*times))
    assert mine < GENEROUS * theirs, f"{mine:.4f} s against {theirs:.4f} s"


# ---- ten thousand keys of one hash ---------------------------------------------------------------------------------

SAME = 10_000


@pytest.fixture
def one_hash():
    """From here on every key has this hash."""

    def force(value):
        force_hash(value)

    yield force
    force_hash(None)


@needs_debug_build
@pytest.mark.parametrize("value", [0, -1])
def test_one_hash_for_ten_thousand_keys_everything_is_right(one_hash, value):
    one_hash(value)
    store = goblin.Counters(clock=goblin.ManualClock())
    keys = [f"key{number}" + "z" * (number % 2 * 20) for number in range(SAME)]
    store.mset({key: number for number, key in enumerate(keys)})
    store._check()
    assert len(store) == SAME and store.mget(keys) == list(range(SAME))
    assert dict(store.items()) == {key: number for number, key in enumerate(keys)}
    assert store.get("absent") is None and "key" not in store
    for number, key in enumerate(keys):
        if number % 5:
            del store[key]
        else:
            store.expire(key, 60)
    store._check()
    assert sorted(store) == sorted(keys[::5])
    store.clock.advance(60)
    assert store.sweep() == SAME // 5 and len(store) == 0
    assert store.stats().memory_bytes < 100_000
    store._check()


@needs_debug_build
def test_one_hash_a_full_store_evicts_and_limits_as_ever(one_hash):
    one_hash(12345)
    store = goblin.Counters(clock=goblin.ManualClock(), max_keys=500, on_full="evict")
    while store.fixed_window("victim", 5, 60) >= 0:
        pass
    for number in range(5_000):
        store.fixed_window(f"flood{number}", 5, 60)
        assert len(store) <= 500
    assert store.fixed_window("victim", 5, 60) < 0
    store._check()


@needs_debug_build
def test_one_hash_a_call_costs_at_most_in_proportion_to_the_equal_hashes(one_hash):
    """The worst call: on an absent key, which must be compared with each. Four times as many cost about four times as much."""
    one_hash(7)
    stores = []
    for count in (SAME // 4, SAME):
        store = goblin.Counters()
        store.mset({f"key{number}": 1 for number in range(count)})
        stores.append(store)
    times = [[seconds_of(lambda s=s: [s.get("absent") for _ in range(20)]) for s in stores] for _ in range(ROUNDS)]
    medians = [statistics.median(column) for column in zip(*times)]
    assert medians[1] < GENEROUS * 4 * medians[0]


@needs_debug_build
def test_one_hash_a_key_of_another_hash_costs_no_more_than_one_of_them(one_hash):
    """It may lie in the same segment, and has to pass their slots; but it is compared with none of them."""
    others = [f"other{number}" for number in range(500)]
    store = filled(others)
    one_hash(hash("a hash that no other key has"))
    store.mset({f"key{number}": 1 for number in range(SAME)})
    equal = statistics.median(seconds_of(lambda: store.get("absent")) for _ in range(50))
    force_hash(None)
    other = statistics.median(seconds_of(lambda key=key: store.get(key)) for key in others)
    assert other < GENEROUS * equal
