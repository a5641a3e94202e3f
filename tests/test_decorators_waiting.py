"""Waiting, in tasks and in threads: nobody blocks the loop or a lock, cancelled waiters give up their place.

Nothing sleeps in real time. `Sleeps` stands in for the sleep of a limiter: who sleeps is woken when the test moves the
manual clock.
"""

import asyncio
import heapq
import itertools
import threading
import time

import pytest

import goblin

ALGORITHMS = ["fixed-window", "sliding-window", "gcra"]
each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
GUARD_SECONDS = 60  # only against hanging


class Turn:
    """Awaited, it lets the loop run everything that is ready."""

    def __await__(self):
        yield


async def settle():
    for _ in range(10):
        await Turn()


class Sleeps:
    """A sleep for `RateLimiter(sleep=...)` in tasks, on a manual clock."""

    def __init__(self):
        self.clock = goblin.ManualClock()
        self.sleepers = []
        self.order = itertools.count()

    def __call__(self, seconds):
        future = asyncio.get_running_loop().create_future()
        due_ns = self.clock.now_ns + max(round(seconds * 10**9), 1)
        heapq.heappush(self.sleepers, (due_ns, next(self.order), future))
        return future

    async def advance_to(self, seconds):
        """Move the clock to each sleeper's time in turn, and wake it there."""
        await settle()
        end_ns = round(seconds * 10**9)
        while self.sleepers and self.sleepers[0][0] <= end_ns:
            due_ns = self.sleepers[0][0]
            self.clock.advance_ns(max(due_ns - self.clock.now_ns, 0))
            while self.sleepers and self.sleepers[0][0] == due_ns:
                _, _, future = heapq.heappop(self.sleepers)
                if not future.done():
                    future.set_result(None)
            await settle()
        self.clock.advance_ns(end_ns - self.clock.now_ns)
        await settle()


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch):
    """The loop never blocks: whoever calls time.sleep, fails."""

    def fail(seconds):
        raise AssertionError("time.sleep was called")

    monkeypatch.setattr(time, "sleep", fail)


def waiting(limits, sleep, algorithm, **options):
    limiter = goblin.RateLimiter(limits, store=goblin.Counters(clock=sleep.clock), sleep=sleep, algorithm=algorithm)
    return goblin.rate_limit(limiter, on_limit="wait", **options)


def timed(sleep, ran, **options):
    """A function that notes who ran when, in seconds."""

    async def f(who):
        ran.append((who, sleep.clock.now_ns / 10**9))

    return waiting(options.pop("limits", "1/second"), sleep, options.pop("algorithm"), **options)(f)


# ---- The loop goes on -----------------------------------------------------------------------------------------------


@each_algorithm
def test_e15_loop_goes_on_while_a_call_waits(algorithm):
    """vutran1710/PyrateLimiter#208, #227, comet-ml/opik#4093: the async wrapper slept with time.sleep."""

    async def main():
        sleep, ran, ticks = Sleeps(), [], 0
        f = timed(sleep, ran, algorithm=algorithm)
        await f("first")
        waiter = asyncio.ensure_future(f("second"))
        for _ in range(100):
            await Turn()
            ticks += 1
        assert not waiter.done() and ran == [("first", 0.0)]
        await sleep.advance_to(1)
        await waiter
        return ran, ticks

    assert asyncio.run(main()) == ([("first", 0.0), ("second", 1.0)], 100)


@each_algorithm
def test_loop_runs_a_thousand_tasks_on_ten_keys_to_their_end(algorithm):
    async def main():
        sleep, ran = Sleeps(), []
        f = timed(sleep, ran, limits="5/second", algorithm=algorithm, key=lambda who: who % 10)
        tasks = [asyncio.ensure_future(f(n)) for n in range(1000)]
        while not all(task.done() for task in tasks):
            await sleep.advance_to(sleep.clock.now_ns // 10**9 + 5)
        await asyncio.gather(*tasks)
        return ran

    ran = asyncio.run(main())
    assert sorted(who for who, _ in ran) == list(range(1000))
    for key in range(10):
        at = [when for who, when in ran if who % 10 == key]
        # 5 at once, then 5 a second: 100 calls need 19 s; no second holds more than two windows' worth.
        assert at == sorted(at) and at[-1] >= 19
        assert all(later - earlier > 0.99 for earlier, later in zip(at, at[10:], strict=False))
        if algorithm == "gcra":
            assert [who for who, _ in ran if who % 10 == key] == list(range(key, 1000, 10))  # in order


@each_algorithm
def test_loops_three_one_after_the_other_share_one_function(algorithm):
    clock = goblin.ManualClock()
    store = goblin.Counters(clock=clock)

    @goblin.rate_limit("2/second", algorithm=algorithm, store=store, on_limit="wait")
    async def f():
        return clock.now_ns

    async def main():
        return await asyncio.gather(*(f() for _ in range(4)))

    at = sorted(when for _ in range(3) for when in asyncio.run(main()))
    assert len(at) == 12 and at[:2] == [0, 0] and at[-1] >= 4.5 * 10**9  # the least that any of the three allows


@each_algorithm
def test_loops_two_at_once_in_two_threads_share_one_budget(algorithm):
    store = goblin.Counters(clock=goblin.ManualClock())
    together = threading.Barrier(2)
    ran, refused = [], []

    @goblin.rate_limit("50/hour", algorithm=algorithm, store=store)
    async def f():
        await Turn()
        ran.append(threading.get_ident())

    async def call():
        try:
            await f()
        except goblin.RateLimitExceeded:
            refused.append(1)

    async def main():
        together.wait(GUARD_SECONDS)
        await asyncio.gather(*(call() for _ in range(40)))

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_SECONDS)
    assert (len(ran), len(refused), len(set(ran))) == (50, 30, 2)


# ---- Cancelled waiters ----------------------------------------------------------------------------------------------


async def cancelled(sleep, f, waiters, victims):
    """Calls that wait, of which some are cancelled in the order given; the tasks, once all is settled."""
    tasks = [asyncio.ensure_future(f(n)) for n in range(waiters)]
    await settle()
    for victim in victims:
        tasks[victim].cancel()
        await settle()
    return tasks


@pytest.mark.parametrize("victims", [[1, 3, 5, 7, 9], [9, 8, 7, 6, 5], [9, 1, 7, 3, 5], [0, 1, 2, 3, 4]], ids=str)
@each_algorithm
def test_e17_cancelled_waiters_charge_nothing_and_the_others_run(algorithm, victims):
    """agronholm/anyio#947, twilight-rs/twilight#1309, hikari-py/hikari#597: they kept their place; the rest starved."""

    async def main():
        sleep, ran = Sleeps(), []
        f = timed(sleep, ran, algorithm=algorithm)
        await f("first")
        tasks = await cancelled(sleep, f, 10, victims)
        assert [task.cancelled() for task in tasks] == [n in victims for n in range(10)]
        await sleep.advance_to(30)
        await asyncio.gather(*tasks, return_exceptions=True)
        return ran

    ran = asyncio.run(main())
    left = [n for n in range(10) if n not in victims]
    assert sorted(who for who, _ in ran[1:]) == left
    at = [when for _, when in ran]
    if algorithm == "gcra":
        # Each at the time he was told: a slot given up before a living waiter stays empty.
        assert ran[1:] == [(n, n + 1.0) for n in left]
    else:
        assert at == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@each_algorithm
def test_e17_newcomer_after_a_thousand_cancelled_waiters_waits_one_interval(algorithm):
    """hikari-py/hikari#597: every cancelled waiter left its slot empty."""

    async def main():
        sleep, ran = Sleeps(), []
        f = timed(sleep, ran, algorithm=algorithm)
        await f("first")
        tasks = [asyncio.ensure_future(f(n)) for n in range(1000)]
        await settle()
        for task in tasks[::2] + tasks[1::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        newcomer = asyncio.ensure_future(f("newcomer"))
        await sleep.advance_to(1)
        await newcomer
        return ran

    assert asyncio.run(main()) == [("first", 0.0), ("newcomer", 1.0)]


@each_algorithm
def test_cancelled_waiter_is_not_run_and_peek_shows_nothing_spent(algorithm):
    async def main():
        sleep, ran = Sleeps(), []
        f = timed(sleep, ran, limits="2/second", algorithm=algorithm)
        await f(0), await f(1)
        before = f.peek(2).retry_after
        await asyncio.gather(*await cancelled(sleep, f, 3, [2, 1, 0]), return_exceptions=True)
        assert f.peek(2).retry_after == before
        await sleep.advance_to(9)
        return ran, f.peek(2).remaining

    assert asyncio.run(main()) == ([(0, 0.0), (1, 0.0)], 2)


@each_algorithm
def test_waiter_beyond_its_timeout_is_refused_while_others_wait(algorithm):
    async def main():
        sleep, ran = Sleeps(), []
        f = timed(sleep, ran, algorithm=algorithm, timeout=2.5)
        tasks = [asyncio.ensure_future(f(n)) for n in range(6)]
        await sleep.advance_to(9)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return [when for _, when in ran], sum(isinstance(outcome, goblin.RateLimitExceeded) for outcome in outcomes)

    assert asyncio.run(main()) == ([0.0, 1.0, 2.0], 3)


# ---- Threads --------------------------------------------------------------------------------------------------------


@each_algorithm
def test_e13_waiting_goes_on_when_sleep_returns_early(algorithm):
    """tomasbasham/ratelimit#19, #28, #29: waiting tried again only once; sleep can return early."""
    clock, lock, ran = goblin.ManualClock(), threading.Lock(), []

    def sleep(seconds):
        with lock:
            clock.advance_ns(max(round(seconds * 0.9 * 10**9), 1000))

    @waiting("10/second", type("Early", (), {"clock": clock, "__call__": staticmethod(sleep)})(), algorithm)
    def f():
        ran.append(clock.now_ns)

    threads = [threading.Thread(target=lambda: [f() for _ in range(20)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_SECONDS)
    assert len(ran) == 40


@each_algorithm
def test_e14_nobody_else_is_held_up_while_a_thread_waits(algorithm):
    """tomasbasham/ratelimit#9, vutran1710/PyrateLimiter#108: it slept while holding the lock."""
    clock, asleep, wake = goblin.ManualClock(), threading.Event(), threading.Event()
    store = goblin.Counters(clock=clock)

    def sleep(seconds):
        asleep.set()
        assert wake.wait(GUARD_SECONDS)
        clock.advance(seconds)

    limiter = goblin.RateLimiter("1/minute", store=store, sleep=sleep, algorithm=algorithm)
    f = goblin.rate_limit(limiter, key="{who}", on_limit="wait")(lambda who: who)
    f("a")
    results = []
    thread = threading.Thread(target=lambda: results.append(f("a")))
    thread.start()
    assert asleep.wait(GUARD_SECONDS)
    assert f("b") == "b" and store.incr("plain") == 1 and results == []
    wake.set()
    thread.join(GUARD_SECONDS)
    assert results == ["a"]


@each_algorithm
def test_e14_many_threads_with_many_calls_come_to_their_end(algorithm):
    """vutran1710/PyrateLimiter#108: it hung after hours."""
    clock, lock, ran = goblin.ManualClock(), threading.Lock(), []

    def sleep(seconds):
        with lock:
            clock.advance(seconds)

    limiter = goblin.RateLimiter("100/second", store=goblin.Counters(clock=clock), sleep=sleep, algorithm=algorithm)
    f = goblin.rate_limit(limiter, on_limit="wait")(lambda: ran.append(1))
    threads = [threading.Thread(target=lambda: [f() for _ in range(1000)]) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_SECONDS)
    assert len(ran) == 32_000
