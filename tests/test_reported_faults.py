"""Faults that people have met in counters and expiry elsewhere: one test for each, run on every engine.

The letter and number only give each report a name: A counters, B expiry and clocks; C keys and arguments are in
test_reported_faults_keys.py, D what concerns memory and the extension module in test_reported_faults_native.py, threads
and forks in test_reported_faults_threads.py. The docstring says where it was met and what went wrong. A fault is a
sample of its kind: where it could sit in other methods, they are tested too.
"""

import pathlib
import random
import re
import time
from decimal import Decimal
from fractions import Fraction

import pytest

from catalogue import ADDERS, POSITIVE_TIMES, READERS, SIGNED_TIMES, TIMES
from catalogue import INT64_MAX as TOP
from catalogue import INT64_MIN as BOTTOM
from rows import state

OVERFLOW = "increment or decrement would overflow"


def every(mapping):
    return pytest.mark.parametrize("call", mapping.values(), ids=mapping.keys())


def numbers(mapping):
    return pytest.mark.parametrize("call", [row[-1] for row in mapping.values()], ids=mapping.keys())


# A. Counters


@pytest.mark.parametrize("method", ["decr", "decrby"])
@pytest.mark.parametrize("value", [None, 0, -1, 1, BOTTOM, TOP])
def test_a1_decrement_by_the_smallest_int64_overflows(method, value, store):
    """redis/redis#725, redis/redis#9577, apache/kvrocks#1581: it was done by negating the amount, which wraps."""
    if value is not None:
        store.set("a", value, ex=50)
    for options in ({}, {"ex": 5}, {"px": 5}):
        with pytest.raises(OverflowError, match=OVERFLOW):
            getattr(store, method)("a", BOTTOM, **options)
        assert state(store) == ({} if value is None else {b"a": (value, 50_000)})


@pytest.mark.parametrize(
    ("value", "call"),
    [
        (100, lambda s: s.incrby("n", TOP)),
        (TOP, lambda s: s.incr("n")),
        (TOP, lambda s: s.incr("n", ex=5)),
        (TOP, lambda s: s.increx("n", 5)),
        (TOP, lambda s: s.pincrex("n", 5)),
        (TOP, lambda s: s.decr("n", -1)),
        (1, lambda s: s.decrby("n", -TOP)),
        (BOTTOM, lambda s: s.decr("n")),
        (-2, lambda s: s.decrby("n", TOP)),
        (-1, lambda s: s.incrby("n", BOTTOM)),
    ],
)
def test_a3_adding_past_the_ends_overflows_and_keeps_the_value(value, call, store):
    """alicebob/miniredis#291: adding past the top returned a negative wrapped number."""
    for ttl in (None, 50):
        store.set("n", value, ex=ttl)
        with pytest.raises(OverflowError, match=OVERFLOW):
            call(store)
        assert state(store) == {b"n": (value, ttl and 50_000)}


@pytest.mark.parametrize("delta", [1, 0, -1, -99])
def test_a5_incrbound_value_above_the_bound_is_not_pulled_down(delta, store):
    """redis/redis#15045 (review): a value already above the bound was pulled down to it by an increment."""
    store.set("q", 200)
    assert store.incrbound("q", delta, 100) == -1
    assert store.incrbound("q", delta, 100, seconds=5) == -1
    assert state(store) == {b"q": (200, None)}


@pytest.mark.parametrize("bound", [10, 0, -1, BOTTOM, TOP])
def test_a7_incrbound_sum_above_int64_is_refused_by_every_bound(bound, store):
    """redis/redis#15045 (review): overflow skipped the caller's bound. value + delta <= max wraps and lets it in."""
    store.set("q", 5)
    for delta in (TOP, TOP - 4):
        assert store.incrbound("q", delta, bound) == -1
    assert state(store) == {b"q": (5, None)}


def test_a8_refused_first_call_makes_no_key(store):
    """redis/redis#15045 (review): a refused first increment still counted as (or half made) a key."""
    assert store.incrbound("new", 5, 3) == -1
    assert store.incrbound("new", 0, -1) == -1
    assert store.incrbound("new", 5, 3, seconds=60) == -1
    assert store.incrbound("new", 5, 3, seconds=0) == -1
    assert store.decrpos("new") == -1
    assert store.set("new", 1, xx=True) is False
    assert store.getex("new", ex=5) is None
    assert store.expire("new", 5) is False
    assert store.exists("new") == 0 and store.ttl("new") == -2 and len(store) == 0


def test_a9_incrbound_admitted_minus_one_is_told_from_a_refusal(store):
    """redis/redis#15237: ways of saying "not applied" were merged because callers could not tell outcomes apart."""
    store.set("d", -5)
    assert store.incrbound("d", 4, 10) == -1
    assert store.get("d") == -1  # applied
    assert store.incrbound("d", 100, 10) == -1
    assert store.get("d") == -1  # refused


@pytest.mark.parametrize("bound", [0, BOTTOM, TOP])
def test_a11_incrbound_sum_below_int64_overflows(bound, store):
    """valkey-io/valkey#4679: a bounded change that leaves int64 on the low side needs an error, not a wrap."""
    store.set("k", BOTTOM)
    for delta in (-1, BOTTOM):
        with pytest.raises(OverflowError, match=OVERFLOW):
            store.incrbound("k", delta, bound)
    assert state(store) == {b"k": (BOTTOM, None)}


def test_a12_incrbound_asking_for_more_than_the_limit_is_refused(store):
    """alisaifee/limits#151, alisaifee/limits#112: asking for more than the whole limit was granted."""
    assert store.incrbound("k", 5, 10) == 5
    assert store.incrbound("k", 100, 10) == -1
    assert store.incrbound("k", 11, 10) == -1
    assert store.incrbound("k", 5, 10) == 10
    assert store.incrbound("k", 1, 10) == -1
    assert store.get("k") == 10


@pytest.mark.parametrize("method", ADDERS)
def test_a13_adding_to_an_expired_key_starts_from_nothing(method, engine):
    """apache/kvrocks#2660, elixir-nebulex/nebulex#162: it failed, or went on from the dead value."""
    call, rig, fresh = ADDERS[method], engine.make(), engine.make()
    rig.store.set("t", 2)
    rig.store.pexpire("t", 10)
    rig.advance(0.02)
    assert call(rig.store, "t") == call(fresh.store, "t")
    assert state(rig.store) == state(fresh.store)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.incr("c"),
        lambda s: s.decr("c"),
        lambda s: s.incrby("c", 5),
        lambda s: s.decrby("c", 5),
        lambda s: s.incrby("c", 0),
        lambda s: s.increx("c", 7),
        lambda s: s.pincrex("c", 7),
        lambda s: s.incrbound("c", 1, 10),
        lambda s: s.incrbound("c", 1, 10, seconds=7),
        lambda s: s.incrbound("c", 100, 10),
        lambda s: s.incrbound("c", 100, 10, seconds=7),
        lambda s: s.decrpos("c"),
        lambda s: s.set("c", 5, keepttl=True),
        lambda s: s.set("c", 5, nx=True),
        lambda s: s.getex("c"),
        lambda s: s.get("c"),
        lambda s: s.expire("c", 7, nx=True),
        lambda s: s.expire("c", 7, gt=True),
    ],
)
def test_a14_increments_keep_the_ttl(call, store):
    """fppt/jedis-mock#25, guilleiguaran/fakeredis#35: increments dropped the TTL."""
    store.set("c", 1)
    store.expire("c", 100)
    call(store)
    assert store.pttl("c") == 100_000


def test_a15_key_first_made_without_a_ttl_gets_its_window_at_one(store):
    """valkey-io/valkey#2153, veryfront/veryfront-code#2256: it never got one, and the client was blocked for ever."""
    assert store.decr("n") == -1 and store.ttl("n") == -1
    assert store.increx("n", 60) == 0 and store.ttl("n") == -1
    assert store.increx("n", 60) == 1 and store.ttl("n") == 60
    store.set("z", 0)
    assert store.increx("z", 60) == 1 and store.ttl("z") == 60


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.increx("k", 1),
        lambda s: s.pincrex("k", 1_000),
        lambda s: s.incrbound("k", 1, 100, seconds=1),
    ],
    ids=["increx", "pincrex", "incrbound"],
)
def test_a17_counting_and_arming_in_one_call_leaves_no_immortal_key(call, store, advance):
    """alisaifee/limits#14, astagi/python-limit-requests#1, redis/node-redis#2847: INCR and EXPIRE in two steps did."""
    for _ in range(3_000):
        assert call(store) <= 3
        assert store.ttl("k") != -1
        advance(0.37)


@every(
    {
        "set": lambda s: s.set("k", 7),
        "set_get": lambda s: s.set("k", 7, get=True),
        "set_xx": lambda s: s.set("k", 7, xx=True),
        "getset": lambda s: s.getset("k", 7),
        "mset": lambda s: s.mset({"k": 7}),
    }
)
def test_a19_plain_write_over_a_key_with_a_ttl_removes_it(call, store):
    """redis/redis#2049: what SET does to a TTL was taken either way."""
    store.increx("k", 60)
    call(store)
    assert store.ttl("k") == -1
    assert store.increx("k", 60) == 8 and store.ttl("k") == -1


def test_a21_exists_and_delete_of_several_keys_count(store):
    """nrk/redis-lua#54, stipsan/ioredis-mock#354: a bool or the number of arguments came back."""
    store.set("a", 1)
    replies = [store.exists("a", "a", "x"), store.exists(), store.delete("a", "a", "x"), store.delete()]
    assert replies == [2, 0, 1, 0]
    assert all(type(reply) is int for reply in replies)


def test_a22_counter_at_its_maximum_stays_there_within_its_window(store, advance):
    """systemd/systemd#27342: one that reached the maximum of its type must stay limited, not roll over."""
    store.set("w", TOP)
    store.expire("w", 60)
    for call in (lambda: store.increx("w", 60), lambda: store.incr("w"), lambda: store.incrby("w", 5)):
        with pytest.raises(OverflowError, match=OVERFLOW):
            call()
        assert state(store) == {b"w": (TOP, 60_000)}
    assert store.incrbound("w", 1, TOP) == -1
    advance(60)
    assert store.increx("w", 60) == 1


@pytest.mark.parametrize("view", ["__iter__", "scan_iter", "items"])
def test_a23_iteration_while_nine_tenths_are_deleted_misses_no_live_key(view, store):
    """redis/redis#4906, redis/redis#4886, redis/redis#5758: SCAN missed live keys when the table shrank meanwhile."""
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    keys = [f"key:{n}" for n in range(20_000)]
    store.mset(dict.fromkeys(keys, 1))
    rng.shuffle(keys)
    doomed, kept, seen = keys[:18_000], set(keys[18_000:]), []
    for item in getattr(store, view)():
        seen.append(item[0] if view == "items" else item)
        for _ in range(rng.randrange(40)):
            if doomed:
                assert store.delete(doomed.pop()) == 1
    assert not doomed, "the deletions must all fall into the iteration"
    assert len(seen) == len(set(seen)) and kept <= set(seen), f"seed {seed}"
    assert set(store) == kept
    store._check()


def test_a24_iteration_after_mass_deletion_has_nothing_to_walk(store):
    """redis/redis#1993: one scan call walked millions of empty buckets. (That memory is given back: test_memory.py.)"""
    count = 60_000
    for n in range(count):
        store.incr(f"k{n}")
    iterator = iter(store)
    first = next(iterator)
    for n in range(count):
        store.delete(f"k{n}")
    rest = list(iterator)  # what a page copied before holds, at most
    assert len(rest) < count / 2 and first not in rest
    assert list(store) == [] and store.stats().slots < 1_000


# B. Expiry and clocks


@pytest.mark.parametrize(("name", "unit_ns", "call"), TIMES.values(), ids=TIMES.keys())
def test_b1_time_that_wraps_when_scaled_is_refused(name, unit_ns, call, engine):
    """redis/redis#9825, redis/redis#9839, redis/redis#8287: seconds x 1000 wrapped to a small number of ms.

    Here nanoseconds: amounts whose product leaves int64, some of which would wrap to a few seconds ahead.
    """
    rig = engine.make()
    rig.store.set("k", 1)
    wraps_to_5_s = (2**64 + 5 * 10**9) // unit_ns
    for amount in (18_446_744_073_709_561, wraps_to_5_s, wraps_to_5_s // 2, 2**63 // unit_ns + 1, TOP // 1_000, 2**62):
        with pytest.raises(ValueError, match=f"invalid expire time: {name}="):
            call(rig.store, amount)
    rig.advance(30)
    assert rig.store.get("k") == 1 and rig.store.ttl("k") == -1


@pytest.mark.parametrize(("name", "unit_ns", "call"), TIMES.values(), ids=TIMES.keys())
@pytest.mark.needs("nanoseconds")
def test_b2_time_that_wraps_when_now_is_added_is_refused(name, unit_ns, call, engine):
    """redis/redis#8032, redis/redis#14764, redis/redis#15626: it wrapped into the past; reply OK, key gone."""
    for now_ns in (1, 10**9, 10**18, 2**63 - 2 - 10**9):
        rig = engine.make(now_ns)
        for amount in (TOP, (2**63 - 2 - now_ns) // unit_ns + 1):
            with pytest.raises(ValueError, match=f"invalid expire time: {name}="):
                call(rig.store, amount)
            assert state(rig.store) == {}  # not even a key
        rig.store.set("k", 1)
        with pytest.raises(ValueError, match=f"invalid expire time: {name}="):
            call(rig.store, TOP)
        assert state(rig.store) == {b"k": (1, None)}


@pytest.mark.parametrize(("name", "unit_ns", "call"), SIGNED_TIMES.values(), ids=SIGNED_TIMES.keys())
def test_b4_negative_time_that_leaves_the_range_is_refused(name, unit_ns, call, store):
    """dragonflydb/dragonfly#17: a negative TTL whose conversion overflows was taken as "delete"."""
    store.set("k", 1)
    for amount in (-9_223_372_036_854_776, BOTTOM, -(2**63 // unit_ns) - 1):
        with pytest.raises(ValueError, match=f"invalid expire time: {name}="):
            call(store, amount)
        assert state(store) == {b"k": (1, None)}
    assert store.expire("k", -1) is True
    assert state(store) == {}


@pytest.mark.parametrize("method", ["expire", "pexpire"])
@pytest.mark.parametrize("none", [0, -1, -100_000])
def test_b5_expire_with_no_time_left_deletes_and_replies_true(method, none, store):
    """redis/redis#8287: EXPIRE with 0 or a negative number deletes and returns 1; a missing key gives 0."""
    expire = getattr(store, method)
    assert expire("x", 5) is False and expire("x", none) is False
    store.set("k", 1)
    assert expire("k", none) is True
    assert store.exists("k") == 0 and store.ttl("k") == store.pttl("k") == -2


@pytest.mark.parametrize(("left_ms", "ttl"), [(300, 0), (499, 0), (500, 1), (1_499, 1), (1_500, 2)])
def test_b7_ttl_of_a_live_key_can_be_zero(left_ms, ttl, store, advance):
    """redis/redis-py#693, redis/redis-py#922, redis/redis#4533: clients took that 0 for "no TTL"."""
    store.set("k", 1, ex=10)
    advance((10_000 - left_ms) / 1_000)
    assert (store.ttl("k"), store.pttl("k"), store.exists("k")) == (ttl, left_ms, 1)


def test_b8_absent_and_endless_keys_are_told_apart(store, advance):
    """redis/redis#1270, phpredis/phpredis#358, Qihoo360/nemo#10: -1 and -2 mixed up."""
    assert store.ttl("k") == store.pttl("k") == -2
    store.set("k", 1)
    assert store.ttl("k") == store.pttl("k") == -1
    store.expire("k", 5)
    store.persist("k")
    assert store.ttl("k") == store.pttl("k") == -1
    store.expire("k", 5)
    advance(5)
    assert store.ttl("k") == store.pttl("k") == -2


@every(
    {
        "persist": lambda s: s.persist("k"),
        "getex_persist": lambda s: s.getex("k", persist=True),
        "getex": lambda s: s.getex("k", ex=50),
        "expire": lambda s: s.expire("k", 50),
        "expire_gt": lambda s: s.expire("k", 50, gt=True),
        "set_keepttl_xx": lambda s: s.set("k", 1, keepttl=True, xx=True),
        "decrpos": lambda s: s.decrpos("k"),
        "incrbound_refused": lambda s: s.incrbound("k", 1, 0),
    }
)
def test_b9_expired_key_that_is_still_in_memory_does_not_come_back(call, store, advance):
    """redis/redis#4048: PERSIST brought a timed-out, not yet removed key back to life. No read in between!"""
    store.set("k", 1)
    store.pexpire("k", 10)
    advance(0.02)
    assert call(store) in (False, None, -1)
    assert store.get("k") is None and store.ttl("k") == -2


@every(READERS | ADDERS)
def test_b11_polling_with_exactly_the_period_meets_a_new_window(call, store, advance):
    """nikolaposa/rate-limit#8, nikolaposa/rate-limit#11, Tabcorp/redis-rate-limiter#1: it met the very instant of
    expiry; the key came back with no TTL and blocked the client for ever."""
    for _ in range(5):
        assert store.increx("h", 60) == 1
        assert store.ttl("h") == 60
        advance(60)
        assert store.get("h") is None and store.ttl("h") == -2 and store.exists("h") == 0
        try:
            call(store, "h")  # whatever else comes first at that instant
        except KeyError:
            pass
        store.delete("h")


def test_b12_persist_without_a_ttl_replies_false(store):
    """dragonflydb/dragonfly#846, fppt/jedis-mock#551: PERSIST without a TTL returned 1."""
    assert store.persist("k") is False
    store.set("k", 1)
    assert store.persist("k") is False
    store.expire("k", 9)
    assert store.persist("k") is True and store.ttl("k") == -1
    assert store.persist("k") is False


@pytest.mark.needs("manual_clock")
def test_b14_frozen_time_is_followed_by_the_manual_clock(store, advance, monkeypatch):
    """spulec/freezegun#199, #369, #383, DataDog/dd-trace-py#20242: tests freeze time.monotonic; C does not see it."""
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: 1e9)
    assert [store.increx("k", 60) for _ in range(10_000)][-1] == 10_000
    advance(60)
    assert store.increx("k", 60) == 1


@pytest.mark.needs("native")
@pytest.mark.parametrize("shift", [8 * 3_600, -8 * 3_600, 10**10])
def test_b15_wall_clock_set_by_hours_is_not_noticed(shift, engine, monkeypatch):
    """tkem/cachetools#123, juju/ratelimit#22, juju/ratelimit#26: a clock correction froze or emptied the limiter."""
    store = engine.store_type()
    store.increx("k", 3_600)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + shift)
    monkeypatch.setattr(time, "time_ns", lambda: int((now + shift) * 1e9))
    assert 3_590 <= store.ttl("k") <= 3_600 and store.increx("k", 3_600) == 2


@pytest.mark.parametrize("days", [25, 30, 50, 365, 3_650, 36_500])
def test_b17_windows_of_many_days_do_not_end_early(days, store, advance):
    """animir/node-rate-limiter-flexible#71, express-rate-limit/express-rate-limit#546: at once, above 2**31 ms."""
    seconds = days * 86_400
    store.increx("a", seconds)
    store.pincrex("b", seconds * 1_000)
    store.set("c", 1, ex=seconds)
    store.incrbound("d", 1, 5, seconds=seconds)
    store.incr("e", px=seconds * 1_000)
    assert [store.ttl(key) for key in "abcde"] == [seconds] * 5
    advance(seconds - 1)
    assert [store.ttl(key) for key in "abcde"] == [1] * 5
    advance(1)
    assert state(store) == {}


@pytest.mark.parametrize("reader", READERS)
def test_b18_no_reader_sees_a_key_past_its_deadline(reader, store, advance):
    """Yiling-J/theine-go#64: a timer wheel rounded down and kept an entry past its deadline."""
    absent = {"mget": [None], "mget_list": [None, None], "exists": 0, "exists_second": 0, "contains": False}
    absent |= {"ttl": -2, "pttl": -2}
    for ttl_ms in (1, 2, 7, 15, 16, 17, 63, 64, 65, 127, 255, 256, 999, 1_000, 1_001, 1_023, 1_025, 4_097, 5_000):
        store.set("k", 1, px=ttl_ms)
        store.set("far", 1, ex=100)
        advance((ttl_ms + 1) / 1_000)
        try:
            reply = READERS[reader](store, "k")
        except KeyError:
            reply = None
        assert reply == absent.get(reader), ttl_ms
        assert "k" not in set(store) and "k" not in dict(store.items())


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.increx("k", 60),
        lambda s: s.pincrex("k", 60_000),
        lambda s: s.incrbound("k", 1, 1_000, seconds=60),
        lambda s: s.incrbound("k", 1, 1, seconds=60),
    ],
    ids=["increx", "pincrex", "incrbound", "incrbound_refused"],
)
def test_b19_eager_client_does_not_extend_its_own_window(call, store, advance):
    """jsocol/django-ratelimit#11, jeremy/rack-ratelimit#2, frappe/frappe#28956: each hit re-armed it: locked out."""
    assert call(store) == 1
    for second in range(1, 60):
        advance(1)
        call(store)
        assert store.ttl("k") == 60 - second
    advance(1)
    assert call(store) == 1 and store.ttl("k") == 60


@numbers(TIMES)
@pytest.mark.needs("python_arguments")
def test_b20_fractional_time_is_refused(call, store):
    """praekeltfoundation/vumi#1046, jamesls/fakeredis#144: accepted by the fake, refused by the real thing."""
    store.set("k", 1)
    for time_ in (1.5, 1.0, Decimal("1.5"), Fraction(3, 2), "1.5"):
        with pytest.raises(TypeError, match="value is not an integer"):
            call(store, time_)
    assert state(store) == {b"k": (1, None)}


def test_b22_time_is_checked_before_the_key_is_touched(store):
    """danielealbano/cachegrand#209, valkey-io/valkey#3253: the key was changed first, or left immortal."""
    for none in (0, -1):
        assert store.increx("k", none) == 1 and store.exists("k") == 0
        assert store.pincrex("k", none) == 1 and store.exists("k") == 0
        assert store.incrbound("k", 1, 5, seconds=none) == 1 and store.exists("k") == 0
    for name, _, call in POSITIVE_TIMES.values():
        for old in ({}, {"k": 5}):
            store.clear()
            store.mset(old)
            with pytest.raises(ValueError, match=f"invalid expire time: {name}=0"):
                call(store, 0)
            assert state(store) == {key.encode(): (value, None) for key, value in old.items()}
    store.set("k", 5, ex=60)
    assert store.increx("k", 0) == 6 and store.ttl("k") == 60
    store.set("k", 5)
    assert store.increx("k", 0) == 6 and store.ttl("k") == -1


@pytest.mark.needs("nanoseconds")
def test_b25_clock_that_moves_in_coarse_steps_is_enough(engine):
    """aio-libs/aiohttp#13194: Windows' monotonic clock moves in steps of 15.6 ms."""
    rig, step_ns = engine.make(), 15_625_000
    assert [rig.store.increx("many", 1) for _ in range(1_000)] == list(range(1, 1_001))
    for ttl_ms in (1, 15, 16, 17, 31, 32):
        rig.store.set("k", 1)
        rig.store.pexpire("k", ttl_ms)
        for step in range(4):
            alive = step * step_ns < ttl_ms * 10**6
            assert (rig.store.get("k") == 1) == alive
            assert rig.store.pttl("k") > 0 if alive else rig.store.pttl("k") == -2
            rig.advance_ns(step_ns)


def test_b26_readme_says_which_clock_and_what_sleep_does():
    """python-trio/trio#1586, dbuenzli/mtime#10: whether "monotonic" counts time asleep differs between systems."""
    readme = (pathlib.Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    assert "CLOCK_MONOTONIC" in readme
    assert re.search(r"asleep|suspend|sleeps", readme)
