"""Every public method of goblin under hostile arguments: the program that test_hostile_arguments.py runs.

    python -X dev -bb -W error tests/hostile.py --seed 7 --calls 1000000

It runs in a process of its own, since what it looks for could end the interpreter. First every hostile object goes once
into every parameter of every method, code-running ones with every mischief; then `--calls` random calls with several at
a time. Every case has a number: `--seed 7 --only 1234` repeats one alone.

What is called is found by looking at `goblin.__all__`. Three tables are the recipes, and what they lack fails the run:
SUBJECTS (how to get hold of an object of a class), PLAIN (public names without arguments to try), PARAMETERS (by a
parameter's name: its ordinary arguments, and which code of the caller's it may run).

What is demanded of each call stands in `complaints_about`.
"""

import argparse
import collections
import contextlib
import faulthandler
import gc
import inspect
import itertools
import random
import re
import sys
import types
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import goblin
from goblin import errors
from hostile_objects import (
    CODE,
    HOSTILE,
    LIMITERS,
    MISCHIEF,
    RAISED,
    SEEN,
    HostileIterator,
    Litter,
    Metaclass,
    Nasty,
    OnlyGetItem,
    Trapped,
    Universal,
    World,
)  # fmt: skip

# ---- Recipes -------------------------------------------------------------------------------------------------------


class OfWorld(NamedTuple):
    """An ordinary argument that only a world can give."""

    get: Callable[[World], Any]


class Kind(NamedTuple):
    """A kind of parameter: ordinary arguments, and a pattern of the caller's code that may run."""

    ordinary: list
    may_run: str = ""


INDEX = r"object\.__index__"
ITERATION = r"\w+\.__(iter|next|getitem|len|length_hint)__"
ANYTHING = r".+"  # of what is plain Python and not on the way of a hit: there isinstance() and == are all right

KEY = Kind(["rate:one", b"rate:two", "absent", "top", "ключ", b"\xff", "window", "bucket"])
LIMITER_KEY = Kind(["ann", b"ann", 5, ("ann", 5, b"x"), 10**30, ""], ITERATION)
NUMBER = Kind([1, 0, -1, 1_000, 2**62, 2**63 - 1, -(2**63)], INDEX)
TIME = Kind([60, 10**4, timedelta(seconds=5), 1, 0, -1, 2**62, None], INDEX)
FLAG = Kind([True, False], r"\w+\.__(bool|len)__")
QUOTAS = [
    ("limit:a", ("fixed-window", 10, 60 * 10**9, None)),
    (b"limit:b", ("sliding-window", 10, 60 * 10**9, None)),
    ("bucket", ("gcra", 10, 60 * 10**9, 2)),
]
# By the most exact name that is here: Class.method.parameter, method.parameter or parameter; a class is its own method.
PARAMETERS = {
    "key": KEY,
    "keys": KEY,
    "mget.keys": Kind(KEY.ordinary, ITERATION),
    **dict.fromkeys(["amount", "delta", "max", "n", "limit", "cost", "burst", "now_ns", "ns", "max_wait_ns", "coarse_lag_ns"], NUMBER),
    **dict.fromkeys(["seconds", "milliseconds", "ex", "px"], TIME),
    **dict.fromkeys(["keepttl", "nx", "xx", "gt", "lt", "get", "persist", "legacy"], FLAG),
    "value": Kind([5, "10", b"-3"], INDEX),
    "mapping": Kind([{"rate:one": 1_005, "new": "2"}, {}], rf"\w+\.(__getattribute__|items)|{ITERATION}|{INDEX}"),
    "default": Kind([None, 1_006, "x"]),
    "match": Kind([None, "rate:*", b"*"]),
    "clock": Kind([None]),
    "max_keys": Kind([None, 1, 10**6], INDEX),
    "on_full": Kind(["raise", "evict"]),
    "entries": Kind([(), QUOTAS[:1], QUOTAS[1:], QUOTAS], rf"{ITERATION}|{INDEX}"),
    "mode": Kind(["hit", "peek", "reserve"]),
    "stamps": Kind([(), OfWorld(lambda world: world.reservation[-1])], rf"{ITERATION}|{INDEX}"),
    # Limits and limiters
    **{f"{method}.key": LIMITER_KEY for method in ("hit", "allow", "peek", "reset", "acquire", "acquire_async")},
    **dict.fromkeys(["Limit.amount", "Limit.burst"], Kind([10, 1, 2**31, None], ANYTHING)),
    "Limit.seconds": Kind([60, 0.5, timedelta(days=1), None], ANYTHING),
    "text": Kind(["10/minute", "10 per 2 hours; 5/second"], ANYTHING),
    "limits": Kind(["10/minute", [goblin.Limit(10, 60), "100/hour"]], ANYTHING),
    "algorithm": Kind(["fixed-window", "gcra", "token-bucket"], ANYTHING),
    "name": Kind(["", "login"], ANYTHING),
    **dict.fromkeys(["rate_limit.key", "quota.key"], Kind([None, "{user}", len], ANYTHING)),
    **dict.fromkeys(["rate_limit.cost", "quota.cost", "quota.amount"], Kind([1, 10, len], ANYTHING)),
    **dict.fromkeys(["on_limit", "exempt_when"], Kind(["raise", "wait", None, len], ANYTHING)),
    "on_error": Kind(["raise", "allow", "deny", goblin.Counters()], ANYTHING),
    "refund_on": Kind([(), KeyError, (KeyError, OSError)], ANYTHING),
    "period": Kind([None, 60, 0.5, timedelta(days=1)], ANYTHING),
    "store": Kind([None, OfWorld(lambda world: world.store)], ANYTHING),
    "sleep": Kind([None, lambda seconds: None], ANYTHING),
    **dict.fromkeys(["acquire.cost", "acquire_async.cost"], Kind(NUMBER.ordinary, ANYTHING)),
    "timeout": Kind([None, 0, 1.5, timedelta(minutes=1), 10**6], ANYTHING),
    **dict.fromkeys(["memo", "__pyx_state"], Kind([{}])),  # of copy and pickle
    "RateLimiter.refund.decision": Kind([OfWorld(lambda world: world.decision)]),
}
SUBJECTS: dict[str, Callable[[World], Any]] = {
    "Counters": lambda world: world.store,
    "ManualClock": lambda world: world.clock,
    "Decision": lambda world: world.decision,
    "Limit": lambda world: goblin.Limit(10, 60),
    "RateLimiter": lambda world: world.dice.choice(LIMITERS),
}
# Code of the caller's that a method may run whatever its arguments are.
MAY_RUN = {
    "RateLimiter.acquire": r"ManualClock\.\w+",  # waiting on a ManualClock advances it
    "RateLimiter.acquire_async": r"ManualClock\.\w+",
}
PLAIN = {
    "Stats": "a named tuple: its methods are Python's own",
    **dict.fromkeys(["Store", "AsyncStore"], "a protocol: for type checkers"),
    "AsyncRateLimiter": "coroutines; its arguments go through RateLimiter's own functions, which are tried",
}


class Method(NamedTuple):
    """A public callable, and how to get it for a world."""

    label: str
    of: Callable[[World], Callable]
    parameters: list[inspect.Parameter]
    unbound: Callable | None = None  # of compiled classes: where a wrong self must be a TypeError

    def kind(self, parameter):
        label = self.label.removesuffix(".__init__")
        for name in (f"{label}.{parameter.name}", f"{label.rpartition('.')[2]}.{parameter.name}", parameter.name):
            if name in PARAMETERS:
                return PARAMETERS[name]
        raise LookupError(f"tests/hostile.py has no recipe in PARAMETERS for {parameter.name!r} of {self.label}")


def find_methods(module):
    """All that `__all__` leads to: classes, their methods and special methods, functions. LookupError: no recipe."""
    found = []
    for name in module.__all__:
        public = getattr(module, name)
        if name in PLAIN or not callable(public) or (isinstance(public, type) and issubclass(public, BaseException)):
            continue
        found.append(Method(name, lambda world, public=public: public, parameters_of(public)))
        if isinstance(public, type):
            found += methods_of(public, name)
    for method in found:
        for parameter in method.parameters:
            method.kind(parameter)
    return found


def methods_of(kind, name):
    if name not in SUBJECTS:
        raise LookupError(
            f"tests/hostile.py has no recipe in SUBJECTS for {name}: say there how to get an object of it"
        )
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] != "goblin":
            continue
        for member, function in vars(base).items():
            if isinstance(function, classmethod):
                bound = getattr(kind, member)
                yield Method(f"{name}.{member}", lambda world, bound=bound: bound, parameters_of(bound))
            elif callable(function) and is_tried(member, function):
                parameters = parameters_of(kind) if member == "__init__" else parameters_of(function)[1:]
                unbound = function if hasattr(function, "__objclass__") else None
                yield Method(f"{name}.{member}", partial(bind, function, SUBJECTS[name]), parameters, unbound)


def is_tried(member, function):
    """Public methods; of special ones those that are compiled: Python's own rules hold for the others."""
    if member in ("__new__", "__init__"):
        return member == "__init__"
    return not member.startswith("_") or (member.endswith("__") and hasattr(function, "__objclass__"))


def parameters_of(function):
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # a class that nobody but the library makes has none
        return []


def bind(function, subject, world):
    return partial(function, subject(world))  # not by attribute: the subject may be trapped


METHODS: list[Method] = find_methods(goblin)


def given(ordinary):
    return ordinary.get(World.current) if isinstance(ordinary, OfWorld) else ordinary


def ordinary_arguments(method, dice, hostile=None, full=0.3):
    """(args, kwargs) of a call: required ones always, others by chance; `hostile`: {parameter's name: objects}."""
    hostile, args, kwargs, by_position = hostile or {}, [], {}, True
    for parameter in method.parameters:
        ordinary, objects = method.kind(parameter).ordinary, hostile.get(parameter.name, [])
        if parameter.kind is parameter.VAR_POSITIONAL:
            others = [given(dice.choice(ordinary)) for _ in range(dice.randrange(3))]
            args += dice.sample(others + objects, len(others + objects))
            continue
        if not objects and parameter.default is not parameter.empty and dice.random() > full:
            by_position = False  # those behind it can only be named
            continue
        value = objects[0] if objects else given(dice.choice(ordinary))
        nameable = parameter.kind is not parameter.POSITIONAL_ONLY
        by_position = (
            by_position and parameter.kind is not parameter.KEYWORD_ONLY and not (nameable and dice.random() < 0.2)
        )
        if by_position:
            args.append(value)
        else:
            kwargs[parameter.name] = value
    return args, kwargs


def reenter(world):
    """Hostile code that itself calls methods, the interrupted one among them."""
    for method in world.dice.sample(METHODS, 4):
        args, kwargs = ordinary_arguments(method, world.dice)
        try:
            reply = method.of(world)(*args, **kwargs)
            if type(reply) is types.CoroutineType:
                reply.close()
        except SystemError:
            raise
        except Exception:
            pass


MISCHIEF["reenter"] = reenter
# What hostile code does when it runs: a mischief, then perhaps an exception.
PLANS = [(mischief, None) for mischief in MISCHIEF]
PLANS += [("nothing", error) for error in RAISED]
PLANS += [("delete", KeyboardInterrupt), ("fill", ValueError), ("clear", Nasty), ("expire", TypeError)]


# ---- Cases ---------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One call to try. `arguments` makes (args, kwargs) once the world stands."""

    label: str
    of: Callable[[World], Callable]
    arguments: Callable[[random.Random], tuple[list, dict]]
    may_run: str = ""
    plan: tuple = ("nothing", None)
    must_refuse: bool = False

    @property
    def method(self):
        return re.split(r"[(:]", self.label)[0]


def hostile_case(method, choices, plan):
    """`choices`: (parameter, name of a hostile object) pairs."""

    def arguments(dice):
        return ordinary_arguments(method, dice, {p.name: [HOSTILE[label]()] for p, label in choices})

    may_run = "|".join(
        filter(None, [MAY_RUN.get(method.label)] + [method.kind(parameter).may_run for parameter, _ in choices])
    )
    shown = ", ".join(f"{parameter.name}=<{label}>" for parameter, label in choices)
    return Case(f"{method.label}({shown}) {plan[0]}, then {plan[1]}", method.of, arguments, may_run, plan)


def each_with_each():
    for method in METHODS:
        for plan in PLANS:
            yield hostile_case(method, [], plan)
        for parameter in method.parameters:
            for label in HOSTILE:
                for plan in PLANS if label in CODE else [PLANS[len(label) % len(PLANS)]]:
                    yield hostile_case(method, [(parameter, label)], plan)


def wrong_shapes():
    """Surplus, missing, doubled, misnamed and misplaced arguments, and a wrong self: a TypeError each."""
    for method in METHODS:
        names = [p.name for p in method.parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        required = [p for p in method.parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
        variadic = any(p.kind is p.VAR_POSITIONAL for p in method.parameters)
        positional = [p for p in method.parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        shapes: dict[str, tuple[list, dict]] = {
            "unknown keyword": (["rate:one"] * len(required), {"bogus": Universal()}),
            "keyword that is no str": (["rate:one"] * len(required), {5: 1}),
        }
        if not variadic:
            shapes["surplus"] = ([Universal() for _ in range(len(positional) + 1)], {})
            shapes["many surplus"] = ([Universal()] * 300, {})
        if required:
            shapes["missing"] = ([Universal()] * (len(required) - 1), {})
            shapes["all missing"] = ([], {})
        if names:
            shapes["doubled"] = ([Universal()] * len(positional), {names[0]: Universal()})
        for shape, (args, kwargs) in shapes.items():
            yield Case(f"{method.label}: {shape}", method.of, partial(fixed, args, kwargs), must_refuse=True)
        if method.unbound:
            for wrong in WRONG_SELVES:
                if issubclass(type(HOSTILE[wrong]()), method.unbound.__objclass__):
                    continue
                args = [Universal()] * len(required)
                of = partial(wrong_self, method.unbound, wrong)
                yield Case(f"{method.label}: self is {wrong}", of, partial(fixed, args, {}), must_refuse=True)


def fixed(args, kwargs, dice):
    return args, kwargs


def wrong_self(unbound, label, world):
    return partial(unbound, HOSTILE[label]())


def hostile_keyword_names():
    """Names of keywords that are str subclasses: Python compares them, so their code may run; nothing more."""
    for method in METHODS:
        for parameter in method.parameters:
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                for plan in PLANS:
                    label = f"{method.label}: keyword {parameter.name} is a trapped str, {plan[0]}, then {plan[1]}"
                    arguments = partial(renamed, method, parameter)
                    may_run = rf"str\.\w+|{MAY_RUN.get(method.label, '')}"
                    yield Case(label, method.of, arguments, may_run, plan)


def renamed(method, parameter, dice):
    args, kwargs = ordinary_arguments(method, dice, full=1.0)
    return args, {Trapped[str](name) if name == parameter.name else name: value for name, value in kwargs.items()}


def at_random(dice):
    method = dice.choice(METHODS)
    chosen = dice.sample(method.parameters, min(len(method.parameters), dice.choice([0, 1, 1, 2, 2, 3])))
    labels = list(CODE) * 8 + list(HOSTILE)
    return hostile_case(method, [(parameter, dice.choice(labels)) for parameter in chosen], dice.choice(PLANS))


# ---- Judging -------------------------------------------------------------------------------------------------------

# What a refusal may be, beside goblin's own. Python itself raises a DeprecationWarning where __index__ answers True or
# where NotImplemented is a flag, and a ReferenceError where a dead proxy is asked for anything.
REFUSALS = (TypeError, ValueError, OverflowError, KeyError, DeprecationWarning, ReferenceError)
REFUSALS += tuple(error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, Exception))
# Raised by hostile code, these have a meaning: the end of an iteration; no such attribute; not iterable, no length.
MAY_BE_SWALLOWED = (StopIteration, AttributeError, TypeError)
LONGEST_MESSAGE = 700
SCAN = type(goblin.Counters().items())
WRONG_SELVES = ("None", "universal", "trapped str 0", "hostile metaclass", "another store", "another clock")


def attempt(world, function, args, kwargs):
    """The call, with all traps armed, and a look at what it returned or raised. Returns (result, error, text)."""
    result = error = text = None
    world.armed = True
    try:
        result = function(*args, **kwargs)
        if type(result) is SCAN:
            for _ in itertools.islice(result, 2_000):
                if world.dice.random() < 0.1:
                    world.provoke("the caller's loop", may_raise=False)
        elif type(result) is types.CoroutineType:
            with contextlib.suppress(StopIteration), contextlib.closing(result):
                for _ in range(10):  # by hand: it must not need more of a loop than turns
                    result.send(None)
    except BaseException as caught:
        error = caught
        if error is not world.raised and not isinstance(error, KeyError):  # KeyError shows its key by repr()
            text = str(error)
    finally:
        world.armed = False
    return result, error, text


def complaints_about(world, function, args, kwargs, may_run="", must_refuse=False):
    """Make the call; what is wrong about how it went, as a list of sentences."""
    found = []
    arguments = [value for value in [*args, *kwargs.values()] if is_of_this_call(value)]
    references = [sys.getrefcount(value) for value in arguments]

    result, error, text = attempt(world, function, args, kwargs)
    passed_on = error is not None and any(
        world.raised is e is not None for e in (error, error.__cause__)
    )  # of a generator
    outcome = "returned" if error is None else "passed on" if passed_on else "refused"

    if outcome == "refused":
        junk = "HostileStore.reply" in world.ran and isinstance(error, Exception) and not isinstance(error, SystemError)
        if not junk and (not isinstance(error, REFUSALS) or isinstance(error, UnicodeDecodeError)):
            found.append(f"raised {type(error).__name__}: {text}")
        if text is not None and len(text) > LONGEST_MESSAGE:
            found.append(f"a message of {len(text)} characters: {text[:100]}...")
    if world.raised is not None and not passed_on and not isinstance(world.raised, MAY_BE_SWALLOWED):
        found.append(f"{outcome} where hostile code had raised {type(world.raised).__name__}")
    if must_refuse and outcome != "refused":
        found.append(f"took what it must refuse, and gave {result!r}")
    waited = any(label.startswith("ManualClock.") for label in world.ran)  # then the call was half done
    if error is not None and not waited and (world.changed_early or world.state() != world.expected):
        found.append(f"changed something, and then {outcome} {type(error).__name__}")
    allowed = f"Litter.__del__|the caller's loop|{may_run}"
    forbidden = {label for label in world.ran if not re.fullmatch(allowed, label)}
    forbidden = set() if "HostileStore.reply" in world.ran else forbidden
    if forbidden:
        found.append(f"ran {', '.join(sorted(forbidden))} of the caller's")
    try:
        world.store._check()
    except AssertionError as broken:
        found.append(f"left a broken map: {broken}")
    if world.unraisable:
        found.append(f"sent to sys.unraisablehook: {world.unraisable}")

    del result, error
    world.raised = None  # its traceback holds the arguments
    goblin.set_default_store(None)
    if [sys.getrefcount(value) for value in arguments] != references:
        gc.collect()
        if [sys.getrefcount(value) for value in arguments] != references:
            found.append(
                f"changed reference counts: {references}, now {[sys.getrefcount(value) for value in arguments]}"
            )
    return found, outcome


def is_of_this_call(value):
    """Whether only we hold references to it: none comes or goes elsewhere."""
    return type(type(value)) is Metaclass or type(value) in (HostileIterator, OnlyGetItem)


def note_unraisable(unraisable):
    World.current.unraisable.append(f"{unraisable.err_msg or ''} {unraisable.exc_value!r} in {type(unraisable.object)}")


# ---- The program ---------------------------------------------------------------------------------------------------


def all_cases(seed, calls):
    """All of them, and how many of them are not random."""
    systematic = [*each_with_each(), *wrong_shapes(), *hostile_keyword_names()]
    return itertools.chain(systematic, (at_random(random.Random(f"{seed} {n}")) for n in range(calls))), len(systematic)


def run(case, dice, outcomes):
    world = World(dice, case.plan)
    args, kwargs = case.arguments(dice)
    litter = [Litter() for _ in range(dice.choice([0, 0, 0, 1]))]
    del litter  # garbage now, not yet collected
    found, outcome = complaints_about(world, case.of(world), args, kwargs, case.may_run, case.must_refuse)
    outcomes[case.method][outcome] += 1
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--calls", type=int, default=0, help="random calls after the systematic ones")
    parser.add_argument("--thin", type=int, default=1, help="of the systematic calls take every so many-th only")
    parser.add_argument("--only", type=int, help="the case of this number alone")
    options = parser.parse_args(argv)
    print(f"seed {options.seed}", flush=True)

    faulthandler.enable()
    sys.unraisablehook = note_unraisable
    outcomes: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    failures = 0
    cases, systematic = all_cases(options.seed, options.calls)
    gc.freeze()  # what is there already stays: so each collection below is quick
    gc.set_threshold(5, 2, 2)  # a collection nearly wherever one can be
    for number, case in enumerate(cases):
        if options.only is None and number < systematic and (number + options.seed) % options.thin:
            continue
        if options.only not in (None, number):
            continue
        found = run(case, random.Random(f"{options.seed} {number} call"), outcomes)
        for complaint in found:
            print(f"case {number}, {case.label}: it {complaint}")
        failures += bool(found)
        if failures > 50:
            print("... and so on")
            break
        if number % 100_000 == 99_999:
            print(f"{number + 1} cases", flush=True)
    print(f"{'method':28}{'returned':>10}{'refused':>10}{'passed on':>10}")
    for label, counts in outcomes.items():
        print(f"{label:28}{counts['returned']:>10}{counts['refused']:>10}{counts['passed on']:>10}")
    print("hostile code ran:", ", ".join(f"{what} {count}" for what, count in SEEN.items()))
    unseen = set(MISCHIEF) - set(SEEN)
    if unseen and options.only is None:
        print(f"never ran: {unseen}")
        failures += 1
    print(f"{sum(map(sum, (counts.values() for counts in outcomes.values())))} calls, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
