"""The whole store: len, iteration, items, scan_iter and its patterns, most_common, sweep, clear."""

import platform

import pytest

from engines import IN_PROCESS
from rows import do, gives, row, state, table

ODD_KEYS = ["", "a", "\0", "a\0b", "ä", "日本", b"\xff", b"a\xff\0"]
ODD_KEYS += ["k" * length for length in (19, 20, 21, 22, 65_535)]  # 20 bytes fit into a record of the core


def spelt_as_bytes(key):
    return key.encode() if isinstance(key, str) else key


def test_iteration_every_kind_of_key_comes_back_as_str_where_it_is_utf8(store):
    for number, key in enumerate(ODD_KEYS):
        store.set(spelt_as_bytes(key), number)
    assert sorted(store, key=spelt_as_bytes) == sorted(ODD_KEYS, key=spelt_as_bytes)
    assert {key: value for key, value in store.items()} == {key: n for n, key in enumerate(ODD_KEYS)}
    for key in store:  # what comes back finds the same counter
        assert store.incr(key, 0) == ODD_KEYS.index(key)
        assert store.get(spelt_as_bytes(key)) == ODD_KEYS.index(key)
    assert len(store) == len(ODD_KEYS)


def test_iteration_expired_keys_do_not_come(store, advance):
    store.set("short", 1, px=30)
    store.set("long", 2, ex=60)
    store.set("ever", 3)
    advance(0.03)
    assert sorted(store) == ["ever", "long"]
    assert sorted(store.scan_iter()) == ["ever", "long"]
    assert sorted(store.items()) == [("ever", 3), ("long", 2)]


def test_iteration_of_an_empty_store_ends_at_once(store):
    assert list(store) == list(store.items()) == list(store.scan_iter()) == []


@pytest.mark.parametrize("count", [1, 100, 5_000, 20_000])
def test_iteration_any_size_returns_each_key_once(count, store):
    store.mset({f"key:{n}": n for n in range(count)})
    seen = list(store)
    assert len(seen) == count and set(seen) == {f"key:{n}" for n in range(count)}
    assert sum(value for _, value in store.items()) == count * (count - 1) // 2


VIEWS = {
    "iter": iter,
    "scan_iter": lambda s: s.scan_iter(),
    "scan_iter_match": lambda s: s.scan_iter(match="old:*"),
    "items": lambda s: (key for key, _ in s.items()),
}


@pytest.mark.needs("beyond_redis")
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("change", ["delete", "add", "both", "clear", "expire"])
def test_iteration_while_the_store_changes_returns_what_stays_exactly_once(view, change, store, advance):
    kept = {f"old:keep:{n}" for n in range(200)}
    gone = [f"old:drop:{n}" for n in range(8_000)]
    store.mset({key: 1 for key in kept})
    for key in gone:
        store.set(key, 1, ex=5)
    seen, added = [], 0
    for step, key in enumerate(VIEWS[view](store)):
        seen.append(key)
        if change in ("delete", "both") and gone:
            store.delete(*(gone.pop() for _ in range(min(len(gone), 97))))
        if change in ("add", "both") and added < 20_000:
            store.mset({f"old:new:{added + n}": 1 for n in range(211)})
            added += 211
        if change == "clear" and step == 50:
            store.clear()
        if change == "expire" and step == 50:
            advance(5)
    assert len(seen) == len(set(seen)), "a key came twice"
    if change == "clear":
        assert len(seen) <= 8_200 and state(store) == {}
    else:
        assert kept <= set(seen)


def test_iteration_two_at_once_do_not_disturb_each_other(store):
    store.mset({f"k{n}": n for n in range(50)})
    pairs = {(one, two) for one in store for two in store}
    assert len(pairs) == 2_500


def test_iteration_abandoned_half_way_leaves_the_store_usable(store, engine):
    store.mset({f"k{n}": n for n in range(10_000)})
    for _ in range(100 if engine in IN_PROCESS else 5):  # a server sends a thousand keys to begin with
        for _ in store:
            break
        next(iter(store.items()))
        next(iter(store.scan_iter(match="k*")))
    assert store.incr("k5") == 6
    store._check()


@pytest.mark.needs("beyond_redis")
def test_most_common_of_what_has_expired_or_of_nothing_is_empty(store, advance):
    assert store.most_common() == []
    store.set("short", 1, ex=1)
    store.set("ever", -3)
    advance(1)
    assert store.most_common() == store.most_common(2) == [("ever", -3)]


@pytest.mark.needs("beyond_redis")
def test_most_common_sorts_by_value_and_cuts(store):
    store.mset({"a": 5, "b": -1, "c": 7, "d": 0})
    assert store.most_common() == [("c", 7), ("a", 5), ("d", 0), ("b", -1)]
    assert store.most_common(2) == store.most_common(n=2) == [("c", 7), ("a", 5)]
    assert store.most_common(0) == [] and len(store.most_common(99)) == 4
    store.mset({f"t{n}": 9 for n in range(5)})
    top = store.most_common(5)
    assert {key for key, _ in top} == {f"t{n}" for n in range(5)}
    assert store.most_common(6)[5] == ("c", 7)
    assert len(store.most_common(3)) == 3


@pytest.mark.needs("beyond_redis")
def test_most_common_extreme_values_are_ordered_exactly(store):
    values = [2**63 - 1, 2**63 - 2, 2**53 + 1, 2**53, 0, -(2**53), -(2**63) + 1, -(2**63)]
    store.mset({str(value): value for value in reversed(values)})
    assert [value for _, value in store.most_common()] == values
    assert [value for _, value in store.most_common(3)] == values[:3]


@pytest.mark.needs("python_arguments")
@pytest.mark.parametrize("n", ["3", 1.5, True, b"3"])
def test_most_common_of_no_number_raises_typeerror(n, store):
    with pytest.raises(TypeError, match="n="):
        store.most_common(n)


@pytest.mark.needs("beyond_redis")
def test_sweep_reclaims_what_has_expired_and_says_how_many(store, advance):
    store.mset({f"ever{n}": 1 for n in range(10)})
    assert store.sweep() == 0
    for n in range(30):
        store.set(f"short{n}", 1, ex=1)
    advance(1)
    # Some may have been reclaimed on the way: what sweep() says is what it took away.
    stored = len(store)
    assert store.sweep() == stored - 10
    assert len(store) == 10 and store.sweep() == 0
    assert store.stats().expired == 30


def test_clear_empties_the_store_and_its_ttls(store):
    store.mset({f"k{n}": n for n in range(1_000)})
    store.increx("w", 60)
    assert store.clear() is None
    assert len(store) == 0 and list(store) == [] and store.ttl("w") == -2
    assert store.increx("w", 30) == 1 and store.ttl("w") == 30
    store.clear()
    store.clear()


def test_len_counts_keys_not_calls(store):
    assert len(store) == 0
    for _ in range(3):
        store.incr("a")
        store.incr(b"a")
        store.incr("b")
    assert len(store) == 2
    store.delete("a")
    assert len(store) == 1


# Redis' glob rules.
MATCHES = [
    # pattern, keys that match, keys that do not
    ("*", ["", "a", "a/b", "\n", b"\xff"], []),
    ("", [""], ["a"]),
    ("a", ["a"], ["", "A", "aa", "b"]),
    ("?", ["a", "?", "\0", b"\xff"], ["", "ab", "ä"]),
    ("??", ["ab", "ä"], ["a", "abc"]),
    ("a*", ["a", "ab", "a*"], ["", "ba"]),
    ("*a", ["a", "ba", "aa"], ["", "ab"]),
    ("*a*", ["a", "bab", "xa"], ["", "b"]),
    ("a**b", ["ab", "axb", "abb"], ["a", "ba"]),
    ("***a", ["a", "xxa"], ["b", ""]),
    ("a***", ["a", "abc"], ["b", ""]),
    ("*a*b*c*", ["abc", "xaybzc!", "aabbcc"], ["acb", "ab"]),
    ("a?c", ["abc", "a?c"], ["ac", "abbc"]),
    ("user:*:hits", ["user:1:hits", "user::hits", "user:a:b:hits"], ["user:hits", "user:1:hit"]),
    ("[abc]", ["a", "b", "c"], ["d", "", "ab", "[abc]"]),
    ("[a-c]x", ["ax", "cx"], ["dx", "-x", "a"]),
    ("[c-a]", ["a", "b", "c"], ["d", "-"]),
    ("[^a]", ["b", "^", "\0"], ["a", ""]),
    ("[^a-c]", ["d", "-"], ["a", "b", "c"]),
    ("[a^]", ["a", "^"], ["b"]),
    ("[!a]", ["!", "a"], ["b"]),
    ("[-a]", ["-", "a"], ["b"]),
    ("[a-]", ["a", "]", "^", "_", "`"], ["-", "b", "a]"]),
    ("[a-]]", ["a", "]"], ["-", "a]"]),
    ("[]", [], ["", "[]", "]"]),
    ("[]a]", [], ["a", "]", "]a]", "a]"]),
    ("[^]", ["a", "]", "^"], ["", "ab"]),
    ("[^]a", ["xa", "]a"], ["a", "]"]),
    ("[", [], ["[", "", "a"]),
    ("[^", ["a", "[", "^"], ["", "[^"]),
    ("[a", ["a"], ["[a", "b"]),
    ("[abc", ["a", "b", "c"], ["[abc", "d"]),
    ("[a-c", ["a", "b", "c"], ["-"]),
    ("[a-", ["a", "-"], ["b"]),
    ("x[", [], ["x", "x["]),
    ("[\\]]", ["]"], ["\\", "a"]),
    ("[\\-a]", ["-", "a"], ["\\", "b"]),
    ("[\\a-c]", ["a", "-", "c"], ["b", "\\"]),
    ("[a-\\c]", ["a", "c", "]", "\\"], ["b", "-"]),
    ("[\\^a]", ["^", "a"], ["b", "\\"]),
    ("[^\\]]", ["a", "\\"], ["]"]),
    ("[\\", ["\\"], ["[", "a"]),
    ("[*]", ["*"], ["a", ""]),
    ("[?]", ["?"], ["a"]),
    ("[a][b]", ["ab"], ["a", "b", "ba"]),
    ("\\*", ["*"], ["a", "\\*", ""]),
    ("\\?", ["?"], ["a"]),
    ("\\[a]", ["[a]"], ["a"]),
    ("\\a", ["a"], ["\\a"]),
    ("\\\\", ["\\"], ["\\\\"]),
    ("\\", ["\\"], ["", "a"]),
    ("a\\", ["a\\"], ["a"]),
    ("*\\", ["\\", "a\\"], ["a"]),
    ("]", ["]"], ["a"]),
    ("a]", ["a]"], ["a"]),
    ("^a", ["^a"], ["a", "b"]),
    ("{a,b}", ["{a,b}"], ["a", "b"]),
    ("a\0*", ["a\0", "a\0b"], ["a", "ab"]),
    ("ä*", ["ä", "äx"], ["a", "Ä"]),
    (b"\xc3*", ["ä", "Ä", b"\xc3"], ["a"]),
    (b"[\x80-\xff]", [b"\x80", b"\xc3", b"\xff"], ["a", "\x7f", "ä"]),
]  # fmt: skip

# Where Redis differs: pattern, keys that match, keys that do not, what Redis finds among all of them, why.
CHAR_IS_SIGNED = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
NOT_OF_STARS = "two stars or more do not match the empty key, though one does"
SIGNED = "compares bytes as C's char, which is signed on x86: 0x80 and above come before 0"
DIFFERENT_MATCHES = [("**", ["", "a", "ab"], [], ["a", "ab"], NOT_OF_STARS)]
DIFFERENT_MATCHES += [("***", ["", "a"], [], ["a"], NOT_OF_STARS)]
if CHAR_IS_SIGNED:
    DIFFERENT_MATCHES += [
        (b"[a-\xff]", ["a", "z", b"\xff"], ["A", "0"], ["0", "A", "a", b"\xff"], SIGNED),
        (b"[^a-\xff]", ["A", "0"], ["a", "z", b"\xff"], ["z"], SIGNED),
        (b"[a-\x80]", ["a", "z", b"\x80"], ["A", b"\xff"], ["a", "A", b"\x80", b"\xff"], SIGNED),
    ]


class pattern(row):
    """A row of one pattern: the keys that it finds, and those that it does not."""

    def __init__(self, glob, yes, no, on_redis=None, reason=""):
        # A store on a server lets it match; but its keys have a prefix, so that none is empty.
        names = ["redis"] if reason == NOT_OF_STARS else ["redis", "redis-store", "valkey-store"]
        differs = {} if on_redis is None else {name: (gives(on_redis), reason) for name in names}
        keys = {spelt_as_bytes(key): 1 for key in [*yes, *no]}
        super().__init__(repr(glob), do("mset", keys).gives(None), do("scan_iter", glob).gives(yes, differs=differs))

    def run(self, engine):
        fill, find = self.steps
        rig = engine.make()
        fill.run(rig, engine)
        outcome, _ = find.differs.get(engine.name, (find.outcome, ""))
        (glob,) = find.args
        for spelling in {glob, spelt_as_bytes(glob)}:
            found = sorted(rig.store.scan_iter(match=spelling), key=spelt_as_bytes)
            assert found == sorted(outcome.value, key=spelt_as_bytes)


@table(*(pattern(*match) for match in [*MATCHES, *DIFFERENT_MATCHES]))
def test_scan_iter_pattern_matches_as_redis_does(row, engine):
    row.run(engine)


def test_scan_iter_without_a_pattern_is_iteration(store):
    store.mset({"a": 1, b"\xff": 2})
    assert set(store.scan_iter()) == set(store.scan_iter(None)) == set(store.scan_iter(match=None)) == {"a", b"\xff"}


@pytest.mark.parametrize("pattern", ["a*" * 40 + "b", "*" + "a*" * 400 + "b", "*a" * 4_000 + "b", "?*" * 900 + "[^a]"])
def test_scan_iter_abusive_pattern_ends(pattern, store):
    """Patterns that take a backtracking matcher for ever; a key of 2,000 a's that all but matches."""
    store.set("a" * 2_000, 1)
    assert list(store.scan_iter(match=pattern)) == []


@pytest.mark.needs("python_arguments")
@pytest.mark.parametrize("pattern", [5, 1.5, True, ["a"], bytearray(b"a")])
def test_scan_iter_pattern_of_another_type_raises_typeerror(pattern, store):
    with pytest.raises(TypeError, match=f"match must be .*str.* bytes.* not {type(pattern).__name__}"):
        list(store.scan_iter(match=pattern))
