"""The interface of `goblin.Counters` on a Redis or Valkey server, for several processes and machines.

The client is yours: redis-py (``goblin-counters[redis]``) or valkey-py (``goblin-counters[valkey]``), sync or asyncio.
"""

from goblin.redis.aio import AsyncRedisCounters
from goblin.redis.sync import RedisCounters

__all__ = ["AsyncRedisCounters", "RedisCounters"]
