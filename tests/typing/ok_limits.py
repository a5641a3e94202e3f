"""The rate-limiting methods of Counters; Limit, RateLimiter and Decision."""

import asyncio
from datetime import timedelta
from typing import Any, Literal

from typing_extensions import assert_type

import goblin

counters = goblin.Counters()
never: int = goblin.NEVER

# Periods may be floats, where the times of the other commands may not.
assert_type(counters.fixed_window("k", 10, 60), int)
assert_type(counters.fixed_window("k", 10, None, cost=2), int)
assert_type(counters.sliding_window(b"k", limit=10, seconds=0.5), int)
assert_type(counters.gcra("k", 10, timedelta(minutes=1), 1, burst=20), int)
assert_type(counters.type("k"), Literal["counter", "sliding-window", "gcra"] | None)
assert_type(counters.clock, goblin.ManualClock | None)
assert_type(counters.now_ns(), int)

# The verbs of the Store protocol.
verdict, remaining, reset_ns, index, at_ns, stamps = counters.decide(
    [("k", ("fixed-window", 10, 60 * 10**9, None))], 1, "hit"
)
assert_type(verdict, int)
assert_type(stamps, tuple[Any, ...] | None)
if stamps is not None:
    assert_type(counters.refund(stamps, 1), bool)
    counters.unreserve(stamps)
counters.decide((("k", ("gcra", 10, 10**9, 2)) for _ in range(1)), mode="reserve", max_wait_ns=10**9)

limit = goblin.Limit(10, 60)
goblin.Limit(10, None)
goblin.Limit(amount=10, seconds=timedelta(minutes=1), burst=20)
assert_type(goblin.Limit.parse("10/minute"), goblin.Limit)
assert_type(goblin.Limit.parse_many("10/second; 1000/hour"), tuple[goblin.Limit, ...])
assert_type(limit.amount, int)
assert_type(limit.seconds, float | None)
assert_type(limit.period_ns, int | None)
assert_type(limit.burst, int | None)
assert_type({limit: 1}, dict[goblin.Limit, int])

limiter = goblin.RateLimiter("10/minute")
goblin.RateLimiter(limit, algorithm="gcra", store=counters, name="login")
goblin.RateLimiter([limit, "1000/hour"], store=None, sleep=None)
goblin.RateLimiter("10/minute", sleep=asyncio.sleep)
assert_type(limiter.limits, tuple[goblin.Limit, ...])
assert_type(limiter.algorithm, str)
assert_type(limiter.name, str)

# Keys of limiters may be integers and tuples as well.
assert_type(limiter.hit("ann"), goblin.Decision)
assert_type(limiter.hit(("ann", 5, b"x"), cost=2), goblin.Decision)
assert_type(limiter.allow(5), bool)
assert_type(limiter.peek(b"ann"), goblin.Decision)
assert_type(limiter.reset("ann"), bool)
assert_type(limiter.refund(limiter.hit("ann")), bool)
assert_type(limiter.acquire("ann", timeout=1.5), goblin.Decision)


async def wait() -> None:
    assert_type(await limiter.acquire_async("ann", 1, timeout=timedelta(seconds=5)), goblin.Decision)


decision = limiter.hit("ann")
assert_type(bool(decision), bool)
assert_type(decision.allowed, bool)
assert_type(decision.limit, goblin.Limit)
assert_type(decision.key, str | bytes | int | tuple[str | bytes | int, ...])
assert_type(decision.cost, int)
assert_type(decision.remaining, int)
assert_type(decision.retry_after, float)
assert_type(decision.reset_after, float)
assert_type(decision.algorithm, str)
assert_type(decision.name, str)
assert_type(decision.headers(legacy=True), dict[str, str])
assert_type(decision == limiter.peek("ann"), bool)

before = goblin.set_default_store(counters)
goblin.default_store()
goblin.set_default_store(None)

try:
    counters.incr("k")
except goblin.RateLimitExceeded as refused:
    assert_type(refused.decision, goblin.Decision)
    assert_type(refused.retry_after, float)
except goblin.WrongTypeError as wrong:
    of_python: TypeError = wrong
except goblin.CapacityError:
    pass
