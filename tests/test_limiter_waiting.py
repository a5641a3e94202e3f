"""`acquire` and `acquire_async`: how long they wait, in which order, and what becomes of who gives up.

Nothing sleeps: a ManualClock moves by the wait, or `sleep=` is a fake. In a fake sleep others may act, as other threads
would: no lock is held. Waiters that stand side by side are coroutines, whose sleeps are futures that the test completes.
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


class Woken(Exception):
    pass


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


# Several waiters: coroutines whose sleeps are completed by hand


class Waiters:
    """Coroutines on one limiter; `turn()` moves the clock to the next who has been told a time, and wakes him."""

    def __init__(self, rig, limits, algorithm):
        self.rig, self.sleeping, self.passed = rig, [], []
        self.limiter = limiter_on(rig, limits, algorithm, sleep=self.sleep)
        self.order = itertools.count()

    def sleep(self, seconds):
        future = asyncio.get_running_loop().create_future()
        self.sleeping.append((self.rig.clock.now_ns + round(seconds * SECOND), next(self.order), future))
        return future

    async def start(self, name, cost=1, timeout=None):
        async def wait():
            decision = await self.limiter.acquire_async("k", cost, timeout=timeout)
            self.passed.append((name, self.rig.clock.now_ns, decision.allowed))
            return decision

        task = asyncio.ensure_future(wait())
        await settle()
        return task

    async def cancel(self, task):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        self.sleeping = [row for row in self.sleeping if not row[2].cancelled()]

    async def turn(self):
        self.sleeping = sorted(row for row in self.sleeping if not row[2].done())
        due, _, future = self.sleeping.pop(0)
        self.rig.advance_ns(max(0, due - self.rig.clock.now_ns))
        future.set_result(None)
        await settle()

    async def all(self):
        while any(not row[2].done() for row in self.sleeping):
            await self.turn()


async def settle():
    for _ in range(8):
        await asyncio.sleep(0)


def test_gcra_waiters_are_served_in_the_order_of_their_coming(rig):
    async def scene():
        waiters = Waiters(rig, Limit(1, 10), "gcra")
        for name in range(50):
            await waiters.start(name)
        await waiters.all()
        assert waiters.passed == [(name, name * 10 * SECOND, True) for name in range(50)]

    asyncio.run(scene())


def test_gcra_waiters_of_several_costs_are_served_in_order(rig):
    async def scene():
        waiters = Waiters(rig, Limit(10, 10), "gcra")
        costs = [10, 3, 1, 10, 1, 2]
        for name, cost in enumerate(costs):
            await waiters.start(name, cost)
        await waiters.all()
        assert [name for name, _, _ in waiters.passed] == list(range(6))
        # One token a second: each waits until the ones before him are paid for and his own cost fits.
        assert [at // SECOND for _, at, _ in waiters.passed] == [0, 3, 4, 14, 15, 17]

    asyncio.run(scene())


def test_gcra_newcomer_does_not_overtake_who_waits(rig):
    async def scene():
        waiters = Waiters(rig, Limit(1, 10), "gcra")
        await waiters.start("first")
        await waiters.start("waits")
        rig.advance(9.999)
        assert waiters.limiter.hit("k").retry_after == pytest.approx(10.001)
        rig.advance(0.001)
        # His time has come though he has not run yet: it is his.
        assert not waiters.limiter.hit("k")
        await waiters.all()
        assert waiters.passed[-1] == ("waits", 10 * SECOND, True)

    asyncio.run(scene())


def test_gcra_waiter_past_his_timeout_is_refused_at_once_and_holds_no_place(rig):
    async def scene():
        waiters = Waiters(rig, Limit(1, 10), "gcra")
        for name in range(3):
            await waiters.start(name)
        await waiters.start("too late", timeout=29)
        assert waiters.passed[-1] == ("too late", 0, False)
        await waiters.start("in time", timeout=30)
        await waiters.all()
        assert waiters.passed[-1] == ("in time", 30 * SECOND, True)

    asyncio.run(scene())


@pytest.mark.parametrize("victims", [[5, 4, 3], [1, 2, 3], [3, 1, 5], [9], [1], [2, 9, 8], [9, 8, 7, 6, 5, 4, 3, 2, 1]])
def test_gcra_cancelled_waiters_charge_nothing_and_the_others_keep_their_times(victims, rig):
    async def scene():
        waiters = Waiters(rig, Limit(1, 10), "gcra")
        tasks = [await waiters.start(name) for name in range(10)]
        for victim in victims:
            await waiters.cancel(tasks[victim])
        # A newcomer stands behind the last who lives: slots given up at the end are free again.
        last = max(set(range(10)) - set(victims))
        await waiters.start("new")
        await waiters.all()
        alive = [(name, name * 10 * SECOND, True) for name in range(10) if name not in victims]
        assert waiters.passed == [*alive, ("new", (last + 1) * 10 * SECOND, True)]

    asyncio.run(scene())


@pytest.mark.parametrize("order", ["first to last", "last to first", "every other first"])
def test_gcra_thousand_cancelled_leave_a_newcomer_waiting_one_interval(order, rig):
    async def scene():
        waiters = Waiters(rig, Limit(1, 10), "gcra")
        await waiters.start("first")

        async def wait():
            await waiters.limiter.acquire_async("k")

        tasks = [asyncio.ensure_future(wait()) for _ in range(1_000)]
        await settle()
        assert len(waiters.sleeping) == 1_000
        victims = {"last to first": tasks[::-1], "every other first": tasks[::2] + tasks[1::2]}.get(order, tasks)
        for task in victims:
            task.cancel()
            await asyncio.sleep(0)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert waiters.limiter.peek("k").retry_after == 10.0

    asyncio.run(scene())


def test_gcra_waiter_cancelled_between_two_sleeps_gives_up_too(rig):
    """Woken early, asleep again, and then cancelled."""

    async def scene():
        waiters = Waiters(rig, Limit(1, 10), "gcra")
        await waiters.start("first")
        task = await waiters.start("waits")
        for _ in range(3):
            waiters.sleeping.pop()[2].set_result(None)  # nothing has passed
            await settle()
        await waiters.cancel(task)
        assert waiters.limiter.peek("k").retry_after == 10.0

    asyncio.run(scene())


def test_gcra_waiter_cancelled_before_he_runs_has_reserved_nothing(rig):
    async def scene():
        waiters = Waiters(rig, Limit(1, 10), "gcra")
        task = asyncio.ensure_future(waiters.limiter.acquire_async("k"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(rig.store) == 0

    asyncio.run(scene())


def test_gcra_several_limits_are_waited_for_at_once_and_given_up_in_all(rig):
    async def scene():
        waiters = Waiters(rig, "1 per 10 seconds; 2 per 60 seconds burst 1", "gcra")
        for name in range(4):
            await waiters.start(name)
        task = await waiters.start("gives up")
        await waiters.cancel(task)
        await waiters.start("last")
        await waiters.all()
        assert [at // SECOND for _, at, _ in waiters.passed] == [0, 30, 60, 90, 120]

    asyncio.run(scene())


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window"])
def test_windows_waiters_all_pass_in_the_end_and_never_more_than_the_limit(algorithm, rig):
    async def scene():
        waiters = Waiters(rig, "5/minute", algorithm)
        tasks = [await waiters.start(name) for name in range(23)]
        await waiters.cancel(tasks[20])
        await waiters.all()
        assert sorted(name for name, _, _ in waiters.passed) == [n for n in range(23) if n != 20]
        by_window = {}
        for _, at, _ in waiters.passed:
            by_window[at // (60 * SECOND)] = by_window.get(at // (60 * SECOND), 0) + 1
        assert max(by_window.values()) == 5

    asyncio.run(scene())


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window"])
def test_windows_cancelled_waiter_has_spent_nothing(algorithm, rig):
    async def scene():
        waiters = Waiters(rig, "1/minute", algorithm)
        await waiters.start("first")
        tasks = [await waiters.start(name) for name in range(10)]
        for task in tasks:
            await waiters.cancel(task)
        rig.advance(60)
        assert waiters.limiter.hit("k").allowed

    asyncio.run(scene())


def test_windows_dear_waiter_can_starve_behind_cheap_ones(rig):
    """What the documentation says of the windows, and why gcra is the one that waits in order."""

    async def scene():
        waiters = Waiters(rig, "2/minute", "fixed-window")
        waiters.limiter.hit("k", 2)
        dear = await waiters.start("dear", 2)
        for _ in range(5):
            rig.advance(60)
            assert waiters.limiter.hit("k")  # a cheap one, just before he wakes
            await waiters.turn()
            assert not dear.done()
        rig.advance(60)
        await waiters.turn()
        assert dear.done()

    asyncio.run(scene())


def test_async_sleep_may_be_a_plain_function(rig):
    limiter = limiter_on(rig, "1/minute", "gcra", sleep=lambda seconds: rig.clock.advance(seconds))
    assert asyncio.run(limiter.acquire_async("k")) and asyncio.run(limiter.acquire_async("k"))
    assert rig.clock.now_ns == 60 * SECOND


def test_async_on_a_manual_clock_advances_it_by_the_wait(algorithm, rig):
    limiter = limiter_on(rig, "1/minute", algorithm)

    async def scene():
        return [(await limiter.acquire_async("k")).allowed for _ in range(4)]

    assert asyncio.run(scene()) == [True] * 4 and rig.clock.now_ns == 180 * SECOND


# Threads, woken by hand


class Threads:
    """Threads that wait on one limiter; each sleeps on an event until the test has moved the clock to his time."""

    def __init__(self, rig, limits, algorithm):
        self.rig, self.changed, self.sleeping, self.passed = rig, threading.Condition(), [], []
        self.limiter = limiter_on(rig, limits, algorithm, sleep=self.sleep)
        self.threads = []

    def sleep(self, seconds):
        event = threading.Event()
        with self.changed:
            self.sleeping.append((self.rig.store.now_ns() + round(seconds * SECOND), len(self.threads), event))
            self.changed.notify_all()
        assert event.wait(60)

    def start(self, name):
        def wait():
            decision = self.limiter.acquire("k")
            with self.changed:
                self.passed.append((name, self.rig.store.now_ns(), decision.allowed))
                self.changed.notify_all()

        before = len(self.sleeping) + len(self.passed)
        self.threads.append(threading.Thread(target=wait))
        self.threads[-1].start()
        self.until(lambda: len(self.sleeping) + len(self.passed) > before)

    def until(self, true):
        with self.changed:
            assert self.changed.wait_for(true, timeout=60)

    def all(self):
        while self.sleeping:
            due, _, event = row = min(self.sleeping, key=lambda row: row[:2])
            self.sleeping.remove(row)
            self.rig.advance_ns(max(0, due - self.rig.store.now_ns()))
            before = len(self.sleeping) + len(self.passed)
            event.set()
            self.until(lambda before=before: len(self.sleeping) + len(self.passed) > before)
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


def test_threads_gcra_waiters_are_served_in_the_order_of_their_coming(rig):
    scene = Threads(rig, Limit(1, 10), "gcra")
    for name in range(16):
        scene.start(name)
    scene.all()
    assert scene.passed == [(name, name * 10 * SECOND, True) for name in range(16)]


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window"])
def test_threads_windows_waiters_all_pass(algorithm, rig):
    scene = Threads(rig, "3/minute", algorithm)
    for name in range(10):
        scene.start(name)
    scene.all()
    assert sorted(name for name, _, _ in scene.passed) == list(range(10))
    assert [at // (60 * SECOND) for _, at, _ in scene.passed] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_threads_reserve_at_once_and_get_times_one_interval_apart():
    """16 threads, 100 reservations each: no two are told one instant, and none is left out."""
    from test_reported_faults_threads import run_threads

    store, times = goblin.Counters(clock=goblin.ManualClock()), []

    def work():
        for _ in range(100):
            times.append(store.decide([("k", ("gcra", 1, 10, None))], 1, "reserve")[4])

    run_threads(*[work] * 16)
    assert sorted(times) == [10 * n for n in range(1_600)]


def test_threads_that_reserve_and_give_up_at_once_leave_no_slot_behind():
    """Whoever is last puts back what the others noted."""
    from test_reported_faults_threads import run_threads

    store, entry = goblin.Counters(clock=goblin.ManualClock()), [("k", ("gcra", 1, 10, None))]
    store.decide(entry)

    def work():
        for _ in range(100):
            stamps = [store.decide(entry, 1, "reserve")[-1] for _ in range(3)]
            for stamp in (stamps[1], stamps[0], stamps[2]):
                store.unreserve(stamp)

    run_threads(*[work] * 16)
    assert store.decide(entry, 1, "peek")[0] == -10
