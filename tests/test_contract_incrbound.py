"""incrbound: add delta if the sum stays within max, else -1 and nothing changed; decrpos: take one if there is one."""

import datetime

import pytest

from catalogue import INT64_MAX, INT64_MIN
from engines import IN_PROCESS, REDIS
from rows import do, row, table, wait

OVERFLOW = "increment or decrement would overflow"


@table(
    row(
        "the_page's_quota",
        do("incrbound", "quota", 3, 10).gives(3),
        do("incrbound", "quota", 4, 10).gives(7),
        do("incrbound", "quota", 4, 10).gives(-1),
        do("incrbound", "quota", 3, 10).gives(10),
        do("incrbound", "quota", -5, 10).gives(5),
        leaves={"quota": (5, None)},
    ),
    row(
        "a_sum_at_the_bound_is_admitted_and_one_more_refused",
        do("incrbound", "k", 10, 10).gives(10),
        do("incrbound", "k", 1, 10).gives(-1),
        do("incrbound", "k", 0, 10).gives(10),
        leaves={"k": (10, None)},
    ),
    row(
        "a_refused_first_call_makes_no_key",
        do("incrbound", "k", 5, 3).gives(-1),
        do("incrbound", "k", 0, -1).gives(-1),
        do("incrbound", "k", 1, 0, seconds=60).gives(-1),
        do("exists", "k").gives(0),
        do("ttl", "k").gives(-2),
        leaves={},
    ),
    row(
        "zero_on_an_absent_key_creates_it_at_zero",
        do("incrbound", "k", 0, 0).gives(0),
        leaves={"k": (0, None)},
    ),
    row(
        "a_value_above_the_bound_is_left_alone",
        do("set", "k", 200).gives(True),
        do("incrbound", "k", 1, 100).gives(-1),
        do("incrbound", "k", 0, 100).gives(-1),
        do("incrbound", "k", -99, 100).gives(-1),
        leaves={"k": (200, None)},
    ),
    row(
        "a_refund_that_gets_within_the_bound_is_admitted",
        do("set", "k", 200).gives(True),
        do("incrbound", "k", -100, 100).gives(100),
        leaves={"k": (100, None)},
    ),
    row(
        "a_refund_below_zero_is_admitted",
        do("incrbound", "k", -7, 10).gives(-7),
        leaves={"k": (-7, None)},
    ),
    row(
        "an_admitted_minus_one_is_told_from_a_refusal_by_get",
        do("set", "k", -5).gives(True),
        do("incrbound", "k", 4, 10).gives(-1),
        do("get", "k").gives(-1),
        do("incrbound", "k", 100, 10).gives(-1),
        do("get", "k").gives(-1),
        leaves={"k": (-1, None)},
    ),
    row(
        "an_admitted_call_keeps_the_ttl",
        do("set", "k", 1, ex=100).gives(True),
        wait(0.05),
        do("incrbound", "k", 1, 10).gives(2),
        leaves={"k": (2, 99_950)},
    ),
    row(
        "a_refused_call_keeps_the_ttl",
        do("set", "k", 1, ex=100).gives(True),
        wait(0.05),
        do("incrbound", "k", 10, 10).gives(-1),
        do("incrbound", "k", 10, 10, seconds=7).gives(-1),
        leaves={"k": (1, 99_950)},
    ),
    row(
        "an_expired_key_counts_as_zero",
        do("set", "k", 9, px=30).gives(True),
        wait(0.03),
        do("incrbound", "k", 5, 10).gives(5),
        leaves={"k": (5, None)},
    ),
    row(
        "an_expired_key_and_a_refusal_leave_no_key",
        do("set", "k", 9, px=30).gives(True),
        wait(0.03),
        do("incrbound", "k", 11, 10).gives(-1),
        do("ttl", "k").gives(-2),
        leaves={},
    ),
    row(
        "a_sum_above_int64_is_above_every_bound",
        do("set", "k", 5).gives(True),
        do("incrbound", "k", INT64_MAX, 10).gives(-1),
        do("incrbound", "k", INT64_MAX, INT64_MAX).gives(-1),
        do("set", "m", INT64_MAX).gives(True),
        do("incrbound", "m", INT64_MAX, INT64_MAX).gives(-1),
        do("incrbound", "m", 1, INT64_MAX).gives(-1),
        leaves={"k": (5, None), "m": (INT64_MAX, None)},
        needs=["exact_scripts"],
    ),
    row(
        "a_sum_below_int64_is_an_error",
        do("set", "k", INT64_MIN).gives(True),
        do("incrbound", "k", -1, 0).fails(OverflowError, OVERFLOW),
        do("incrbound", "k", INT64_MIN, INT64_MIN).fails(OverflowError, OVERFLOW),
        do("incrbound", "k", -1, 0, seconds=0).fails(OverflowError, OVERFLOW),
        leaves={"k": (INT64_MIN, None)},
    ),
    row(
        "the_whole_range_of_int64_can_be_used",
        do("incrbound", "k", INT64_MAX, INT64_MAX).gives(INT64_MAX),
        do("incrbound", "k", INT64_MIN, INT64_MAX).gives(-1),
        do("get", "k").gives(-1),
        do("incrbound", "k", INT64_MIN + 1, 0).gives(INT64_MIN),
        do("incrbound", "k", 0, INT64_MIN).gives(INT64_MIN),
        do("incrbound", "k", 1, INT64_MIN).gives(-1),
        leaves={"k": (INT64_MIN, None)},
        needs=["exact_scripts"],
    ),
    row(
        "sums_beyond_2_to_the_53_are_exact",
        do("set", "k", 2**53).gives(True),
        do("incrbound", "k", 1, 2**53).gives(-1),
        do("incrbound", "k", 1, 2**53 + 1).gives(2**53 + 1),
        do("incrbound", "k", 1, 2**53 + 1).gives(-1),
        do("set", "m", INT64_MAX - 5).gives(True),
        do("incrbound", "m", 4, INT64_MAX - 2).gives(-1),
        do("incrbound", "m", 3, INT64_MAX - 2).gives(INT64_MAX - 2),
        leaves={"k": (2**53 + 1, None), "m": (INT64_MAX - 2, None)},
        needs=["exact_scripts"],
    ),
    row(
        "sums_up_to_2_to_the_53_are_exact",
        do("set", "k", 2**53 - 3).gives(True),
        do("incrbound", "k", 2, 2**53 - 2).gives(-1),
        do("incrbound", "k", 2, 2**53 - 1).gives(2**53 - 1),
        do("incrbound", "k", -(2**53) + 1, 0).gives(0),
        do("incrbound", "k", -(2**53) + 1, -(2**53)).gives(-1),
        do("incrbound", "k", -(2**53), -(2**53)).gives(-(2**53)),
        leaves={"k": (-(2**53), None)},
    ),
    row(
        "seconds_arm_a_key_that_the_call_makes",
        do("incrbound", "k", 1, 10, seconds=60).gives(1),
        wait(0.05),
        do("incrbound", "k", 2, 10, seconds=60).gives(3),
        do("incrbound", "k", 2, 10, seconds=5).gives(5),
        leaves={"k": (5, 59_950)},
    ),
    row(
        "seconds_arm_an_old_key_without_a_ttl",
        do("set", "k", 5).gives(True),
        do("incrbound", "k", 1, 10, seconds=60).gives(6),
        leaves={"k": (6, 60_000)},
    ),
    row(
        "seconds_of_a_refusal_arm_nothing",
        do("set", "k", 5).gives(True),
        do("incrbound", "k", 6, 10, seconds=60).gives(-1),
        leaves={"k": (5, None)},
    ),
    row(
        "non_positive_seconds_of_an_admitted_call_remove_the_key",
        do("incrbound", "k", 4, 10, seconds=0).gives(4),
        do("set", "old", 5).gives(True),
        do("incrbound", "old", 1, 10, seconds=-1).gives(6),
        leaves={},
    ),
    row(
        "non_positive_seconds_with_a_running_ttl_or_a_refusal_do_nothing",
        do("set", "k", 5, ex=60).gives(True),
        do("incrbound", "k", 1, 10, seconds=0).gives(6),
        do("set", "old", 5).gives(True),
        do("incrbound", "old", 6, 10, seconds=-1).gives(-1),
        leaves={"k": (6, 60_000), "old": (5, None)},
    ),
    row(
        "a_quota_with_a_period_starts_anew_when_it_is_over",
        do("incrbound", "k", 10, 10, seconds=60).gives(10),
        wait(59.999),
        do("incrbound", "k", 1, 10, seconds=60).gives(-1),
        wait(0.001),
        do("incrbound", "k", 1, 10, seconds=60).gives(1),
        leaves={"k": (1, 60_000)},
        needs=["manual_clock"],
    ),
    row(
        "a_quota_whose_period_is_over_starts_anew",
        do("incrbound", "k", 10, 10).gives(10),
        do("pexpire", "k", 30).gives(True),
        wait(0.03),
        do("incrbound", "k", 1, 10, seconds=60).gives(1),
        do("incrbound", "k", 10, 10, seconds=60).gives(-1),
        leaves={"k": (1, 60_000)},
    ),
    row(
        "an_impossible_time_is_refused_also_where_nothing_would_be_armed",
        do("set", "k", 5, ex=60).gives(True),
        do("incrbound", "k", 1, 10, seconds=INT64_MAX).fails(ValueError, "invalid expire time"),
        do("incrbound", "k", 100, 10, seconds=-INT64_MAX).fails(ValueError, "invalid expire time"),
        leaves={"k": (5, 60_000)},
    ),
)
def test_incrbound(row, engine):
    row.run(engine)


@table(
    row(
        "takes_what_is_there_and_stops_at_zero",
        do("set", "k", 2, ex=60).gives(True),
        do("decrpos", "k").gives(1),
        do("decrpos", "k").gives(0),
        do("decrpos", "k").gives(-1),
        leaves={"k": (0, 60_000)},
    ),
    row(
        "makes_no_key",
        do("decrpos", "k").gives(-1),
        do("exists", "k").gives(0),
        leaves={},
    ),
    row(
        "leaves_a_negative_value_alone",
        do("set", "k", -3).gives(True),
        do("decrpos", "k").gives(-1),
        do("set", "m", INT64_MIN).gives(True),
        do("decrpos", "m").gives(-1),
        leaves={"k": (-3, None), "m": (INT64_MIN, None)},
    ),
    row(
        "takes_from_the_largest_value",
        do("set", "k", INT64_MAX).gives(True),
        do("decrpos", "k").gives(INT64_MAX - 1),
        needs=["exact_scripts"],
    ),
    row(
        "takes_from_a_large_value",
        do("set", "k", 2**53).gives(True),
        do("decrpos", "k").gives(2**53 - 1),
        leaves={"k": (2**53 - 1, None)},
    ),
    row(
        "of_an_expired_key_takes_nothing",
        do("set", "k", 3, px=30).gives(True),
        wait(0.03),
        do("decrpos", "k").gives(-1),
        do("ttl", "k").gives(-2),
        leaves={},
    ),
)
def test_decrpos(row, engine):
    row.run(engine)


@pytest.mark.needs("python_arguments")
def test_incrbound_timedelta_arms_its_milliseconds(store):
    store.incrbound("k", 1, 10, seconds=datetime.timedelta(milliseconds=1_501))
    assert store.pttl("k") == 1_501


@pytest.mark.needs("python_arguments")
def test_incrbound_keywords_are_delta_max_seconds(store):
    assert store.incrbound(key="k", delta=3, max=10, seconds=60) == 3
    assert store.incrbound("k", max=10, delta=8) == -1
    assert store.ttl("k") == 60


BASES = (0, 2**31, 2**53, INT64_MAX, -(2**31), -(2**53), INT64_MIN)
EDGES = [base + step for base in BASES for step in (-2, -1, 0, 1, 2) if INT64_MIN <= base + step <= INT64_MAX]
EDGES_ON_SERVERS = [INT64_MIN, INT64_MIN + 1, -(2**53) - 1, -(2**53), -1, 1, 2**53, 2**53 + 1, INT64_MAX - 1, INT64_MAX]


def check_triples(store, edges):
    for value in edges:
        for delta in edges:
            for bound in edges:
                store.set("k", value)
                total = value + delta
                if total > bound:
                    assert store.incrbound("k", delta, bound) == -1, (value, delta, bound)
                    assert store.get("k") == value, (value, delta, bound)
                elif total < INT64_MIN:
                    with pytest.raises(OverflowError, match=OVERFLOW):
                        store.incrbound("k", delta, bound)
                    assert store.get("k") == value, (value, delta, bound)
                else:
                    assert store.incrbound("k", delta, bound) == total, (value, delta, bound)
                    assert store.get("k") == total, (value, delta, bound)


@pytest.mark.needs("exact_scripts")
def test_incrbound_every_edge_against_exact_sums_agrees(store, engine):
    """All triples of edge values against Python's unbounded integers: 31**3 of them; on a server, where each takes
    three round trips, 10**3: around zero, the last whole double and the ends of int64."""
    check_triples(store, EDGES if engine in IN_PROCESS else EDGES_ON_SERVERS)


def test_incrbound_every_edge_that_a_double_holds_against_exact_sums_agrees(store, engine):
    """The same where no sum leaves +-2**53."""
    bases = (0, 2**31, -(2**52) + 1, 2**52 - 1) if engine in [*IN_PROCESS, REDIS] else (2**52 - 1,)
    check_triples(store, [base + step for base in bases for step in (-1, 0, 1)])
