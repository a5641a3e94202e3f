"""What the counters do, in plain Python: to be read as the specification, and run beside every other engine.

One dict from key bytes to a pair (value, deadline), the deadline in nanoseconds of the store's clock or None for a
counter that stays. Each method says its whole rule: arguments first (`model_args.py`: a call that raises has changed
nothing), then one reading of the clock, then at most one change. `seconds`/`milliseconds` arm a TTL only where none is
running; `ex`/`px` set it on every call.
"""

import time
from typing import NamedTuple

from model_args import (
    HORIZON_NS,
    INT64_MAX,
    INT64_MIN,
    NS_PER_MS,
    as_bytes,
    duration,
    durations,
    exclusive,
    integer,
    key_bytes,
    key_list,
    key_text,
    stored_value,
    value_pairs,
)
from model_clock import ModelClock
from model_glob import compile_glob, matches


def exact(total: int) -> int:
    if not INT64_MIN <= total <= INT64_MAX:
        raise OverflowError("increment or decrement would overflow")
    return total


class ModelStats(NamedTuple):
    keys: int
    slots: int
    memory_bytes: int
    expired: int


class Model:
    def __init__(self, *, clock=None):
        if not (clock is None or isinstance(clock, ModelClock)):
            raise TypeError(f"clock must be None or a ManualClock, not {type(clock).__name__}")
        self._clock = clock
        self._latest_ns = 0
        self._records: dict[bytes, tuple[int, int | None]] = {}
        self._expired = 0

    # Time: one rule for every method

    def _now(self) -> int:
        """The latest of all readings: a clock set back stands still, and what has expired never comes back."""
        reading = time.monotonic_ns() if self._clock is None else self._clock._ns
        self._latest_ns = max(self._latest_ns, min(reading, HORIZON_NS))
        return self._latest_ns

    def _look(self, key: bytes, now: int) -> tuple[int | None, int | None]:
        """(value, running deadline or None); (None, None) where the key is absent. Expired is absent."""
        value, deadline = self._records.get(key, (None, None))
        if deadline is not None and now >= deadline:
            del self._records[key]
            self._expired += 1
            return None, None
        return value, deadline

    def _put(self, key: bytes, value: int, deadline: int | None, now: int) -> None:
        """Store it; with a deadline that is not ahead the key is gone at once."""
        if deadline is not None and deadline <= now:
            self._records.pop(key, None)
        else:
            self._records[key] = (value, deadline)

    # The three commands that arm or bound in one step

    def increx(self, key, seconds):
        return self._increx(key_bytes(key), duration("seconds", seconds))

    def pincrex(self, key, milliseconds):
        return self._increx(key_bytes(key), duration("milliseconds", milliseconds))

    def _increx(self, key, period):
        now = self._now()
        deadline = period.deadline(now)
        old, running = self._look(key, now)
        new = exact((old or 0) + 1)
        arms = new == 1 and running is None
        self._put(key, new, deadline if arms else running, now)
        return new

    def incrbound(self, key, delta, max, *, seconds=None):
        key, delta, max = key_bytes(key), integer("delta", delta), integer("max", max)
        period, now = durations(seconds=seconds), self._now()
        deadline = period and period.deadline(now)
        old, running = self._look(key, now)
        total = (old or 0) + delta
        if total > max:
            return -1
        self._put(key, exact(total), deadline if running is None else running, now)
        return total

    def decrpos(self, key):
        key, now = key_bytes(key), self._now()
        old, running = self._look(key, now)
        if old is None or old <= 0:
            return -1
        self._put(key, old - 1, running, now)
        return old - 1

    # The INCR family

    def incr(self, key, amount=1, *, ex=None, px=None):
        return self._add(key_bytes(key), integer("amount", amount), +1, ex, px)

    def decr(self, key, amount=1, *, ex=None, px=None):
        return self._add(key_bytes(key), integer("amount", amount), -1, ex, px)

    incrby, decrby = incr, decr

    def _add(self, key, amount, sign, ex, px):
        period = durations(ex=ex, px=px)
        exclusive(ex=ex is not None, px=px is not None)
        now, deadline = self._ahead(period)
        old, running = self._look(key, now)
        amount = exact(sign * amount)  # so the smallest int64 can never be taken away, as in Redis
        new = exact((old or 0) + amount)
        self._put(key, new, deadline if period else running, now)
        return new

    def _ahead(self, period):
        """(now, deadline) for the options that set a TTL on every call: these must be positive."""
        period = period and period.positive()
        now = self._now()
        return now, period and period.deadline(now)

    # Reading and writing

    def get(self, key, default=None):
        value, _ = self._look(key_bytes(key), self._now())
        return default if value is None else value

    def set(self, key, value, *, ex=None, px=None, keepttl=False, nx=False, xx=False, get=False):
        key, value, period = key_bytes(key), stored_value(value), durations(ex=ex, px=px)
        exclusive(nx=nx, xx=xx)
        exclusive(ex=ex is not None, px=px is not None, keepttl=keepttl)
        now, deadline = self._ahead(period)
        old, running = self._look(key, now)
        stored = not (nx and old is not None or xx and old is None)
        if stored:
            self._put(key, value, running if keepttl else deadline, now)
        return old if get else stored

    def getset(self, key, value):
        return self.set(key, value, get=True)

    def getdel(self, key):
        key = key_bytes(key)
        value, _ = self._look(key, self._now())
        self._records.pop(key, None)
        return value

    def getex(self, key, *, ex=None, px=None, persist=False):
        key, period = key_bytes(key), durations(ex=ex, px=px)
        exclusive(ex=ex is not None, px=px is not None, persist=persist)
        now, deadline = self._ahead(period)
        value, _ = self._look(key, now)
        if value is not None and (period or persist):
            self._put(key, value, deadline, now)
        return value

    def mget(self, *keys):
        keys, now = key_list(keys), self._now()
        return [self._look(key, now)[0] for key in keys]

    def mset(self, mapping):
        pairs = value_pairs(mapping)
        self._records.update((key, (value, None)) for key, value in pairs.items())

    def delete(self, *keys):
        """The number of keys that were there; `exists` counts a key named twice twice."""
        return sum(self.getdel(key) is not None for key in [key_bytes(key) for key in keys])

    def exists(self, *keys):
        return sum(value is not None for value in self.mget([key_bytes(key) for key in keys]))

    # TTLs

    def expire(self, key, seconds, *, nx=False, xx=False, gt=False, lt=False):
        return self._expire(key_bytes(key), duration("seconds", seconds), nx, xx, gt, lt)

    def pexpire(self, key, milliseconds, *, nx=False, xx=False, gt=False, lt=False):
        return self._expire(key_bytes(key), duration("milliseconds", milliseconds), nx, xx, gt, lt)

    def _expire(self, key, period, nx, xx, gt, lt):
        exclusive(nx=nx, xx=xx)
        exclusive(nx=nx, gt=gt, lt=lt)
        now = self._now()
        deadline = period.deadline(now)
        value, running = self._look(key, now)
        if running is None:  # counts as an infinite TTL
            refused = xx or gt
        else:
            refused = nx or gt and deadline <= running or lt and deadline >= running
        if value is None or refused:
            return False
        self._put(key, value, deadline, now)
        return True

    def persist(self, key):
        key, now = key_bytes(key), self._now()
        value, running = self._look(key, now)
        if running is not None:
            self._put(key, value, None, now)
        return running is not None

    def pttl(self, key):
        """Milliseconds left, rounded up; -1 without a TTL, -2 absent."""
        key, now = key_bytes(key), self._now()
        value, running = self._look(key, now)
        if running is None:
            return -2 if value is None else -1
        return -((now - running) // NS_PER_MS)

    def ttl(self, key):
        left = self.pttl(key)
        return left if left < 0 else (left + 500) // 1000

    # The whole store

    def __len__(self):
        """What is stored: expired entries count until they are reclaimed."""
        return len(self._records)

    def __bool__(self):
        return True

    def __repr__(self):
        return f"<{type(self).__name__}: {len(self)} keys>"

    def __contains__(self, key):
        return self.get(key) is not None

    def __getitem__(self, key):
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __delitem__(self, key):
        if self.getdel(key) is None:
            raise KeyError(key)

    def items(self):
        """Every key that is there from start to end, once, whatever the caller does to the store meanwhile."""
        for key in list(self._records):
            value, _ = self._look(key, self._now())
            if value is not None:
                yield key_text(key), value

    def __iter__(self):
        return (key for key, _ in self.items())

    def scan_iter(self, match=None):
        steps = None if match is None else compile_glob(as_bytes("match", match))
        return (key for key in self if steps is None or matches(steps, key_bytes(key)))

    def most_common(self, n=None):
        n = None if n is None else max(0, integer("n", n))
        return sorted(self.items(), key=lambda item: -item[1])[:n]

    def sweep(self):
        """Reclaim every expired entry; how many they were."""
        now, before = self._now(), len(self)
        for key in list(self._records):
            self._look(key, now)
        return before - len(self)

    def clear(self):
        self._records.clear()

    def stats(self):
        return ModelStats(keys=len(self), slots=len(self), memory_bytes=0, expired=self._expired)

    def _check(self):
        for key, (value, deadline) in self._records.items():
            assert type(key) is bytes and INT64_MIN <= value <= INT64_MAX, (key, value)
            assert deadline is None or 0 < deadline < INT64_MAX, (key, deadline)
