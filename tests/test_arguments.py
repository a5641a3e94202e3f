"""What each argument may be, in every method that takes one, and what the message says when it may not.

Every test here also looks that nothing has changed: a call that raises leaves the store as it was.
"""

import datetime
import enum
import re
from decimal import Decimal
from fractions import Fraction

import pytest

from catalogue import (
    ADDERS,
    BY_KEY,
    INT64_MAX,
    INT64_MIN,
    INTEGERS,
    NUMBERS,
    POSITIVE_TIMES,
    SIGNED_TIMES,
    TIMES,
    VALUES,
    WRITERS,
)  # fmt: skip
from rows import state

pytestmark = pytest.mark.needs("python_arguments")

RANGE = rf"{INT64_MIN} to {INT64_MAX}"
NOT_INTEGER = "value is not an integer or out of range: "


class Index:
    """What NumPy's integers are: no int, but with __index__."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number

    def __repr__(self):
        raise AssertionError("a user's __repr__ ran")

    __str__ = __repr__


class OnlyInt:
    def __int__(self):
        return 1

    def __float__(self):
        return 1.0

    def __repr__(self):
        raise AssertionError("a user's __repr__ ran")

    __str__ = __repr__


class Colour(enum.IntEnum):
    RED = 3


class MyInt(int):
    def __repr__(self):
        raise AssertionError("a user's __repr__ ran")

    __str__ = __repr__

    def __int__(self):
        raise AssertionError("a user's __int__ ran")

    def __add__(self, other):
        raise AssertionError("a user's __add__ ran")

    __radd__ = __neg__ = __lt__ = __gt__ = __le__ = __ge__ = __add__


class MyStr(str):
    def __repr__(self):
        raise AssertionError("a user's __repr__ ran")

    __str__ = __hash__ = __eq__ = __len__ = __iter__ = __getitem__ = encode = __repr__


class MyBytes(bytes):
    def __repr__(self):
        raise AssertionError("a user's __repr__ ran")

    __str__ = __hash__ = __eq__ = __len__ = __iter__ = __getitem__ = __bytes__ = decode = __repr__


def by(mapping):
    return pytest.mark.parametrize("call", mapping.values(), ids=mapping.keys())


def numbers(mapping):
    rows = [(row[0], row[-1]) for row in mapping.values()]
    return pytest.mark.parametrize(("name", "call"), rows, ids=mapping.keys())


def assert_refused(store, error, pattern, call, *args):
    """It raises exactly this, the message matches from its beginning, and nothing has changed."""
    before = state(store)
    with pytest.raises(error) as caught:
        call(store, *args)
    assert type(caught.value) is error
    assert re.match(pattern, str(caught.value)), f"{str(caught.value)!r} is not {pattern!r}"
    assert state(store) == before
    store._check()


@pytest.fixture
def store(engine):
    """With a counter "k" of value 5 and a TTL of 100 s."""
    store = engine.make(10**9).store
    store.set("k", 5, ex=100)
    return store


# Keys


NO_KEYS = [None, 1, 1.5, True, ("a",), ["a", 1], bytearray(b"k"), memoryview(b"k"), object, Fraction(1, 2)]


@pytest.mark.parametrize("method", BY_KEY)
def test_key_of_another_type_raises_typeerror_naming_it(method, store):
    for key in NO_KEYS:
        if method == "mget" and hasattr(type(key), "__iter__"):
            continue  # an iterable of keys
        if method in ("mset", "mset_second") and type(key).__hash__ is None:
            continue  # no dict holds it
        assert_refused(store, TypeError, rf"key must be str or bytes, not .*{type(key).__name__}", BY_KEY[method], key)


@by(BY_KEY)
def test_key_without_a_utf8_form_raises_unicodeencodeerror(call, store):
    for key in ("\ud800", "a\udcff", "\udfff" * 100):
        assert_refused(store, UnicodeEncodeError, ".*surrogates not allowed", call, key)


@by(BY_KEY)
def test_key_longer_than_65535_bytes_raises_valueerror(call, store):
    for key, size in (("x" * 65_536, 65_536), (b"x" * 70_000, 70_000), ("ä" * 32_768, 65_536)):
        assert_refused(store, ValueError, rf"key is too long: {size} bytes \(allowed: at most 65535\)", call, key)


@by(ADDERS | WRITERS)
def test_key_of_65535_bytes_is_legal(call, store):
    for key in ("x" * 65_535, b"y" * 65_535, "ä" * 32_767 + "z"):
        store.set(key, 5)
        call(store, key)
        assert store.get(key) >= 3


@by(BY_KEY)
def test_key_subclass_counts_by_its_content_and_runs_no_method(call, engine):
    for key in (MyStr("k"), MyBytes(b"k")):
        one, other = engine.make().store, engine.make().store
        if call in (BY_KEY["mset"], BY_KEY["mset_second"]):
            continue  # a dict would itself hash such a key
        for store in (one, other):
            store.set("k", 5, ex=100)
        assert call(one, key) == call(other, "k")
        assert state(one) == state(other)


def test_key_subclass_in_a_mapping_counts_by_its_content(store):
    class Pairs:
        def items(self):
            return [(MyStr("a"), 1), (MyBytes(b"b"), 2)]

    store.mset(Pairs())
    assert store.mget("a", "b") == [1, 2]


def test_key_str_and_its_utf8_bytes_are_one_counter(store):
    for text in ("", "a", "a\0b", "ä", "日本語", "\U0001f600", "x" * 20, "x" * 21):
        store.delete(text)
        assert store.incr(text) == 1
        assert store.incr(text.encode()) == 2
        assert store.get(text) == store[text.encode()] == 2
        assert store.mget(text, text.encode()) == [2, 2]
        assert store.exists(text, text.encode()) == 2
        assert store.delete(text.encode(), text) == 1


def test_key_latin1_bytes_are_another_counter_than_the_text(store):
    store.incr("ÿ")
    assert b"\xff" not in store and b"\xc3\xbf" in store


# Integers

NO_INTEGERS = [
    (1.9, r"1\.9 \(float\)"),
    (2.0, r"2\.0 \(float\)"),
    (float("nan"), r"nan \(float\)"),
    (float("inf"), r"inf \(float\)"),
    (True, r"True \(bool\)"),
    (False, r"False \(bool\)"),
    ("5", r"'5' \(str\)"),
    (b"5", r"b'5' \(bytes\)"),
    ("", r"'' \(str\)"),
    (Decimal(2), r"<(decimal\.)?Decimal>"),
    (Fraction(5, 2), r"<(fractions\.)?Fraction>"),
    (OnlyInt(), r"<.*OnlyInt>"),
    ([], r"<list>"),
    (object(), r"<object>"),
    (int, r"<type>"),
]


@numbers(NUMBERS)
def test_integer_of_another_type_raises_typeerror_naming_value_and_type(name, call, store):
    for number, shown in NO_INTEGERS:
        assert_refused(store, TypeError, rf"{NOT_INTEGER}{name}={shown}", call, number)


@numbers(INTEGERS | {name: SIGNED_TIMES[name] for name in ("increx", "pincrex", "expire", "pexpire")})
def test_integer_none_where_a_number_is_needed_raises_typeerror(name, call, store):
    assert_refused(store, TypeError, rf"{NOT_INTEGER}{name}=None \(NoneType\)", call, None)


@numbers(INTEGERS)
def test_integer_timedelta_where_no_time_is_meant_raises_typeerror(name, call, store):
    assert_refused(store, TypeError, rf"{NOT_INTEGER}{name}=<.*timedelta>", call, datetime.timedelta(seconds=1))


@numbers(NUMBERS)
def test_integer_outside_int64_raises_overflowerror_naming_it(name, call, store):
    for number in (2**63, -(2**63) - 1, 2**64, -(2**64) + 1, 2**127, -(2**70)):
        for form in (number, Index(number)):
            assert_refused(store, OverflowError, rf"{NOT_INTEGER}{name}={number} \(allowed: {RANGE}\)", call, form)


@numbers(NUMBERS)
def test_integer_of_many_bits_is_named_by_its_size(name, call, store):
    for number in (2**3_999, -(2**3_999), 2**99_999, 10**5_000):
        size = rf"<int of {number.bit_length()} bits>"
        assert_refused(store, OverflowError, rf"{NOT_INTEGER}{name}={size} \(allowed: {RANGE}\)", call, number)


@numbers(NUMBERS)
def test_integer_text_in_a_message_is_cut(name, call, store):
    with pytest.raises(TypeError) as caught:
        call(store, "x" * 100_000)
    assert "x" * 70 in str(caught.value) and len(str(caught.value)) < 300


@numbers(NUMBERS)
def test_integer_subclass_of_another_type_runs_no_user_repr(name, call, store):
    class Text(str):
        __repr__ = __str__ = MyStr.__repr__

    class Number(float):
        __repr__ = __str__ = MyStr.__repr__

    assert_refused(store, TypeError, rf"{NOT_INTEGER}{name}=.*\bText\b", call, Text("5"))
    assert_refused(store, TypeError, rf"{NOT_INTEGER}{name}=.*\bNumber\b", call, Number(5))


@numbers(NUMBERS)
@pytest.mark.parametrize("three", [Index(3), Colour.RED, MyInt(3)], ids=["__index__", "IntEnum", "int subclass"])
def test_integer_objects_with_index_are_taken(name, call, three, engine):
    one, other = engine.make().store, engine.make().store
    for store in (one, other):
        store.set("k", 5, ex=100)
    assert call(one, three) == call(other, 3)
    assert state(one) == state(other)


@numbers(NUMBERS)
def test_integer_own_exception_of_index_passes_through(name, call, store):
    class Refuses:
        def __index__(self):
            raise ZeroDivisionError("mine")

    class Wrong:
        def __index__(self):
            return "3"

    assert_refused(store, ZeroDivisionError, "mine", call, Refuses())
    before = state(store)
    with pytest.raises(TypeError):
        call(store, Wrong())
    assert state(store) == before


@pytest.mark.parametrize("name", NUMBERS)
def test_integer_index_that_changes_the_store_is_run_before_it_is_touched(name, engine):
    """The amount's own code deletes the key and adds hundreds: then the call itself runs, whole."""
    rig = engine.make()
    store, (_, call) = rig.store, NUMBERS[name]

    class Meddler:
        def __index__(self):
            store.delete("k")
            for n in range(300):
                store.incr(f"more{n}")
            return 3

    plain = engine.make().store
    store.set("k", 5, ex=100)
    assert call(store, Meddler()) == call(plain, 3)
    assert store.get("k") == plain.get("k") and store.ttl("k") == plain.ttl("k")
    store._check()


def test_integer_extremes_are_taken(store):
    assert store.incr("a", INT64_MAX) == INT64_MAX
    assert store.incr("b", INT64_MIN) == INT64_MIN
    assert store.incrbound("c", INT64_MIN, INT64_MAX) == INT64_MIN
    assert store.incrbound("d", INT64_MAX, INT64_MIN) == -1


# Values

NO_VALUES = [row for row in NO_INTEGERS if not isinstance(row[0], (str, bytes))]
NO_VALUES += [(None, r"None \(NoneType\)"), (bytearray(b"5"), r"<bytearray>")]
GOOD_TEXTS = ["0", "5", "-5", "10", "-10", "9223372036854775807", "-9223372036854775808", "1000000000000000000"]
BAD_TEXTS = [
    "", " ", "+5", " 5", "5 ", "05", "-05", "00", "-0", "+0", "--5", "-", "5.0", "5e3", "0x5", "1_000", "1,000",
    "5\n", "\n5", "5\0", "\0", "99\0x", "x", "5x", "None", "True", "inf", "nan", "٣", "５", "²", "−5",
    "9223372036854775808", "-9223372036854775809", "18446744073709551616", "1" * 100, "9" * 5_000, "ä", "\ud800",
]  # fmt: skip


@by(VALUES)
def test_value_canonical_text_is_the_integer(call, store):
    for text in GOOD_TEXTS:
        for value in (text, text.encode(), MyStr(text), MyBytes(text.encode())):
            store.delete("k")
            call(store, value)
            assert store.get("k") == int(text)


@by(VALUES)
def test_value_any_other_text_raises_valueerror(call, store):
    allowed = r".*\(allowed: a canonical base-10 integer.* " + RANGE + r"\)"
    for text in BAD_TEXTS:
        assert_refused(store, ValueError, NOT_INTEGER + allowed, call, text)
        if text != "\ud800":
            assert_refused(store, ValueError, NOT_INTEGER + allowed, call, text.encode())


def test_value_refused_text_is_shown(store):
    for method in (store.set, store.getset):
        with pytest.raises(ValueError, match=r"value='\+5' \(allowed"):
            method("k", "+5")
        with pytest.raises(ValueError, match=r"value=b'\+5' \(allowed"):
            method("k", b"+5")
        with pytest.raises(ValueError) as caught:
            method("k", "7" * 70 + "x" * 100_000)
        assert "7" * 70 in str(caught.value) and len(str(caught.value)) < 400
        with pytest.raises(ValueError, match=NOT_INTEGER):
            method("k", MyStr("+5"))


@by(VALUES)
def test_value_of_another_type_raises_typeerror(call, store):
    for value, shown in NO_VALUES:
        assert_refused(store, TypeError, rf"{NOT_INTEGER}.*={shown}", call, value)


@by(VALUES)
def test_value_outside_int64_raises_overflowerror(call, store):
    for value in (2**63, -(2**63) - 1, 2**64, Index(2**63)):
        assert_refused(store, OverflowError, rf"{NOT_INTEGER}.*=.* \(allowed: {RANGE}\)", call, value)


@by(VALUES)
def test_value_with_index_is_taken(call, store):
    for value in (Index(3), Colour.RED, MyInt(3)):
        store.delete("k")
        call(store, value)
        assert store.get("k") == 3 and type(store.get("k")) is int


# Times


def times(mapping):
    return pytest.mark.parametrize(("name", "unit_ns", "call"), mapping.values(), ids=mapping.keys())


@times(POSITIVE_TIMES)
def test_time_of_ex_px_not_positive_raises_valueerror(name, unit_ns, call, store):
    for _ in range(2):
        for number in (0, -1, -5, -9_000_000_000):
            assert_refused(store, ValueError, rf"invalid expire time: {name}={number} \(.*\)", call, number)
        store.delete("k")


@times(TIMES)
@pytest.mark.parametrize("where", ["ttl running", "no ttl", "absent", "at the top"])
def test_time_out_of_range_raises_valueerror_whatever_would_be_armed(name, unit_ns, call, where, engine):
    store = engine.make(10**9).store
    if where != "absent":
        store.set("k", INT64_MAX if where == "at the top" else 5, ex=100 if where == "ttl running" else None)
    largest = (2**63 - 2 - 10**9) // unit_ns  # at a clock of one second
    for number in (largest + 1, INT64_MAX):
        assert_refused(store, ValueError, rf"invalid expire time: {name}={number} \(.*\)", call, number)
    smallest = -(2**63 // unit_ns)
    for number in (smallest - 1, INT64_MIN):
        assert_refused(store, ValueError, rf"invalid expire time: {name}={number} \(.*\)", call, number)


@times(TIMES)
def test_time_largest_in_range_is_taken(name, unit_ns, call, engine):
    store = engine.make(10**9).store
    largest = (2**63 - 2 - 10**9) // unit_ns
    store.set("k", 0)
    call(store, largest)
    assert store.pttl("k") in (largest * unit_ns // 10**6, -1)  # nx, xx, gt may have had nothing to do


@times(SIGNED_TIMES)
def test_time_smallest_in_range_is_taken(name, unit_ns, call, engine):
    store = engine.make(10**9).store
    store.set("k", 0)
    call(store, -(2**63 // unit_ns))
    assert store.get("k") in (None, 0)


@times(TIMES)
def test_time_timedelta_is_exact_to_the_millisecond(name, unit_ns, call, engine):
    store = engine.make(10**9).store
    store.set("k", 0, ex=1 if "xx" in call.__code__.co_varnames else None)
    before = store.pttl("k")
    call(store, datetime.timedelta(hours=1, milliseconds=1))
    assert store.pttl("k") in (3_600_001, before)


@times(TIMES)
def test_time_timedelta_finer_than_a_millisecond_raises_valueerror(name, unit_ns, call, store):
    for time in (
        datetime.timedelta(microseconds=1),
        datetime.timedelta(milliseconds=1_500, microseconds=999),
        datetime.timedelta(microseconds=-1),
        datetime.timedelta.max,
    ):
        assert_refused(store, ValueError, rf"invalid expire time: {name}=", call, time)


@times(TIMES)
def test_time_timedelta_out_of_range_raises_valueerror(name, unit_ns, call, store):
    for days in (106_752, 999_999_999, -106_752, -999_999_999):
        assert_refused(store, ValueError, rf"invalid expire time: {name}=", call, datetime.timedelta(days=days))


@times(POSITIVE_TIMES)
def test_time_timedelta_not_positive_raises_valueerror(name, unit_ns, call, store):
    for time in (datetime.timedelta(0), datetime.timedelta(milliseconds=-1)):
        assert_refused(store, ValueError, rf"invalid expire time: {name}=", call, time)


@times(TIMES)
def test_time_timedelta_subclass_runs_no_user_code(name, unit_ns, call, engine):
    class Mine(datetime.timedelta):
        def refuse(self, *args):
            raise AssertionError("user code ran")

        __repr__ = __str__ = __mul__ = __floordiv__ = __mod__ = total_seconds = refuse

    one, other = engine.make().store, engine.make().store
    for store in (one, other):
        store.set("k", 5, ex=1)
    assert call(one, Mine(seconds=2)) == call(other, datetime.timedelta(seconds=2))
    assert state(one) == state(other)


# Several faults in one call

BAD = {"key": 5, "amount": 1.5, "value": "+5", "seconds": 2.5, "ex": 0.5, "px": 0.25, "delta": 3.5, "max": 4.5}
FIRST_FAULT_WINS = [
    # method, arguments, options, what the message must begin with
    ("incr", (5, 1.5), {"ex": 0.5}, "key must be"),
    ("incr", ("k", 1.5), {"ex": 0.5, "px": 0.5}, ".*amount=1.5"),
    ("incr", ("k", 1), {"px": 0.25, "ex": 0.5}, ".*ex=0.5"),
    ("incr", ("k", 2**63), {"ex": 0.5}, ".*amount=9223372036854775808"),
    ("incr", ("k", 1), {"ex": 0, "px": 0.25}, ".*px=0.25"),
    ("incr", ("k", 1), {"ex": 0, "px": -1}, "ex and px cannot"),
    ("incr", ("k", 1), {"ex": 0}, "invalid expire time: ex=0"),
    ("set", (5, "+5"), {}, "key must be"),
    ("set", ("k", "+5"), {"ex": 0.5}, ".*value='\\+5'"),
    ("set", ("k", 5), {"ex": 0.5, "nx": True, "xx": True}, ".*ex=0.5"),
    ("set", ("k", 5), {"ex": 0, "nx": True, "xx": True}, "nx and xx cannot"),
    ("set", ("k", 5), {"ex": INT64_MAX, "keepttl": True}, "(ex and keepttl|keepttl and ex) cannot"),
    ("getex", ("k",), {"ex": INT64_MAX, "persist": True}, "(ex and persist|persist and ex) cannot"),
    ("expire", ("k", 2.5), {"nx": True, "xx": True}, ".*seconds=2.5"),
    ("expire", ("k", INT64_MAX), {"gt": True, "lt": True}, "gt and lt cannot"),
    ("expire", (5, 2.5), {}, "key must be"),
    ("increx", ("x" * 65_536, 2.5), {}, "key is too long"),
    ("increx", ("\ud800", 2.5), {}, ".*surrogates"),
    ("incrbound", ("k", 3.5, 4.5), {"seconds": 2.5}, ".*delta=3.5"),
    ("incrbound", ("k", 3, 4.5), {"seconds": 2.5}, ".*max=4.5"),
    ("incrbound", ("k", 3, 4), {"seconds": 2.5}, ".*seconds=2.5"),
    ("incrbound", ("k", 2**63, 4.5), {"seconds": INT64_MAX}, ".*delta=9223372036854775808"),
    ("mget", ("\ud800", 5), {}, ".*surrogates"),
    ("delete", (5, "\ud800"), {}, "key must be"),
]


@pytest.mark.parametrize(("method", "args", "options", "pattern"), FIRST_FAULT_WINS, ids=range(len(FIRST_FAULT_WINS)))
def test_faults_several_in_one_call_the_first_from_the_left_wins(method, args, options, pattern, store):
    before = state(store)
    with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
        getattr(store, method)(*args, **options)
    assert re.match(pattern, str(caught.value)), str(caught.value)
    assert state(store) == before


def test_flags_take_any_truth_value(store):
    assert store.set("k", 1, nx=1) is False
    assert store.set("k", 6, nx=0, xx=[], get="yes") == 5
    assert store.expire("k", 5, nx=1) is True
    assert store.expire("k", 9, nx="x", xx="") is False
    assert store.getex("k", persist=1) == 6 and store.ttl("k") == -1


TOO_MANY = [("incr", ("k", 1, 5)), ("set", ("k", 1, 5)), ("getex", ("k", 5)), ("expire", ("k", 5, True))]
TOO_MANY += [("incrbound", ("k", 1, 5, 60)), ("increx", ("k", 60, 5)), ("get", ("k", 1, 2)), ("sweep", (1,))]


@pytest.mark.parametrize(("method", "args"), TOO_MANY)
def test_options_are_keywords_only(method, args, store):
    assert_refused(store, TypeError, "", lambda s: getattr(s, method)(*args))


def test_unknown_keywords_and_missing_arguments_raise_typeerror(store):
    assert_refused(store, TypeError, "", lambda s: s.incr("k", by=1))
    assert_refused(store, TypeError, "", lambda s: s.increx("k"))
    assert_refused(store, TypeError, "", lambda s: s.increx("k", ttl=5))
    assert_refused(store, TypeError, "", lambda s: s.incrbound("k", 1))
    assert_refused(store, TypeError, "", lambda s: s.set("k"))
    assert_refused(store, TypeError, "", lambda s: s.get())
