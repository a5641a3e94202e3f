"""What a second thread adds, on a free-threaded CPython: calls a second of two threads, divided by those of one.

    python3.14t bench/scaling.py [--rounds 15] [--calls 200000] [--results FOLDER]

In every round each work is timed with one thread and with two, one after the other; the ratio is taken within the
round, and the median of the rounds' ratios is printed with its quartiles. 2.00 would be perfect; with a GIL all are about
1. Each thread is timed by itself, from a common start, and the slower one counts.

    an empty method      of a Cython object that both threads share, references to it counted as usual
    different keys       increx, each thread on 1,000 keys of its own in one store
    the same keys        increx, both on the same 1,000 keys
    one key              increx, both on one key: a lock, and a cache line that goes to and fro
"""

import argparse
import os
import statistics
import sys
import threading
import time

import about
import goblin
from floor import load_empty


def increx(store, keys, calls):
    method = store.increx
    for _ in range(calls // len(keys)):
        for key in keys:
            method(key, 60)


def calls_a_second(store, keys_of_threads, calls):
    """Of all threads together; one thread for each list of keys."""
    start, took = threading.Barrier(len(keys_of_threads)), []

    def run(keys):
        start.wait()
        begin = time.perf_counter_ns()
        increx(store, keys, calls)
        took.append(time.perf_counter_ns() - begin)

    threads = [threading.Thread(target=run, args=(keys,)) for keys in keys_of_threads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(threads) * calls / max(took) * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=200_000, help="of each thread, a multiple of 1,000")
    about.add_options(parser)
    options = parser.parse_args()
    said = about.begin()

    first, second, one = [[f"rate:{who}{number}" for number in range(1_000)] for who in "ab"] + [["rate:ann"]]
    works = {
        "an empty method": (load_empty()(), first, second),
        "different keys": (goblin.Counters(), first, second),
        "the same keys": (goblin.Counters(), first, first[::-1]),
        "one key": (goblin.Counters(), one, one),
    }
    ratios, singles = {name: [] for name in works}, {name: [] for name in works}
    for number in range(options.rounds + 1):
        for name, (store, mine, theirs) in works.items():
            alone = calls_a_second(store, [mine], options.calls)
            both = calls_a_second(store, [mine, theirs], options.calls)
            if number > 0:  # the first warms up
                ratios[name].append(both / alone)
                singles[name].append(1e9 / alone)

    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"Python {sys.version.split()[0]}, GIL {'on' if gil else 'off'}, {cores} cores, load {os.getloadavg()[0]:.1f}, "
          f"{options.rounds} rounds of {options.calls:,} calls a thread")  # fmt: skip
    print(f"{'median of each':24}{'one thread, ns a call':>24}{'two threads / one (quartiles)':>34}")
    rows = []
    for name, found in ratios.items():
        low, middle, high = statistics.quantiles(found, n=4)
        alone = statistics.median(singles[name])
        print(f"{name:24}{alone:24.1f}{middle:20.2f} ({low:.2f}-{high:.2f})")
        rows.append({"work": name, "one_thread_ns": alone, "ratio": middle, "low": low, "high": high})
    if options.results:
        print(f"written: {about.write('scaling', said, {'rows': rows}, options.results).name}")


if __name__ == "__main__":
    main()
