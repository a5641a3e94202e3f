"""set, get and their kin: getset, getdel, getex, mget, mset, delete, exists."""

import datetime

import pytest

from catalogue import INT64_MAX, INT64_MIN
from rows import do, gives, row, state, table, wait

CONFLICT = "cannot be given together"


@table(
    row(
        "get_of_an_absent_key_is_none",
        do("get", "k").gives(None),
        do("get", "k", 7).gives(7),
        do("get", "k", default="x").gives("x"),
        leaves={},
    ),
    row(
        "get_of_a_zero_is_zero_and_not_the_default",
        do("set", "k", 0).gives(True),
        do("get", "k", 7).gives(0),
    ),
    row(
        "set_takes_ints_and_canonical_strings",
        do("set", "a", 5).gives(True),
        do("set", "b", "-5").gives(True),
        do("set", "c", b"0").gives(True),
        do("set", "d", str(INT64_MAX)).gives(True),
        do("set", "e", str(INT64_MIN).encode()).gives(True),
        leaves={
            "a": (5, None),
            "b": (-5, None),
            "c": (0, None),
            "d": (INT64_MAX, None),
            "e": (INT64_MIN, None),
        },
    ),
    row(
        "a_plain_set_drops_the_ttl",
        do("set", "k", 1, ex=100).gives(True),
        do("set", "k", 2).gives(True),
        leaves={"k": (2, None)},
    ),
    row(
        "keepttl_keeps_it",
        do("set", "k", 1, ex=100).gives(True),
        wait(0.05),
        do("set", "k", 2, keepttl=True).gives(True),
        do("set", "plain", 1).gives(True),
        do("set", "plain", 2, keepttl=True).gives(True),
        do("set", "new", 2, keepttl=True).gives(True),
        leaves={"k": (2, 99_950), "plain": (2, None), "new": (2, None)},
    ),
    row(
        "keepttl_on_an_expired_key_finds_none_to_keep",
        do("set", "k", 1, px=30).gives(True),
        wait(0.03),
        do("set", "k", 2, keepttl=True).gives(True),
        leaves={"k": (2, None)},
    ),
    row(
        "ex_and_px_set_the_ttl_anew",
        do("set", "k", 1, ex=100).gives(True),
        do("set", "k", 2, px=61_500).gives(True),
        leaves={"k": (2, 61_500)},
    ),
    row(
        "nx_stores_only_a_new_key",
        do("set", "k", 1, nx=True).gives(True),
        do("set", "k", 2, nx=True).gives(False),
        do("set", "k", 2, nx=True, ex=60).gives(False),
        do("set", "t", 3, nx=True, ex=60).gives(True),
        leaves={"k": (1, None), "t": (3, 60_000)},
    ),
    row(
        "nx_takes_an_expired_key_as_absent",
        do("set", "k", 1, px=30).gives(True),
        wait(0.03),
        do("set", "k", 2, nx=True).gives(True),
        leaves={"k": (2, None)},
    ),
    row(
        "xx_stores_only_over_an_old_key",
        do("set", "k", 1, xx=True).gives(False),
        do("set", "k", 1).gives(True),
        do("set", "k", 2, xx=True, ex=60).gives(True),
        do("set", "k", 3, xx=True, keepttl=True).gives(True),
        leaves={"k": (3, 60_000)},
    ),
    row(
        "xx_takes_an_expired_key_as_absent",
        do("set", "k", 1, px=30).gives(True),
        wait(0.03),
        do("set", "k", 2, xx=True).gives(False),
        leaves={},
    ),
    row(
        "get_replies_the_old_value_whether_stored_or_not",
        do("set", "k", 1, get=True).gives(None),
        do("set", "k", 2, get=True).gives(1),
        do("set", "k", 3, get=True, nx=True).gives(2),
        do("set", "n", 3, get=True, nx=True).gives(None),
        do("set", "x", 3, get=True, xx=True).gives(None),
        do("set", "k", 4, get=True, xx=True, ex=9).gives(2),
        leaves={"k": (4, 9_000), "n": (3, None)},
    ),
    row(
        "options_that_exclude_each_other_are_refused",
        do("set", "k", 1, nx=True, xx=True).fails(ValueError, f"nx and xx {CONFLICT}"),
        do("set", "k", 1, ex=1, px=1).fails(ValueError, f"ex and px {CONFLICT}"),
        do("set", "k", 1, ex=1, keepttl=True).fails(ValueError, f"(ex and keepttl|keepttl and ex) {CONFLICT}"),
        do("set", "k", 1, px=1, keepttl=True).fails(ValueError, f"(px and keepttl|keepttl and px) {CONFLICT}"),
        do("getex", "k", ex=1, px=1).fails(ValueError, f"ex and px {CONFLICT}"),
        do("getex", "k", ex=1, persist=True).fails(ValueError, f"(ex and persist|persist and ex) {CONFLICT}"),
        do("getex", "k", px=1, persist=True).fails(ValueError, f"(px and persist|persist and px) {CONFLICT}"),
        leaves={},
    ),
    row(
        "non_positive_times_are_refused_and_change_nothing",
        do("set", "k", 1, ex=60).gives(True),
        do("set", "k", 2, ex=0).fails(ValueError, "invalid expire time: ex=0"),
        do("set", "k", 2, px=-1).fails(ValueError, "invalid expire time: px=-1"),
        do("set", "k", 2, ex=0, nx=True).fails(ValueError, "invalid expire time: ex=0"),
        do("getex", "k", ex=0).fails(ValueError, "invalid expire time: ex=0"),
        do("getex", "k", px=-7).fails(ValueError, "invalid expire time: px=-7"),
        do("getex", "absent", px=0).fails(
            ValueError, "invalid expire time: px=0", differs={"redis": (gives(None), "looks at the key first")}
        ),
        leaves={"k": (1, 60_000)},
    ),
    row(
        "getset_replies_the_old_value_and_drops_the_ttl",
        do("getset", "k", 5).gives(None),
        do("increx", "w", 60).gives(1),
        do("getset", "w", "0").gives(1),
        leaves={"k": (5, None), "w": (0, None)},
    ),
    row(
        "getset_over_an_expired_key_replies_none",
        do("set", "k", 5, px=30).gives(True),
        wait(0.03),
        do("getset", "k", 6).gives(None),
        leaves={"k": (6, None)},
    ),
    row(
        "getdel_takes_the_key_away",
        do("set", "k", 5).gives(True),
        do("getdel", "k").gives(5),
        do("getdel", "k").gives(None),
        do("set", "e", 5, px=30).gives(True),
        wait(0.03),
        do("getdel", "e").gives(None),
        leaves={},
    ),
    row(
        "getex_without_options_is_get",
        do("set", "k", 5, ex=60).gives(True),
        do("getex", "k").gives(5),
        do("getex", "absent").gives(None),
        do("getex", "k", persist=False).gives(5),
        leaves={"k": (5, 60_000)},
    ),
    row(
        "getex_sets_or_drops_the_ttl",
        do("set", "k", 5).gives(True),
        do("getex", "k", ex=60).gives(5),
        do("ttl", "k").gives(60),
        do("getex", "k", px=61_500).gives(5),
        do("pttl", "k").gives(61_500),
        do("getex", "k", persist=True).gives(5),
        do("getex", "k", persist=True).gives(5),
        leaves={"k": (5, None)},
    ),
    row(
        "getex_makes_no_key",
        do("getex", "k", ex=60).gives(None),
        do("getex", "k", persist=True).gives(None),
        do("set", "e", 5, px=30).gives(True),
        wait(0.03),
        do("getex", "e", ex=60).gives(None),
        do("getex", "e", persist=True).gives(None),
        leaves={},
    ),
    row(
        "mget_replies_in_the_order_asked",
        do("mset", {"a": 1, "b": "2"}).gives(None),
        do("set", "e", 3, px=30).gives(True),
        wait(0.03),
        do("mget", "b", "x", "a", b"b", "e").gives([2, None, 1, 2, None]),
        do("mget", ["a", "b"]).gives([1, 2]),
        do("mget", ("a",)).gives([1]),
        do("mget", "a").gives([1]),
        do("mget", b"ab").gives([None]),
        do("mget").gives([]),
        do("mget", []).gives([]),
    ),
    row(
        "mset_drops_ttls",
        do("set", "k", 1, ex=60).gives(True),
        do("mset", {"k": 2, b"n": 3}).gives(None),
        do("mset", {}).gives(None),
        leaves={"k": (2, None), "n": (3, None)},
    ),
    row(
        "mset_of_one_counter_under_two_spellings_keeps_the_last",
        do("mset", {"k": 1, b"k": 2}).gives(None),
        do("mset", {b"j": 1, "j": 2}).gives(None),
        leaves={"k": (2, None), "j": (2, None)},
    ),
    row(
        "delete_counts_the_keys_that_were_there",
        do("mset", {"a": 1, "b": 2, "c": 3}).gives(None),
        do("set", "e", 1, px=30).gives(True),
        wait(0.03),
        do("delete", "a", "a", "x", b"b", "e").gives(2),
        do("delete").gives(0),
        leaves={"c": (3, None)},
    ),
    row(
        "exists_counts_a_key_named_twice_twice",
        do("mset", {"a": 0, "b": 2}).gives(None),
        do("set", "e", 1, px=30).gives(True),
        wait(0.03),
        do("exists", "a", "a", "x", b"a", "b", "e").gives(4),
        do("exists").gives(0),
    ),
)
def test_set_get(row, engine):
    row.run(engine)


def test_contains_getitem_delitem_live_key_finds_it(store):
    store.set("k", 0, ex=60)
    assert "k" in store and b"k" in store and "x" not in store
    assert store["k"] == store[b"k"] == 0
    del store["k"]
    assert "k" not in store


@pytest.mark.parametrize("key", ["gone", b"gone", b"\xff"])
def test_getitem_delitem_absent_or_expired_key_raises_keyerror_with_the_key(key, store, advance):
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            store[key]
        assert caught.value.args == (key,)
        with pytest.raises(KeyError) as caught:
            del store[key]
        assert caught.value.args == (key,)
        store.set(key, 1, px=30)
        advance(0.03)
    assert state(store) == {}


@pytest.mark.needs("native")
def test_setitem_is_not_offered(store):
    with pytest.raises(TypeError):
        store["k"] = 1
    assert state(store) == {}


@pytest.mark.needs("python_arguments")
def test_mget_takes_any_iterable_of_keys(store):
    store.mset({"a": 1, "b": 2})
    assert store.mget(key for key in ("b", "a")) == [2, 1]
    assert store.mget({"a": None, "b": None}) == [1, 2]
    assert store.mget(iter([])) == []
    assert sorted(store.mget(store)) == [1, 2]


@pytest.mark.needs("python_arguments")
def test_mset_takes_anything_with_items(store):
    class Pairs:
        def items(self):
            return iter([("a", 1), ("b", "2")])

    store.mset(Pairs())
    assert state(store) == {b"a": (1, None), b"b": (2, None)}


@pytest.mark.needs("python_arguments")
@pytest.mark.parametrize("pairs", [[("a", 1)], "a", 5, None])
def test_mset_of_no_mapping_raises_typeerror(pairs, store):
    with pytest.raises(TypeError):
        store.mset(pairs)
    assert state(store) == {}


@pytest.mark.needs("python_arguments")
@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ({"a": 9, "b": 1.5}, TypeError),
        ({"a": 9, "b": "x"}, ValueError),
        ({"a": 9, "b": 2**63}, OverflowError),
        ({"a": 9, 5: 1}, TypeError),
        ({"a": 9, "\ud800": 1}, UnicodeEncodeError),
        ({"a": 9, "k" * 65_536: 1}, ValueError),
    ],
    ids=["float", "text", "big", "int-key", "surrogate", "long-key"],
)
def test_mset_with_one_bad_pair_stores_none(pairs, error, store):
    store.set("a", 1, ex=60)
    for mapping in (pairs, dict(reversed(pairs.items()))):
        with pytest.raises(error):
            store.mset(mapping)
        assert state(store) == {b"a": (1, 60_000)}


@pytest.mark.needs("python_arguments")
@pytest.mark.parametrize("method", ["delete", "exists", "mget"])
@pytest.mark.parametrize(
    ("bad", "error"), [(5, TypeError), (None, TypeError), ("\ud800", UnicodeEncodeError), ("k" * 65_536, ValueError)],
    ids=["int", "none", "surrogate", "long"],
)  # fmt: skip
def test_several_keys_with_one_bad_one_do_nothing(method, bad, error, store):
    store.mset({"a": 1, "b": 2})
    for keys in (("a", bad), (bad, "a"), ("a", "b", bad)):
        with pytest.raises(error):
            getattr(store, method)(*keys)
    assert state(store) == {b"a": (1, None), b"b": (2, None)}


@pytest.mark.needs("python_arguments")
def test_set_getex_timedelta_sets_exactly_its_milliseconds(store):
    store.set("a", 1, ex=datetime.timedelta(milliseconds=1_501))
    store.set("b", 1, px=datetime.timedelta(days=1, milliseconds=1))
    store.set("c", 1)
    store.getex("c", ex=datetime.timedelta(milliseconds=999))
    store.incr("d", ex=datetime.timedelta(milliseconds=2))
    assert state(store) == {b"a": (1, 1_501), b"b": (1, 86_400_001), b"c": (1, 999), b"d": (1, 2)}
