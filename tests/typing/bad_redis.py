"""What type checkers must refuse of stores elsewhere and of limiters on them."""

from typing import Any

import goblin
from goblin.redis import AsyncRedisCounters, RedisCounters

client: Any = None
store = RedisCounters(client)
async_store = AsyncRedisCounters(client)

RedisCounters(client, "prefix")  # expect: call-arg, reportCallIssue
RedisCounters()  # expect: call-arg, reportCallIssue
RedisCounters(client, prefix=b"x")  # expect: arg-type, reportArgumentType
store.increx(5, 60)  # expect: arg-type, reportArgumentType
store.increx("k", 1.5)  # expect: arg-type, reportArgumentType
store.sliding_window("k", 5, None)  # expect: arg-type, reportArgumentType
store.sweep()  # expect: attr-defined, reportAttributeAccessIssue
store.stats()  # expect: attr-defined, reportAttributeAccessIssue
len(async_store)  # expect: arg-type, reportArgumentType
number: int = async_store.incr("k")  # expect: assignment, reportAssignmentType

goblin.RateLimiter("5/minute", store=async_store)  # expect: arg-type, reportArgumentType
goblin.RateLimiter("5/minute", on_error=5)  # expect: arg-type, reportArgumentType
goblin.AsyncRateLimiter("5/minute")  # expect: call-arg, reportCallIssue
goblin.AsyncRateLimiter("5/minute", store=store)  # expect: arg-type, reportArgumentType
goblin.AsyncRateLimiter("5/minute", store=goblin.Counters())  # expect: arg-type, reportArgumentType
store["k"] = 5  # expect: index, arg-type, reportArgumentType
