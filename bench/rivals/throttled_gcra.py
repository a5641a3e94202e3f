"""throttled-py, in its memory store, which by default would hold 1,024 keys: gcra."""

from datetime import timedelta

from throttled import MemoryStore, Throttled, rate_limiter

name = "throttled-py, gcra"
distribution = "throttled-py"
hit = "ok = not throttled.limit(key).limited"


def setup(limit, seconds):
    quota = rate_limiter.per_duration(timedelta(seconds=seconds), limit)
    return {"throttled": Throttled(using="gcra", quota=quota, store=MemoryStore(options={"MAX_SIZE": 10**9}))}
