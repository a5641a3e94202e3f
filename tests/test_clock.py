"""The manual clock, and what the store makes of a clock: the latest reading counts, and expiry is at the deadline."""

import datetime
import enum
import random
import time
from decimal import Decimal
from fractions import Fraction

import pytest

from catalogue import ADDERS, BY_KEY, INT64_MAX
from engines import CORE
from rows import state

pytestmark = pytest.mark.needs("manual_clock", "nanoseconds")

LAST_DEADLINE = 2**63 - 2


@pytest.fixture
def clock(engine):
    return engine.clock_type()


# ManualClock itself


def test_manual_clock_starts_at_zero_or_where_told(engine):
    assert engine.clock_type().now_ns == 0
    assert engine.clock_type(5).now_ns == engine.clock_type(now_ns=5).now_ns == 5
    assert engine.clock_type(INT64_MAX).now_ns == INT64_MAX


@pytest.mark.parametrize("start", [-1, 2**63, -(2**63), 2**80])
def test_manual_clock_start_outside_its_range_raises_overflowerror(start, engine):
    with pytest.raises(OverflowError):
        engine.clock_type(start)


@pytest.mark.parametrize("start", [1.5, "5", None, True, Decimal(1)])
def test_manual_clock_start_of_another_type_raises_typeerror(start, engine):
    with pytest.raises(TypeError):
        engine.clock_type(start)


class Two(enum.IntEnum):
    VALUE = 2


@pytest.mark.parametrize(
    ("seconds", "ns"),
    [
        (0, 0),
        (1, 10**9),
        (Two.VALUE, 2 * 10**9),
        (9_223_372_036, 9_223_372_036 * 10**9),
        (0.37, 370_000_000),
        (0.1, 100_000_000),
        (1e-9, 1),
        (1.4e-9, 1),
        (1.6e-9, 2),
        (0.4e-9, 0),
        (59.999, 59_999_000_000),
        (1234567.123456789, 1_234_567_123_456_789),
        (4503599627.370497, 4_503_599_627_370_496_750),  # a double's product would be off here
        (datetime.timedelta(milliseconds=100), 100_000_000),
        (datetime.timedelta(microseconds=1), 1_000),
        (datetime.timedelta(days=106_751), 106_751 * 86_400 * 10**9),
    ],
)
def test_manual_clock_advance_moves_to_the_nearest_nanosecond(seconds, ns, clock):
    clock.advance(seconds)
    assert clock.now_ns == ns
    back = -seconds
    clock.advance(back)
    assert clock.now_ns == 0


def test_manual_clock_any_float_is_taken_exactly(engine):
    """The nearest nanosecond of the exact binary value, as Python's fractions compute it."""
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    for _ in range(2_000):
        sizes = [rng.random(), rng.uniform(0, 9e9), rng.randrange(2**40) / 2**10, 10 ** rng.uniform(-12, 9)]
        seconds = rng.choice(sizes)
        clock = engine.clock_type()
        clock.advance(seconds)
        assert clock.now_ns == round(Fraction(seconds) * 10**9), (seed, seconds)


def test_manual_clock_many_small_steps_do_not_drift(clock):
    for _ in range(10_000):
        clock.advance(0.37)
    assert clock.now_ns == 3_700 * 10**9


@pytest.mark.parametrize("ns", [0, 1, 10**18, Two.VALUE])
def test_manual_clock_advance_ns_is_exact(ns, clock):
    clock.advance_ns(ns)
    assert clock.now_ns == ns
    clock.advance_ns(-ns)
    assert clock.now_ns == 0


@pytest.mark.parametrize(
    "amount",
    [-1, -0.001, -1e-9, datetime.timedelta(microseconds=-1), 2**63, 9_223_372_037, 1e10, 1e300, -1e300, -(2**70),
     datetime.timedelta.max, datetime.timedelta.min, 9_223_372_036],
)  # fmt: skip
def test_manual_clock_leaving_the_range_raises_overflowerror_and_stands(amount, engine):
    top = amount == 9_223_372_036
    clock = engine.clock_type(10**9 if top else 0)
    with pytest.raises(OverflowError):
        clock.advance(amount)
    assert clock.now_ns == (10**9 if top else 0)


@pytest.mark.parametrize("ns", [-6, 2**63 - 5, 2**63, -(2**63), 2**64, -(2**64)])
def test_manual_clock_advance_ns_leaving_the_range_raises_overflowerror(ns, engine):
    clock = engine.clock_type(5)
    with pytest.raises(OverflowError):
        clock.advance_ns(ns)
    assert clock.now_ns == 5
    clock.advance_ns(INT64_MAX - 5)
    assert clock.now_ns == INT64_MAX


@pytest.mark.parametrize("amount", ["1", b"1", None, True, Decimal("0.5"), [1], object()], ids=repr)
def test_manual_clock_advance_by_another_type_raises_typeerror(amount, clock):
    with pytest.raises(TypeError):
        clock.advance(amount)
    with pytest.raises(TypeError):
        clock.advance_ns(amount)
    assert clock.now_ns == 0


def test_manual_clock_advance_ns_takes_no_fraction(clock):
    for amount in (1.0, 1.5, datetime.timedelta(seconds=1)):
        with pytest.raises(TypeError):
            clock.advance_ns(amount)


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), float("-inf")])
def test_manual_clock_advance_by_no_finite_number_raises_and_stands(amount, clock):
    with pytest.raises((ValueError, OverflowError)):
        clock.advance(amount)
    assert clock.now_ns == 0


def test_manual_clock_now_ns_cannot_be_set(clock):
    with pytest.raises(AttributeError):
        clock.now_ns = 5


@pytest.mark.parametrize("bad", [5, 1.5, "clock", time.monotonic, time.monotonic_ns, object(), object], ids=repr)
def test_clock_of_another_type_raises_typeerror(bad, engine):
    with pytest.raises(TypeError, match="clock"):
        engine.store_type(clock=bad)


def test_clock_class_instead_of_an_instance_raises_typeerror(engine):
    with pytest.raises(TypeError, match="clock"):
        engine.store_type(clock=engine.clock_type)


def test_clock_subclass_is_read_without_running_its_code(engine):
    class Mine(engine.clock_type):
        @property
        def now_ns(self):
            raise AssertionError("the store ran Python code to read a clock")

    clock = Mine()
    store = engine.store_type(clock=clock)
    store.increx("k", 60)
    clock.advance(60)
    assert store.increx("k", 60) == 1


def test_clock_shared_by_two_stores_moves_both(engine, clock):
    one, two = engine.store_type(clock=clock), engine.store_type(clock=clock)
    one.increx("k", 60)
    two.increx("k", 30)
    clock.advance(30)
    assert one.ttl("k") == 30 and "k" not in two


def test_clock_is_kept_alive_by_its_store(engine):
    store = engine.store_type(clock=engine.clock_type(5))
    for _ in range(100):
        engine.clock_type(10**15)
    assert store.increx("k", 60) == 1 and store.ttl("k") == 60


# Expiry


@pytest.mark.parametrize("method", BY_KEY)
def test_expiry_every_method_takes_the_deadline_itself_as_expired(method, engine):
    """At the deadline each method behaves as if the key had never been; a nanosecond before, as if it were to stay."""
    call = BY_KEY[method]
    for left_ns in (1, 0):
        rig = engine.make(10**9)
        rig.store.set("k", 41, px=10)
        rig.advance_ns(10 * 10**6 - left_ns)
        other = engine.make(rig.clock.now_ns)
        if left_ns:
            other.store.set("k", 41)
        outcomes = []
        for store in (rig.store, other.store):
            try:
                outcomes.append(call(store, "k"))
            except KeyError as error:
                outcomes.append(error.args)
        if method in ("ttl", "pttl", "persist") and left_ns:
            assert outcomes[0] != outcomes[1]  # a TTL is running, if only for a nanosecond
        else:
            assert outcomes[0] == outcomes[1]
            assert rig.store.get("k") == other.store.get("k")
        if left_ns == 0:
            assert state(rig.store) == state(other.store)


@pytest.mark.parametrize("method", BY_KEY)
def test_expiry_whether_memory_was_reclaimed_makes_no_difference(method, engine):
    results = []
    for sweep_first in (False, True):
        rig = engine.make()
        rig.store.set("k", 41, ex=1)
        rig.advance(2)
        if sweep_first:
            assert rig.store.sweep() == 1
        try:
            results.append((BY_KEY[method](rig.store, "k"), state(rig.store)))
        except KeyError:
            results.append((KeyError, state(rig.store)))
    assert results[0] == results[1]


def test_expiry_same_instant_has_one_verdict_for_all_readers(engine):
    for left_ns in (2, 1, 0):
        rig = engine.make()
        rig.store.increx("k", 60)
        rig.advance_ns(60 * 10**9 - left_ns)
        alive = left_ns > 0
        assert (rig.store.get("k") is not None) == alive
        assert ("k" in rig.store) == alive
        assert rig.store.exists("k") == alive
        assert (rig.store.pttl("k") > 0) == alive
        assert (rig.store.ttl("k") >= 0) == alive
        assert list(rig.store) == ["k"] * alive
        assert list(rig.store.items()) == [("k", 1)] * alive
        assert rig.store.increx("k", 60) == 1 + alive


# A clock set back


def test_clock_set_back_stands_still_for_the_store(engine):
    rig = engine.make(100 * 10**9)
    rig.store.set("k", 1, ex=10)
    rig.advance(5)
    assert rig.store.pttl("k") == 5_000
    rig.advance(-50)
    assert rig.store.pttl("k") == 5_000
    assert rig.store.increx("new", 10) == 1 and rig.store.pttl("new") == 10_000
    rig.advance(50)
    assert rig.store.pttl("k") == 5_000 and rig.store.pttl("new") == 10_000
    rig.advance(5)
    assert state(rig.store) == {b"new": (1, 5_000)}


def test_clock_set_back_does_not_revive_an_expired_key(engine):
    rig = engine.make(100 * 10**9)
    rig.store.set("k", 1, ex=10)
    rig.advance(10)
    assert rig.store.get("k") is None
    rig.advance(-10)
    assert rig.store.get("k") is None and rig.store.ttl("k") == -2
    assert rig.store.increx("k", 60) == 1


def test_clock_set_back_does_not_revive_an_expired_key_that_nobody_touched(engine):
    rig = engine.make(100 * 10**9)
    rig.store.set("k", 1, ex=10)
    rig.advance(10)
    assert rig.store.get("other") is None  # the reading alone counts
    rig.advance(-10)
    assert rig.store.get("k") is None


def test_clock_set_back_before_any_reading_is_not_noticed(engine):
    rig = engine.make(100 * 10**9)
    rig.store.set("k", 1, ex=10)
    rig.advance(50)
    rig.advance(-50)
    assert rig.store.pttl("k") == 10_000


@pytest.mark.parametrize("method", ADDERS)
def test_clock_set_back_windows_do_not_get_longer(method, engine):
    rig = engine.make(1_000 * 10**9)
    for _ in range(10):
        ADDERS[method](rig.store, "k")
        rig.advance(-100)
    assert rig.store.pttl("k") in (-1, 50_000)
    rig.advance(1_050)
    assert rig.store.pttl("k") in (-1, -2)


# The ends of time


def test_clock_frozen_keeps_everything_in_one_instant(store):
    assert [store.increx("k", 1) for _ in range(10_000)] == list(range(1, 10_001))
    assert store.pttl("k") == 1_000


def test_deadline_of_292_years_is_taken_and_one_nanosecond_more_refused(engine):
    milliseconds, rest_ns = divmod(LAST_DEADLINE, 10**6)
    rig = engine.make(rest_ns)  # so that a whole number of ms ends exactly at the last deadline
    assert rig.store.pincrex("k", milliseconds) == 1
    assert rig.store.pttl("k") == milliseconds
    with pytest.raises(ValueError, match=r"invalid expire time: milliseconds="):
        rig.store.pincrex("more", milliseconds + 1)
    rig.advance_ns(1)
    with pytest.raises(ValueError, match=r"invalid expire time: milliseconds="):
        rig.store.pincrex("later", milliseconds)
    assert state(rig.store) == {b"k": (1, milliseconds)}
    rig.advance_ns(LAST_DEADLINE - 1 - rig.clock.now_ns)
    assert rig.store.pttl("k") == 1
    rig.advance_ns(1)
    assert rig.store.get("k") is None


def test_clock_at_its_very_end_everything_still_works(engine):
    rig = engine.make(INT64_MAX)
    store = rig.store
    assert store.incr("plain") == 1 and store.get("plain") == 1 and store.pttl("plain") == -1
    for call in (
        lambda: store.increx("k", 1),
        lambda: store.pincrex("k", 1),
        lambda: store.set("k", 1, px=1),
        lambda: store.incr("k", ex=1),
        lambda: store.expire("plain", 1),
        lambda: store.incrbound("k", 1, 5, seconds=1),
    ):
        with pytest.raises(ValueError, match="invalid expire time"):
            call()
    assert store.expire("plain", -1) is True
    assert state(store) == {} and store.sweep() == 0


def test_clock_at_its_very_end_expires_deadlines_and_nothing_else(engine):
    rig = engine.make(10**9)
    rig.store.set("ttl", 1, ex=9_000_000_000)
    rig.store.set("ever", 1)
    rig.advance_ns(INT64_MAX - rig.clock.now_ns)
    assert list(rig.store) == ["ever"] and rig.store.pttl("ever") == -1
    assert rig.store.sweep() <= 1 and rig.store.get("ever") == 1


# The system's clock: without a manual one


@pytest.mark.needs("native")
def test_default_clock_is_monotonic_and_not_wall_time(engine, monkeypatch):
    store = engine.store_type()
    for fake in (lambda: 0.0, lambda: 4e9):
        monkeypatch.setattr(time, "time", fake)
        monkeypatch.setattr(time, "monotonic", fake)
        monkeypatch.setattr(time, "monotonic_ns", lambda: 0)
        store.increx("k", 3_600)
        assert 3_590 <= store.ttl("k") <= 3_600


@pytest.mark.needs("native")
def test_default_clock_moves_by_itself(engine):
    """A window of 1 ms ends: waiting for the event, not for a time. (A clock that stands would hang: see the guard.)"""
    store = engine.store_type()
    store.pincrex("k", 1)
    deadline = time.monotonic() + 30
    while "k" in store:
        assert time.monotonic() < deadline, "the store's clock does not move"


def test_core_is_tested_beside_the_model():
    assert CORE.capabilities >= {"native", "threads"}
