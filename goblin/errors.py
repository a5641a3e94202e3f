"""What goblin raises, and the words it uses.

Bad arguments raise Python's own TypeError, ValueError and OverflowError. The functions here only build them. They are
called with anything a caller may have passed, so they never run its code: no `__repr__`, `__str__`, `__class__`, and
a type's name is read by `type` itself.
"""

from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goblin._limiter import Decision

__all__ = ["CapacityError", "RateLimitExceeded", "StoreError", "WrongTypeError"]


class WrongTypeError(TypeError):
    """The entry under the key belongs to another command or rate-limiting algorithm; nothing has changed.

    `Counters.type(key)` names what it is; `set` and `delete` replace or remove it. Source: Redis' WRONGTYPE.
    """


class CapacityError(RuntimeError):
    """The store is full, none of the entries looked at may go, and the new key was not made; nothing has changed.

    See `max_keys` and `on_full` of `Counters`.
    """


class StoreError(RuntimeError):
    """A store outside this process is down, too slow, or answers what nobody asked; the cause is `__cause__`.

    Whether the call was carried out is unknown: the reply may be what was lost. See `on_error` of `RateLimiter`.
    """


class RateLimitExceeded(Exception):
    """What a decorated function raises when its limit refuses the call.

    decision: the refusing `Decision`. `retry_after` is its wait in seconds, `inf` if the call can never pass.
    """

    def __init__(self, decision: "Decision") -> None:
        super().__init__(decision)
        self.decision = decision

    @property
    def retry_after(self) -> float:
        return self.decision.retry_after

    def __str__(self) -> str:
        limit, wait = self.decision.limit, self.decision.retry_after
        when = "it can never pass" if wait == inf else f"retry after {seconds_text(wait)} s"
        return f"rate limit exceeded: {limit} for key {self.decision.key!r}; {when}"


def seconds_text(seconds: float) -> str:
    """For messages: plain digits, to the millisecond."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


WRONG_KIND = "Operation against a key holding the wrong kind of value"

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
_INT64 = f"{INT64_MIN} to {INT64_MAX}"
_SHOWN_CHARACTERS = 80
_SHOWN_BITS = 128

_NOT_AN_INTEGER = "value is not an integer or out of range"
_name_of_type = type.__dict__["__name__"].__get__


def _type_name(kind: type) -> str:
    # A name can be of a str subclass, whose __format__ a message would run. A slice of it is Python's own str.
    return str.__getitem__(_name_of_type(kind), slice(None))


def _shown(value: object) -> str:
    """The value in a message, with nothing of the user's run and nothing long printed."""
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return repr(value)
    if issubclass(kind, bool) or not issubclass(kind, (int, str, bytes)):
        return f"<{_type_name(kind)}>"
    if issubclass(kind, int):
        bits = int.bit_length(value)  # type: ignore[arg-type]
        return int.__repr__(value) if bits <= _SHOWN_BITS else f"<int of {bits} bits>"
    if issubclass(kind, str):
        return repr(str.__getitem__(value, slice(_SHOWN_CHARACTERS)))  # type: ignore[index]
    return repr(bytes.__getitem__(value, slice(_SHOWN_CHARACTERS)))  # type: ignore[call-overload]


def _shown_with_type(value: object) -> str:
    """For type errors: the value where that is safe, and its type in any case."""
    shown = _shown(value)
    return shown if shown.startswith("<") else f"{shown} ({_type_name(type(value))})"


def not_an_integer(name: str, value: object) -> TypeError:
    return TypeError(f"{_NOT_AN_INTEGER}: {name}={_shown_with_type(value)}")


def outside_int64(name: str, value: object) -> OverflowError:
    return OverflowError(f"{_NOT_AN_INTEGER}: {name}={_shown(value)} (allowed: {_INT64})")


def not_canonical(name: str, value: object) -> ValueError:
    return ValueError(
        f"{_NOT_AN_INTEGER}: {name}={_shown(value)} (allowed: a canonical base-10 integer, {_INT64})"
    )


def bad_time(name: str, value: object, lowest: int | None = None) -> ValueError:
    """For a time that leaves its range; `lowest` where the range has an end of its own at the bottom."""
    unit, ns_each = ("ms", 10**6) if name in ("milliseconds", "px") else ("ns", 1) if name.endswith("_ns") else ("s", 10**9)
    most = INT64_MAX // ns_each
    least = -most if lowest is None else lowest
    allowed = f"{least} to {most} {unit}, the deadline at most 2**63-2 ns on the store's clock"
    return ValueError(f"invalid expire time: {name}={_shown_time(value)} (allowed: {allowed})")


def too_fine(name: str, value: object) -> ValueError:
    return ValueError(f"invalid expire time: {name}={_shown_time(value)} (allowed: whole milliseconds)")


def _shown_time(value: object) -> str:
    return timedelta.__repr__(value) if issubclass(type(value), timedelta) else _shown(value)


def not_a_key(value: object) -> TypeError:
    return TypeError(f"key must be str or bytes, not {_type_name(type(value))}")


def key_too_long(length: int) -> ValueError:
    return ValueError(f"key is too long: {length} bytes (allowed: at most 65535)")


def overflow() -> OverflowError:
    return OverflowError("increment or decrement would overflow")


def below(name: str, value: object, least: int) -> ValueError:
    return ValueError(f"{name}={_shown(value)} (allowed: at least {least})")


def above(name: str, value: object, most: int) -> ValueError:
    return ValueError(f"{name}={_shown(value)} (allowed: at most {most})")


def not_a_period(name: str, value: object) -> ValueError:
    return ValueError(f"{name}={_shown_time(value)} (allowed: a finite time that rounds to 1 ns or more)")


def not_a_number(name: str, value: object) -> TypeError:
    return TypeError(f"value is not a number of seconds: {name}={_shown_with_type(value)}")


def no_place(full: bool) -> Exception:
    if full:
        return CapacityError("the store holds max_keys entries, and none of those looked at may make room")
    return MemoryError("no memory for another counter")


def conflict(first: str, second: str) -> ValueError:
    return ValueError(f"{first} and {second} cannot be given together")
