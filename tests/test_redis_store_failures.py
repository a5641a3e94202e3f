"""A server that is down, slow, full or talks nonsense: an error that says so, or what `on_error` says; never a verdict.

And the other way round: many callers at once are admitted exactly the limit.
"""

import asyncio
import contextlib
import subprocess
import sys
import threading

import pytest

import goblin
from goblin import AsyncRateLimiter, CapacityError, RateLimiter, StoreError
from goblin.redis import AsyncRedisCounters, RedisCounters
from redis_server import RedisServer, skip_or_fail_if_missing
from redis_stores import SECOND, client, in_loop, store  # noqa: F401 - fixtures

redis = pytest.importorskip("redis")
import redis.asyncio  # noqa: E402, F811
import redis.backoff  # noqa: E402
import redis.retry  # noqa: E402

# redis-py's own attempts would only make these tests slow.
ONCE = {"retry": redis.retry.Retry(redis.backoff.NoBackoff(), 0)}
CALLS = {
    "increx": lambda s: s.increx("k", 60),
    "get": lambda s: s.get("k"),
    "gcra": lambda s: s.gcra("k", 5, 60),
    "decide": lambda s: s.decide([("k", ("gcra", 5, SECOND, None))]),
    "delete": lambda s: s.delete("k"),
    "now_ns": lambda s: s.now_ns(),
    "len": len,
    "items": lambda s: list(s.items()),
    "clear": lambda s: s.clear(),
}


@pytest.fixture(scope="module")
def gone(tmp_path_factory):
    """The socket of a server that has been stopped."""
    skip_or_fail_if_missing()
    with RedisServer() as server:
        socket = server.socket
    return socket


PAUSE_MS = 150


@contextlib.contextmanager
def paused(client):  # noqa: F811
    """The server answers nobody for a moment."""
    client.client_pause(PAUSE_MS, all=True)
    yield
    client.ping()  # answered when it is over


def limiter_on(socket, on_error="raise", algorithm="fixed-window", **options):
    client = redis.Redis(unix_socket_path=socket, **ONCE, **options)  # noqa: F811
    return RateLimiter("2/minute", store=RedisCounters(client, prefix="x:"), on_error=on_error, algorithm=algorithm)


@pytest.mark.parametrize("call", CALLS)
def test_server_that_is_down_raises_storeerror_with_its_cause(call, gone):
    store = RedisCounters(redis.Redis(unix_socket_path=gone, **ONCE), prefix="x:")  # noqa: F811
    with pytest.raises(StoreError, match="the server could not be asked \\(ConnectionError: ") as caught:
        CALLS[call](store)
    assert isinstance(caught.value.__cause__, redis.ConnectionError)


def test_server_that_is_down_raises_storeerror_where_it_is_awaited(gone):
    async def main():
        client = redis.asyncio.Redis(unix_socket_path=gone, **ONCE)  # noqa: F811
        store = AsyncRedisCounters(client, prefix="x:")  # noqa: F811
        limiter = AsyncRateLimiter("2/minute", store=store)
        for call in (store.incr("k"), store.size(), store.clear(), store.most_common(), limiter.hit("ann"),
                     limiter.acquire("ann"), limiter.reset("ann")):  # fmt: skip
            with pytest.raises(StoreError) as caught:
                await call
            assert isinstance(caught.value.__cause__, redis.ConnectionError)

    asyncio.run(main())


def test_server_that_is_slow_raises_storeerror(redis_server, client):  # noqa: F811
    limiter = limiter_on(redis_server.socket, socket_timeout=0.05)
    assert limiter.allow("ann")
    with paused(client):
        with pytest.raises(StoreError, match="TimeoutError") as caught:
            limiter.hit("ann")
        assert isinstance(caught.value.__cause__, redis.TimeoutError)
    assert limiter.allow("bob")


def test_server_that_is_slow_raises_storeerror_where_it_is_awaited(redis_server, client):  # noqa: F811
    async def run(store):  # noqa: F811
        limiter = AsyncRateLimiter("2/minute", store=store)
        assert await limiter.allow("eve")
        with paused(client), pytest.raises(StoreError, match="TimeoutError"):
            await limiter.hit("eve")
        allowing = AsyncRateLimiter("2/minute", store=store, on_error="allow")
        with paused(client):
            assert await allowing.allow("eve")

    in_loop(redis.asyncio.Redis, redis_server, run, socket_timeout=0.05, **ONCE)


@pytest.mark.parametrize(
    "reply",
    [None, 5, b"ok", [], [b"ok"], [b"ok", b"x"], [b"fine", b"1"], [b"refused"], [b"\xff", b"1"], [None]],
)
def test_answer_that_means_nothing_raises_storeerror(reply, store):  # noqa: F811
    limiter = RateLimiter("2/minute", store=store, on_error="deny")
    store._link.scripts = dict.fromkeys(store._link.scripts, lambda keys, args: reply)
    for call in (lambda: store.incr("k"), lambda: store.decide([("k", ("gcra", 5, SECOND, None))]), store.now_ns):
        with pytest.raises(StoreError, match="the server gave an answer to \\w+ that means nothing") as caught:
            call()
        assert caught.value.__cause__ is not None
    assert not limiter.hit("ann")


def test_server_without_memory_raises_capacityerror_and_nothing_has_changed(client, store):  # noqa: F811
    store.set("old", 5)
    client.config_set("maxmemory", 1)
    try:
        for call in (
            lambda: store.incr("new"),
            lambda: store.mset({"new": 1, "other": 2}),
            lambda: store.gcra("new", 5, 60),
        ):
            with pytest.raises(CapacityError, match="the server has no memory left for another entry") as caught:
                call()
            assert isinstance(caught.value.__cause__, redis.ResponseError)
        assert store.mget("old", "new", "other") == [5, None, None]
        assert RateLimiter("2/minute", store=store, on_error="allow").hit("ann").allowed
    finally:
        client.config_set("maxmemory", 0)


# ---- on_error


def test_on_error_allow_lets_every_hit_pass_and_knows_nothing_else(gone):
    limiter = limiter_on(gone, "allow")
    decision = limiter.hit("ann", 2)
    assert decision and (decision.remaining, decision.retry_after, decision.reset_after) == (0, 0.0, float("inf"))
    assert (decision.key, decision.cost, str(decision.limit)) == ("ann", 2, "2/minute")
    assert decision.headers() == {"RateLimit-Policy": '"default";q=2;w=60', "RateLimit": '"default";r=0'}
    assert all(limiter.allow("ann") for _ in range(5)) and limiter.peek("ann") and limiter.acquire("ann")
    assert limiter.refund(decision) is False


def test_on_error_deny_refuses_every_hit_for_a_second(gone):
    limiter = limiter_on(gone, "deny")
    decision = limiter.hit("ann")
    assert not decision and (decision.remaining, decision.retry_after) == (0, 1.0)
    assert decision.headers()["Retry-After"] == "1"
    assert not limiter.allow("ann") and not limiter.peek("ann") and not limiter.acquire("ann", timeout=60)


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_on_error_store_judges_instead(algorithm, gone):
    clock = goblin.ManualClock()
    limiter = limiter_on(gone, goblin.Counters(clock=clock), algorithm)
    first = limiter.hit("ann")
    assert [first.remaining, limiter.allow("ann"), limiter.allow("ann")] == [1, True, False]
    assert limiter.refund(first) is True and limiter.refund(first) is False
    assert limiter.peek("ann").remaining == 1
    assert all(limiter.acquire("ann") for _ in range(3)) and clock.now_ns > 0  # on the clock of the store that judged
    assert asyncio.run(limiter.acquire_async("ann")).allowed


def test_on_error_reset_and_refund_raise_in_any_case(gone, client):  # noqa: F811
    for on_error in ("allow", "deny", goblin.Counters()):
        with pytest.raises(StoreError):
            limiter_on(gone, on_error).reset("ann")
    local = goblin.Counters()
    limiter = limiter_on(gone, local)
    limiter.hit("ann")
    with pytest.raises(StoreError):
        limiter.reset("ann")
    assert len(local) == 0  # what was judged here is forgotten all the same


def test_on_error_is_for_a_full_counters_as_well():
    full = goblin.Counters(max_keys=1)
    full.set("k", 1)
    with pytest.raises(CapacityError):
        RateLimiter("2/minute", store=full).hit("ann")
    for on_error, allowed in (("allow", True), ("deny", False), (goblin.Counters(), True)):
        limiter = RateLimiter("2/minute", store=full, on_error=on_error)
        assert limiter.hit("ann").allowed is limiter.allow("ann") is allowed
        third = allowed and not isinstance(on_error, goblin.Counters)  # which judges: it is one too many
        assert limiter.acquire("ann", timeout=0).allowed is third
    decorated = goblin.rate_limit("2/minute", store=full, on_error="deny")(lambda: "called")
    with pytest.raises(goblin.RateLimitExceeded, match="retry after 1 s"):
        decorated()


def test_on_error_hides_no_bad_argument(gone):
    limiter = limiter_on(gone, "allow")
    for call in (limiter.hit, limiter.allow, limiter.peek, limiter.acquire):
        with pytest.raises(TypeError, match="key must be"):
            call(1.5)
        with pytest.raises(ValueError, match="cost=-1"):
            call("ann", -1)


def test_on_error_is_shown_and_kept(gone):
    local = goblin.Counters()
    assert [limiter_on(gone, on_error).on_error for on_error in ("raise", "allow", "deny", local)] == [
        "raise", "allow", "deny", local]  # fmt: skip


@pytest.mark.parametrize("wrong", ["pass", "Allow", ""])
def test_on_error_of_another_word_is_refused(wrong):
    for make in (RateLimiter, goblin.rate_limit):
        with pytest.raises(
            ValueError, match=f"on_error='{wrong}' \\(allowed: 'raise', 'allow', 'deny', a goblin.Counters"
        ):
            make("2/minute", on_error=wrong)


@pytest.mark.parametrize("wrong", [None, 5, goblin.Counters, RedisCounters])
def test_on_error_of_another_type_is_refused(wrong):
    for make in (RateLimiter, goblin.rate_limit):
        with pytest.raises(TypeError, match="on_error must be 'raise', 'allow', 'deny' or a goblin.Counters, not \\w+"):
            make("2/minute", on_error=wrong)


def test_reservation_whose_waiter_loses_the_server_is_not_told_a_verdict(client):  # noqa: F811
    """The server goes away while somebody sleeps on his time: `on_error` says what becomes of him."""
    store = RedisCounters(client, prefix="x:")  # noqa: F811
    limiter = RateLimiter("1/minute", store=store, algorithm="gcra", sleep=lambda seconds: lose(store))

    def lose(store):
        def fail(keys, args):
            raise redis.ConnectionError("gone")

        store._link.scripts = dict.fromkeys(store._link.scripts, fail)

    assert limiter.hit("ann")
    with pytest.raises(StoreError, match="gone"):
        limiter.acquire("ann")


# ---- many at once


def test_threads_are_admitted_exactly_the_limit(redis_server, client):  # noqa: F811
    admitted = {kind: [] for kind in ("fixed-window", "sliding-window", "gcra")}
    shared = redis.Redis(unix_socket_path=redis_server.socket)
    store = RedisCounters(shared, prefix="t:")  # noqa: F811
    limiters = {kind: RateLimiter("50/hour; 40/day", algorithm=kind, store=store) for kind in admitted}
    barrier = threading.Barrier(16)

    def hit():
        barrier.wait()
        for kind, limiter in limiters.items():
            for _ in range(8):
                admitted[kind].append(limiter.allow("ann"))

    threads = [threading.Thread(target=hit) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {kind: sum(passed) for kind, passed in admitted.items()} == dict.fromkeys(admitted, 40)
    assert all(len(passed) == 128 for passed in admitted.values())
    shared.close()


PROCESS = """
import sys, redis, goblin
from goblin.redis import RedisCounters
store = RedisCounters(redis.Redis(unix_socket_path=sys.argv[1]), prefix="p:")
limiter = goblin.RateLimiter("100/hour", algorithm="gcra", store=store)
print(sum(limiter.allow("ann") for _ in range(60)), sum(store.increx("n", 60) > 0 for _ in range(60)))
"""


def test_processes_are_admitted_exactly_the_limit(redis_server, client, tmp_path):  # noqa: F811
    command = [sys.executable, "-c", PROCESS, redis_server.socket]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) for _ in range(4)]
    counts = [list(map(int, process.communicate(timeout=60)[0].split())) for process in processes]
    # In the seconds that they take at most one more of a hundred an hour comes back.
    assert 100 <= sum(passed for passed, _ in counts) <= 101
    assert client.get("p:n") == b"240"
