"""Ratios, measured in turn: goblin against the empty method and against the dict idiom.

    python bench/ratios.py [--rounds 31] [--only WORDS] [--results FOLDER] [--small]

Machines are noisy and drift, so no two figures taken minutes apart can be divided. Here every round times all
contenders one after the other on one pinned core, the ratio is taken within the round, and the median of the rounds'
ratios is printed with its quartiles. Both sides contain the same Python loop, so ratios understate differences. The
last table holds the ratios of `targets.py` against what is aimed at.
"""

import argparse
import gc
import statistics
import time

import about
import targets
from works import all_works


def measure(work, rounds):
    """Nanoseconds a call, {contender: [one for each round]}."""
    rounds = max(3, rounds // work.share)
    arguments = {contender.name: work.rounds(contender) for contender in work.contenders}
    for contender in work.contenders:  # warm-up
        about.progress(f"{work.name}: {contender.name}")
        contender.loop(*next(arguments[contender.name]))
    times = {contender.name: [] for contender in work.contenders}
    gc.disable()  # as in timeit; none of these leaves anything for it
    for turn in range(rounds):
        about.progress(f"{work.name}: round {turn + 1} of {rounds}")
        # Whoever goes first finds the caches as the last one left them: change who that is.
        first = turn % len(work.contenders)
        for contender in work.contenders[first:] + work.contenders[:first]:
            store, keys = next(arguments[contender.name])
            start = time.perf_counter_ns()
            contender.loop(store, keys)
            times[contender.name].append((time.perf_counter_ns() - start) / len(keys))
            del store, keys
    gc.enable()
    return times


def ratio(ours, theirs):
    """Median and quartiles of the ratio within each round."""
    low, middle, high = statistics.quantiles([a / b for a, b in zip(ours, theirs)], n=4)
    return middle, low, high


def show(name, times):
    """A line for each contender; the ratios are of the first one to each of the others."""
    about.progress_ends()
    first, *others = times
    print(f"\n{name:44}{'ns a call':>10}   {first} / this (quartiles)")
    print(f"  {first:42}{statistics.median(times[first]):10.1f}")
    for other in others:
        cells = "{:8.2f} ({:.2f}-{:.2f})".format(*ratio(times[first], times[other]))
        print(f"  {other:42}{statistics.median(times[other]):10.1f}{cells}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--only", default="", help="works whose name contains this")
    about.add_options(parser)
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: at least 2, or there is no spread")

    said = about.begin(about.pin())
    print("{python}, Cython {cython}, goblin {goblin}, {cpu}, core {core}, load {load_before}".format(**said))
    results = {}
    for name, work in all_works(options.small).items():
        if options.only in name:
            results[name] = measure(work, options.rounds)
            show(name, results[name])
    rows = targets.judge(results)
    print("", *targets.lines([row for row in rows if row["verdict"] != "not measured" or not options.only]), sep="\n")
    if options.results:
        found = {"rounds": options.rounds, "ns_per_call": results, "targets": rows}
        print(f"\nwritten: {about.write('ratios', said, found, options.results).name}")


if __name__ == "__main__":
    main()
