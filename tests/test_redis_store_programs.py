"""Random programs on RedisCounters and on the core at once: every reply and every state must agree.

The clock moves by whole milliseconds and never back: finer than that and back, a server's counters differ as written in
docs/several-workers.md. GOBLIN_SEED repeats a run; GOBLIN_SOAK=1 makes it long.
"""

import random

import goblin
from engines import Rig
from programs import Generator, Profile, perform, same
from redis_stores import MS, SECOND, Twin, client, timed  # noqa: F401 - a fixture
from rows import state
from scale import SEED, rounds

STEPS_NS = [MS, 2 * MS, 500 * MS, 999 * MS, SECOND, SECOND + MS, 2 * SECOND, 10 * SECOND, 61 * SECOND]
METHODS = tuple(set(Generator.TABLE) - {"sweep"})  # which a server does by itself
PROFILES = {
    "ordinary": Profile(steps_ns=STEPS_NS, clock_set_back=False, methods=METHODS),
    "few keys": Profile(
        keys=[("a", b"a"), ("k" * 21,)], bad_arguments=0.0, steps_ns=STEPS_NS, clock_set_back=False, methods=METHODS
    ),
}


def run_both(client, seed, length, profile):  # noqa: F811
    client.flushall()
    twin = Twin(client)
    clocks = [goblin.ManualClock(twin.clock.now_ns) for _ in range(2)]
    here = Rig(goblin.Counters(clock=clocks[0]), clocks[0].advance_ns, clocks[0])
    there = Rig(timed(twin.redis, clocks[1]), clocks[1].advance_ns, clocks[1])
    generator = Generator(random.Random(seed), profile)
    recent = []
    for step in range(length):
        operation = generator.operation()
        recent.append(operation)
        got, expected = perform(there, operation), perform(here, operation)
        story = "\n".join(str(one)[:200] for one in recent[-25:])
        where = f"GOBLIN_SEED={SEED}, program {seed}, step {step}"
        assert same(got, expected), f"{where}: the server gave {got!r}, the core {expected!r}\n{story}"
        if step % 200 == 0 or step == length - 1:
            assert state(there.store) == state(here.store), f"{where}\n{story}"


def test_random_programs_on_the_server_and_on_the_core_agree(client):  # noqa: F811
    for number in rounds(3, soak=1_000):
        for profile in PROFILES.values():
            run_both(client, SEED + number, 400, profile)
