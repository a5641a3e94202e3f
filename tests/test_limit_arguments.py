"""Arguments of the three calls: types, ranges, which fault is named first, and what the message says."""

import datetime
import enum
import math
from decimal import Decimal
from fractions import Fraction

import pytest

import goblin
from engines import CORE
from limit_references import HORIZON_NS, INT64_MAX, NEVER

CALLS = {"fixed_window": {}, "sliding_window": {}, "gcra": {"burst": 3}}
TIMEDELTA = datetime.timedelta


def call(store, method, key="k", limit=5, seconds=60, cost=1, **options):
    return getattr(store, method)(key, limit, seconds, cost, **options)


def raises(error, pattern, method, **arguments):
    """It raises, says why, and has left a running entry as it was."""
    rig, twin = CORE.make(), CORE.make()
    for made in (rig, twin):
        call(made.store, method, cost=2)
        made.advance(1)
    with pytest.raises(error, match=pattern) as caught:
        call(rig.store, method, **arguments)
    assert type(caught.value) is error, caught.value
    assert len(rig.store) == 1 and rig.store.pttl("k") == twin.store.pttl("k")
    assert call(rig.store, method) == call(twin.store, method)
    return str(caught.value)


class Three(enum.IntEnum):
    VALUE = 3


class Index:
    def __index__(self):
        return 3


class Broken:
    def __index__(self):
        raise LookupError("mine")


class FloatSubclass(float):
    pass


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("name", ["limit", "cost", "burst"])
def test_integers_are_integers_and_within_int64(method, name):
    if name == "burst" and method != "gcra":
        return
    for number in (1.9, 2.0, True, False, "5", b"5", Decimal(2), Fraction(4, 2), [], object()):
        assert f"{name}=" in raises(TypeError, "value is not an integer or out of range", method, **{name: number})
    if name != "burst":
        raises(TypeError, f"value is not an integer or out of range: {name}=None", method, **{name: None})
    for number in (2**63, -(2**63) - 1, 2**64 + 1, 2**200):
        raises(OverflowError, f"value is not an integer or out of range: {name}=", method, **{name: number})
    raises(LookupError, "mine", method, **{name: Broken()})
    for number in (Three.VALUE, Index()):
        arguments = {"limit": 3, "cost": 1, name: number}
        arguments |= {"burst": 3} if method == "gcra" and name == "cost" else {}
        expected = {key: 3 if key == name else value for key, value in arguments.items()}
        assert call(CORE.make().store, method, **arguments) == call(CORE.make().store, method, **expected)


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("number", [-1, -(2**63)])
def test_negative_limit_or_cost_raises_valueerror(method, number):
    raises(ValueError, f"limit={number} .*allowed: at least 0", method, limit=number)
    raises(ValueError, f"cost={number} .*allowed: at least 0", method, cost=number)


@pytest.mark.parametrize("burst", [0, -1, -(2**63)])
def test_gcra_burst_below_one_raises_valueerror(burst):
    raises(ValueError, f"burst={burst} .*allowed: at least 1", "gcra", burst=burst)
    raises(ValueError, f"burst={burst} .*allowed: at least 1", "gcra", burst=burst, limit=0)


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize(
    "period",
    [0, -1, 0.0, -0.0, -1.5, 4e-10, -4e-10, 5e-324, math.nan, math.inf, -math.inf, TIMEDELTA(0), TIMEDELTA(-1)]
    + [-(2**62), -1e300, TIMEDELTA(days=-999_999_999), FloatSubclass(0)],
)
def test_period_that_is_not_ahead_raises_valueerror(method, period):
    for cost in (0, 1, 6):
        raises(ValueError, "seconds=.*allowed: .*1 ns", method, seconds=period, cost=cost)


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("period", ["60", b"60", True, False, Decimal(60), Fraction(60), [], object(), 1j])
def test_period_of_another_type_raises_typeerror(method, period):
    raises(TypeError, "seconds=", method, seconds=period)


@pytest.mark.parametrize("method", ["sliding_window", "gcra"])
def test_period_none_is_for_fixed_windows_only(method):
    raises(TypeError, "seconds=None", method, seconds=None)


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize(
    ("period", "ns"),
    [
        (1, 10**9),
        (Three.VALUE, 3 * 10**9),
        (Index(), 3 * 10**9),
        (0.1, 10**8),
        (FloatSubclass(0.25), 250_000_000),
        (1e-9, 1),
        (6e-10, 1),
        (1.4e-9, 1),
        (1.6e-9, 2),
        (0.1 + 0.2, 300_000_000),
        (TIMEDELTA(milliseconds=100), 10**8),
        (TIMEDELTA(microseconds=1), 1_000),
        (TIMEDELTA(days=30), 30 * 86_400 * 10**9),
    ],
)
def test_period_as_int_float_or_timedelta_is_exact_to_the_nanosecond(method, period, ns):
    rig = CORE.make()
    assert call(rig.store, method, limit=1, seconds=period) == 0
    wait = -call(rig.store, method, limit=1, seconds=period)
    # A sliding window's hit weighs nothing from the first instant of the next window on: floor(1 * (ns - 1) / ns).
    assert wait == ns
    rig.advance_ns(ns - 1)
    assert call(rig.store, method, limit=1, seconds=period) == -1
    rig.advance_ns(1)
    assert call(rig.store, method, limit=1, seconds=period) == 0


FAR = 9_223_372_036


@pytest.mark.parametrize(
    ("method", "limit", "options", "reach"),
    [
        ("fixed_window", 5, {}, lambda ns: ns),
        ("sliding_window", 5, {}, lambda ns: 2 * ns),
        ("gcra", 5, {}, lambda ns: ns),
        ("gcra", 3, {"burst": 1}, lambda ns: -(-ns // 3)),
        ("gcra", 3, {"burst": 7}, lambda ns: -(-7 * ns // 3)),
    ],
)
@pytest.mark.parametrize("period", [1, 2, 3, 10**9, 7 * 10**9 + 1])
@pytest.mark.parametrize("cost", [0, 1, 99])
def test_horizon_is_checked_always_and_exactly(method, limit, options, reach, period, cost):
    seconds = period / 10**9
    for now, fits in ((HORIZON_NS - reach(period), True), (HORIZON_NS - reach(period) + 1, False)):
        rig = CORE.make(now)
        for attempt in range(2):  # with no entry, and with one
            if fits:
                verdict = call(rig.store, method, limit=limit, seconds=seconds, cost=cost, **options)
                assert attempt or (verdict >= 0) == (cost < 2)
            else:
                with pytest.raises(ValueError, match="invalid expire time: seconds="):
                    call(rig.store, method, limit=limit, seconds=seconds, cost=cost, **options)
                assert len(rig.store) == 0
                break
        # A limit of 0 needs no horizon.
        assert call(rig.store, method, limit=0, seconds=seconds, cost=1) == NEVER


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("period", [FAR + 1, 2**53, INT64_MAX, 1e10, 1e300, TIMEDELTA(days=999_999_999), FAR])
def test_period_past_the_horizon_raises_valueerror(method, period):
    if period == FAR and method != "sliding_window":  # 292 years ahead of 0 is just within
        assert call(CORE.make().store, method, seconds=period) == 4
        period = FAR + 0.9
    for cost in (0, 1, 6):
        raises(ValueError, "invalid expire time: seconds=", method, seconds=period, cost=cost)


def test_gcra_horizon_does_not_wrap_with_a_huge_burst():
    """burst x period / limit beyond 64 bits, and beyond 128."""
    for limit, period, burst in ((1, 1, INT64_MAX), (1, 2**32, 2**62), (3, 2**33, 2**63 - 1), (2, FAR, 2**63 - 1)):
        raises(ValueError, "invalid expire time: seconds=", "gcra", limit=limit, seconds=period, burst=burst)
    store = CORE.make().store
    assert store.gcra("k", 1, 1e-9, burst=INT64_MAX - 1) == INT64_MAX - 2
    assert store.gcra("k", 1, 1e-9, INT64_MAX - 2, burst=INT64_MAX - 1) == 0
    assert store.gcra("k", 1, 1e-9, INT64_MAX - 1, burst=INT64_MAX - 1) == -(INT64_MAX - 1)


def test_sliding_window_limit_is_at_most_2_to_the_31_less_1():
    for limit in (2**31, 2**32, 2**32 + 1, INT64_MAX):
        raises(ValueError, f"limit={limit} .*allowed: at most 2147483647", "sliding_window", limit=limit)
    store = CORE.make().store
    assert store.sliding_window("k", 2**31 - 1, 60, 2**31 - 1) == 0
    assert store.sliding_window("k", 2**31 - 1, 60, 2**31) == store.sliding_window("k", 2**31 - 1, 60, 2**62) == NEVER


@pytest.mark.parametrize("method", CALLS)
def test_first_argument_from_the_left_is_named_then_signs_then_ranges(method):
    bad = {"key": None, "limit": "x", "seconds": "x", "cost": "x"} | ({"burst": "x"} if method == "gcra" else {})
    names = list(bad)
    for number, name in enumerate(names):
        chosen = {later: bad[later] for later in names[number:]}
        message = raises(TypeError, name, method, **chosen)
        assert message.startswith("key must be") or f": {name}=" in message
    # Types of all before signs; signs before ranges.
    raises(TypeError, ": cost=", method, limit=-1, seconds=-1, cost="x")
    raises(ValueError, "^limit=-1", method, limit=-1, seconds=-1, cost=-1)
    raises(ValueError, "^seconds=-1", method, seconds=-1, cost=-1)
    raises(ValueError, "^cost=-1", method, seconds=FAR + 1, cost=-1)
    if method == "gcra":
        raises(ValueError, "^burst=0", method, seconds=FAR + 1, burst=0)


@pytest.mark.parametrize("method", CALLS)
def test_bad_arguments_are_told_before_the_kind_or_never(method):
    """Arguments first, then the horizon; the entry's kind and NEVER come after."""
    store = CORE.make().store
    (store.gcra if method != "gcra" else store.sliding_window)("k", 5, 60)
    for arguments, error in (
        ({"limit": -1}, ValueError),
        ({"seconds": "x"}, TypeError),
        ({"seconds": 10**10}, ValueError),
    ):
        for cost in (0, 1, 6):
            with pytest.raises(error, match="limit=|seconds=") as caught:
                call(store, method, cost=cost, **arguments)
            assert not isinstance(caught.value, goblin.WrongTypeError)


@pytest.mark.parametrize("method", CALLS)
def test_keys_are_those_of_every_command(method):
    rig = CORE.make()
    for key in (None, 5, ("a",), bytearray(b"a"), True):
        raises(TypeError, "key must be str or bytes", method, key=key)
    raises(ValueError, "key is too long: 65536 bytes", method, key="k" * 65_536)
    with pytest.raises(UnicodeEncodeError):
        call(rig.store, method, key="\ud800")
    for key in ("", "a\0b", "k" * 65_535, "ä", b"\xff"):
        assert call(rig.store, method, key=key) == 4
    assert call(rig.store, method, key="ä".encode()) == 3


@pytest.mark.parametrize("method", CALLS)
def test_call_shape_surplus_and_unknown_arguments_raise_typeerror(method):
    store = CORE.make().store
    bound = getattr(store, method)
    for args, kwargs in ((("k",), {}), (("k", 5), {}), (("k", 5, 60, 1, 3), {}), (("k", 5, 60), {"bogus": 1})):
        with pytest.raises(TypeError):
            bound(*args, **kwargs)
    assert bound(key="k", limit=5, seconds=60, cost=2) == 3
    if method != "gcra":
        with pytest.raises(TypeError):
            bound("k", 5, 60, burst=3)
    else:
        assert store.gcra("b", 5, 60, burst=None) == 4


def test_never_is_the_smallest_int64():
    assert goblin.NEVER == NEVER == -(2**63) and type(goblin.NEVER) is int


@pytest.mark.parametrize(
    ("stamp", "error", "says"),
    [
        ((b"k", None, "x", None, (1, 1)), TypeError, "stamp='x'"),
        ((b"k", None, 1, None, (1, 2**63)), OverflowError, "stamp=9223372036854775808"),
        ((7, None, 1, None, (1, 1)), TypeError, "key must be str or bytes, not int"),
    ],
)
def test_unreserve_of_what_is_no_stamp_names_it(stamp, error, says):
    with pytest.raises(error, match=says):
        goblin.Counters().unreserve((stamp,))
