"""A storage for the `limits` library, and so for Flask-Limiter and slowapi: `goblin://` instead of `memory://`.

`limits` finds a storage by its URI's scheme once the class exists, so import this before the limiter is made:

>>> import goblin.integrations.limits
>>> from limits import parse, storage, strategies
>>> limiter = strategies.FixedWindowRateLimiter(storage.storage_from_string("goblin://"))
>>> [limiter.hit(parse("2/minute"), "ann") for _ in range(3)]
[True, True, False]

The URIs (for the storages of `limits.aio`, `async+goblin://`)::

    goblin://                   a store of its own for each storage
    goblin://NAME               one store for all storages of this process that name it, sync and async
    ?max_keys=N&on_full=evict   how many keys it holds, and what happens when it is full: as for goblin.Counters.
                                Without them 1,000,000 and "evict", as for goblin.default_store()

Strategies: fixed window and sliding-window counter. A moving window needs the time of every hit, which a counter does
not hold: `limits` raises NotImplementedError.
"""

import inspect
import re
import time
from math import floor
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl

from limits.aio.storage import SlidingWindowCounterSupport as AsyncSlidingWindowCounterSupport
from limits.aio.storage import Storage as AsyncStorage
from limits.errors import ConfigurationError, StorageError
from limits.storage import SlidingWindowCounterSupport, Storage

from goblin import CapacityError, Counters, ManualClock, WrongTypeError
from goblin.errors import INT64_MAX, overflow

__all__ = ["AsyncGoblinStorage", "GoblinStorage"]

# What a call can raise for reasons that lie in the store or in a number. A wrong type is the caller's bug: not here.
BASE_EXCEPTIONS = (CapacityError, WrongTypeError, OverflowError, ValueError)

# Behind the keys of sliding windows: they are another kind of entry, and both strategies may serve one limit. `limits`
# builds its keys from words joined by "/", so none of them ends so.
SLIDING = "\0"

NS_PER_SECOND = 10**9
MS_PER_SECOND = 1000


# ---- which store a URI means ----------------------------------------------------------------------------------------

URI = re.compile(r"(?i:(?:async\+)?goblin)://(?P<name>[A-Za-z0-9._-]*)(?:\?(?P<query>[^#]*))?")
URI_FORM = (
    "goblin://[NAME][?max_keys=N][&on_full=evict|raise], or the same with async+goblin; NAME: letters, digits, . _ -"
)
MAX_KEYS_FORM = re.compile(r"[1-9][0-9]{0,17}")  # so within int64


class Settings(NamedTuple):
    """What a store is made with. Two storages of one name have to agree on it."""

    max_keys: int = 1_000_000  # this and the next as for default_store(): keys come from outside, memory must not
    on_full: Literal["evict", "raise"] = "evict"
    clock: ManualClock | None = None


_named: dict[str, tuple[Settings, Counters]] = {}


def read_uri(uri: str, clock: ManualClock | None) -> tuple[str, Settings]:
    """The name, empty where there is none, and the settings."""
    match = URI.fullmatch(uri)
    if match is None:
        raise ConfigurationError(f"storage URI {uri!r} (expected: {URI_FORM})")
    settings = Settings(clock=clock)
    seen: set[str] = set()
    for name, value in parse_qsl(match["query"] or "", keep_blank_values=True):
        if name in seen:
            raise ConfigurationError(f"{name!r} is given twice in storage URI {uri!r} (expected: {URI_FORM})")
        seen.add(name)
        if name == "max_keys" and MAX_KEYS_FORM.fullmatch(value):
            settings = settings._replace(max_keys=int(value))
        elif name == "max_keys":
            raise ConfigurationError(f"max_keys={value!r} in storage URI {uri!r} (expected: an integer, 1 to 10**18-1)")
        elif name == "on_full" and (value == "evict" or value == "raise"):
            settings = settings._replace(on_full=value)
        elif name == "on_full":
            raise ConfigurationError(f"on_full={value!r} in storage URI {uri!r} (expected: evict or raise)")
        else:
            raise ConfigurationError(f"parameter {name!r} in storage URI {uri!r} (expected: max_keys=, on_full=)")
    return match["name"], settings


def make_store(settings: Settings) -> Counters:
    return Counters(max_keys=settings.max_keys, on_full=settings.on_full, clock=settings.clock)


def store_for(uri: str | None, clock: ManualClock | None, options: dict[str, float | str | bool]) -> Counters:
    if options:
        raise ConfigurationError(
            f"storage option {', '.join(map(repr, sorted(options)))} (expected: clock, wrap_exceptions; max_keys and "
            f"on_full are parameters of the URI: {URI_FORM})"
        )
    if clock is not None and not isinstance(clock, ManualClock):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"clock of type {type(clock).__name__} (expected: a goblin.ManualClock, or None)")
    name, settings = read_uri("goblin://" if uri is None else uri, clock)
    if not name:
        return make_store(settings)
    # setdefault is one step, also without a GIL: of two threads that name a new store at once, both get the same.
    first, counters = _named.get(name) or _named.setdefault(name, (settings, make_store(settings)))
    if first != settings:
        # Otherwise it would depend on the order of imports which of the two bounds holds.
        raise ConfigurationError(f"store {name!r} asked for with {settings} (expected: as it was made, with {first})")
    return counters


# ---- the storages ---------------------------------------------------------------------------------------------------


class GoblinStorage(Storage, SlidingWindowCounterSupport):
    """A storage of `limits` on goblin.Counters: every method is one step of the store, whatever the number of threads.

    uri: see the module; None is "goblin://". wrap_exceptions: raise `limits.errors.StorageError` from what the store
    raises (`base_exceptions`). clock: a goblin.ManualClock for tests, or None. A wrong URI or option:
    `limits.errors.ConfigurationError` that says what was expected.

    Windows run on the monotonic clock, from the first hit on a key, as on `limits`' Redis and MongoDB; those of its
    memory storage begin at multiples of the period on the wall clock. A sliding window's limit is at most 2**31-1.

    >>> storage = GoblinStorage("goblin://?max_keys=1000")
    >>> storage.incr("key", 60), storage.incr("key", 60, amount=4), storage.get("key")
    (1, 5, 5)
    """

    STORAGE_SCHEME = ["goblin"]

    def __init__(
        self,
        uri: str | None = None,
        wrap_exceptions: bool = False,
        clock: ManualClock | None = None,
        **options: float | str | bool,
    ) -> None:
        self._counters = store_for(uri, clock, options)
        # Looked up once: each is a bound method made anew at every look otherwise.
        self._increx = self._counters.increx
        self._sliding_window = self._counters.sliding_window
        super().__init__(uri, wrap_exceptions=wrap_exceptions)

    @property
    def counters(self) -> Counters:
        """The store itself.

        >>> GoblinStorage().counters.stats().keys
        0
        """
        return self._counters

    @property
    def base_exceptions(self) -> type[Exception] | tuple[type[Exception], ...]:
        """What the store can raise: CapacityError, WrongTypeError, OverflowError, ValueError.

        >>> goblin.CapacityError in GoblinStorage().base_exceptions
        True
        """
        return BASE_EXCEPTIONS

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add `amount`, past any limit, and return the sum. The key's first hit opens a window of `expiry` seconds.

        A sum outside int64: OverflowError, nothing changed. Cost: O(1).

        >>> GoblinStorage().incr("key", 60)
        1
        """
        try:
            if amount == 1:
                return self._increx(key, expiry)
            total = self._counters.incrbound(key, amount, INT64_MAX, seconds=expiry)
            if total == -1 and amount > 0 and self._counters.get(key, 0) > 0:
                raise overflow()  # -1 was a refusal, not the sum: it would pass any limit
            return total
        except BASE_EXCEPTIONS as error:
            if self.wrap_exceptions:
                raise StorageError(error) from error
            raise

    def get(self, key: str) -> int:
        """The count of a fixed window, 0 where there is none.

        >>> GoblinStorage().get("absent")
        0
        """
        return self._counters.get(key, 0)

    def get_expiry(self, key: str) -> float:
        """When the fixed window ends, seconds since the epoch on the wall clock; now where there is none.

        The time left is the store's own, rounded up to a millisecond; setting the system's clock does not change it.

        >>> GoblinStorage().get_expiry("absent") <= time.time()
        True
        """
        return time.time() + max(self._counters.pttl(key), 0) / MS_PER_SECOND

    def check(self) -> bool:
        """True: the store is in this process.

        >>> GoblinStorage().check()
        True
        """
        return True

    def reset(self) -> int | None:
        """Drop every key, under a shared name those of all its storages; how many there were. Cost: O(n).

        >>> storage = GoblinStorage()
        >>> storage.incr("key", 60), storage.reset(), storage.get("key")
        (1, 1, 0)
        """
        self._counters.sweep()  # so that what has expired is not counted
        count = len(self._counters)
        self._counters.clear()
        return count

    def clear(self, key: str) -> None:
        """Drop a fixed window.

        >>> GoblinStorage().clear("absent")
        """
        self._counters.delete(key)

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count `amount` if the weighted count stays within `limit`; otherwise nothing has changed. Cost: O(1).

        That is, if floor(previous x previous_ttl / expiry + current) + amount <= limit.

        >>> [GoblinStorage().acquire_sliding_window_entry("key", 2, 60, amount) for amount in (2, 3)]
        [True, False]
        """
        try:
            if amount == 0:
                # The store never refuses nothing; `limits` does, where more has been counted than this limit.
                previous, previous_ttl, current, _ = self.get_sliding_window(key, expiry)
                return floor(previous * previous_ttl / expiry) + current <= limit
            return self._sliding_window(key + SLIDING, limit, expiry, amount) >= 0
        except BASE_EXCEPTIONS as error:
            if self.wrap_exceptions:
                raise StorageError(error) from error
            raise

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """(previous count, its ttl, current count, its ttl), ttls in seconds; zeros where there is none.

        previous ttl: how much of the previous window still counts, just below `expiry` at first; current ttl: until the
        current window counts for nothing, so its own end and `expiry` more.

        >>> GoblinStorage().get_sliding_window("absent", 60)
        (0, 0.0, 0, 0.0)
        """
        previous, current, left_ns = self._counters._sliding_counts(key + SLIDING, expiry)
        if not left_ns:
            return 0, 0.0, 0, 0.0
        # A nanosecond less than the current window has left, as the store weighs it: see sliding_window in _rules.pxd.
        previous_ttl = min((left_ns - 1) / NS_PER_SECOND, float(expiry)) if previous else 0.0
        return previous, previous_ttl, current, left_ns / NS_PER_SECOND + expiry

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Drop both windows of the key.

        >>> GoblinStorage().clear_sliding_window("absent", 60)
        """
        self._counters.delete(key + SLIDING)


class AsyncGoblinStorage(AsyncStorage, AsyncSlidingWindowCounterSupport):
    """`GoblinStorage` for `limits.aio`, under the scheme `async+goblin`: the same, awaited. Nothing in it ever waits.

    >>> AsyncGoblinStorage("async+goblin://?max_keys=1000").counters.stats().keys
    0
    """

    STORAGE_SCHEME = ["async+goblin"]

    def __init__(
        self,
        uri: str | None = None,
        wrap_exceptions: bool = False,
        clock: ManualClock | None = None,
        **options: float | str | bool,
    ) -> None:
        self._storage = GoblinStorage(uri, wrap_exceptions, clock, **options)
        super().__init__(uri, wrap_exceptions=wrap_exceptions)

    @property
    def counters(self) -> Counters:
        """The store itself."""
        return self._storage.counters

    @property
    def base_exceptions(self) -> type[Exception] | tuple[type[Exception], ...]:
        """As `GoblinStorage.base_exceptions`."""
        return BASE_EXCEPTIONS

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """As `GoblinStorage.incr`."""
        return self._storage.incr(key, expiry, amount)

    async def get(self, key: str) -> int:
        """As `GoblinStorage.get`."""
        return self._storage.get(key)

    async def get_expiry(self, key: str) -> float:
        """As `GoblinStorage.get_expiry`."""
        return self._storage.get_expiry(key)

    async def check(self) -> bool:
        """As `GoblinStorage.check`."""
        return self._storage.check()

    async def reset(self) -> int | None:
        """As `GoblinStorage.reset`."""
        return self._storage.reset()

    async def clear(self, key: str) -> None:
        """As `GoblinStorage.clear`."""
        self._storage.clear(key)

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """As `GoblinStorage.acquire_sliding_window_entry`."""
        return self._storage.acquire_sliding_window_entry(key, limit, expiry, amount)

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """As `GoblinStorage.get_sliding_window`."""
        return self._storage.get_sliding_window(key, expiry)

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        """As `GoblinStorage.clear_sliding_window`."""
        self._storage.clear_sliding_window(key, expiry)


# `limits` has put a wrapper around each method, for wrap_exceptions. It costs a quarter of a hit; these two look after
# wrap_exceptions themselves. (A subclass's own methods are wrapped as any.)
for _method in ("incr", "acquire_sliding_window_entry"):
    setattr(GoblinStorage, _method, inspect.unwrap(getattr(GoblinStorage, _method)))
