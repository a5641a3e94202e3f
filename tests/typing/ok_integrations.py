"""The storages for `limits`, as their users write them."""

from limits import parse
from limits.aio.strategies import FixedWindowRateLimiter as AsyncFixedWindowRateLimiter
from limits.strategies import SlidingWindowCounterRateLimiter
from typing_extensions import assert_type

import goblin
from goblin.integrations.limits import AsyncGoblinStorage, GoblinStorage

storage = GoblinStorage("goblin://shared?max_keys=1000", wrap_exceptions=True, clock=goblin.ManualClock())
assert_type(storage.counters, goblin.Counters)
assert_type(storage.incr("key", 60, amount=2), int)
assert_type(storage.get_expiry("key"), float)
assert_type(storage.get_sliding_window("key", 60), tuple[int, float, int, float])
assert_type(SlidingWindowCounterRateLimiter(storage).hit(parse("5/minute"), "ann"), bool)


async def main() -> None:
    storage = AsyncGoblinStorage()
    assert_type(await storage.incr("key", 60), int)
    assert_type(await AsyncFixedWindowRateLimiter(storage).hit(parse("5/minute"), "ann"), bool)
