"""`acquire` and `acquire_async`: how long they wait, and how they give up.

Nothing sleeps: a ManualClock moves by the wait, or `sleep=` is a fake, in which others may act as other threads would,
for no lock is held. Waiters side by side are in test_limiter_waiters.py.
"""

import asyncio
import datetime
import itertools
import math
import threading
import time

import pytest

import goblin
from engines import CORE
from goblin import Limit, RateLimiter

SECOND = 10**9
ALGORITHMS = ["fixed-window", "sliding-window", "gcra"]


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return request.param


@pytest.fixture
def rig():
    return CORE.make()


@pytest.fixture(autouse=True)
def no_real_sleep(monkeypatch):
    def never(seconds):
        raise AssertionError(f"a real sleep of {seconds} s")

    monkeypatch.setattr(time, "sleep", never)


class Sleep:
    """A fake sleep that notes what it is asked for and moves the clock by it, or by `moves(seconds)`."""

    def __init__(self, rig, moves=lambda seconds: seconds):
        self.rig, self.moves, self.asked = rig, moves, []

    def __call__(self, seconds):
        assert type(seconds) is float and seconds > 0
        self.asked.append(seconds)
        moved = self.moves(seconds)
        if moved is not None:
            self.rig.clock.advance(moved)


def limiter_on(rig, limits, algorithm, **options):
    return RateLimiter(limits, algorithm=algorithm, store=rig.store, **options)


# On the system's clock


class Woken(Exception):
    """Ends a sleep that would take an hour."""


def test_acquire_on_the_systems_clock_sleeps_in_real_time(monkeypatch, algorithm):
    asked = []

    def sleep(seconds):
        asked.append(seconds)
        raise Woken

    monkeypatch.setattr(time, "sleep", sleep)
    limiter = RateLimiter("1/hour", algorithm=algorithm, store=goblin.Counters())
    assert limiter.acquire("k") and asked == []
    with pytest.raises(Woken):
        limiter.acquire("k")
    assert 0 < asked.pop() <= {"sliding-window": 7200}.get(algorithm, 3600) and asked == []


def test_acquire_async_on_the_systems_clock_sleeps_on_the_loop(monkeypatch, algorithm):
    asked = []

    async def sleep(seconds):
        asked.append(seconds)
        raise Woken

    async def twice():
        assert await limiter.acquire_async("k") and asked == []
        monkeypatch.setattr(asyncio, "sleep", sleep)
        await limiter.acquire_async("k")

    limiter = RateLimiter("1/hour", algorithm=algorithm, store=goblin.Counters())
    with pytest.raises(Woken):
        asyncio.run(twice())
    assert 0 < asked.pop() <= {"sliding-window": 7200}.get(algorithm, 3600) and asked == []


# One waiter


def test_acquire_that_need_not_wait_is_a_hit(algorithm, rig):
    sleep = Sleep(rig)
    limiter = limiter_on(rig, "3/minute", algorithm, sleep=sleep)
    twin = limiter_on(CORE.make(), "3/minute", algorithm)
    for cost in (1, 2, 0):
        assert limiter.acquire("k", cost) == twin.hit("k", cost)
    assert sleep.asked == [] and rig.clock.now_ns == 0


def test_acquire_sleeps_exactly_what_the_refusal_said(algorithm, rig):
    sleep = Sleep(rig)
    limiter = limiter_on(rig, "2/minute", algorithm, sleep=sleep)
    limiter.hit("k", 2)
    told = limiter.peek("k").retry_after
    decision = limiter.acquire("k")
    assert decision.allowed and decision.retry_after == 0.0 and sleep.asked == [told]
    assert rig.clock.now_ns == round(told * SECOND)


def test_acquire_on_a_manual_clock_advances_it_by_the_wait(algorithm, rig):
    limiter = limiter_on(rig, "1/minute", algorithm)
    assert all(limiter.acquire("k") for _ in range(5))
    assert rig.clock.now_ns == 4 * 60 * SECOND


def test_acquire_decision_is_what_a_hit_at_that_instant_says(algorithm):
    """The limit that decided, what remains, and when it is whole again, for one limit and for several."""
    for text in ("2/minute", "2/second; 5/minute", "5/minute; 2/second", "1/second; 1/second; 3 per 2 seconds"):
        waiting, trying = CORE.make(), CORE.make()
        limiter, twin = (limiter_on(each, text, algorithm) for each in (waiting, trying))
        for cost in (1, 1, 2, 1, 1, 2, 1):
            if any(limit.amount < cost for limit in limiter.limits):
                continue
            decision = limiter.acquire("k", cost)
            trying.advance_ns(waiting.clock.now_ns - trying.clock.now_ns)
            assert decision == twin.hit("k", cost)
            assert decision.headers() == twin.peek("k", 0).headers() or decision.cost


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_acquire_goes_on_sleeping_when_woken_early(share, algorithm, rig):
    sleep = Sleep(rig, lambda seconds: max(seconds * share, 1e-6))
    limiter = limiter_on(rig, "10/second", algorithm, sleep=sleep)
    assert all(limiter.acquire("k") for _ in range(25))
    assert len(sleep.asked) > 5 and SECOND * 14 // 10 <= rig.clock.now_ns <= 3 * SECOND


def test_acquire_is_never_too_early_and_a_late_waking_loses_no_one_else_time(rig):
    """gcra: who oversleeps counts at the instant he was told; the next is told the one after it all the same."""
    late = itertools.cycle([0, 3, 7])
    sleep = Sleep(rig, lambda seconds: seconds + next(late))
    limiter = limiter_on(rig, Limit(1, 10), "gcra", sleep=sleep)
    for _ in range(10):
        limiter.acquire("k")
    assert rig.clock.now_ns < 10 * 10 * SECOND


@pytest.mark.parametrize("cost", [4, 100, 2**62])
def test_acquire_of_what_never_passes_is_refused_at_once(cost, algorithm, rig):
    limiter = limiter_on(rig, "3/minute", algorithm, sleep=Sleep(rig, lambda seconds: pytest.fail("it sleeps")))
    for timeout in (None, 0, 1, math.inf):
        decision = limiter.acquire("k", cost, timeout=timeout)
        assert not decision and decision.retry_after == math.inf
    assert not limiter_on(rig, "0/minute", algorithm).acquire("k")
    assert len(rig.store) == 0


def test_acquire_of_a_count_without_an_end_is_refused_at_once(rig):
    limiter = limiter_on(rig, Limit(2, None), "fixed-window")
    assert limiter.acquire("k", 2) and not limiter.acquire("k")
    assert limiter.acquire("k", timeout=10**6).retry_after == math.inf and rig.clock.now_ns == 0


@pytest.mark.parametrize(
    ("timeout", "passes"),
    [
        (None, True),
        (math.inf, True),
        (61, True),
        (60, True),  # it would end at the timeout, not after it
        (60.0, True),
        (datetime.timedelta(minutes=1), True),
        (59.999999999, False),
        (datetime.timedelta(seconds=59), False),
        (1, False),
        (0, False),
        (0.0, False),
    ],
)
def test_acquire_gives_up_at_once_where_the_wait_would_end_after_the_timeout(timeout, passes, algorithm, rig):
    sleep = Sleep(rig)
    limiter = limiter_on(rig, "1/minute", algorithm, sleep=sleep)
    limiter.hit("k")
    before = rig.store.pttl(next(iter(rig.store)))
    decision = limiter.acquire("k", timeout=timeout)
    assert decision.allowed is passes
    if passes:
        assert sleep.asked == [60.0]
    else:
        assert sleep.asked == [] and decision.retry_after == 60.0 and rig.clock.now_ns == 0
        assert rig.store.pttl(next(iter(rig.store))) == before and limiter.peek("k").retry_after == 60.0


@pytest.mark.parametrize(
    ("timeout", "error"),
    [
        (-1, ValueError),
        (-0.001, ValueError),
        (-math.inf, ValueError),
        (math.nan, ValueError),
        (datetime.timedelta(-1), ValueError),
        (-(2**70), ValueError),
        ("1", TypeError),
        (True, TypeError),
        ([], TypeError),
    ],
)
def test_acquire_timeout_that_is_none_raises_and_spends_nothing(timeout, error, algorithm, rig):
    limiter = limiter_on(rig, "1/minute", algorithm)
    with pytest.raises(error, match="timeout="):
        limiter.acquire("k", timeout=timeout)
    with pytest.raises(error, match="timeout="):
        asyncio.run(limiter.acquire_async("k", timeout=timeout))
    assert len(rig.store) == 0


def test_acquire_timeout_of_any_size_is_a_timeout(algorithm, rig):
    for timeout in (2**40, 2**80, 1e300, datetime.timedelta.max):
        limiter = limiter_on(rig, "1/minute", algorithm, name=str(timeout))
        assert limiter.acquire("k", timeout=timeout) and limiter.acquire("k", timeout=timeout)


def test_acquire_arguments_after_the_cost_are_by_keyword(algorithm, rig):
    with pytest.raises(TypeError):
        limiter_on(rig, "1/minute", algorithm).acquire("k", 1, 5)


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window"])
def test_acquire_tries_again_until_its_timeout_where_others_are_quicker(algorithm, rig):
    """No order is promised by the windows: others take the place while he sleeps, and he gives up in the end."""
    others = limiter_on(rig, "1/second", algorithm)
    sleep = Sleep(rig)
    limiter = limiter_on(rig, "1/second", algorithm, sleep=sleep)

    def overtaken(seconds):
        assert len(sleep.asked) < 10
        rig.clock.advance(seconds)
        assert others.allow("k")

    sleep.moves = overtaken
    others.allow("k")
    decision = limiter.acquire("k", timeout=3.5)
    assert not decision and decision.retry_after == 1.0 and len(sleep.asked) == 3
    assert rig.clock.now_ns == 3 * SECOND


def test_acquire_holds_nothing_while_asleep(algorithm, rig):
    """In the sleep, everything else goes on: other keys, other limiters, plain counters, the same key's peek."""
    done = []

    def meanwhile(seconds):
        assert limiter.hit("other") and rig.store.incr("plain") == 1 and not limiter.peek("k")
        assert not limiter.acquire("k", timeout=0) and limiter.reset("nobody") is False
        thread = threading.Thread(target=lambda: done.append(limiter.allow("third")))
        thread.start()
        thread.join(60)
        rig.clock.advance(seconds)

    limiter = limiter_on(rig, "1/minute", algorithm, sleep=meanwhile)
    limiter.hit("k")
    assert limiter.acquire("k") and done == [True]


def test_acquire_refund_gives_back_what_was_waited_for(algorithm, rig):
    limiter = limiter_on(rig, "2/minute", algorithm)
    limiter.hit("k", 2)
    decision = limiter.acquire("k", 2)
    assert limiter.refund(decision) is True and limiter.refund(decision) is False
    assert limiter.peek("k").remaining == 2


def test_acquire_whose_sleep_raises_spends_nothing(algorithm, rig):
    limiter = limiter_on(rig, "1/minute; 5/hour", algorithm)
    limiter.hit("k")
    before = [limiter.peek("k"), [rig.store.pttl(key) for key in sorted(rig.store)]]

    def broken(seconds):
        raise Woken

    waiting = limiter_on(rig, "1/minute; 5/hour", algorithm, sleep=broken)
    for _ in range(5):
        with pytest.raises(Woken):
            waiting.acquire("k")
        assert [limiter.peek("k"), [rig.store.pttl(key) for key in sorted(rig.store)]] == before


@pytest.mark.parametrize("error", [StopIteration, GeneratorExit, KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_acquire_whose_sleep_raises_lets_that_very_exception_through(error, algorithm, rig):
    thrown = error()

    def broken(seconds):
        raise thrown

    limiter = limiter_on(rig, "1/minute", algorithm, sleep=broken)
    limiter.hit("k")
    with pytest.raises(error) as caught:
        limiter.acquire("k")
    assert caught.value is thrown
    assert limiter.peek("k").retry_after == 60.0


def test_acquire_wait_longer_than_any_sleep_can_take_is_slept_in_parts(rig):
    sleep = Sleep(rig)
    for algorithm in ALGORITHMS:
        limiter = limiter_on(rig, "1/year", algorithm, sleep=sleep)
        limiter.hit("k")
        assert limiter.acquire("k")
    assert sum(sleep.asked) == 3 * 360 * 86_400 and max(sleep.asked) <= 100 * 86_400
