"""The engines that one body of tests runs against: the compiled core and the model; a server can join them.

An engine says its name, what it can do, and how to make a fresh store with a hand on its clock. To add one: write a
class with these three, append an instance to ENGINES. A test asks for what it needs with `@pytest.mark.needs("native")`
and then runs only on the engines that can; a row that an engine answers differently says so itself (see rows.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import goblin
from model import Model
from model_clock import ModelClock

CAPABILITIES = {
    "manual_clock": "a clock object that stands still, can be set back, and is passed as clock=",
    "nanoseconds": "time in steps finer than a millisecond",
    "python_arguments": "argument rules of the Python interface (types, messages, __index__)",
    "native": "the compiled core: memory figures, reference counts, subclassing, _check() of the table",
    "threads": "calls from several threads at once",
}


class Rig(NamedTuple):
    """A fresh store and the way to move its clock."""

    store: Any
    advance_ns: Callable[[int], None]
    clock: Any = None  # the clock object, on engines that have "manual_clock"

    def advance(self, seconds):
        """Seconds as int, or as float for a whole number of milliseconds."""
        self.advance_ns(round(seconds * 1000) * 10**6)


class OnManualClock:
    """An engine in this process: a store class and the class of its clock."""

    def __init__(self, name, store_type, clock_type, capabilities):
        self.name, self.store_type, self.clock_type = name, store_type, clock_type
        self.capabilities = frozenset({"manual_clock", "nanoseconds", "python_arguments"}) | capabilities

    def make(self, now_ns=0) -> Rig:
        clock = self.clock_type(now_ns)
        return Rig(self.store_type(clock=clock), clock.advance_ns, clock)


CORE = OnManualClock("core", goblin.Counters, goblin.ManualClock, {"native", "threads"})
MODEL = OnManualClock("model", Model, ModelClock, set())

ENGINES = [CORE, MODEL]
