"""What memory counters take, and whether it comes back: resident memory (RSS), each contender in a fresh process.

    python bench/memory.py [--results FOLDER] [--small]

  * bytes per key: 16-byte keys with a TTL, at nine sizes over a doubling from a million, since maps grow in steps;
  * churn: 10,000,000 short-lived keys through 100,000 live ones;
  * a burst of a million keys that expire, then hits on 100 others.

The last two run on a clock that is moved by hand, so that they are the same on every machine. Linux only.
"""

import argparse
import gc
import json
import os
import subprocess
import sys

import about

SIZES = 8  # steps of a doubling
TTL = 3_600


def rss():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- contenders: a function that makes key number n, for the first time ---------------------------------------------


def goblin_store():
    import goblin

    increx = goblin.Counters().increx
    return lambda key: increx(key, TTL)


def dict_of_tuples():
    import time

    windows, now = {}, time.monotonic

    def make(key):
        windows[key] = (1, now() + TTL)

    return make


def cachetools_cache():
    import cachetools

    cache = cachetools.TTLCache(maxsize=10**9, ttl=TTL)

    def make(key):
        cache[key] = 1

    return make


def limits_memory():
    from limits.storage import MemoryStorage

    storage = MemoryStorage()
    return lambda key: storage.incr(key, TTL)


CONTENDERS = {
    "goblin": goblin_store,
    "dict of (count, deadline)": dict_of_tuples,
    "cachetools TTLCache": cachetools_cache,
    "limits MemoryStorage": limits_memory,
}


def bytes_per_key(name, least):
    """[[keys, bytes per key], ...]"""
    try:
        make = CONTENDERS[name]()
    except ImportError as error:
        return {"missing": str(error)}
    make("warm-up, so that what comes with the first key is not counted")
    before, found, made = rss(), [], 0
    for step in range(SIZES + 1):
        size = round(least * 2 ** (step / SIZES))
        for number in range(made, size):
            make(f"k{number:015}")
        made = size
        found.append([size, round((rss() - before) / size, 2)])
    return found


def churn(keys, live):
    """RSS and dead entries after each tenth of the keys, beyond what the process had before."""
    import goblin

    clock = goblin.ManualClock()
    store = goblin.Counters(clock=clock)
    before, found = rss(), []
    step_ns = TTL * 10**9 // live
    for number in range(keys):
        store.increx(f"k{number:015}", TTL)
        clock.advance_ns(step_ns)
        if (number + 1) % (keys // 10) == 0:
            stored, alive = len(store), sum(1 for _ in store)
            found.append(
                {"keys": number + 1, "mib": round((rss() - before) / 2**20, 2), "stored": stored, "live": alive}
            )
    return found


def burst(keys):
    """The same, while 100 keys are hit after the others have expired."""
    import goblin

    clock = goblin.ManualClock()
    store = goblin.Counters(clock=clock)
    before = rss()
    hot = [f"hot{number}" for number in range(100)]
    for key in hot:
        store.increx(key, 10**6)
    for number in range(keys):
        store.increx(f"k{number:015}", TTL)
    clock.advance(TTL)
    found, hits = [], 0
    # Each 64th call looks at eight entries at least, so all are gone after eight hits for each key of the burst.
    for _part in range(17):
        stored, alive = len(store), sum(1 for _ in store)
        found.append({"hits": hits, "mib": round((rss() - before) / 2**20, 2), "stored": stored, "live": alive})
        for _ in range(keys // 200):
            for key in hot:
                store.increx(key, 10**6)
        hits += keys // 200 * 100
    return found


def in_fresh_process(*call):
    command = [sys.executable, __file__, "--call", json.dumps(call)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def dead_share(row):
    return (row["stored"] - row["live"]) / max(1, row["stored"])


def judged(found):
    """Targets P6 and P8."""
    worst = max(size for _, size in found["bytes_per_key"]["goblin"])
    through = found["churn"][1:]  # after a tenth, the load is steady
    # Never less than a MiB: smaller stores fit into what the process had left over.
    growth = max(1.0, *(row["mib"] for row in through)) / max(1.0, found["churn"][0]["mib"])
    rows = [
        ("P6", "bytes per key, worst over a doubling", worst, 64),
        ("P8", "churn: most memory / that after a tenth of the keys", growth, 1.10),
        ("P8", "churn: dead entries, most", max(map(dead_share, through)), 0.10),
        ("P8", "after a burst and eight hits for each of its keys: dead entries", dead_share(found["burst"][-1]), 0.10),
    ]
    return [
        {"mark": mark, "text": text, "figure": figure, "at_most": most, "verdict": "ok" if figure <= most else "missed"}
        for mark, text, figure, most in rows
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--call", help=argparse.SUPPRESS)
    about.add_options(parser)
    options = parser.parse_args()
    if options.call:
        function, *arguments = json.loads(options.call)
        print(json.dumps({"bytes_per_key": bytes_per_key, "churn": churn, "burst": burst}[function](*arguments)))
        return
    said = about.begin()
    scale = 20 if options.small else 1
    found = {"bytes_per_key": {}, "missing": {}}
    for name in CONTENDERS:
        about.progress(f"memory: {name}")
        sizes = in_fresh_process("bytes_per_key", name, 1_000_000 // scale)
        if isinstance(sizes, dict):
            found["missing"][name] = sizes["missing"]
            continue
        found["bytes_per_key"][name] = sizes
        figures = [figure for _, figure in sizes]
        about.progress_ends()
        print(
            f"{name:28} bytes per key: worst {max(figures):7.1f}, mean {sum(figures) / len(figures):7.1f}", flush=True
        )
    about.progress("memory: churn")
    found["churn"] = in_fresh_process("churn", 10_000_000 // scale, 100_000 // scale)
    about.progress("memory: a burst")
    found["burst"] = in_fresh_process("burst", 1_000_000 // scale)
    about.progress_ends()
    for what in ("churn", "burst"):
        for row in found[what]:
            print(what, row)
    found["targets"] = judged(found)
    for row in found["targets"]:
        print("{mark:5}{text:66}{figure:10.2f}, at most {at_most}: {verdict}".format(**row))
    if options.results:
        print(f"written: {about.write('memory', said, found, options.results).name}")


if __name__ == "__main__":
    main()
