"""incr, incrby, decr, decrby: one signature; the TTL is kept unless ex/px sets it anew."""

import pytest

from catalogue import INT64_MAX, INT64_MIN
from rows import do, gives, row, state, table, wait

OVERFLOW = "increment or decrement would overflow"
FAMILY = {"incr": 1, "incrby": 1, "decr": -1, "decrby": -1}  # method -> sign

every_method = pytest.mark.parametrize(("method", "sign"), FAMILY.items())


@table(
    row(
        "an_absent_key_counts_from_zero",
        do("incr", "a").gives(1),
        do("incrby", "b", 5).gives(5),
        do("decr", "c").gives(-1),
        do("decrby", "d", 5).gives(-5),
        leaves={"a": (1, None), "b": (5, None), "c": (-1, None), "d": (-5, None)},
    ),
    row(
        "the_page's_transcript",
        do("set", "mykey", "10").gives(True),
        do("incr", "mykey").gives(11),
        do("get", "mykey").gives(11),
    ),
    row(
        "negative_amounts_turn_the_direction",
        do("incrby", "k", -5).gives(-5),
        do("decrby", "k", -8).gives(3),
        leaves={"k": (3, None)},
    ),
    row(
        "zero_creates_an_absent_key",
        do("incrby", "a", 0).gives(0),
        do("decrby", "b", 0).gives(0),
        leaves={"a": (0, None), "b": (0, None)},
    ),
    row(
        "minus_one_is_a_value_like_any_other",
        do("decr", "k").gives(-1),
        do("get", "k").gives(-1),
        do("incr", "k", 0).gives(-1),
        do("decr", "k", -1).gives(0),
    ),
    row(
        "past_the_top_is_an_error",
        do("set", "k", INT64_MAX).gives(True),
        do("incr", "k").fails(OverflowError, OVERFLOW),
        do("incrby", "k", INT64_MAX).fails(OverflowError, OVERFLOW),
        do("decrby", "k", -1).fails(OverflowError, OVERFLOW),
        do("decrby", "k", -INT64_MAX).fails(OverflowError, OVERFLOW),
        leaves={"k": (INT64_MAX, None)},
    ),
    row(
        "past_the_bottom_is_an_error",
        do("set", "k", INT64_MIN).gives(True),
        do("decr", "k").fails(OverflowError, OVERFLOW),
        do("decrby", "k", INT64_MAX).fails(OverflowError, OVERFLOW),
        do("incrby", "k", -1).fails(OverflowError, OVERFLOW),
        do("incrby", "k", INT64_MIN).fails(OverflowError, OVERFLOW),
        leaves={"k": (INT64_MIN, None)},
    ),
    row(
        "the_ends_of_int64_can_be_reached",
        do("incrby", "a", INT64_MAX).gives(INT64_MAX),
        do("incrby", "b", INT64_MIN).gives(INT64_MIN),
        do("decrby", "c", INT64_MAX).gives(-INT64_MAX),
        do("decr", "c").gives(INT64_MIN),
        do("incrby", "a", INT64_MIN).gives(-1),
    ),
    row(
        "the_smallest_amount_can_never_be_taken_away",
        do("decrby", "absent", INT64_MIN).fails(OverflowError, OVERFLOW),
        do("set", "k", -1).gives(True),
        do("decrby", "k", INT64_MIN).fails(OverflowError, OVERFLOW),
        do("set", "m", INT64_MIN).gives(True),
        do("decrby", "m", INT64_MIN).fails(OverflowError, OVERFLOW),
        leaves={"k": (-1, None), "m": (INT64_MIN, None)},
    ),
    row(
        "sums_beyond_2_to_the_53_are_exact",
        do("set", "k", 2**53).gives(True),
        do("incr", "k").gives(2**53 + 1),
        do("incrby", "k", 2**62).gives(2**62 + 2**53 + 1),
        do("decr", "k").gives(2**62 + 2**53),
    ),
    row(
        "an_expired_key_counts_from_zero_without_a_ttl",
        do("set", "k", 7, px=10).gives(True),
        wait(0.01),
        do("incrby", "k", 3).gives(3),
        leaves={"k": (3, None)},
    ),
    row(
        "ex_and_px_set_the_ttl_on_every_call",
        do("incr", "k", ex=60).gives(1),
        wait(0.05),
        do("incr", "k", ex=60).gives(2),
        do("pttl", "k").gives(60_000),
        do("decrby", "k", 5, px=90_500).gives(-3),
        do("set", "plain", 1).gives(True),
        do("decr", "plain", ex=9).gives(0),
        do("incrby", "top", INT64_MAX, px=9_500).gives(INT64_MAX),
        leaves={"k": (-3, 90_500), "plain": (0, 9_000), "top": (INT64_MAX, 9_500)},
    ),
    row(
        "ex_and_px_of_zero_or_less_are_refused",
        do("set", "k", 1, ex=100).gives(True),
        do("incr", "k", ex=0).fails(ValueError, "invalid expire time: ex=0"),
        do("incrby", "k", 2, px=-5).fails(ValueError, "invalid expire time: px=-5"),
        do("decr", "k", ex=-1).fails(ValueError, "invalid expire time: ex=-1"),
        do("decrby", "absent", px=0).fails(ValueError, "invalid expire time: px=0"),
        leaves={"k": (1, 100_000)},
    ),
)
def test_incr_family(row, engine):
    row.run(engine)


@every_method
def test_incr_family_amount_defaults_to_one(method, sign, store):
    assert getattr(store, method)("k") == sign


@every_method
def test_incr_family_ttl_without_options_is_kept(method, sign, store, advance):
    store.set("k", 1, ex=100)
    advance(0.05)
    assert getattr(store, method)("k", 4) == 1 + sign * 4
    assert store.pttl("k") == 99_950


@every_method
@pytest.mark.needs("manual_clock")
@pytest.mark.parametrize(("option", "left"), [({"ex": 60}, 60_000), ({"px": 1_500}, 1_500)])
def test_incr_family_ex_px_set_the_ttl_on_every_call(method, sign, option, left, store, advance):
    """INCR and EXPIRE together at every page view: it lives as long as the views are close enough."""
    for views in range(1, 5):
        assert getattr(store, method)("k", **option) == sign * views
        assert store.pttl("k") == left
        advance((left - 1) / 1000)
    advance(0.001)
    assert store.get("k") is None
    store.set("plain", 0)
    getattr(store, method)("plain", **option)
    assert store.pttl("plain") == left


@every_method
def test_incr_family_overflow_with_a_ttl_option_changes_nothing(method, sign, store):
    extreme = INT64_MAX if sign > 0 else INT64_MIN
    store.set("k", extreme, ex=100)
    with pytest.raises(OverflowError, match=OVERFLOW):
        getattr(store, method)("k", 1, ex=5)
    assert state(store) == {b"k": (extreme, 100_000)}


@every_method
@pytest.mark.needs("python_arguments")
def test_incr_family_non_positive_options_are_refused(method, sign, store):
    store.set("k", 1, ex=100)
    for option in ({"ex": 0}, {"ex": -1}, {"px": 0}, {"px": -5}):
        (name,) = option
        with pytest.raises(ValueError, match=rf"invalid expire time: {name}="):
            getattr(store, method)("k", **option)
    with pytest.raises(ValueError, match="ex and px cannot be given together"):
        getattr(store, method)("k", ex=5, px=5)
    assert state(store) == {b"k": (1, 100_000)}


@every_method
def test_incr_family_keywords_are_key_and_amount(method, sign, store):
    assert getattr(store, method)(key="k", amount=3) == sign * 3


def test_incr_family_word_helpers_compare_types_too():
    with pytest.raises(AssertionError):
        gives(1).check(lambda: True, "a call")
