"""The same random programs on the core and on the model: every reply and every state must agree.

A failure prints the seed; `GOBLIN_SEED=... pytest tests/test_random_programs.py` runs the same programs again.
"""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engines import CORE, MODEL
from programs import EVERYTHING, STEPS_NS, Generator, Profile, coverage, perform, same
from rows import state
from scale import SEED, rounds, size

# Where the clock starts: at zero, at a usual uptime, and so near the end of time that deadlines do not fit.
STARTS_NS = [0, 775_807, 123_456_789_012_345, 2**63 - 2 - 300 * 10**9]
ORDINARY = Profile(bad_arguments=0.0)
FEW_KEYS = Profile(keys=[("a", b"a"), ("k" * 21, b"k" * 21)], bad_arguments=0.005)


def run_both(seed, length, start_ns, profile=EVERYTHING):
    core, model = CORE.make(start_ns), MODEL.make(start_ns)
    generator = Generator(random.Random(seed), profile)
    recent = []
    for step in range(length):
        operation = generator.operation()
        recent.append(operation)
        got, expected = perform(core, operation), perform(model, operation)
        where = f"GOBLIN_SEED={SEED}, program {seed} from {start_ns} ns, step {step}"
        if not same(got, expected):
            pytest.fail(f"{where}: the core gave {got!r}, the model {expected!r}\n" + story(recent))
        if step % 500 == 0 or step == length - 1:
            core.store._check()
            if state(core.store) != state(model.store):
                pytest.fail(f"{where}: states differ\n{state(core.store)}\n{state(model.store)}\n" + story(recent))


def story(operations):
    return "\n".join(str(operation)[:200] for operation in operations[-25:])


def test_random_programs_200_000_operations_core_and_model_agree():
    for number in rounds(20, soak=4_000, least=4):
        run_both(SEED + number, 8_000, STARTS_NS[number % len(STARTS_NS)])
    for number in rounds(4, soak=800, least=1):
        run_both(SEED + number, 5_000, STARTS_NS[number % len(STARTS_NS)], ORDINARY)
        run_both(SEED + number, 5_000, STARTS_NS[number % len(STARTS_NS)], FEW_KEYS)


def test_random_programs_many_keys_core_and_model_agree():
    """Thousands of counters that come and go, so that the table grows, splits and shrinks in between."""
    keys = [(f"user:{n:>{8 + n % 20}}",) for n in range(6_000)]
    profile = Profile(
        keys=keys,
        bad_arguments=0.0,
        clock_set_back=False,
        methods=("increx", "incrbound", "set", "expire", "getdel", "delete", "pttl", "incr", "advance"),
        steps_ns=[10**6, 10**8],
    )
    run_both(SEED, 40_000, 0, profile)


def operations(profile):
    """Drawn through Hypothesis' own random source, so that failing programs shrink."""

    @st.composite
    def draw_one(draw):
        return Generator(draw(st.randoms(use_true_random=False)), profile).operation()

    return draw_one()


class CoreAndModel(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.core, self.model = CORE.make(10**9), MODEL.make(10**9)

    def both(self, operation):
        got, expected = perform(self.core, operation), perform(self.model, operation)
        assert same(got, expected), f"{operation}: the core gave {got!r}, the model {expected!r}"

    @rule(operation=operations(ORDINARY))
    def call(self, operation):
        self.both(operation)

    @rule(operation=operations(FEW_KEYS))
    def call_on_few_keys(self, operation):
        self.both(operation)

    @rule(operation=operations(Profile(bad_arguments=0.3)))
    def call_with_bad_arguments(self, operation):
        self.both(operation)

    @rule(step=st.sampled_from(STEPS_NS), direction=st.sampled_from([1, 1, 1, -1]))
    def move_the_clock(self, step, direction):
        self.both(("advance", (step * direction,), {}))

    @rule(left=st.integers(0, 2 * 10**9))
    def jump_to_the_end_of_time(self, left):
        self.both(("advance", (2**63 - 2 - left - self.core.clock.now_ns,), {}))

    @rule(key=st.sampled_from(["a", "k" * 21]))
    def jump_to_the_very_deadline(self, key):
        """To the instant of expiry, and one nanosecond short of it."""
        left = self.core.store.pttl(key)
        assert left == self.model.store.pttl(key)
        if left > 0:
            for step in (left * 10**6 - 1, 1):
                self.both(("advance", (step,), {}))
                self.both(("get", (key,), {}))

    @invariant()
    def states_agree(self):
        self.core.store._check()
        self.model.store._check()
        assert state(self.core.store) == state(self.model.store)


CoreAndModel.TestCase.settings = settings(max_examples=size(60, soak=3_000, least=15), stateful_step_count=40, deadline=None, print_blob=True)


class TestCoreAndModel(CoreAndModel.TestCase):
    """Collected by pytest; Hypothesis prints the shortest failing program."""


EXPECTED_REPLIES = {
    "increx": {"1", "int", "-1", "0", "OverflowError", "TypeError", "ValueError", "UnicodeEncodeError"},
    "incrbound": {"-1", "0", "1", "int", "OverflowError", "TypeError", "ValueError"},
    "decrpos": {"-1", "0", "1", "int", "TypeError"},
    "incrby": {"-1", "0", "1", "int", "OverflowError", "TypeError", "ValueError"},
    "decrby": {"-1", "0", "1", "int", "OverflowError", "TypeError", "ValueError"},
    "set": {"True", "False", "None", "int", "OverflowError", "TypeError", "ValueError"},
    "getex": {"None", "int", "TypeError", "ValueError"},
    "expire": {"True", "False", "TypeError", "ValueError", "OverflowError"},
    "pexpire": {"True", "False", "TypeError", "ValueError", "OverflowError"},
    "persist": {"True", "False"},
    "ttl": {"-2", "-1", "0", "1", "int"},
    "pttl": {"-2", "-1", "1", "int"},
    "__getitem__": {"int", "KeyError", "TypeError"},
    "delete": {"0", "1", "int", "TypeError"},
    "mget": {"list", "TypeError"},
}


def test_random_programs_reach_every_kind_of_reply():
    """A generator that never meets a case proves nothing about it. Fixed seed: this is about the generator."""
    seen = coverage(MODEL.make(), seed=1, count=60_000)
    missing = {method: kinds - seen[method].keys() for method, kinds in EXPECTED_REPLIES.items()}
    assert not any(missing.values()), missing
    assert seen.keys() == Generator.TABLE.keys()
