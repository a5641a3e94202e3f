"""Faults that people have met in keys and arguments elsewhere (C): one test for each, run on every engine.

See test_reported_faults.py for how to read these.
"""

from decimal import Decimal
from fractions import Fraction

import pytest

from catalogue import ADDERS, BY_KEY, INTEGERS, NUMBERS, VALUES, WRITERS
from catalogue import INT64_MIN as BOTTOM
from rows import state


def every(mapping):
    return pytest.mark.parametrize("call", mapping.values(), ids=mapping.keys())


def numbers(mapping):
    return pytest.mark.parametrize("call", [row[-1] for row in mapping.values()], ids=mapping.keys())


@every(BY_KEY)
@pytest.mark.needs("python_arguments")
def test_c1_lone_surrogate_raises_and_the_store_goes_on(call, store):
    """pandas-dev/pandas#25509, pandas-dev/pandas#32701: it has no UTF-8 form; the NULL buffer was hashed: segfault."""
    for key in ("\ud800", "a\udcff", "\ud800" * 30, "ä\udfff"):
        with pytest.raises(UnicodeEncodeError):
            call(store, key)
        assert len(store) == 0
    assert store.incr("a") == 1
    with pytest.raises(UnicodeEncodeError):
        store.mget(["a", "\udcff"])
    with pytest.raises(UnicodeEncodeError):
        list(store.scan_iter(match="\ud800"))
    assert state(store) == {b"a": (1, None)}


@every(ADDERS | WRITERS)
def test_c3_key_is_not_cut_at_a_nul(call, store):
    """aimhubio/aim#614, python/cpython#111656: C strings cut the key at the first NUL."""
    keys = ["a\0b", "a\0c", "\0", "", "\0\0", "a\0", b"\0\xff", "a" * 19 + "\0", "a" * 20 + "\0x", "a" * 20 + "\0y"]
    for key in keys:
        assert key not in store
        store.set(key, 0)
        call(store, key)
    assert store.get("a") is None
    assert {key for key in store if key != "other"} == set(keys)
    for key in keys:
        assert store.delete(key) == 1
        assert key not in store


@pytest.mark.parametrize("text", ["k", "", "ä", "日本", "\U0001f600", "k" * 20, "ä" * 10, "ä" * 11, "k" * 500])
def test_c5_str_and_bytes_of_a_key_are_one_everywhere(text, store):
    """redis/redis-py#3618, pinterest/pymemcache#450, Krukov/cashews#62: one key in one place and two in another."""
    data = text.encode()
    assert store.incr(text) == 1 and store.incr(data) == 2
    assert store.increx(text, 60) == 3 and store.incrbound(data, 1, 10) == 4
    assert store.get(text) == store.get(data) == store[text] == store[data] == 4
    assert store.mget(text, data) == [4, 4] and store.exists(text, data) == 2
    assert text in store and data in store
    assert list(store) == [text] and list(store.items()) == [(text, 4)] and len(store) == 1
    store.mset({text: 1, data: 2})
    assert store.get(text) == 2
    assert store.expire(data, 9) and store.ttl(text) == 9 and store.persist(text)
    assert store.delete(data, text) == 1 and len(store) == 0


def test_c5_bytes_that_are_no_utf8_are_keys_of_their_own(store):
    """The same reports: b'\\xff' and 'ÿ' are not the same key."""
    store.incr(b"\xff")
    assert store.get("ÿ") is None and store.get("ÿ".encode()) is None
    assert store.incr("ÿ") == 1
    assert set(store) == {b"\xff", "ÿ"}


@every(BY_KEY)
@pytest.mark.needs("python_arguments")
def test_c6_key_of_another_type_is_never_made_a_string(call, store):
    """web2py/web2py#2167: keys were str()-ed: None became 'None', True became 'True'."""
    store.set("k", 1)
    for key in (None, 1, 1.0, True, 1 + 0j, Decimal(1), object()):
        with pytest.raises(TypeError):
            call(store, key)
    assert state(store) == {b"k": (1, None)}
    assert store.mget("None", "1", "1.0", "True", "other") == [None] * 5


class OnlyInt:
    def __int__(self):
        return 1


@numbers(NUMBERS | {f"value_{name}": ("value", call) for name, call in VALUES.items()})
@pytest.mark.needs("python_arguments")
def test_c7_numbers_that_are_no_integers_are_not_cut(call, store):
    """numpy/numpy#25094, python/cpython#80229: a C integer parameter takes 1.9 as 1 and True as 1."""
    for number in (1.9, 2.0, -0.5, float("nan"), Decimal(2), Decimal("2.5"), Fraction(5, 2), True, False, OnlyInt()):
        with pytest.raises(TypeError, match="value is not an integer or out of range"):
            call(store, number)
        assert state(store) == {}


@numbers(NUMBERS | {f"value_{name}": ("value", call) for name, call in VALUES.items()})
@pytest.mark.needs("python_arguments")
def test_c9_integers_outside_int64_are_refused(call, store):
    """alicebob/miniredis#291 and Cython's conversions: refused at the door, or they wrap in later arithmetic."""
    for number in (2**63, BOTTOM - 1, 2**64, 2**64 + 1, -(2**70), 2**200, 10**400):
        with pytest.raises(OverflowError, match="value is not an integer or out of range"):
            call(store, number)
        assert state(store) == {}


@every(VALUES)
def test_c10_text_values_are_parsed_strictly(call, store):
    """redis/redis#11683, redis/redis#3593, redis/redis#1340, redis/redis#8926: '' counted as 0, '99\\0x' as 99."""
    for good in ("5", "-5", "0", b"5"):
        store.delete("k")
        call(store, good)
        assert store.get("k") == int(good)
    store.clear()
    store.set("k", 7, ex=60)
    for bad in ("+5", " 5", "5 ", "05", "-0", "", "5\n", "99\0x", "\0", "0x5", "5.0", "1e3", "1_0", "٣", b"", b"5\0"):
        with pytest.raises(ValueError, match="value is not an integer or out of range"):
            call(store, bad)
        assert state(store) == {b"k": (7, 60_000)}


@numbers(NUMBERS)
@pytest.mark.needs("python_arguments")
def test_c10_text_is_no_number_elsewhere(call, store):
    """The same reports: as amount, delta, max or a time any str is a TypeError."""
    for text in ("5", b"5", "", "x", "5.0"):
        with pytest.raises(TypeError, match="value is not an integer or out of range"):
            call(store, text)
    assert state(store) == {}


@numbers(INTEGERS)
def test_c14_what_get_replies_can_be_fed_back(call, store):
    """jamesls/fakeredis#141: feeding get's result back into decr failed because of its type."""
    store.set("k", 12)
    assert type(store.get("k")) is int
    call(store, store.get("k"))
    store.set("k", 12)
    assert store.decrby("k", store.get("k")) == 0
    store.set("k", store.mget("k")[0])
    assert store.getset("k", store.getset("k", 3)) == 3
