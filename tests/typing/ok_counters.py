"""Counters, method by method: every line must pass the strict type checkers, and has the type that it says."""

import enum
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal

from typing_extensions import assert_type

import goblin


class Colour(enum.IntEnum):
    RED = 1


class Weight:
    """Not an int: something with __index__, as NumPy's integers are."""

    def __index__(self) -> int:
        return 3


counters = goblin.Counters()
goblin.Counters(clock=None)
goblin.Counters(clock=goblin.ManualClock(), max_keys=10**6, on_full="evict")

# Keys are str or bytes, numbers int or whatever has __index__, times also timedelta.
assert_type(counters.increx("k", 60), int)
assert_type(counters.increx(b"k", timedelta(minutes=1)), int)
assert_type(counters.increx(key="k", seconds=Weight()), int)
assert_type(counters.pincrex("k", 250), int)
assert_type(counters.pincrex("k", milliseconds=timedelta(milliseconds=250)), int)
assert_type(counters.incrbound("k", 3, 10), int)
assert_type(counters.incrbound("k", delta=Colour.RED, max=Weight(), seconds=timedelta(days=30)), int)
assert_type(counters.incrbound("k", 1, 10, seconds=None), int)
assert_type(counters.decrpos("k"), int)

assert_type(counters.incr("k"), int)
assert_type(counters.incr("k", 5, ex=60), int)
assert_type(counters.incrby("k", Colour.RED, px=500), int)
assert_type(counters.decr("k", amount=Weight(), ex=None, px=None), int)
assert_type(counters.decrby(b"k", 5, ex=timedelta(hours=1)), int)

assert_type(counters.get("k"), int | None)
assert_type(counters.get("k", None), int | None)
assert_type(counters.get("k", 0), int)
assert_type(counters.get("k", default="none"), int | str)

# set() answers with a bool, or with the old value where it was asked for.
wanted: bool = bool(counters)
assert_type(counters.set("k", 1), bool)
assert_type(counters.set("k", "10", ex=60, nx=True), bool)
assert_type(counters.set(b"k", b"10", px=timedelta(seconds=1), xx=wanted), bool)
assert_type(counters.set("k", Weight(), keepttl=True, get=False), bool)
assert_type(counters.set("k", 1, get=True), int | None)
assert_type(counters.set("k", 1, get=wanted), bool | int | None)
assert_type(counters.getset("k", "0"), int | None)
assert_type(counters.getdel("k"), int | None)
assert_type(counters.getex("k", ex=60), int | None)
assert_type(counters.getex("k", px=1, persist=False), int | None)

assert_type(counters.mget("a", b"b"), list[int | None])
assert_type(counters.mget(["a", b"b"]), list[int | None])
assert_type(counters.mget({"a": 1}), list[int | None])
assert_type(counters.mget(key for key in ("a", "b")), list[int | None])
assert_type(counters.mget(), list[int | None])

# Of a mapping only items() is asked, and a dict is invariant in its keys: each of these is fine all the same.
mapping: dict[str, int] = {"a": 1}
counters.mset(mapping)
counters.mset({b"a": "1"})
counters.mset({"a": 1, b"b": "2", "c": Weight()})

assert_type(counters.delete("a", b"b"), int)
assert_type(counters.exists("a", b"b"), int)
assert_type(counters.expire("k", 60, nx=True), bool)
assert_type(counters.expire("k", seconds=timedelta(seconds=60), xx=True, gt=True), bool)
assert_type(counters.pexpire("k", 60_000, lt=wanted), bool)
assert_type(counters.persist("k"), bool)
assert_type(counters.ttl("k"), int)
assert_type(counters.pttl("k"), int)

# The container.
assert_type(len(counters), int)
assert_type("k" in counters, bool)
assert_type(counters["k"], int)
assert_type(counters[b"k"], int)
del counters["k"]
assert_type(counters.__bool__(), Literal[True])
for key in counters:
    assert_type(key, str | bytes)
assert_type(iter(counters), Iterator[str | bytes])
assert_type(counters.scan_iter(), Iterator[str | bytes])
assert_type(counters.scan_iter("rate:*"), Iterator[str | bytes])
assert_type(counters.scan_iter(match=b"rate:*"), Iterator[str | bytes])
assert_type(counters.items(), Iterator[tuple[str | bytes, int]])
assert_type(dict(counters.items()), dict[str | bytes, int])
assert_type(counters.most_common(), list[tuple[str | bytes, int]])
assert_type(counters.most_common(n=Weight()), list[tuple[str | bytes, int]])
assert_type(counters.sweep(), int)
counters.clear()

stats = counters.stats()
assert_type(stats, goblin.Stats)
assert_type(stats.keys, int)
assert_type(stats.slots, int)
assert_type(stats.memory_bytes, int)
assert_type(stats.expired, int)
assert_type(stats.evicted, int)
assert_type(stats[0], int)
assert_type(stats._asdict(), dict[str, Any])


class Named(goblin.Counters):
    """A store of one's own: other constructor, one method overridden."""

    def __init__(self, name: str, *, clock: goblin.ManualClock | None = None) -> None:
        super().__init__(clock=clock)
        self.name = name

    def sweep(self) -> int:
        return super().sweep()


assert_type(Named("a", clock=goblin.ManualClock()).incr("k"), int)
