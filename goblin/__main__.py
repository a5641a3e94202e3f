"""``python -m goblin``: a line shell over one in-process store. Options, terminal and pipe; the language is shell.py's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

import goblin
from goblin.shell import Quit, Shell, strip_prompt

PROMPT = "goblin> "

INTERRUPTED = 130  # What a Unix shell reports for a process ended by Ctrl-C: 128 + SIGINT.


def main(argv: Sequence[str] | None = None) -> int:
    """Run a session over standard input and output; returns the exit status (0 also after error replies)."""
    options = _parser().parse_args(argv)
    shell = Shell(goblin.ManualClock() if options.manual_clock else None)
    try:
        _converse(shell, echo=options.echo)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our replies has gone. The interpreter flushes once more at exit: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m goblin",
        description="Atomic, expiring counters, by the commands of Redis. Commands are read from standard input, one a line; "
        "HELP lists them.",
    )
    parser.add_argument(
        "--manual-clock",
        action="store_true",
        help="time stands still, and lines '#@advance SECONDS' move it (without this option they are comments)",
    )
    parser.add_argument(
        "--echo",
        action="store_true",
        help="print each command before its reply, as '> ...', and comments and empty lines as they are",
    )
    parser.add_argument("--version", action="version", version=f"goblin {goblin.__version__}")
    return parser


def _converse(shell: Shell, *, echo: bool) -> None:
    if sys.stdin is None or sys.stdout is None:
        return  # Started with one of them closed: nothing to read, or nowhere to reply.
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    for line in _typed_lines() if on_terminal else sys.stdin.buffer:
        if echo:
            _print(_echo(line))
        try:
            reply = shell.answer(line)
        except Quit:
            return
        if reply:
            _print(reply)


def _typed_lines() -> Iterator[bytes]:
    """Lines edited at a prompt, until Ctrl-D. Ctrl-C gives up the line, not the session."""
    try:
        import readline  # noqa: F401  # imported, it gives input() history and editing
    except ImportError:
        pass  # Windows and some builds have none; the terminal's own line editing remains.
    # Keys are bytes: what the terminal's encoding cannot decode has to come through unchanged.
    sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    print("goblin: HELP lists the commands, QUIT leaves.")
    while True:
        try:
            line = input(PROMPT)
        except KeyboardInterrupt:
            print()
        except EOFError:
            print()
            return
        else:
            yield line.encode(sys.stdin.encoding, "surrogateescape")


def _echo(line: bytes) -> bytes:
    command = strip_prompt(line)
    return command if command.startswith(b"#") or not command else b"> " + command


def _print(text: bytes) -> None:
    # Bytes, so that what was typed is echoed as it was typed; flushed, so that a program at the other end of the pipes
    # can wait for the reply to what it wrote.
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
