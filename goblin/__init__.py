"""goblin: atomic, expiring int64 counters inside the process.

>>> import goblin
>>> counters = goblin.Counters()
>>> counters.increx("rate:user42", 60)  # count, and open a window of 60 seconds on the first hit
1
>>> counters.incrbound("quota:user42", 3, 10)  # count only while it stays within 10
3
"""

from goblin._clock import ManualClock
from goblin._core import Counters, Stats
from goblin.async_limiter import AsyncRateLimiter
from goblin.decorators import quota, rate_limit
from goblin.errors import CapacityError, RateLimitExceeded, StoreError, WrongTypeError
from goblin.limiter import (
    Decision,
    Limit,
    RateLimiter,
    default_store,
    set_default_store,
)
from goblin.store import AsyncStore, Store

__all__ = [
    "NEVER",
    "AsyncRateLimiter",
    "AsyncStore",
    "CapacityError",
    "Counters",
    "Decision",
    "Limit",
    "ManualClock",
    "RateLimitExceeded",
    "RateLimiter",
    "Stats",
    "Store",
    "StoreError",
    "WrongTypeError",
    "default_store",
    "quota",
    "rate_limit",
    "set_default_store",
]

NEVER = -(2**63)  # the verdict on a hit that cannot pass, however long it waits

__version__ = "0.1.0.dev0"
