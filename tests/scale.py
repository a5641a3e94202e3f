"""How long the tests with random input run, and the seed they share.

    GOBLIN_SEED=7         repeats a run; every failure prints it
    GOBLIN_SOAK=1         their long form: minutes and hours, with a line of progress (`make soak`)
    GOBLIN_TEST_SCALE=0.2 a part of their ordinary form, for builds that are slow; only of those that say how little is
                          still enough for what they demand of coverage
"""

import os
import random
import sys
import time

SEED = int(os.environ.get("GOBLIN_SEED") or random.SystemRandom().randrange(2**32))
SOAK = os.environ.get("GOBLIN_SOAK", "") not in ("", "0")
SCALE = float(os.environ.get("GOBLIN_TEST_SCALE") or 1)
SECONDS_BETWEEN_LINES = 15


def size(ordinary, *, soak, least=None):
    """How many: `ordinary`, or a part of it, but `least`, where the build is slow; `soak` where there is time."""
    if SOAK:
        return soak
    return ordinary if least is None else max(least, int(ordinary * SCALE))


def rounds(ordinary, *, soak, least=None):
    """range(size(...)) that says how far it is while soaking."""
    count = size(ordinary, soak=soak, least=least)
    return progress(range(count), count) if SOAK else range(count)


def progress(rounds, count, what=None):
    """Passes on `rounds`, of which there are `count`, and prints a line now and then; `pytest -s` shows it."""
    what = what or os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0].rpartition("/")[2] or "soak"
    start = said = time.monotonic()
    for number, thing in enumerate(rounds):
        yield thing
        now = time.monotonic()
        if now - said >= SECONDS_BETWEEN_LINES or (said > start and number + 1 == count):
            said = now
            done = (number + 1) / count
            left = (now - start) / done * (1 - done)
            line = f"{what}: {number + 1:,} of {count:,}, {done:.0%}, {left:.0f} s left, GOBLIN_SEED={SEED}"
            print(line, file=sys.stderr, flush=True)
