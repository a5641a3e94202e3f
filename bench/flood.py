"""What a flood costs: the longest calls with and without a cap, and what an attacker pays to displace one key.

    python bench/flood.py [--keys 1000000] [--max-keys 100000] [--displace 2000]
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import goblin
from flood import calls_to_displace, full_store


def microseconds(store, keys):
    """Of each call, sorted."""
    times = []
    now = time.perf_counter_ns
    for number in range(keys):
        key = f"flood{number:012d}"
        start = now()
        store.increx(key, 60)
        times.append(now() - start)
    return sorted(times)


def longest_calls(keys, max_keys):
    print(f"increx on {keys:,} distinct keys, us a call    median     p99   p99.9  p99.99     max")
    for name, store in {
        "no cap": goblin.Counters(clock=goblin.ManualClock()),
        f"max_keys={max_keys:,}": full_store(max_keys),
    }.items():
        times = microseconds(store, keys)
        at = [times[min(int(part * keys), keys - 1)] / 1000 for part in (0.5, 0.99, 0.999, 0.9999, 1)]
        print(f"  {name:38}" + "".join(f"{one:8.1f}" for one in at))


CASES = [  # of the victim: way, limit, how often it was hit; then how often each key of the flood is
    ("fixed_window", 1, 1, 1, "limit 1, used up, not refused yet"),
    ("fixed_window", 1, 2, 1, "limit 1, refused"),
    ("fixed_window", 1, 2, 2, "limit 1, refused"),
    ("fixed_window", 5, 4, 1, "limit 5, hit 4 times"),
    ("fixed_window", 5, 4, 4, "limit 5, hit 4 times"),
    ("fixed_window", 5, 6, 5, "limit 5, refused"),
    ("fixed_window", 5, 6, 6, "limit 5, refused"),
    ("sliding_window", 5, 6, 6, "limit 5, refused"),
    ("gcra", 5, 5, 1, "limit 5, used up, not refused yet"),
    ("gcra", 5, 6, 5, "limit 5, refused"),
    ("gcra", 5, 6, 6, "limit 5, refused"),
    ("increx", 5, 6, 5, "count 6"),
    ("increx", 5, 6, 6, "count 6"),
]


def displacing(max_keys):
    print(f"\ncalls until the victim is forgotten, as a multiple of max_keys ({max_keys:,}; gives up at 100)")
    for way, limit, victim_hits, hits, text in CASES:
        calls = calls_to_displace(way, limit, max_keys, hits, victim_hits, 100 * max_keys)
        shown = "never" if calls is None else f"{calls / max_keys:.2f}"
        print(f"  {way:16} {text:36} flood of keys hit {hits} times each: {shown}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--max-keys", type=int, default=100_000)
    parser.add_argument("--displace", type=int, default=2_000, metavar="MAX_KEYS")
    options = parser.parse_args()
    longest_calls(options.keys, options.max_keys)
    displacing(options.displace)
