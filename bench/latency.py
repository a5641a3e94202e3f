"""The longest single call: each one is stamped, by a compiled loop (stamps.pyx). Linux only.

    python bench/latency.py [--processes 3] [--results FOLDER] [--small]

  * growing: increx on 5,000,000 new keys; beside it a dict, that is `d[key] = d.get(key, 0) + 1` on the same keys;
  * live: increx on a million live keys in random order;
  * expiring: increx on 100,000 live keys, while a million others reach their deadline all at once;
  * empty: an empty method, which has no pauses of its own: what is seen there is the machine's.

Each in fresh processes, whose medians are printed. Calls during which the core was given to another process are
dropped. What the machine under a virtual machine takes away cannot be seen from inside, and stays in.
"""

import argparse
import array
import gc
import json
import random
import statistics
import subprocess
import sys
import time

import about
from floor import load

SEED = 20_240_229
TTL = 3_600
PARTS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


def room_for(keys):
    """One time for each call. From here on the garbage collector is off: its pauses are Python's own."""
    gc.disable()
    return array.array("q", bytes(8 * len(keys)))


def growing(keys):
    import goblin

    names = [f"rate:user{number:09}" for number in range(keys)]
    times = room_for(names)
    load("stamps").increx_calls(goblin.Counters(), names, TTL, times)
    return times


def dict_growing(keys):
    names = [f"rate:user{number:09}" for number in range(keys)]
    times = room_for(names)
    load("stamps").dict_calls({}, names, times)
    return times


def filled(store, names, seconds=TTL):
    for name in names:
        store.increx(name, seconds)


def live(keys):
    import goblin

    names, store = [f"rate:user{number:09}" for number in range(keys)], goblin.Counters()
    filled(store, names)
    random.Random(SEED).shuffle(names)
    names *= 2
    times = room_for(names)
    load("stamps").increx_calls(store, names, TTL, times)
    return times


def expiring(keys):
    import goblin

    store = goblin.Counters()
    others = [f"rate:user{number:09}" for number in range(keys // 10)]
    filled(store, others)
    random.Random(SEED).shuffle(others)
    others *= 40
    times = room_for(others)
    increx_calls = load("stamps").increx_calls
    # All at one instant, some time after the last of them is made.
    deadline = time.monotonic() + 1 + keys * 1.5e-6
    names = [f"k{number:015}" for number in range(keys)]
    for name in names:
        store.pincrex(name, max(1, int(1_000 * (deadline - time.monotonic()))))
    assert time.monotonic() < deadline, "this machine is too slow for so many keys"
    before = store.stats().expired
    while time.monotonic() < deadline - 0.001:
        pass
    increx_calls(store, others, TTL, times)
    assert store.stats().expired - before > keys // 2, "they did not expire under the load"
    return times


def empty(keys):
    names = [f"rate:user{number:09}" for number in range(keys)] * 4
    times = room_for(names)
    load("stamps").increx_calls(load("empty").Empty(), names, TTL, times)
    return times


SITUATIONS = {"growing": growing, "dict growing": dict_growing, "live": live, "expiring": expiring, "empty": empty}
KEYS = {"growing": 5_000_000, "dict growing": 5_000_000, "live": 1_000_000, "expiring": 1_000_000, "empty": 500_000}


def summary(times):
    """Parts, the longest, and the tail: [[one in how many calls takes at least, ns], ...]."""
    kept = sorted(took for took in times if took >= 0)
    found = {name: kept[min(int(part * len(kept)), len(kept) - 1)] for name, part in PARTS.items()}
    tail = []
    for step in range(10 * len(str(len(kept)))):
        one_in = 10 ** (step / 10)
        if one_in > len(kept):
            break
        tail.append([round(one_in, 1), kept[min(len(kept) - int(len(kept) / one_in), len(kept) - 1)]])
    tail.append([len(kept), kept[-1]])
    return {**found, "longest": kept[-1], "calls": len(times), "dropped": len(times) - len(kept), "tail": tail}


def in_fresh_process(*call):
    command = [sys.executable, __file__, "--call", json.dumps(call)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


AIMS = [  # P7: situation, figure, at most so many nanoseconds
    ("live", "p99.99", 5_000),
    ("growing", "p99.9", 5_000),
    ("growing", "longest", 200_000),
    ("live", "longest", 200_000),
    ("expiring", "longest", 200_000),
]


def judged(found):
    for situation, figure, at_most in AIMS:
        middle = statistics.median(run[figure] for run in found[situation])
        yield {
            "mark": "P7", "text": f"{situation}: {figure}, µs", "figure": middle / 1_000, "at_most": at_most / 1_000,
            "verdict": "ok" if middle <= at_most else "missed",
        }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--call", help=argparse.SUPPRESS)
    about.add_options(parser)
    options = parser.parse_args()
    if options.call:
        situation, keys = json.loads(options.call)
        print(json.dumps(summary(SITUATIONS[situation](keys))))
        return
    said = about.begin(about.pin())
    load("stamps"), load("empty")  # built here, not by the first process to be measured
    found = {}
    print(f"{'us a call':14}" + "".join(f"{name:>10}" for name in (*PARTS, "longest")) + f"{'dropped':>10}")
    for situation, keys in KEYS.items():
        found[situation] = []
        for number in range(options.processes):
            about.progress(f"longest call, {situation}: process {number + 1} of {options.processes}")
            found[situation].append(in_fresh_process(situation, keys // (50 if options.small else 1)))
        about.progress_ends()
        middle = {name: statistics.median(run[name] for run in found[situation]) for name in (*PARTS, "longest")}
        dropped = sum(run["dropped"] for run in found[situation])
        print(
            f"{situation:14}" + "".join(f"{ns / 1_000:10.2f}" for ns in middle.values()) + f"{dropped:10}", flush=True
        )
    rows = list(judged(found))
    for row in rows:
        print("{mark:5}{text:40}{figure:10.2f}, at most {at_most:g}: {verdict}".format(**row))
    if options.results:
        stamp = round(load("stamps").clock_ns(), 1)
        file = about.write("latency", said, {"stamp_ns": stamp, "runs": found, "targets": rows}, options.results)
        print(f"written: {file.name}")


if __name__ == "__main__":
    main()
