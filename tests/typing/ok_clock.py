"""ManualClock: what it takes, and that its reading is an int that cannot be set."""

from datetime import timedelta

from typing_extensions import assert_type

import goblin

clock = goblin.ManualClock()
goblin.ManualClock(10**9)
goblin.ManualClock(now_ns=10**9)
assert_type(goblin.ManualClock(coarse_lag_ns=4_000_000).coarse_lag_ns, int | None)
assert_type(clock.now_ns, int)

clock.advance(1)
clock.advance(0.25)
clock.advance(-1.5)
clock.advance(timedelta(microseconds=1))
clock.advance(seconds=60)
clock.advance_ns(1)
clock.advance_ns(ns=-1)


class Fast(goblin.ManualClock):
    """A subclass is a clock as well."""

    def tick(self) -> None:
        self.advance_ns(10**6)


store = goblin.Counters(clock=Fast(5))
