"""What `limits` promises of a storage and of two strategies on it: the same tests on goblin:// and on memory://."""

import random

import pytest

from integrations_installed import needs
from scale import SEED, rounds

needs("limits")

import limits  # noqa: E402

from limits_storages import SCHEMES, Rig  # noqa: E402

FIXED, SLIDING = "fixed-window", "sliding-window-counter"
ONE_MS = 0.0011  # what get_expiry may be late by: a millisecond and a float's error


@pytest.fixture(params=SCHEMES)
def rig(request, monkeypatch):
    rig = Rig(request.param, monkeypatch)
    yield rig
    rig.close()


@pytest.fixture
def storage(rig):
    return rig.storage


def per(amount, multiples, unit="minute", **options):
    return limits.parse(f"{amount}/{multiples} {unit}", **options)


# ---- the storage ----------------------------------------------------------------------------------------------------


def test_incr_returns_the_sum_past_any_limit(storage):
    assert [storage.incr("a", 60) for _ in range(3)] == [1, 2, 3]
    assert storage.incr("a", 60, 10) == 13
    assert storage.incr("a", 60, amount=10**15) == 13 + 10**15
    assert storage.incr("b", 60, amount=7) == 7
    assert (storage.get("a"), storage.get("b")) == (13 + 10**15, 7)


def test_incr_opens_a_window_at_the_first_hit_only(rig, storage):
    storage.incr("a", 60)
    end = rig.now + 60
    rig.advance(40)
    storage.incr("a", 60)
    storage.incr("a", 60, amount=5)
    assert storage.get_expiry("a") == pytest.approx(end, abs=ONE_MS)
    rig.advance(19.999)
    assert storage.get("a") == 7
    rig.advance(0.001)
    assert storage.get("a") == 0
    assert storage.incr("a", 60) == 1
    assert storage.get_expiry("a") == pytest.approx(rig.now + 60, abs=ONE_MS)


def test_incr_with_an_amount_opens_the_window_as_well(rig, storage):
    storage.incr("a", 2, amount=5)
    assert storage.get_expiry("a") == pytest.approx(rig.now + 2, abs=ONE_MS)
    rig.advance(2)
    assert storage.get("a") == 0


def test_get_of_an_absent_key_is_zero_and_makes_nothing(storage):
    assert storage.get("a") == 0
    assert storage.reset() == 0


def test_get_expiry_of_an_absent_key_is_now(rig, storage):
    assert storage.get_expiry("a") == pytest.approx(rig.now, abs=1e-6)


def test_check_says_that_all_is_well(storage):
    assert storage.check() is True


def test_reset_drops_all_keys_and_says_how_many(storage):
    for number in range(10):
        storage.incr(f"LIMITS/{number}", 60)
        storage.incr(f"OTHER/{number}", 60)
    assert storage.reset() == 20
    assert [storage.get(f"LIMITS/{number}") for number in range(10)] == [0] * 10
    assert storage.reset() == 0
    assert storage.incr("OTHER/1", 60) == 1


def test_clear_drops_one_key(storage):
    storage.incr("a", 60)
    storage.incr("b", 60)
    storage.clear("a")
    storage.clear("absent")
    assert (storage.get("a"), storage.get("b")) == (0, 1)


def test_keys_of_any_text_are_told_apart(storage):
    keys = ["", "a", "a/b", "a/", "ä", "鍵", "a\0", " ", "x" * 10_000]
    for number, key in enumerate(keys, start=1):
        storage.incr(key, 60, amount=number)
    assert [storage.get(key) for key in keys] == list(range(1, len(keys) + 1))


# ---- fixed window ---------------------------------------------------------------------------------------------------


def test_fixed_window_admits_the_limit_and_again_after_the_window(rig):
    limiter, limit = rig.limiter(FIXED), per(10, 2, "second")
    assert [limiter.hit(limit, "ann") for _ in range(12)] == [True] * 10 + [False] * 2
    assert limiter.hit(limit, "bob")
    end = rig.now + 2
    rig.advance(1)
    assert not limiter.hit(limit, "ann")
    assert limiter.get_window_stats(limit, "ann") == (pytest.approx(end, abs=ONE_MS), 0)
    rig.advance(1)
    assert limiter.test(limit, "ann")
    assert limiter.hit(limit, "ann")
    assert limiter.get_window_stats(limit, "ann") == (pytest.approx(rig.now + 2, abs=ONE_MS), 9)


def test_fixed_window_nothing_hit_yet_has_all_left_and_is_reset_now(rig):
    assert rig.limiter(FIXED).get_window_stats(per(10, 1)) == (pytest.approx(rig.now, abs=1e-6), 10)


def test_fixed_window_costs_are_spent_even_where_they_are_refused(rig):
    limiter, limit = rig.limiter(FIXED), per(10, 2)
    assert not limiter.hit(limit, "a", cost=11)
    assert not limiter.hit(limit, "a")  # as limits has it: the refused cost was counted
    assert limiter.hit(limit, "b", cost=5)
    assert limiter.get_window_stats(limit, "b").remaining == 5
    assert limiter.test(limit, "b", cost=5) and not limiter.test(limit, "b", cost=6)
    assert not limiter.hit(limit, "b", cost=6)
    assert limiter.hit(limit, "c", cost=10) and not limiter.hit(limit, "c")


def test_fixed_window_test_spends_nothing(rig):
    limiter, limit = rig.limiter(FIXED), per(2, 1, "hour")
    assert all(limiter.test(limit) for _ in range(5))
    assert [limiter.hit(limit), limiter.test(limit), limiter.hit(limit), limiter.test(limit)] == [True] * 3 + [False]


def test_fixed_window_clear_gives_the_limit_back(rig):
    limiter, limit = rig.limiter(FIXED), per(1, 1)
    assert limiter.hit(limit, "a") and limiter.hit(limit, "b") and not limiter.hit(limit, "a")
    limiter.clear(limit, "a")
    assert limiter.hit(limit, "a") and not limiter.hit(limit, "b")


@pytest.mark.parametrize("unit", ["second", "minute", "hour", "day", "month", "year"])
def test_fixed_window_of_any_unit_ends_in_time(rig, unit):
    limiter, limit = rig.limiter(FIXED), per(1, 3, unit)
    assert limiter.hit(limit)
    rig.advance(limit.get_expiry() - 1)
    assert not limiter.hit(limit)
    rig.advance(1)
    assert limiter.hit(limit)


# ---- sliding-window counter -----------------------------------------------------------------------------------------


def test_sliding_window_weighs_the_previous_window(rig):
    limiter, limit = rig.limiter(SLIDING), per(10, 1)
    assert [limiter.hit(limit, "a") for _ in range(12)] == [True] * 10 + [False] * 2
    rig.advance(59.999)
    assert not limiter.hit(limit, "a")
    rig.advance(6.501)  # 53.5 seconds of the previous window still count: 10 x 53.5 / 60 = 8.9
    assert limiter.get_window_stats(limit, "a").remaining == 2
    assert [limiter.hit(limit, "a") for _ in range(3)] == [True, True, False]
    rig.advance(23.4)  # 10 x 30.1 / 60 = 5.02, and the two
    assert [limiter.hit(limit, "a") for _ in range(4)] == [True, True, True, False]
    rig.advance(60)  # the five by 30.1 / 60: 2.5
    assert [limiter.hit(limit, "a", cost=8), limiter.hit(limit, "a")] == [True, False]


def test_sliding_window_is_empty_after_two_windows(rig):
    limiter, limit = rig.limiter(SLIDING), per(10, 1, "second")
    assert limiter.hit(limit, cost=10)
    rig.advance(2)
    assert limiter.get_window_stats(limit) == (pytest.approx(rig.now, abs=1e-6), 10)
    assert limiter.hit(limit, cost=10)


def test_sliding_window_refused_spends_nothing(rig):
    limiter, limit = rig.limiter(SLIDING), per(10, 2)
    assert not limiter.hit(limit, "a", cost=11)
    assert limiter.get_window_stats(limit, "a").remaining == 10
    assert limiter.hit(limit, "a", cost=5)
    assert limiter.test(limit, "a", cost=5) and not limiter.test(limit, "a", cost=6)
    assert not limiter.hit(limit, "a", cost=6)
    assert limiter.hit(limit, "a", cost=5)
    assert limiter.get_window_stats(limit, "a").remaining == 0


def test_hit_of_cost_zero_passes_up_to_the_limit_and_spends_nothing(rig, storage):
    limit = per(5, 1)
    for strategy in (FIXED, SLIDING):
        limiter = rig.limiter(strategy)
        assert limiter.hit(limit, cost=0) and limiter.hit(limit, cost=5)
        assert limiter.hit(limit, cost=0) and not limiter.hit(limit, cost=1)
    assert storage.acquire_sliding_window_entry(limit.key_for(), 4, 60, 0) is False  # more has been counted already
    rig.advance(90.5)
    assert storage.acquire_sliding_window_entry(limit.key_for(), 2, 60, 0) is True  # 5 x 29.5 / 60 is 2.5
    assert storage.acquire_sliding_window_entry(limit.key_for(), 1, 60, 0) is False


@pytest.mark.parametrize("strategy", [FIXED, SLIDING])
def test_limit_of_zero_admits_nothing(rig, strategy):
    limiter = rig.limiter(strategy)
    assert not limiter.hit(per(0, 1)) and not limiter.test(per(0, 1))


def test_sliding_window_counts_and_ttls_are_handed_out(rig, storage):
    assert storage.get_sliding_window("a", 60)[:3] == (0, 0.0, 0)
    assert storage.acquire_sliding_window_entry("a", 10, 60, 4) is True
    assert storage.get_sliding_window("a", 60) == pytest.approx((0, 0, 4, 120), abs=1e-6)
    rig.advance(45)
    assert storage.get_sliding_window("a", 60) == pytest.approx((0, 0, 4, 75), abs=1e-6)
    rig.advance(27)
    assert storage.get_sliding_window("a", 60) == pytest.approx((4, 48, 0, 108), abs=1e-6)
    assert storage.acquire_sliding_window_entry("a", 10, 60, 6) is True  # floor(4 x 48 / 60) + 6 is 9
    assert storage.acquire_sliding_window_entry("a", 10, 60, 2) is False
    assert storage.get_sliding_window("a", 60) == pytest.approx((4, 48, 6, 108), abs=1e-6)
    rig.advance(60)
    assert storage.get_sliding_window("a", 60) == pytest.approx((6, 48, 0, 108), abs=1e-6)
    rig.advance(60)
    assert storage.get_sliding_window("a", 60)[:3] == (0, 0.0, 0)


def test_sliding_window_stats_say_when_the_next_hit_is_freed(rig):
    limiter, limit = rig.limiter(SLIDING), per(5, 1, "second")
    assert limiter.hit(limit, cost=3)
    rig.advance(0.001)  # at its very first instant `limits` takes a window for one that ends
    assert limiter.get_window_stats(limit) == (pytest.approx(rig.now + 0.999, abs=1e-6), 2)
    rig.advance(1)
    assert limiter.get_window_stats(limit) == (pytest.approx(rig.now + 1 / 3 - 0.001, abs=1e-6), 3)
    assert limiter.hit(limit, cost=3)
    for _ in range(2):
        wait = limiter.get_window_stats(limit).reset_time - rig.now
        assert not limiter.hit(limit)
        rig.advance(wait + 0.001)
        assert limiter.hit(limit)


def test_sliding_window_clear_drops_both_windows(rig, storage):
    limiter, limit = rig.limiter(SLIDING), per(2, 1)
    for key in "ab":
        assert limiter.hit(limit, key, cost=2)
    rig.advance(61)
    for key in "ab":
        assert limiter.hit(limit, key) and not limiter.hit(limit, key)
    limiter.clear(limit, "a")
    assert limiter.hit(limit, "a", cost=2) and not limiter.hit(limit, "b")
    storage.clear_sliding_window(limit.key_for("a"), 60)
    storage.clear_sliding_window("absent", 60)
    assert storage.get_sliding_window(limit.key_for("a"), 60)[:3] == (0, 0.0, 0)


def test_sliding_window_reset_drops_it_too(rig, storage):
    limiter, limit = rig.limiter(SLIDING), per(2, 1)
    assert limiter.hit(limit, "a", cost=2) and limiter.hit(limit, "b")
    assert storage.reset() == 2
    assert limiter.hit(limit, "a", cost=2)


def test_strategies_on_one_limit_do_not_meet(rig, storage):
    fixed, sliding, limit = rig.limiter(FIXED), rig.limiter(SLIDING), per(2, 1)
    assert fixed.hit(limit, "a", cost=2) and sliding.hit(limit, "a", cost=2)
    fixed.clear(limit, "a")
    assert fixed.hit(limit, "a") and not sliding.hit(limit, "a")
    sliding.clear(limit, "a")
    assert sliding.hit(limit, "a", cost=2) and storage.get(limit.key_for("a")) == 1


def test_sliding_window_admits_what_memory_admits(monkeypatch):
    """Hits at random times, on both at once. A third of a window apart at most, so that none of ours is forgotten."""
    randomness = random.Random(SEED)
    rigs = [Rig(scheme, monkeypatch) for scheme in ("memory", "goblin")]
    limiters = [rig.limiter(SLIDING) for rig in rigs]
    limit, verdicts = per(20, 1, "second"), set()
    for _ in rounds(3_000, soak=1_000_000):
        cost = randomness.randrange(1, 9)
        assert [limiter.test(limit, cost=cost) for limiter in limiters] in ([True] * 2, [False] * 2)
        admitted = [limiter.hit(limit, cost=cost) for limiter in limiters]
        assert admitted[0] == admitted[1], f"GOBLIN_SEED={SEED}"
        previous, ours = (rig.storage.get_sliding_window(limit.key_for(), 1) for rig in rigs)
        assert previous == pytest.approx(ours, abs=1e-6)
        verdicts.add(admitted[0])
        passed = randomness.randrange(10**9 // 3)
        for rig in rigs:
            rig.clock.advance_ns(passed)
    assert verdicts == {True, False}
    rigs[0].close()


# ---- moving window --------------------------------------------------------------------------------------------------


def test_moving_window_is_refused_by_limits_itself(rig):
    if rig.is_goblin:
        with pytest.raises(NotImplementedError, match="not implemented for storage of type .*GoblinStorage"):
            rig.limiter("moving-window")
    else:
        assert rig.limiter("moving-window").hit(per(1, 1))
