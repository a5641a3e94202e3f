"""expire, pexpire and their flags; persist, ttl, pttl."""

import datetime

import pytest

from catalogue import INT64_MAX, INT64_MIN
from rows import do, gives, row, state, table, wait

CONFLICT = "cannot be given together"
FURTHER = "milliseconds reach 292 million years, and what is past deletes however long it is past"


@table(
    row(
        "sets_the_ttl_of_a_live_key",
        do("expire", "k", 5).gives(False),
        do("set", "k", 1).gives(True),
        do("expire", "k", 5).gives(True),
        do("ttl", "k").gives(5),
        do("expire", "k", 50).gives(True),
        do("pexpire", "k", 61_500).gives(True),
        leaves={"k": (1, 61_500)},
    ),
    row(
        "an_expired_key_is_absent",
        do("set", "k", 1, px=30).gives(True),
        wait(0.03),
        do("expire", "k", 5).gives(False),
        do("set", "k", 1, px=30).gives(True),
        wait(0.03),
        do("expire", "k", 5, xx=True).gives(False),
        leaves={},
    ),
    row(
        "a_non_positive_time_deletes_and_replies_true",
        do("mset", {"a": 1, "b": 1, "c": 1, "d": 1}).gives(None),
        do("expire", "a", 0).gives(True),
        do("expire", "b", -1).gives(True),
        do("pexpire", "c", 0).gives(True),
        do("pexpire", "d", -5).gives(True),
        do("expire", "a", 0).gives(False),
        do("exists", "a", "b", "c", "d").gives(0),
        leaves={},
    ),
    row(
        "nx_only_where_no_ttl_is_running",
        do("set", "k", 1).gives(True),
        do("expire", "k", 10, nx=True).gives(True),
        do("expire", "k", 20, nx=True).gives(False),
        do("expire", "k", -1, nx=True).gives(False),
        leaves={"k": (1, 10_000)},
    ),
    row(
        "xx_only_where_a_ttl_is_running",
        do("set", "k", 1).gives(True),
        do("expire", "k", 10, xx=True).gives(False),
        do("expire", "k", -1, xx=True).gives(False),
        do("expire", "k", 10).gives(True),
        do("expire", "k", 20, xx=True).gives(True),
        leaves={"k": (1, 20_000)},
    ),
    row(
        "gt_only_a_later_deadline",
        do("set", "k", 1, ex=10).gives(True),
        do("expire", "k", 9, gt=True).gives(False),
        do("expire", "k", -1, gt=True).gives(False),
        do("pexpire", "k", 12_345, gt=True).gives(True),
        leaves={"k": (1, 12_345)},
    ),
    row(
        "gt_only_a_strictly_later_deadline",
        do("set", "k", 1, ex=10).gives(True),
        do("expire", "k", 10, gt=True).gives(False),
        do("pexpire", "k", 10_001, gt=True).gives(True),
        leaves={"k": (1, 10_001)},
        needs=["manual_clock"],
    ),
    row(
        "gt_never_where_no_ttl_is_running",
        do("set", "k", 1).gives(True),
        do("expire", "k", 9_999_999, gt=True).gives(False),
        do("expire", "k", -1, gt=True).gives(False),
        leaves={"k": (1, None)},
    ),
    row(
        "lt_only_an_earlier_deadline",
        do("set", "k", 1, ex=10).gives(True),
        do("expire", "k", 11, lt=True).gives(False),
        do("expire", "k", 10, lt=True).gives(False),
        do("pexpire", "k", 5_678, lt=True).gives(True),
        leaves={"k": (1, 5_678)},
    ),
    row(
        "lt_only_a_strictly_earlier_deadline",
        do("set", "k", 1, ex=10).gives(True),
        do("expire", "k", 10, lt=True).gives(False),
        do("pexpire", "k", 9_999, lt=True).gives(True),
        leaves={"k": (1, 9_999)},
        needs=["manual_clock"],
    ),
    row(
        "lt_always_where_no_ttl_is_running",
        do("set", "k", 1).gives(True),
        do("expire", "k", 9_999_999, lt=True).gives(True),
        do("set", "gone", 1).gives(True),
        do("expire", "gone", 0, lt=True).gives(True),
        leaves={"k": (1, 9_999_999_000)},
    ),
    row(
        "an_admitted_past_deadline_deletes",
        do("set", "a", 1).gives(True),
        do("expire", "a", -1, nx=True).gives(True),
        do("set", "b", 1, ex=10).gives(True),
        do("expire", "b", 0, xx=True).gives(True),
        do("set", "c", 1, ex=10).gives(True),
        do("expire", "c", -1, lt=True).gives(True),
        leaves={},
    ),
    row(
        "xx_may_stand_with_gt_or_lt",
        do("set", "k", 1).gives(True),
        do("expire", "k", 10, xx=True, gt=True).gives(False),
        do("expire", "k", 10, xx=True, lt=True).gives(False),
        do("expire", "k", 10).gives(True),
        do("expire", "k", 9, xx=True, gt=True).gives(False),
        do("expire", "k", 11, xx=True, gt=True).gives(True),
        do("expire", "k", 12, xx=True, lt=True).gives(False),
        do("expire", "k", 8, xx=True, lt=True).gives(True),
        leaves={"k": (1, 8_000)},
    ),
    row(
        "flags_that_exclude_each_other_are_refused",
        do("set", "k", 1).gives(True),
        do("expire", "k", 5, nx=True, xx=True).fails(ValueError, f"nx and xx {CONFLICT}"),
        do("expire", "k", 5, nx=True, gt=True).fails(ValueError, f"nx and gt {CONFLICT}"),
        do("expire", "k", 5, nx=True, lt=True).fails(ValueError, f"nx and lt {CONFLICT}"),
        do("expire", "k", 5, gt=True, lt=True).fails(ValueError, f"gt and lt {CONFLICT}"),
        do("expire", "k", 5, xx=True, gt=True, lt=True).fails(ValueError, f"gt and lt {CONFLICT}"),
        do("pexpire", "k", 5, nx=True, xx=True).fails(ValueError, f"nx and xx {CONFLICT}"),
        do("pexpire", "k", 5, gt=True, lt=True).fails(ValueError, f"gt and lt {CONFLICT}"),
        do("expire", "absent", 5, gt=True, lt=True).fails(ValueError, f"gt and lt {CONFLICT}"),
        leaves={"k": (1, None)},
    ),
    row(
        "times_out_of_range_are_refused_whatever_the_flags_and_the_key",
        do("set", "k", 1, ex=60).gives(True),
        do("expire", "k", INT64_MAX).fails(ValueError, "invalid expire time"),
        do("expire", "k", INT64_MIN).fails(ValueError, "invalid expire time"),
        do("pexpire", "k", INT64_MAX).fails(ValueError, "invalid expire time"),
        do("expire", "absent", INT64_MAX, xx=True).fails(ValueError, "invalid expire time"),
        do("expire", "k", 9_223_372_037, nx=True).fails(
            ValueError, "invalid expire time", differs={"redis": (gives(False), FURTHER)}
        ),
        do("expire", "absent", 9_223_372_037).fails(
            ValueError, "invalid expire time", differs={"redis": (gives(False), FURTHER)}
        ),
        do("pexpire", "k", INT64_MIN, gt=True).fails(
            ValueError, "invalid expire time", differs={"redis": (gives(False), FURTHER)}
        ),
        leaves={"k": (1, 60_000)},
    ),
    row(
        "times_beyond_int64_nanoseconds_are_refused_in_either_direction",
        do("set", "k", 1, ex=60).gives(True),
        do("expire", "k", 9_223_372_037).fails(
            ValueError, "invalid expire time", differs={"redis": (gives(True), FURTHER)}
        ),
        do("expire", "k", -9_223_372_037).fails(
            ValueError, "invalid expire time", differs={"redis": (gives(True), FURTHER)}
        ),
        do("pexpire", "k", INT64_MIN).fails(
            ValueError, "invalid expire time", differs={"redis": (gives(False), "and so has deleted it")}
        ),
        do("pttl", "k").gives(60_000, differs={"redis": (gives(-2), "and so has deleted it")}),
    ),
    row(
        "the_smallest_milliseconds_are_refused",
        do("set", "k", 1).gives(True),
        do("pexpire", "k", INT64_MIN).fails(
            ValueError, "invalid expire time", differs={"redis": (gives(True), FURTHER)}
        ),
        do("exists", "k").gives(1, differs={"redis": (gives(0), "and so has deleted it")}),
    ),
    row(
        "persist_drops_the_ttl_and_says_whether_there_was_one",
        do("persist", "k").gives(False),
        do("set", "k", 1).gives(True),
        do("persist", "k").gives(False),
        do("expire", "k", 9).gives(True),
        do("persist", "k").gives(True),
        do("persist", "k").gives(False),
        leaves={"k": (1, None)},
    ),
    row(
        "persist_does_not_revive_an_expired_key",
        do("set", "k", 1, px=10).gives(True),
        wait(0.02),
        do("persist", "k").gives(False),
        do("get", "k").gives(None),
        leaves={},
    ),
    row(
        "ttl_and_pttl_tell_absent_from_endless",
        do("ttl", "k").gives(-2),
        do("pttl", "k").gives(-2),
        do("set", "k", 1).gives(True),
        do("ttl", "k").gives(-1),
        do("pttl", "k").gives(-1),
        do("expire", "k", 3).gives(True),
        do("ttl", "k").gives(3),
        do("pttl", "k").gives(3_000),
        do("pexpire", "k", 30).gives(True),
        wait(0.03),
        do("ttl", "k").gives(-2),
        do("pttl", "k").gives(-2),
    ),
)
def test_expire(row, engine):
    row.run(engine)


@pytest.mark.needs("manual_clock")
@pytest.mark.parametrize(
    ("left_ms", "ttl"),
    [(1, 0), (300, 0), (499, 0), (500, 1), (999, 1), (1_000, 1), (1_499, 1), (1_500, 2), (60_000, 60)],
)
def test_ttl_is_pttl_rounded_half_up(left_ms, ttl, store):
    store.set("k", 1, px=left_ms)
    assert (store.pttl("k"), store.ttl("k"), store.exists("k")) == (left_ms, ttl, 1)


@pytest.mark.needs("nanoseconds")
@pytest.mark.parametrize(
    ("left_ns", "pttl"), [(1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2), (1_999_999, 2), (2_000_000, 2)]
)
def test_pttl_is_rounded_up_so_a_live_key_never_shows_zero(left_ns, pttl, rig):
    rig.store.set("k", 1, px=2)
    rig.advance_ns(2_000_000 - left_ns)
    assert rig.store.pttl("k") == pttl
    rig.advance_ns(left_ns)
    assert rig.store.pttl("k") == -2


@pytest.mark.needs("nanoseconds")
def test_expire_gt_lt_compare_nanoseconds(rig):
    rig.store.set("k", 1, px=10)
    rig.advance_ns(1)
    assert rig.store.pexpire("k", 10, lt=True) is False
    assert rig.store.pexpire("k", 10, gt=True) is True
    assert rig.store.pexpire("k", 10, gt=True) is False


@pytest.mark.needs("python_arguments")
def test_expire_timedelta_sets_exactly_its_milliseconds(store):
    store.mset({"a": 1, "b": 1, "c": 1})
    assert store.expire("a", datetime.timedelta(milliseconds=1_501)) is True
    assert store.pexpire("b", datetime.timedelta(minutes=1, milliseconds=1)) is True
    assert store.expire("c", datetime.timedelta(milliseconds=-1)) is True
    assert state(store) == {b"a": (1, 1_501), b"b": (1, 60_001)}


@pytest.mark.needs("python_arguments")
def test_expire_keywords_are_the_units(store):
    store.set("k", 1)
    assert store.expire(key="k", seconds=5) and store.pexpire(key="k", milliseconds=5)
