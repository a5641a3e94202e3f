"""The table of differences in docs/semantics.md, shown: what Redis does, and beside it what goblin does.

The scripts are the usual ones, as people write them; redis_engine.py has them with goblin's corrections.
"""

import pytest

import goblin
from catalogue import INT64_MAX, INT64_MIN
from test_contract_keys import CHAR_IS_SIGNED

INCREX = """
local current = redis.call("incr", KEYS[1])
if tonumber(current) == 1 then
  redis.call("expire", KEYS[1], ARGV[1])
end
return current
"""
INCRBOUND = """
local v = tonumber(redis.call("get", KEYS[1]) or "0")
if v + tonumber(ARGV[1]) <= tonumber(ARGV[2]) then
  return redis.call("incrby", KEYS[1], ARGV[1])
end
return -1
"""


@pytest.fixture
def ask(redis_server):
    with redis_server.connect() as connection:
        connection("FLUSHALL")
        yield connection


@pytest.fixture
def counters():
    return goblin.Counters()


def refuses(ask, text, *command):
    with pytest.raises(ask.error, match=text):
        ask(*command)


def test_difference_increx_script_opens_the_window_anew_when_a_counter_comes_back_to_one(ask, counters):
    ask("EVAL", INCREX, 1, "k", 60)
    ask("DECR", "k")
    ask("EVAL", INCREX, 1, "k", 600)
    assert ask("TTL", "k") > 500
    counters.increx("k", 60)
    counters.decr("k")
    counters.increx("k", 600)
    assert 0 < counters.ttl("k") <= 60


@pytest.mark.parametrize("bad", ["1.5", "soon", str(2**63)])
def test_difference_increx_script_with_a_bad_time_leaves_an_immortal_counter(bad, ask):
    refuses(ask, "value is not an integer", "EVAL", INCREX, 1, "k", bad)
    assert (ask("GET", "k"), ask("TTL", "k")) == (b"1", -1)


def test_difference_increx_checks_the_time_first(counters):
    for bad in (1.5, "soon", 2**63, INT64_MAX):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            counters.increx("k", bad)
    assert len(counters) == 0


def test_difference_incrbound_script_goes_wrong_beyond_2_to_the_53(ask, counters):
    for value, delta, bound in [(2**53, 1, 2**53), (2**60, 64, 2**60), (INT64_MAX - 1, 1, INT64_MAX - 1)]:
        ask("SET", "k", value)
        assert ask("EVAL", INCRBOUND, 1, "k", delta, bound) != -1
        assert int(ask("GET", "k")) > bound
        counters.set("k", value)
        assert counters.incrbound("k", delta, bound) == -1 and counters.get("k") == value


def test_difference_incrbound_script_sum_above_int64_is_an_error(ask, counters):
    ask("SET", "k", INT64_MAX)
    refuses(ask, "would overflow", "EVAL", INCRBOUND, 1, "k", 1, INT64_MAX)
    counters.set("k", INT64_MAX)
    assert counters.incrbound("k", 1, INT64_MAX) == -1


@pytest.mark.parametrize("value", ["abc", "+5", "05", " 5", "5.0", "-0", "", str(2**63)])
def test_difference_set_stores_what_incr_then_refuses(value, ask, counters):
    assert ask("SET", "k", value) == b"OK"
    refuses(ask, "value is not an integer", "INCR", "k")
    with pytest.raises(ValueError, match="value is not an integer"):
        counters.set("k", value)
    assert "k" not in counters


def test_difference_refused_set_is_nil(ask, counters):
    assert ask("SET", "k", 1, "XX") is None
    assert counters.set("k", 1, xx=True) is False


def test_difference_getex_with_a_bad_time_on_an_absent_key_is_nil(ask, counters):
    for option, bad in (("EX", 0), ("PX", -1), ("EX", INT64_MAX), ("PX", "soon")):
        assert ask("GETEX", "k", option, bad) is None
    ask("SET", "k", 1)
    refuses(ask, "invalid expire time", "GETEX", "k", "EX", 0)
    for bad in ({"ex": 0}, {"px": -1}, {"ex": INT64_MAX}):
        with pytest.raises(ValueError, match="invalid expire time"):
            counters.getex("k", **bad)


def test_difference_times_reach_further_in_both_directions(ask, counters):
    ask("MSET", "later", 1, "seconds", 1, "milliseconds", 1)
    counters.mset({"later": 1, "seconds": 1, "milliseconds": 1})
    assert ask("EXPIRE", "later", 9_223_372_037) == ask("EXPIRE", "seconds", -9_223_372_037) == 1
    assert ask("PEXPIRE", "milliseconds", INT64_MIN) == 1
    assert ask("KEYS", "*") == [b"later"]
    for call in (
        lambda: counters.expire("later", 9_223_372_037),
        lambda: counters.expire("seconds", -9_223_372_037),
        lambda: counters.pexpire("milliseconds", INT64_MIN),
        lambda: counters.expire("absent", INT64_MAX),
    ):
        with pytest.raises(ValueError, match="invalid expire time"):
            call()
    assert counters.exists("later", "seconds", "milliseconds") == 3


def test_difference_of_several_faults_redis_names_the_options_first(ask, counters):
    refuses(ask, "not compatible", "EXPIRE", "k", 2**63, "NX", "XX")
    with pytest.raises(OverflowError, match="seconds="):
        counters.expire("k", 2**63, nx=True, xx=True)


def test_difference_no_keys_at_all_is_an_error(ask, counters):
    for command in ("DEL", "EXISTS", "MGET", "MSET"):
        refuses(ask, "wrong number of arguments", command)
    assert (counters.delete(), counters.exists(), counters.mget(), counters.mset({})) == (0, 0, [], None)


def test_difference_keys_may_be_longer(ask, counters):
    assert ask("SET", "k" * 65_536, 1) == b"OK"
    with pytest.raises(ValueError, match="key is too long"):
        counters.set("k" * 65_536, 1)


def test_difference_pattern_of_several_stars_does_not_match_the_empty_key(ask, counters):
    ask("SET", "", 1)
    counters.set("", 1)
    assert (ask("KEYS", "*"), ask("KEYS", "**"), ask("KEYS", "***")) == ([b""], [], [])
    assert [list(counters.scan_iter(stars)) for stars in ("*", "**", "***")] == [[""]] * 3


@pytest.mark.skipif(not CHAR_IS_SIGNED, reason="C's char is unsigned on this machine, as bytes are in goblin")
def test_difference_pattern_ranges_are_of_signed_bytes(ask, counters):
    keys = [bytes([byte]) for byte in range(256)]
    ask("MSET", *(word for key in keys for word in (key, 1)))
    counters.mset(dict.fromkeys(keys, 1))
    assert sorted(ask("KEYS", b"[a-\xff]")) == [bytes([byte]) for byte in [*range(ord("a") + 1), 0xFF]]
    assert len(list(counters.scan_iter(b"[a-\xff]"))) == 0x100 - ord("a")
    for same in (b"[a-z]", b"[\x80-\xff]", b"[^\x90-\xa0]"):
        assert len(ask("KEYS", same)) == len(list(counters.scan_iter(same)))


def test_no_difference_ttl_is_pttl_rounded_half_up(ask):
    script = """
    local found = {}
    for left = 10, 3000 do
      redis.call("set", KEYS[1], 1, "px", left)
      found[#found + 1] = {redis.call("pttl", KEYS[1]), redis.call("ttl", KEYS[1]), redis.call("pttl", KEYS[1])}
    end
    return found
    """
    counters = goblin.Counters(clock=goblin.ManualClock())
    compared = 0
    for before, ttl, after in ask("EVAL", script, 1, "k"):
        if before == after:  # the server's clock runs, but not by a millisecond between these
            counters.set("k", 1, px=before)
            assert counters.ttl("k") == ttl, before
            compared += 1
    assert compared > 2_000
