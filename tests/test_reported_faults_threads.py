"""Faults met elsewhere in threads and forks (D18 to D22): one test for each, on the core.

See test_reported_faults.py for how to read these.
"""

import os
import random
import subprocess
import sys
import threading

import pytest

import goblin


@pytest.fixture
def clock():
    return goblin.ManualClock()


@pytest.fixture
def store(clock):
    return goblin.Counters(clock=clock)


def run_threads(*functions):
    """Start together, switch as often as Python can, end all, and raise what any of them raised."""
    errors, barrier = [], threading.Barrier(len(functions))
    usual_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def guarded(function):
        try:
            barrier.wait()
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), "a thread hangs"
    finally:
        sys.setswitchinterval(usual_interval)
    assert not errors, errors


def test_d18_expiry_beside_threads_raises_nothing_and_leaves_nothing_stuck(store, clock):
    """alisaifee/limits#26, #267, #352, tkem/cachetools#80, #115, #245, #288, mailgun/expiringdict#22: KeyError,
    "changed size during iteration" and the like when expiry met other threads. Here a thread moves the clock."""
    working = threading.Event()
    working.set()

    def mixed(number):
        rng = random.Random(number)
        choose = rng.randrange
        for n in range(50_000):
            key = f"k{choose(50)}"
            what = choose(8)
            if what == 0:
                assert store.pincrex(key, 1) >= 1
            elif what == 1:
                store.incrbound(key, 1, 10)
            elif what == 2:
                store.set(key, 1, px=1)
            elif what == 3:
                assert store.pttl(key) <= 1
            elif what == 4:
                store.delete(key)
            elif what == 5:
                store.getex(key, px=1)
            elif what == 6:
                store.mget(key, "k1", "k2")
            else:
                store.pexpire(key, 1)

    def mixed_then_stop(number):
        try:
            mixed(number)
        finally:
            if number == 0:
                working.clear()

    def scan():
        while working.is_set():
            for key, value in store.items():
                assert type(key) is str and type(value) is int
            list(store), store.most_common(3), store.sweep(), store.stats(), len(store)

    def tick():
        while working.is_set():
            clock.advance_ns(10**5)
            store.exists("k1")

    run_threads(*[lambda n=n: mixed_then_stop(n) for n in range(8)], scan, tick)
    store._check()
    # incrbound may have made a key without a TTL, which then stays by the rules; every other one goes.
    clock.advance(1)
    assert all(store.ttl(key) == -1 for key in store)


def test_d19_increments_of_many_threads_are_all_counted(store):
    """django/django#3347: a read-then-write increment lost updates between threads."""

    def count():
        for _ in range(10_000):
            store.incr("foo")
            store.increx("bar", 60)

    run_threads(*[count] * 20)
    assert store.get("foo") == store.get("bar") == 200_000


def test_d19_bounded_increments_of_many_threads_admit_exactly_the_bound(store):
    """The same report: incrbound and decrpos among threads never oversell."""
    store.set("stock", 1_000)
    admitted = []

    def take():
        admitted.append(sum(store.incrbound("q", 1, 1_000) != -1 for _ in range(1_000)))
        admitted.append(sum(store.decrpos("stock") != -1 for _ in range(1_000)))

    run_threads(*[take] * 8)
    assert sum(admitted) == 2_000
    assert store.get("q") == 1_000 and store.get("stock") == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_d22_fork_while_another_thread_works_leaves_the_child_able():
    """grantjenks/python-diskcache#300, OSGeo/PROJ#4231, contentauth/c2pa-python#285: it inherited a held lock."""
    program = """
import goblin, os, signal, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads, which is what is tested
store, going = goblin.Counters(), True
def work():
    n = 0
    while going:
        store.incr("c"); store.increx(f"k{n % 5000}", 60); store.delete(f"k{(n * 7) % 5000}"); n += 1
thread = threading.Thread(target=work, daemon=True)
thread.start()
for _ in range(300):
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a guard against hanging: the child dies of it
        store.incr("c"); store.mget("c", "k1"); store._check(); list(store); store.sweep()
        del store
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"child ended with {status}"
going = False
thread.join()
store._check()
print("fine")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "fine"), done.stderr
