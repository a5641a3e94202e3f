"""`Counters._sliding_counts`: both windows' counts, for storages of other libraries, which have to hand them out."""

import random

import pytest

import goblin
from scale import SEED, rounds

SECOND_NS = 10**9


@pytest.fixture
def clock():
    return goblin.ManualClock()


@pytest.fixture
def counters(clock):
    return goblin.Counters(clock=clock)


def test_sliding_counts_of_an_absent_key_are_zeros_and_make_nothing(counters):
    assert counters._sliding_counts("a", 60) == (0, 0, 0)
    assert len(counters) == 0


def test_sliding_counts_through_two_windows(counters, clock):
    assert counters.sliding_window("a", 5, 60, 3) == 2
    assert counters._sliding_counts("a", 60) == (0, 3, 60 * SECOND_NS)
    clock.advance_ns(60 * SECOND_NS - 1)
    assert counters._sliding_counts("a", 60) == (0, 3, 1)
    clock.advance_ns(1)  # the next window, though nobody has hit in it
    assert counters._sliding_counts("a", 60) == (3, 0, 60 * SECOND_NS)
    clock.advance(30)
    assert counters.sliding_window("a", 5, 60, 2) == 2
    assert counters._sliding_counts("a", 60) == (3, 2, 30 * SECOND_NS)
    clock.advance(30)
    assert counters._sliding_counts("a", 60) == (2, 0, 60 * SECOND_NS)
    clock.advance(60)
    assert counters._sliding_counts("a", 60) == (0, 0, 0)


def test_sliding_counts_are_those_that_the_verdicts_weigh(counters, clock):
    print(f"GOBLIN_SEED={SEED}")
    randomness = random.Random(SEED)
    admitted = 0
    for _ in rounds(2_000, soak=1_000_000):
        clock.advance_ns(randomness.randrange(SECOND_NS // 3))
        previous, current, left_ns = counters._sliding_counts("a", 1)
        weighted = previous * max(left_ns - 1, 0) // SECOND_NS + current
        assert counters.sliding_window("a", 9, 1, 0) == max(0, 9 - weighted)
        cost = randomness.randrange(1, 5)
        admitted += cost * (counters.sliding_window("a", 9, 1, cost) >= 0)
    assert admitted > 0


def test_sliding_counts_of_another_kind_raise_and_change_nothing(counters):
    counters.incr("a")
    with pytest.raises(goblin.WrongTypeError, match="wrong kind of value"):
        counters._sliding_counts("a", 60)
    assert counters["a"] == 1


@pytest.mark.parametrize(
    ("key", "seconds", "error", "message"),
    [
        (None, 60, TypeError, "key must be str or bytes, not NoneType"),
        ("a", 0, ValueError, "seconds=0 "),
        ("a", None, TypeError, "seconds=None"),
    ],
)
def test_sliding_counts_with_a_bad_argument_raise(counters, key, seconds, error, message):
    with pytest.raises(error, match=message):
        counters._sliding_counts(key, seconds)
