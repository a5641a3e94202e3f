"""Many threads on one store: nothing is lost, nothing oversold, nothing half done.

Under a GIL the threads are switched as often as Python can; on a free-threaded build they run at once. Nothing here
looks at a clock on the wall. GOBLIN_SOAK=1: full size.
"""

import itertools
import os
import random
import subprocess
import sys
import sysconfig

import pytest

import goblin
from races import Work, race
from scale import SEED, size

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
THREADS = 16


@pytest.fixture
def clock():
    return goblin.ManualClock()


@pytest.fixture
def store(clock):
    return goblin.Counters(clock=clock)


# ---- Nothing is lost ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1, 1_000])
def test_increments_of_many_threads_are_all_counted(store, keys):
    names, each = [f"k{number}" for number in range(keys)], size(4_000, soak=100_000, least=1_000) // keys * keys

    def count(number):
        turn = itertools.cycle(names[number * keys // THREADS :] + names[: number * keys // THREADS])
        for name in itertools.islice(turn, each):
            store.incr(name)

    race(*[lambda n=n: count(n) for n in range(THREADS)])
    assert store.mget(names) == [THREADS * each // keys] * keys
    store._check()


def test_every_result_is_given_to_one_thread_only(store):
    each = size(1_000, soak=20_000)

    def count():
        return [store.incr("ticket") for _ in range(each)]

    tickets = sorted(itertools.chain(*race(*[count] * 8)))
    assert tickets == list(range(1, 8 * each + 1))


def test_sums_over_several_keys_in_one_step_stay_the_same(store):
    """mset and mget take all their keys at once, on whatever shards they lie."""
    names = [f"k{number}" for number in range(20)]
    work = Work(4)

    def write(number):
        for n in range(size(500, soak=20_000)):
            store.mset(dict.fromkeys(names if n % 2 else reversed(names), number * 1_000_000 + n))

    def look():
        while work.busy:
            assert len(set(store.mget(names))) == 1
            assert store.exists(*names) == len(names)

    store.mset(dict.fromkeys(names, 0))
    race(*[work.worker(write, number) for number in range(4)], look, look)


@pytest.mark.parametrize("ns", [1, -1])
def test_manual_clock_moved_by_many_threads_loses_nothing(ns):
    clock, each = goblin.ManualClock(10**9), size(2_000, soak=100_000)

    def move():
        for _ in range(each):
            clock.advance_ns(ns)
            clock.advance(0)

    race(*[move] * 8)
    assert clock.now_ns == 10**9 + 8 * each * ns


# ---- Nothing is oversold --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [1, 3])
def test_incrbound_of_many_threads_admits_exactly_its_bound(store, amount):
    bound, each = 1_000, size(300, soak=10_000, least=200)

    def take():
        return sum(store.incrbound("quota", amount, bound) != -1 for _ in range(each))

    assert sum(race(*[take] * 8)) == bound // amount
    assert store.get("quota") == bound // amount * amount


def test_decrpos_and_incr_of_many_threads_keep_the_stock_exact(store):
    each = size(1_000, soak=20_000)
    store.set("stock", 500)

    def sell():
        return sum(store.decrpos("stock") != -1 for _ in range(each))

    def refill():
        for _ in range(each // 4):
            store.incr("stock")
        return 0

    sold = sum(race(*[sell] * 6, refill, refill))
    assert store.get("stock") == 500 + 2 * (each // 4) - sold >= 0


def test_first_increx_raced_by_two_threads_gives_two_and_is_armed_once(store):
    names = [f"k{number}" for number in range(size(2_000, soak=100_000))]
    short, long = race(
        lambda: [store.increx(name, 60) for name in names],
        lambda: [store.increx(name, 90) for name in names],
    )
    assert all({a, b} == {1, 2} for a, b in zip(short, long))
    assert [store.ttl(name) for name in names] == [60 if first == 1 else 90 for first in short]


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_limiter_hit_by_many_threads_admits_exactly_its_limit(store, algorithm):
    limiter, each = goblin.RateLimiter("400/hour", algorithm=algorithm, store=store), size(200, soak=5_000, least=100)

    def hit():
        return sum(limiter.allow("ann") for _ in range(each))

    assert sum(race(*[hit] * 8)) == 400
    assert limiter.peek("ann").remaining == 0


# ---- Several limits in one step -------------------------------------------------------------------------------------


def test_several_limits_are_never_spent_one_without_the_other(store):
    entries = [("a", ("fixed-window", 700, 10**12, None)), ("b", ("fixed-window", 500, 10**12, None))]
    work, each = Work(6), size(300, soak=10_000, least=150)

    def hit(number):
        own, admitted = entries if number % 2 else entries[::-1], 0
        for n in range(each):
            stamps = store.decide(own, 1, "hit")[-1]
            admitted += stamps is not None
            if stamps is not None and n % 5 == 0:
                admitted -= store.refund(stamps, 1)
        return admitted

    def look():
        while work.busy:
            first, second = store.mget("a", "b")
            assert first == second and (first or 0) <= 500

    *admitted, _, _ = race(*[work.worker(hit, number) for number in range(6)], look, look)
    assert store.mget("a", "b") == [sum(admitted)] * 2


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_limiter_of_two_limits_admits_the_smaller_and_spends_both_alike(store, algorithm):
    both = goblin.RateLimiter("500/hour; 300/day", algorithm=algorithm, store=store)

    def hit():
        return sum(bool(both.hit("ann")) for _ in range(size(100, soak=5_000, least=60)))

    assert sum(race(*[hit] * 8)) == 300
    alone = {
        text: goblin.RateLimiter(text, algorithm=algorithm, store=store).peek("ann").remaining
        for text in ("500/hour", "300/day")
    }
    assert alone == {"500/hour": 200, "300/day": 0}


def test_refund_of_one_decision_by_many_threads_gives_back_once(store):
    limiter, count = goblin.RateLimiter("100000/hour; 200000/day", store=store), size(500, soak=20_000)
    kept, decisions = limiter.hit("ann"), [limiter.hit("ann") for _ in range(count)]

    def refund():
        return sum(limiter.refund(decision) for decision in decisions)

    assert sum(race(*[refund] * 8)) == count
    assert kept and limiter.peek("ann").remaining == 99_999


def test_reservations_given_up_by_many_threads_leave_none_behind(store, clock):
    entries = [[(f"k{number}", ("gcra", 1, 10**9, None))] for number in range(3)]

    def reserve_and_give_up(number):
        for n in range(size(300, soak=20_000)):
            stamps = store.decide(entries[(n + number) % 3], 1, "reserve")[-1]
            assert stamps is not None
            store.unreserve(stamps)

    race(*[lambda n=n: reserve_and_give_up(n) for n in range(8)])
    store._check()
    # The first slot of each key was taken at once, and so was never to be given up. Without a GIL, one given up at the
    # very moment when another thread gives up the last may stay until its time as well.
    assert FREE_THREADED or [store.pttl(f"k{number}") for number in range(3)] == [1_000] * 3
    clock.advance(8 * 3 * size(300, soak=20_000))
    assert store.sweep() <= 3 and len(store) == 0


# ---- Everything at once ---------------------------------------------------------------------------------------------


def mixed(store, clock, seed, count):
    """Random commands on few keys, with the clock moving; each result is one that some order of commands gives."""
    rng = random.Random(f"{SEED} {seed}")
    limiter = goblin.RateLimiter("20/second; 50/minute", algorithm="sliding-window", store=store, name="mixed")
    choices = [
        lambda key: store.pincrex(key, 2) >= 1,
        lambda key: store.incrbound(key, 1, 10, seconds=1) <= 10,
        lambda key: store.set(key, rng.randrange(5), px=rng.randrange(1, 4)),
        lambda key: -2 <= store.pttl(key) <= 1_000,
        lambda key: store.delete(key, "k1") in (0, 1, 2),
        lambda key: (store.getex(key, px=1) or 0) <= 10**6,
        lambda key: len(store.mget(key, "k2", "k3")) == 3,
        lambda key: store.pexpire(key, 1) in (True, False),
        lambda key: store.mset({key: 1, "k4": 2}) is None and store.expire("k4", 1) in (True, False),
        lambda key: limiter.refund(limiter.hit(key)) in (True, False),
        lambda key: store.set(f"{key}:{rng.randrange(10_000)}", 1, px=1),
        lambda key: clock.advance_ns(10**5) is None,
    ]
    for _ in range(count):
        assert rng.choice(choices)(f"k{rng.randrange(30)}")


@pytest.mark.parametrize("bounds", [{}, {"max_keys": 100, "on_full": "evict"}], ids=["unbounded", "evicting"])
def test_mixed_commands_beside_iteration_clear_stats_and_sweep_leave_the_store_whole(clock, bounds):
    store, work = goblin.Counters(clock=clock, **bounds), Work(6)

    def look():
        while work.busy:
            assert all(type(key) is str and type(value) is int for key, value in store.items())
            assert all(key.startswith("k1") for key in store.scan_iter("k1*"))
            assert len(store.most_common(3)) <= 3
            assert 0 <= len(store) <= bounds.get("max_keys", 2**31)
            stats = store.stats()
            assert stats.keys <= stats.slots and stats.memory_bytes > 0

    def tidy():
        while work.busy:
            store._check()
            assert store.sweep() >= 0
            store.clear()

    race(*[work.worker(mixed, store, clock, seed, size(1_500, soak=200_000)) for seed in range(6)], look, tidy)
    store._check()
    store.clear()
    assert len(store) == 0 and list(store) == []


def test_iteration_beside_writers_gives_what_stays_exactly_once(store):
    staying, work = {f"stay{number}" for number in range(3_000)}, Work(3)
    store.mset(dict.fromkeys(staying, 1))

    def write(number):
        for n in range(size(4_000, soak=500_000)):
            store.set(f"go{number}:{n}", 1, px=1 if n % 3 else None)
            store.delete(f"go{number}:{n - 500}")

    def look():
        while work.busy:
            seen = [key for key in store if key.startswith("stay")]
            assert len(seen) == len(staying) and set(seen) == staying

    race(*[work.worker(write, number) for number in range(3)], look, look)
    store._check()


def test_iterator_shared_by_threads_gives_each_key_once(store):
    values = {f"k{number}": number for number in range(size(10_000, soak=500_000))}
    store.mset(values)
    iterator = store.items()
    parts = race(*[lambda: list(iterator)] * 6)
    pairs = list(itertools.chain(*parts))
    assert len(pairs) == len(values) and dict(pairs) == values


def test_stores_made_and_dropped_by_many_threads_do_not_touch_each_other():
    shared = goblin.Counters()

    def make():
        for number in range(size(40, soak=2_000)):
            store = goblin.Counters(clock=goblin.ManualClock(), max_keys=None if number % 2 else 50)
            store.mset({f"k{n}": n for n in range(30)})
            rest = iter(store)
            next(rest)
            shared.incr("made")
            del store  # the iterator keeps it
            assert len(list(rest)) == 29

    race(*[make] * 8)
    assert shared.get("made") == 8 * size(40, soak=2_000)


def test_default_store_first_used_by_many_threads_is_one():
    before = goblin.set_default_store(None)
    try:
        for _ in range(size(20, soak=1_000)):
            goblin.set_default_store(None)
            stores = race(*[goblin.default_store] * 8)
            assert len({id(store) for store in stores}) == 1
    finally:
        goblin.set_default_store(before)


@pytest.mark.skipif(not FREE_THREADED, reason="this build has a GIL")
def test_stores_dropped_by_the_thousand_do_not_wait_for_the_collector():
    """The first few do: see FEW_STORES in _core.pyx."""
    program = """
import gc, goblin
gc.disable()
for _ in range(20_000):
    goblin.Counters().incr("k")
with open("/proc/self/status") as file:
    print(next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) < 200_000)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stdout + done.stderr


@pytest.mark.skipif(not FREE_THREADED, reason="this build has a GIL")
def test_import_does_not_switch_the_gil_on():
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    program = "import sys, goblin, goblin.testing; print(sys._is_gil_enabled(), goblin.Counters().incr('k'))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.split()) == (0, ["False", "1"]), done.stderr
