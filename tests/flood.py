"""A flood of keys into a full store, as an attacker would send it: what the tests and bench/flood.py share."""

import os

import goblin

PERIOD = 60  # seconds; the clock stands still, which is the attacker's best case: nothing expires


def counting(store, limit):
    """increx alone: the store knows no limit, and its caller compares."""
    return lambda key: store.increx(key, PERIOD) <= limit


def limiter_of(text):
    return lambda store, limit: goblin.RateLimiter(text.format(limit), store=store).allow


# Each: (store, limit) -> a function that hits a key and says whether it was admitted.
WAYS = {
    "increx": counting,
    "fixed_window": lambda store, limit: lambda key: store.fixed_window(key, limit, PERIOD) >= 0,
    "sliding_window": lambda store, limit: lambda key: store.sliding_window(key, limit, PERIOD) >= 0,
    "gcra": lambda store, limit: lambda key: store.gcra(key, limit, PERIOD) >= 0,
    "RateLimiter": limiter_of("{}/minute"),
    "RateLimiter_two_limits": limiter_of("{}/minute; 1000/hour"),
}


def full_store(max_keys, on_full="evict"):
    """A store full of strangers who have hit once each, with a clock that stands still."""
    return goblin.Counters(clock=goblin.ManualClock(), max_keys=max_keys, on_full=on_full)


def exhaust(hit, key):
    """Hit until refused; returns how many were admitted."""
    admitted = 0
    while hit(key):
        admitted += 1
    return admitted


def calls_to_displace(way, limit, max_keys, hits_per_key, victim_hits, most_calls):
    """How many calls on fresh keys, so many on each, until a key that was hit so often is forgotten; None: it never was.

    Whether it is there is asked of the store, not by a hit: that would change what is measured.
    """
    store = full_store(max_keys)
    hit = WAYS[way](store, limit)
    for number in range(max_keys - 1):
        hit(f"stranger{number}")
    for _ in range(victim_hits):
        hit("victim")
    calls = number = 0
    while calls < most_calls:
        key = f"flood{number}"
        number += 1
        for _ in range(hits_per_key):
            hit(key)
        calls += hits_per_key
        if "victim" not in store:
            return calls
    return None


def resident_bytes():
    """Memory of this process in RAM; None where the system does not say, or a sanitizer keeps what is freed."""
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        return None
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
