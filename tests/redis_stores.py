"""Fixtures and helpers for the tests of goblin.redis: a store on the tests' server, and one beside it in this process.

A server's clock cannot be moved, so these stores are given another: the private hook `_now_us`. It reads a ManualClock
that begins some days ahead of the server's time, so that the server lets nothing expire by itself meanwhile.
"""

import asyncio
import contextlib
import time

import pytest

import goblin
from goblin.redis import AsyncRedisCounters, RedisCounters
from redis_server import REPLY_SECONDS

DAYS_AHEAD = 10
US, MS, SECOND = 10**3, 10**6, 10**9


@pytest.fixture
def client(redis_server):
    """A redis-py client of an empty server."""
    import redis

    with redis.Redis(unix_socket_path=redis_server.socket, socket_timeout=REPLY_SECONDS) as client:
        client.flushall()
        yield client


@pytest.fixture
def store(client):
    """A RedisCounters on the server's own clock."""
    return RedisCounters(client, prefix="goblin:")


class Twin:
    """One clock, a RedisCounters on it, and a Counters to compare it with."""

    def __init__(self, client):
        # Whole seconds: on which grid a test moves the clock is its own affair.
        self.clock = goblin.ManualClock((time.time_ns() // SECOND + DAYS_AHEAD * 86_400) * SECOND)
        self.redis = timed(RedisCounters(client, prefix="twin:"), self.clock)
        self.core = goblin.Counters(clock=self.clock)

    def both(self, verb, *args, **kwargs):
        """What both reply: it must be the same."""
        replies = [outcome(store, verb, args, kwargs) for store in (self.redis, self.core)]
        assert replies[0] == replies[1], f"{verb}{args}{kwargs}: {replies[0]} on the server, {replies[1]} here"
        return replies[0]


def timed(store, clock):
    store._now_us = lambda: clock.now_ns // US
    return store


def outcome(store, verb, args, kwargs):
    try:
        return getattr(store, verb)(*args, **kwargs)
    except (ValueError, TypeError, OverflowError) as error:
        return type(error), str(error)


@pytest.fixture
def twin(client):
    return Twin(client)


def in_loop(client_type, server, run, **options):
    """Run a coroutine function of an AsyncRedisCounters in a loop of its own, on a client of its own."""

    async def main():
        client = client_type(unix_socket_path=server.socket, **options)
        try:
            return await run(AsyncRedisCounters(client, prefix="goblin:"))
        finally:
            with contextlib.suppress(Exception):
                await client.aclose()

    return asyncio.run(asyncio.wait_for(main(), REPLY_SECONDS))
