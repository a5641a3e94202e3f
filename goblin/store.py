"""What a store is to limiters and decorators: five verbs, plain or async. `Counters` fits by its shape."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import iscoroutinefunction
from typing import Any, Protocol, SupportsIndex

from goblin import errors

__all__ = ["AsyncStore", "Store"]

Quota = tuple[str, int, int | None, int | None]
Outcome = tuple[int, int, int, int, int, tuple[Any, ...] | None]


class Store(Protocol):
    """The five verbs that `RateLimiter` and the decorators use.

    `Counters` and `goblin.redis.RedisCounters` have them. A quota is (algorithm, amount, period_ns, burst):
    "fixed-window", "sliding-window" or "gcra"; period_ns None for a count that never ends; burst None for the amount.
    `decide` returns (verdict, remaining, reset_ns, index, at_ns, stamps): see `Counters.decide`. Stamps are the store's
    own affair, handed back to `refund` and `unreserve`. A store that cannot be reached raises `StoreError`, one that is
    full `CapacityError`: `on_error` of `RateLimiter` is for these.
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


_VERBS = ("decide", "refund", "unreserve", "delete", "now_ns")


def is_async_store(store: Any) -> bool:
    """Whether the verbs of the store are to be awaited; TypeError where it lacks some of them."""
    missing = [verb for verb in _VERBS if not callable(getattr(type(store), verb, None))]
    if missing:
        raise TypeError(
            "store must be a goblin.Counters or have the verbs of the Store protocol: "
            f"{errors._type_name(type(store))} lacks {', '.join(missing)}"
        )
    return iscoroutinefunction(type(store).decide)


def check_store(store: Any) -> None:
    """For whoever cannot await: the verbs are there, and none of them is async."""
    if is_async_store(store):
        raise TypeError(
            f"store {errors._type_name(type(store))} is async: it is for goblin.AsyncRateLimiter, and for decorators "
            "of an async def"
        )
