"""RedisCounters: the interface of `Counters` on a Redis or Valkey server."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex, TypeVar, overload

from goblin import _convert as convert
from goblin.redis._calls import Call, Calls, seconds_of
from goblin.redis._client import SCAN_COUNT, Link
from goblin.redis._docs import borrow_docstrings
from goblin.store import Outcome, Quota

if TYPE_CHECKING:
    from _typeshed import SupportsItems

__all__ = ["RedisCounters"]

Key = str | bytes
Time = SupportsIndex | timedelta
Period = float | SupportsIndex | timedelta
Value = SupportsIndex | str | bytes
_Default = TypeVar("_Default")
_T = TypeVar("_T")


class RedisCounters(Calls):
    """The counters and limits of `Counters`, kept by a Redis or Valkey server, for several processes and machines.

    client: a `redis.Redis`, `redis.RedisCluster`, `valkey.Valkey` or `valkey.ValkeyCluster`, yours to configure and to
    close; it may decode replies or not. prefix: a str without braces that all keys of this store begin with on the
    server; two stores with one prefix on one database are one store.

    Every method of `Counters` but `sweep` and `stats`, with the same arguments, results and exceptions, each one atomic
    step on the server and one round trip. What differs: the clock is the server's, in microseconds; a counter's TTL is
    rounded up to a millisecond; `clear` needs a prefix; length, iteration, `items`, `most_common` and `clear` scan the
    database, a thousand keys a round trip, and are no single step. `type` says "foreign" for what is not goblin's.

    Raises: `StoreError`, with the client's error as its cause, where the server is down, too slow or answers nonsense;
    then it is unknown whether the call was carried out. `CapacityError` where its memory is full: nothing has changed.
    TypeError for a client of another kind, ValueError for a prefix with braces.

    Safe from any number of threads, as the client is.
    """

    def __init__(self, client: Any, *, prefix: str = "") -> None:
        super().__init__(prefix)
        self._link = Link(client, is_async=False)
        self._is_cluster = self._link.is_cluster

    def _do(self, call: Call[_T]) -> _T:
        """The one place where a server is asked."""
        if call.script is None:
            return call.read([])
        try:
            reply = self._link.scripts[call.script](keys=call.keys, args=[self._clock_word(), *call.args])
        except self._link.errors as error:
            raise self._link.failure(error) from error
        return call.result(reply)

    # ---- counting

    def increx(self, key: Key, seconds: Time) -> int:
        return self._do(self._call_increx(key, seconds, "seconds"))

    def pincrex(self, key: Key, milliseconds: Time) -> int:
        return self._do(self._call_increx(key, milliseconds, "milliseconds"))

    def incrbound(self, key: Key, delta: SupportsIndex, max: SupportsIndex, *, seconds: Time | None = None) -> int:
        return self._do(self._call_incrbound(key, delta, max, seconds))

    def decrpos(self, key: Key) -> int:
        return self._do(self._call_decrpos(key))

    def incr(self, key: Key, amount: SupportsIndex = 1, *, ex: Time | None = None, px: Time | None = None) -> int:
        return self._do(self._call_add(key, amount, "+", ex, px))

    def incrby(self, key: Key, amount: SupportsIndex = 1, *, ex: Time | None = None, px: Time | None = None) -> int:
        return self._do(self._call_add(key, amount, "+", ex, px))

    def decr(self, key: Key, amount: SupportsIndex = 1, *, ex: Time | None = None, px: Time | None = None) -> int:
        return self._do(self._call_add(key, amount, "-", ex, px))

    def decrby(self, key: Key, amount: SupportsIndex = 1, *, ex: Time | None = None, px: Time | None = None) -> int:
        return self._do(self._call_add(key, amount, "-", ex, px))

    # ---- limits

    def fixed_window(self, key: Key, limit: SupportsIndex, seconds: Period | None, cost: SupportsIndex = 1) -> int:
        return self._do(self._call_hit("counter", key, limit, seconds, cost))

    def sliding_window(self, key: Key, limit: SupportsIndex, seconds: Period, cost: SupportsIndex = 1) -> int:
        return self._do(self._call_hit("sliding-window", key, limit, seconds, cost))

    def gcra(
        self,
        key: Key,
        limit: SupportsIndex,
        seconds: Period,
        cost: SupportsIndex = 1,
        *,
        burst: SupportsIndex | None = None,
    ) -> int:
        return self._do(self._call_hit("gcra", key, limit, seconds, cost, burst))

    def type(self, key: Key) -> Literal["counter", "sliding-window", "gcra", "foreign"] | None:
        kind: Literal["counter", "sliding-window", "gcra", "foreign"] | None = self._do(self._call_type(key))
        return kind

    # ---- the verbs of the Store protocol

    def decide(
        self,
        entries: Iterable[tuple[Key, Quota]],
        cost: SupportsIndex = 1,
        mode: str = "hit",
        *,
        max_wait_ns: SupportsIndex | None = None,
    ) -> Outcome:
        outcome: Outcome = self._do(self._call_decide(entries, cost, mode, max_wait_ns))
        return outcome

    def refund(self, stamps: tuple[Any, ...], cost: SupportsIndex) -> bool:
        return self._do(self._call_refund(stamps, cost))

    def unreserve(self, stamps: tuple[Any, ...]) -> None:
        self._do(self._call_unreserve(stamps))

    def now_ns(self) -> int:
        return self._do(self._call_now_ns())

    # ---- reading and writing

    @overload
    def get(self, key: Key, default: None = None) -> int | None: ...
    @overload
    def get(self, key: Key, default: _Default) -> int | _Default: ...
    def get(self, key: Key, default: Any = None) -> Any:
        return self._do(self._call_get(key, default))

    @overload
    def set(
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
    def set(
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
    def set(
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
    def set(
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
        old, stored = self._do(call)
        return old if get else stored

    def getset(self, key: Key, value: Value) -> int | None:
        old, _ = self._do(self._call_set(key, value, None, None, get=True))
        return old

    def getdel(self, key: Key) -> int | None:
        return self._do(self._call_getdel(key))

    def getex(self, key: Key, *, ex: Time | None = None, px: Time | None = None, persist: bool = False) -> int | None:
        return self._do(self._call_getex(key, ex, px, persist))

    @overload
    def mget(self, keys: Iterable[Key], /) -> list[int | None]: ...
    @overload
    def mget(self, *keys: Key) -> list[int | None]: ...
    def mget(self, *keys: Any) -> list[int | None]:
        return self._do(self._call_mget(keys))

    def mset(self, mapping: SupportsItems[Key, Value]) -> None:
        self._do(self._call_mset(mapping))

    def delete(self, *keys: Key) -> int:
        return self._do(self._call_delete(keys))

    def exists(self, *keys: Key) -> int:
        return self._do(self._call_exists(keys))

    # ---- TTLs

    def expire(
        self, key: Key, seconds: Time, *, nx: bool = False, xx: bool = False, gt: bool = False, lt: bool = False
    ) -> bool:
        return self._do(self._call_expire(key, seconds, "seconds", nx=nx, xx=xx, gt=gt, lt=lt))

    def pexpire(
        self, key: Key, milliseconds: Time, *, nx: bool = False, xx: bool = False, gt: bool = False, lt: bool = False
    ) -> bool:
        return self._do(self._call_expire(key, milliseconds, "milliseconds", nx=nx, xx=xx, gt=gt, lt=lt))

    def persist(self, key: Key) -> bool:
        return self._do(self._call_persist(key))

    def ttl(self, key: Key) -> int:
        return seconds_of(self._do(self._call_pttl(key)))

    def pttl(self, key: Key) -> int:
        return self._do(self._call_pttl(key))

    # ---- the store as a container

    def __len__(self) -> int:
        return sum(map(len, self._scan(self._glob(None))))

    def __contains__(self, key: Key, /) -> bool:
        return self.exists(key) == 1

    def __getitem__(self, key: Key, /) -> int:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: NoReturn, value: NoReturn, /) -> NoReturn:
        # Along with __delitem__ Python would answer with AttributeError.
        raise TypeError("item assignment is not supported: use set(), which says what becomes of the TTL")

    def __delitem__(self, key: Key, /) -> None:
        if self.delete(key) == 0:
            raise KeyError(key)

    def __iter__(self) -> Iterator[str | bytes]:
        return self.scan_iter()

    def scan_iter(self, match: Key | None = None) -> Iterator[str | bytes]:
        return self._live_keys(self._glob(match))

    def _live_keys(self, glob: bytes | None) -> Iterator[str | bytes]:
        for full_keys in self._scan(glob):
            kinds = self._read(full_keys, lambda kind, *_: kind)
            yield from self._bare(key for key, kind in zip(full_keys, kinds, strict=True) if kind)

    def items(self) -> Iterator[tuple[str | bytes, int]]:
        for full_keys in self._scan(self._glob(None)):
            values = self._read(full_keys, lambda _, value, *__: value)
            keys = self._bare(key for key, value in zip(full_keys, values, strict=True) if value)
            yield from zip(keys, map(int, filter(None, values)), strict=True)

    def most_common(self, n: SupportsIndex | None = None) -> list[tuple[str | bytes, int]]:
        if n is None:
            return sorted(self.items(), key=itemgetter(1), reverse=True)
        return heapq.nlargest(convert.count(n, "n"), self.items(), key=itemgetter(1))

    def clear(self) -> None:
        """Remove every key below the prefix; not one step: what is added meanwhile may stay. Source: SCAN, UNLINK.

        Without a prefix: ValueError, for it would empty the whole database. Time in proportion to the database.
        """
        self._check_clear()
        self._given_up.clear()
        for full_keys in self._scan(self._glob(None)):
            for some in self._together(full_keys):
                try:
                    self._link.client.unlink(*some)
                except self._link.errors as error:
                    raise self._link.failure(error) from error

    def _read(self, full_keys: list[bytes], read_one: Callable[[str, str, str], _T]) -> list[_T]:
        some = (self._do(self._call_read(keys, read_one)) for keys in self._together(full_keys))
        return list(itertools.chain.from_iterable(some))

    def _scan(self, glob: bytes | None) -> Iterator[list[bytes]]:
        """The keys that match, each once, in batches. SCAN may give one twice: so those given are kept in mind."""
        seen = set[bytes]()
        # NEVER_DECODE: the client's own option for bytes, whatever it does with replies otherwise.
        found = self._link.client.scan_iter(match=glob, count=SCAN_COUNT, NEVER_DECODE=[])
        while True:
            try:
                batch = list(itertools.islice(found, SCAN_COUNT))
            except self._link.errors as error:
                raise self._link.failure(error) from error
            if not batch:
                return
            fresh = list(dict.fromkeys(key for key in batch if key not in seen))
            seen.update(fresh)
            yield fresh


borrow_docstrings(RedisCounters)
