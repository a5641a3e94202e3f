"""AsyncRedisCounters: `RedisCounters` to be awaited."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar, overload

from goblin import _convert as convert
from goblin.redis._calls import Call, Calls, seconds_of
from goblin.redis._client import SCAN_COUNT, Link
from goblin.redis._docs import borrow_docstrings
from goblin.store import Outcome, Quota

if TYPE_CHECKING:
    from _typeshed import SupportsItems

__all__ = ["AsyncRedisCounters"]

Key = str | bytes
Time = SupportsIndex | timedelta
Period = float | SupportsIndex | timedelta
Value = SupportsIndex | str | bytes
_Default = TypeVar("_Default")
_T = TypeVar("_T")


class AsyncRedisCounters(Calls):
    """`RedisCounters` for asyncio, on a `redis.asyncio` or `valkey.asyncio` client: the same methods, awaited.

    client: a `Redis` or `RedisCluster` of `redis.asyncio`, or a `Valkey` or `ValkeyCluster` of `valkey.asyncio`.
    prefix: as for `RedisCounters`; with the same prefix both are the same store.

    What Python cannot await has a verb: `await store.size()` for the length, `await store.contains(key)`, `async for`
    to iterate; `await store.get(key)` and `await store.delete(key)` instead of brackets. `scan_iter` and `items` are
    iterated with `async for`. A call that is cancelled may have been carried out, or not.

    Raises: as `RedisCounters`. Safe from any number of tasks of the client's loop.
    """

    def __init__(self, client: Any, *, prefix: str = "") -> None:
        super().__init__(prefix)
        self._link = Link(client, is_async=True)
        self._is_cluster = self._link.is_cluster

    async def _do(self, call: Call[_T]) -> _T:
        """The one place where a server is asked."""
        if call.script is None:
            return call.read([])
        try:
            reply = await self._link.scripts[call.script](keys=call.keys, args=[self._clock_word(), *call.args])
        except self._link.errors as error:
            raise self._link.failure(error) from error
        return call.result(reply)

    # ---- counting

    async def increx(self, key: Key, seconds: Time) -> int:
        return await self._do(self._call_increx(key, seconds, "seconds"))

    async def pincrex(self, key: Key, milliseconds: Time) -> int:
        return await self._do(self._call_increx(key, milliseconds, "milliseconds"))

    async def incrbound(
        self, key: Key, delta: SupportsIndex, max: SupportsIndex, *, seconds: Time | None = None
    ) -> int:
        return await self._do(self._call_incrbound(key, delta, max, seconds))

    async def decrpos(self, key: Key) -> int:
        return await self._do(self._call_decrpos(key))

    async def incr(self, key: Key, amount: SupportsIndex = 1, *, ex: Time | None = None, px: Time | None = None) -> int:
        return await self._do(self._call_add(key, amount, "+", ex, px))

    async def incrby(
        self, key: Key, amount: SupportsIndex = 1, *, ex: Time | None = None, px: Time | None = None
    ) -> int:
        return await self._do(self._call_add(key, amount, "+", ex, px))

    async def decr(self, key: Key, amount: SupportsIndex = 1, *, ex: Time | None = None, px: Time | None = None) -> int:
        return await self._do(self._call_add(key, amount, "-", ex, px))

    async def decrby(
        self, key: Key, amount: SupportsIndex = 1, *, ex: Time | None = None, px: Time | None = None
    ) -> int:
        return await self._do(self._call_add(key, amount, "-", ex, px))

    # ---- limits

    async def fixed_window(
        self, key: Key, limit: SupportsIndex, seconds: Period | None, cost: SupportsIndex = 1
    ) -> int:
        return await self._do(self._call_hit("counter", key, limit, seconds, cost))

    async def sliding_window(self, key: Key, limit: SupportsIndex, seconds: Period, cost: SupportsIndex = 1) -> int:
        return await self._do(self._call_hit("sliding-window", key, limit, seconds, cost))

    async def gcra(
        self,
        key: Key,
        limit: SupportsIndex,
        seconds: Period,
        cost: SupportsIndex = 1,
        *,
        burst: SupportsIndex | None = None,
    ) -> int:
        return await self._do(self._call_hit("gcra", key, limit, seconds, cost, burst))

    async def type(self, key: Key) -> Literal["counter", "sliding-window", "gcra", "foreign"] | None:
        kind: Literal["counter", "sliding-window", "gcra", "foreign"] | None = await self._do(self._call_type(key))
        return kind

    # ---- the verbs of the Store protocol

    async def decide(
        self,
        entries: Iterable[tuple[Key, Quota]],
        cost: SupportsIndex = 1,
        mode: str = "hit",
        *,
        max_wait_ns: SupportsIndex | None = None,
    ) -> Outcome:
        outcome: Outcome = await self._do(self._call_decide(entries, cost, mode, max_wait_ns))
        return outcome

    async def refund(self, stamps: tuple[Any, ...], cost: SupportsIndex) -> bool:
        return await self._do(self._call_refund(stamps, cost))

    async def unreserve(self, stamps: tuple[Any, ...]) -> None:
        await self._do(self._call_unreserve(stamps))

    async def now_ns(self) -> int:
        return await self._do(self._call_now_ns())

    # ---- reading and writing

    @overload
    async def get(self, key: Key, default: None = None) -> int | None: ...
    @overload
    async def get(self, key: Key, default: _Default) -> int | _Default: ...
    async def get(self, key: Key, default: Any = None) -> Any:
        return await self._do(self._call_get(key, default))

    @overload
    async def set(
        self,
        key: Key,
        value: Value,
        *,
        ex: Time | None = None,
        px: Time | None = None,
        keepttl: bool = False,
        nx: bool = False,
        xx: bool = False,
        get: Literal[False] = False,
    ) -> bool: ...
    @overload
    async def set(
        self,
        key: Key,
        value: Value,
        *,
        ex: Time | None = None,
        px: Time | None = None,
        keepttl: bool = False,
        nx: bool = False,
        xx: bool = False,
        get: Literal[True],
    ) -> int | None: ...
    @overload
    async def set(
        self,
        key: Key,
        value: Value,
        *,
        ex: Time | None = None,
        px: Time | None = None,
        keepttl: bool = False,
        nx: bool = False,
        xx: bool = False,
        get: bool,
    ) -> bool | int | None: ...
    async def set(
        self,
        key: Key,
        value: Value,
        *,
        ex: Time | None = None,
        px: Time | None = None,
        keepttl: bool = False,
        nx: bool = False,
        xx: bool = False,
        get: bool = False,
    ) -> bool | int | None:
        call = self._call_set(key, value, ex, px, keepttl=keepttl, nx=nx, xx=xx, get=get)
        old, stored = await self._do(call)
        return old if get else stored

    async def getset(self, key: Key, value: Value) -> int | None:
        old, _ = await self._do(self._call_set(key, value, None, None, get=True))
        return old

    async def getdel(self, key: Key) -> int | None:
        return await self._do(self._call_getdel(key))

    async def getex(
        self, key: Key, *, ex: Time | None = None, px: Time | None = None, persist: bool = False
    ) -> int | None:
        return await self._do(self._call_getex(key, ex, px, persist))

    @overload
    async def mget(self, keys: Iterable[Key], /) -> list[int | None]: ...
    @overload
    async def mget(self, *keys: Key) -> list[int | None]: ...
    async def mget(self, *keys: Any) -> list[int | None]:
        return await self._do(self._call_mget(keys))

    async def mset(self, mapping: SupportsItems[Key, Value]) -> None:
        await self._do(self._call_mset(mapping))

    async def delete(self, *keys: Key) -> int:
        return await self._do(self._call_delete(keys))

    async def exists(self, *keys: Key) -> int:
        return await self._do(self._call_exists(keys))

    # ---- TTLs

    async def expire(
        self, key: Key, seconds: Time, *, nx: bool = False, xx: bool = False, gt: bool = False, lt: bool = False
    ) -> bool:
        return await self._do(self._call_expire(key, seconds, "seconds", nx=nx, xx=xx, gt=gt, lt=lt))

    async def pexpire(
        self, key: Key, milliseconds: Time, *, nx: bool = False, xx: bool = False, gt: bool = False, lt: bool = False
    ) -> bool:
        return await self._do(self._call_expire(key, milliseconds, "milliseconds", nx=nx, xx=xx, gt=gt, lt=lt))

    async def persist(self, key: Key) -> bool:
        return await self._do(self._call_persist(key))

    async def ttl(self, key: Key) -> int:
        return seconds_of(await self._do(self._call_pttl(key)))

    async def pttl(self, key: Key) -> int:
        return await self._do(self._call_pttl(key))

    # ---- the store as a container

    async def size(self) -> int:
        """How many keys there are: what `len` is for `RedisCounters`."""
        return sum([len(full_keys) async for full_keys in self._scan(self._glob(None))])

    async def contains(self, key: Key) -> bool:
        """Whether the key is there: what `in` is for `RedisCounters`."""
        return await self.exists(key) == 1

    def __aiter__(self) -> AsyncIterator[str | bytes]:
        return self.scan_iter()

    def scan_iter(self, match: Key | None = None) -> AsyncIterator[str | bytes]:
        return self._live_keys(self._glob(match))

    async def _live_keys(self, glob: bytes | None) -> AsyncIterator[str | bytes]:
        async for full_keys in self._scan(glob):
            kinds = await self._read(full_keys, lambda kind, *_: kind)
            for key in self._bare(key for key, kind in zip(full_keys, kinds, strict=True) if kind):
                yield key

    async def items(self) -> AsyncIterator[tuple[str | bytes, int]]:
        async for full_keys in self._scan(self._glob(None)):
            values = await self._read(full_keys, lambda _, value, *__: value)
            keys = self._bare(key for key, value in zip(full_keys, values, strict=True) if value)
            for pair in zip(keys, map(int, filter(None, values)), strict=True):
                yield pair

    async def most_common(self, n: SupportsIndex | None = None) -> list[tuple[str | bytes, int]]:
        count = None if n is None else convert.count(n, "n")
        pairs = [pair async for pair in self.items()]
        if count is None:
            return sorted(pairs, key=itemgetter(1), reverse=True)
        return heapq.nlargest(count, pairs, key=itemgetter(1))

    async def clear(self) -> None:
        """Remove every key below the prefix; not one step: what is added meanwhile may stay. Source: SCAN, UNLINK.

        Without a prefix: ValueError, for it would empty the whole database. Time in proportion to the database.
        """
        self._check_clear()
        self._given_up.clear()
        async for full_keys in self._scan(self._glob(None)):
            for some in self._together(full_keys):
                try:
                    await self._link.client.unlink(*some)
                except self._link.errors as error:
                    raise self._link.failure(error) from error

    async def _read(self, full_keys: list[bytes], read_one: Callable[[str, str, str], _T]) -> list[_T]:
        some = [await self._do(self._call_read(keys, read_one)) for keys in self._together(full_keys)]
        return list(itertools.chain.from_iterable(some))

    async def _scan(self, glob: bytes | None) -> AsyncIterator[list[bytes]]:
        """The keys that match, each once, in batches. SCAN may give one twice: so those given are kept in mind."""
        seen = set[bytes]()
        batch: list[bytes] = []
        try:
            # NEVER_DECODE: the client's own option for bytes, whatever it does with replies otherwise.
            async for key in self._link.client.scan_iter(match=glob, count=SCAN_COUNT, NEVER_DECODE=[]):
                if key not in seen:
                    seen.add(key)
                    batch.append(key)
                if len(batch) == SCAN_COUNT:
                    yield batch
                    batch = []
        except self._link.errors as error:
            raise self._link.failure(error) from error
        if batch:
            yield batch


borrow_docstrings(AsyncRedisCounters)
