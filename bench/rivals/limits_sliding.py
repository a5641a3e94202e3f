"""limits, in its memory storage: the sliding window strategy."""

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

name = "limits, sliding window"
distribution = "limits"
hit = "ok = limiter.hit(item, key)"


def setup(limit, seconds):
    return {"limiter": SlidingWindowCounterRateLimiter(MemoryStorage()), "item": RateLimitItemPerSecond(limit, seconds)}
