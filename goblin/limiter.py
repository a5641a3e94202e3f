"""Limit and its grammar; RateLimiter's arguments and its waiting. The hot half is in _limiter.pyx."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from math import ceil, inf, isfinite
from operator import index
from typing import Any, NamedTuple, SupportsIndex

from goblin import errors
from goblin._clock import ManualClock
from goblin._core import Counters
from goblin._limiter import (
    Decision,
    LimiterCore,
    default_store,
    set_default_store,
)
from goblin._waiting import Entries, drive, drive_async, waiting
from goblin.store import Store, check_store

__all__ = ["Decision", "Limit", "RateLimiter", "default_store", "set_default_store"]

Key = str | bytes | int | tuple[str | bytes | int, ...]
Period = float | SupportsIndex | timedelta

_NS_PER = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "second": 10**9,
    "minute": 60 * 10**9,
    "hour": 3_600 * 10**9,
    "day": 86_400 * 10**9,
    "month": 30 * 86_400 * 10**9,  # as the `limits` library has them
    "year": 360 * 86_400 * 10**9,
}
_GRAMMAR = (
    "'10/minute', '10 per 2 hours', '5 per 500ms', '10/never', each with an optional 'burst 20'; "
    "units: " + ", ".join(_NS_PER)
)
_LIMIT = re.compile(
    r"\s*(?P<amount>\d{1,30})\s*(?:/|per\b)\s*(?:(?P<never>never)|(?P<count>\d{1,30})?\s*"
    r"(?P<unit>ns|us|ms|second|minute|hour|day|month|year)s?)(?:\s+burst\s+(?P<burst>\d{1,30}))?\s*",
    re.ASCII | re.IGNORECASE,
)


class Limit:
    """So many hits in so much time. Immutable, hashable, equal by value.

    amount: an integer >= 0. seconds: the period, an int, a float (to the nearest nanosecond) or a timedelta; None for a
    count that never ends (fixed window only); `period_ns` has it in nanoseconds. burst: for gcra, how many hits a full
    bucket holds; the amount if None.

    >>> goblin.Limit(10, 60) == goblin.Limit.parse("10/minute")
    True
    """

    __slots__ = ("amount", "burst", "period_ns")

    amount: int
    period_ns: int | None
    burst: int | None

    def __init__(self, amount: SupportsIndex, seconds: Period | None, *, burst: SupportsIndex | None = None) -> None:
        number = _integer("amount", amount, 0)
        period_ns = None if seconds is None else _period_ns(seconds)
        size = None if burst is None else _integer("burst", burst, 1)
        object.__setattr__(self, "amount", number)
        object.__setattr__(self, "period_ns", period_ns)
        object.__setattr__(self, "burst", None if size == number else size)

    @property
    def seconds(self) -> float | None:
        """The period in seconds, an int where it is whole; None: it never ends."""
        if self.period_ns is None:
            return None
        return self.period_ns // 10**9 if self.period_ns % 10**9 == 0 else self.period_ns / 10**9

    @classmethod
    def parse(cls, text: str) -> Limit:
        """One limit of the grammar: "10/minute", "10 per 2 hours", "5 per 500ms", "10/second burst 20".

        >>> goblin.Limit.parse("100 per 2 hours")
        Limit(100, 7200)
        """
        if not isinstance(text, str):
            raise TypeError(f"a limit is parsed from a str, not {errors._type_name(type(text))}")
        match = _LIMIT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a limit: {errors._shown(text)} (allowed: {_GRAMMAR})")
        limit = cls.__new__(cls)
        burst = None if match["burst"] is None else int(match["burst"])
        period_ns = None if match["never"] else int(match["count"] or 1) * _NS_PER[match["unit"].lower()]
        if period_ns == 0 or burst == 0:
            raise ValueError(f"not a limit: {errors._shown(text)} (allowed: a period and a burst above 0)")
        if max(int(match["amount"]), period_ns or 0, burst or 0) > errors.INT64_MAX:
            raise ValueError(f"not a limit: {errors._shown(text)} (allowed: numbers and nanoseconds below 2**63)")
        object.__setattr__(limit, "amount", int(match["amount"]))
        object.__setattr__(limit, "period_ns", period_ns)
        object.__setattr__(limit, "burst", None if burst == limit.amount else burst)
        return limit

    @classmethod
    def parse_many(cls, text: str) -> tuple[Limit, ...]:
        """Several limits, parted by `;`, `,` or `|`.

        >>> goblin.Limit.parse_many("10/second; 1000/hour")
        (Limit(10, 1), Limit(1000, 3600))
        """
        if not isinstance(text, str):
            raise TypeError(f"limits are parsed from a str, not {errors._type_name(type(text))}")
        return tuple(cls.parse(part) for part in re.split("[;,|]", text))

    def _fields(self) -> tuple[int, int | None, int | None]:
        return (self.amount, self.period_ns, self.burst)

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Limit) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Limit is immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Limit is immutable: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore_limit, self._fields())

    def __repr__(self) -> str:
        seconds = self.seconds
        # A float may not turn back to the very nanosecond; a timedelta would lose some. The grammar loses nothing.
        if seconds is not None and _ns("seconds", seconds) != self.period_ns:
            return f"Limit.parse({str(self)!r})"
        return f"Limit({self.amount}, {seconds}{'' if self.burst is None else f', burst={self.burst}'})"

    def __str__(self) -> str:
        return f"{self.amount}{_period_text(self.period_ns)}{'' if self.burst is None else f' burst {self.burst}'}"


def _restore_limit(amount: int, period_ns: int | None, burst: int | None) -> Limit:
    limit = Limit(amount, None, burst=burst)
    object.__setattr__(limit, "period_ns", period_ns)
    return limit


def _period_text(period_ns: int | None) -> str:
    """In the largest unit that fits, months and years apart: they are a convention."""
    if period_ns is None:
        return "/never"
    for unit in ("day", "hour", "minute", "second", "ms", "us", "ns"):
        count, rest = divmod(period_ns, _NS_PER[unit])
        if rest == 0:
            break
    if len(unit) == 2:
        return f" per {count}{unit}"
    return f"/{unit}" if count == 1 else f" per {count} {unit}s"


def _integer(name: str, value: SupportsIndex, least: int) -> int:
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise errors.not_an_integer(name, value)
    number = index(value)
    if not errors.INT64_MIN <= number <= errors.INT64_MAX:
        raise errors.outside_int64(name, value)
    if number < least:
        raise errors.below(name, value, least)
    return int(number)


def _period_ns(seconds: Period) -> int:
    ns = _ns("seconds", seconds)
    if ns < 1:
        raise errors.not_a_period("seconds", seconds)
    if ns > errors.INT64_MAX:
        raise errors.bad_time("seconds", seconds, 0)
    return ns


def _ns(name: str, seconds: Period) -> int:
    """Nanoseconds, the nearest; 0 for what is not finite."""
    if isinstance(seconds, timedelta):
        return (seconds.days * 86_400 + seconds.seconds) * 10**9 + seconds.microseconds * 1000
    if isinstance(seconds, float):
        if not isfinite(seconds):
            return 0
        numerator, denominator = seconds.as_integer_ratio()
        return _nearest(numerator * 10**9, denominator)
    if isinstance(seconds, bool) or not hasattr(type(seconds), "__index__"):
        raise errors.not_a_number(name, seconds)
    return index(seconds) * 10**9


def _nearest(numerator: int, denominator: int) -> int:
    """Ties to even, as round() and the core have it."""
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1))


# ---- the limiter ----------------------------------------------------------------------------------------------------------

_ALGORITHMS = {
    "fixed-window": "fixed-window",
    "sliding-window": "sliding-window",
    "sliding-window-counter": "sliding-window",  # the word of the `limits` library
    "gcra": "gcra",
    "token-bucket": "gcra",
}
_IN_KEYS = {"fixed-window": "fixed", "sliding-window": "sliding", "gcra": "gcra"}
_MOST_IN_WINDOW = 2**31 - 1


class RateLimiter(LimiterCore):
    """One or several limits on keys of one kind, judged together, all or nothing.

    limits: a string ("5/minute", "10/second; 1000/hour"), a `Limit`, or several. algorithm: "fixed-window",
    "sliding-window" or "gcra" (also under "sliding-window-counter", "token-bucket"). store: None for the default store,
    looked up at every call: one per process. name: apart from it, limiters with equal limits on one store share their
    counts; no braces. sleep: what `acquire` sleeps with, a function of seconds; for `acquire_async` it may return an
    awaitable. on_error: what becomes of a hit that the store cannot judge (`StoreError`) or has no room for
    (`CapacityError`): "raise"; "allow" or "deny", with a Decision that knows no more than that: 0 remaining, and a
    refusal's `retry_after` is 1 second; or a local `Counters` that judges instead. `reset` and `refund` raise in any
    case.

    >>> limiter = goblin.RateLimiter("5/minute", store=goblin.Counters())
    >>> limiter.allow("ann")
    True
    """

    def __init__(
        self,
        limits: str | Limit | Iterable[str | Limit],
        *,
        algorithm: str = "fixed-window",
        store: Store | None = None,
        name: str = "",
        sleep: Callable[[float], Any] | None = None,
        on_error: str | Counters = "raise",
    ) -> None:
        prepared = prepare(limits, algorithm, name, sleep, on_error)
        if store is not None:
            check_store(store)
        self._set_up(prepared.limits, prepared.algorithm, store, prepared.name, prepared.prefixes, prepared.fallback)
        self._sleep = sleep  # last: what was set up before has refused, and stays as it was

    def acquire(self, key: Key, cost: SupportsIndex = 1, *, timeout: Period | None = None) -> Decision:
        """Wait until the hit passes: its Decision; or the refusal, at once, if that would take longer than `timeout`.

        timeout: seconds >= 0, an int, a float or a timedelta; None: as long as it takes. No lock is held and nothing
        polled. gcra: waiters are served in order of their coming. The window algorithms promise no order, and a dear
        hit can starve behind cheap ones. On a ManualClock the default sleep advances the clock.

        >>> clock = goblin.ManualClock()
        >>> limiter = goblin.RateLimiter("1/minute", store=goblin.Counters(clock=clock))
        >>> [limiter.acquire("ann").allowed for hit in range(2)], clock.now_ns
        ([True, True], 60000000000)
        """
        entries, number, timeout_ns = self._wanted(key, cost, timeout)
        store = default_store() if self.store is None else self.store
        try:
            outcome = drive(store, waiting(self.algorithm, entries, number, timeout_ns), self._sleeper(store))
        except (errors.StoreError, errors.CapacityError):
            if self.on_error == "raise":
                raise
            if isinstance(self.on_error, str):
                return self._instead(key, number, True)
            store = self.on_error
            outcome = drive(store, waiting(self.algorithm, entries, number, timeout_ns), self._sleeper(store))
        return self._decision(store, key, number, outcome)

    async def acquire_async(
        self, key: Key, cost: SupportsIndex = 1, *, timeout: Period | None = None
    ) -> Decision:
        """`acquire` for coroutines: sleeps on the running loop; works under any number of loops and threads."""
        entries, number, timeout_ns = self._wanted(key, cost, timeout)
        store = default_store() if self.store is None else self.store
        steps = waiting(self.algorithm, entries, number, timeout_ns)
        try:
            outcome = await drive_async(store, steps, async_sleeper(self._sleep, store), False)
        except (errors.StoreError, errors.CapacityError):
            if self.on_error == "raise":
                raise
            if isinstance(self.on_error, str):
                return self._instead(key, number, True)
            store = self.on_error
            steps = waiting(self.algorithm, entries, number, timeout_ns)
            outcome = await drive_async(store, steps, async_sleeper(self._sleep, store), False)
        return self._decision(store, key, number, outcome)

    def _wanted(
        self, key: Key, cost: SupportsIndex, timeout: Period | None
    ) -> tuple[Entries, int, int | None]:
        # The cost once: a second __index__ could raise after the hit was spent.
        return self._entries(key), _integer("cost", cost, 0), None if timeout is None else _timeout_ns(timeout)

    def _sleeper(self, store: Any) -> Callable[[int], object]:
        """What sleeps some nanoseconds, on a store of that clock."""
        own, clock = self._sleep, manual_clock_of(store)
        if own is not None:
            return lambda wait_ns: own(_seconds(wait_ns))
        return clock.advance_ns if clock is not None else lambda wait_ns: time.sleep(_seconds(wait_ns))

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"<goblin.RateLimiter: {'; '.join(map(str, self.limits))}, {self.algorithm}{name}>"


def manual_clock_of(store: Any) -> ManualClock | None:
    """The clock to move instead of sleeping."""
    clock = getattr(store, "clock", None)
    return clock if isinstance(clock, ManualClock) else None


def async_sleeper(own: Callable[[float], Any] | None, store: Any) -> Callable[[int], Awaitable[None]]:
    """What sleeps some nanoseconds on the running loop."""
    import asyncio  # not at the top: it would triple the time that `import goblin` takes

    clock = manual_clock_of(store)

    async def sleep(wait_ns: int) -> None:
        if own is not None:
            slept = own(_seconds(wait_ns))
            if isinstance(slept, Awaitable):
                await slept
        elif clock is not None:
            clock.advance_ns(wait_ns)
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(_seconds(wait_ns))

    return sleep


def _timeout_ns(timeout: Period) -> int | None:
    """Nanoseconds; None: as long as it takes."""
    if isinstance(timeout, float) and not isfinite(timeout):
        if timeout == inf:
            return None
        raise errors.below("timeout", timeout, 0)
    ns = _ns("timeout", timeout)
    if ns < 0:
        raise errors.below("timeout", timeout, 0)
    return min(ns, errors.INT64_MAX)


def _seconds(ns: int) -> float:
    return ns / 10**9


class Prepared(NamedTuple):
    """A limiter's arguments, checked."""

    limits: tuple[Limit, ...]
    algorithm: str
    name: str
    prefixes: tuple[bytes, ...]
    fallback: str | Counters | None


def prepare(limits: Any, algorithm: Any, name: Any, sleep: Any, on_error: Any) -> Prepared:
    """What all limiters are made of, but for their store."""
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"algorithm={errors._shown(algorithm)} (allowed: {', '.join(_ALGORITHMS)})")
    algorithm = _ALGORITHMS[algorithm]
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {errors._type_name(type(name))}")
    if "{" in name or "}" in name:
        raise ValueError(f"name={errors._shown(name)} (allowed: no braces)")
    if sleep is not None and not callable(sleep):
        raise TypeError(f"sleep must be a function of seconds, not {errors._type_name(type(sleep))}")
    if not isinstance(on_error, (str, Counters)):
        raise TypeError(
            f"on_error must be 'raise', 'allow', 'deny' or a goblin.Counters, not {errors._type_name(type(on_error))}"
        )
    if isinstance(on_error, str) and on_error not in ("raise", "allow", "deny"):
        raise ValueError(f"on_error={errors._shown(on_error)} (allowed: 'raise', 'allow', 'deny', a goblin.Counters)")
    unique = tuple(dict.fromkeys(_as_limits(limits)))
    for limit in unique:
        _check_limit(limit, algorithm)
    prefixes = tuple(_prefix(name, algorithm, limit) for limit in unique)
    return Prepared(unique, algorithm, str(name), prefixes, None if on_error == "raise" else on_error)


def _as_limits(limits: str | Limit | Iterable[str | Limit]) -> list[Limit]:
    if isinstance(limits, Limit):
        return [limits]
    if isinstance(limits, str):
        return list(Limit.parse_many(limits))
    if not isinstance(limits, Iterable):
        raise TypeError(f"limits must be a str, a Limit or several, not {errors._type_name(type(limits))}")
    several = [limit for part in limits for limit in _as_limits(part)]
    if not several:
        raise ValueError("limits is empty (allowed: one limit or more)")
    return several


def _check_limit(limit: Limit, algorithm: str) -> None:
    if limit.burst is not None and algorithm != "gcra":
        raise ValueError(f"burst {limit.burst} in {str(limit)!r} (allowed: with algorithm='gcra' only)")
    if limit.period_ns is None and algorithm != "fixed-window":
        raise ValueError(f"{str(limit)!r} never ends (allowed: with algorithm='fixed-window' only)")
    if algorithm == "sliding-window" and limit.amount > _MOST_IN_WINDOW:
        raise errors.above("amount", limit.amount, _MOST_IN_WINDOW)


def _prefix(name: str, algorithm: str, limit: Limit) -> bytes:
    """The part of an entry's key that is the same for all: the same in every version, and on every kind of store."""
    if limit.period_ns is None:
        period = "never"
    elif limit.period_ns % 10**9 == 0:
        period = f"{limit.period_ns // 10**9}s"
    else:
        period = f"{limit.period_ns}ns"
    burst = "" if limit.burst is None else f"^{limit.burst}"
    return f"{name}:{_IN_KEYS[algorithm]}:{limit.amount}/{period}{burst}:{{".encode()


# ---- HTTP -------------------------------------------------------------------------------------------------------------------

def _header_text(name: str) -> str:
    """Inside the quotes of a structured field: printable ASCII, quoted; anything else as %XX of its UTF-8."""
    escaped = (chr(byte) if 0x20 <= byte < 0x7F and byte != 0x25 else f"%{byte:02X}" for byte in name.encode())
    return re.sub(r'(["\\])', r"\\\1", "".join(escaped))


def decision_headers(decision: Decision, legacy: bool) -> dict[str, str]:
    """For Decision.headers(): see there."""
    limit: Limit = decision.limit
    quota, period_ns = limit.amount, limit.period_ns
    if decision.algorithm == "gcra" and limit.burst is not None:
        quota = limit.burst
        if period_ns is not None and limit.amount:
            period_ns = -(-limit.burst * period_ns // limit.amount)
    label = f'"{_header_text(decision.name or "default")}"'
    window = "" if period_ns is None else f";w={-(-period_ns // 10**9)}"
    wait = reset = None
    if not decision.allowed and decision.retry_after != inf:
        wait = max(ceil(decision.retry_after), 1)
        reset = wait
    elif decision.allowed and decision.reset_after != inf:
        reset = ceil(decision.reset_after)
    headers = {
        "RateLimit-Policy": f"{label};q={quota}{window}",
        "RateLimit": f"{label};r={decision.remaining}{'' if reset is None else f';t={reset}'}",
    }
    if wait is not None:
        headers["Retry-After"] = str(wait)
    if legacy:
        headers["X-RateLimit-Limit"] = str(quota)
        headers["X-RateLimit-Remaining"] = str(decision.remaining)
        if reset is not None:
            headers["X-RateLimit-Reset"] = str(ceil(time.time() + reset))
    return headers
