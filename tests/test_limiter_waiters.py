"""Waiters side by side: in which order they are let in, and what becomes of who gives up.

Nothing sleeps: coroutines and threads sleep on a future or an event, which the test completes when it has moved the
manual clock to their time.
"""

import asyncio
import itertools
import threading

import pytest

import goblin
from engines import CORE
from goblin import Limit, RateLimiter
from test_reported_faults_threads import run_threads

SECOND = 10**9


@pytest.fixture
def rig():
    return CORE.make()


def limiter_on(rig, limits, algorithm, **options):
    return RateLimiter(limits, algorithm=algorithm, store=rig.store, **options)


# Coroutines


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


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_async_on_a_manual_clock_advances_it_by_the_wait(algorithm, rig):
    limiter = limiter_on(rig, "1/minute", algorithm)

    async def scene():
        return [(await limiter.acquire_async("k")).allowed for _ in range(4)]

    assert asyncio.run(scene()) == [True] * 4 and rig.clock.now_ns == 180 * SECOND


# Threads


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
    store, times = goblin.Counters(clock=goblin.ManualClock()), []

    def work():
        for _ in range(100):
            times.append(store.decide([("k", ("gcra", 1, 10, None))], 1, "reserve")[4])

    run_threads(*[work] * 16)
    assert sorted(times) == [10 * n for n in range(1_600)]


def test_threads_that_reserve_and_give_up_at_once_leave_no_slot_behind():
    """Whoever is last puts back what the others noted."""
    store, entry = goblin.Counters(clock=goblin.ManualClock()), [("k", ("gcra", 1, 10, None))]
    store.decide(entry)

    def work():
        for _ in range(100):
            stamps = [store.decide(entry, 1, "reserve")[-1] for _ in range(3)]
            for stamp in (stamps[1], stamps[0], stamps[2]):
                store.unreserve(stamp)

    run_threads(*[work] * 16)
    assert store.decide(entry, 1, "peek")[0] == -10
