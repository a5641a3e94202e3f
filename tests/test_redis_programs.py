"""The same random programs on the core and on a real server: replies, classes of errors and final states must agree.

20,000 operations; 200,000 with GOBLIN_CI=1; 10,000,000 with GOBLIN_SOAK=1, with a line of progress now and then. What
the program was like, command by reply, is printed at the end of pytest's output. A failure prints the seed;
`GOBLIN_SEED=... pytest tests/test_redis_programs.py` runs the same program again.
"""

import collections
import os

import pytest

from redis_programs import BATCH, DIFFERENCES, METHODS, Comparison, table_of
from scale import SEED, SOAK, progress, size

LONGEST = 10_000_000
IN_THE_GATE = os.environ.get("GOBLIN_CI", "") not in ("", "0")
OPERATIONS = size(200_000 if IN_THE_GATE else 20_000, soak=LONGEST, least=20_000)

# Every class of reply that each command must have come to, often enough; and it can come to no other.
CELLS = {
    **dict.fromkeys(["increx", "pincrex"], "1 value overflow integer time"),
    "incrbound": "-1 value overflow integer time",
    "decrpos": "-1 value",
    **dict.fromkeys(["incr", "incrby", "decr", "decrby"], "value overflow integer time"),
    **dict.fromkeys(["get", "getdel"], "value nil"),
    "set": "yes no value nil integer conflict time",
    "getset": "value nil integer",
    "getex": "value nil integer conflict time",
    "mget": "list",
    "mset": "nil integer",
    **dict.fromkeys(["delete", "exists"], "0 count"),
    **dict.fromkeys(["expire", "pexpire"], "yes no integer conflict time"),
    "persist": "yes no",
    **dict.fromkeys(["ttl", "pttl"], "absent endless left"),
    **dict.fromkeys(["__iter__", "scan_iter"], "list"),
    "clear": "nil",
}
ERRORS = {"overflow", "integer", "conflict", "time"}
CELL_OF_THE_LONGEST = 1_000
RARE_FROM = 100_000  # operations, before every difference must have shown


def test_redis_programs_core_and_server_agree(redis_server, redis_report):
    comparison = Comparison(redis_server, SEED)
    batches = comparison.run(OPERATIONS)
    for _ in progress(batches, OPERATIONS // BATCH, "redis programs, batches") if SOAK else batches:
        pass
    redis_report += report(comparison, redis_server.version)
    check_shape(comparison)


def report(comparison, version):
    yield (
        f"random programs on core and redis-server {version}, GOBLIN_SEED={comparison.seed}: "
        f"{comparison.operations:,} operations, {comparison.with_ttl / comparison.operations:.0%} on keys with a TTL, "
        f"{errors_of(comparison) / comparison.operations:.0%} errors, {comparison.states} states compared, "
        f"{comparison.void} of {comparison.batches} batches void, TTLs to {comparison.loosest_ms} ms or better"
    )
    yield from table_of(comparison.replies)
    for name, count in comparison.differing.most_common():
        yield f"{count:10,} replies differ as written: {name} ({DIFFERENCES[name].reason})"


def errors_of(comparison):
    return sum(count for (_, kind), count in comparison.replies.items() if kind in ERRORS)


def check_shape(comparison):
    """A program that has become easy proves nothing."""
    count = comparison.operations
    wanted = {(method, kind) for method, kinds in CELLS.items() for kind in kinds.split()}
    assert comparison.replies.keys() <= wanted, f"say in CELLS: {comparison.replies.keys() - wanted}"
    least = CELL_OF_THE_LONGEST * count / LONGEST
    rare = {cell: comparison.replies[cell] for cell in wanted if comparison.replies[cell] < least}
    assert not rare, f"GOBLIN_SEED={comparison.seed}: fewer than {least}: {rare}"
    assert comparison.with_ttl >= 0.2 * count, "too few operations on keys with a TTL"
    assert errors_of(comparison) >= 0.05 * count, "too few errors"
    if count >= RARE_FROM:
        unneeded = {name for name in DIFFERENCES if not comparison.differing[name]}
        assert not unneeded, f"GOBLIN_SEED={comparison.seed}: nothing differs so any longer, or never did: {unneeded}"


def test_redis_programs_shape_names_every_method():
    assert CELLS.keys() == set(METHODS)


def test_redis_programs_shape_of_an_easy_program_is_refused():
    class Easy:
        seed, operations, with_ttl = 1, LONGEST, LONGEST
        differing = dict.fromkeys(DIFFERENCES, 1)

        def __init__(self, each=10**6, **other):
            cells = [(method, kind) for method, kinds in CELLS.items() for kind in kinds.split()]
            self.replies = collections.Counter(dict.fromkeys(cells, each))
            vars(self).update(other)

    check_shape(Easy())
    rare = Easy()
    rare.replies["persist", "yes"] = 999
    strange = Easy()
    strange.replies["persist", "overflow"] = 10**6
    undiffering = Easy(differing=dict.fromkeys(DIFFERENCES, 0))
    for easy in (rare, strange, undiffering, Easy(with_ttl=LONGEST // 6), Easy(each=5_000)):
        with pytest.raises(AssertionError):
            check_shape(easy)
