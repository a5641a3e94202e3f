"""The rivals, timed on the workloads.

    python bench/contest.py [--rounds 5] [--only WORKLOAD] [--results FOLDER] [--small]

Each rival counts for the referee first. Then, for each workload, each has a process of its own, so that nobody's
memory, threads or garbage weigh on another. All are forked from one that has made the keys, and pinned to one core. A
round is every rival once, in turn, each with as many calls as fit into its share of time; who begins changes from round
to round. The garbage collector is off, as in timeit. Needs some 8 GB of memory.
"""

import argparse
import contextlib
import gc
import multiprocessing
import statistics
import time

import about
import referee
import rivals
from workloads import WORKLOADS, made

LEAST_CALLS = 20
FILL_SECONDS = 40  # a rival that takes longer to make the live keys sits the workload out, and the page says so


class TooSlow(Exception):
    """Filling takes too long."""


def fill(rival, names, loop, keys):
    if hasattr(rival.module, "fill"):
        rival.module.fill(names, keys)
        return
    start = time.perf_counter()
    for first in range(0, len(keys), 2_000):
        loop(keys[first : first + 2_000])
        if time.perf_counter() - start > FILL_SECONDS:
            raise TooSlow(f"making the first {first:,} of {len(keys):,} keys took {FILL_SECONDS} s")


def timed(loop, items):
    start = time.perf_counter_ns()
    ok = loop(items)
    return time.perf_counter_ns() - start, ok


def calls_for(loop, sequence, seconds):
    """How many take about so long, found by doubling; and where the sequence then stands."""
    calls, position = LEAST_CALLS, 0
    while True:
        # The better of two: in one of them something else may have had the core.
        took = min(timed(loop, sequence[position + half : position + half + calls])[0] for half in (0, calls))
        position += 2 * calls
        if took >= seconds * 1e9 / 16 or 4 * calls > len(sequence) - position:
            return max(LEAST_CALLS, min(len(sequence) // 2, int(calls * seconds * 1e9 / took))), position
        calls *= 2


def player(pipe, rival, workload):
    """The process of one rival: says how it is, then plays a round whenever it is told to."""
    names = {}
    gc.disable()
    try:
        keys, sequence = made(workload)
        names = rival.module.setup(workload.limit, workload.seconds)
        loop = referee.compiled(rival.module, names, variable=workload.variable, before=workload.before)
        fill(rival, names, loop, keys)
        for _ in range(0 if workload.admits else workload.limit):
            loop(sequence[:1])
        calls, position = calls_for(loop, sequence, workload.round_seconds)
        gc.collect()
        pipe.send(("ready", calls))
        while pipe.recv() == "play":
            warm_up = calls // 2
            if position + warm_up + calls > len(sequence):
                position = 0
            # Not timed: the rival before has left its own things in the caches.
            loop(sequence[position : position + warm_up])
            position += warm_up
            took, ok = timed(loop, sequence[position : position + calls])
            position += calls
            if bool(ok) != workload.admits:
                raise RuntimeError(f"the last hit was {'refused' if workload.admits else 'admitted'}")
            pipe.send(("played", took / calls))
    except TooSlow as error:
        pipe.send(("skipped", str(error)))
    except Exception as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
    finally:
        if names:
            referee.close(rival.module, names)


def play(workload, players, rounds):
    """{"ns": {rival: [a call's, of each round]}, "calls": {rival: in a round}, "out": {rival: why}}"""
    made(workload)
    gc.collect()
    gc.freeze()
    seats, calls, out, ns = {}, {}, {}, {}
    try:
        for rival in players:
            about.progress(f"{workload.text}: {rival.name}")
            # One after the other: filling together would have them fight for the core.
            seats[rival.name] = seated(rival, workload)
            word, value = seats[rival.name].recv()
            if word == "ready":
                calls[rival.name], ns[rival.name] = value, []
            else:
                out[rival.name] = value
        for turn in range(rounds):
            order = list(ns)
            first = turn * len(order) // rounds
            for name in order[first:] + order[:first]:
                about.progress(f"{workload.text}: round {turn + 1} of {rounds}")
                seats[name].send("play")
                word, value = seats[name].recv()
                if word == "played":
                    ns[name].append(value)
                else:
                    out[name] = value
                    del ns[name], calls[name]
    finally:
        for pipe in seats.values():
            with contextlib.suppress(OSError):  # of those that have ended by themselves
                pipe.send("stop")
        for process in multiprocessing.active_children():
            process.join()
        made.cache_clear()
    return {"text": workload.text, "ns": ns, "calls": calls, "out": out}


def seated(rival, workload):
    """The pipe to a new process for this rival."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    fork.Process(target=player, args=(theirs, rival, workload)).start()
    return ours


def show(result):
    about.progress_ends()
    print(f"\n{result['text']:52}{'ns a call':>12}{'least':>12}{'most':>12}{'calls a round':>16}")
    for name, times in sorted(result["ns"].items(), key=lambda item: statistics.median(item[1])):
        cells = statistics.median(times), min(times), max(times)
        print(f"  {name:50}" + "".join(f"{cell:12,.1f}" for cell in cells) + f"{result['calls'][name]:16,}")
    for name, why in result["out"].items():
        print(f"  {name:50} not timed: {why}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    about.add_options(parser)
    options = parser.parse_args()
    said = about.begin(about.pin())
    rounds, workloads = options.rounds, WORKLOADS
    if options.small:
        rounds = 2
        workloads = [work._replace(size=work.size // 100, round_seconds=0.01) for work in WORKLOADS]

    everyone = rivals.load_all()
    about.progress("the referee has every rival count")
    wrong = referee.check([rival.module for rival in everyone if rival.module])
    missing = {rival.name: rival.version for rival in everyone if rival.module is None}
    about.progress_ends()
    for name, why in [*missing.items(), *wrong.items()]:
        print(f"NOT TIMED: {name}: {why}")
    found = {
        "versions": {rival.name: rival.version for rival in everyone if rival.module},
        "missing": missing,
        "wrong": wrong,
        "rounds": rounds,
        "works": {},
    }
    for workload in workloads:
        if options.only not in workload.name:
            continue
        players = [r for r in everyone if r.module and r.name not in wrong and r.takes_part_in(workload.name)]
        result = play(workload, players, min(rounds, workload.most_rounds))
        found["works"][workload.name] = result
        show(result)
    if options.results:
        print(f"\nwritten: {about.write('rivals', said, found, options.results).name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
