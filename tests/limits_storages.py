"""Storages of `limits` on a clock that stands still: goblin's, and the library's own memory storage to compare with.

`Rig` makes one by its scheme and hides whether its methods are awaited. Whoever asks for the wall clock gets the rig's.
"""

import asyncio
import types

import limits.aio.strategies
import limits.strategies
from limits.storage import storage_from_string

import goblin
import goblin.integrations.limits

# A multiple of every period that the tests use. The windows of memory:// begin at multiples of the period, ours with
# the first hit: so a first hit at this time has both begin together. Small, so that a float tells nanoseconds apart.
START = 100 * 86_400.0
SCHEMES = ["memory", "goblin", "async+memory", "async+goblin"]
WITH_TIME = [
    *("limits.strategies", "limits.aio.strategies", "limits.storage.memory", "limits.aio.storage.memory"),
    "goblin.integrations.limits",
]


class Rig:
    """A storage, its limiters, and their clocks: goblin's own and the wall's, which go together."""

    def __init__(self, scheme, monkeypatch, parameters=""):
        self.scheme, self.is_async = scheme, scheme.startswith("async+")
        self.is_goblin = scheme.endswith("goblin")
        self.clock = goblin.ManualClock()
        for module in WITH_TIME:
            monkeypatch.setattr(f"{module}.time", types.SimpleNamespace(time=lambda: self.now))
        self.loop = asyncio.new_event_loop() if self.is_async else None
        self.bare = storage_from_string(
            f"{scheme}://{parameters}", **({"clock": self.clock} if self.is_goblin else {})
        )
        self.storage = self.awaited(self.bare)

    @property
    def now(self):
        return START + self.clock.now_ns / 10**9

    def advance(self, seconds):
        self.clock.advance(seconds)

    def limiter(self, name):
        """Of the strategy with this name, such as "fixed-window"."""
        strategies = limits.aio.strategies if self.is_async else limits.strategies
        return self.awaited(strategies.STRATEGIES[name](self.bare))

    def awaited(self, thing):
        return Awaited(thing, self.loop) if self.is_async else thing

    def close(self):
        if self.loop is not None:
            self.loop.run_until_complete(self.let_expire())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
        elif not self.is_goblin:
            self.bare.timer.join()  # it must not meet the next test

    async def let_expire(self):
        """Until the task of async+memory has ended."""
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


class Awaited:
    """Calls the async methods of a thing, and waits for them."""

    def __init__(self, thing, loop):
        self.thing, self.loop = thing, loop

    def __getattr__(self, name):
        method = getattr(self.thing, name)
        return lambda *args, **options: self.loop.run_until_complete(method(*args, **options))
