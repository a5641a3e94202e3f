"""Contract tests as tables: each row is a short program of calls, what each replies, and what the store then holds.

    @table(
        row("a_sum_at_the_bound_is_admitted",
            do("incrbound", "q", 10, 10).gives(10),
            wait(5),
            do("incrbound", "q", 1, 10).gives(-1),
            leaves={"q": (10, None)}),
    )
    def test_incrbound(row, engine): row.run(engine)

`leaves` is everything: {key: (value, milliseconds left or None)}, no other key. Without it the end is not compared.

Where an engine must answer differently, the step says so, with the reason: `.gives(-1, differs={"redis": (gives(0),
"Lua counts in doubles")})`. A row for some engines only: `row(..., needs=["manual_clock"])`, of engines.CAPABILITIES. A
row that has no meaning for an engine at all: `row(..., differs={"redis": "reason"})`. conftest.py counts both.

What an engine without "python_arguments" says when it refuses is its own affair; the class of the error is compared.
On one without "manual_clock" a TTL is compared with what the row took in real time (see TimeLeft).
"""

import re

import pytest

from engines import CAPABILITIES
from redis_engine import TimeLeft


class gives:
    def __init__(self, value):
        self.value = value

    def check(self, call, label, texts=True):
        reply = call()
        same_type = type(reply) is type(self.value) or type(reply) is TimeLeft and type(self.value) is int
        assert same_type and reply == self.value, f"{label} gave {reply!r}, not {self.value!r}"


class fails:
    def __init__(self, error, pattern=""):
        self.error, self.pattern = error, pattern

    def check(self, call, label, texts=True):
        try:
            reply = call()
        except self.error as error:
            says_it = not texts or re.search(self.pattern, str(error))
            assert says_it, f"{label} said {str(error)!r}, not {self.pattern!r}"
        else:
            pytest.fail(f"{label} gave {reply!r} instead of raising {self.error.__name__}")


class do:
    """One call of a method; the outcome is mandatory."""

    def __init__(self, method, *args, **kwargs):
        self.method, self.args, self.kwargs = method, args, kwargs
        self.outcome, self.differs = None, {}

    def gives(self, value, differs=None):
        return self._expect(gives(value), differs)

    def fails(self, error, pattern="", differs=None):
        return self._expect(fails(error, pattern), differs)

    def _expect(self, outcome, differs):
        self.outcome, self.differs = outcome, differs or {}
        for other, reason in self.differs.values():
            assert isinstance(other, gives | fails) and reason, "say what it gives instead, and why"
        return self

    def __str__(self):
        shown = [repr(arg) for arg in self.args] + [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"{self.method}({', '.join(shown)})"

    def run(self, rig, engine):
        outcome, _ = self.differs.get(engine.name, (self.outcome, ""))
        texts = "python_arguments" in engine.capabilities
        outcome.check(lambda: getattr(rig.store, self.method)(*self.args, **self.kwargs), str(self), texts)


class wait:
    """Move the clock by seconds; `wait(ns=...)` needs an engine with "nanoseconds"."""

    def __init__(self, seconds=0, *, ns=0):
        self.seconds, self.ns = seconds, ns

    def run(self, rig, engine):
        if self.seconds:
            rig.advance(self.seconds)
        if self.ns:
            rig.advance_ns(self.ns)


class row:
    def __init__(self, name, *steps, leaves=None, differs=None, needs=()):
        self.name, self.steps, self.leaves, self.differs, self.needs = name, steps, leaves, differs or {}, {*needs}
        assert self.needs <= CAPABILITIES.keys(), f"{name}: unknown capability"
        assert all(isinstance(step, wait) or step.outcome for step in steps), f"{name}: a call without an outcome"

    def differs_on(self, engine):
        """Whether a step of it is written to go differently there."""
        return any(engine.name in step.differs for step in self.steps if isinstance(step, do))

    def run(self, engine):
        rig = engine.make()
        for step in self.steps:
            step.run(rig, engine)
        if self.leaves is not None:
            assert state(rig.store) == {as_bytes(key): kept for key, kept in self.leaves.items()}
        rig.store._check()


def table(*rows):
    names = [row.name for row in rows]
    assert len(set(names)) == len(names), f"two rows of one name: {names}"
    return pytest.mark.parametrize("row", rows, ids=names)


def as_bytes(key):
    return key.encode() if isinstance(key, str) else key


def state(store):
    """{key as bytes: (value, milliseconds left or None)} of the live keys."""
    found = {}
    for key, value in store.items():
        left = store.pttl(key)
        assert as_bytes(key) not in found, f"{key!r} came twice"
        found[as_bytes(key)] = (value, None if left == -1 else left)
    return found
