"""Nothing is left behind: calls that fail and calls that do not, a million of each (GOBLIN_SOAK=1), 6,000 otherwise.

Judged by what CPython counts (references to each argument, blocks, objects of the collector) and by the memory in RAM.
"""

import gc
import sys

import pytest

import goblin
from catalogue import BY_KEY, NUMBERS, VALUES
from flood import resident_bytes
from scale import rounds

MEGABYTE = 1 << 20
WARM_UP = 300


class Bad:
    """An argument that fails in the caller's own code."""

    def __index__(self):
        raise ZeroDivisionError

    def __hash__(self):
        return 5


class Arguments:
    """What the calls are given: objects of which nobody else holds a reference."""

    def __init__(self):
        self.clock = goblin.ManualClock(10**15)
        self.store = goblin.Counters(clock=self.clock)
        self.full = goblin.Counters(clock=self.clock, max_keys=2)
        self.full.mset({"one": 1, "two": 2})
        self.limiter = goblin.RateLimiter("5/minute", store=self.store)
        self.several = goblin.RateLimiter("5/minute; 100/hour", algorithm="gcra", store=self.store)
        self.ascii = "".join(["some", "key"])
        self.unicode = "".join(["Schlüssel", "ключ"])
        self.bytes = bytes([255, 254]) * 20
        self.long = "k" * 70_000
        self.number = int("123456789012")
        self.huge = 2**70
        self.bad = Bad()
        self.text = "not a number"
        self.mapping = {self.ascii: self.number, self.unicode: self.number}
        self.bad_mapping = {self.ascii: self.number, self.unicode: self.bad}
        gcra, window = ("gcra", 5, 10**9, None), ("fixed-window", 5, 10**9, None)
        self.entries = [(self.ascii + "gcra", gcra), (self.ascii + "window", window)]
        self.wrong_kind = "a sliding window"
        self.store.sliding_window(self.wrong_kind, 5, 60)

    def counts(self):
        return {name: sys.getrefcount(value) for name, value in vars(self).items()}


# One round each of every method, with arguments that are right ...
ROUNDS = {
    **{name: lambda a, call=call: call(a.store, a.ascii) for name, call in BY_KEY.items()},
    "unicode": lambda a: (a.store.incr(a.unicode), a.store.get(a.unicode), a.store.delete(a.unicode)),
    "bytes": lambda a: (a.store.incr(a.bytes, a.number), a.store.get(a.bytes), a.store.getdel(a.bytes)),
    "default": lambda a: a.store.get("absent", a.mapping),
    "mapping": lambda a: a.store.mset(a.mapping),
    "iterate": lambda a: (list(a.store), list(a.store.items()), list(a.store.scan_iter("*k*"))),
    "most_common": lambda a: (a.store.most_common(), a.store.most_common(2)),
    "stats": lambda a: (a.store.stats(), a.store.sweep(), len(a.store), repr(a.store)),
    "store_dropped_midway": lambda a: next(iter(goblin.Counters(clock=a.clock)), None),
    "clear": lambda a: (a.full.clear(), a.full.mset({"one": 1, "two": 2})),
    "fixed_window": lambda a: (a.store.fixed_window(a.unicode, 5, 60), a.store.delete(a.unicode)),
    "sliding_window": lambda a: a.store.sliding_window(a.wrong_kind, 5, 60),
    "gcra": lambda a: (a.store.gcra(a.bytes, 5, 60, burst=9), a.store.delete(a.bytes)),
    "decide": lambda a: a.store.decide(a.entries),
    "decide_peek": lambda a: a.store.decide(a.entries, 1, "peek"),
    "limiter_hit": lambda a: a.limiter.hit(a.ascii),
    "limiter_allow": lambda a: a.several.allow(a.unicode),
    "limiter_peek": lambda a: a.limiter.peek(a.number),
    "limiter_parts": lambda a: a.limiter.peek((a.ascii, a.number, a.bytes)),
    "limiter_refund": lambda a: a.limiter.refund(a.limiter.hit(a.ascii)),
    "limiter_reset": lambda a: a.several.reset(a.ascii),
    "decision": lambda a: (lambda d: (bool(d), repr(d), d.headers(), hash(d), d == d, d.reset_after))(a.limiter.hit("k")),
    "clock": lambda a: (a.clock.advance(0), a.clock.now_ns, repr(a.clock)),
    "new_limiter": lambda a: goblin.RateLimiter("5/minute; 9/hour", store=a.store),
}
# ... and every kind of failing call.
FAILING = {
    **{f"key_{name}": lambda a, call=call: call(a.store, a.bad) for name, call in BY_KEY.items()},
    **{f"long_key_{name}": lambda a, call=call: call(a.store, a.long) for name, call in list(BY_KEY.items())[::4]},
    **{f"number_{name}": lambda a, call=call: call(a.store, a.bad) for name, (_, call) in NUMBERS.items()},
    **{f"huge_{name}": lambda a, call=call: call(a.store, a.huge) for name, (_, call) in list(NUMBERS.items())[::3]},
    **{f"value_{name}": lambda a, call=call: call(a.store, a.text) for name, call in VALUES.items()},
    "overflow": lambda a: a.store.incr(a.wrong_kind + "2", 2**63 - 1) + a.store.incr(a.wrong_kind + "2", 2**63 - 1),
    "wrong_kind": lambda a: a.store.incr(a.wrong_kind),
    "wrong_kind_item": lambda a: a.store[a.wrong_kind],
    "absent_item": lambda a: a.store["absent"],
    "absent_item_deleted": lambda a: a.store.__delitem__("absent"),
    "mapping": lambda a: a.store.mset(a.bad_mapping),
    "capacity": lambda a: a.full.incr(a.ascii),
    "capacity_mset": lambda a: a.full.mset(a.mapping),
    "capacity_decide": lambda a: a.full.decide(a.entries),
    "capacity_limiter": lambda a: goblin.RateLimiter("5/minute", store=a.full).hit(a.ascii),
    "time": lambda a: a.store.increx("absent", 10**10),
    "options": lambda a: a.store.set(a.ascii, 1, ex=5, px=5),
    "entries": lambda a: a.store.decide([(a.ascii, a.text)]),
    "entries_bad": lambda a: a.store.decide([*a.entries, (a.ascii, ("gcra", a.bad, 10**9, None))]),
    "refund": lambda a: a.store.refund((a.text,), 1),
    "limiter_key": lambda a: a.limiter.hit(a.bad),
    "limiter_cost": lambda a: a.several.hit(a.ascii, a.bad),
    "limiter_grammar": lambda a: goblin.RateLimiter(a.text),
    "pattern": lambda a: a.store.scan_iter(a.number),
    "constructor": lambda a: goblin.Counters(clock=a.text),
    "constructor_bound": lambda a: goblin.Counters(max_keys=a.bad),
    "clock": lambda a: a.clock.advance(a.bad),
    "clock_far": lambda a: a.clock.advance_ns(2**63 - 1),
    "pickle": lambda a: a.store.__reduce__(),
}


def spin(call, arguments, times):
    """Returns how many of the calls raised. Nothing is made in the loop that could hide what a call leaves behind."""
    failed = 0
    for _ in times:
        try:
            call(arguments)
        except Exception:
            failed += 1
    return failed


@pytest.mark.parametrize("call", [*ROUNDS.values(), *FAILING.values()], ids=[*ROUNDS, *(f"failing_{n}" for n in FAILING)])
def test_calls_by_the_thousand_leave_nothing_behind(call):
    arguments = Arguments()
    failing = any(call is one for one in FAILING.values())
    spin(call, arguments, range(WARM_UP))
    gc.collect()
    references, objects, resident = arguments.counts(), len(gc.get_objects()), resident_bytes()
    memory = arguments.store.stats().memory_bytes
    blocks = sys.getallocatedblocks()
    count = 0
    for count, _ in enumerate(rounds(30, soak=5_000, least=30), start=1):
        failed = spin(call, arguments, range(200))
        assert not failing or failed == 200, f"{200 - failed} calls did not fail"
    gc.collect()
    grown = sys.getallocatedblocks() - blocks
    calls = count * 200
    assert arguments.counts() == references
    assert abs(len(gc.get_objects()) - objects) < 50
    assert grown < 100, f"{grown} blocks more after {calls} calls"
    assert arguments.store.stats().memory_bytes <= memory
    if resident is not None:
        assert resident_bytes() - resident < 4 * MEGABYTE
    arguments.store._check()
