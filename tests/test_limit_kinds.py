"""The kinds of entries: what a command of another kind may do to a limiter's entry, and to a counter.

Nearly always WrongTypeError, and nothing changed; `set` and `mset` replace, `mget` gives None, and what concerns the
key alone (delete, exists, ttl, pttl, type, iteration) works on all.
"""

import pytest

import goblin
from catalogue import BY_KEY
from engines import CORE
from limit_references import NEVER

WRONG_TYPE = "^Operation against a key holding the wrong kind of value$"

# Eight seconds on the entry still weighs something, so that a change of it would show in the verdicts.
MAKERS = {
    "sliding-window": lambda s, k: s.sliding_window(k, 9, 10, 8),
    "gcra": lambda s, k: s.gcra(k, 9, 10, 8),
}
HITS = {
    "counter": lambda s, k, cost=1: s.fixed_window(k, 9, 10, cost),
    "sliding-window": lambda s, k, cost=1: s.sliding_window(k, 9, 10, cost),
    "gcra": lambda s, k, cost=1: s.gcra(k, 9, 10, cost),
}

# On a limiter's entry: what these reply, and whether the entry is left (True), replaced by a counter, or gone.
ALLOWED = {
    "mget": ([None], "left"),
    "mget_list": ([None, None], "left"),
    "exists": (1, "left"),
    "exists_second": (1, "left"),
    "ttl": (None, "left"),  # None: compared elsewhere
    "pttl": (None, "left"),
    "contains": (True, "left"),
    "delete": (1, "gone"),
    "delete_second": (1, "gone"),
    "delitem": (None, "gone"),
    "set": (True, "replaced"),
    "set_nx": (False, "left"),
    "set_xx": (True, "replaced"),
    "mset": (None, "replaced"),
    "mset_second": (None, "replaced"),
}
MORE_REFUSED = {
    "set_keepttl": lambda s, k: s.set(k, 5, keepttl=True),
    "set_xx_get": lambda s, k: s.set(k, 5, xx=True, get=True),
    "set_nx_get": lambda s, k: s.set(k, 5, nx=True, get=True),
    "set_xx_keepttl": lambda s, k: s.set(k, 5, xx=True, keepttl=True),
    "incr_nothing": lambda s, k: s.incrby(k, 0),
    "incr_overflow": lambda s, k: s.incrby(k, 2**63 - 1),
    "decr_least": lambda s, k: s.decrby(k, -(2**63)),
    "incrbound_refused": lambda s, k: s.incrbound(k, 5, 3),
    "increx_gone_at_once": lambda s, k: s.increx(k, 0),
    "expire_gone_at_once": lambda s, k: s.expire(k, 0),
    "expire_flag_refuses": lambda s, k: s.expire(k, 5, nx=True),
    "expire_gt": lambda s, k: s.expire(k, 5, gt=True),
    "pexpire_lt": lambda s, k: s.pexpire(k, 5, lt=True),
    "get_default": lambda s, k: s.get(k, 7),
}
REFUSED = {name: call for name, call in BY_KEY.items() if name not in ALLOWED} | MORE_REFUSED


def verdicts(rig, kind, key="k"):
    """Verdicts and TTLs from here on: two entries are the same if these are. Uses up the entry."""
    found = [rig.store.type(key), rig.store.pttl(key)]
    for cost, step_ns in ((0, 0), (2, 1), (9, 5 * 10**8), (1, 3 * 10**9 + 1), (5, 10**9), (9, 7 * 10**9), (9, 1)):
        found.append(HITS[kind](rig.store, key, cost))
        rig.advance_ns(step_ns)
    return found


def pair(make):
    """Two equal stores; what is done to the first must leave it equal to the second."""
    rigs = CORE.make(5), CORE.make(5)
    for rig in rigs:
        make(rig.store, "k")
        rig.advance_ns(8 * 10**9)
    return rigs


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", REFUSED)
def test_limiter_entry_refuses_a_counters_command_and_is_unchanged(kind, name):
    rig, untouched = pair(MAKERS[kind])
    with pytest.raises(goblin.WrongTypeError, match=WRONG_TYPE):
        REFUSED[name](rig.store, "k")
    assert len(rig.store) == 1
    rig.store._check()
    assert verdicts(rig, kind) == verdicts(untouched, kind)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", ALLOWED)
def test_limiter_entry_allows_what_concerns_the_key_or_replaces_it(kind, name):
    rig, untouched = pair(MAKERS[kind])
    expected, becomes = ALLOWED[name]
    reply = BY_KEY[name](rig.store, "k")
    assert expected is None or reply == expected and type(reply) is type(expected)
    if becomes == "left":
        assert verdicts(rig, kind) == verdicts(untouched, kind)
    elif becomes == "replaced":
        assert rig.store.type("k") == "counter" and rig.store.get("k") == 5 and rig.store.ttl("k") == -1
    else:
        assert rig.store.type("k") is None and "k" not in rig.store and len(rig.store) == 0
    rig.store._check()


@pytest.mark.parametrize("kind", MAKERS)
def test_limiter_entry_is_replaced_by_set_with_a_ttl(kind):
    rig, _ = pair(MAKERS[kind])
    assert rig.store.set("k", -3, ex=7) is True
    assert (rig.store.get("k"), rig.store.ttl("k"), rig.store.type("k")) == (-3, 7, "counter")
    with pytest.raises(goblin.WrongTypeError):
        MAKERS[kind](rig.store, "k")


@pytest.mark.parametrize("mine", HITS)
@pytest.mark.parametrize("other", HITS)
@pytest.mark.parametrize("cost", [0, 1, 9])
def test_algorithms_refuse_each_others_entries_and_leave_them_unchanged(mine, other, cost):
    if mine == other:
        return
    rig, untouched = pair(lambda s, k: HITS[mine](s, k, 8))
    with pytest.raises(goblin.WrongTypeError, match=WRONG_TYPE):
        HITS[other](rig.store, "k", cost)
    rig.store._check()
    assert verdicts(rig, mine) == verdicts(untouched, mine)


@pytest.mark.parametrize("kind", HITS)
def test_never_is_said_before_the_state_is_looked_at(kind):
    """The state may be of any kind: what can never pass is told so."""
    for other in HITS:
        rig, untouched = pair(lambda s, k, other=other: HITS[other](s, k, 8))
        assert HITS[kind](rig.store, "k", 10) == NEVER
        assert verdicts(rig, other) == verdicts(untouched, other)


@pytest.mark.parametrize("kind", MAKERS)
def test_expired_entry_of_another_kind_is_absent(kind):
    for name, call in (REFUSED | BY_KEY).items():
        rig, fresh = CORE.make(), CORE.make()
        MAKERS[kind](rig.store, "k")
        rig.advance(100)
        fresh.advance(100)
        replies = []
        for store in (rig.store, fresh.store):
            try:
                replies.append(call(store, "k"))
            except (KeyError, OverflowError) as error:
                replies.append(type(error))
        assert replies[0] == replies[1], name
        assert rig.store.type("k") == fresh.store.type("k")
        for other in HITS:
            rig.store.delete("k")
            MAKERS[kind](rig.store, "k")
            rig.advance(100)
            assert HITS[other](rig.store, "k", 4) == 5
            assert rig.store.type("k") == other


def test_type_names_the_kind_or_none():
    rig = CORE.make()
    assert rig.store.type("k") is None
    rig.store.set("counter", 1)
    rig.store.fixed_window("fixed", 1, 1)
    rig.store.sliding_window("sliding", 1, 1)
    rig.store.gcra("gcra", 1, 1)
    assert [rig.store.type(key) for key in ("counter", b"fixed", "sliding", "gcra")] == [
        "counter",
        "counter",
        "sliding-window",
        "gcra",
    ]
    rig.advance(2)
    assert [rig.store.type(key) for key in ("counter", "fixed", "sliding", "gcra")] == ["counter", None, None, None]
    for key in (None, 5, ("k",), "\ud800"):
        with pytest.raises((TypeError, UnicodeEncodeError)):
            rig.store.type(key)


def test_iteration_lists_every_kind_but_items_and_most_common_only_counters():
    store = CORE.make().store
    for number in range(300):
        for kind, hit in HITS.items():
            hit(store, f"{kind}:{number}", number % 9 + 1)
    assert len(store) == len(set(store)) == len(list(store.scan_iter())) == 900
    assert len(list(store.scan_iter("gcra:*"))) == 300
    assert dict(store.items()) == {f"counter:{number}": number % 9 + 1 for number in range(300)}
    top = store.most_common()
    assert len(top) == 300 and all(key.startswith("counter:") for key, _ in top) and top[0][1] == 9
    assert len(store.most_common(1_000)) == 300 and len(store.most_common(5)) == 5


def test_refused_or_looking_hits_make_no_key():
    store = CORE.make().store
    for hit in HITS.values():
        assert hit(store, "k", 0) == 9
        assert hit(store, "k", 10) == NEVER
    assert store.fixed_window("k", 0, 10) == store.sliding_window("k", 0, 10) == store.gcra("k", 0, 10) == NEVER
    assert store.fixed_window("k", 0, 10, 0) == store.sliding_window("k", 0, 10, 0) == store.gcra("k", 0, 10, 0) == 0
    assert store.gcra("k", 0, 10, 0, burst=5) == 0 and store.gcra("k", 0, 10, 1, burst=5) == NEVER
    assert len(store) == 0 and store.type("k") is None


def test_wrong_type_error_is_a_type_error_of_its_own():
    assert issubclass(goblin.WrongTypeError, TypeError) and goblin.WrongTypeError.__module__.startswith("goblin")


# Memory: a limiter's entries are entries like others.


@pytest.mark.parametrize("kind", MAKERS)
def test_limiter_entries_expire_and_are_reclaimed(kind):
    rig = CORE.make()
    for number in range(50_000):
        MAKERS[kind](rig.store, f"user:{number}")
        if number % 1_000 == 999:
            rig.advance(10)
    assert len(rig.store) < 5_000
    rig.advance(30)
    rig.store.sweep()
    assert len(rig.store) == 0
    rig.store._check()
