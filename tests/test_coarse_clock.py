"""The coarse clock may serve an admission far from the deadline, and nothing else; docs/semantics.md, "Time"."""

import random
import subprocess
import sys

import pytest

import goblin
from goblin import _core
from scale import SEED, rounds

MS = 10**6
MARGIN_NS = 100 * MS
SECOND = 10**9


def twin(lag_ns, now_ns=0):
    """(store, its clock): by a clock whose coarse reading is so far behind; None: exact."""
    clock = goblin.ManualClock(now_ns, coarse_lag_ns=lag_ns)
    return goblin.Counters(clock=clock), clock


def reply(call, *args):
    try:
        return call(*args)
    except Exception as error:
        return type(error), str(error)


# Calls that take the shortcut where they may, and some that look exactly, which is not to change what the others do.
CALLS = [
    lambda s, key, n: s.increx(key, n % 3),
    lambda s, key, n: s.pincrex(key, n % 400),
    lambda s, key, n: s.incrbound(key, n % 5 - 1, 8),
    lambda s, key, n: s.incrbound(key, 1, 6, seconds=n % 3),
    lambda s, key, n: s.incr(key, n % 7 - 3),
    lambda s, key, n: s.decr(key, 1, px=n % 300 + 1) if n % 4 == 0 else s.decr(key),
    lambda s, key, n: s.decrpos(key),
    lambda s, key, n: s.get(key),
    lambda s, key, n: key in s,
    lambda s, key, n: s[key],
    lambda s, key, n: s.fixed_window(key, 5, 0.2, n % 3),
    lambda s, key, n: s.gcra(key + "!", 5, 0.5),
    lambda s, key, n: s.sliding_window(key + "!" if n % 2 else key, 5, 0.3),
    lambda s, key, n: goblin.RateLimiter("4 per 250ms", store=s).allow(key),
    lambda s, key, n: goblin.RateLimiter("4 per 250ms", store=s).hit(key),
    lambda s, key, n: s.pexpire(key, n % 500),
    lambda s, key, n: s.pttl(key),
    lambda s, key, n: s.persist(key),
    lambda s, key, n: s.delete(key),
    lambda s, key, n: s.incr(key + "!"),
    lambda s, key, n: s.get(key + "!"),
]


@pytest.mark.parametrize("lag_ns", [0, 1, 4 * MS, 50 * MS, MARGIN_NS - 1, MARGIN_NS])
def test_lag_inside_the_margin_gives_the_results_of_the_exact_clock(lag_ns):
    """Random programs whose time stays close to deadlines, also to the very nanosecond."""
    draw = random.Random(f"{SEED} {lag_ns}")
    exact, exact_clock = twin(None)
    coarse, coarse_clock = twin(lag_ns)
    keys = ["a", "b", "c"]
    for _ in rounds(20_000, soak=20_000_000, least=4_000):
        call, key, n = draw.choice(CALLS), draw.choice(keys), draw.randrange(1_000)
        assert reply(call, exact, key, n) == reply(call, coarse, key, n), f"GOBLIN_SEED={SEED}"
        left_ms = exact.pttl(key) if draw.random() < 0.2 else -1
        step_ns = draw.choice([0, 0, 1, MS, 7 * MS, 33 * MS])
        if left_ms > 0:  # to a nanosecond before a deadline, to it, past it, or to the edge of the margin before it
            step_ns = max(0, left_ms * MS - draw.choice([1, 0, -1, MARGIN_NS, MARGIN_NS + 1, MARGIN_NS - 1]))
        exact_clock.advance_ns(step_ns)
        coarse_clock.advance_ns(step_ns)
    for store in (exact, coarse):
        store.sweep()
        store._check()
    assert dict(exact.items()) == dict(coarse.items())
    assert [exact.pttl(key) for key in keys] == [coarse.pttl(key) for key in keys]


@pytest.mark.parametrize("lag_ms", [150, 1_000, 30_000])
def test_lag_past_the_margin_notices_an_expiry_late_by_no_more_than_the_lag_and_never_early(lag_ms):
    store, clock = twin(lag_ms * MS)
    store.increx("k", 60)
    clock.advance_ns(60 * SECOND - 1)
    assert store.increx("k", 60) == 2
    clock.advance_ns(lag_ms * MS - MARGIN_NS)
    assert store.increx("k", 60) == 3  # late, and no entry is ever armed by that
    clock.advance_ns(MARGIN_NS)
    assert store.increx("k", 60) == 1 and store.pttl("k") == 60_000


def test_lag_past_the_margin_changes_no_refusal():
    store, clock = twin(3_600 * SECOND)
    limiter = goblin.RateLimiter("1/minute", store=store)
    assert store.fixed_window("window", 1, 60) == 0 and store.incrbound("bound", 1, 1, seconds=60) == 1
    assert limiter.allow("ann")
    store.set("none", 0, ex=60)
    clock.advance_ns(60 * SECOND - 1)
    assert store.fixed_window("window", 1, 60) == -1 and store.incrbound("bound", 1, 1, seconds=60) == -1
    assert not limiter.allow("ann") and store.decrpos("none") == -1
    clock.advance_ns(1)
    assert store.fixed_window("window", 1, 60) == 0 and store.incrbound("bound", 1, 1, seconds=60) == 1
    assert limiter.allow("ann") and "none" not in store


def test_lag_past_the_margin_changes_no_error():
    store, clock = twin(3_600 * SECOND)
    store.set("top", 2**63 - 1, ex=60)
    store.gcra("limited", 5, 60)
    clock.advance(60)
    assert store.increx("top", 60) == 1
    assert store.get("limited") is None


def test_expiry_once_read_exactly_is_seen_by_every_later_call():
    store, clock = twin(3_600 * SECOND)
    store.set("k", 5, ex=60)
    clock.advance(60)
    assert store.incr("k") == 6  # by the coarse clock, an hour late
    assert store.ttl("k") == -2  # reads the exact clock
    assert store.get("k") is None and "k" not in store and store.incr("k") == 1


def test_arming_reads_the_exact_clock():
    store, clock = twin(3_600 * SECOND)
    store.set("k", 0)
    clock.advance(100)
    assert store.increx("k", 60) == 1 and store.pttl("k") == 60_000
    store.set("quota", 1)
    assert store.incrbound("quota", 1, 5, seconds=60) == 2 and store.pttl("quota") == 60_000
    store.set("plain", 1)
    assert store.incr("plain", ex=60) == 2 and store.pttl("plain") == 60_000
    store.set("window", 1)
    assert store.fixed_window("window", 5, 60) == 3 and store.pttl("window") == 60_000


@pytest.mark.parametrize("lag_ns", [0, MARGIN_NS, 2**63 - 1])
def test_last_nanosecond_of_the_clock_is_reached(lag_ns):
    store, clock = twin(lag_ns, 2**63 - 2 - 60 * SECOND)
    assert store.increx("k", 60) == 1
    store.set("lasting", 1)
    clock.advance_ns(60 * SECOND - 1)
    assert store.pttl("k") == 1 and store.incr("k") == 2 and store.incr("lasting") == 2
    clock.advance_ns(1)
    assert store.pttl("k") == -2 and store.get("k") is None and store.incr("lasting") == 3
    with pytest.raises(ValueError, match="invalid expire time"):
        store.increx("lasting", 1)


# The process gives the shortcut up

PROGRAM = """
import goblin
from goblin import _core
store = goblin.Counters()
store.set("k", 1, ex=3_600)
before = _core._system_margin_ns()
store._pretend_coarse_lag({lag_ms} * 10**6)
for _ in range(100): store.incr("k")
between = _core._system_margin_ns()
assert store.incr("absent") == 1
print(before, between, _core._system_margin_ns(), goblin.Counters().incr("k"))
"""


def margins(lag_ms):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(lag_ms=lag_ms)], capture_output=True, text=True, check=True, timeout=120
    )
    return [int(word) for word in done.stdout.split()]


needs_coarse_clock = pytest.mark.skipif(
    _core._system_margin_ns() == 0, reason="no coarse clock here, in a portable build, or one that was given up"
)


@needs_coarse_clock
def test_system_clock_that_lags_by_half_the_margin_is_given_up_at_the_next_exact_reading():
    before, between, after, reply = margins(lag_ms=100)
    assert before == between >= MARGIN_NS and after == 0 and reply == 1


@needs_coarse_clock
def test_system_clock_that_lags_a_little_is_kept():
    before, between, after, reply = margins(lag_ms=1)
    assert before == between == after >= MARGIN_NS and reply == 1


# The clock of tests


def test_manual_clock_without_a_lag_has_no_coarse_reading():
    assert goblin.ManualClock().coarse_lag_ns is None
    assert goblin.ManualClock(5, coarse_lag_ns=7).coarse_lag_ns == 7


@pytest.mark.parametrize(
    ("lag_ns", "error", "message"),
    [
        (-1, ValueError, r"coarse_lag_ns=-1 \(allowed: at least 0"),
        (1.5, TypeError, "value is not an integer or out of range: coarse_lag_ns=1.5"),
        (2**63, OverflowError, "coarse_lag_ns="),
    ],
)
def test_manual_clock_bad_lag_is_refused(lag_ns, error, message):
    with pytest.raises(error, match=message):
        goblin.ManualClock(coarse_lag_ns=lag_ns)


def test_manual_clock_keeps_its_lag():
    clock = goblin.ManualClock(coarse_lag_ns=7)
    with pytest.raises(ValueError, match="a clock keeps its coarse_lag_ns"):
        clock.__init__()
    clock.__init__(9, coarse_lag_ns=7)
    assert clock.now_ns == 9 and clock.coarse_lag_ns == 7
