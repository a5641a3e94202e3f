"""increx / pincrex: add one; arm the TTL when the result is 1 and none is running."""

import datetime

import pytest

from catalogue import INT64_MAX
from rows import do, fails, gives, row, state, table, wait

OVERFLOW = "increment or decrement would overflow"


@table(
    row(
        "first_call_makes_the_counter_and_arms",
        do("increx", "k", 60).gives(1),
        do("ttl", "k").gives(60),
        leaves={"k": (1, 60_000)},
    ),
    row(
        "later_calls_leave_the_window_ticking",
        do("increx", "k", 60).gives(1),
        wait(0.05),
        do("increx", "k", 60).gives(2),
        do("increx", "k", 600).gives(3),
        do("increx", "k", 1).gives(4),
        leaves={"k": (4, 59_950)},
    ),
    row(
        "the_window_ends_and_a_new_one_starts",
        do("increx", "k", 60).gives(1),
        wait(59.999),
        do("increx", "k", 60).gives(2),
        wait(0.001),
        do("increx", "k", 60).gives(1),
        leaves={"k": (1, 60_000)},
        needs=["manual_clock"],
    ),
    row(
        "a_new_window_starts_where_one_is_over",
        do("set", "k", 7, px=30).gives(True),
        do("set", "m", -1, px=30).gives(True),
        wait(0.03),
        do("increx", "k", 60).gives(1),
        do("pincrex", "m", 60_500).gives(1),
        leaves={"k": (1, 60_000), "m": (1, 60_500)},
    ),
    row(
        "a_key_without_a_ttl_is_just_incremented",
        do("set", "k", 7).gives(True),
        do("increx", "k", 60).gives(8),
        do("increx", "k", 60).gives(9),
        leaves={"k": (9, None)},
    ),
    row(
        "a_zero_without_a_ttl_is_armed",
        do("set", "k", 0).gives(True),
        do("increx", "k", 60).gives(1),
        leaves={"k": (1, 60_000)},
    ),
    row(
        "a_counter_back_at_zero_keeps_its_running_window",
        do("increx", "k", 60).gives(1),
        do("decr", "k").gives(0),
        wait(0.05),
        do("increx", "k", 60).gives(1),
        do("pttl", "k").gives(59_950),
    ),
    row(
        "a_negative_counter_is_armed_when_it_comes_to_one",
        do("decr", "k").gives(-1),
        do("increx", "k", 60).gives(0),
        do("ttl", "k").gives(-1),
        do("increx", "k", 60).gives(1),
        leaves={"k": (1, 60_000)},
    ),
    row(
        "zero_seconds_where_it_would_be_armed_removes_the_key",
        do("increx", "k", 0).gives(1),
        do("exists", "k").gives(0),
        do("increx", "k", 0).gives(1),
        leaves={},
    ),
    row(
        "negative_seconds_where_it_would_be_armed_removes_the_key",
        do("increx", "k", -1).gives(1),
        do("set", "z", 0).gives(True),
        do("increx", "z", -5).gives(1),
        leaves={},
    ),
    row(
        "non_positive_seconds_where_nothing_is_armed_has_no_effect",
        do("set", "k", 5).gives(True),
        do("increx", "k", 0).gives(6),
        do("increx", "k", -1).gives(7),
        do("increx", "w", 60).gives(1),
        do("increx", "w", 0).gives(2),
        leaves={"k": (7, None), "w": (2, 60_000)},
    ),
    row(
        "zero_seconds_within_a_running_window_at_zero_has_no_effect",
        do("set", "k", 0, ex=60).gives(True),
        do("increx", "k", 0).gives(1),
        leaves={"k": (1, 60_000)},
    ),
    row(
        "the_largest_value_overflows_and_stays",
        do("set", "k", INT64_MAX, ex=60).gives(True),
        do("increx", "k", 5).fails(OverflowError, OVERFLOW),
        leaves={"k": (INT64_MAX, 60_000)},
    ),
    row(
        "the_largest_value_without_a_ttl_stays_without_one",
        do("set", "k", INT64_MAX - 1).gives(True),
        do("increx", "k", 5).gives(INT64_MAX),
        do("increx", "k", 5).fails(OverflowError, OVERFLOW),
        leaves={"k": (INT64_MAX, None)},
        needs=["exact_scripts"],
    ),
    row(
        "a_plain_set_ends_the_window_and_the_next_call_does_not_arm",
        do("increx", "k", 60).gives(1),
        do("set", "k", 7).gives(True),
        do("increx", "k", 60).gives(8),
        leaves={"k": (8, None)},
    ),
    row(
        "an_impossible_time_is_refused_before_anything_is_counted",
        do("increx", "k", INT64_MAX).fails(ValueError, "invalid expire time"),
        do("set", "old", 5).gives(True),
        do("increx", "old", INT64_MAX).fails(ValueError, "invalid expire time"),
        do("increx", "old", -INT64_MAX).fails(ValueError, "invalid expire time"),
        leaves={"old": (5, None)},
    ),
    row(
        "milliseconds_arm_in_milliseconds",
        do("pincrex", "k", 1_500).gives(1),
        do("pttl", "k").gives(1_500),
        wait(1.499),
        do("pincrex", "k", 9_999).gives(2),
        wait(0.001),
        do("get", "k").gives(None),
        do("pincrex", "k", 10).gives(1),
        leaves={"k": (1, 10)},
        needs=["manual_clock"],
    ),
    row(
        "milliseconds_are_not_seconds",
        do("pincrex", "k", 61_500).gives(1),
        do("pincrex", "k", 9_999).gives(2),
        leaves={"k": (2, 61_500)},
    ),
    row(
        "milliseconds_of_zero_remove_the_key",
        do("pincrex", "k", 0).gives(1),
        do("pincrex", "k", -1).gives(1),
        leaves={},
    ),
)
def test_increx(row, engine):
    row.run(engine)


@pytest.mark.needs("manual_clock")
@pytest.mark.parametrize("method", ["increx", "pincrex"])
def test_increx_fixed_window_admits_the_limit_and_refuses_the_rest(method, store, advance):
    period = {"increx": 10, "pincrex": 10_000}[method]
    for _ in range(3):
        replies = [getattr(store, method)("user", period) for _ in range(8)]
        assert [reply <= 5 for reply in replies] == [True] * 5 + [False] * 3
        advance(10)


@pytest.mark.needs("python_arguments")
def test_increx_timedelta_arms_exactly_its_milliseconds(store):
    store.increx("k", datetime.timedelta(milliseconds=1_501))
    store.pincrex("p", datetime.timedelta(days=1, milliseconds=1))
    assert (store.pttl("k"), store.pttl("p")) == (1_501, 86_400_001)


@pytest.mark.needs("nanoseconds")
def test_increx_expires_at_the_nanosecond_of_its_deadline(rig):
    rig.advance_ns(123)
    rig.store.increx("k", 1)
    rig.advance_ns(10**9 - 1)
    assert rig.store.increx("k", 1) == 2
    assert rig.store.pttl("k") == 1
    rig.advance_ns(1)
    assert rig.store.increx("k", 1) == 1


@pytest.mark.needs("manual_clock")
def test_increx_many_keys_have_windows_of_their_own(store, advance):
    for second in range(20):
        assert store.increx(f"k{second}", 10) == 1
        advance(1)
    left = {f"k{second}".encode(): (1, (second - 10) * 1_000) for second in range(11, 20)}
    assert state(store) == left


def test_increx_outcome_helpers_refuse_a_wrong_reply(store):
    """The tables' own words, so that a table cannot pass by accident."""
    for wrong in (gives(2), gives(True), fails(OverflowError)):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            wrong.check(lambda: 1, "a call")
