"""The promise of every refusal, as a property: with the same arguments, at the instant it said the same hit passes; a
nanosecond earlier it does not; in between the verdict is what is left of the wait. And a refused hit changes nothing.

For all three algorithms on any state that hits (or, for a counter, anything) can bring about, with numbers from one
nanosecond to years, and for several limits at once, through `decide` and through RateLimiter.
"""

import math

import pytest
from hypothesis import assume, event, example, given, settings
from hypothesis import strategies as st

import goblin
import scale
from engines import CORE
from limit_references import HORIZON_NS, INT64_MAX, NEVER

SECOND = 10**9
DAY = 86_400 * SECOND

# Small numbers meet every edge; the others are the largest that products must hold, and periods with no common factor.
small = st.tuples(st.integers(1, 6), st.integers(1, 40), st.none() | st.integers(1, 8))
large = st.sampled_from(
    [
        (3_559, 30 * DAY, None),
        (3_559, 30 * DAY, 20_000),
        (10**9, 3_600 * SECOND, None),
        (3 * 10**8, SECOND, 2),
        (2**31 - 1, 977, 5),
        (2**31 - 1, 365 * DAY, None),
        (7, 1_000_000_007, 3),
        (1, 1, None),
        (1, 10**18, 1),
    ]
)
any_quota = st.tuples(st.integers(1, 2**31 - 1), st.integers(1, 2**55), st.none() | st.integers(1, 100))
quotas = st.one_of(small, small, large, any_quota)


def quota_of(kind, numbers):
    limit, period, burst = numbers
    if kind != "gcra":
        burst = None
    elif limit * 2**60 < (burst or limit) * period:  # the bucket would be longer than time
        burst = None
    return (kind, limit, period, burst)


def size(quota):
    return quota[1] if quota[3] is None else quota[3]


@st.composite
def costs(draw, quota):
    most = size(quota)
    return draw(st.sampled_from([1, 1, 1, min(2, most), most // 2 or 1, most]) | st.integers(1, most))


@st.composite
def histories(draw, kinds=("fixed-window", "sliding-window", "gcra")):
    """A kind; a list of (wait, quota, cost) on one key; the quota and cost that are asked at the end."""
    kind = draw(st.sampled_from(kinds))
    own = quota_of(kind, draw(quotas))
    steps = []
    for _ in range(draw(st.integers(0, 8))):
        quota = own if draw(st.integers(0, 4)) else quota_of(kind, draw(quotas))
        wait = draw(st.sampled_from([0, 0, 1, quota[2] // 3, quota[2] - 1, quota[2]]) | st.integers(0, 3 * quota[2]))
        steps.append((wait, quota, draw(costs(quota))))
    if draw(st.integers(0, 2)) == 0:
        own = quota_of(kind, draw(quotas))
    return kind, steps, own, draw(costs(own))


def look(store, key="k"):
    """All that can be read of one entry."""
    kind = store.type(key)
    return kind, store.pttl(key), store.ttl(key), store.get(key) if kind == "counter" else None, set(store)


def later(wait, points):
    """Instants within the wait, the first and the last always among them."""
    return sorted({0, wait - 1, *(int(wait * point) for point in points)})


def waited_out(rig, ask, verdict, points, see):
    """Walk through the wait that the verdict named; `ask` hits, `see` reads all that can be read."""
    gone, wait = 0, -verdict
    for at in later(wait, points):
        if at >= wait:
            continue
        rig.advance_ns(at - gone)
        gone = at
        before = see()
        assert ask() == gone - wait  # refused, and for what is left of the wait
        assert see() == before
    rig.advance_ns(wait - gone)


points = st.lists(st.floats(0, 1, exclude_max=True), max_size=3)


@settings(max_examples=scale.size(250, soak=8_000), deadline=None, print_blob=True)
@given(history=histories(), start_ns=st.sampled_from([0, 1, 10**15]), points=points)
def test_refusal_of_one_limit_keeps_the_promise(history, start_ns, points):
    kind, steps, quota, cost = history
    rig = CORE.make(start_ns)
    for wait, other, spent in steps:
        if rig.clock.now_ns + wait > HORIZON_NS // 2:
            break
        rig.advance_ns(wait)
        rig.store.decide([("k", other)], spent)
    _, limit, period, burst = quota
    seconds = period // SECOND if period % SECOND == 0 else period / SECOND
    exact = isinstance(seconds, int) or period < 2**52

    def ask():
        if not exact:  # a float has no room for this many nanoseconds: the same hit by its other name
            return rig.store.decide([("k", quota)], cost)[0]
        if kind == "fixed-window":
            return rig.store.fixed_window("k", limit, seconds, cost)
        if kind == "sliding-window":
            return rig.store.sliding_window("k", limit, seconds, cost)
        return rig.store.gcra("k", limit, seconds, cost, burst=burst)

    before = look(rig.store)
    verdict = ask()
    event(f"{kind}: {'passed' if verdict >= 0 else 'refused'}")
    if verdict >= 0:
        return
    assert verdict != NEVER and look(rig.store) == before
    assume(rig.clock.now_ns - verdict < HORIZON_NS // 2)
    waited_out(rig, ask, verdict, points, lambda: look(rig.store))
    assert ask() >= 0
    rig.store._check()


@settings(max_examples=scale.size(100, soak=3_000), deadline=None, print_blob=True)
@given(
    value=st.integers(-3, 12) | st.sampled_from([-(2**63), INT64_MAX]),
    ttl=st.none() | st.integers(1, 50),
    limit=st.integers(0, 9) | st.just(INT64_MAX),
    period=st.none() | st.integers(1, 40),
    cost=st.integers(1, 10) | st.just(INT64_MAX),
    points=points,
)
@example(value=5, ttl=None, limit=5, period=3, cost=1, points=[])
@example(value=5, ttl=3, limit=5, period=None, cost=1, points=[])
def test_refusal_on_a_counter_that_was_set_keeps_the_promise(value, ttl, limit, period, cost, points):
    """Above the limit, below zero, with a TTL of its own or with none: then it is NEVER, and stays so."""
    rig = CORE.make()
    rig.store.set("k", value, px=ttl)
    entries = [("k", ("fixed-window", limit, period and period * 10**6, None))]

    def ask():
        return rig.store.decide(entries, cost)[0]

    verdict = ask()
    if verdict == NEVER:
        assert cost > limit or ttl is None
        for step in (1, 10**6, 10**15):
            rig.advance_ns(step)
            assert ask() == NEVER or (ttl is not None and cost <= limit)
    elif verdict < 0:
        assert -verdict == ttl * 10**6 and value + cost > limit
        waited_out(rig, ask, verdict, points, lambda: look(rig.store))
        assert ask() >= 0
    else:
        assert value + cost <= limit


several = st.lists(histories(), min_size=1, max_size=3)


@settings(max_examples=scale.size(150, soak=6_000), deadline=None, print_blob=True)
@given(rows=several, cost=st.integers(1, 3), points=points, data=st.data())
def test_refusal_of_several_limits_keeps_the_promise(rows, cost, points, data):
    rig = CORE.make()
    entries = []
    for number, (_, steps, quota, _) in enumerate(rows):
        for wait, other, spent in steps:
            if rig.clock.now_ns + wait < HORIZON_NS // 4 and data.draw(st.booleans()):
                rig.advance_ns(wait)
            rig.store.decide([(f"k{number}", other)], spent)
        entries.append((f"k{number}", quota))
    cost = min(cost, *(size(quota) for _, quota in entries))

    def see():
        return [look(rig.store, key) for key, _ in entries], [rig.store.decide([entry], 1, "peek") for entry in entries]

    def ask():
        # Looking first says the same and takes nothing.
        peeked, (verdict, *_, index, at, stamps) = (
            rig.store.decide(entries, cost, "peek"),
            rig.store.decide(entries, cost),
        )
        assert peeked[0] == verdict and peeked[3] == index and at == rig.clock.now_ns
        assert (stamps is None) == (verdict < 0) and peeked[5] is None
        return verdict

    singly = [rig.store.decide([entry], cost, "peek")[0] for entry in entries]
    before = see()
    verdict = ask()
    assert verdict == min(singly)
    event("passed" if verdict >= 0 else f"refused by {sum(one < 0 for one in singly)}")
    if verdict < 0:
        assert see() == before
        assume(rig.clock.now_ns - verdict < HORIZON_NS // 2)
        waited_out(rig, ask, verdict, points, see)
        assert ask() >= 0
    rig.store._check()


@settings(max_examples=scale.size(120, soak=4_000), deadline=None, print_blob=True)
@given(
    algorithm=st.sampled_from(["fixed-window", "sliding-window", "gcra"]),
    numbers=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 2_000_000_000)), min_size=1, max_size=3),
    spend=st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 3)), max_size=8),
    cost=st.integers(1, 5),
)
def test_refusal_of_a_limiter_keeps_the_promise(algorithm, numbers, spend, cost):
    """`retry_after` is seconds in a float: turned back to nanoseconds by the clock it is never short."""
    rig = CORE.make()
    limits = [goblin.Limit(amount, period / SECOND) for amount, period in numbers]
    limiter = goblin.RateLimiter(limits, algorithm=algorithm, store=rig.store)
    for wait, spent in spend:
        rig.advance_ns(wait)
        limiter.allow("k", spent)
    keys = sorted(rig.store, key=str)
    before = [look(rig.store, key) for key in keys]
    decision = limiter.hit("k", cost)
    if decision:
        assert decision.retry_after == 0.0
        return
    assert sorted(rig.store, key=str) == keys and [look(rig.store, key) for key in keys] == before
    if cost > min(limit.amount for limit in limits):
        assert decision.retry_after == math.inf
        return
    windows = 2 if algorithm == "sliding-window" and cost > 1 else 1
    assert 0 < decision.retry_after <= windows * max(limit.seconds for limit in limits)
    wait_ns = round(decision.retry_after * SECOND)
    rig.advance_ns(wait_ns - 1)
    early = limiter.hit("k", cost)
    # Below 2**53 ns a float has the nanosecond to spare: the wait is exact.
    assert not early and early.retry_after == 1e-9
    rig.advance_ns(1)
    assert limiter.peek("k", cost) and limiter.hit("k", cost)


@pytest.mark.parametrize("kind", ["fixed-window", "sliding-window", "gcra"])
def test_refused_hits_do_not_put_off_the_deadline_or_fill_the_count(kind):
    """A thousand refusals, and all is as if none had been made."""
    eager, patient = CORE.make(), CORE.make()
    entry = [("k", (kind, 5, 1_000, None))]
    for rig in (eager, patient):
        rig.store.decide(entry, 5)
    for _ in range(999):
        eager.advance_ns(1)
        eager.store.decide(entry, 5)
        eager.store.decide(entry, 6)
    patient.advance_ns(999)
    for step in (0, 1, 1, 500, 1_000):
        eager.advance_ns(step)
        patient.advance_ns(step)
        assert look(eager.store) == look(patient.store)
        assert eager.store.decide(entry, 2)[:5] == patient.store.decide(entry, 2)[:5]
