"""`pytest bench/ --benchmark-only`: the rivals that are installed, on one hot key; each counts for the referee first.

Times are of a round of so many calls as the table's title says. `make bench` has the other workloads, in turn.
"""

import functools

import pytest
import referee
import rivals
from workloads import DAY, MANY

CALLS = 1_000
PLAYERS = [rival for rival in rivals.load_all() if not rival.module or rival.takes_part_in("hot")]


@functools.cache
def wrong():
    return referee.check([rival.module for rival in PLAYERS if rival.module])


@pytest.mark.parametrize("rival", PLAYERS, ids=[rival.file for rival in PLAYERS])
def test_rival(benchmark, rival):
    if rival.module is None:
        pytest.skip(f"{rival.name}: {rival.version}")
    assert rival.name not in wrong(), wrong()[rival.name]
    names = rival.module.setup(MANY, DAY)
    try:
        benchmark.group = f"one hot key, rivals: {CALLS:,} calls a round"
        benchmark.extra_info.update(calls=CALLS, version=rival.version)
        hits = ["rate:user42"] * CALLS
        benchmark.pedantic(referee.compiled(rival.module, names), (hits,), rounds=15, warmup_rounds=2)
    finally:
        referee.close(rival.module, names)
