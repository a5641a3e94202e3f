"""A flood of keys cannot exhaust memory, nor free those who are limited. GOBLIN_SOAK=1: 20 million keys into 100,000."""

import pytest

from flood import WAYS, calls_to_displace, exhaust, full_store, resident_bytes
from goblin import CapacityError
from scale import rounds, size

MEGABYTE = 1 << 20
CHUNK_BYTES = 64 * 48  # the map's smallest step: which keys share a segment, and so whether it needs one, is chance


@pytest.mark.parametrize("limit", [1, 5])
@pytest.mark.parametrize("way", WAYS)
def test_flood_of_distinct_keys_stays_under_the_cap_and_the_limited_stay_limited(way, limit):
    max_keys = size(5_000, soak=100_000, least=1_000)
    flood = rounds(200_000, soak=20_000_000, least=40_000)
    store = full_store(max_keys)
    hit = WAYS[way](store, limit)
    assert exhaust(hit, "victim") == limit
    settled = most = memory = resident = 0
    for number in flood:
        hit(f"flood{number:012d}")
        if number % 1_000 == 0:
            most = max(most, len(store))
            if number == 4 * max_keys:
                settled, memory, resident = number, store.stats().memory_bytes, resident_bytes()
    assert settled, "the flood was too short to see memory settle"
    assert most <= max_keys and max_keys * 0.9 <= len(store) <= max_keys
    assert not hit("victim")
    assert store.stats().evicted >= 0.9 * (number - max_keys)
    assert store.stats().memory_bytes < 1.05 * memory + CHUNK_BYTES
    if resident is not None:
        assert resident_bytes() - resident < max(0.05 * resident, 4 * MEGABYTE)
    store._check()


@pytest.mark.parametrize("way", WAYS)
def test_flood_under_raise_refuses_new_keys_and_forgets_nobody(way):
    store = full_store(1_000, "raise")
    hit = WAYS[way](store, 5)
    assert exhaust(hit, "victim") == 5
    refused = 0
    for number in range(20_000):
        try:
            hit(f"flood{number}")
        except CapacityError:
            refused += 1
    assert refused >= 19_000 and len(store) <= 1_000 and store.stats().evicted == 0
    assert not hit("victim")
    store._check()


# What it takes to displace one key; docs/reliability.md says why, and bench/flood.py prints more of it.
MAX_KEYS = 1_000


@pytest.mark.parametrize("way", ["fixed_window", "sliding_window", "gcra"])
@pytest.mark.parametrize("limit", [1, 5])
def test_displacing_a_refusing_key_by_keys_that_do_not_refuse_never_succeeds(way, limit):
    assert calls_to_displace(way, limit, MAX_KEYS, limit, limit + 1, 50 * MAX_KEYS) is None


@pytest.mark.parametrize("way", ["fixed_window", "sliding_window", "gcra"])
@pytest.mark.parametrize("limit", [1, 5])
def test_displacing_a_refusing_key_takes_a_store_full_of_refusing_ones(way, limit):
    calls = calls_to_displace(way, limit, MAX_KEYS, limit + 1, limit + 1, 100 * MAX_KEYS * (limit + 1))
    assert calls is not None and calls >= 0.5 * MAX_KEYS * (limit + 1)


@pytest.mark.parametrize("count", [2, 5])
def test_displacing_a_higher_count_takes_a_store_full_of_counts_as_high(count):
    assert calls_to_displace("increx", 0, MAX_KEYS, count - 1, count, 50 * MAX_KEYS) is None
    calls = calls_to_displace("increx", 0, MAX_KEYS, count, count, 100 * MAX_KEYS * count)
    assert calls is not None and calls >= 0.5 * MAX_KEYS * count


def test_displacing_a_key_that_was_hit_once_takes_about_as_many_calls_as_there_are_keys():
    calls = calls_to_displace("fixed_window", 5, MAX_KEYS, 1, 1, 50 * MAX_KEYS)
    assert calls is not None and calls <= 4 * MAX_KEYS


def test_several_new_keys_at_once_find_room_however_many_of_them_lie_side_by_side():
    """They lie in runs at the ends of the map's segments, and are no part of any sample."""
    store = full_store(20_000)
    for number in range(20_000):
        store.increx(f"old{number}", 60)
    for count in (17, 1_000, 5_000, 19_900):
        store.mset({f"new{count}:{number}": 1 for number in range(count)})
        assert len(store) <= 20_000
        assert all(value == 1 for value in store.mget([f"new{count}:{number}" for number in range(count)]))
        store._check()
        store.delete(*[f"new{count}:{number}" for number in range(count)])
        for number in range(count):
            store.increx(f"old{count}:{number}", 60)


def test_several_new_keys_at_once_among_lasting_ones_raise_and_change_nothing():
    store = full_store(1_000)
    store.mset({f"lasting{number}": 1 for number in range(1_000)})
    with pytest.raises(CapacityError):
        store.mset({f"new{number}": 1 for number in range(500)})
    assert len(store) == 1_000 and store.get("new0") is None
    store._check()
