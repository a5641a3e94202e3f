"""AsyncRateLimiter: `RateLimiter` for stores whose verbs are awaited. What decides is shared; the await differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

from goblin import errors
from goblin._core import Counters
from goblin._limiter import Decision, LimiterCore
from goblin._waiting import drive_async, waiting
from goblin.limiter import Key, Limit, Period, _integer, _timeout_ns, async_sleeper, prepare
from goblin.store import AsyncStore, is_async_store

__all__ = ["AsyncRateLimiter"]


class AsyncRateLimiter:
    """`RateLimiter` on an async store, such as `goblin.redis.AsyncRedisCounters`: the same, awaited.

    store: required; with the verbs of `AsyncStore`. The other arguments are those of `RateLimiter`; `sleep` may return
    an awaitable. The Decisions are the same, and so are the keys: a RateLimiter on the same server, with the same
    limits and name, counts in the same budget. A call that is cancelled may have been counted.

    Raises: TypeError for a store that is not async; otherwise as `RateLimiter`.

    Safe from any number of tasks; from several loops only if the store is.

    >>> async def view(request, limiter):
    ...     decision = await limiter.hit(request.user)
    ...     return 200 if decision else 429
    """

    def __init__(
        self,
        limits: str | Limit | Iterable[str | Limit],
        *,
        store: AsyncStore,
        algorithm: str = "fixed-window",
        name: str = "",
        sleep: Callable[[float], Any] | None = None,
        on_error: str | Counters = "raise",
    ) -> None:
        prepared = prepare(limits, algorithm, name, sleep, on_error)
        if not is_async_store(store):
            raise TypeError(
                f"store {errors._type_name(type(store))} is not async: it is for goblin.RateLimiter (allowed: the "
                "verbs of AsyncStore, as coroutines)"
            )
        self._core = LimiterCore()
        self._core._set_up(
            prepared.limits, prepared.algorithm, store, prepared.name, prepared.prefixes, prepared.fallback
        )
        self._sleep = sleep

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits, equal ones once."""
        return self._core.limits

    @property
    def algorithm(self) -> str:
        """ "fixed-window", "sliding-window" or "gcra"."""
        return self._core.algorithm

    @property
    def name(self) -> str:
        """What sets it apart from limiters of equal limits."""
        return self._core.name

    @property
    def store(self) -> AsyncStore:
        """Where the counts are."""
        store: AsyncStore = self._core.store
        return store

    @property
    def on_error(self) -> str | Counters:
        """What becomes of a hit when the store cannot be asked."""
        return self._core.on_error

    async def hit(self, key: Key, cost: SupportsIndex = 1) -> Decision:
        """A hit of `cost` on every limit, all or nothing in one step: its `Decision`. See `RateLimiter.hit`.

        >>> async def example(limiter):
        ...     return (await limiter.hit("ann", cost=2)).remaining
        """
        return await self._decide(key, cost, "hit")

    async def allow(self, key: Key, cost: SupportsIndex = 1) -> bool:
        """`hit` as a bool.

        >>> async def example(limiter):
        ...     return await limiter.allow("ann")
        """
        return bool(await self._decide(key, cost, "hit"))

    async def peek(self, key: Key, cost: SupportsIndex = 1) -> Decision:
        """What a hit of `cost` would get now; nothing is spent, and `remaining` is as it is now.

        >>> async def example(limiter):
        ...     return (await limiter.peek("ann")).retry_after
        """
        return await self._decide(key, cost, "peek")

    async def _decide(self, key: Key, cost: SupportsIndex, mode: str) -> Decision:
        entries, number = self._core._entries(key), _integer("cost", cost, 0)
        try:
            outcome = await self.store.decide(entries, number, mode)
        except (errors.StoreError, errors.CapacityError):
            if self.on_error == "raise":
                raise
            return self._core._instead(key, number, mode == "hit")
        return self._core._decision(self.store, key, number, outcome)

    async def reset(self, key: Key) -> bool:
        """Forget all of the key's entries, in one step; whether there were any.

        >>> async def example(limiter):
        ...     return await limiter.reset("ann")
        """
        keys = self._core._keys(key)
        if isinstance(self.on_error, Counters):
            self.on_error.delete(*keys)
        return await self.store.delete(*keys) > 0

    async def refund(self, decision: Decision) -> bool:
        """Give back what the hit of this decision still weighs; True if anything was. Once, and for its own object.

        >>> async def example(limiter):
        ...     return await limiter.refund(await limiter.hit("ann"))
        """
        store, marks = self._core._take_right(decision)
        if marks is None:
            return False
        if isinstance(store, Counters):  # it was judged by `on_error`
            return self._core._give_back(store, marks, decision)
        return bool(await store.refund(marks, decision.cost))

    async def acquire(self, key: Key, cost: SupportsIndex = 1, *, timeout: Period | None = None) -> Decision:
        """Wait until the hit passes: its Decision; or the refusal, at once, if that would take longer than `timeout`.

        As `RateLimiter.acquire`; it sleeps on the running loop. Whoever is cancelled gives his reservation up.

        >>> async def example(limiter):
        ...     return await limiter.acquire("ann", timeout=2)
        """
        entries, number = self._core._entries(key), _integer("cost", cost, 0)
        timeout_ns = None if timeout is None else _timeout_ns(timeout)
        store: Any = self.store
        steps = waiting(self.algorithm, entries, number, timeout_ns)
        try:
            outcome = await drive_async(store, steps, async_sleeper(self._sleep, store), True)
        except (errors.StoreError, errors.CapacityError):
            if self.on_error == "raise":
                raise
            if isinstance(self.on_error, str):
                return self._core._instead(key, number, True)
            store = self.on_error
            steps = waiting(self.algorithm, entries, number, timeout_ns)
            outcome = await drive_async(store, steps, async_sleeper(self._sleep, store), False)
        return self._core._decision(store, key, number, outcome)

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"<goblin.AsyncRateLimiter: {'; '.join(map(str, self.limits))}, {self.algorithm}{name}>"
