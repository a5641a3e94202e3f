"""Ratios, measured in turn: goblin against the empty method and against the dict idiom.

    python bench/ratios.py [--rounds 31] [--only WORDS] [--json FILE]

Machines are noisy and drift, so no two figures taken minutes apart can be divided. Here every round times all
contenders one after the other on one pinned core, the ratio is taken within the round, and the median of the rounds'
ratios is printed with its quartiles. Both sides contain the same Python loop, so ratios understate differences.
"""

import argparse
import json
import os
import platform
import statistics
import time
from importlib.metadata import version

from works import WORKS


def measure(work, rounds):
    """Nanoseconds a call, {contender: [one for each round]}."""
    arguments = {contender: work.rounds(contender) for contender in work.contenders}
    for contender in work.contenders:  # warm-up
        contender.loop(*next(arguments[contender]))
    times = {contender.name: [] for contender in work.contenders}
    for turn in range(rounds):
        # Whoever goes first finds the caches as the last one left them: change who that is.
        first = turn % len(work.contenders)
        for contender in work.contenders[first:] + work.contenders[:first]:
            store, keys = next(arguments[contender])
            start = time.perf_counter_ns()
            contender.loop(store, keys)
            times[contender.name].append((time.perf_counter_ns() - start) / len(keys))
            del store, keys
    return times


def ratio(ours, theirs):
    """Median and quartiles of the ratio within each round."""
    low, middle, high = statistics.quantiles([a / b for a, b in zip(ours, theirs)], n=4)
    return middle, low, high


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--only", default="", help="works whose name contains this")
    parser.add_argument("--json", metavar="FILE", help="write every round's times there")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: at least 2, or there is no spread")

    core = None
    if hasattr(os, "sched_setaffinity"):
        core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
    about = {
        "goblin": version("goblin-counters"),
        "cython": version("cython"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "core": core,
        "rounds": options.rounds,
    }
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print(f"\n{'median of each':44}{'ns a call':^24}{'goblin / empty':^20}{'goblin / dict':^20}")
    print(f"{'':44}{'goblin':>8}{'empty':>8}{'dict':>8}{'(quartiles)':^20}{'(quartiles)':^20}")
    results = {}
    for work in WORKS:
        if options.only not in work.name:
            continue
        times = results[work.name] = measure(work, options.rounds)
        cells = "".join(f"{statistics.median(times[name]):8.1f}" for name in ("goblin", "empty", "dict"))
        for name in ("empty", "dict"):
            cells += "{:8.2f} ({:.2f}-{:.2f})".format(*ratio(times["goblin"], times[name]))
        print(f"{work.name:44}{cells}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"about": about, "ns_per_call": results}, file, indent=1)


if __name__ == "__main__":
    main()
