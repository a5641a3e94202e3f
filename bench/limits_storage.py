"""goblin:// beside memory:// under the strategies of `limits`: how many times faster a hit is, and what stays behind.

    python bench/limits_storage.py [--rounds 31] [--hits 20000] [--many 100000] [--json FILE]

In every round each storage does the same hits, in turn, on one pinned core; the ratio is taken within the round, and
the median of the rounds' ratios is printed with its quartiles. `nothing://` is a storage that does nothing: what is left
are the strategy's own key and calls, and so its ratio is the most that any storage can reach.

    one key            every hit on the same key
    10,000 keys        one hit on each in turn
    beside 100,000     the same one key, while 100,000 others are alive: the thread of memory:// walks through them all

Behind that, for 100,000 keys whose windows are over: the threads that were started, how many of the keys are still held
after a while without a hit, and how many once 100,000 other keys have come. The last row is the moving window of
memory://, which goblin:// does not have.
"""

import argparse
import json
import os
import platform
import statistics
import threading
import time
from importlib.metadata import version

import limits
from limits.storage import SlidingWindowCounterSupport, Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

import goblin
import goblin.integrations.limits


class Nothing(Storage, SlidingWindowCounterSupport):
    """The floor: every hit passes, nothing is kept."""

    STORAGE_SCHEME = ["nothing"]
    base_exceptions = ValueError

    def incr(self, key, expiry, amount=1):
        return 1

    def get(self, key):
        return 0

    def get_expiry(self, key):
        return 0.0

    def check(self):
        return True

    def reset(self):
        return 0

    def clear(self, key):
        pass

    def acquire_sliding_window_entry(self, key, limit, expiry, amount=1):
        return True

    def get_sliding_window(self, key, expiry):
        return 0, 0.0, 0, 0.0

    def clear_sliding_window(self, key, expiry):
        pass


# Without the wrapper that `limits` puts around every method, as on goblin://: else the floor would not be one.
for _name in ("incr", "acquire_sliding_window_entry"):
    setattr(Nothing, _name, getattr(Nothing, _name).__wrapped__)

STORAGES = ["goblin", "memory", "nothing"]
STRATEGIES = {"fixed window": FixedWindowRateLimiter, "sliding-window counter": SlidingWindowCounterRateLimiter}
LIMIT = limits.parse("1000000000/hour")  # never reached: a refusal is as dear as an admission, but not everywhere
TURN = 10_000  # keys hit in turn
IDLE_SECONDS = 2.1  # a sliding window of a second counts for nothing after two


def hit_all(limiter, keys):
    """Nanoseconds a hit."""
    hit = limiter.hit
    start = time.perf_counter_ns()
    for key in keys:
        hit(LIMIT, key)
    return (time.perf_counter_ns() - start) / len(keys)


def measure(strategy, count, beside, options):
    """{storage: nanoseconds a hit, one for each round}"""
    limiters = {scheme: strategy(storage_from_string(f"{scheme}://")) for scheme in STORAGES}
    keys = [f"user:{number % count}" for number in range(options.hits)]
    for limiter in limiters.values():
        for number in range(beside):
            limiter.hit(LIMIT, f"other:{number}")
        hit_all(limiter, keys[:TURN])  # warm-up
    times = {scheme: [] for scheme in STORAGES}
    for turn in range(options.rounds):
        first = turn % len(STORAGES)  # whoever goes first finds the caches as the last one left them
        for scheme in STORAGES[first:] + STORAGES[:first]:
            times[scheme].append(hit_all(limiters[scheme], keys))
            settle(limiters[scheme])
    return times


def settle(limiter):
    """Let the thread of memory:// end: it shall not run while another storage is measured."""
    timer = getattr(limiter.storage, "timer", None)
    if timer is not None:
        timer.join()


def times_faster(ours, theirs):
    low, middle, high = statistics.quantiles([b / a for a, b in zip(ours, theirs)], n=4)
    return f"{middle:5.2f} ({low:.2f}-{high:.2f})"


def compare_speed(options):
    print(f"{'median of each':40}{'ns a hit':^26}{'goblin:// is':^20}{'at most':^20}")
    print(f"{'':40}{'goblin':>8}{'memory':>9}{'nothing':>9}{'times faster':^20}{'(nothing://)':^20}")
    results = {}
    for strategy in STRATEGIES:
        works = {"one key": (1, 0), f"{TURN:,} keys": (TURN, 0), f"beside {options.many:,}": (1, options.many)}
        for keys, (count, beside) in works.items():
            times = results[f"{strategy}, {keys}"] = measure(STRATEGIES[strategy], count, beside, options)
            cells = "".join(f"{statistics.median(times[scheme]):9.0f}" for scheme in STORAGES)
            ratios = [times_faster(times[scheme], times["memory"]) for scheme in ("goblin", "nothing")]
            print(f"{f'{strategy}, {keys}':39}{cells}{ratios[0]:^20}{ratios[1]:^20}", flush=True)
    return results


def held(storage):
    """How many keys are in it, dead or alive. (An open window of memory:// has one entry in each of its dicts.)"""
    return len(storage.counters) if hasattr(storage, "counters") else max(len(storage.storage), len(storage.events))


def compare_remains(many):
    starts = []
    start = threading.Thread.start
    threading.Thread.start = lambda thread: (starts.append(thread), start(thread))[1]
    print(f"\n{'':40}{'threads':>10}{f'of {many:,} dead keys held':>30}")
    print(f"{'':40}{'started':>10}{'at rest':>12}{'other keys later':>18}")
    over, alive, remains = limits.parse("5/second"), limits.parse("5/hour"), {}
    for name, strategy in {**STRATEGIES, "moving window": MovingWindowRateLimiter}.items():
        for scheme in ("goblin", "memory"):
            if scheme == "goblin" and name == "moving window":
                continue
            starts.clear()
            limiter = strategy(storage_from_string(f"{scheme}://"))
            for number in range(many):
                limiter.hit(over, f"user:{number}")
            settle(limiter)
            time.sleep(IDLE_SECONDS)
            at_rest = held(limiter.storage)
            for number in range(many):
                limiter.hit(alive, f"user:{number}")
            settle(limiter)
            later = held(limiter.storage) - many
            remains[f"{name}, {scheme}"] = {"threads_started": len(starts), "at_rest": at_rest, "later": later}
            print(f"{f'{name}, {scheme}://':40}{len(starts):10,}{at_rest:12,}{later:18,}", flush=True)
    threading.Thread.start = start
    return remains


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--hits", type=int, default=20_000, help="of each storage in a round")
    parser.add_argument("--many", type=int, default=100_000, help="keys beside the one, and keys that die")
    parser.add_argument("--json", metavar="FILE", help="write every round's times there")
    options = parser.parse_args()
    if options.rounds < 2 or min(options.hits, options.many) < 1:
        parser.error("--rounds: at least 2, or there is no spread; --hits, --many: at least 1")
    core = None
    if hasattr(os, "sched_setaffinity"):
        core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
    about = {
        "goblin": goblin.__version__,
        "limits": version("limits"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "core": core,
        "rounds": options.rounds,
        "hits": options.hits,
    }
    print(", ".join(f"{name} {value}" for name, value in about.items()) + "\n")
    results = {"about": about, "ns_per_hit": compare_speed(options), "remains": compare_remains(options.many)}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
