"""Random histories of one key: every verdict of the core against the exact reference, and what `ttl` and `get` show.

Times are chosen to hurt: the very edge of the window and a nanosecond to each side, the instant that a refusal named,
idle spells, the clock's first nanoseconds and its last. GOBLIN_SEED repeats a run; GOBLIN_SOAK=1 makes it long.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import goblin
from engines import CORE
from limit_references import HORIZON_NS, INT64_MAX, NEVER, REFERENCES
from scale import SEED, rounds, size

SECOND = 10**9
DAY = 86_400 * SECOND

# (limit, period in ns, burst under gcra): small enough to reach every edge, and as large as 128-bit products need.
QUOTAS = [
    (1, 1, None),
    (1, 7, None),
    (2, 1, 1),
    (3, 10, 2),
    (5, 13, None),
    (7, 3, 4),
    (10, SECOND, None),
    (97, 1_000_003, 5),
    (4, 60 * SECOND, 1),
    (3 * 10**8, SECOND, 2),
    (10**9, 3_600 * SECOND, None),
    (2**31 - 1, 977, 3),
    (2**31 - 1, 30 * DAY, None),
    (3_559, 30 * DAY, None),
    (11_863, 365 * DAY, 11_863_000),
    (0, 60 * SECOND, None),
]
WIDE_QUOTAS = [
    (2**62 + 1, 10**9 + 7, None),
    (INT64_MAX, 10**18, INT64_MAX),
    (1, 10**18, 9),
    (INT64_MAX, 1, 1),
]  # not sliding
STARTS_NS = [0, 1, 123_456_789_012_345, 2**62]
VALUES = [0, 1, -1, -(2**63), INT64_MAX]


def seconds(period):
    """The argument that means this many nanoseconds: whole seconds, or the nearest float, which rounds back to them."""
    return None if period is None else period // SECOND if period % SECOND == 0 else period / SECOND


class History:
    """One key on the core and on its reference, with one clock; every step compares."""

    def __init__(self, kind, start_ns=0):
        self.kind, self.rig, self.reference = kind, CORE.make(start_ns), REFERENCES[kind]()
        self.story = [f"start {start_ns}"]
        self.last = 0  # the last verdict
        self.replies = set()

    @property
    def now(self):
        return self.rig.clock.now_ns

    def ask(self, limit, period, cost=1, burst=None):
        store, asked = self.rig.store, (limit, seconds(period), cost)
        if self.kind == "fixed-window":
            return store.fixed_window("k", *asked)
        if self.kind == "sliding-window":
            return store.sliding_window("k", *asked)
        return store.gcra("k", *asked, burst=burst)

    def hit(self, limit, period, cost=1, burst=None):
        self.story.append(f"at {self.now}: hit {limit=} {period=} {cost=} {burst=}")
        try:
            expected = self.reference.hit(self.now, limit, period, cost, burst)
        except ValueError:
            with pytest.raises(ValueError, match="invalid expire time: seconds="):
                self.ask(limit, period, cost, burst)
            self.replies.add("ValueError")
        else:
            self.last = self.ask(limit, period, cost, burst)
            assert type(self.last) is int and self.last == expected, self.told(f"{self.last}, not {expected}")
            self.replies.add("NEVER" if expected == NEVER else "passed" if expected >= 0 else "refused")
        self.compare()

    def compare(self):
        """What can be read of the entry besides verdicts."""
        store, reference, end = self.rig.store, self.reference, self.reference.end
        if self.kind == "fixed-window":
            live = reference.live(self.now)
            assert store.get("k") == (sum(live) if live else None), self.told("the count")
            kind = "counter"
        else:
            live, kind = end > self.now, self.kind
        left = -2 if not live else -1 if end is None else -((self.now - end) // 10**6)
        assert store.pttl("k") == left, self.told(f"pttl {store.pttl('k')}, not {left}")
        assert store.type("k") == (kind if live else None)

    def told(self, what):
        return f"GOBLIN_SEED={SEED} {self.kind}: {what}\n" + "\n".join(self.story[-25:])

    def wait(self, ns):
        self.rig.advance_ns(max(0, min(ns, INT64_MAX - self.now)))

    def delete(self):
        self.story.append(f"at {self.now}: delete")
        self.rig.store.delete("k")
        self.reference = REFERENCES[self.kind]()

    def tamper(self, rng, limit):
        """What the commands of a counter do to a fixed window's."""
        store, reference, now = self.rig.store, self.reference, self.now
        live, end = reference.live(now), reference.end
        count = sum(live) if live else None
        method = rng.choice(["set", "set", "setex", "incr", "persist", "expire", "delete"])
        self.story.append(f"at {now}: {method}")
        if method == "set":
            value = rng.choice([*VALUES, limit - 1, limit, min(limit + 1, INT64_MAX)])
            store.set("k", value)
            reference.put(value, None)
        elif method == "setex" and now + SECOND <= HORIZON_NS:
            value = rng.choice([*VALUES, limit])
            store.set("k", value, ex=1)
            reference.put(value, now + SECOND)
        elif method == "incr" and (count is None or count < INT64_MAX):
            store.incr("k")
            reference.put((count or 0) + 1, end if live else None)
        elif method == "persist" and live:
            store.persist("k")
            reference.put(count, None)
        elif method == "expire" and live and now + SECOND <= HORIZON_NS:
            store.expire("k", 1)
            reference.put(count, now + SECOND)
        elif method == "delete":
            self.delete()
        self.compare()

    def step_ns(self, rng, period):
        """To where something may change: mostly an edge, give or take a nanosecond."""
        end = self.reference.end or self.now
        near = rng.choice([-1, 0, 0, 1])
        return rng.choice(
            [
                0,
                0,
                1,
                end - self.now + near,
                end - period - self.now + near,
                (0 if self.last == NEVER else -self.last) + near,
                rng.randrange(period) + 1,
                rng.randrange(4 * period) + 1,
                period // 3,
            ]
        )


def costs(rng, limit, burst):
    quota = limit if burst is None else burst
    return rng.choice(
        [0, 1, 1, 1, 1, 2, rng.randrange(quota + 1), quota // 2, max(0, quota - 1), quota, min(quota + 1, INT64_MAX)]
    )


def run_history(kind, seed, start_ns, length, replies):
    rng = random.Random(seed)
    history = History(kind, start_ns)
    table = QUOTAS if kind == "sliding-window" or rng.random() < 0.8 else WIDE_QUOTAS
    mine = rng.sample(table, 2)  # a key has its own limit, and sometimes another
    changes = rng.choice([0, 0.02, 0.3])
    for _ in range(length):
        limit, period, burst = rng.choice(mine) if rng.random() < changes else mine[0]
        if kind != "gcra":
            burst = None
        if kind == "fixed-window" and rng.random() < changes:
            history.tamper(rng, limit)
        elif rng.random() < 0.01:
            history.delete()
        asked = None if kind == "fixed-window" and rng.random() < 0.02 else period
        history.hit(limit, asked, costs(rng, limit, burst), burst)
        if rng.random() < 0.6:
            history.wait(history.step_ns(rng, period))
    history.rig.store._check()
    replies |= history.replies


@pytest.mark.parametrize("kind", REFERENCES)
def test_random_histories_core_and_reference_agree(kind):
    replies = set()
    for number in rounds(160, soak=5_000):
        run_history(kind, SEED + number, STARTS_NS[number % len(STARTS_NS)], 100, replies)
    assert replies >= {"passed", "refused", "NEVER"}


@pytest.mark.parametrize("kind", REFERENCES)
def test_random_histories_at_the_end_of_time_core_and_reference_agree(kind):
    """Deadlines that would pass 2**63-2: ValueError, and nothing has changed."""
    replies = set()
    for number in rounds(60, soak=3_000):
        rng = random.Random(SEED + number)
        start_ns = HORIZON_NS - rng.choice([0, 1, 20, 50, SECOND, 3 * SECOND, 200 * SECOND, 61 * DAY, 4 * 365 * DAY])
        run_history(kind, SEED + number, start_ns, 40, replies)
    assert replies == {"passed", "refused", "NEVER", "ValueError"}


@st.composite
def programs(draw):
    """Small numbers, so that a failing program shrinks to something that can be reckoned by hand."""
    limit = st.integers(0, 6)
    hit = st.tuples(st.just("hit"), limit, st.integers(1, 12), st.integers(0, 7), st.none() | st.integers(1, 6))
    wait = st.tuples(st.just("wait"), st.integers(0, 30))
    edge = st.tuples(st.just("edge"), st.sampled_from(["end", "window", "verdict"]), st.integers(-1, 1))
    return draw(st.lists(st.one_of(hit, hit, wait, edge), max_size=25))


@pytest.mark.parametrize("kind", REFERENCES)
@settings(max_examples=size(100, soak=5_000), deadline=None, print_blob=True)
@given(program=programs(), start_ns=st.sampled_from([0, 5, 10**6, HORIZON_NS - 60, HORIZON_NS - 10]))
def test_any_history_of_small_numbers_core_and_reference_agree(kind, program, start_ns):
    history, period = History(kind, start_ns), 1
    for step in program:
        if step[0] == "hit":
            _, limit, period, cost, burst = step
            history.hit(limit, period, cost, burst if kind == "gcra" else None)
        elif step[0] == "wait":
            history.wait(step[1])
        else:
            end = history.reference.end or history.now
            targets = {"end": end - history.now, "window": end - period - history.now, "verdict": -history.last}
            if targets[step[1]] < 2**62:
                history.wait(targets[step[1]] + step[2])


# Where the numbers are largest, spelled out.


def test_gcra_at_3559_per_30_days_does_not_overflow_64_bits():
    history = History("gcra")
    for _ in range(3_559):
        history.hit(3_559, 30 * DAY)
    history.hit(3_559, 30 * DAY)
    assert history.last == -(30 * DAY // 3_559 + 1)


def test_gcra_at_3e8_per_second_with_burst_2_loses_nothing():
    """Three hits in ten nanoseconds, exactly: a rounded interval would give 3.33 ns or 4."""
    history, passed = History("gcra"), 0
    for _ in range(3_001):
        before = history.last
        for _ in range(2):
            history.hit(3 * 10**8, SECOND, 1, 2)
            passed += history.last >= 0
        assert before is not None
        history.wait(1)
    assert passed == 2 + 900


def test_gcra_with_burst_1_waits_for_whole_nanoseconds():
    history, passed = History("gcra"), 0
    for _ in range(3_000):
        history.hit(3 * 10**8, SECOND, 1, 1)
        passed += history.last >= 0
        history.wait(1)
    assert passed == 750  # every 4 ns, where 3.33 would be due


def test_fixed_window_sum_above_int64_is_refused():
    history = History("fixed-window")
    history.rig.store.set("k", INT64_MAX, ex=1)
    history.reference.put(INT64_MAX, SECOND)
    history.hit(INT64_MAX, SECOND, 1)
    assert history.last == -SECOND
    history.hit(INT64_MAX, SECOND, INT64_MAX)
    assert history.last == -SECOND


def test_fixed_window_negative_count_admits_up_to_the_limit_and_shows_no_more_than_int64():
    history = History("fixed-window")
    history.rig.store.set("k", -(2**63))
    history.reference.put(-(2**63), None)
    history.hit(5, SECOND, 0)
    assert history.last == INT64_MAX
    history.hit(5, SECOND, 3)
    assert history.last == INT64_MAX and goblin.Counters is type(history.rig.store)
