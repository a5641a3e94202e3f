"""Stores elsewhere: the protocols, RedisCounters, AsyncRedisCounters, AsyncRateLimiter, and what they are handed to."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Literal

from typing_extensions import assert_type

import goblin
from goblin.redis import AsyncRedisCounters, RedisCounters

Kind = Literal["counter", "sliding-window", "gcra", "foreign"]


def judged_by(store: goblin.Store) -> goblin.RateLimiter:
    assert_type(store.now_ns(), int)
    assert_type(store.delete("k", b"k"), int)
    outcome = store.decide([("k", ("gcra", 5, 10**9, None))], 1, "reserve", max_wait_ns=5)
    if outcome[5] is not None:
        assert_type(store.refund(outcome[5], 1), bool)
        store.unreserve(outcome[5])
    return goblin.RateLimiter("5/minute", store=store, on_error="deny")


def both_kinds_fit(sync_client: Any, async_client: Any) -> None:
    store = RedisCounters(sync_client, prefix="app:")
    async_store = AsyncRedisCounters(async_client)
    judged_by(goblin.Counters())
    limiter = judged_by(store)
    assert_type(limiter.on_error, str | goblin.Counters)
    goblin.RateLimiter("5/minute", store=store, on_error=goblin.Counters())
    plain: goblin.Store = store
    awaited: goblin.AsyncStore = async_store
    goblin.set_default_store(plain)
    goblin.AsyncRateLimiter("5/minute", store=awaited, algorithm="gcra", name="login", sleep=None, on_error="allow")

    assert_type(store.increx("k", 60), int)
    assert_type(store.pincrex(b"k", timedelta(seconds=1)), int)
    assert_type(store.incrbound("k", 1, max=10, seconds=60), int)
    assert_type(store.decrpos("k"), int)
    assert_type(store.incr("k", ex=5) + store.incrby("k", 2) + store.decr("k") + store.decrby("k", 2, px=5), int)
    assert_type(store.fixed_window("k", 5, None), int)
    assert_type(store.sliding_window("k", 5, 0.5, cost=2), int)
    assert_type(store.gcra("k", 5, 60, burst=7), int)
    assert_type(store.type("k"), Kind | None)
    assert_type(store.get("k"), int | None)
    assert_type(store.get("k", "none"), int | str)
    assert_type(store.set("k", "5", ex=5), bool)
    assert_type(store.set("k", 5, get=True), int | None)
    assert_type(store.getset("k", 5), int | None)
    assert_type(store.getdel("k"), int | None)
    assert_type(store.getex("k", persist=True), int | None)
    assert_type(store.mget("a", b"b"), list[int | None])
    assert_type(store.mget(["a", b"b"]), list[int | None])
    store.mset({"a": 1, "b": 2})
    assert_type(store.exists("a"), int)
    assert_type(store.expire("a", 5, nx=True) or store.pexpire("a", 5, gt=True) or store.persist("a"), bool)
    assert_type(store.ttl("a") + store.pttl("a") + len(store) + store["a"], int)
    assert_type("a" in store, bool)
    del store["a"]
    assert_type(list(store), list[str | bytes])
    assert_type(list(store.scan_iter("a*")), list[str | bytes])
    assert_type(dict(store.items()), dict[str | bytes, int])
    assert_type(store.most_common(3), list[tuple[str | bytes, int]])
    store.clear()


async def all_is_awaited(store: AsyncRedisCounters) -> None:
    assert_type(await store.increx("k", 60), int)
    assert_type(await store.get("k", 0), int)
    assert_type(await store.set("k", 5, get=True), int | None)
    assert_type(await store.type("k"), Kind | None)
    assert_type(await store.contains("k"), bool)
    assert_type(await store.size(), int)
    assert_type(store.items(), AsyncIterator[tuple[str | bytes, int]])
    assert_type([key async for key in store], list[str | bytes])
    assert_type(await store.most_common(), list[tuple[str | bytes, int]])
    await store.clear()

    limiter = goblin.AsyncRateLimiter("5/minute", store=store)
    assert_type(limiter.limits, tuple[goblin.Limit, ...])
    assert_type(limiter.algorithm + limiter.name, str)
    assert_type(limiter.store, goblin.AsyncStore)
    assert_type(limiter.on_error, str | goblin.Counters)
    assert_type(await limiter.hit("ann", cost=2), goblin.Decision)
    assert_type(await limiter.allow(("ann", 5)), bool)
    assert_type(await limiter.peek("ann"), goblin.Decision)
    assert_type(await limiter.reset("ann"), bool)
    assert_type(await limiter.refund(await limiter.hit("ann")), bool)
    assert_type(await limiter.acquire("ann", timeout=1.5), goblin.Decision)

    @goblin.rate_limit("5/minute", store=store, on_error="allow")
    async def fetch(url: str) -> bytes:
        return url.encode()

    @goblin.quota(5, key=None, store=store, on_error=goblin.Counters())
    async def upload(size: int) -> None: ...

    @goblin.rate_limit(limiter)
    async def shared() -> int:
        return 5

    assert_type(await fetch("x"), bytes)
    assert_type(await upload(5), None)
    assert_type(await shared(), int)
    try:
        await fetch("y")
    except goblin.StoreError as error:
        assert_type(error.__cause__, BaseException | None)
