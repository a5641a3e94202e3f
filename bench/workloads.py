"""The workloads that the rivals are timed on: which keys come, in which order; the same for all, made beforehand.

A rival that is slow gets fewer calls of the same sequence, never another one.
"""

import functools
import itertools
import random
from typing import Any, Callable, NamedTuple

SEED = 20_240_229
MANY = 10**9  # a limit that no run reaches
DAY = 86_400
ZIPF_EXPONENT = 1.1


class Workload(NamedTuple):
    name: str
    text: str
    keys: Callable  # size -> (keys to fill in first, sequence of calls)
    size: int  # keys
    limit: int = MANY
    seconds: int = DAY
    round_seconds: float = 0.15
    most_rounds: int = 99
    variable: str = "key"
    before: str = ""
    admits: bool = True


def one_key(size):
    return ["rate:user42"], ["rate:user42"] * 1_000_000


def named(size):
    keys = [f"rate:user{number:07}" for number in range(size)]
    # Shuffled: neighbours in memory are not neighbours in rank.
    random.Random(SEED).shuffle(keys)
    return keys


def uniform(size):
    keys = named(size)
    return keys, random.Random(SEED).choices(keys, k=1_000_000)


def zipf(size):
    keys = named(size)
    weights = list(itertools.accumulate(1 / rank**ZIPF_EXPONENT for rank in range(1, size + 1)))
    return keys, random.Random(SEED).choices(keys, cum_weights=weights, k=1_000_000)


def fresh(size):
    """New keys for ever; they are built in the loop."""
    return [], range(1 << 62)


# Limits are never reached where hits are to be admitted, and yet as low as that allows: at a billion a day, a token
# bucket is full, and forgotten, before its key's next hit.
HOT = "one hot key, admitted"
WORKLOADS = [
    Workload("hot", HOT, one_key, 1),
    Workload("uniform", "100,000 live keys, uniformly", uniform, 100_000, limit=10_000, round_seconds=0.2),
    Workload(
        "zipf", f"1,000,000 live keys, Zipf distribution (s = {ZIPF_EXPONENT})", zipf, 1_000_000, limit=10**7,
        seconds=30 * DAY, round_seconds=0.3,
    ),
    Workload("refused", "one hot key, refused", one_key, 1, limit=5, admits=False),
    Workload(
        "churn", "creation and expiry: every call a new key, built by an f-string, that lives 1 s", fresh, 0, limit=1,
        seconds=1, round_seconds=1.0, most_rounds=3, variable="number", before='key = f"rate:user{number:09}"; ',
    ),
    Workload("decorator", "a decorated function, admitted", one_key, 1),
]  # fmt: skip


@functools.cache
def made(workload: Any):
    return workload.keys(workload.size)
