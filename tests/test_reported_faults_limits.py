"""Faults that people have met in rate limiters elsewhere: one test for each, on the core's calls and on RateLimiter.

The letter and number only give each report a name (E limiters, and one of A and C); those about decorators are in
test_decorators_reported_faults.py. The docstring says where it was met and what went wrong. A fault is a sample of its
kind: all three algorithms are tested, one limit and several.
"""

import math

import pytest

import goblin
from engines import CORE
from goblin import Limit, RateLimiter
from limit_references import INT64_MAX, NEVER
from test_reported_faults_threads import run_threads

SECOND = 10**9
ALGORITHMS = ["fixed-window", "sliding-window", "gcra"]


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return request.param


@pytest.fixture
def rig():
    return CORE.make()


@pytest.fixture
def clock(rig):
    return rig.clock


@pytest.fixture
def store(rig):
    return rig.store


@pytest.fixture
def limit(store, algorithm):
    """limit(n, period): a RateLimiter of that on the test's store."""

    def make(n, period, **options):
        return RateLimiter(Limit(n, period), **{"algorithm": algorithm, "store": store} | options)

    return make


def call(store, algorithm, *args):
    """The core's call of this algorithm on the key "k"."""
    calls = {"fixed-window": store.fixed_window, "sliding-window": store.sliding_window, "gcra": store.gcra}
    return calls[algorithm]("k", *args)


def test_a22_counter_at_its_types_maximum_stays_limited(store):
    """systemd/systemd#27342: a counter that hits its type's maximum inside a window must not roll over."""
    store.set("w", INT64_MAX)
    store.expire("w", 60)
    with pytest.raises(OverflowError, match="would overflow"):
        store.increx("w", 60)
    for cost in (1, 2, INT64_MAX):
        assert store.fixed_window("w", INT64_MAX, 60, cost) == -60 * SECOND
        assert store.decide([("w", ("fixed-window", INT64_MAX, 60 * SECOND, None))], cost)[0] == -60 * SECOND
    assert store.get("w") == INT64_MAX and store.ttl("w") == 60
    limiter = RateLimiter(Limit(INT64_MAX, 60), store=store)
    limiter.hit("k", INT64_MAX)
    assert not limiter.hit("k") and limiter.peek("k").remaining == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a:b", "c"), ("a", "b:c")),
        (("a", ""), ("a",)),
        (("1",), (1,)),
        (("a\0b",), ("a", "b")),
        (("a", "b"), "a:b"),
        (("a",), "a"),
        (("a",), (b"a",)),
        ("1", 1),
        ("('a', 'b')", ("a", "b")),
        (("a', 'b",), ("a", "b")),
        ((), ""),
        (("",), ()),
    ],
)
def test_c12_key_parts_do_not_glue(one, other, limit):
    """better-auth/better-auth#7300, AzureAD/microsoft-authentication-library-for-python#946, apache/druid#11168: parts
    glued without a boundary gave two callers one key."""
    limiter = limit(1, 60)
    assert limiter.allow(one) and limiter.allow(other)
    assert not limiter.allow(one) and not limiter.allow(other)
    assert limiter.reset(one) and limiter.allow(one) and not limiter.allow(other)


def test_e3_limiters_over_two_stores_are_independent_and_over_one_they_share_by_name(limit):
    """vutran1710/PyrateLimiter#32: state sat in a class attribute, so all limiters shared it."""
    first, second = limit(1, 60), limit(1, 60, store=CORE.make().store)
    assert first.allow("x") and second.allow("x")
    assert not first.allow("x") and not second.allow("x")
    assert not limit(1, 60).allow("x")  # the same store, name and limit: one budget
    assert limit(1, 60, name="other").allow("x")


@pytest.mark.parametrize("n", [1, 2, 1_000])
def test_e6_exactly_the_limit_passes(n, algorithm, limit, store):
    """jsocol/django-ratelimit#76, #141: "1 per hour" let two through."""
    limiter = limit(n, 3_600)
    assert [limiter.allow("k") for _ in range(n + 5)] == [True] * n + [False] * 5
    assert [call(store, algorithm, n, 3_600) >= 0 for _ in range(n + 5)] == [True] * n + [False] * 5


def test_e7_limit_zero_refuses_all_at_once(algorithm, limit, store):
    """abersheeran/asgi-ratelimit#56, brandur/redis-cell#41, golang/go#39984, alastair/python-musicbrainzngs#42,
    jsocol/django-ratelimit#122: limit 0 let one call through, crashed the host, divided by zero, or hung."""
    limiter = limit(0, 60)
    for _ in range(3):
        assert not limiter.allow("k") and limiter.hit("k").retry_after == math.inf and not limiter.acquire("k")
        assert limiter.peek("k", 0).remaining == 0 and limiter.hit("k").headers()
        assert call(store, algorithm, 0, 60) == NEVER and call(store, algorithm, 0, 60, 0) == 0
    assert limiter.refund(limiter.hit("k")) is False and len(store) == 0


def test_e7_limits_out_of_range_raise_when_made(limit, algorithm, store):
    """The same reports."""
    for n, period in ((-1, 60), (5, 0), (5, -1), (5, 0.0), (5, math.nan)):
        with pytest.raises(ValueError):
            limit(n, period)
        with pytest.raises(ValueError):
            call(store, algorithm, n, period)
    with pytest.raises(TypeError):
        limit(None, 60)


def test_e8_cost_that_can_never_fit_is_refused_at_once(limit, algorithm, store, clock):
    """vutran1710/PyrateLimiter#315, bucket4j/bucket4j#220: it was allowed through, or told to come back soon."""
    limiter = limit(10, 60)
    for cost in (11, 12, 2**40, INT64_MAX):
        assert call(store, algorithm, 10, 60, cost) == NEVER
        assert limiter.hit("k", cost).retry_after == math.inf
        assert not limiter.acquire("k", cost) and not limiter.acquire("k", cost, timeout=10**9)
    assert clock.now_ns == 0 and len(store) == 0
    assert limiter.hit("k", 10)


def test_e10_after_retry_after_exactly_the_call_passes(limit, algorithm, clock):
    """alisaifee/flask-limiter#62, #56: Retry-After was 0, then about -1.48e9 seconds; retrying was refused again."""
    for n, period in ((1, 1), (2, 60), (3, 0.1), (7, 3_600), (10, 1.7), (3_559, 30 * 86_400)):
        limiter = limit(n, period)
        limiter.hit("k", n)
        for _ in range(20):
            refused = limiter.hit("k")
            assert 0 < refused.retry_after <= period
            clock.advance(refused.retry_after)
            assert limiter.hit("k")
            limiter.hit("k", limiter.peek("k").remaining)
        clock.advance(3 * period)
        assert limiter.peek("k").retry_after == 0.0


def test_e11_retry_after_in_the_last_second_is_not_zero(limit, algorithm, clock):
    """intelowlproject/IntelOwl#3835: cut to whole seconds, Retry-After was 0 in the last second."""
    limiter = limit(1, 60)
    limiter.hit("k")
    clock.advance(59.999)
    refused = limiter.hit("k")
    assert refused.retry_after == pytest.approx(0.001, abs=1e-9) and refused.retry_after > 0
    assert refused.headers()["Retry-After"] == "1"
    clock.advance_ns(999_999)
    assert limiter.hit("k").retry_after == 1e-9 and limiter.hit("k").headers()["Retry-After"] == "1"


def test_e13_waiting_goes_on_when_sleep_returns_early(limit, algorithm, clock, store):
    """tomasbasham/ratelimit#19, #28, #29: waiting mode retried only once; sleep can return early."""

    def sleep(seconds):
        clock.advance(max(seconds * 0.9, 1e-6))

    limiter, done = limit(10, 1, sleep=sleep), []

    def work():
        done.extend(bool(limiter.acquire("k")) for _ in range(20))

    run_threads(work, work)
    # 40 at 10 a second: ten at once, and the others over three seconds or, at the windows' edges, two.
    assert done == [True] * 40 and clock.now_ns >= 2 * SECOND


def test_e14_nothing_is_locked_while_somebody_waits(limit, algorithm, rig):
    """tomasbasham/ratelimit#9, vutran1710/PyrateLimiter#108: slept while holding the lock, or hung after hours."""
    seen = []

    def sleep(seconds):
        run_threads(lambda: seen.append(limiter.acquire("b").allowed), lambda: seen.append(rig.store.incr("n") == 1))
        rig.clock.advance(seconds)

    limiter = limit(1, 60, sleep=sleep)
    assert limiter.acquire("a") and limiter.acquire("a")
    assert seen == [True, True]


def test_e14_many_threads_with_many_calls_come_to_their_end(limit, algorithm, clock):
    """The same reports: 32 threads, 1,000 calls each."""
    limiter, passed = limit(1_000, 60), []

    def work():  # of each key's 4,571 calls most have to wait
        passed.append(sum(bool(limiter.acquire(number % 7)) for number in range(1_000)))

    run_threads(*[work] * 32)
    assert passed == [1_000] * 32


def test_e17_waiters_that_gave_up_hold_no_place(limit, algorithm, rig):
    """agronholm/anyio#947, twilight-rs/twilight#1309, hikari-py/hikari#597: a cancelled waiter kept its place; the rest
    starved. (Waiters side by side, and given up in every order: test_limiter_waiting.py.)"""

    class Cancelled(Exception):
        pass

    def sleep(seconds):
        raise Cancelled

    limiter = limit(1, 60, sleep=sleep)
    assert limiter.acquire("k")
    for _ in range(1_000):
        with pytest.raises(Cancelled):
            limiter.acquire("k")
    assert limiter.peek("k").retry_after == 60.0
    rig.advance(60)
    assert limiter.hit("k")


def test_e27_refund_is_not_made_to_a_newer_window_nor_below_zero(limit, algorithm, store, clock):
    """alisaifee/limits#186, alisaifee/flask-limiter#448: do failed calls count?"""
    limiter = limit(3, 60)
    old = limiter.hit("k", 3)
    clock.advance(121)  # two windows on
    new = limiter.hit("k")
    assert limiter.refund(old) is False and limiter.peek("k").remaining == 2
    assert limiter.refund(new) is True and limiter.refund(new) is False and limiter.peek("k").remaining == 3
    first, *_ = [limiter.hit("k") for _ in range(3)]
    assert [limiter.refund(first) for _ in range(3)] == [True, False, False] and limiter.peek("k").remaining == 1
    limiter.reset("k")
    assert [limiter.allow("k") for _ in range(4)] == [True] * 3 + [False]


def test_e29_remaining_counts_down_to_zero_and_stays(limit, algorithm, clock):
    """brandur/redis-cell#12, boinkor-net/governor#157, ZhuoZhuoCrayon/throttled-py#87, alisaifee/limits#266: wrong or
    negative."""
    limiter = limit(5, 60)
    assert [limiter.hit("k").remaining for _ in range(5)] == [4, 3, 2, 1, 0]
    assert [limiter.hit("k").remaining for _ in range(10)] == [0] * 10
    assert limiter.hit("k", 3).remaining == limiter.peek("k").remaining == 0
    clock.advance(120)
    assert limiter.peek("k").remaining == 5 and limiter.hit("k").remaining == 4


def test_e29_remaining_is_not_negative_above_the_limit(store):
    """The same reports: where the count stands above the limit, for it was set, or the limit was lowered."""
    for value in (6, 100, INT64_MAX):
        store.set("k", value, ex=60)
        assert store.decide([("k", ("fixed-window", 5, 60 * SECOND, None))])[1] == 0
        assert store.fixed_window("k", 5, 60, 0) == 0
    for algorithm in ("sliding-window", "gcra"):
        store.delete("k")
        call(store, algorithm, 100, 60, 100)
        assert call(store, algorithm, 5, 60, 0) == 0
        assert store.decide([("k", (algorithm, 5, 60 * SECOND, None))])[1] == 0


def test_e31_refused_hits_are_not_counted(limit, algorithm, store, clock):
    """ExHammer/hammer#132, smallrye/smallrye-fault-tolerance#973: refused attempts were counted too."""
    limiter = limit(5, 60)
    for _ in range(5):
        limiter.hit("k")
    before = limiter.peek("k")
    for _ in range(1_000):
        assert not limiter.allow("k")
    assert limiter.peek("k") == before
    if algorithm == "fixed-window":
        assert list(dict(store.items()).values()) == [5]
    assert limiter.reset("k") is True
    assert [limiter.allow("k") for _ in range(6)] == [True] * 5 + [False]


def test_e32_fixed_window_starts_at_the_first_hit(store, clock):
    """alisaifee/limits#250, plausible/analytics#6497: text said aligned to the clock, code started at the first hit; 2x
    burst over the edge."""
    limiter = RateLimiter("3/second", store=store)
    clock.advance(0.9)
    assert limiter.hit("k").reset_after == 1.0
    clock.advance(0.9)  # 1.8: the same window
    assert limiter.hit("k").remaining == 1
    clock.advance(0.099999999)
    assert limiter.hit("k") and not limiter.hit("k")  # the limit at its end
    clock.advance_ns(1)  # 1.9
    assert [limiter.allow("k") for _ in range(4)] == [True] * 3 + [False]  # and the limit at the next one's start


@pytest.mark.parametrize("period", [0.1, 0.001, 1e-6, 1e-9])
def test_e34_periods_below_a_second_work(limit, algorithm, period, clock):
    """vutran1710/PyrateLimiter#75, #125: sub-second periods unreliable."""
    limiter = limit(1, period)
    for _ in range(10):
        assert limiter.allow("k") and not limiter.allow("k")
        clock.advance(period)


def test_e36_sixteen_threads_on_ten_keys_pass_exactly_the_limit(limit, algorithm):
    """alisaifee/limits#277: time was read before the lock, so concurrent tasks got past the limit."""
    limiter, passed = limit(4, 86_400), []

    def work():
        passed.append(sum(limiter.allow(number % 10) for number in range(1_000)))

    run_threads(*[work] * 16)
    assert sum(passed) == 40


def test_e36_with_a_clock_that_moves_every_window_passes_the_limit(store, clock):
    """The same report, with another thread at the clock: as many per window as the limit, whoever read it when."""
    limiter, passed, stop = RateLimiter("4/second", store=store), [], []

    def tick():
        for _ in range(200):
            clock.advance_ns(SECOND // 10)
        stop.append(True)

    def work():
        while not stop:
            if limiter.allow("k"):
                passed.append(True)

    run_threads(tick, *[work] * 8)
    assert len(passed) <= 4 * 21  # in 20 seconds, the first and the last window cut


def test_e38_figures_after_a_window_that_ended_are_those_of_a_new_one(limit, algorithm, clock):
    """alisaifee/flask-limiter#17: request longer than its window: reading the statistics afterwards raised."""
    limiter = limit(2, 0.05)
    decision = limiter.hit("k", 2)
    clock.advance(0.2)
    now = limiter.peek("k")
    assert (now.remaining, now.retry_after, now.reset_after, now.allowed) == (2, 0.0, 0.0, True)
    assert limiter.refund(decision) is False and decision.headers()


def test_e40_entry_that_lost_its_ttl_is_refused_for_good_until_reset(store, clock):
    """redis/node-redis#2847, redis/redis#4548: a limiter key that lost its TTL is never freed."""
    limiter = RateLimiter("2/minute", store=store)
    for lose in (lambda key: store.persist(key), lambda key: store.set(key, 2), lambda key: store.getset(key, 9)):
        limiter.hit("k", 2)
        (key,) = store
        lose(key)
        refused = limiter.hit("k")
        assert not refused and refused.retry_after == refused.reset_after == math.inf
        assert "Retry-After" not in refused.headers() and not limiter.acquire("k", timeout=10**6)
        clock.advance(10**6)
        assert not limiter.hit("k")
        assert limiter.reset("k") is True and limiter.hit("k").remaining == 1
        limiter.reset("k")


@pytest.mark.parametrize("change", ["persist", "expire", "set"])
def test_e40_entries_of_the_other_algorithms_cannot_lose_their_ttl(change, store):
    """The same reports: what would take it away is refused, or replaces the entry."""
    for algorithm in ("sliding-window", "gcra"):
        store.delete("k")
        call(store, algorithm, 2, 60)
        before = store.pttl("k")
        if change == "set":
            store.set("k", 1)
            assert store.type("k") == "counter"
            continue
        with pytest.raises(goblin.WrongTypeError):
            store.persist("k") if change == "persist" else store.expire("k", 10**6)
        assert store.pttl("k") == before
