"""Faults met elsewhere in memory handling and extension modules (D): one test for each, on the core.

See test_reported_faults.py for how to read these. What can take the interpreter down runs in a process of its own.
"""

import copy
import gc
import itertools
import os
import pickle
import random
import subprocess
import sys
import weakref

import pytest

import goblin
from catalogue import BY_KEY
from rows import state


@pytest.fixture
def clock():
    return goblin.ManualClock()


@pytest.fixture
def store(clock):
    return goblin.Counters(clock=clock)


def run_python(program, *flags, seed=None):
    environment = dict(os.environ) | ({} if seed is None else {"PYTHONHASHSEED": str(seed)})
    command = [sys.executable, *flags, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


def test_d1_minus_one_as_a_value_leaves_no_pending_exception(store):
    """cython/cython#4833, cython/cython#5247: `except -1` where -1 is a real result ends in SystemError."""
    store.set("m", 0)
    store.set("neg", -1, ex=60)
    calls = [
        (lambda: store.decr("n"), -1),
        (lambda: store.decr("m"), -1),
        (lambda: store.get("m"), -1),
        (lambda: store["m"], -1),
        (lambda: store.incr("m", 0), -1),
        (lambda: store.ttl("m"), -1),
        (lambda: store.pttl("m"), -1),
        (lambda: store.incrbound("m", 5, 1), -1),
        (lambda: store.incrbound("m", 0, 1), -1),
        (lambda: store.decrpos("m"), -1),
        (lambda: store.set("m", -1, get=True), -1),
        (lambda: store.getset("m", -1), -1),
        (lambda: store.getex("m"), -1),
        (lambda: store.getdel("m"), -1),
        (lambda: store.increx("neg", 60), 0),
        (lambda: store.decr("neg", ex=5), -1),
        (lambda: store.mget("neg"), [-1]),
        (lambda: store.incrbound("low", -1, 0, seconds=60), -1),
        (lambda: store.get("low", -1), -1),
        (lambda: store.get("absent", -1), -1),
        (lambda: store.ttl("absent"), -2),
        (lambda: [value for _, value in store.items() if value == -1][:1], [-1]),
        (lambda: store.most_common()[-1][1], -1),
    ]
    for number, (call, expected) in enumerate(calls):
        assert call() == expected, f"call {number}"
        assert store.get("zz") is None


def test_d3_constructor_that_fails_half_way_frees_nothing_twice():
    """flintlib/python-flint#87, cython/cython#911: the destructor then freed what was never made."""
    for args, kwargs in [
        (("x",), {}), ((-1,), {}), ((2**62,), {}), ((), {"capacity": None}), ((), {"clock": "x"}), ((None, None), {}),
    ]:  # fmt: skip
        for _ in range(20):
            with pytest.raises((TypeError, ValueError, MemoryError)):
                goblin.Counters(*args, **kwargs)
            with pytest.raises((TypeError, ValueError, OverflowError)):
                goblin.ManualClock(*(args or ("x",)), **kwargs, bogus=1)
    gc.collect()


def test_d5_unknown_constructor_arguments_raise_typeerror():
    """cython/cython#6141, cvc5/cvc5#12159: an argument-less __cinit__ swallows them."""

    class Sub(goblin.Counters):
        pass

    for kind in (goblin.Counters, Sub):
        for args, kwargs in [((1, 2, 3), {}), ((), {"bogus": 1}), ((None,), {}), ((), {"clock": None, "bogus": 1})]:
            with pytest.raises(TypeError):
                kind(*args, **kwargs)


def test_d6_copying_and_pickling_raise_a_typeerror_naming_the_class(store):
    """cython/cython#6307, Quansight-Labs/ndindex#191: pickling broke, or would have copied a raw pointer."""
    store.incr("k")
    attempts = [copy.copy, copy.deepcopy, pickle.dumps]
    attempts += [lambda s: copy.deepcopy({"s": s}), lambda s: pickle.dumps([s], 2)]
    for attempt in attempts:
        with pytest.raises(TypeError, match=r"Counters.*items\(\)"):
            attempt(store)
    with pytest.raises(TypeError):
        copy.copy(iter(store))
    assert state(store) == {b"k": (1, None)}


def test_d8_weak_references_work(store, clock):
    """apache/arrow#7758, NVIDIA/cuda-python#1533: extension types cannot be weakly referenced unless asked for."""
    assert weakref.ref(store)() is store
    table = weakref.WeakKeyDictionary()
    table[store] = 1
    assert table[store] == 1 and store in weakref.WeakSet([store])
    calls = []
    weakref.finalize(goblin.Counters(), calls.append, "gone")
    gc.collect()
    assert calls == ["gone"]


OVERRIDES = ["__hash__", "__eq__", "__str__", "__repr__", "__format__", "__bytes__"]
OVERRIDES += ["__len__", "__iter__", "__getitem__", "encode", "decode"]


@pytest.mark.parametrize("method", BY_KEY)
def test_d9_methods_of_a_key_subclass_never_run(method, store):
    """python/cpython#142731, #140551, #142637: user code run in mid-look-up changed the table: use after free."""
    ran = []

    def meddle(self, *args):
        ran.append(args)
        store.delete("k")
        for n in range(5_000):
            store.incr(f"z{n}")
        return 1

    text = type("K", (str,), dict.fromkeys(OVERRIDES, meddle))
    data = type("B", (bytes,), dict.fromkeys(OVERRIDES, meddle))
    if method in ("mset", "mset_second"):  # a dict would hash the key itself

        class Pairs:
            def __init__(self, key):
                self.key = key

            def items(self):
                return [(self.key, 5)]

        def call(s, key):
            return s.mset(Pairs(key))
    else:
        call = BY_KEY[method]
    for key in (text("k"), data(b"k"), text("ä" * 30), data(b"\xff" * 30)):
        plain = str.__str__(key) if isinstance(key, str) else bytes.__getitem__(key, slice(None))
        other = goblin.Counters(clock=goblin.ManualClock())
        for target in (store, other):
            target.clear()
            target.set(plain, 5, ex=100)
        assert call(store, key) == call(other, plain)
        assert state(store) == state(other) and not ran
    store._check()


def test_d9_arguments_that_run_code_run_before_the_table_is_touched(store):
    """The same kind: an iterable of keys, a mapping and a clock subclass can run anything, and must do so before."""

    def churn():
        store.delete("k")
        for n in range(3_000):
            store.incr(f"z{n}")
        store.clear()
        store.incr("k", 7)

    def keys():
        yield "k"
        churn()
        yield "k"

    class Pairs:
        def items(self):
            yield "k", 1
            churn()
            yield "other", Index()

    class Index:
        def __index__(self):
            churn()
            return 3

    class Truth:
        def __bool__(self):
            churn()
            return True

    store.incr("k")
    assert store.mget(keys()) == [7, 7]
    store.mset(Pairs())
    assert store.mget("k", "other") == [1, 3]
    assert store.incrby("k", Index()) == 10
    assert store.incrbound("k", Index(), Index()) == -1
    assert store.set("k", Index(), ex=Index(), xx=Truth(), get=Truth()) == 7
    assert store.expire("k", Index(), gt=Truth()) is False
    store._check()


def test_d9_a_mapping_with_hostile_keys_is_copied_first(store):
    """The same kind: values whose __index__ empties the very dict that is being stored."""
    pairs = {f"k{n}": n for n in range(100)}

    class Emptier:
        def __index__(self):
            pairs.clear()
            gc.collect()
            return 5

    pairs["k50"] = Emptier()
    store.mset(pairs)
    assert len(store) == 100 and store.get("k50") == 5 and store.get("k99") == 99


def test_d11_insert_that_makes_the_table_grow_goes_to_the_right_place(store):
    """borgbackup/borg#4967: the insert that triggered growth wrote to the old position."""
    seed = random.SystemRandom().randrange(2**32)
    rng, expected = random.Random(seed), {}
    for n in range(1, 200_001):
        key = f"k{n}"
        assert store.incr(key) == 1, f"seed {seed}"
        expected[key] = 1
        if n % 1_000 == 0:
            for _ in range(100):
                key = f"k{rng.randrange(1, n + 1)}"
                expected[key] += 1
                assert store.incr(key) == expected[key], f"seed {seed}, after {n}"
            store._check() if n % 20_000 == 0 else None
    assert dict(store.items()) == expected


@pytest.mark.parametrize("way", ["delete", "getdel", "del", "expiry", "expire"])
def test_d12_deletion_does_not_hide_other_keys(way, store, clock):
    """rofl0r/htab#1: a deletion cut the probe chain, and later keys were no longer found."""
    seed = random.SystemRandom().randrange(2**32)
    rng, count = random.Random(seed), 8_000
    for n in range(count):
        store.set(f"k{n}", n)
        if way == "expiry":
            store.expire(f"k{n}", n + 1)
    for n in range(count):
        key = f"k{n}"
        if way == "expiry":
            clock.advance(1)
            assert key not in store
        elif way == "del":
            del store[key]
        else:
            {"delete": store.delete, "getdel": store.getdel, "expire": lambda k: store.expire(k, 0)}[way](key)
        for _ in range(5):
            if n + 1 < count:
                other = rng.randrange(n + 1, count)
                assert store.get(f"k{other}") == other, f"seed {seed}: k{other} was lost with {key}"
        if n % 500 == 0:
            store._check()
    assert list(store) == []


def test_d14_no_path_keeps_or_loses_a_reference(store):
    """amitdev/lru-dict#25, amitdev/lru-dict#65: one path gave away a borrowed reference, another kept one too many."""
    key, data, amount = "key-" + str(id(store)), b"key-%d" % id(store), 10**15 + id(store)
    missing = object()
    watched = [key, data, amount, missing, None, store]
    failing = [lambda: store[key], lambda: store.incr(key, 1.5), lambda: store.set(data, key), lambda: store.incr(1.5)]
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(20_000):
        store.set(key, amount), store.get(key), store.get(data), store.get("none", missing), store.mget(key, data)
        store.mget([key, data]), list(store), list(store.items()), store.getset(data, amount), store.getdel(key)
        store.incr(key, amount), store.increx(data, 60), store.incrbound(key, 1, amount), store.expire(key, 60)
        store.mset({key: amount}), store.exists(key, data), key in store, store[key], store.most_common(1)
        store.delete(key, data)
        for call in failing:
            try:
                call()
            except (KeyError, TypeError, ValueError):
                pass
    after = [sys.getrefcount(thing) for thing in watched]
    assert before[:4] == after[:4]
    # All of the interpreter holds None: only a reference more or less in every round would show, as thousands.
    assert all(abs(one - other) < 100 for one, other in zip(before, after, strict=True)), (before, after)


def test_d16_clients_that_never_return_do_not_stay(store, clock):
    """kuadrant/limitador#71, better-auth/better-auth#7161: their entries stayed for ever. (More: test_memory.py.)"""
    most = 0
    for n in range(300_000):
        store.increx(f"client{n}", 1)
        if n % 10_000 == 9_999:
            most = max(most, store.stats().slots, len(store))
            clock.advance(1)
    assert most <= 25_000
    store.sweep()
    assert len(store) <= 10_000


def colliding(one, other):
    """All 16,384 strings of 14 blocks: equal under a hash that takes both blocks for the same."""
    return ["".join(blocks) for blocks in itertools.product((one, other), repeat=14)]


@pytest.mark.parametrize("blocks", [("Ez", "FY"), ("Aa", "BB")], ids=["djb2", "times 31"])
def test_d24_keys_chosen_to_collide_are_spread_like_any_others(blocks, store):
    """redis/redis#663, armon/bloomd#6, quinn-rs/quinn#88: attacker-chosen keys collided in an unseeded hash.

    A segment of colliding keys could not be split: slots and memory beside those of random keys show it, not time.
    """
    keys = colliding(*blocks)
    for key in keys:
        store.incr(key)
    other = goblin.Counters()
    for n in range(len(keys)):
        other.incr(f"{random.getrandbits(112):028x}")
    assert len(store) == len(other) == 16_384
    assert store.stats().slots <= 1.25 * other.stats().slots
    assert store.stats().memory_bytes <= 1.25 * other.stats().memory_bytes
    store._check()


def test_d24_layout_differs_between_hash_seeds():
    """The same reports: an order that is the same in every process can be worked out once, elsewhere."""
    # Within a segment records lie in the order of insertion: the seed shows where there are several.
    program = r"""
import goblin
store = goblin.Counters()
store.mset({f"k{n}": 1 for n in range(5_000)})
print(" ".join(store))
store.clear()
store.mset({f"\u00e4{n}": 1 for n in range(5_000)})
print(ascii(" ".join(store)))
store.clear()
store.mset({b"\xff%d" % n: 1 for n in range(5_000)})
print(b" ".join(store))
"""
    orders = [run_python(program, seed=seed).stdout.splitlines() for seed in (1, 2, 3, 1)]
    for kind in range(3):  # ASCII, other text, bytes: each is hashed on a way of its own
        assert len({order[kind] for order in orders}) == 3
        assert orders[0][kind] == orders[3][kind]


def test_d26_cycles_through_stores_and_clocks_are_collected():
    """cython/cython#2737, cython/cython#5053, ionelmc/python-lazy-object-proxy#6: such cycles were never collected."""

    class Store(goblin.Counters):
        pass

    class Clock(goblin.ManualClock):
        pass

    store = Store()
    store.me = store
    gone = [weakref.ref(store)]
    del store
    clock = Clock()
    clock.store = Store(clock=clock)
    clock.store.clock_again = clock
    clock.plain = goblin.Counters(clock=clock)
    gone += [weakref.ref(clock), weakref.ref(clock.store), weakref.ref(clock.plain)]
    del clock
    alone = Clock()
    alone.me = alone
    gone.append(weakref.ref(alone))
    del alone
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)


def test_d27_import_in_a_subinterpreter_works_or_says_why_not():
    """cython/cython#6445: modules of compiled code in sub-interpreters. The main interpreter's store is unharmed."""
    program = """
import goblin
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
store = goblin.Counters()
store.incr("k")
inside = '''
try:
    import goblin
    s = goblin.Counters()
    assert s.incr("k") == 1 and s.get("k") == 1
except ImportError as error:
    assert str(error), "no word why"
'''
for _ in range(3):
    other = interpreters.create()
    run = getattr(interpreters, "run_string")
    failed = run(other, inside)
    assert failed is None, failed
    interpreters.destroy(other)
    assert store.incr("k") > 1
store.mset({f"k{n}": n for n in range(5000)})
store._check()
assert len(list(store.items())) == 5001
print("fine")
"""
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    done = run_python(program)
    assert (done.returncode, done.stdout.strip()) == (0, "fine"), done.stderr
