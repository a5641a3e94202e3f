"""How a limiter's keys are written: the same bytes in every version and on every kind of store, and no two meet."""

import enum
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import goblin
from engines import CORE
from goblin import Limit, RateLimiter
from scale import size


def written(limits, key, algorithm="fixed-window", name=""):
    """The keys that one hit leaves in the store, as bytes."""
    store = CORE.make().store
    assert RateLimiter(limits, algorithm=algorithm, store=store, name=name).hit(key)
    return {found if isinstance(found, bytes) else found.encode() for found in store}


class Number(enum.IntEnum):
    THREE = 3


class Text(str):
    def __str__(self):
        raise AssertionError("user code ran")

    __repr__ = __hash__ = __eq__ = __str__


class Count(int):
    def __repr__(self):
        raise AssertionError("user code ran")

    __str__ = __index__ = __hash__ = __repr__


class Pair(NamedTuple):
    user: str
    path: str


@pytest.mark.parametrize(
    ("limits", "key", "algorithm", "name", "expected"),
    [
        ("10/minute", "ann", "fixed-window", "", b":fixed:10/60s:{=ann}"),
        ("10/minute", "ann", "fixed-window", "api", b"api:fixed:10/60s:{=ann}"),
        ("10/minute", "ann", "sliding-window", "api", b"api:sliding:10/60s:{=ann}"),
        ("10/minute", "ann", "sliding-window-counter", "api", b"api:sliding:10/60s:{=ann}"),
        ("10/minute", "ann", "gcra", "api", b"api:gcra:10/60s:{=ann}"),
        ("10/minute", "ann", "token-bucket", "api", b"api:gcra:10/60s:{=ann}"),
        ("10/minute burst 20", "ann", "gcra", "", b":gcra:10/60s^20:{=ann}"),
        ("10/minute burst 10", "ann", "gcra", "", b":gcra:10/60s:{=ann}"),
        ("5 per 500ms", "k", "fixed-window", "", b":fixed:5/500000000ns:{=k}"),
        ("5 per 1500ms", "k", "fixed-window", "", b":fixed:5/1500000000ns:{=k}"),
        ("5 per 2000ms", "k", "fixed-window", "", b":fixed:5/2s:{=k}"),
        ("5/month", "k", "fixed-window", "", b":fixed:5/2592000s:{=k}"),
        (Limit(5, None), "k", "fixed-window", "", b":fixed:5/never:{=k}"),
        (Limit(1, 1e-9), "k", "gcra", "", b":gcra:1/1ns:{=k}"),
        ("1/second", "", "fixed-window", "", b":fixed:1/1s:{=}"),
        ("1/second", "ä", "fixed-window", "", b":fixed:1/1s:{=\xc3\xa4}"),
        ("1/second", "a\0b", "fixed-window", "", b":fixed:1/1s:{=a\0b}"),
        ("1/second", "}{", "fixed-window", "", b":fixed:1/1s:{=}{}"),
        ("1/second", b"ann", "fixed-window", "", b":fixed:1/1s:{=ann}"),
        ("1/second", b"\xff", "fixed-window", "", b":fixed:1/1s:{=\xff}"),
        ("1/second", 5, "fixed-window", "", b":fixed:1/1s:{#5}"),
        ("1/second", -5, "fixed-window", "", b":fixed:1/1s:{#-5}"),
        ("1/second", 2**70, "fixed-window", "", b":fixed:1/1s:{#1180591620717411303424}"),
        ("1/second", "5", "fixed-window", "", b":fixed:1/1s:{=5}"),
        ("1/second", "#5", "fixed-window", "", b":fixed:1/1s:{=#5}"),
        ("1/second", ("a", 1), "fixed-window", "", b":fixed:1/1s:{('a', 1)}"),
        ("1/second", ("a",), "fixed-window", "", b":fixed:1/1s:{('a',)}"),
        ("1/second", ("a", b"b", -1), "fixed-window", "", b":fixed:1/1s:{('a', b'b', -1)}"),
        ("1/second", (), "fixed-window", "", b":fixed:1/1s:{()}"),
        ("1/second", ("ä", "日", "'", '"'), "fixed-window", "", rb""":fixed:1/1s:{('\xe4', '\u65e5', "'", '"')}"""),
        ("1/second", ("\ud800",), "fixed-window", "", rb":fixed:1/1s:{('\ud800',)}"),
        ("1/second", "ann", "fixed-window", "a:b", b"a:b:fixed:1/1s:{=ann}"),
        ("1/second", "ann", "fixed-window", "ä", b"\xc3\xa4:fixed:1/1s:{=ann}"),
    ],
)
def test_key_is_written_byte_for_byte(limits, key, algorithm, name, expected):
    assert written(limits, key, algorithm, name) == {expected}


def test_key_of_a_subclass_counts_by_its_content_and_none_of_its_code_runs():
    for key, expected in (
        (Text("ann"), b":fixed:1/1s:{=ann}"),
        (Number.THREE, b":fixed:1/1s:{#3}"),
        (Count(7), b":fixed:1/1s:{#7}"),
        ((Text("ann"), Number.THREE, Count(7)), b":fixed:1/1s:{('ann', 3, 7)}"),
        (Pair("ann", "/"), b":fixed:1/1s:{('ann', '/')}"),
    ):
        assert written("1/second", key) == {expected}


def test_key_of_several_limits_is_one_entry_each_with_one_hash_tag():
    """What stands between the first { and the next } is what a cluster places a key by: the same for all limits."""
    for key in ("ann", "a}b", "{}", ("a", 1), 5, ""):
        keys = written("1/second; 10/minute; 10/minute; 100/hour", key, name="n")
        assert len(keys) == 3
        tags = {entry[entry.index(b"{") + 1 : entry.index(b"}", entry.index(b"{"))] for entry in keys}
        assert len(tags) == 1 and tags != {b""}


@pytest.mark.parametrize("name", ["{", "}", "a{b}", "x}"])
def test_name_with_braces_raises_valueerror(name):
    with pytest.raises(ValueError, match="name="):
        RateLimiter("1/second", name=name)


@pytest.mark.parametrize("name", [None, 5, b"api", ("a",)])
def test_name_of_another_type_raises_typeerror(name):
    with pytest.raises(TypeError, match="name"):
        RateLimiter("1/second", name=name)


BAD_KEYS = [None, 1.5, True, False, [], {}, object(), bytearray(b"a"), frozenset()]
BAD_PARTS = [("a", None), (1.5,), (True,), ("a", ("b",)), (["a"],), (bytearray(b"a"),), (object(), 1)]


@pytest.mark.parametrize("key", BAD_KEYS + BAD_PARTS, ids=repr)
def test_key_of_another_type_raises_typeerror_that_names_it(key):
    store = CORE.make().store
    limiter = RateLimiter("1/second; 2/hour", store=store)
    culprit = (
        next((part for part in key if type(part) not in (str, bytes, int)), None) if isinstance(key, tuple) else key
    )
    for call in (limiter.hit, limiter.allow, limiter.peek, limiter.reset, limiter.acquire):
        with pytest.raises(TypeError, match=f"key.* not {type(culprit).__name__}"):
            call(key)
    assert len(store) == 0


def test_key_that_has_no_bytes_or_too_many_raises():
    store = CORE.make().store
    limiter = RateLimiter("1/second; 2/hour", store=store, name="n" * 100)
    for call in (limiter.hit, limiter.allow, limiter.peek, limiter.reset, limiter.acquire):
        with pytest.raises(UnicodeEncodeError):
            call("\ud800")
        for key in ("k" * 65_536, b"k" * 65_536, "k" * 65_500, ("k" * 65_500,)):
            with pytest.raises(ValueError, match="key is too long: [0-9]+ bytes .*65535"):
                call(key)
    assert len(store) == 0
    overhead = len(b"n" * 100 + b":fixed:2/3600s:{=}")
    assert limiter.hit("k" * (65_535 - overhead)) and len(store) == 2
    with pytest.raises(ValueError):
        limiter.hit("k" * (65_536 - overhead))


@pytest.mark.parametrize("length", [0, 1, 19, 20, 21, 100, 200, 400, 500, 600, 5_000])
@pytest.mark.parametrize("count", [1, 2, 4, 5, 9])
def test_key_of_any_length_and_any_number_of_limits_is_one_budget(length, count):
    """Short keys are put together on the stack and long ones are not: the same keys."""
    store = CORE.make().store
    limiter = RateLimiter([Limit(3, period) for period in range(1, count + 1)], store=store)
    key = "k" * length
    assert [limiter.allow(key), bool(limiter.hit(key)), limiter.acquire(key).allowed] == [True] * 3
    assert not limiter.allow(key.encode()) and len(store) == count
    assert limiter.peek("other") and limiter.reset(key) is True and len(store) == 0


def test_key_bytes_of_a_str_are_its_utf8_whatever_its_width():
    for text in ("a", "ä", "日", "\U0001f600", "a" * 50 + "日"):
        limiter = RateLimiter("2/second", store=CORE.make().store)
        assert limiter.hit(text).remaining == 1 and limiter.hit(text.encode()).remaining == 0


def test_key_in_the_decision_is_what_was_given():
    limiter = RateLimiter("5/second", store=CORE.make().store)
    for key in ("ann", b"ann", 5, ("a", 1)):
        assert limiter.hit(key).key is key


# No two meet

alphabet = st.sampled_from(list("ab:{}=#/^s0189,'\"\\( )") + ["ä", "\0", "fixed", "gcra", "10/60s", ":{=", "('a',)"])
texts = st.lists(alphabet, max_size=4).map("".join)
parts = texts | texts.map(str.encode) | st.integers(-3, 12)
keys = parts | st.lists(parts, max_size=3).map(tuple)
names = texts.map(lambda text: text.replace("{", "").replace("}", ""))
limits = st.builds(
    lambda amount, period, burst: Limit.parse(f"{amount} per {period}ns" + (f" burst {burst}" if burst else "")),
    st.integers(1, 12),
    st.sampled_from([1, 6, 60, 10**9, 6 * 10**9, 60 * 10**9]),
    st.integers(0, 12),
)
algorithms = st.sampled_from(["fixed-window", "sliding-window", "gcra"])


def identity(key):
    """Keys are the same where these are: a str is its bytes; the parts of a tuple keep their types."""
    if isinstance(key, tuple):
        return ("tuple", tuple((type(part).__name__, part) for part in key))
    return ("int", key) if isinstance(key, int) else ("text", key.encode() if isinstance(key, str) else key)


@settings(max_examples=size(400, soak=10_000), deadline=None)
@given(
    one=st.tuples(limits, algorithms, names, keys),
    other=st.tuples(limits, algorithms, names, keys),
    shared=st.tuples(*[st.booleans()] * 4),
)
@example(
    one=(Limit(1, 1), "gcra", "", ("a:b", "c")),
    other=(Limit(1, 1), "gcra", "", ("a", "b:c")),
    shared=(True,) * 3 + (False,),
)
@example(
    one=(Limit(1, 1), "gcra", "", "('a',)"), other=(Limit(1, 1), "gcra", "", ("a",)), shared=(True,) * 3 + (False,)
)
@example(one=(Limit(1, 1), "gcra", "", "5"), other=(Limit(1, 1), "gcra", "", 5), shared=(True,) * 3 + (False,))
def test_no_two_different_keys_limits_algorithms_or_names_meet(one, other, shared):
    other = tuple(mine if same else theirs for mine, theirs, same in zip(one, other, shared, strict=True))

    def encode(limit, algorithm, name, key):
        if algorithm != "gcra":
            limit = (
                Limit(limit.amount, 1)
                if limit.period_ns == 10**9
                else Limit.parse(f"{limit.amount} per {limit.period_ns}ns")
            )
        return written(limit, key, algorithm, name), (limit, algorithm, name, identity(key))

    (first, mine), (second, theirs) = encode(*one), encode(*other)
    assert (first == second) == (mine == theirs)


def test_limiters_of_different_algorithms_on_one_store_do_not_meet():
    store = goblin.Counters()
    for algorithm in ("fixed-window", "sliding-window", "gcra"):
        limiter = RateLimiter("1/hour", algorithm=algorithm, store=store)
        assert limiter.allow("k") and not limiter.allow("k")
