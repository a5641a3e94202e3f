"""What ``make demo`` shows: the transcripts of the three pages played for real, then a rate limiter in ten lines."""

import inspect
import os
import subprocess
import sys
import time
from pathlib import Path

import goblin

TRANSCRIPTS = Path(__file__).resolve().parent.parent / "docs" / "transcripts"
PAGES = ("incr", "increx", "incrbound")

CALLS, USERS = 1_000_000, 1_000
LIMIT, WINDOW_SECONDS = 100, 60


def make_limiter(limit, seconds):
    """A function that lets `limit` calls per key through, in windows of `seconds` from the first."""
    counters = goblin.Counters()

    def allow(key):
        # One atomic step: count the call, and if it opens a window, arm its end.
        hits = counters.increx(key, seconds)
        return hits <= limit

    return allow


def play(page):
    """Print a page's transcript: its commands and comments go in, the shell's echo and replies come out."""
    path = TRANSCRIPTS / f"{page}.txt"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    typed = "".join(line for line in lines if line.startswith((">", "#", "\n")))
    print(f"\n==== docs/transcripts/{path.name}, played by python -m goblin --manual-clock --echo ====\n", flush=True)
    shell = [sys.executable, "-m", "goblin", "--manual-clock", "--echo"]
    subprocess.run(shell, input=typed, encoding="utf-8", check=True)


def measure():
    """Call the limiter a million times and print what it let through, and how fast."""
    print("\n==== A rate limiter in ten lines, called a million times ====\n")
    print(inspect.getsource(make_limiter))
    allow = make_limiter(LIMIT, WINDOW_SECONDS)
    users = [f"user{number}" for number in range(USERS)]
    admitted = 0
    start = time.perf_counter()
    for _ in range(CALLS // USERS):
        for user in users:
            admitted += allow(user)
    elapsed = time.perf_counter() - start
    print(f"limit: {LIMIT} calls per {WINDOW_SECONDS} s and user; {USERS:,} users, {CALLS:,} calls")
    print(f"let through: {admitted:,}   refused: {CALLS - admitted:,}")
    print(f"{elapsed:.2f} s, {CALLS / elapsed:,.0f} calls per second (one thread; Python's loop included)")


def main():
    for page in PAGES:
        play(page)
    measure()
    print("\nMore: python -m goblin (type HELP), docs/shell.md, docs/transcripts/patterns.txt")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # `make demo | head`: enough was seen.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
