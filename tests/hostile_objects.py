"""Hostile objects, and the world they act on: what hostile.py throws at the methods of goblin.

`World` is a store with its clock. Hostile code runs through `provoke`: it is noted, and does the mischief that is
planned for the call, which may end in an exception. `HOSTILE` names all objects; those in `CODE` run code of their own
where Python lets them, the trapped subclasses of built-in types should never get to.
"""

import collections
import contextlib
import datetime
import decimal
import gc
import inspect
import weakref
from functools import partial

import goblin
from goblin import errors

# ---- The world: a store, its clock, and mischief -------------------------------------------------------------------

MANY = {f"filler:{n}": n for n in range(2_000)}  # enough for the table to split its segments
KNOWN = {"rate:one": 1_001, "rate:two": 1_002, "top": 2**63 - 1, "bottom": -(2**63), "ключ": 1_003, b"\xff": 1_004}


class Nasty(BaseException):
    """What no `except Exception` catches."""


def fill(world):
    with contextlib.suppress(errors.CapacityError):
        world.store.mset(MANY)


MISCHIEF = {
    "nothing": lambda world: None,
    "delete": lambda world: world.store.delete(*KNOWN),
    "clear": lambda world: world.store.clear(),
    "fill": fill,
    "expire": lambda world: goblin.ManualClock.advance(world.clock, 10**6),
    "set back": lambda world: goblin.ManualClock.advance(world.clock, -1),
    "end of time": lambda world: goblin.ManualClock.__init__(world.clock, 2**63 - 1),
    "collect": lambda world: gc.collect(),
    "initialise": lambda world: world.store.__init__(clock=world.clock, **world.bounds),
}
RAISED = [
    ValueError,
    TypeError,
    AttributeError,
    StopIteration,
    MemoryError,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    Nasty,
]
MOST_MISCHIEFS = 3  # in one call; code that runs more often is only noted


class World:
    current: "World | None" = None  # whose traps spring

    def __init__(self, dice, plan=("nothing", None)):
        self.dice, self.plan = dice, plan
        self.clock = Trapped[goblin.ManualClock](10**12)  # so any reading of it by way of Python shows
        size = dice.choice([None, None, None, 12])  # of 12: it is nearly full from the start
        self.bounds = {"max_keys": size, "on_full": "raise" if size is None else dice.choice(["raise", "evict"])}
        self.store = goblin.Counters(clock=self.clock, **self.bounds)
        self.store.mset(KNOWN)
        for key in ("rate:two", "top", "ключ"):
            self.store.expire(key, 500)
        self.store.sliding_window("window", 10, 60)
        self.store.gcra("bucket", 10, 60)
        goblin.set_default_store(self.store)
        self.decision = LIMITERS[0].hit("ann")
        for _ in range(3):
            self.reservation = self.store.decide(LIMITERS[1]._entries("ann"), 1, "reserve")
        self.armed = False
        self.ran = []  # the hostile code that ran in this call
        self.raised = None  # by hostile code
        self.unraisable = []
        self.changed_early = False  # when hostile code ran the call had changed something: then it must succeed
        self.expected = self.state()
        World.current = self

    def state(self):
        keys = list(self.store)
        entries = {key: (value, self.store.pttl(key)) for key, value in zip(keys, self.store.mget(keys))}
        return entries, goblin.ManualClock.now_ns.__get__(self.clock)

    def provoke(self, label, may_raise=True):
        """Hostile code runs: it is noted, does what is planned, and from here on the state is what it made of it."""
        if not self.armed:
            return
        self.ran.append(label)
        if len(self.ran) > MOST_MISCHIEFS:
            return
        mischief, error = self.plan
        with disarmed():
            self.changed_early |= self.state() != self.expected
            SEEN[mischief] += 1
            MISCHIEF[mischief](self)
            self.expected = self.state()
        if error is not None and may_raise:
            SEEN[error.__name__] += 1
            self.raised = error("hostile")
            raise self.raised


SEEN: collections.Counter = collections.Counter()


def provoke(label, may_raise=True):
    if World.current is not None:
        World.current.provoke(label, may_raise)


@contextlib.contextmanager
def disarmed():
    """For what the library is not to blame for: the mischief itself, and the making of answers."""
    world = World.current
    armed, world.armed = world.armed, False
    try:
        yield world
    finally:
        world.armed = armed


# ---- Booby-trapped classes -----------------------------------------------------------------------------------------

# Left alone: what makes and ends an object, and what a class statement itself takes from its body.
UNTRAPPED = {
    "__new__",
    "__init__",
    "__del__",
    "__init_subclass__",
    "__subclasshook__",
    "__dict__",
    "__doc__",
    "__weakref__",
}
UNTRAPPED |= {"__qualname__", "__module__", "__slots__"}


def trap(owner, name):
    """A method or attribute that calls itself to notice, then does what it did before."""
    original, label = getattr(owner, name, None), f"{owner.__name__}.{name}"

    def sprung(self, *args, **kwargs):
        provoke(label)
        return original(self, *args, **kwargs)

    def read(self):
        provoke(label)
        return owner if name == "__class__" else inspect.getattr_static(owner, name).__get__(self)

    return sprung if callable(original) and name != "__class__" else property(read)


def traps(owner):
    """For all that it has; what is None says that something is impossible, as the __hash__ of a list."""
    return {
        name: trap(owner, name) for name in dir(owner) if name not in UNTRAPPED and getattr(owner, name, "") is not None
    }


def answering(name, answers):
    """A method of the universal hostile object: trapped, and then it answers anything."""

    def sprung(self, *args):
        provoke(f"object.{name}")
        with disarmed() as world:
            return world.dice.choice(answers)()

    return sprung


# A class that has this for its type lies about its name, its bases, its instances and its subclasses.
Metaclass = type("Metaclass", (type,), traps(type))


def trapped(base, **methods):
    return Metaclass(f"Trapped_{base.__name__}", (base,), traps(base) | methods)


class _Trapped(dict):
    def __missing__(self, base):
        self[base] = trapped(base)
        return self[base]


Trapped = _Trapped()


class HostileIterator:
    """Runs hostile code at each step; no length it gives is true."""

    def __init__(self, things):
        self.things = iter(things)

    def __iter__(self):
        provoke("object.__iter__")
        return self

    def __next__(self):
        provoke("object.__next__")
        return next(self.things)

    def __length_hint__(self):
        provoke("object.__length_hint__")
        return World.current.dice.choice([0, 10_000, -1, "many", NotImplemented])


def some_things(pairs):
    """What a hostile iterable or mapping yields: now and then something that is no key or no pair at all."""
    dice, things = World.current.dice, []
    for number in range(dice.randrange(4)):
        key, value = (
            f"yielded:{number}",
            Trapped[str](f"{number}") if dice.random() < 0.3 else dice.choice([number, Universal()]),
        )
        if dice.random() < 0.2:
            key = dice.choice(list(HOSTILE.values()))()
        things.append(dice.choice([(key, value), [key, value], HostileIterator([key, value])]) if pairs else key)
    if dice.random() < 0.2:
        things.append(dice.choice([5, (), ("a",), ("a", 1, 2), "ab", None, Universal()]))
    return dice.choice([things, tuple(things), HostileIterator(things), (thing for thing in things)])


# An object that is anything one asks for, and runs hostile code whatever one asks.
_INDEX = [lambda: 3, lambda: 0, lambda: -1_000, lambda: 2**63 - 1, lambda: 2**63, lambda: -(2**5_000)]
_INDEX += [lambda: "3", lambda: True, lambda: None, lambda: 3.0, lambda: Trapped[int](3), lambda: Universal()]
Universal = trapped(
    object,
    __index__=answering("__index__", _INDEX),
    __bool__=answering("__bool__", [lambda: True, lambda: False, lambda: True, lambda: False, lambda: 5]),
    __len__=answering("__len__", [lambda: 3, lambda: 0, lambda: -1, lambda: "3"]),
    __iter__=answering("__iter__", [lambda: iter(some_things(pairs=False)), lambda: 5]),
    items=answering("items", [lambda: some_things(pairs=True), lambda: {"a": 1}.items(), lambda: None]),
    **{
        name: answering(name, [lambda: 3])
        for name in (
            "__int__",
            "__float__",
            "__complex__",
            "__trunc__",
            "__round__",
            "__neg__",
            "__add__",
            "__radd__",
            "__mul__",
        )
        + (
            "__rmul__",
            "__mod__",
            "__floordiv__",
            "__call__",
            "__contains__",
            "__bytes__",
            "__fspath__",
            "__buffer__",
            "keys",
        )
    },
)


class Litter:
    """Garbage in a cycle, so that the collector finds it in the middle of a call; its destructor is hostile."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        provoke("Litter.__del__", may_raise=False)


class HostileStore:
    """The verbs of the Store protocol, with junk for replies."""

    def reply(self, *args, **kwargs):
        provoke("HostileStore.reply")
        dice = World.current.dice
        number = dice.choice([0, 1, -1, 2**63 - 1, -(2**63), 2**64, None, "x", 1.5, Trapped[int](1), Universal()])
        stamps = dice.choice([None, (), (None,), [("k", "q", 0, None, None)], Universal(), 5])
        return dice.choice(
            [number, (number,) * 5 + (stamps,), (1, 1, 1, dice.choice([0, 1, 2, -1, 10**9]), 1, stamps), [], "x"]
        )

    decide = refund = unreserve = delete = now_ns = reply


# The first two on the default store, which each world sets.
LIMITERS = [goblin.RateLimiter(["10/minute", "100/hour"]), goblin.RateLimiter("10/minute burst 1", algorithm="gcra")]
LIMITERS.append(goblin.RateLimiter("10/minute", store=HostileStore()))


def dead_proxy():
    return weakref.proxy(HostileIterator([]))  # nothing else holds it


class IndexIsNoMethod:
    __index__ = 5


class IndexIsNone:
    __index__ = None


class OnlyGetItem:
    """The old protocol of sequences."""

    def __getitem__(self, number):
        provoke("object.__getitem__")
        if number > 2:
            raise IndexError
        return "rate:one"


def hostile_tree():
    """Entries or stamps for decide(), refund() and unreserve(), or something like it, with hostile leaves."""
    dice = World.current.dice

    def leaf(good):
        return good if dice.random() < 0.8 else dice.choice(list(HOSTILE.values()))()

    branches = []
    for number in range(dice.choice([0, 1, 1, 2, 3])):
        algorithm, burst = dice.choice([("fixed-window", None), ("sliding-window", None), ("gcra", 2), ("gcra", None)])
        quota = tuple(map(leaf, (algorithm, 10, 60 * 10**9, burst)))
        key = dice.choice([f"key:{number}", "bucket", "window", "rate:one", *LIMITERS[1]._keys("ann")])
        state = (10**12 + dice.choice([0, 1, 6, 12]) * 10**9, leaf(0))
        stamp = (
            leaf(key),
            leaf(quota),
            leaf(10**12 + 60 * 10**9),
            leaf(dice.choice([None, state])),
            leaf(dice.choice([None, state])),
        )
        branches.append(dice.choice([(leaf(key), leaf(quota)), stamp, HostileIterator(stamp), list(stamp)]))
    reserved = list(World.current.reservation[-1])
    return dice.choice([branches, tuple(branches), HostileIterator(branches), reserved, reserved + branches])


def values_of(base, *values):
    return {f"trapped {base.__name__} {number}": partial(Trapped[base], value) for number, value in enumerate(values)}


# Objects that could run code of their own: these meet every mischief.
CODE = {
    "universal": Universal,
    "hostile iterator": partial(HostileIterator, ["rate:one", "b"]),
    "only getitem": OnlyGetItem,
}
CODE |= {"hostile tree": hostile_tree}
INERT = {
    (hex(value) if type(value) is int else repr(value))[:30]: partial(lambda value: value, value)
    for value in (
        [None, True, False, 0, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 + 1, 2**127, -(2**5_000), 10**5_000]
        + [1.5, -0.0, float("nan"), float("inf"), -1e300, 1j, decimal.Decimal("sNaN"), ..., NotImplemented]
        + [
            "",
            "5",
            "+5",
            " 5",
            "5\0",
            "٣",
            "\ud800",
            "a\udcff",
            "x" * 65_536,
            "ä" * 40_000,
            "5" * 5_000,
            "[",
            "*" * 300,
            "\\",
        ]
        + [
            b"",
            b"5",
            b"-0",
            b"\xff\xfe",
            b"x" * 70_000,
            b"[^",
            bytearray(b"k"),
            memoryview(b"k"),
            [],
            ["k", 5],
            [[]],
            (),
            ("k",),
        ]
        + [
            {},
            {"k": 1},
            {"k": 1.5},
            {5: 1},
            {"\ud800": 1},
            {None: None},
            {"a": 1, "b": "+5"},
            frozenset("ab"),
            range(3),
        ]
        + [datetime.timedelta(0), datetime.timedelta(microseconds=1), datetime.timedelta.max, datetime.timedelta.min]
        + [object, type, int.__index__, len, goblin.Counters, goblin.ManualClock, ValueError("x"), Metaclass, Universal]
    )
}
HOSTILE = CODE | INERT
HOSTILE |= values_of(str, "rate:one", "5", "+5", "", "\ud800", "ключ", "x" * 70_000, "rate:*")
HOSTILE |= values_of(bytes, b"rate:one", b"5", b"", b"\xff", b"x" * 70_000, b"rate:[a")
HOSTILE |= values_of(int, 3, 0, -1, 2**63 - 1, 2**63, 10**5_000)
HOSTILE |= values_of(float, 3.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e300, -1e10)
HOSTILE |= values_of(datetime.timedelta, 1, -1, 999_999_999)
HOSTILE |= (
    values_of(dict, {"rate:one": 5, "b": "x"}, {"a": 1}) | values_of(list, ["rate:one"]) | values_of(tuple, ("b", 1))
)
HOSTILE |= (
    values_of(bytearray, b"k") | values_of(set, {"a"}) | values_of(goblin.ManualClock, 5) | values_of(complex, 1j)
)
HOSTILE |= {
    "trapped Counters": Trapped[goblin.Counters],
    "another store": goblin.Counters,
    "hostile store": HostileStore,
    "another limiter": lambda: goblin.RateLimiter("1/second"),
    "a decision": lambda: goblin.RateLimiter("1/second", store=goblin.Counters()).hit("ann"),
    "a limit": lambda: goblin.Limit(10, 60),
    "another clock": goblin.ManualClock,
    "hostile type name": lambda: type(Trapped[str]("Evil"), (), {})(),
    "hostile metaclass": lambda: Metaclass("Liar", (), {})(),
    "index is no method": IndexIsNoMethod,
    "index is None": IndexIsNone,
    "generator": lambda: (key for key in ("rate:one", 5)),
    "dead proxy": dead_proxy,
}
