"""What a call costs in this process, on a server, and by the server's own INCR; in turn, best of several rounds.

    python bench/round_trips.py        # needs redis-server and redis-py; some ten seconds

The server is one of its own, on a Unix socket: the shortest way there is. A network's time comes on top of every call.
"""

import platform
import sys
import time
from pathlib import Path

import redis

import goblin
from goblin.redis import RedisCounters

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from redis_server import RedisServer

ROUNDS, CALLS = 7, 1_000


def us_per_call(call):
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def works(client):
    here, there = goblin.Counters(), RedisCounters(client, prefix="bench:")
    yield "INCR, the client alone", lambda: client.incr("bench:raw")
    for where, store in (("Counters", here), ("RedisCounters", there)):
        limiter = goblin.RateLimiter("1000000000/hour", store=store, algorithm="gcra")
        yield f"{where}.get", lambda store=store: store.get("a")
        yield f"{where}.increx", lambda store=store: store.increx("a", 3_600)
        yield f"{where}.incrbound", lambda store=store: store.incrbound("b", 1, 10**9)
        yield f"{where}.fixed_window", lambda store=store: store.fixed_window("c", 10**9, 3_600)
        yield f"{where}.sliding_window", lambda store=store: store.sliding_window("d", 10**9, 3_600)
        yield f"{where}.gcra", lambda store=store: store.gcra("e", 10**9, 3_600)
        yield f"RateLimiter.hit on {where}, gcra", lambda limiter=limiter: limiter.hit("ann")


def main():
    with RedisServer() as server, redis.Redis(unix_socket_path=server.socket) as client:
        work = dict(works(client))
        times = {name: [] for name in work}
        for _ in range(ROUNDS):
            for name, call in work.items():
                times[name].append(us_per_call(call))
        print(f"Python {platform.python_version()}, redis-py {redis.__version__}, redis-server {server.version}")
        raw = min(times["INCR, the client alone"])
        for name, each in times.items():
            print(
                f"{name:38} {min(each):8.2f} us  median {sorted(each)[ROUNDS // 2]:8.2f}  {min(each) / raw:6.3f} x INCR"
            )


if __name__ == "__main__":
    main()
