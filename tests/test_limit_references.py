"""The references of limit_references.py checked against themselves: three ways to the wait, two ways to a token bucket.

They are what the core is judged by, so they are judged first, without it. GOBLIN_SEED repeats a run.
"""

import random
from fractions import Fraction

import pytest

from limit_references import NEVER, REFERENCES, FixedWindow, Gcra, SlidingWindow, TokenBucket
from scale import SEED, rounds


def small_history(kind, rng):
    """A few hits of one key on numbers so small that every nanosecond can be tried; (reference, now) at its end."""
    reference, now = REFERENCES[kind](), rng.randrange(30)
    for _ in range(rng.randrange(1, 9)):
        now += rng.choice([0, 0, 1, 1, 2, rng.randrange(30)])
        limit, burst = rng.randrange(1, 7), rng.choice([None, 1, 2, 5]) if kind == "gcra" else None
        reference.hit(now, limit, rng.randrange(1, 14), rng.randrange(1, limit + 1), burst)
    return reference, now


@pytest.mark.parametrize("kind", REFERENCES)
def test_references_wait_on_small_numbers_three_ways_agree(kind):
    rng = random.Random(SEED)
    refused = 0
    for _ in rounds(1_500, soak=200_000):
        reference, now = small_history(kind, rng)
        limit, period, cost = rng.randrange(1, 7), rng.randrange(1, 14), rng.randrange(1, 7)
        burst = rng.choice([None, 1, 2, 5]) if kind == "gcra" else None
        asked = (limit, period, cost, burst)
        verdict = reference.look(now, *asked)
        if verdict in (NEVER,) or verdict >= 0:
            continue
        refused += 1
        waits = reference.wait_by_steps(now, *asked), reference.wait_by_bisection(now, *asked), -verdict
        assert waits[0] == waits[1] == waits[2] > 0, f"GOBLIN_SEED={SEED}: {waits}, {vars(reference)}, {now}, {asked}"
        for at in range(now, now + waits[0]):
            assert reference.look(at, *asked) == at - now - waits[0]
    assert refused > 100


@pytest.mark.parametrize("kind", REFERENCES)
def test_references_wait_on_large_numbers_two_ways_agree(kind):
    rng = random.Random(SEED)
    refused = 0
    for _ in rounds(100, soak=30_000):
        reference, now = REFERENCES[kind](), rng.randrange(2**40)
        limit, period = rng.choice([(3_559, 30 * 86_400 * 10**9), (10**9, 3_600 * 10**9), (2**31 - 1, 10**9 + 7)])
        for _ in range(4):
            cost = rng.randrange(1, limit + 1)
            verdict = reference.hit(now, limit, period, cost)
            if NEVER < verdict < 0:
                refused += 1
                assert reference.wait_by_bisection(now, limit, period, cost) == -verdict
            now += rng.randrange(period)
    assert refused > 30


def test_references_gcra_and_token_bucket_are_one_algorithm():
    rng = random.Random(SEED)
    for _ in rounds(100, soak=20_000):
        limit, period = rng.choice(
            [(7, 3), (3, 7), (1, 5), (10**9, 3_600 * 10**9), (3 * 10**8, 10**9), (97, 10**6 + 3)]
        )
        burst = rng.choice([1, 2, 3, limit])
        gcra, bucket, now = Gcra(), TokenBucket(limit, period, burst), rng.randrange(100)
        for _ in range(60):
            cost = rng.randrange(1, min(burst, 3) + 1)
            verdict = gcra.hit(now, limit, period, cost, burst)
            assert verdict == bucket.hit(now, cost), f"GOBLIN_SEED={SEED}"
            now += rng.choice([0, 0, 1, max(0, -verdict), max(0, -verdict - 1), rng.randrange(3 * period)])


# A few verdicts reckoned by hand, so that not everything rests on one reading of the rules.


def test_references_fixed_window_by_hand():
    key = FixedWindow()
    assert [key.hit(at, 3, 10, cost) for at, cost in ((0, 2), (4, 2), (4, 1), (9, 1), (10, 3))] == [1, -6, 0, -1, 0]


def test_references_sliding_window_by_hand():
    key = SlidingWindow()
    # Window 0..9: four hits. At 10 the weight is floor(4 * 9 / 10) = 3, at 13 floor(4 * 6 / 10) = 2.
    assert [key.hit(0, 4, 10) for _ in range(5)] == [3, 2, 1, 0, -10]
    assert [key.hit(at, 4, 10) for at in (10, 10, 11, 12, 13)] == [0, -2, -1, 0, -2]
    assert key.weighted(19, 10) == 2 and key.weighted(20, 10) == 1 and key.weighted(30, 10) == 0


def test_references_gcra_by_hand():
    key = Gcra()
    # An interval of 10/3 ns, a burst of 2: TAT 20/3 after two hits at 0; a third passes from TAT + 10/3 - 20/3 on.
    assert [key.hit(at, 3, 10, 1, 2) for at in (0, 0, 0, 3, 4)] == [1, 0, -4, -1, 0]
    assert key.tat == 10 and key.end == 10
    assert key.hit(4, 3, 10, 2, 2) == -6
    assert key.hit(7, 3, 10, 1, 2) == 0 and key.tat == 10 + Fraction(10, 3) and key.end == 14
