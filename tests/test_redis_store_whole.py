"""What goes through all keys of a RedisCounters, in both forms; and what is not asked of the server at all."""

import asyncio

import pytest

import goblin
from goblin import RateLimiter, StoreError
from goblin.redis import AsyncRedisCounters, RedisCounters
from goblin.redis._client import SCAN_COUNT
from redis_stores import client, store, twin  # noqa: F401 - fixtures

redis = pytest.importorskip("redis")
import redis.asyncio  # noqa: E402, F811

MANY = SCAN_COUNT + 500  # more than fit into one batch


@pytest.fixture
def many(store):  # noqa: F811
    store.mset({f"k{number:05}": number for number in range(MANY)})
    store.gcra("limited", 5, 60)
    return store


def awaited(redis_server, work):
    """The result of a coroutine function of an AsyncRedisCounters on the same keys."""

    async def run():
        async with redis.asyncio.Redis(unix_socket_path=redis_server.socket) as connection:
            return await work(AsyncRedisCounters(connection, prefix="goblin:"))

    return asyncio.run(run())


def test_most_common_of_more_than_a_batch_is_in_order(many):
    everything = many.most_common()
    assert [value for _, value in everything] == list(range(MANY))[::-1] and everything[0] == (f"k{MANY - 1:05}", MANY - 1)
    assert many.most_common(2) == everything[:2] and many.most_common(0) == []


def test_awaited_iteration_and_most_common_of_more_than_a_batch_are_those_of_the_other_form(many, redis_server):
    async def work(counters):
        return (
            sorted([key async for key in counters]),
            sorted([pair async for pair in counters.items()]),
            await counters.most_common(),
            await counters.most_common(3),
            await counters.size(),
        )

    keys, items, ordered, first, size = awaited(redis_server, work)
    assert keys == sorted(many) and len(keys) == size == MANY + 1
    assert items == sorted(many.items()) and sorted(ordered) == items
    assert [value for _, value in ordered] == list(range(MANY))[::-1] and first == ordered[:3]


def test_clear_whose_server_goes_meanwhile_says_so(many, redis_server, monkeypatch):
    def gone(*keys):
        raise redis.ConnectionError("gone")

    async def gone_too(*keys):
        raise redis.ConnectionError("gone")

    monkeypatch.setattr(redis.Redis, "unlink", gone)
    with pytest.raises(StoreError) as caught:
        many.clear()
    assert isinstance(caught.value.__cause__, redis.ConnectionError)
    monkeypatch.setattr(redis.asyncio.Redis, "unlink", gone_too)
    with pytest.raises(StoreError):
        awaited(redis_server, lambda counters: counters.clear())


def test_bad_arguments_are_refused_in_the_cores_words(twin):  # noqa: F811
    twin.redis.set("k", 1)
    twin.core.set("k", 1)
    latest = (2**63 - 1) // 10**9  # seconds that fit int64, whose end does not
    for verb, args, options in (
        ("mget", (5,), {}),
        ("incr", ("k",), {"ex": latest}),
        ("incr", ("k",), {"px": latest * 1000}),
        ("getex", ("k",), {"ex": latest}),
        ("set", ("k", "5.0"), {}),
        ("set", ("k", "7"), {}),
        ("expire", ("k", latest), {}),
    ):
        twin.both(verb, *args, **options)
    assert twin.both("get", "k") == 7


def test_unreserve_of_a_hit_gives_nothing_back(twin):  # noqa: F811
    entries = [("k", ("gcra", 2, 60 * 10**9, None))]
    for counters in (twin.redis, twin.core):
        stamps = counters.decide(entries, 1, "hit")[5]
        counters.unreserve(stamps)
        assert counters.decide(entries, 1, "peek")[1] == 1


class Down:
    """A store whose server does not answer."""

    def decide(self, *args, **options):
        raise StoreError("no answer")

    refund = unreserve = delete = decide

    def now_ns(self):
        raise StoreError("no answer")


@pytest.mark.parametrize("algorithm", ["fixed-window", "gcra"])
def test_coroutine_that_waits_on_a_store_that_is_down_gets_what_on_error_says(algorithm):
    def acquire(**options):
        limiter = RateLimiter("1/minute", algorithm=algorithm, store=Down(), **options)
        return asyncio.run(limiter.acquire_async("ann", timeout=5))

    with pytest.raises(StoreError, match="no answer"):
        acquire()
    assert acquire(on_error="allow").allowed and not acquire(on_error="deny").allowed
    local = goblin.Counters()
    assert acquire(on_error=local).allowed and len(local) == 1


def test_iteration_without_a_prefix_is_over_the_whole_database(client, store):  # noqa: F811
    store.set("mine", 1)
    client.set("yours", 2)
    assert sorted(RedisCounters(client)) == ["goblin:mine", "yours"]
