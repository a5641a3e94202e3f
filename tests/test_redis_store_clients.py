"""Which clients goblin.redis takes, how it calls them, and what it leaves on the server for others to see."""

import asyncio
import doctest
import inspect
import socket

import pytest

import goblin
from goblin.redis import AsyncRedisCounters, RedisCounters
from doc_examples import run_docstring
from redis_server import RedisServer, pause, skip_or_fail_if_missing
from redis_stores import MS, SECOND, client, in_loop, store, twin  # noqa: F401 - fixtures

redis = pytest.importorskip("redis")
import redis.asyncio  # noqa: E402, F811

valkey = pytest.importorskip("valkey")
import valkey.asyncio  # noqa: E402, F811

# ---- kinds of clients


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 3}])
@pytest.mark.parametrize("library", ["redis.Redis", "valkey.Valkey"])
def test_client_of_either_library_is_taken_however_it_reads_replies(library, options, redis_server):
    module, _, kind = library.partition(".")
    with getattr({"redis": redis, "valkey": valkey}[module], kind)(
        unix_socket_path=redis_server.socket, **options
    ) as client:  # noqa: F811
        client.flushall()
        store = RedisCounters(client, prefix="ä:")
        assert [store.increx("k", 60), store.incrbound(b"\xff", 2**63 - 1, 2**63 - 1), store.ttl("k")] == [
            1,
            2**63 - 1,
            60,
        ]
        assert set(store) == {"k", b"\xff"} and dict(store.items()) == {"k": 1, b"\xff": 2**63 - 1}
        assert store.gcra("g", 5, 60) == 4 and store.type("g") == "gcra"
        assert goblin.RateLimiter("5/minute", store=store).hit("ann").remaining == 4
        store.clear()
        assert len(store) == 0


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 3}])
@pytest.mark.parametrize("client_type", [redis.asyncio.Redis, valkey.asyncio.Valkey])
def test_async_client_of_either_library_is_taken(client_type, options, redis_server):
    async def run(store):  # noqa: F811
        await store.clear()
        assert await store.increx("k", 60) == 1 and await store.set(b"\xff", -5)
        assert {key async for key in store} == {"k", b"\xff"}
        assert {key: value async for key, value in store.items()} == {"k": 1, b"\xff": -5}
        assert await store.size() == 2 and await store.contains("k") and not await store.contains("x")
        assert await store.most_common(1) == [("k", 1)] and await store.most_common() == [("k", 1), (b"\xff", -5)]
        assert [key async for key in store.scan_iter("k*")] == ["k"]
        await store.clear()
        assert await store.size() == 0

    in_loop(client_type, redis_server, run, **options)


@pytest.mark.parametrize("wrong", [None, "redis://localhost", object(), redis.Redis, goblin.Counters(), asyncio])
@pytest.mark.parametrize("store_type", [RedisCounters, AsyncRedisCounters])
def test_client_of_an_unknown_kind_is_refused_in_words(store_type, wrong):
    with pytest.raises(TypeError, match=r"client must be one of redis(\.asyncio)?\.Redis, .*Valkey.*, not \w+"):
        store_type(wrong)


def test_client_for_the_other_form_is_refused_in_words():
    for module in (redis, valkey):
        kind = module.__name__.title()
        with pytest.raises(TypeError, match=f"client is an async client, {kind}: it is for AsyncRedisCounters"):
            RedisCounters(getattr(module.asyncio, kind)())
        with pytest.raises(TypeError, match=f"client is no async client, {kind}: it is for RedisCounters"):
            AsyncRedisCounters(getattr(module, kind)())


def test_pipeline_is_no_client(client):  # noqa: F811
    with pytest.raises(TypeError, match="client must be one of .* not Pipeline"):
        RedisCounters(client.pipeline())
    with pytest.raises(TypeError, match="client must be one of .* not Pipeline"):
        AsyncRedisCounters(redis.asyncio.Redis().pipeline())


@pytest.mark.parametrize("prefix", ["{", "a}", "{tag}:"])
def test_prefix_with_braces_is_refused(prefix):
    with pytest.raises(ValueError, match="prefix='.*' \\(allowed: no braces\\)"):
        RedisCounters(redis.Redis(), prefix=prefix)


@pytest.mark.parametrize("prefix", [None, b"x", 5])
def test_prefix_that_is_no_str_is_refused(prefix):
    with pytest.raises(TypeError, match=f"prefix must be a str, not {type(prefix).__name__}"):
        RedisCounters(redis.Redis(), prefix=prefix)


def test_import_of_goblin_brings_no_client_along(tmp_path):
    import subprocess
    import sys

    code = "import goblin, sys; assert not {'redis', 'valkey', 'goblin.redis'} & set(sys.modules)"
    code += "; import goblin.redis; assert not {'redis', 'valkey'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=60)


# ---- the interface


def test_methods_are_those_of_counters_with_the_same_parameters():
    public = {name for name in vars(goblin.Counters) if not name.startswith("_")} - {"sweep", "stats", "clock"}
    assert public <= {name for name in vars(RedisCounters) if not name.startswith("_")}
    assert public | {"size", "contains"} == {name for name in vars(AsyncRedisCounters) if not name.startswith("_")}
    for name in public:
        theirs = inspect.signature(getattr(goblin.Counters, name)).parameters.values()
        for kind in (RedisCounters, AsyncRedisCounters):
            ours = inspect.signature(getattr(kind, name)).parameters.values()
            assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in theirs], name
            assert [p.kind for p in ours][1:] == [p.kind for p in theirs][1:], name
            assert getattr(kind, name).__doc__, name


def test_store_is_true_shows_its_prefix_and_is_not_copied(store):  # noqa: F811
    import copy
    import pickle

    assert store and repr(store) == "<goblin.redis.RedisCounters: prefix 'goblin:'>"
    for act in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="RedisCounters cannot be copied or pickled: it holds a client"):
            act(store)
    with pytest.raises(TypeError, match="item assignment is not supported: use set"):
        store["k"] = 5


def test_clear_without_a_prefix_is_refused(client):  # noqa: F811
    client.set("others", 1)
    with pytest.raises(ValueError, match="clear\\(\\) needs a store with a prefix"):
        RedisCounters(client).clear()
    assert client.get("others") == b"1"


def test_stores_of_different_prefixes_do_not_meet(client):  # noqa: F811
    one, other = (RedisCounters(client, prefix=prefix) for prefix in ("a*:", "ab:"))
    one.set("k", 1)
    other.set("k", 2)
    assert dict(one.items()) == {"k": 1} and dict(other.items()) == {"k": 2}
    one.clear()
    assert list(one) == [] and other["k"] == 2


def test_every_method_awaited_replies_as_the_other_does(redis_server, store):  # noqa: F811
    calls = [
        ("increx", "a", 60), ("pincrex", "b", 5_000), ("incrbound", "a", 5, 6), ("incrbound", "a", 1, 6),
        ("decrpos", "a"), ("decrpos", "none"), ("incr", "c", 5), ("incrby", "c", 2), ("decr", "c"), ("decrby", "c", 2), ("get", "c"),
        ("get", "none", 7), ("set", "d", "12"), ("getset", "d", 13), ("getex", "d"), ("getdel", "d"), ("getdel", "d"),
        ("mget", "a", "c", "none"), ("mget",), ("mset", {"e": 1, "f": 2}), ("mset", {}), ("exists", "e", "e", "none"),
        ("exists",), ("expire", "e", 50), ("pexpire", "f", 50_000), ("persist", "e"), ("persist", "e"), ("ttl", "f"),
        ("ttl", "none"), ("pttl", "e"), ("delete", "e", "f", "none"), ("delete",), ("type", "c"), ("type", "none"),
        ("fixed_window", "w", 2, 60), ("sliding_window", "s", 2, 60), ("gcra", "g", 2, 60), ("get", "g"), ("incr", 5),
        ("set", "x", "05"), ("incr", "c", 2**63 - 1), ("increx", "c", 2**62), ("expire", "c", 2**62),
        ("getset", "s", 1),
        ("set", "c", 2**63 - 1), ("incr", "c"), ("decide", []), ("refund", (), 1), ("unreserve", ()),
    ]  # fmt: skip

    def settled(call):
        try:
            return call()
        except Exception as error:
            return type(error), str(error)

    replies = [settled(lambda verb=verb, args=args: getattr(store, verb)(*args)) for verb, *args in calls]
    store.clear()

    async def run(store):
        for (verb, *args), expected in zip(calls, replies, strict=True):
            try:
                reply = await getattr(store, verb)(*args)
            except Exception as error:
                reply = type(error), str(error)
            assert reply == expected, (verb, args)

    in_loop(redis.asyncio.Redis, redis_server, run)
    raised = {reply[0] for reply in replies if isinstance(reply, tuple)}
    assert raised == {TypeError, ValueError, OverflowError, goblin.WrongTypeError}


# ---- what lies on the server


def test_counter_and_fixed_window_are_read_by_anybody(client, store):  # noqa: F811
    store.fixed_window("w", 10, 60, cost=3)
    store.incr("c", 2**53 + 1)
    assert client.get("goblin:w") == b"3" and 59 <= client.ttl("goblin:w") <= 60
    assert client.get("goblin:c") == b"9007199254740993" and client.ttl("goblin:c") == -1
    client.incr("goblin:w")
    assert store.fixed_window("w", 10, 60) == 5
    assert (
        client.pexpiretime("goblin:w") == store.decide([("w", ("fixed-window", 10, 60 * SECOND, None))])[-1][0][2] // MS
    )


def test_limiters_entry_is_refused_by_the_servers_own_incr(client, store):  # noqa: F811
    store.gcra("g", 5, 60)
    store.sliding_window("s", 5, 60)
    for key in ("goblin:g", "goblin:s"):
        with pytest.raises(redis.ResponseError, match="not an integer"):
            client.incr(key)
        assert 0 < client.pttl(key) <= 120_001


@pytest.mark.parametrize("value", [b"abc", b"05", b"+5", b"", b"9223372036854775808", b"5\n", b"gcra:1:2", b"\xff"])
def test_what_others_have_put_there_is_foreign(value, client, store):  # noqa: F811
    client.set("goblin:k", value, ex=60)
    client.rpush("goblin:list", "x")
    for key in ("k", "list"):
        assert store.type(key) == "foreign" and store.exists(key) == 1 and key in store and store.mget(key) == [None]
        for call in (store.get, store.incr, store.decrpos, store.getdel, store.persist):
            with pytest.raises(goblin.WrongTypeError, match="wrong kind of value"):
                call(key)
        for call in (store.fixed_window, store.sliding_window, store.gcra):
            with pytest.raises(goblin.WrongTypeError, match="wrong kind of value"):
                call(key, 5, 60)
    assert client.get("goblin:k") == value and store.ttl("k") == 60 and store.ttl("list") == -1
    assert set(store) == {"k", "list"} and list(store.items()) == []
    assert store.set("k", 5) and store["k"] == 5
    assert store.delete("k", "list") == 2


def test_ttl_of_other_clients_is_kept_and_judged(client, store):  # noqa: F811
    client.set("goblin:far", 1, pxat=2**53)  # further than goblin's own deadlines go
    assert store.incr("far") == 2 and client.pexpiretime("goblin:far") == 2**53
    assert 0 < store.pttl("far") < 2**63 // MS
    client.set("goblin:near", 1, px=20)
    assert store.increx("near", 60) == 2 and store.pttl("near") <= 20
    pause(0.025)
    assert store.get("near") is None and store.increx("near", 60) == 1


def test_window_ends_on_the_servers_clock(store):  # noqa: F811
    assert store.pincrex("k", 30) == 1 and store.pincrex("k", 30) == 2
    left_ns = -store.fixed_window("w", 1, 0.03) or -store.fixed_window("w", 1, 0.03)
    assert 0 < left_ns <= 31 * MS
    pause(0.032)
    assert store.pincrex("k", 30) == 1 and store.fixed_window("w", 1, 0.03) == 0


def test_bounds_are_exact_where_doubles_are_not(store):  # noqa: F811
    for edge in (2**53, 2**63 - 2, -(2**53), -(2**63) + 2):
        for step in (-1, 0, 1):
            store.set("k", edge)
            assert store.incrbound("k", step, edge + step - 1) == -1
            assert store.incrbound("k", step, edge + step) == edge + step == store["k"]
    store.set("k", 2**53 + 1)
    assert store.fixed_window("k", 2**53 + 2, 60) == 0 and store.fixed_window("k", 2**53 + 2, 60) < 0


def test_limits_of_one_key_share_a_slot(client):  # noqa: F811
    from redis.crc import key_slot

    limiter = goblin.RateLimiter("5/second; 9/minute", store=RedisCounters(client, prefix="app:"), name="login")
    for key in ("ann", "a}b", b"\xff", 5, ("a", "}")):
        limiter.hit(key)
        keys = client.keys("app:*")
        assert len(keys) == 2 and len({key_slot(key) for key in keys}) == 1
        limiter.reset(key)


@pytest.fixture(scope="module")
def cluster_port():
    """A cluster of one node, which needs a port: its address is what nodes tell clients."""
    skip_or_fail_if_missing()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--cluster-enabled", "yes", "--bind", "127.0.0.1", "--port", str(port)]
    with RedisServer(
        "redis-server", *options, "--cluster-port", str(port - 10_000 if port > 40_000 else port + 10_000)
    ) as server:
        ask = server.connect()
        ask("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        while b"cluster_state:ok" not in ask("CLUSTER", "INFO"):
            pause(0.02)
        yield port


@pytest.mark.parametrize("decodes", [False, True])
def test_cluster_judges_limits_and_is_asked_key_by_key(decodes, cluster_port):
    for kind in (redis.RedisCluster, valkey.ValkeyCluster):
        client = kind(host="127.0.0.1", port=cluster_port, decode_responses=decodes)  # noqa: F811
        store = RedisCounters(client, prefix="goblin:")  # noqa: F811
        store.clear()
        assert [store.increx("a", 60), store.set("b", 5), store.now_ns() > 10**18] == [1, True, True]
        assert dict(store.items()) == {"a": 1, "b": 5} and set(store) == {"a", "b"} and len(store) == 2
        limiter = goblin.RateLimiter("5/second; 7/minute", store=store, algorithm="gcra")
        assert limiter.refund(limiter.hit("ann")) and limiter.acquire("ann")
        with pytest.raises(goblin.StoreError, match="same (key )?slot"):
            store.mget("a", "b")
        store.clear()
        assert len(store) == 0
        client.close()


@pytest.mark.parametrize("kind", [redis.asyncio.RedisCluster, valkey.asyncio.ValkeyCluster])
def test_cluster_is_awaited(kind, cluster_port):
    async def main():
        client = kind(host="127.0.0.1", port=cluster_port)  # noqa: F811
        store = AsyncRedisCounters(client, prefix="goblin:")  # noqa: F811
        await store.clear()
        assert await store.increx("a", 60) == 1 and await store.set("b", 5) and await store.size() == 2
        assert {key: value async for key, value in store.items()} == {"a": 1, "b": 5}
        limiter = goblin.AsyncRateLimiter("5/second; 7/minute", store=store)
        assert await limiter.refund(await limiter.hit("ann"))
        await store.clear()
        await client.aclose()

    asyncio.run(main())


def example_methods():
    for name, method in vars(RedisCounters).items():
        if not name.startswith("_") and ">>>" in (method.__doc__ or ""):
            yield name


@pytest.mark.parametrize("name", list(example_methods()))
def test_docstring_examples_of_counters_hold_on_a_server_as_well(name, store):  # noqa: F811
    at_hand = {"goblin": goblin, "counters": store}
    test = doctest.DocTestParser().get_doctest(getattr(RedisCounters, name).__doc__, at_hand, name, name, 0)
    assert test.examples and not run_docstring(test)


def test_script_that_the_server_has_lost_is_loaded_again(client, store):  # noqa: F811
    assert store.incr("k") == 1
    client.script_flush()
    assert store.incr("k") == 2
