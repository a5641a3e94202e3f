"""What a store is to limiters and decorators: five verbs, in a plain and an async form. `Counters` fits by its shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, SupportsIndex

__all__ = ["AsyncStore", "Store"]

Quota = tuple[str, int, int | None, int | None]
Outcome = tuple[int, int, int, int, int, tuple[Any, ...] | None]


class Store(Protocol):
    """The five verbs that `RateLimiter` and the decorators use. `Counters` and `goblin.redis.RedisCounters` have them.

    A quota is (algorithm, amount, period_ns, burst): "fixed-window", "sliding-window" or "gcra"; period_ns None for a
    count that never ends; burst None for the amount. `decide` returns (verdict, remaining, reset_ns, index, at_ns,
    stamps): see `Counters.decide`. Stamps are the store's own affair, handed back to `refund` and `unreserve`. A store
    that cannot be reached raises `StoreError`, one that is full `CapacityError`: `on_error` of `RateLimiter` is for these.
    """

    def decide(
        self,
        entries: Iterable[tuple[str | bytes, Quota]],
        cost: SupportsIndex = 1,
        mode: str = "hit",
        *,
        max_wait_ns: SupportsIndex | None = None,
    ) -> Outcome:
        """One hit of `cost` on several limits, all or nothing in one step; mode "hit", "peek" or "reserve"."""
        ...

    def refund(self, stamps: tuple[Any, ...], cost: SupportsIndex) -> bool:
        """Give back what a hit of `cost` still weighs; whether anything was."""
        ...

    def unreserve(self, stamps: tuple[Any, ...]) -> None:
        """Give up a reservation: each entry goes back, unless somebody has reserved behind it since."""
        ...

    def delete(self, *keys: str | bytes) -> int:
        """Remove entries, in one step; how many were there."""
        ...

    def now_ns(self) -> int:
        """The clock by which the store judges."""
        ...


class AsyncStore(Protocol):
    """`Store` for `AsyncRateLimiter` and decorated `async def`: the same verbs, awaited.

    `goblin.redis.AsyncRedisCounters` has them.
    """

    async def decide(
        self,
        entries: Iterable[tuple[str | bytes, Quota]],
        cost: SupportsIndex = 1,
        mode: str = "hit",
        *,
        max_wait_ns: SupportsIndex | None = None,
    ) -> Outcome:
        """One hit of `cost` on several limits, all or nothing in one step; mode "hit", "peek" or "reserve"."""
        ...

    async def refund(self, stamps: tuple[Any, ...], cost: SupportsIndex) -> bool:
        """Give back what a hit of `cost` still weighs; whether anything was."""
        ...

    async def unreserve(self, stamps: tuple[Any, ...]) -> None:
        """Give up a reservation: each entry goes back, unless somebody has reserved behind it since."""
        ...

    async def delete(self, *keys: str | bytes) -> int:
        """Remove entries, in one step; how many were there."""
        ...

    async def now_ns(self) -> int:
        """The clock by which the store judges."""
        ...
