"""limits, in its memory storage: the fixed window strategy."""

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

name = "limits, fixed window"
distribution = "limits"
hit = "ok = limiter.hit(item, key)"


def setup(limit, seconds):
    return {"limiter": FixedWindowRateLimiter(MemoryStorage()), "item": RateLimitItemPerSecond(limit, seconds)}
