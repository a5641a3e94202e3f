"""What a call gets: refusal, fallback or wait; what is spent and given back, who is exempt, limits that change."""

import asyncio
import contextvars
import functools
import pickle
from datetime import timedelta

import pytest

import goblin


@pytest.fixture
def clock():
    return goblin.ManualClock()


@pytest.fixture
def store(clock):
    return goblin.Counters(clock=clock)


def called(function, *args, **kwargs):
    """The result of a call, awaited if need be."""
    result = function(*args, **kwargs)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def refusal(function, *args, **kwargs):
    with pytest.raises(goblin.RateLimitExceeded) as caught:
        called(function, *args, **kwargs)
    return caught.value


def made_async(function):
    @functools.wraps(function)
    async def f(*args, **kwargs):
        return function(*args, **kwargs)

    return f


kinds = pytest.mark.parametrize("kind", [lambda function: function, made_async], ids=["sync", "async"])


# ---- raise ----------------------------------------------------------------------------------------------------------


@kinds
def test_raise_error_tells_when_and_is_chained_to_nothing(kind, store, clock):
    limited = goblin.rate_limit("2/minute; 3/hour", key="{user}", store=store)(kind(lambda user: user))
    called(limited, "ann"), called(limited, "ann")
    clock.advance(15)
    error = refusal(limited, "ann")
    assert (error.retry_after, error.decision.limit, error.decision.remaining) == (45.0, goblin.Limit(2, 60), 0)
    assert error.decision.key == ("{user}", "ann") and error.decision == limited.peek("ann")
    assert (error.__cause__, error.__context__) == (None, None)
    assert str(error) == "rate limit exceeded: 2/minute for key ('{user}', 'ann'); retry after 45 s"


@kinds
def test_raise_while_another_exception_is_handled_does_not_show_it(kind, store):
    limited = goblin.rate_limit("0/minute", store=store)(kind(lambda: None))
    try:
        raise KeyError("before")
    except KeyError:
        error = refusal(limited)
    assert error.__cause__ is None and error.__suppress_context__


def test_raise_error_pickles(store):
    error = refusal(goblin.rate_limit("0/minute", store=store)(lambda: None))
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.decision, copy.retry_after, str(copy)) == (error.decision, float("inf"), str(error))


# ---- a callable -----------------------------------------------------------------------------------------------------


@kinds
def test_fallback_gets_the_decision_and_its_result_is_the_calls(kind, store):
    limited = goblin.rate_limit("1/minute", on_limit=lambda decision: ["no", decision], store=store)(
        kind(lambda: "yes")
    )
    decision = limited.peek()
    assert called(limited) == "yes" and decision.allowed
    assert called(limited) == ["no", limited.peek()]
    assert limited.peek().retry_after == 60


@pytest.mark.parametrize("result", [None, 0, "", [], NotImplemented])
def test_fallback_result_that_is_false_is_the_result(store, result):
    assert goblin.rate_limit("0/minute", on_limit=lambda decision: result, store=store)(lambda: 1)() is result


def test_fallback_that_is_async_is_awaited_by_an_async_function(store):
    async def later(decision):
        return "later", decision.allowed

    limited = goblin.rate_limit("0/minute", on_limit=later, store=store)(made_async(lambda: 1))
    assert called(limited) == ("later", False)


@kinds
def test_fallback_that_raises_reaches_the_caller(kind, store):
    def fail(decision):
        raise LookupError(decision.retry_after)

    with pytest.raises(LookupError, match="inf") as caught:
        called(goblin.rate_limit("0/minute", on_limit=fail, store=store)(kind(lambda: 1)))
    assert caught.value.__context__ is None


# ---- wait -----------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_wait_sleeps_until_the_call_may_pass(kind, store, clock, algorithm):
    limited = goblin.rate_limit("2/second", algorithm=algorithm, on_limit="wait", store=store)(
        kind(lambda: clock.now_ns)
    )
    at = [called(limited) for _ in range(6)]
    assert at[:2] == [0, 0] and at == sorted(at)
    assert {"fixed-window": 2, "sliding-window": 2.5, "gcra": 2}[algorithm] * 10**9 == at[-1]


@kinds
@pytest.mark.parametrize("timeout", [59.999, 59, timedelta(seconds=59), 0])
def test_wait_longer_than_the_timeout_raises_at_once(kind, store, clock, timeout):
    limited = goblin.rate_limit("1/minute", on_limit="wait", timeout=timeout, store=store)(kind(lambda: "ran"))
    called(limited)
    error = refusal(limited)
    assert (error.retry_after, clock.now_ns, error.__context__) == (60.0, 0, None)


@kinds
@pytest.mark.parametrize("timeout", [60, 60.0, timedelta(minutes=1), float("inf"), None])
def test_wait_no_longer_than_the_timeout_passes(kind, store, clock, timeout):
    limited = goblin.rate_limit("1/minute", on_limit="wait", timeout=timeout, store=store)(kind(lambda: clock.now_ns))
    assert [called(limited), called(limited)] == [0, 60 * 10**9]


@kinds
def test_wait_for_what_can_never_pass_raises_at_once(kind, store, clock):
    limited = goblin.rate_limit("5/minute", cost=6, on_limit="wait", store=store)(kind(lambda: "ran"))
    assert refusal(limited).retry_after == float("inf")
    assert (clock.now_ns, len(store)) == (0, 0)


# ---- cost -----------------------------------------------------------------------------------------------------------


@kinds
def test_cost_callable_gets_the_arguments_and_is_spent(kind, store):
    limited = goblin.rate_limit("10/minute", cost=lambda n, *, times=1: n * times, store=store)(
        kind(lambda n, *, times=1: n)
    )
    assert [called(limited, 3), called(limited, 2, times=3)] == [3, 2]
    assert [limited.peek(n).allowed for n in (0, 1, 2)] == [True, True, False]
    error = refusal(limited, 1, times=2)
    assert (error.decision.cost, error.decision.remaining) == (2, 1)


@kinds
def test_cost_zero_is_never_refused_and_spends_nothing(kind, store):
    limited = goblin.rate_limit("0/minute", cost=0, store=store)(kind(lambda: "ran"))
    assert [called(limited) for _ in range(3)] == ["ran"] * 3
    assert len(store) == 0


@kinds
@pytest.mark.parametrize(
    ("cost", "error"),
    [
        (-1, ValueError),
        (1.0, TypeError),
        (True, TypeError),
        ("1", TypeError),
        (None, TypeError),
        (2**63, OverflowError),
    ],
)
def test_cost_callable_that_returns_no_cost_raises_and_spends_nothing(kind, store, cost, error):
    limited = goblin.rate_limit("5/minute", cost=lambda: cost, store=store)(kind(lambda: pytest.fail("called")))
    with pytest.raises(error, match="cost"):
        called(limited)
    assert len(store) == 0


# ---- exempt_when ----------------------------------------------------------------------------------------------------


@kinds
def test_exempt_call_is_not_counted_and_asks_nothing_else(kind, store):
    def key(user):
        assert user != "root"
        return user

    limited = goblin.rate_limit("1/minute", key=key, exempt_when=lambda user: user == "root", store=store)(
        kind(lambda user: user)
    )
    assert [called(limited, "root") for _ in range(3)] == ["root"] * 3
    assert len(store) == 0
    assert called(limited, "ann") == "ann"
    assert refusal(limited, "ann")


@kinds
@pytest.mark.parametrize(("answer", "passes"), [(1, True), ([0], True), (0, False), (None, False), ("", False)])
def test_exempt_answer_is_taken_for_true_or_false(kind, store, answer, passes):
    limited = goblin.rate_limit("0/minute", exempt_when=lambda: answer, store=store)(kind(lambda: "ran"))
    if passes:
        assert called(limited) == "ran"
    else:
        assert refusal(limited)


# ---- limits ---------------------------------------------------------------------------------------------------------


@kinds
def test_limits_callable_is_asked_at_every_call(kind, store):
    plans = {"ann": "1/minute", "bob": goblin.Limit(2, 60), "cid": ["3/minute", goblin.Limit(9, 3600)]}
    limited = goblin.rate_limit(lambda user: plans[user], key="{user}", store=store)(kind(lambda user: user))
    assert [limited.peek(user).remaining for user in plans] == [1, 2, 3]
    assert called(limited, "ann") == "ann"
    refusal(limited, "ann")
    plans["ann"] = "5/minute"  # changed live: other limits have entries of their own
    assert called(limited, "ann") == "ann" and limited.peek("ann").remaining == 4
    assert limited.reset("ann") and limited.peek("ann").remaining == 5
    assert not hasattr(limited, "limiter")


@kinds
@pytest.mark.parametrize(
    ("limits", "error"),
    [("many", ValueError), (None, TypeError), (5, TypeError), ([], ValueError), ([None], TypeError)],
)
def test_limits_callable_that_returns_none_raises_and_spends_nothing(kind, store, limits, error):
    limited = goblin.rate_limit(lambda: limits, store=store)(kind(lambda: pytest.fail("called")))
    with pytest.raises(error):
        called(limited)
    assert len(store) == 0


def test_limits_callable_with_very_many_answers_keeps_counting(store):
    limited = goblin.rate_limit(lambda n: goblin.Limit(n, 60), store=store)(lambda n: None)
    for n in range(1, 1001):
        limited(n)
    assert refusal(limited, 1) and limited.peek(1000).remaining == 999


def test_limits_callable_of_the_module_needs_no_other_argument(store):
    def limits():
        return "1/minute"

    @goblin.rate_limit(limits)
    def f():
        return "ran"

    before = goblin.set_default_store(store)
    try:
        assert f() == "ran" and refusal(f)
    finally:
        goblin.set_default_store(before)


# ---- refund_on ------------------------------------------------------------------------------------------------------


def failing(error):
    def f(*args):
        raise error

    return f


@kinds
@pytest.mark.parametrize("refund_on", [OSError, (OSError,), (KeyError, LookupError, OSError)])
def test_refund_gives_back_and_the_exception_stays_as_it_was(kind, store, refund_on):
    error = FileNotFoundError("x")
    limited = goblin.rate_limit("5/minute; 9/hour", cost=2, refund_on=refund_on, store=store)(kind(failing(error)))
    with pytest.raises(FileNotFoundError) as caught:
        called(limited)
    assert caught.value is error
    assert (error.__context__, error.__cause__, error.__suppress_context__) == (None, None, False)
    assert limited.peek().remaining == 5


@kinds
@pytest.mark.parametrize("refund_on", [(), KeyError])
def test_refund_is_not_made_for_other_exceptions(kind, store, refund_on):
    limited = goblin.rate_limit("5/minute", refund_on=refund_on, store=store)(kind(failing(OSError())))
    with pytest.raises(OSError):
        called(limited)
    assert limited.peek().remaining == 4


@kinds
def test_refund_keeps_the_exceptions_own_context(kind, store):
    def f():
        try:
            raise KeyError
        except KeyError:
            raise OSError from None

    with pytest.raises(OSError) as caught:
        called(goblin.rate_limit("5/minute", refund_on=OSError, store=store)(kind(f)))
    assert isinstance(caught.value.__context__, KeyError) and caught.value.__suppress_context__


def test_refund_that_fails_leaves_the_functions_exception(store):
    def f():
        [key] = store
        store.gcra("other", 1, 1)
        store.delete(key)
        store.decide([(key, ("gcra", 5, 60 * 10**9, None))], 1, "hit")  # now of the wrong kind
        raise OSError("own")

    with pytest.raises(OSError, match="own") as caught:
        goblin.rate_limit("5/minute", refund_on=OSError, store=store)(f)()
    assert caught.value.__context__ is None


@kinds
def test_refund_of_a_refused_or_exempt_call_is_none(kind, store):
    limited = goblin.rate_limit("1/minute", key="k", refund_on=Exception, exempt_when=lambda n: n, store=store)(
        kind(failing(OSError()))
    )
    with pytest.raises(OSError):
        called(limited, True)
    assert len(store) == 0 and limited.peek(False).remaining == 1
    limited.limiter.hit(("k",))
    assert refusal(limited, False) and limited.peek(False).remaining == 0


@kinds
@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_refund_after_a_wait_gives_back(kind, store, algorithm):
    limited = goblin.rate_limit("1/second", algorithm=algorithm, on_limit="wait", refund_on=OSError, store=store)(
        kind(failing(OSError()))
    )
    limited.limiter.hit("")
    with pytest.raises(OSError):
        called(limited)
    assert limited.peek().remaining == 1


def test_refund_of_a_stacked_decorator_when_the_inner_one_refuses(store):
    @goblin.rate_limit("100/hour", refund_on=goblin.RateLimitExceeded, store=store)
    @goblin.rate_limit("1/minute", store=store)
    def f():
        return "ran"

    f()
    assert refusal(f).decision.limit == goblin.Limit(1, 60)
    assert f.peek().remaining == 99


def test_refund_on_cancellation_gives_back(store):
    @goblin.rate_limit("5/minute", refund_on=asyncio.CancelledError, store=store)
    async def f():
        await asyncio.get_running_loop().create_future()

    async def main():
        task = asyncio.ensure_future(f())
        await asyncio.wait([task], timeout=0)
        spent = f.peek().remaining
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return spent, f.peek().remaining

    assert asyncio.run(main()) == (4, 5)


# ---- quota ----------------------------------------------------------------------------------------------------------


@kinds
def test_quota_without_a_period_never_ends(kind, store, clock):
    limited = goblin.quota(10, key="{user}", cost=lambda user, n: n, refund_on=OSError, store=store)(
        kind(lambda user, n: n)
    )
    assert called(limited, "ann", 7) == 7
    clock.advance(10**9)
    error = refusal(limited, "ann", 4)
    assert (error.retry_after, error.decision.remaining) == (float("inf"), 3)
    assert called(limited, "ann", 3) == 3 and called(limited, "bob", 10) == 10
    assert limited.reset("ann", 0) and called(limited, "ann", 10) == 10
    assert limited.limiter.algorithm == "fixed-window" and limited.limiter.limits == (goblin.Limit(10, None),)


@kinds
def test_quota_with_a_period_begins_with_the_first_call(kind, store, clock):
    limited = goblin.quota(10, key=None, cost=lambda n: n, period=timedelta(days=30), store=store)(kind(lambda n: n))
    clock.advance(5)
    called(limited, 10)
    assert refusal(limited, 1).retry_after == 30 * 86400
    clock.advance(timedelta(days=30))
    assert called(limited, 10) == 10


def test_quota_takes_the_other_arguments_too(store):
    @goblin.quota(1, key="k", name="space", on_limit=lambda decision: "full", exempt_when=lambda n: n == 0, store=store)
    def f(n):
        return n

    assert [f(0), f(0), f(1), f(1)] == [0, 0, 1, "full"]
    assert list(store.items()) == [("space:fixed:1/never:{('k',)}", 1)]

    @goblin.quota(1, key="k", name="space", on_limit="wait", timeout=5, store=store)
    def g():
        pass

    assert refusal(g).retry_after == float("inf")


# ---- async callables and context variables --------------------------------------------------------------------------


def test_callables_that_are_async_are_awaited_for_an_async_function(store):
    async def limits(user):
        return "5/minute"

    async def key(user):
        return user

    async def cost(user):
        return 2

    async def exempt(user):
        return user == "root"

    limited = goblin.rate_limit(limits, key=key, cost=cost, exempt_when=exempt, store=store)(
        made_async(lambda user: user)
    )
    assert [called(limited, user) for user in ("ann", "ann", "bob", "root", "root", "root")] == ["ann"] * 2 + [
        "bob"
    ] + ["root"] * 3
    assert refusal(limited, "ann").decision.cost == 2
    for method in (limited.peek, limited.reset):
        with pytest.raises(TypeError, match="limits is async, and cannot be awaited here: coroutine"):
            method("ann")


def test_callable_that_returns_an_awaitable_unseen_is_awaited_or_refused(store):
    async def later(value):
        return value

    hidden = {"key": lambda user: later(user), "exempt_when": lambda user: later(False), "cost": lambda user: later(1)}
    limited = goblin.rate_limit("1/minute", **hidden, store=store)(made_async(lambda user: user))
    assert called(limited, "ann") == "ann" and refusal(limited, "ann")
    for argument, hiding in hidden.items():
        limited = goblin.rate_limit("1/minute", **{argument: hiding}, store=store)(lambda user: pytest.fail("called"))
        with pytest.raises(TypeError, match=f"{argument} is async, and cannot be awaited here: coroutine"):
            limited("ann")


@kinds
def test_context_variables_are_seen_by_callables_and_function(kind, store):
    user = contextvars.ContextVar("user")
    limited = goblin.rate_limit("1/minute", key=lambda: user.get(), cost=lambda: len(user.get()) - 2, store=store)(
        kind(user.get)
    )
    for name in ("ann", "bob"):
        user.set(name)
        assert called(limited) == name
    assert refusal(limited).decision.key == "bob"
