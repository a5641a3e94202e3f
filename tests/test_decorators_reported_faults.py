"""Faults that people have met in rate limiters and decorators elsewhere: one test for each, through the decorators.

The letter and number only give each report a name; those about waiting are in test_decorators_waiting.py. The docstring
says where it was met and what went wrong.
"""

import asyncio
import functools
import gc
import inspect
import math
import pickle
import threading
import warnings
from datetime import timedelta

import pytest

import goblin


@pytest.fixture
def clock():
    return goblin.ManualClock()


@pytest.fixture
def store(clock):
    return goblin.Counters(clock=clock)


@pytest.fixture
def limit(store):
    """`limit(n, period, ...)` decorates."""

    def decorator(n, period, **options):
        return goblin.rate_limit(goblin.Limit(n, period), **{"store": store, **options})

    return decorator


ALGORITHMS = ["fixed-window", "sliding-window", "gcra"]
each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


def passes(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except goblin.RateLimitExceeded:
        return False
    return True


def refusal(function, *args, **kwargs):
    with pytest.raises(goblin.RateLimitExceeded) as caught:
        function(*args, **kwargs)
    return caught.value


# ---- What is counted ------------------------------------------------------------------------------------------------


def test_e1_two_functions_of_one_name_are_counted_apart(limit):
    """laurentS/slowapi#75, #93, #191: limits were registered by function name; two of one name counted twice."""

    @limit(5, 60)
    def home():
        pass

    first = home

    @limit(3, 60)
    def home():
        pass

    second = home
    assert [sum(passes(function) for _ in range(9)) for function in (first, second)] == [5, 3]
    assert first.limiter.name != second.limiter.name


def test_e3_limiters_over_two_stores_are_independent_and_over_one_they_share_by_name(limit):
    """vutran1710/PyrateLimiter#32: the state sat in a class attribute, so all limiters shared it."""
    stores = [goblin.Counters(), goblin.Counters()]
    apart = [limit(1, 60, store=store, name="x", key=lambda: "x")(lambda: None) for store in stores]
    assert [passes(function) for function in apart] == [True, True]
    together = [limit(1, 60, name="x", key=lambda: "x")(lambda: None) for _ in range(2)]
    assert [passes(function) for function in together] == [True, False]


@each_algorithm
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_e6_exactly_the_limit_passes(limit, algorithm, n):
    """jsocol/django-ratelimit#76, #141: "1 per hour" let two through."""
    f = limit(n, 3600, algorithm=algorithm)(lambda: None)
    assert [passes(f) for _ in range(n + 3)] == [True] * n + [False] * 3


@each_algorithm
def test_e7_limit_zero_refuses_all_at_once(limit, algorithm):
    """abersheeran/asgi-ratelimit#56, brandur/redis-cell#41: limit 0 let one call through, or crashed."""
    for on_limit in ("raise", "wait"):
        f = limit(0, 60, algorithm=algorithm, on_limit=on_limit)(lambda: pytest.fail("called"))
        assert [refusal(f).retry_after for _ in range(2)] == [math.inf, math.inf]


@pytest.mark.parametrize(("n", "period"), [(-1, 60), (5, 0), (5, -1), (5, 0.0), (5, timedelta())])
def test_e7_limits_out_of_range_raise_at_decoration(limit, n, period):
    """golang/go#39984, alastair/python-musicbrainzngs#42: they divided by zero, or hung, at the first call."""
    with pytest.raises(ValueError):

        @limit(n, period)
        def f():
            pass


def test_e7_limit_none_is_not_zero():
    """jsocol/django-ratelimit#122: None was taken for a number."""
    with pytest.raises(TypeError):
        goblin.rate_limit(None)
    with pytest.raises(TypeError):
        goblin.Limit(None, 60)


@each_algorithm
@pytest.mark.parametrize("on_limit", ["raise", "wait"])
def test_e8_cost_that_can_never_fit_is_refused_at_once(limit, store, clock, algorithm, on_limit):
    """vutran1710/PyrateLimiter#315, bucket4j/bucket4j#220: it was allowed through, or told to come back soon."""
    f = limit(10, 60, cost=11, algorithm=algorithm, on_limit=on_limit)(lambda: pytest.fail("called"))
    assert refusal(f).retry_after == math.inf
    assert (len(store), clock.now_ns) == (0, 0)


# ---- When to come back ----------------------------------------------------------------------------------------------


@each_algorithm
@pytest.mark.parametrize(("n", "period"), [(1, 60), (3, 60), (7, 0.1), (1, 1e-9), (3, 7e-9), (1000, 86400)])
def test_e10_after_retry_after_exactly_the_call_passes(limit, clock, algorithm, n, period):
    """alisaifee/flask-limiter#62, #56: Retry-After was 0, then negative; retrying after it was refused again."""
    f = limit(n, period, algorithm=algorithm)(lambda: None)
    for _ in range(5):
        while passes(f):
            pass
        wait = refusal(f).retry_after
        assert 0 < wait <= period
        clock.advance(wait)
        assert f.peek().retry_after == 0.0
        f()
    clock.advance(3 * period)
    assert f.peek().retry_after == 0.0


def test_e11_retry_after_in_the_last_second_is_not_zero(limit, clock):
    """intelowlproject/IntelOwl#3835: cut to whole seconds, Retry-After was 0 in the last second."""
    f = limit(1, 60)(lambda: None)
    f()
    clock.advance_ns(59_999_000_000)
    error = refusal(f)
    assert 0.001 <= error.retry_after < 0.0011
    assert error.decision.headers()["Retry-After"] == "1"


def test_e32_window_starts_at_the_first_hit_and_twice_the_limit_fits_around_its_edge(limit, clock):
    """alisaifee/limits#250, plausible/analytics#6497: text and code disagreed on where a window starts."""
    f = limit(3, 1)(lambda: None)
    clock.advance(0.9)
    f()
    clock.advance(0.9)  # 1.8: the same window
    assert [passes(f) for _ in range(3)] == [True, True, False]
    clock.advance(0.1)  # 1.9: a new one, and 2 + 3 calls within 0.1 s
    assert [passes(f) for _ in range(4)] == [True, True, True, False]


@each_algorithm
@pytest.mark.parametrize("period", [0.1, timedelta(milliseconds=100)])
def test_e34_periods_below_a_second_work(limit, clock, algorithm, period):
    """vutran1710/PyrateLimiter#75, #125: sub-second periods were unreliable."""
    f = limit(1, period, algorithm=algorithm)(lambda: None)
    passed = 0
    for _ in range(10):
        passed += passes(f)
        assert not passes(f)
        clock.advance(0.1 if algorithm != "sliding-window" else 0.2)  # there the last window still weighs
    assert passed == 10


def test_e38_statistics_after_a_call_longer_than_its_window_are_those_of_a_new_one(limit, clock):
    """alisaifee/flask-limiter#17: reading them afterwards raised."""
    f = limit(2, 0.05)(lambda: clock.advance(0.2))
    f(), f()
    assert (f.peek().remaining, f.peek().retry_after, f.peek().reset_after) == (2, 0.0, 0.0)


def test_e40_entry_that_lost_its_ttl_is_refused_for_good_until_reset(limit, store):
    """redis/node-redis#2847, redis/redis#4548: a limiter's key without a TTL is never freed; the wait was -1 or -2."""
    f = limit(2, 60)(lambda: None)
    f(), f()
    [key] = store
    for spoil in (lambda: store.persist(key), lambda: store.set(key, 9)):
        spoil()
        assert (refusal(f).retry_after, f.peek().remaining) == (math.inf, 0)
    assert f.reset() and passes(f)


# ---- What remains ---------------------------------------------------------------------------------------------------


@each_algorithm
def test_e29_remaining_counts_down_to_zero_and_stays(limit, clock, algorithm):
    """brandur/redis-cell#12, boinkor-net/governor#157, alisaifee/limits#266: remaining was wrong or negative."""
    f = limit(5, 60, algorithm=algorithm)(lambda: f.peek().remaining)
    assert [f() for _ in range(5)] == [4, 3, 2, 1, 0]
    assert [refusal(f).decision.remaining for _ in range(10)] == [0] * 10
    clock.advance(120)
    assert f.peek().remaining == 5


@each_algorithm
def test_e31_refused_calls_are_not_counted(limit, store, clock, algorithm):
    """ExHammer/hammer#132, smallrye/smallrye-fault-tolerance#973: refused attempts used up the window."""
    f = limit(5, 60, algorithm=algorithm)(lambda: None)
    assert [passes(f) for _ in range(1005)] == [True] * 5 + [False] * 1000
    if algorithm == "fixed-window":
        assert [value for _, value in store.items()] == [5]
    assert f.reset() and f.peek().remaining == 5


def test_e27_call_that_raises_counts_once_and_its_exception_is_untouched(limit):
    """alisaifee/limits#186, alisaifee/flask-limiter#448: do failed calls count?"""
    error = ValueError("own")

    def f():
        raise error

    for options, left in [({}, 4), ({"refund_on": ValueError}, 5), ({"refund_on": KeyError}, 4)]:
        limited = limit(5, 60, name=repr(options).replace("{", "").replace("}", ""), **options)(f)
        with pytest.raises(ValueError) as caught:
            limited()
        assert caught.value is error and error.__context__ is None and error.__cause__ is None
        assert limited.peek().remaining == left


def test_e27_refund_is_not_made_to_a_newer_window_nor_below_zero(limit, store, clock):
    """alisaifee/limits#186: what was spent in an old window was given back in a new one."""

    @limit(5, 60, refund_on=ValueError, name="f")
    def f(seconds):
        clock.advance(seconds)
        if seconds:
            f(0)
        raise ValueError

    @limit(5, 60, name="f")
    def fill():
        pass

    with pytest.raises(ValueError):
        f(60)  # the inner call, in the new window, gives its own back; the outer one has nothing there
    assert fill.peek().remaining == 5
    fill(), fill()
    with pytest.raises(ValueError):
        f(61)
    assert all(value >= 0 for _, value in store.items()) and fill.peek().remaining == 5


# ---- Kinds of functions ---------------------------------------------------------------------------------------------


def test_e18_partial_of_a_coroutine_function_is_async(limit):
    """gawel/aiocron#20, PrefectHQ/fastmcp#3438, python/cpython#98590: it was taken as sync."""

    async def acoro(a, b):
        return a, b

    f = limit(5, 1)(functools.partial(acoro, 1))
    assert inspect.iscoroutinefunction(f) and f.__name__ == "acoro"
    assert asyncio.run(f(2)) == (1, 2)


def test_e20_async_function_is_awaited_and_limited(limit):
    """tomasbasham/ratelimit#26, freelawproject/courtlistener#7943: bare coroutines were given out, nothing limited."""

    @limit(1, 60)
    async def f():
        return "ran"

    async def main():
        assert await f() == "ran"
        with pytest.raises(goblin.RateLimitExceeded):
            await f()

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that was never awaited would warn
        asyncio.run(main())
        gc.collect()
    assert inspect.iscoroutinefunction(f)


def test_e22_wrapper_is_the_function_to_whoever_inspects_it(limit):
    """aio-libs/async-lru#320, fastapi/fastapi#14445, tomasbasham/ratelimit#64: a lost signature broke frameworks."""

    def sync(a: int, *, b: str = "") -> bytes:
        """Its docstring."""

    async def coroutine(a: int, *, b: str = "") -> bytes:
        """Its docstring."""

    for f in (sync, coroutine):
        f.tag = object()
        w = limit(5, 1)(f)
        assert inspect.signature(w) == inspect.signature(f) and w.__wrapped__ is f
        for attribute in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "tag"):
            assert getattr(w, attribute) is getattr(f, attribute) or getattr(w, attribute) == getattr(f, attribute)
        assert inspect.iscoroutinefunction(w) == inspect.iscoroutinefunction(f)


def test_e23_static_class_and_partial_methods_give_the_right_result(limit):
    """litl/backoff#200, quora/qcore#35: decorating a staticmethod or classmethod object failed or broke binding."""

    class C:
        @limit(4, 1)
        @staticmethod
        def a(n):
            return n

        @staticmethod
        @limit(4, 1)
        def b(n):
            return n

        @limit(4, 1)
        @classmethod
        def c(cls, n):
            return cls, n

        @classmethod
        @limit(4, 1)
        def d(cls, n):
            return cls, n

        @limit(4, 1)
        def e(self, n):
            return self, n

        f = limit(4, 1)(functools.partialmethod(e.__wrapped__, 3))

    it = C()
    assert [C.a(3), it.a(3), C.b(3), it.b(3)] == [3] * 4
    assert [C.c(3), it.c(3), C.d(3), it.d(3)] == [(C, 3)] * 4
    assert [C.e(it, 3), it.e(3), it.f(), C.f(it)] == [(it, 3)] * 4
    for method in (C.a, it.b, C.c, it.d):
        method(3), method(3)
        assert not passes(method, 3)


def test_e25_async_key_function_is_awaited_or_refused_at_decoration(limit):
    """laurentS/slowapi#236: it was never awaited; a coroutine is true, and as a key it is new every time."""

    async def key(user):
        return user

    @limit(2, 60, key=key)
    async def f(user):
        return user

    async def main():
        assert [await f("u"), await f("u")] == ["u", "u"]
        with pytest.raises(goblin.RateLimitExceeded):
            await f("u")
        assert await f("v") == "v"

    asyncio.run(main())
    with pytest.raises(TypeError, match="key is async"):
        limit(2, 60, key=key)(lambda user: user)


def test_e26_key_sees_positional_keyword_and_default_arguments_alike(limit, store):
    """pytoolz/toolz#638, atmb4u/cashier#7: the key was made of positional arguments alone: ignored, or IndexError."""

    def f(user, n=1):
        return user

    for key in (lambda user, n=1: user, "{user}"):
        limited = limit(3, 60, key=key, name="k")(f)
        limited("u"), limited(user="u"), limited("u", n=2)
        assert not passes(limited, "u") and passes(limited, "v")
    by_default = limit(2, 60, key="{n}")(f)
    by_default("u"), by_default("v", 1)
    assert not passes(by_default, "w", n=1)

    def failing(user, n=1):
        raise LookupError("own")

    before = len(store)
    with pytest.raises(LookupError, match="own"):
        limit(3, 60, key=failing, name="failing")(f)("u")
    assert len(store) == before


@goblin.rate_limit("5/minute")
def at_module_level():
    """For pickle."""


def test_d6_decorated_function_pickles_by_name():
    """cython/cython#6307, Quansight-Labs/ndindex#191: pickling broke, or would have copied what must not be copied."""
    assert pickle.loads(pickle.dumps(at_module_level)) is at_module_level


# ---- Many at once ---------------------------------------------------------------------------------------------------


@each_algorithm
def test_e36_a_thousand_tasks_on_ten_keys_pass_exactly_the_limit(limit, algorithm):
    """alisaifee/limits#277: the time was read before the lock, so concurrent tasks got past the limit."""
    ran = []

    @limit(4, 86400, key="{user}", algorithm=algorithm)
    async def f(user):
        ran.append(user)

    async def main():
        return await asyncio.gather(*(f(n % 10) for n in range(1000)), return_exceptions=True)

    outcomes = asyncio.run(main())
    assert len(ran) == outcomes.count(None) == 40 and set(map(ran.count, range(10))) == {4}
    assert sum(isinstance(outcome, goblin.RateLimitExceeded) for outcome in outcomes) == 960


@each_algorithm
def test_e36_sixteen_threads_pass_exactly_the_limit(algorithm):
    """alisaifee/limits#277: the same, with threads and the real clock."""
    store = goblin.Counters()
    ran = []
    together = threading.Barrier(16)

    @goblin.rate_limit("40/day", algorithm=algorithm, store=store)
    def f():
        ran.append(1)

    def work():
        together.wait(60)
        for _ in range(50):
            passes(f)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ran) == 40
