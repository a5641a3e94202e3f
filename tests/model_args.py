"""How arguments become keys, numbers and times: the rules for arguments, beside `model.py` which has all the others.

Everything here runs before a store is touched, and no method of a user's class runs except `__index__`.
"""

import datetime
import operator
import re
from typing import NamedTuple

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
HORIZON_NS = 2**63 - 2  # the last instant a deadline may have, about 292 years after the clock's zero
MAX_KEY_BYTES = 65_535
NS_PER_SECOND, NS_PER_MS = 10**9, 10**6

TIMEDELTA = datetime.timedelta
CANONICAL = re.compile(rb"0|-?[1-9][0-9]*")
INT64_TEXT = f"{INT64_MIN} to {INT64_MAX}"


def key_bytes(key) -> bytes:
    """A key is bytes; a str is its UTF-8 bytes. Subclasses count by their content (hence the unbound methods)."""
    data = as_bytes("key", key)
    if len(data) > MAX_KEY_BYTES:
        raise ValueError(f"key is too long: {len(data)} bytes (allowed: at most {MAX_KEY_BYTES})")
    return data


def as_bytes(name, text) -> bytes:
    if issubclass(type(text), str):
        return str.encode(text, "utf-8")  # UnicodeEncodeError for a lone surrogate
    if issubclass(type(text), bytes):
        return bytes.__getitem__(text, slice(None))
    raise TypeError(f"{name} must be str or bytes, not {type(text).__name__}")


def key_text(data: bytes):
    """A key on its way back: str where the bytes are UTF-8, else the bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def integer(name, value) -> int:
    """An int or an object with __index__, within int64. A bool, float, str, None is not a number here."""
    if issubclass(type(value), (bool, float, str, bytes)) or not hasattr(type(value), "__index__"):
        raise TypeError(f"value is not an integer or out of range: {name}={shown(value)}")
    number = operator.index(value)
    if not INT64_MIN <= number <= INT64_MAX:
        text = number if number.bit_length() <= 128 else f"<int of {number.bit_length()} bits>"
        raise OverflowError(f"value is not an integer or out of range: {name}={text} (allowed: {INT64_TEXT})")
    return number


def stored_value(value, name="value") -> int:
    """What `set`, `getset` and `mset` take: an integer, or one written in the canonical base-10 form."""
    if not issubclass(type(value), (str, bytes)):
        return integer(name, value)
    data = str.encode(value, "utf-8", "replace") if issubclass(type(value), str) else as_bytes(name, value)
    # 20 characters hold every int64; longer ones are refused before int() has to read them.
    if len(data) <= 20 and CANONICAL.fullmatch(data) and INT64_MIN <= int(data) <= INT64_MAX:
        return int(data)
    raise ValueError(
        f"value is not an integer or out of range: {name}={shown(value, with_type=False)} "
        f"(allowed: a canonical base-10 integer from {INT64_TEXT})"
    )


def shown(value, with_type=True) -> str:
    """The value and its type for a message, without running a user's __repr__."""
    name = type(value).__name__
    if type(value) not in (type(None), bool, float, str, bytes):
        return f"<{name}>"
    text = repr(value[:80] if name in ("str", "bytes") else value)
    return f"{text} ({name})" if with_type else text


class Duration(NamedTuple):
    """A relative time, converted and not yet judged: its range depends on what the clock says."""

    ns: int  # may leave int64: that is what `deadline` is there to refuse
    text: str

    def positive(self) -> "Duration":
        if self.ns <= 0:
            raise ValueError(f"invalid expire time: {self.text} (allowed: more than 0)")
        return self

    def deadline(self, now_ns: int) -> int:
        if self.ns < INT64_MIN or now_ns + self.ns > HORIZON_NS:
            raise ValueError(
                f"invalid expire time: {self.text} (allowed: {INT64_MIN} ns to {HORIZON_NS - now_ns} ns from now)"
            )
        return now_ns + self.ns


UNITS = {"seconds": NS_PER_SECOND, "ex": NS_PER_SECOND, "milliseconds": NS_PER_MS, "px": NS_PER_MS}


def duration(name, value) -> Duration:
    """A whole number of the unit that `name` stands for, or a timedelta of whole milliseconds."""
    if not issubclass(type(value), TIMEDELTA):
        number = integer(name, value)
        return Duration(number * UNITS[name], f"{name}={number}")
    # The parts read from the base class: a subclass may have redefined what it likes.
    days, seconds, micro = (part.__get__(value) for part in (TIMEDELTA.days, TIMEDELTA.seconds, TIMEDELTA.microseconds))
    microseconds = (days * 86_400 + seconds) * 10**6 + micro
    text = f"{name}={microseconds} microseconds"
    if microseconds % 1000:
        raise ValueError(f"invalid expire time: {text} (allowed: whole milliseconds)")
    return Duration(microseconds * 1000, text)


def durations(**given) -> Duration | None:
    """The time that was given, if one was; the caller has `exclusive` refuse two."""
    converted = [duration(name, value) for name, value in given.items() if value is not None]
    return converted[0] if converted else None


def exclusive(**given) -> None:
    names = [name for name, value in given.items() if value]
    if len(names) > 1:
        raise ValueError(f"{names[0]} and {names[1]} cannot be given together")


def key_list(keys) -> list[bytes]:
    """The keys of `mget`: several, or one iterable of them (a str or bytes alone is one key)."""
    if len(keys) == 1 and not issubclass(type(keys[0]), (str, bytes)) and hasattr(type(keys[0]), "__iter__"):
        (keys,) = keys
    return [key_bytes(key) for key in keys]


def value_pairs(mapping) -> dict[bytes, int]:
    """The pairs of `mset`. One counter under two spellings: the last wins."""
    if not hasattr(type(mapping), "items"):
        raise TypeError(f"mapping must have items(), not {type(mapping).__name__}")
    return {key_bytes(key): stored_value(value) for key, value in mapping.items()}
