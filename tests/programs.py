"""Random programs as data: lists of (method, args, kwargs), and ("advance", (nanoseconds,), {}) for the clock.

The same program runs on any two engines and every reply must agree, errors included. A Profile says what may occur, so
that an engine with narrower rules (a server has no Python types and no nanoseconds) gets the programs it can run.
How well the programs reach what they should, command by reply:

    python tests/programs.py [--seed 1] [--count 50000] [--engine model]
"""

import datetime
import random
from typing import NamedTuple

from catalogue import INT64_MAX, INT64_MIN

# Spellings of each counter. Twenty bytes is the longest key that the core keeps inside its record.
ORDINARY_KEYS = [("a", b"a"), ("b", b"b"), ("c", b"c"), ("user:1", b"user:1")]
ODD_KEYS = [
    ("", b""),
    ("\0", b"\0"),
    ("a\0b", b"a\0b"),
    ("ä", "ä".encode()),
    ("日本", "日本".encode()),
    (b"\xff",),
    (b"\xe4", bytes([0xE4])),  # Latin-1's ä: another key than "ä"
    ("k" * 19, b"k" * 19),
    ("k" * 20, b"k" * 20),
    ("k" * 21, b"k" * 21),
    ("k" * 19 + "ä", ("k" * 19 + "ä").encode()),
    ("k" * 22,),
]
LONG_KEYS = [("k" * 65_535, b"k" * 65_535)]
BAD_KEYS = [None, 5, 1.5, True, ("a",), bytearray(b"a"), "\ud800", "a\udcff", "k" * 65_536, b"k" * 65_536]

EDGES = [base + step for base in (0, 2**31, -(2**31), 2**53, -(2**53)) for step in (-1, 0, 1)]
EDGES += [INT64_MAX, INT64_MAX - 1, INT64_MAX - 9, INT64_MIN, INT64_MIN + 1, INT64_MIN + 9]
BAD_INTEGERS = [1.5, 2.0, True, None, "5", b"5", 2**63, -(2**63) - 1, 2**64, -(2**70), 2**200]
TEXT_VALUES = ["5", b"-7", "0", str(INT64_MAX), str(INT64_MIN)]
BAD_VALUES = ["+5", " 5", "05", "-0", "", "5.0", b"0x5", "1_000", "٣", str(2**63), b"5\0", 1.5, True, None, 2**63]

SECONDS = [1, 2, 3, 10, 60, 2**31, 9_223_372_036]
TIMEDELTAS = [datetime.timedelta(milliseconds=1_500), datetime.timedelta(seconds=2), datetime.timedelta(0)]
NOT_AHEAD = [0, -1, -5, -9_223_372_036]
TOO_FAR = [9_223_372_037, -9_223_372_037, 2**53, INT64_MAX, INT64_MIN]
BAD_TIMES = [1.5, True, "5", 2**63, datetime.timedelta(microseconds=1), datetime.timedelta(days=-999_999_999)]
PATTERNS = ["*", "a*", "?", "*[b-k]*", b"*\xff", "user:*", "", "[^a]", "u*1", "\\a"]

STEPS_NS = [1, 999_999, 10**6, 10**6 + 1, 5 * 10**8, 999_999_999, 10**9, 10**9 + 1, 2 * 10**9, 10**10, 61 * 10**9]


class Profile(NamedTuple):
    keys: list = [*ORDINARY_KEYS * 4, *ODD_KEYS, *LONG_KEYS]
    bad_arguments: float = 0.02  # probability that an argument is one that must be refused
    timedeltas: bool = True
    steps_ns: list = STEPS_NS
    clock_set_back: bool = True
    methods: tuple = ()  # none: all; one named twice comes twice as often
    bad_keys: list = BAD_KEYS
    bad_integers: list = BAD_INTEGERS
    bad_values: list = BAD_VALUES
    bad_times: list = BAD_TIMES
    seconds: list = SECONDS
    too_far: float = 0.05  # probability that a time is beyond what deadlines can be
    short_ms: list = []  # two thirds of all milliseconds, if there are any
    fewest_keys: int = 0  # of calls with several
    ex_with_px: bool = True  # in incr and its kin, which then refuse: a server has no such command to refuse


EVERYTHING = Profile()


class Generator:
    """Draws operations; the rng may be Hypothesis' own, which then shrinks what it drew."""

    def __init__(self, rng, profile=EVERYTHING):
        self.rng, self.profile = rng, profile
        table = self.TABLE
        names = profile.methods or tuple(table)
        self.names = [name for name in names for _ in range(table[name][0])]

    def operation(self):
        name = self.rng.choice(self.names)
        args, kwargs = self.TABLE[name][1](self)
        return name, args, kwargs

    def program(self, length):
        return [self.operation() for _ in range(length)]

    # One argument

    def chance(self, probability):
        return self.rng.random() < probability

    def bad(self):
        return self.chance(self.profile.bad_arguments)

    def key(self):
        if self.bad():
            return self.rng.choice(self.profile.bad_keys)
        return self.rng.choice(self.rng.choice(self.profile.keys))

    def keys(self):
        return tuple(self.key() for _ in range(self.rng.randrange(self.profile.fewest_keys, 5)))

    def integer(self):
        if self.bad():
            return self.rng.choice(self.profile.bad_integers)
        return self.rng.choice(EDGES) if self.chance(0.4) else self.rng.randrange(-4, 12)

    def value(self):
        if self.bad():
            return self.rng.choice(self.profile.bad_values)
        return self.rng.choice(TEXT_VALUES) if self.chance(0.1) else self.integer()

    def time(self, scale=1, positive=False):
        """Seconds, or milliseconds with scale=1000; sometimes what must be refused."""
        if self.bad():
            return self.rng.choice(self.profile.bad_times)
        if self.profile.timedeltas and self.chance(0.1):
            return self.rng.choice(TIMEDELTAS)
        if self.chance(0.05 if positive else 0.2):
            return self.rng.choice(NOT_AHEAD) * scale
        if self.chance(self.profile.too_far):
            return self.rng.choice(TOO_FAR)
        if scale > 1 and self.profile.short_ms and self.chance(0.67):
            return self.rng.choice(self.profile.short_ms)
        return self.rng.choice(self.profile.seconds) * scale + (self.rng.randrange(3) if scale > 1 else 0)

    def flags(self, *names, probability=0.2):
        return {name: True for name in names if self.chance(probability)}

    def ttl_options(self):
        options = {}
        if self.chance(0.3):
            options["ex"] = self.time(positive=True)
        if self.chance(0.2):
            options["px"] = self.time(1_000, positive=True)
        return options

    # One call: (how often, the arguments)

    def _key(self):
        return (self.key(),), {}

    def _nothing(self):
        return (), {}

    def _add(self):
        args, options = (self.key(),) if self.chance(0.3) else (self.key(), self.integer()), self.ttl_options()
        if "ex" in options and not self.profile.ex_with_px:
            options.pop("px", None)
        return args, options

    def _increx(self):
        return (self.key(), self.time()), {}

    def _pincrex(self):
        return (self.key(), self.time(1_000)), {}

    def _incrbound(self):
        options = {"seconds": self.time()} if self.chance(0.4) else {}
        return (self.key(), self.integer(), self.integer()), options

    def _set(self):
        return (self.key(), self.value()), self.ttl_options() | self.flags("keepttl", "nx", "xx", "get")

    def _getset(self):
        return (self.key(), self.value()), {}

    def _getex(self):
        return (self.key(),), self.ttl_options() | self.flags("persist")

    def _expire(self):
        return (self.key(), self.time()), self.flags("nx", "xx", "gt", "lt")

    def _pexpire(self):
        return (self.key(), self.time(1_000)), self.flags("nx", "xx", "gt", "lt")

    def _several(self):
        return self.keys(), {}

    def _mset(self):
        # A list of pairs would be refused; a dict keeps the order in which two spellings of one key come.
        pairs = {}
        for _ in range(self.rng.randrange(self.profile.fewest_keys, 4)):
            key = self.key()
            if not isinstance(key, bytearray):  # no dict holds one
                pairs[key] = self.value()
        return (pairs,), {}

    def _scan(self):
        return (), {"match": self.rng.choice(PATTERNS)}

    def _top(self):
        return (self.rng.choice([None, 0, 1, 3, 100]),), {}

    def _advance(self):
        step = self.rng.choice(self.profile.steps_ns)
        if self.profile.clock_set_back and self.chance(0.1):
            step = -step
        return (step,), {}

    TABLE = {
        "advance": (12, _advance),
        "increx": (10, _increx),
        "pincrex": (5, _pincrex),
        "incrbound": (12, _incrbound),
        "decrpos": (5, _key),
        "incr": (5, _add),
        "incrby": (5, _add),
        "decr": (4, _add),
        "decrby": (5, _add),
        "get": (4, _key),
        "set": (12, _set),
        "getset": (3, _getset),
        "getdel": (3, _key),
        "getex": (5, _getex),
        "mget": (3, _several),
        "mset": (3, _mset),
        "delete": (3, _several),
        "exists": (3, _several),
        "expire": (10, _expire),
        "pexpire": (8, _pexpire),
        "persist": (3, _key),
        "ttl": (4, _key),
        "pttl": (4, _key),
        "__contains__": (2, _key),
        "__getitem__": (2, _key),
        "__delitem__": (2, _key),
        "items": (1, _nothing),
        "__iter__": (1, _nothing),
        "scan_iter": (1, _scan),
        "most_common": (1, _top),
        "sweep": (1, _nothing),
        "clear": (1, _nothing),
    }


class Raised(NamedTuple):
    """An error as a reply: its type, and its text up to the value (test_arguments.py looks at the rest)."""

    error: str
    text: str


def perform(rig, operation):
    """Run one operation; the reply in a form that two engines can be compared by."""
    method, args, kwargs = operation
    try:
        if method == "advance":
            # The latest reading counts. Which calls read a clock that they do not need is each engine's own affair
            # (`mget` of no keys, say), so all have read it before it can be set back.
            rig.store.exists("a")
            return rig.advance_ns(*args)
        return comparable(rig.store, method, getattr(rig.store, method)(*args, **kwargs))
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        return Raised(type(error).__name__, essence(method, str(error)))


def essence(method, text):
    if method == "advance":
        return ""
    if text.endswith("cannot be given together"):  # of several conflicts any may be named
        return "cannot be given together"
    return text.partition("=")[0]


def comparable(store, method, reply):
    if method in ("items", "__iter__", "scan_iter"):
        return sorted(reply, key=repr)
    if method == "most_common":  # ties come in no order
        return [value for _, value in reply]
    if method == "sweep":  # how many had been reclaimed before is each engine's own affair
        return len(store)
    return reply


def same(one, other):
    """Equal, and True is not 1."""
    return one == other and type(one) is type(other)


def reply_class(reply):
    if isinstance(reply, Raised):
        return reply.error
    if type(reply) is int:
        return str(reply) if -2 <= reply <= 1 else "int"
    return type(reply).__name__ if isinstance(reply, list) else str(reply)


def coverage(rig, seed, count, profile=EVERYTHING):
    """{method: {reply class: how often}} of one random program."""
    seen = {}
    generator = Generator(random.Random(seed), profile)
    for _ in range(count):
        operation = generator.operation()
        replies = seen.setdefault(operation[0], {})
        kind = reply_class(perform(rig, operation))
        replies[kind] = replies.get(kind, 0) + 1
    return seen


def main():
    import argparse

    from engines import IN_PROCESS

    parser = argparse.ArgumentParser(description="what random programs reach: command by reply")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--engine", default="model", choices=[engine.name for engine in IN_PROCESS])
    options = parser.parse_args()
    (engine,) = [engine for engine in IN_PROCESS if engine.name == options.engine]
    seen = coverage(engine.make(), options.seed, options.count)
    kinds = sorted({kind for replies in seen.values() for kind in replies})
    print(f"{options.count} operations on the {engine.name}, seed {options.seed}")
    print(" ".join([f"{'':14}", *(f"{kind:>{max(6, len(kind))}}" for kind in kinds)]))
    for method in Generator.TABLE:
        counts = [f"{seen.get(method, {}).get(kind, '.'):>{max(6, len(kind))}}" for kind in kinds]
        print(" ".join([f"{method:14}", *counts]))


if __name__ == "__main__":
    main()
