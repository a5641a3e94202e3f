"""`pytest bench/ --benchmark-only`: the headline commands beside the floor and beside the dict idiom.

A table for each work. Times are of a round, whose number of calls stands in the table's title; for nanoseconds per call
and ratios measured in turn, run `make ratios`.
"""

import pytest

from works import WORKS

CASES = [
    pytest.param(work, contender, id=f"{work.command} {work.situation.__name__} {contender.name}".replace(" ", "-"))
    for work in WORKS
    for contender in work.contenders
]


@pytest.mark.parametrize(("work", "contender"), CASES)
def test_loop(benchmark, work, contender):
    arguments = work.rounds(contender)
    calls = len(next(arguments)[1])
    benchmark.group = f"{work.name}: {calls:,} calls a round"
    benchmark.extra_info["calls"] = calls
    benchmark.pedantic(contender.loop, setup=lambda: (next(arguments), {}), rounds=15, warmup_rounds=2)
