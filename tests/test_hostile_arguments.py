"""No argument crashes the interpreter, and no refused call changes anything: hostile.py in a process of its own.

A failure prints the seed; GOBLIN_SEED=... runs the same cases again. GOBLIN_SOAK=1 makes it long: minutes, with every
systematic case and many random ones. The tests behind the first one show the judge of hostile.py a fault of each kind,
since a judge that finds nothing proves nothing.
"""

import os
import random
import subprocess
import sys
import types
from pathlib import Path

import pytest

import goblin
import hostile
from hostile_objects import HOSTILE, Nasty, Trapped, Universal, World

SEED = int(os.environ.get("GOBLIN_SEED") or random.SystemRandom().randrange(2**32))
SOAK = os.environ.get("GOBLIN_SOAK") == "1"
HOW_LONG = ["--calls", "500000"] if SOAK else ["--thin", "6", "--calls", "1500"]
TIMEOUT_SECONDS = 3_600 if SOAK else 300  # only a guard against hanging


def test_hostile_arguments_crash_nothing_and_a_refusal_changes_nothing():
    program = [sys.executable, "-X", "dev", "-bb", "-W", "error", str(Path(hostile.__file__))]
    process = subprocess.run(
        [*program, "--seed", str(SEED), *HOW_LONG],
        capture_output=True, encoding="utf-8", timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    report = f"GOBLIN_SEED={SEED}, exit status {process.returncode}\n{process.stdout}{process.stderr}"
    assert process.returncode == 0, report
    assert process.stderr == "", report
    assert process.stdout.rstrip().endswith(" calls, 0 failures"), report


# The judge


@pytest.fixture(autouse=True)
def no_world_remains():
    before = goblin.set_default_store(None)
    yield
    World.current = None
    goblin.set_default_store(before)


@pytest.fixture
def judge(monkeypatch):
    """judge(function, argument, plan): the complaints about the call `function(world, argument)`."""
    monkeypatch.setattr(sys, "unraisablehook", hostile.note_unraisable)

    def complaints(function, label="trapped str 0", plan=("nothing", None), **rules):
        world = World(random.Random(1), plan)
        found, _ = hostile.complaints_about(
            world, lambda argument: function(world, argument), [HOSTILE[label]()], {}, **rules
        )
        return " / ".join(found)

    return complaints


def refuse(world, argument):
    raise TypeError("no")


def test_judge_of_a_sound_refusal_or_reply_says_nothing(judge):
    assert judge(refuse) == ""
    assert judge(lambda world, argument: world.store.get(argument)) == ""
    assert judge(lambda world, n: world.store.incr("k", n), "universal", may_run=hostile.INDEX) == ""
    assert judge(lambda world, n: world.store.incr("k", n), "universal", ("clear", Nasty), may_run=hostile.INDEX) == ""


def test_judge_sees_a_change_before_a_refusal(judge):
    def deletes(world, argument):
        world.store.delete("top")
        raise ValueError("no")

    def loses_a_ttl(world, argument):
        world.store.persist("top")
        raise ValueError("no")

    def moves_the_clock(world, argument):
        goblin.ManualClock.advance_ns(world.clock, 1)
        raise ValueError("no")

    def takes_too_early(world, argument):
        world.store.incr("rate:one")
        world.store.incr("rate:one", argument)

    for function in (deletes, loses_a_ttl, moves_the_clock):
        assert "changed something, and then refused ValueError" in judge(function)
    assert "changed something" in judge(
        takes_too_early, "universal", ("nothing", KeyboardInterrupt), may_run=hostile.INDEX
    )


@pytest.mark.parametrize(
    ("code", "ran"),
    [
        (hash, "str.__hash__"),
        (repr, "str.__repr__"),
        (lambda key: key == "rate:one", "str.__eq__"),
        (lambda key: f"{key}", "str.__format__"),
        (lambda key: isinstance(key, bytes), "str.__class__"),
        (lambda key: type(key).__name__, "type.__name__"),
        (lambda key: isinstance("x", type(key)), "type.__instancecheck__"),
        (len, "str.__len__"),
    ],
)
def test_judge_sees_code_of_the_caller_that_ran(code, ran, judge):
    assert ran in judge(lambda world, argument: [code(argument), None][1])


def test_judge_sees_a_reference_kept_or_dropped(judge):
    kept = []
    assert "changed reference counts" in judge(lambda world, argument: kept.append(argument))


def test_judge_sees_an_exception_that_is_no_refusal(judge):
    def failing(error):
        def function(world, argument):
            raise error

        return function

    for error in (
        SystemError("returned NULL"),
        AttributeError("x"),
        IndexError("x"),
        AssertionError("x"),
        BytesWarning("x"),
        Nasty("x"),
    ):
        assert f"raised {type(error).__name__}" in judge(failing(error))
    assert "a message of 1000 characters" in judge(failing(ValueError("x" * 1_000)))


def test_judge_sees_a_swallowed_exception(judge):
    def swallows(world, argument):
        try:
            return argument.__index__()
        except BaseException:
            return 0

    def replaces(world, argument):
        try:
            return argument.__index__()
        except BaseException:
            raise TypeError("no") from None

    for function in (swallows, replaces):
        for error in (KeyboardInterrupt, Nasty, ValueError):
            complaint = judge(function, "universal", ("nothing", error), may_run=hostile.ANYTHING)
            assert f"where hostile code had raised {error.__name__}" in complaint


def test_judge_sees_what_is_taken_and_must_not_be(judge):
    assert "took what it must refuse" in judge(lambda world, argument: 5, must_refuse=True)


def test_judge_sees_an_unraisable_exception(judge):
    class Falls:
        def __del__(self):
            raise ValueError("in a destructor")

    assert "sent to sys.unraisablehook" in judge(lambda world, argument: [Falls(), None][1])


def test_judge_sees_a_broken_map(judge):
    class Broken(goblin.Counters):
        def _check(self):
            raise AssertionError("count is off")

    def breaks(world, argument):
        world.store = Broken()

    assert "left a broken map: count is off" in judge(breaks)


# What is called


def test_methods_are_all_that_is_public():
    labels = {method.label for method in hostile.METHODS}
    for name in ("Counters", "ManualClock"):
        public = getattr(goblin, name)
        assert labels >= {
            f"{name}.{member}" for member in dir(public) if member[0] != "_" and callable(getattr(public, member))
        }
    assert labels >= {"Counters", "Counters.__contains__", "Counters.__init__", "ManualClock.__init__"}


def test_methods_without_a_recipe_are_refused():
    def function(surprise):
        pass

    class Stranger:
        pass

    class Counters:
        def incr(self, key, surprise):
            pass

    for public in (function, Stranger, Counters):
        public.__module__ = "goblin.somewhere"
        module = types.SimpleNamespace(__all__=[public.__name__], **{public.__name__: public})
        with pytest.raises(LookupError, match="has no recipe in"):
            hostile.find_methods(module)


def test_index_that_calls_its_own_method_without_end_raises_recursionerror():
    store = goblin.Counters()
    store.set("k", 5)

    class Endless:
        def __index__(self):
            return store.incr("k", self)

    for call in (store.incr, store.set, store.increx, store.expire):
        with pytest.raises(RecursionError):
            call("k", Endless())
        assert dict(store.items()) == {"k": 5}
    store._check()


def test_trapped_objects_spring_only_while_armed():
    world = World(random.Random(1))
    key = Trapped[str]("k")
    assert hash(key) == hash("k") and int(Universal()) == 3 and world.ran == []
    world.armed = True
    assert hash(key) == hash("k") and world.ran == ["str.__hash__"]
