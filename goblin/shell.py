"""The language of ``python -m goblin``: a line goes in, the reply redis-cli would print comes out.

From top to bottom: arguments, the table of commands, and :class:`Shell`, which puts them together over one store. A new
command is one decorated function in the table. Words and printed replies are ``shell_text.py``'s part, reading lines
from a terminal or a pipe ``__main__.py``'s.

What the commands do is :class:`goblin.Counters`' affair. This file turns words into its arguments and results into
replies, and keeps Redis' texts of errors and Redis' order among them: the number of words first, then the options
(syntax), then the numbers, then the ranges of times.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from typing import NamedTuple

from goblin import Counters, ManualClock, WrongTypeError
from goblin.shell_text import Reply, format_reply, split_words, strip_prompt

__all__ = ["COMMANDS", "Command", "Quit", "Shell", "format_reply", "split_words", "strip_prompt"]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Quit(Exception):
    """The session was asked to end (QUIT, EXIT)."""


class CommandError(Exception):
    """A command refused in Redis' own words, which are the exception's text."""


# ---- Arguments ------------------------------------------------------------------------------------------------------


def _integer(word: bytes) -> int:
    """An int64 as Redis reads one: canonical base 10, so "+1", "01", "-0" and " 1" are none."""
    # The length is looked at first, for int() refuses thousands of digits with an error of its own.
    if len(word) <= 20 and re.fullmatch(rb"0|-?[1-9][0-9]*", word) and INT64_MIN <= int(word) <= INT64_MAX:
        return int(word)
    raise CommandError("ERR value is not an integer or out of range")


def _number(word: bytes) -> int | float:
    """A number of seconds, whole or with a decimal point."""
    if re.fullmatch(rb"-?[0-9]{1,18}\.[0-9]{1,9}", word):
        return float(word)
    return _integer(word)


class _Options:
    """The options after a command's fixed arguments, in any case and order; of a repeated one the last counts."""

    def __init__(
        self,
        words: Iterable[bytes],
        *,
        flags: Iterable[str] = (),
        valued: Iterable[str] = (),
        exclusive: Iterable[str] = (),
    ) -> None:
        """Raises a syntax error for an unknown option, a missing value, or two options of ``exclusive``."""
        self._values: dict[str, bytes] = {}
        rest = iter(words)
        for word in rest:
            name = word.upper().decode("latin-1")
            value = b"" if name in flags else next(rest, None) if name in valued else None
            if value is None:
                raise CommandError("ERR syntax error")
            self._values[name] = value
        if len(self._values.keys() & set(exclusive)) > 1:
            raise CommandError("ERR syntax error")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def integer(self, name: str) -> int | None:
        return _integer(self._values[name]) if name in self._values else None


def _expire_flags(words: Iterable[bytes]) -> dict[str, bool]:
    """NX, XX, GT, LT of EXPIRE and PEXPIRE, whose errors have texts of their own."""
    given = set()
    for word in words:
        flag = word.upper()
        if flag not in (b"NX", b"XX", b"GT", b"LT"):
            raise CommandError(f"ERR Unsupported option {_printable(word)}")
        given.add(flag.decode().lower())
    if "nx" in given and len(given) > 1:
        raise CommandError("ERR NX and XX, GT or LT options at the same time are not compatible")
    if {"gt", "lt"} <= given:
        raise CommandError("ERR GT and LT options at the same time are not compatible")
    return dict.fromkeys(given, True)


def _printable(word: bytes) -> str:
    """A word for an error text: at most 128 bytes of it, as in Redis, and nothing that could move a terminal's cursor."""
    text = word[:128].decode("utf-8", "backslashreplace")
    return "".join(character if character.isprintable() else " " for character in text)


def _bulk(value: int | None) -> bytes | None:
    """A counter's value as Redis hands it out: a string of digits."""
    return None if value is None else b"%d" % value


# ---- The commands ---------------------------------------------------------------------------------------------------


class Command(NamedTuple):
    """One entry of the table.

    ``names``: upper case, the listed one first. ``arity`` counts as Redis does, with the command's own name; a negative
    one means "at least". ``run`` is called with the store and the words after the name.
    """

    names: tuple[str, ...]
    arity: int
    usage: str
    summary: str
    run: Callable[..., Reply]

    def takes(self, words: int) -> bool:
        """Whether a line of that many words, the name included, has the right number for this command."""
        return words == self.arity if self.arity >= 0 else words >= -self.arity


COMMANDS: list[Command] = []
_BY_NAME: dict[str, Command] = {}


def _command(
    *names: str, arity: int, args: str = "", summary: str
) -> Callable[[Callable[..., Reply]], Callable[..., Reply]]:
    """Enter the decorated function into the table; ``args`` is what the usage line says after the name."""

    def enter(run: Callable[..., Reply]) -> Callable[..., Reply]:
        command = Command(names, arity, f"{names[0]} {args}".rstrip(), summary, run)
        COMMANDS.append(command)
        _BY_NAME.update(dict.fromkeys(names, command))
        return run

    return enter


@_command("GET", arity=2, args="key", summary="The value, or (nil).")
def _get(counters: Counters, key: bytes) -> Reply:
    return _bulk(counters.get(key))


@_command(
    "SET",
    arity=-3,
    args="key value [NX | XX] [GET] [EX seconds | PX milliseconds | KEEPTTL]",
    summary="Sets the value; the TTL goes. KEEPTTL: it stays; EX, PX: a new one; NX: only if the key is absent; "
    "XX: only if it is there; GET: replies the old value instead of OK.",
)
def _set(counters: Counters, key: bytes, value: bytes, *words: bytes) -> Reply:
    options = _Options(
        words, flags=("NX", "XX", "GET", "KEEPTTL"), valued=("EX", "PX"), exclusive=("EX", "PX", "KEEPTTL")
    )
    if "NX" in options and "XX" in options:
        raise CommandError("ERR syntax error")
    result = counters.set(
        key,
        _integer(value),
        ex=options.integer("EX"),
        px=options.integer("PX"),
        keepttl="KEEPTTL" in options,
        nx="NX" in options,
        xx="XX" in options,
        get="GET" in options,
    )
    if "GET" in options:
        return _bulk(result)
    return "OK" if result else None


@_command("GETSET", arity=3, args="key value", summary="Sets the value, replies the old one; the TTL goes.")
def _getset(counters: Counters, key: bytes, value: bytes) -> Reply:
    return _bulk(counters.getset(key, _integer(value)))


@_command("GETDEL", arity=2, args="key", summary="Removes the key, replies the value it had.")
def _getdel(counters: Counters, key: bytes) -> Reply:
    return _bulk(counters.getdel(key))


@_command(
    "GETEX",
    arity=-2,
    args="key [EX seconds | PX milliseconds | PERSIST]",
    summary="The value; sets or removes the TTL in the same step.",
)
def _getex(counters: Counters, key: bytes, *words: bytes) -> Reply:
    options = _Options(words, flags=("PERSIST",), valued=("EX", "PX"), exclusive=("EX", "PX", "PERSIST"))
    ex, px = options.integer("EX"), options.integer("PX")
    return _bulk(counters.getex(key, ex=ex, px=px, persist="PERSIST" in options))


@_command("MGET", arity=-2, args="key [key ...]", summary="The values of several keys.")
def _mget(counters: Counters, *keys: bytes) -> Reply:
    return [_bulk(value) for value in counters.mget(*keys)]


@_command("MSET", arity=-3, args="key value [key value ...]", summary="Sets several keys in one step; their TTLs go.")
def _mset(counters: Counters, *words: bytes) -> Reply:
    if len(words) % 2:
        raise CommandError("ERR wrong number of arguments for 'mset' command")
    counters.mset(dict(zip(words[::2], map(_integer, words[1::2]))))
    return "OK"


@_command("INCR", arity=2, args="key", summary="Adds 1. An absent key counts as 0; a TTL is kept.")
def _incr(counters: Counters, key: bytes) -> Reply:
    return counters.incr(key)


@_command("INCRBY", arity=3, args="key delta", summary="Adds delta.")
def _incrby(counters: Counters, key: bytes, delta: bytes) -> Reply:
    return counters.incrby(key, _integer(delta))


@_command("DECR", arity=2, args="key", summary="Takes 1 away.")
def _decr(counters: Counters, key: bytes) -> Reply:
    return counters.decr(key)


@_command("DECRBY", arity=3, args="key delta", summary="Takes delta away.")
def _decrby(counters: Counters, key: bytes, delta: bytes) -> Reply:
    amount = _integer(delta)
    if amount == INT64_MIN:  # It has no negative in int64; Redis says so in other words than for a sum out of range.
        raise CommandError("ERR decrement would overflow")
    return counters.decrby(key, amount)


@_command(
    "GOBLIN.INCREX",
    "INCREX",
    arity=3,
    args="key seconds",
    summary="Adds 1; the first hit arms a TTL of seconds. Armed when the result is 1 and no TTL is running; later hits "
    "leave it alone, so the window is counted from its first hit.",
)
def _increx(counters: Counters, key: bytes, seconds: bytes) -> Reply:
    return counters.increx(key, _integer(seconds))


@_command(
    "GOBLIN.PINCREX",
    "PINCREX",
    arity=3,
    args="key milliseconds",
    summary="GOBLIN.INCREX with a window in milliseconds.",
)
def _pincrex(counters: Counters, key: bytes, milliseconds: bytes) -> Reply:
    return counters.pincrex(key, _integer(milliseconds))


@_command(
    "GOBLIN.INCRBOUND",
    "INCRBOUND",
    arity=-4,
    args="key delta max [SECONDS seconds]",
    summary="Adds delta if the sum is at most max, else replies -1. A refusal changes nothing. SECONDS: when delta is "
    "added and no TTL is running, one of that length is armed.",
)
def _incrbound(counters: Counters, key: bytes, delta: bytes, ceiling: bytes, *words: bytes) -> Reply:
    # Not EX: everywhere else that sets the TTL on every call, and this one leaves a running TTL alone.
    options = _Options(words, valued=("SECONDS",))
    return counters.incrbound(key, _integer(delta), _integer(ceiling), seconds=options.integer("SECONDS"))


@_command(
    "GOBLIN.DECRPOS", "DECRPOS", arity=2, args="key", summary="Takes 1 away if the value is above 0, else replies -1."
)
def _decrpos(counters: Counters, key: bytes) -> Reply:
    return counters.decrpos(key)


@_command(
    "EXPIRE",
    arity=-3,
    args="key seconds [NX] [XX] [GT] [LT]",
    summary="Sets the TTL. NX: only if there is none; XX: only if there is one; GT, LT: only if the new end is later, "
    "earlier. A time of 0 or less removes the key.",
)
def _expire(counters: Counters, key: bytes, seconds: bytes, *words: bytes) -> Reply:
    flags = _expire_flags(words)
    return int(counters.expire(key, _integer(seconds), **flags))


@_command(
    "PEXPIRE", arity=-3, args="key milliseconds [NX] [XX] [GT] [LT]", summary="EXPIRE with a TTL in milliseconds."
)
def _pexpire(counters: Counters, key: bytes, milliseconds: bytes, *words: bytes) -> Reply:
    flags = _expire_flags(words)
    return int(counters.pexpire(key, _integer(milliseconds), **flags))


_COST = "One hit; replies what remains, or minus the nanoseconds until it can pass. COST 0 only looks."


@_command("FIXED.WINDOW", arity=-4, args="key limit seconds [COST n]", summary=f"Fixed window rate limit. {_COST}")
def _fixed_window(counters: Counters, key: bytes, limit: bytes, seconds: bytes, *words: bytes) -> Reply:
    cost = _Options(words, valued=("COST",)).integer("COST")
    return counters.fixed_window(key, _integer(limit), _number(seconds), 1 if cost is None else cost)


@_command("SLIDING.WINDOW", arity=-4, args="key limit seconds [COST n]", summary=f"Sliding window rate limit. {_COST}")
def _sliding_window(counters: Counters, key: bytes, limit: bytes, seconds: bytes, *words: bytes) -> Reply:
    cost = _Options(words, valued=("COST",)).integer("COST")
    return counters.sliding_window(key, _integer(limit), _number(seconds), 1 if cost is None else cost)


@_command("GCRA", arity=-4, args="key limit seconds [COST n] [BURST n]", summary=f"Token bucket rate limit. {_COST}")
def _gcra(counters: Counters, key: bytes, limit: bytes, seconds: bytes, *words: bytes) -> Reply:
    options = _Options(words, valued=("COST", "BURST"))
    cost, burst = options.integer("COST"), options.integer("BURST")
    return counters.gcra(key, _integer(limit), _number(seconds), 1 if cost is None else cost, burst=burst)


@_command("TYPE", arity=2, args="key", summary="What the entry is: counter, sliding-window, gcra, or none.")
def _type(counters: Counters, key: bytes) -> Reply:
    return counters.type(key) or "none"


@_command("TTL", arity=2, args="key", summary="Seconds left, rounded; -1 without a TTL, -2 for an absent key.")
def _ttl(counters: Counters, key: bytes) -> Reply:
    return counters.ttl(key)


@_command("PTTL", arity=2, args="key", summary="Milliseconds left, rounded up; -1 and -2 as TTL.")
def _pttl(counters: Counters, key: bytes) -> Reply:
    return counters.pttl(key)


@_command("PERSIST", arity=2, args="key", summary="Removes the TTL.")
def _persist(counters: Counters, key: bytes) -> Reply:
    return int(counters.persist(key))


@_command("DEL", arity=-2, args="key [key ...]", summary="Removes keys, replies how many there were.")
def _del(counters: Counters, *keys: bytes) -> Reply:
    return counters.delete(*keys)


@_command("EXISTS", arity=-2, args="key [key ...]", summary="How many of the keys are there; named twice counts twice.")
def _exists(counters: Counters, *keys: bytes) -> Reply:
    return counters.exists(*keys)


@_command("KEYS", arity=2, args="pattern", summary="The keys that match: * ? [a-z] [^a] \\x, sorted.")
def _keys(counters: Counters, pattern: bytes) -> Reply:
    # Redis promises no order; sorted, a transcript reads the same on every run.
    found: list[bytes | None] = []
    found += sorted(key.encode() if isinstance(key, str) else key for key in counters.scan_iter(pattern))
    return found


@_command("DBSIZE", arity=1, summary="How many keys are stored. Expired ones not yet reclaimed are included.")
def _dbsize(counters: Counters) -> Reply:
    return len(counters)


@_command(
    "FLUSHALL",
    arity=-1,
    args="[ASYNC | SYNC]",
    summary="Removes everything. ASYNC and SYNC are accepted and change nothing.",
)
def _flushall(counters: Counters, *words: bytes) -> Reply:
    if len(words) > 1 or (words and words[0].upper() not in (b"ASYNC", b"SYNC")):
        raise CommandError("ERR syntax error")
    counters.clear()
    return "OK"


@_command("HELP", arity=-1, args="[command]", summary="The list of commands, or how one of them is written.")
def _help(counters: Counters, *words: bytes) -> Reply:
    if words:
        command = _find(words[0])
        also = f" Also written {command.names[1]}." if len(command.names) > 1 else ""
        explained = textwrap.wrap(command.summary + also, 78, initial_indent="  ", subsequent_indent="  ")
        return "\n".join([command.usage, *explained])
    # Of each summary the first sentence: one line of a terminal per command.
    lines = [f"{command.names[0]:<18}{command.summary.partition('. ')[0].rstrip('.')}" for command in COMMANDS]
    return "\n".join([*lines, "HELP command shows how it is written. The prefix GOBLIN. can be left out."])


@_command("QUIT", "EXIT", arity=-1, summary="Ends the session.")
def _quit(counters: Counters, *words: bytes) -> Reply:
    raise Quit


def _find(name: bytes) -> Command:
    command = _BY_NAME.get(name.upper().decode("latin-1"))
    if command is None:
        raise CommandError(f"ERR unknown command '{_printable(name)}'")
    return command


# ---- The shell ------------------------------------------------------------------------------------------------------


class Shell:
    """One session over one store. Not for several threads at once (the store is).

    Args:
        clock: a manual clock for the store, moved by lines ``#@advance SECONDS``; None: the system's, and those lines
            are comments like any other.

    >>> Shell().answer(b"GOBLIN.INCREX rate:user42 60")
    b'(integer) 1'
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock
        self.counters = Counters(clock=clock)

    def answer(self, line: bytes) -> bytes:
        """The reply to one line, without a final newline; empty when there is nothing to say (blank, comment).

        Errors are replies too. Raises :class:`Quit` when the line ends the session. Cost: the command's.
        """
        text = strip_prompt(line)
        try:
            if self.clock is not None and re.match(rb"#@advance(\s|$)", text):
                return self._advance(self.clock, text)
            words = split_words(text)
        except ValueError as error:
            return str(error).encode()
        return self._run(words) if words else b""

    def _run(self, words: list[bytes]) -> bytes:
        name = _printable(words[0].lower())
        try:
            command = _find(words[0])
            if not command.takes(len(words)):
                raise CommandError(f"ERR wrong number of arguments for '{name}' command")
            return format_reply(command.run(self.counters, *words[1:]))
        except CommandError as error:
            message = str(error)
        except WrongTypeError as error:
            message = f"WRONGTYPE {error}"
        except (ValueError, OverflowError) as error:
            message = _redis_text(str(error), name)
        return b"(error) " + message.encode()

    def _advance(self, clock: ManualClock, text: bytes) -> bytes:
        words = split_words(text[len("#@") :])
        if len(words) != 2 or not re.fullmatch(rb"-?[0-9]{1,19}(\.[0-9]+)?", words[1]):
            return b"(error) ERR #@advance takes one number of seconds, such as 2 or 0.5"
        try:
            clock.advance(float(words[1]) if b"." in words[1] else int(words[1]))
        except OverflowError as error:
            return b"(error) ERR " + str(error).encode()
        return b""


def _redis_text(message: str, name: str) -> str:
    """Redis' text for what the store raised: its messages also name the argument and the value, Redis' do not."""
    if message.startswith("invalid expire time"):
        return f"ERR invalid expire time in '{name}' command"
    if message.startswith("increment or decrement would overflow"):
        return "ERR increment or decrement would overflow"
    return f"ERR {message}"
