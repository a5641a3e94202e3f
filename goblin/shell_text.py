"""Lines into words, by redis-cli's rules of quoting; replies into text, as redis-cli prints them on a terminal."""

from __future__ import annotations

import re

__all__ = ["Reply", "format_reply", "split_words", "strip_prompt"]

# A str is a status line (OK), bytes are a bulk string ("11"), None is (nil).
Reply = int | str | bytes | None | list[bytes | None]

# ---- Words ----------------------------------------------------------------------------------------------------------

_BLANKS = re.compile(rb"[\s\0]*")

# A word is a run of these parts. A closing quote has to end its word, as in redis-cli: 'a'b is a slip, not a word.
_PART = re.compile(
    rb"""
      "(?P<double>(?:[^"\\]|\\.)*)"(?=[\s\0]|\Z)
    | '(?P<single>(?:[^'\\]|\\'|\\(?!'))*)'(?=[\s\0]|\Z)
    | (?P<plain>[^\s\0"']+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_CONTROL = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}

# "> ", "goblin> ", "127.0.0.1:6379> ", "[::1]:6379[2]> ": lines pasted from a page or from a terminal have one.
_PROMPT = re.compile(rb"""\s*(?:(?:goblin|[^\s#"'>]+:\d+(?:\[\d+\])?)?>(?:\s+|\Z))?""")


def split_words(line: bytes) -> list[bytes]:
    r"""Split a line into words by redis-cli's rules of quoting.

    Inside ``"..."`` the escapes are ``\n \r \t \b \a \xHH``, and any other character after a backslash stands for
    itself; inside ``'...'`` only ``\'`` is one. A ``#`` where a word could begin starts a comment (goblin's own).

    Raises:
        ValueError: "Invalid argument(s)", for a quote left open or a closing quote that does not end its word.

    >>> split_words(rb'SET "my key" 10  # ten')
    [b'SET', b'my key', b'10']
    """
    words = []
    position = _skip_blanks(line, 0)
    while position < len(line) and line[position : position + 1] != b"#":
        word = b""
        while position < len(line) and _skip_blanks(line, position) == position:
            part = _PART.match(line, position)
            if part is None:
                raise ValueError("Invalid argument(s)")
            word += _unquote(part)
            position = part.end()
        words.append(word)
        position = _skip_blanks(line, position)
    return words


def strip_prompt(line: bytes) -> bytes:
    """The line without blanks around it and without a leading ``> ``, ``goblin> `` or ``host:port> ``."""
    return line[_PROMPT.match(line).end() :].strip()  # type: ignore[union-attr]  # the pattern matches everywhere


def _skip_blanks(line: bytes, position: int) -> int:
    return _BLANKS.match(line, position).end()  # type: ignore[union-attr]  # the pattern matches everywhere


def _unquote(part: re.Match[bytes]) -> bytes:
    if part["double"] is not None:
        return _ESCAPE.sub(_unescape, part["double"])
    if part["single"] is not None:
        return part["single"].replace(b"\\'", b"'")
    return part["plain"]


def _unescape(escape: re.Match[bytes]) -> bytes:
    if escape[1] is not None:
        return bytes.fromhex(escape[1].decode())
    return _CONTROL.get(escape[2], escape[2])


# ---- Replies --------------------------------------------------------------------------------------------------------


def _quoted_byte(byte: int) -> bytes:
    named = {ord('"'): b'\\"', ord("\\"): b"\\\\"}
    named.update((control[0], b"\\" + letter) for letter, control in _CONTROL.items())
    return named.get(byte) or (b"%c" % byte if 0x20 <= byte < 0x7F else b"\\x%02x" % byte)


_QUOTED = [_quoted_byte(byte) for byte in range(256)]


def format_reply(reply: Reply) -> bytes:
    r"""A reply as redis-cli prints it on a terminal, without the final newline.

    >>> format_reply(3), format_reply(b"11"), format_reply(None), format_reply("OK")
    (b'(integer) 3', b'"11"', b'(nil)', b'OK')
    """
    if reply is None:
        return b"(nil)"
    if isinstance(reply, str):
        return reply.encode()
    if isinstance(reply, bytes):
        return b'"' + b"".join([_QUOTED[byte] for byte in reply]) + b'"'
    if isinstance(reply, int):
        return b"(integer) %d" % reply
    if not reply:
        return b"(empty array)"
    width = len(str(len(reply)))
    return b"\n".join(b"%*d) %s" % (width, number, format_reply(item)) for number, item in enumerate(reply, 1))
