"""`Limit`: its grammar, its text, and that it is a value."""

import copy
import datetime
import math
import pickle
import random
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import goblin
from goblin import Limit
from limit_references import INT64_MAX

MINUTE, HOUR, DAY = 60, 3_600, 86_400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The grammar of the `limits` library
        ("10/minute", Limit(10, MINUTE)),
        ("5/second", Limit(5, 1)),
        ("100/day", Limit(100, DAY)),
        ("1000/hour", Limit(1_000, HOUR)),
        ("3/month", Limit(3, 30 * DAY)),
        ("3/year", Limit(3, 360 * DAY)),
        ("10 per 2 hours", Limit(10, 2 * HOUR)),
        ("10 per hour", Limit(10, HOUR)),
        ("10/2hours", Limit(10, 2 * HOUR)),
        ("10 / 2 hours", Limit(10, 2 * HOUR)),
        ("10/hours", Limit(10, HOUR)),
        ("1/2 hour", Limit(1, 2 * HOUR)),
        ("1 per MINUTE", Limit(1, MINUTE)),
        ("1/SECOND", Limit(1, 1)),
        ("  1  /  Second  ", Limit(1, 1)),
        ("1\tper\n2 days", Limit(1, 2 * DAY)),
        ("10per hour", Limit(10, HOUR)),
        ("100 per 7 days", Limit(100, 7 * DAY)),
        ("007/minute", Limit(7, MINUTE)),
        ("0/minute", Limit(0, MINUTE)),
        (f"{INT64_MAX}/second", Limit(INT64_MAX, 1)),
        # and what goblin adds
        ("5 per 500ms", Limit(5, 0.5)),
        ("5 per 500 ms", Limit(5, 0.5)),
        ("5/500ms", Limit(5, 0.5)),
        ("10/second burst 20", Limit(10, 1, burst=20)),
        ("10 per 2 seconds burst 1", Limit(10, 2, burst=1)),
        ("10/second BURST 10", Limit(10, 1)),
    ],
)
def test_parse_grammar(text, expected):
    assert Limit.parse(text) == expected
    assert Limit.parse_many(text) == (expected,)


MALFORMED = [
    "",
    " ",
    "10",
    "10/",
    "/minute",
    "minute",
    "10 minute",
    "10//minute",
    "10/fortnight",
    "10/min",
    "10/m",
    "ten/minute",
    "-1/minute",
    "+1/minute",
    "1.5/minute",
    "1e3/minute",
    "1_000/minute",
    "١/minute",
    "10/1.5 hours",
    "10/-1 hours",
    "10/minutess",
    "10/minute 5",
    "10/minute burst",
    "10/minute burst -1",
    "10/minute burst 1.5",
    "10/minuteburst5",
    "10/minute;",
    "10/minute;5/hour",
    "10/minute,5/hour",
    "10/minute\0",
    "10/ſecond",
    "1 per second per second",
    "x" * 10_000,
]
OUT_OF_RANGE = [
    "10/0 hours",
    "10/0ms",
    "10/minute burst 0",
    f"{2**63}/second",
    f"1/{2**63} seconds",
    f"1/{2**63 // 10**9 + 1} seconds",
    f"1/second burst {2**63}",
    "9" * 5_000 + "/second",  # more digits than int() reads
    "1/" + "9" * 5_000 + " seconds",
]


@pytest.mark.parametrize("text", MALFORMED + OUT_OF_RANGE)
def test_parse_malformed_raises_valueerror_that_shows_the_part_and_the_grammar(text):
    with pytest.raises(ValueError) as caught:
        Limit.parse(text)
    message = str(caught.value)
    assert text[:40] in message or repr(text[:40])[1:-1] in message
    assert "allowed:" in message and len(message) < 700
    if text in MALFORMED:
        assert "10/minute" in message and "hours" in message and "burst" in message  # the grammar, by example


@pytest.mark.parametrize("text", [None, 5, b"10/minute", 1.5, ["10/minute"], Limit(1, 1)])
def test_parse_of_another_type_raises_typeerror(text):
    with pytest.raises(TypeError, match=type(text).__name__):
        Limit.parse(text)
    with pytest.raises(TypeError, match=type(text).__name__):
        Limit.parse_many(text)


@pytest.mark.parametrize("text", ["10/second; 1000/hour", "10/second,1000/hour", "10 per second|1000 per hour"])
def test_parse_many_splits_by_semicolon_comma_or_bar(text):
    assert Limit.parse_many(text) == (Limit(10, 1), Limit(1_000, HOUR))


def test_parse_many_keeps_order_and_shows_the_part_that_is_wrong():
    assert Limit.parse_many("1/hour;2/day|3/second, 1/hour") == (
        Limit(1, HOUR),
        Limit(2, DAY),
        Limit(3, 1),
        Limit(1, HOUR),
    )
    for text in ("1/hour; 2/fortnight", "2/fortnight; 1/hour", "1/hour;;2/fortnight"):
        with pytest.raises(ValueError) as caught:
            Limit.parse_many(text)
        assert "fortnight" in str(caught.value) or "''" in str(caught.value)
        assert "1/hour" not in str(caught.value).split("(allowed")[0]
    for text in ("", ";", "1/hour;", ";1/hour", "1/hour;;2/day"):
        with pytest.raises(ValueError, match="allowed"):
            Limit.parse_many(text)


limits = st.builds(
    lambda amount, period_ns, burst: Limit.parse(
        f"{amount} per {period_ns}ns{'' if burst is None else f' burst {burst}'}"
    ),
    st.integers(0, INT64_MAX),
    st.integers(1, INT64_MAX) | st.sampled_from([10**9, MINUTE * 10**9, 30 * DAY * 10**9, 1_500 * 10**6, 10**3, 1]),
    st.none() | st.integers(1, INT64_MAX),
)


@settings(max_examples=300, deadline=None)
@given(limit=limits)
def test_text_of_any_limit_parses_back_to_an_equal_one(limit):
    assert Limit.parse(str(limit)) == limit
    assert hash(Limit.parse(str(limit))) == hash(limit)
    assert Limit.parse_many(f"{limit}; {limit}") == (limit, limit)
    assert eval(repr(limit)) == limit
    assert pickle.loads(pickle.dumps(limit)) == copy.copy(limit) == copy.deepcopy(limit) == limit


@pytest.mark.parametrize(
    "limit",
    [Limit(10, MINUTE), Limit(0, 1), Limit(10, None), Limit(3, 0.5), Limit(1, 1e-9), Limit(5, 1, burst=9)]
    + [Limit(5, datetime.timedelta(days=30)), Limit(7, 0.1 + 0.2)],
)
def test_text_parses_back_also_without_an_end(limit):
    assert Limit.parse(str(limit)) == limit and eval(repr(limit)) == limit


def test_text_is_what_people_write():
    assert str(Limit(10, 60)) == "10/minute"
    assert str(Limit(10, 7_200)) == "10 per 2 hours"
    assert str(Limit(5, 0.5)) == "5 per 500ms"
    assert str(Limit(5, 1, burst=20)) == "5/second burst 20"
    assert str(Limit(5, 1, burst=5)) == "5/second"


def test_limit_is_a_value():
    one, other = Limit(10, 60), Limit.parse("10/minute")
    assert one == other and hash(one) == hash(other) and not one != other
    assert Limit(10, 60, burst=10) == one and Limit(10, 60, burst=10).burst is None
    assert Limit(10, 60) == Limit(10, 60.0) == Limit(10, datetime.timedelta(minutes=1))
    different = [one, Limit(11, 60), Limit(10, 61), Limit(10, None), Limit(10, 60, burst=9), Limit(10, 60.000000001)]
    assert len(set(different)) == len(different)
    for thing in ((10, 60 * 10**9, None), "10/minute", 10, None):
        assert one != thing
    assert {one: 1}[other] == 1


def test_limit_is_immutable():
    limit = Limit(10, 60)
    for name in ("amount", "period_ns", "burst", "seconds", "something"):
        with pytest.raises(AttributeError):
            setattr(limit, name, 5)
        with pytest.raises(AttributeError):
            delattr(limit, name)
    assert not hasattr(limit, "__dict__")
    assert limit == Limit(10, 60)


def test_limit_shows_its_parts():
    limit = Limit(10, 0.5, burst=3)
    assert (limit.amount, limit.seconds, limit.period_ns, limit.burst) == (10, 0.5, 500_000_000, 3)
    assert Limit(10, 60).seconds == 60 and Limit(10, None).seconds is None


@pytest.mark.parametrize(
    ("arguments", "error", "pattern"),
    [
        ((-1, 60), ValueError, "amount=-1 .*at least 0"),
        ((5, 0), ValueError, "seconds=0"),
        ((5, -1), ValueError, "seconds=-1"),
        ((5, 4e-10), ValueError, "seconds=4e-10"),
        ((5, math.nan), ValueError, "seconds=nan"),
        ((5, math.inf), ValueError, "seconds=inf"),
        ((5, -math.inf), ValueError, "seconds=-inf"),
        ((5, datetime.timedelta(0)), ValueError, "seconds="),
        ((5, 10**10), ValueError, "seconds=10000000000"),
        ((5, 1e300), ValueError, r"seconds=1e\+300"),
        ((5, datetime.timedelta.max), ValueError, "seconds="),
        ((2**63, 60), OverflowError, "amount="),
        ((5.0, 60), TypeError, "amount=5.0"),
        ((True, 60), TypeError, "amount=True"),
        (("5", 60), TypeError, "amount='5'"),
        ((None, 60), TypeError, "amount=None"),
        ((5, "60"), TypeError, "seconds='60'"),
        ((5, True), TypeError, "seconds=True"),
        ((5, Decimal(60)), TypeError, "seconds=<Decimal>"),
        ((5, Fraction(60)), TypeError, "seconds=<Fraction>"),
    ],
)
def test_limit_of_bad_arguments_raises(arguments, error, pattern):
    with pytest.raises(error, match=pattern):
        Limit(*arguments)


@pytest.mark.parametrize(("burst", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_limit_of_a_bad_burst_raises(burst, error):
    with pytest.raises(error, match=f"burst={burst}"):
        Limit(5, 60, burst=burst)


def test_limit_periods_are_the_cores_to_the_nanosecond():
    """The same argument means the same period in `Limit` and in `Counters.gcra`."""
    rng = random.Random(7)
    periods = [rng.uniform(1e-9, 10) for _ in range(200)] + [
        0.1,
        0.5e-9 + 1e-25,
        1.5e-9,
        2.5e-9,
        3.5e-9,
        1e-9,
        123_456.789,
    ]
    for seconds in periods:
        store = goblin.Counters(clock=goblin.ManualClock())
        store.gcra("k", 1, seconds)
        assert -store.gcra("k", 1, seconds) == Limit(1, seconds).period_ns, seconds
