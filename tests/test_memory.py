"""What the compiled core keeps: expired entries are reclaimed without a thread, and memory is given back.

The bounds: under a steady load dead entries stay under about a tenth of the stored ones; a burst of short-lived keys
followed by hits on a few old ones gives its memory back (one hit in 64 pays for a share of the sweep).
"""

import gc
import itertools
import random
import subprocess
import sys

import pytest

import goblin

SECOND = 10**9


@pytest.fixture
def clock():
    return goblin.ManualClock()


@pytest.fixture
def store(clock):
    return goblin.Counters(clock=clock)


def dead_share(store):
    """Dead entries as a part of the stored ones; looking at all keys reclaims none."""
    stored = len(store)
    live = sum(1 for _ in store)
    assert len(store) == stored
    return (stored - live) / stored if stored else 0.0


# Steady loads: each is an endless program of one call at a time on keys that come and go; the clock moves 1 ms a call.


def fresh_keys(store, rng):
    for n in itertools.count():
        yield store.increx(f"k{n}", 5)


def fresh_keys_by_set(store, rng):
    for n in itertools.count():
        yield store.set(f"k{n}", 1, px=5_000)


def fresh_keys_by_incrbound(store, rng):
    for n in itertools.count():
        yield store.incrbound(f"k{n}", 1, 10, seconds=5)


def fresh_keys_of_many_ttls(store, rng):
    for n in itertools.count():
        yield store.pincrex(f"k{n}", rng.choice([10, 100, 1_000, 10_000]))


def fresh_keys_among_hits(store, rng):
    store.mset({f"old{n}": 1 for n in range(100)})
    for n in itertools.count():
        yield store.increx(f"k{n}", 5)
        for hit in range(9):
            yield store.incr(f"old{hit}")


def fresh_keys_beside_many_that_stay(store, rng):
    store.mset({f"old{n}": 1 for n in range(20_000)})
    for n in itertools.count():
        yield store.increx(f"k{n}", 20)


def returning_clients(store, rng):
    while True:
        yield store.increx(f"client{int(rng.expovariate(1 / 2_000))}", 2)


def keys_armed_after_they_were_made(store, rng):
    for n in itertools.count():
        store.incr(f"k{n}")
        yield store.expire(f"k{n}", 5)


def windows_with_refusals(store, rng):
    for n in itertools.count():
        for _ in range(4):
            yield store.incrbound(f"k{n}", 1, 2, seconds=5)


LOADS = [
    fresh_keys, fresh_keys_by_set, fresh_keys_by_incrbound, fresh_keys_of_many_ttls, fresh_keys_among_hits,
    fresh_keys_beside_many_that_stay, returning_clients, keys_armed_after_they_were_made, windows_with_refusals,
]  # fmt: skip


@pytest.mark.parametrize("load", LOADS, ids=[load.__name__ for load in LOADS])
def test_sweep_under_a_steady_load_keeps_dead_entries_under_a_tenth(load, store, clock):
    seed = 20_261
    calls = load(store, random.Random(seed))
    for call in range(100_000):
        next(calls)
        clock.advance_ns(10**6)
        if call >= 40_000 and call % 5_000 == 0:  # the load is steady by now
            share = dead_share(store)
            assert share <= 0.10, f"{load.__name__}, call {call}: {share:.3f} of {len(store)} entries are dead"
    store._check()


def test_sweep_of_clients_that_never_return_keeps_memory_of_the_living(store, clock):
    """kuadrant/limitador#71: two million different keys pass; ten thousand are alive at a time."""
    most_keys = most_slots = most_bytes = 0
    for tick in range(200):
        for n in range(10_000):
            store.increx(b"%d" % (tick * 10_000 + n), 1)
        stats = store.stats()
        most_keys, most_slots = max(most_keys, stats.keys), max(most_slots, stats.slots)
        most_bytes = max(most_bytes, stats.memory_bytes)
        clock.advance(1)
    assert most_keys <= 20_000 and most_slots <= 25_000 and most_bytes <= 25_000 * 80
    assert len(store) <= 20_000
    store.sweep()
    assert len(store) <= 10_000
    assert store.stats().expired + len(store) == 2_000_000


HITS = {
    "incr": lambda s: s.incr("hot"),
    "increx": lambda s: s.increx("hot", 60),
    "incrbound": lambda s: s.incrbound("hot", 1, 10**9),
    "incrbound_refused": lambda s: s.incrbound("hot", 1, -1),
    "decrpos": lambda s: s.decrpos("hot"),
    "get": lambda s: s.get("hot"),
    "getitem": lambda s: s["hot"],
    "contains": lambda s: "hot" in s,
    "ttl": lambda s: s.ttl("hot"),
    "set": lambda s: s.set("hot", 5),
    "mget": lambda s: s.mget("hot", "hot"),
    "exists": lambda s: s.exists("hot"),
    "expire": lambda s: s.expire("hot", 10_000),
    "get_of_an_absent_key": lambda s: s.get("absent"),
}


@pytest.mark.parametrize("hit", HITS)
def test_sweep_burst_then_hits_on_one_key_gives_the_memory_back(hit, store, clock):
    store.set("hot", 5)
    for n in range(20_000):
        store.increx(f"burst{n}", 1)
    burst = store.stats()
    clock.advance(1)
    call = HITS[hit]
    # Each 64th call looks at eight entries at least: 20,000 dead ones are gone after 160,000 calls at the latest.
    for _ in range(170_000):
        call(store)
    after = store.stats()
    assert after.keys == 1 and after.expired == 20_000
    assert after.memory_bytes < burst.memory_bytes / 50
    store._check()


def test_sweep_by_hand_reclaims_all_and_gives_the_memory_back(store, clock):
    for n in range(50_000):
        store.increx(f"k{n}", 1 + n % 2)
    full = store.stats().memory_bytes
    clock.advance(1)
    before = len(store)
    assert store.sweep() == before - 25_000
    assert len(store) == 25_000 and store.stats().memory_bytes < full * 0.75
    clock.advance(1)
    assert store.sweep() == 25_000
    assert len(store) == 0 and store.stats().memory_bytes < full / 50
    assert store.stats().expired == 50_000
    store._check()


def test_mass_deletion_gives_the_memory_back_and_leaves_nothing_to_walk(store):
    """redis/redis#1993: after a mass deletion one step of a scan walked millions of empty buckets."""
    keys = [f"k{n}" for n in range(300_000)]
    for key in keys:
        store.incr(key)
    full = store.stats()
    random.Random(1).shuffle(keys)
    for key in keys:
        del store[key]
    empty = store.stats()
    assert empty.keys == 0 and empty.slots <= 1_000 and empty.memory_bytes < full.memory_bytes / 500
    assert list(store) == list(store.items()) == list(store.scan_iter(match="k*")) == []
    store._check()


@pytest.mark.parametrize("way", ["delete", "delete_many", "getdel", "expire", "clear", "overwrite"])
def test_memory_every_way_of_losing_keys_gives_it_back(way, store, clock):
    keys = [f"{n:030}" for n in range(20_000)]
    store.mset(dict.fromkeys(keys, 1))
    full = store.stats().memory_bytes
    if way == "delete_many":
        assert store.delete(*keys) == 20_000
    elif way == "clear":
        store.clear()
    elif way == "overwrite":  # keys that pass through: always 20,000 different ones
        for n, key in enumerate(keys):
            store.getdel(key)
            store.incr(f"{n:031}")
        assert store.stats().memory_bytes < full * 1.5
        return
    else:
        for key in keys:
            {"delete": store.delete, "getdel": store.getdel, "expire": lambda k: store.expire(k, -1)}[way](key)
    stats = store.stats()
    assert stats.keys == 0 and stats.memory_bytes < full / 50
    store._check()


def test_memory_half_deleted_at_random_gives_some_back(store):
    store.mset({f"k{n}": 1 for n in range(100_000)})
    full = store.stats().memory_bytes
    rng = random.Random(7)
    for n in range(100_000):
        if rng.random() < 0.9:
            del store[f"k{n}"]
    assert store.stats().memory_bytes < full * 0.4
    store._check()


def test_memory_bytes_follow_the_keys_and_long_keys_count(store):
    empty = store.stats().memory_bytes
    store.set("x" * 65_535, 1)
    assert store.stats().memory_bytes >= empty + 65_535
    store.delete("x" * 65_535)
    assert store.stats().memory_bytes < empty + 10_000
    store.mset({f"{n:016}": 1 for n in range(100_000)})
    assert 24 * 100_000 < store.stats().memory_bytes < 100 * 100_000


def test_memory_of_the_process_comes_back_after_many_stores():
    """In a process of its own: what the operating system has given, before and after stores of every kind."""
    program = """
import gc, goblin, resource
def work():
    clock = goblin.ManualClock()
    store = goblin.Counters(clock=clock)
    store.mset({f"{n:0{10 + n % 30}}": n for n in range(20_000)})
    for n in range(5_000): store.increx(f"w{n}", 1)
    clock.advance(2)
    for n in range(0, 20_000, 2): store.delete(f"{n:0{10 + n % 30}}")
    iterator = iter(store); next(iterator)
    for bad in (1.5, "x"):
        try: store.mset({"a": 1, "b" * 100: bad})
        except (TypeError, ValueError): pass
    store.mget(*[f"w{n}" for n in range(100)]), store.most_common(5), list(store.scan_iter(match="*7*"))
for _ in range(5): work()
gc.collect()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(40): work()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert after - before < 8_000, f"{before} KB, then {after} KB"
"""
    if sys.platform == "win32":
        pytest.skip("no resource module")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_memory_errors_and_refusals_allocate_nothing(store):
    store.incr("k")
    before = store.stats()
    for n in range(1_000):
        assert store.incrbound(f"refused{n}", 5, 3) == -1
        assert store.decrpos(f"none{n}") == -1
        assert store.set(f"xx{n}", 1, xx=True) is False
        assert store.getex(f"absent{n}", ex=5) is None
        assert store.increx(f"gone{n}", 0) == 1
        for call in (lambda n=n: store.incr(f"bad{n}", 1.5), lambda n=n: store.set(f"bad{n}", 1, ex=0)):
            with pytest.raises((TypeError, ValueError)):
                call()
    assert store.stats() == before


def test_objects_calls_leave_none_behind(store):
    """Nothing that Python counts is left over after calls of every kind, refused ones included."""
    for _ in range(3):
        gc.collect()
        before = sys.getallocatedblocks()
        for n in range(2_000):
            store.increx("k", 60), store.get("k"), store.incrbound("q", 1, 10), store.mget("k", "q"), store.ttl("k")
            store.mset({"a": 1, "b": "2"}), list(store), list(store.items()), store.stats(), store.most_common(1)
            for bad in (1.5, None, "x", 2**70):
                try:
                    store.incr("k", bad)
                except (TypeError, OverflowError):
                    pass
                try:
                    store.set(bad, 5)
                except TypeError:
                    pass
        gc.collect()
        grown = sys.getallocatedblocks() - before
        store.clear()
    assert grown < 100, f"{grown} blocks more after 2,000 rounds"
