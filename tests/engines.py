"""The engines that one body of tests runs against: the core, the model, a real redis-server, and RedisCounters on one.

An engine says its name, what it can do, and how to make a fresh store with a hand on its clock. To add one: write a
class with these three, append an instance to ENGINES. A test asks for what it needs with `@pytest.mark.needs("native")`
and then runs only on the engines that can; a row that an engine answers differently says so itself (see rows.py).
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import goblin
from goblin.redis import RedisCounters
from model import Model
from model_clock import ModelClock
from redis_engine import RedisStore, load_scripts
from redis_server import pause

CAPABILITIES = {
    "manual_clock": "a clock object that stands still, can be set back, and is passed as clock=",
    "nanoseconds": "time in steps finer than a millisecond",
    "python_arguments": "argument rules of the Python interface (types, messages, __index__)",
    "native": "the compiled core: memory figures, reference counts, subclassing, _check() of the table",
    "threads": "calls from several threads at once",
    "exact_scripts": "increx, incrbound and decrpos exact beyond 2**53, where a Lua script's doubles are not",
    "beyond_redis": "most_common, sweep, iteration with promises while keys come and go: no command of Redis has these",
}


class Rig(NamedTuple):
    """A fresh store and the way to move its clock."""

    store: Any
    advance_ns: Callable[[int], None]
    clock: Any = None  # the clock object, on engines that have "manual_clock"

    def advance(self, seconds):
        """Seconds as int, or as float for a whole number of milliseconds."""
        self.advance_ns(round(seconds * 1000) * 10**6)


IN_PYTHON = frozenset({"manual_clock", "nanoseconds", "python_arguments", "exact_scripts", "beyond_redis"})


class OnManualClock:
    """An engine in this process: a store class and the class of its clock."""

    def __init__(self, name, store_type, clock_type, capabilities):
        self.name, self.store_type, self.clock_type = name, store_type, clock_type
        self.capabilities = IN_PYTHON | capabilities

    def make(self, now_ns=0) -> Rig:
        clock = self.clock_type(now_ns)
        return Rig(self.store_type(clock=clock), clock.advance_ns, clock)


NEAR_DEADLINE_SECONDS = 0.005  # so near to a deadline nothing is judged: a server's clock is not ours
LONGEST_PAUSE_SECONDS = 0.1  # a row that moves its clock further needs "manual_clock"


class OnRedis:
    """The engine behind a socket; the fixture `engine` connects it. What it cannot do is Python's or the core's own."""

    name, fixture = "redis", "redis_server"
    capabilities = frozenset()
    server = ask = digests = None

    def connect(self, server):
        if self.server is not server:
            self.server, self.ask = server, server.connect()
            self.digests = load_scripts(self.ask)

    def make(self) -> Rig:
        self.ask("FLUSHALL")
        store = RedisStore(self.ask, self.digests)

        def advance_ns(ns):
            seconds = ns / 10**9
            assert 0 <= seconds <= LONGEST_PAUSE_SECONDS, f'{seconds} s of real time: this needs "manual_clock"'
            pause(seconds + NEAR_DEADLINE_SECONDS + 0.001)
            store.advanced_ms += ns // 10**6

        return Rig(store, advance_ns)


class OnRedisStore:
    """goblin.redis.RedisCounters on a real server, its clock put in the place of the server's.

    The clock begins some days ahead of the server's own, so that the server lets nothing expire by itself meanwhile.
    """

    capabilities = frozenset({"manual_clock", "python_arguments", "exact_scripts", "threads"})
    client = None

    def __init__(self, name, fixture):
        self.name, self.fixture = name, fixture

    def connect(self, server):
        import redis

        if self.client is None:
            self.client = redis.Redis(unix_socket_path=server.socket)

    def make(self, now_ns=0, client=None, store_type=None) -> Rig:
        self.client.flushall()
        clock = goblin.ManualClock(now_ns)
        # A prefix of characters that mean something in a glob: they must not.
        store = (store_type or TimedRedisCounters)(client or self.client, prefix="a*[b]?\\\\:")
        base_us = (time.time_ns() // 10**9 + DAYS_AHEAD * 86_400) * 10**6
        store._now_us = lambda: base_us + clock.now_ns // 1000
        return Rig(store, clock.advance_ns, clock)


DAYS_AHEAD = 10


class TimedRedisCounters(RedisCounters):
    """With what rows.py calls at their end."""

    def _check(self):
        """Nothing to look into: the server's memory is its own affair."""


CORE = OnManualClock("core", goblin.Counters, goblin.ManualClock, {"native", "threads"})
MODEL = OnManualClock("model", Model, ModelClock, set())
REDIS = OnRedis()
REDIS_STORE = OnRedisStore("redis-store", "redis_server")
VALKEY_STORE = OnRedisStore("valkey-store", "valkey_server")

IN_PROCESS = [CORE, MODEL]
ON_SERVERS = [REDIS, REDIS_STORE, VALKEY_STORE]
ENGINES = [*IN_PROCESS, *ON_SERVERS]  # the servers join in for the contract: the tests named test_contract_*
