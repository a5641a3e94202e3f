"""AsyncRateLimiter, and decorators on async stores: a store in this process whose verbs are awaited, and a server.

Nothing sleeps: the store stands on a manual clock, or `sleep` is a function of the test.
"""

import asyncio
import inspect
import sys

import pytest

import goblin
from goblin import AsyncRateLimiter, RateLimiter
from redis_stores import SECOND, in_loop


class AwaitedCounters:
    """A Counters whose five verbs are coroutines: each gives the loop a turn first, as a server's reply would."""

    def __init__(self):
        self.counters = goblin.Counters(clock=goblin.ManualClock())
        self.clock = self.counters.clock
        self.fails = None

    async def _ask(self, verb, *args, **kwargs):
        await asyncio.sleep(0)
        if self.fails == verb:
            raise goblin.StoreError("no answer")
        return getattr(self.counters, verb)(*args, **kwargs)

    async def decide(self, entries, cost=1, mode="hit", *, max_wait_ns=None):
        return await self._ask("decide", entries, cost, mode, max_wait_ns=max_wait_ns)

    async def refund(self, stamps, cost):
        return await self._ask("refund", stamps, cost)

    async def unreserve(self, stamps):
        return await self._ask("unreserve", stamps)

    async def delete(self, *keys):
        return await self._ask("delete", *keys)

    async def now_ns(self):
        return await self._ask("now_ns")


@pytest.fixture
def store():
    return AwaitedCounters()


async def told(limiter, seconds):
    """Until somebody who waits has been told his time: a newcomer would have to wait that long."""
    for _ in range(1_000):
        if (await limiter.peek("ann")).retry_after >= seconds:
            return
    pytest.fail("nobody waits")


def test_hits_are_judged_as_a_ratelimiter_judges_them(store):
    limiter = AsyncRateLimiter("3/minute; 4/hour", store=store, name="login")
    twin = RateLimiter("3/minute; 4/hour", store=goblin.Counters(clock=store.clock), name="login")

    async def main():
        for _ in range(2):
            assert await limiter.peek("ann") == twin.peek("ann")
            assert await limiter.hit("ann") == twin.hit("ann")
            assert await limiter.allow("ann", 5) is twin.allow("ann", 5) is False
        hits = await limiter.hit("ann"), twin.hit("ann")
        assert hits[0] == hits[1] and hits[0].limit == goblin.Limit(3, 60)
        assert await limiter.refund(hits[0]) is twin.refund(hits[1]) is True
        assert await limiter.refund(hits[0]) is twin.refund(hits[1]) is False
        assert await limiter.reset("ann") is twin.reset("ann") is True
        assert await limiter.reset("ann") is twin.reset("ann") is False

    asyncio.run(main())


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_acquire_waits_until_it_passes(algorithm, store):
    limiter = AsyncRateLimiter("1/minute", store=store, algorithm=algorithm)

    async def main():
        assert await limiter.acquire("ann") and store.clock.now_ns == 0
        refused = await limiter.acquire("ann", timeout=59)
        assert not refused and store.clock.now_ns == 0
        assert await limiter.acquire("ann", timeout=200)
        assert store.clock.now_ns >= 60 * SECOND

    asyncio.run(main())


def test_acquire_that_is_cancelled_gives_its_reservation_up(store):
    never = asyncio.Event

    async def main():
        asleep = never()
        limiter = AsyncRateLimiter("1/minute", store=store, algorithm="gcra", sleep=lambda seconds: asleep.wait())
        assert await limiter.hit("ann")
        waiter = asyncio.ensure_future(limiter.acquire("ann"))
        await told(limiter, 120)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert (await limiter.peek("ann")).retry_after == 60

    asyncio.run(main())


def test_acquire_that_is_cancelled_shows_that_also_where_the_store_is_gone(store):
    async def main():
        asleep = asyncio.Event()
        limiter = AsyncRateLimiter("1/minute", store=store, algorithm="gcra", sleep=lambda seconds: asleep.wait())
        await limiter.hit("ann")
        waiter = asyncio.ensure_future(limiter.acquire("ann"))
        await told(limiter, 120)
        store.fails = "unreserve"
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    asyncio.run(main())


def test_waiters_are_served_in_order(store):
    served = []

    async def main():
        limiter = AsyncRateLimiter("1/minute", store=store, algorithm="gcra")

        async def wait(name):
            await limiter.acquire("ann")
            served.append(name)

        await asyncio.gather(*(wait(name) for name in range(5)))

    asyncio.run(main())
    assert served == list(range(5))


def test_on_error_is_asked_where_the_store_fails(store):
    local = goblin.Counters(clock=goblin.ManualClock())

    async def main():
        for verb in ("decide", "now_ns"):
            store.fails = verb
            for on_error, allowed in (("allow", True), ("deny", False), (local, True)):
                limiter = AsyncRateLimiter("9/minute", store=store, on_error=on_error, algorithm="gcra")
                assert (await limiter.acquire("ann")).allowed is allowed
        store.fails = "decide"
        limiter = AsyncRateLimiter("9/minute", store=store, on_error=local)
        hit = await limiter.hit("ann")
        assert hit.remaining == 8 and (await limiter.peek("ann")).remaining == 8
        assert await limiter.refund(hit) and (await limiter.peek("ann")).remaining == 9
        assert await limiter.allow("ann") and await limiter.reset("ann") is False
        assert (await limiter.peek("ann")).remaining == 9  # what was judged here is forgotten
        with pytest.raises(goblin.StoreError):
            await AsyncRateLimiter("9/minute", store=store).allow("ann")

    asyncio.run(main())


def test_store_of_the_other_form_is_refused_in_words(store):
    with pytest.raises(TypeError, match="store AwaitedCounters is async: it is for goblin.AsyncRateLimiter"):
        RateLimiter("5/minute", store=store)
    with pytest.raises(TypeError, match="store AwaitedCounters is async"):
        goblin.set_default_store(store)
    for other in (goblin.Counters(),):
        with pytest.raises(TypeError, match="store Counters is not async: it is for goblin.RateLimiter"):
            AsyncRateLimiter("5/minute", store=other)
    with pytest.raises(TypeError, match="store must be .* int lacks decide, refund, unreserve, delete, now_ns"):
        AsyncRateLimiter("5/minute", store=5)


def test_arguments_are_those_of_ratelimiter_and_refused_in_the_same_words(store):
    for options in ({"algorithm": "x"}, {"name": "{"}, {"name": 5}, {"sleep": 5}, {"on_error": "x"}, {"limits": "5"}):
        errors = []
        for kind, own in ((RateLimiter, goblin.Counters()), (AsyncRateLimiter, store)):
            with pytest.raises((TypeError, ValueError)) as caught:
                kind(**{"limits": "5/minute", "store": own, **options})
            errors.append((caught.type, str(caught.value)))
        assert errors[0] == errors[1]
    limiter = AsyncRateLimiter("5/minute; 5/minute", store=store, name="x", on_error="deny")
    assert (limiter.limits, limiter.algorithm, limiter.name) == ((goblin.Limit(5, 60),), "fixed-window", "x")
    assert limiter.store is store and limiter.on_error == "deny"
    assert repr(limiter) == "<goblin.AsyncRateLimiter: 5/minute, fixed-window, name='x'>"

    async def main():
        for call in (limiter.hit, limiter.allow, limiter.peek, limiter.acquire):
            with pytest.raises(ValueError, match="cost=-1"):
                await call("ann", -1)
            with pytest.raises(TypeError, match="key must be"):
                await call(1.5)

    asyncio.run(main())


def test_decision_is_refunded_by_its_own_limiter_only(store):
    one, other = (AsyncRateLimiter("5/minute", store=store) for _ in range(2))

    async def main():
        hit = await one.hit("ann")
        with pytest.raises(ValueError, match="made by another limiter"):
            await other.refund(hit)
        assert await one.refund(hit)

    asyncio.run(main())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not tell how often a task was cancelled")
def test_acquire_whose_store_loses_the_cancellation_gives_up_all_the_same(store):
    """As asyncio.wait_for() does until Python 3.12, and so a client that stands on it: the reply comes, and the
    cancellation is gone."""

    async def deaf_now_ns():
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        return store.counters.now_ns()

    async def main():
        store.now_ns = deaf_now_ns
        limiter = AsyncRateLimiter(
            "1/minute", store=store, algorithm="gcra", sleep=lambda seconds: pytest.fail("slept")
        )
        await limiter.hit("ann")
        waiter = asyncio.ensure_future(limiter.acquire("ann"))
        await told(limiter, 120)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert (await limiter.peek("ann")).retry_after == 60

    asyncio.run(main())


# ---- decorators


def test_decorated_async_def_awaits_the_store(store):
    calls = []

    @goblin.rate_limit("2/minute", key="{user}", store=store, refund_on=KeyError)
    async def fetch(user, fail=False):
        calls.append(user)
        if fail:
            raise KeyError(user)
        return user

    async def main():
        assert [await fetch("ann"), await fetch("ann")] == ["ann", "ann"]
        with pytest.raises(goblin.RateLimitExceeded):
            await fetch("ann")
        assert (await fetch.peek("ann")).remaining == 0 and await fetch.reset("ann") is True
        for _ in range(5):
            with pytest.raises(KeyError):
                await fetch("bob", fail=True)
        assert (await fetch.peek("bob")).remaining == 2

    asyncio.run(main())
    assert len(calls) == 7 and isinstance(fetch.limiter, AsyncRateLimiter) and inspect.iscoroutinefunction(fetch)


def test_decorated_async_def_waits_on_the_store(store):
    @goblin.rate_limit("1/minute", store=store, on_limit="wait", algorithm="gcra")
    async def fetch():
        return store.clock.now_ns

    async def main():
        return [await fetch() for _ in range(3)]

    assert asyncio.run(main()) == [0, 60 * SECOND, 120 * SECOND]


def test_decorated_async_def_shares_a_limiter_and_has_limits_of_its_call(store):
    limiter = AsyncRateLimiter("2/minute", store=store)
    one, other = (goblin.rate_limit(limiter)(fetch) for fetch in (make_fetch(), make_fetch()))
    by_call = goblin.rate_limit(lambda amount: f"{amount}/minute", store=store)(make_fetch())
    quota = goblin.quota(3, key=None, cost=lambda amount: amount, store=store)(make_fetch())

    async def main():
        assert [await one(1), await other(1)] == [1, 1]
        with pytest.raises(goblin.RateLimitExceeded):
            await one(1)
        assert await by_call(1) == 1
        with pytest.raises(goblin.RateLimitExceeded):
            await by_call(1)
        assert await quota(2) == 2
        with pytest.raises(goblin.RateLimitExceeded):
            await quota(2)

    asyncio.run(main())


def make_fetch():
    async def fetch(amount):
        return amount

    return fetch


def test_decorated_function_that_cannot_await_the_store_is_refused_at_decoration(store):
    async def stream():
        yield 1

    for function in (lambda: None, len, stream, make_fetch):
        for decorator in (
            goblin.rate_limit("5/minute", store=store),
            goblin.rate_limit(AsyncRateLimiter("5/minute", store=store)),
            goblin.rate_limit(lambda: "5/minute", store=store),
            goblin.quota(5, key=None, store=store),
        ):
            with pytest.raises(TypeError, match="the store is async, but .* is no async def, and cannot await it"):
                decorator(function)


@pytest.mark.parametrize(
    "argument", [{"store": goblin.Counters()}, {"name": "x"}, {"on_error": "deny"}, {"algorithm": "gcra"}]
)
def test_decorator_with_a_limiter_has_nothing_of_its_own_beside_it(argument, store):
    (name,) = argument
    with pytest.raises(ValueError, match=f"{name} is the AsyncRateLimiter's own and cannot be given beside it"):
        goblin.rate_limit(AsyncRateLimiter("5/minute", store=store), **argument)


def test_decorated_functions_say_what_becomes_of_them_without_the_store(store):
    store.fails = "decide"

    @goblin.rate_limit("5/minute", store=store, on_error="allow")
    async def allowing():
        return "called"

    @goblin.quota(5, key=None, store=store, on_error="deny")
    async def denying():
        return "called"

    async def main():
        assert await allowing() == "called"
        with pytest.raises(goblin.RateLimitExceeded, match="retry after 1 s"):
            await denying()

    asyncio.run(main())


# ---- on a server


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_limiter_on_a_server_shares_its_budget_with_the_sync_form(algorithm, redis_server):
    redis = pytest.importorskip("redis")
    import redis.asyncio  # noqa: F811

    from goblin.redis import RedisCounters

    with redis.Redis(unix_socket_path=redis_server.socket) as client:
        client.flushall()
        here = RateLimiter("4/hour", store=RedisCounters(client, prefix="goblin:"), algorithm=algorithm)

        async def run(store):
            there = AsyncRateLimiter("4/hour", store=store, algorithm=algorithm)
            assert [await there.allow("ann"), here.allow("ann"), await there.allow("ann"), here.allow("ann")] == [
                True
            ] * 4
            assert not await there.allow("ann") and not here.allow("ann")
            refused = await there.acquire("ann", timeout=0.5)
            assert not refused and refused.retry_after > 1
            assert here.reset("ann") and (hit := await there.hit("ann")).remaining == 3
            assert await there.refund(hit) and here.peek("ann").remaining == 4
            counted = await asyncio.gather(*(there.allow("bob") for _ in range(20)))
            assert sum(counted) == 4

        in_loop(redis.asyncio.Redis, redis_server, run)


def test_waiters_on_a_server_who_are_cancelled_give_their_times_back(redis_server):
    redis = pytest.importorskip("redis")
    import redis.asyncio  # noqa: F811

    async def run(store):
        await store.clear()
        never, sleeping = asyncio.Event(), asyncio.Semaphore(0)

        def sleep(seconds):
            sleeping.release()
            return never.wait()

        limiter = AsyncRateLimiter("1/hour", store=store, algorithm="gcra", sleep=sleep)
        assert await limiter.hit("ann")
        waiters = [asyncio.ensure_future(limiter.acquire("ann")) for _ in range(3)]
        for _ in waiters:
            await sleeping.acquire()
        for waiter in waiters:  # from the front: slots in the middle stay empty, until the last goes
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
        assert (await limiter.peek("ann")).retry_after <= 3_600
        assert len(store._given_up) == 0

    in_loop(redis.asyncio.Redis, redis_server, run)
