"""What `rate_limit` and `quota` refuse, and that they do so at decoration."""

import datetime
import inspect

import pytest

import goblin

ASYNC_CANNOT = "is async, but .* is not, and cannot await it"


def function():
    raise AssertionError("not called")


def decorated(limits="5/minute", below=function, **options):
    return goblin.rate_limit(limits, **options)(below)


async def later(*args):
    raise AssertionError("not called")


class Later:
    """Its instances are async callables."""

    async def __call__(self, *args):
        raise AssertionError("not called")


def generator():
    yield


async def async_generator():
    yield


class AsyncGenerating:
    """Its instances are async generator functions."""

    async def __call__(self):
        yield


@pytest.mark.parametrize(
    "limits",
    [
        "",
        "5",
        "5/fortnight",
        "0.5/minute",
        "-1/minute",
        "5/0 seconds",
        "5/minute;",
        "5/minute burst 3",
        ("5/minute", "x"),
        (),
        [],
    ],
)
def test_limits_malformed_raise_before_a_function_is_there(limits):
    with pytest.raises(ValueError):
        goblin.rate_limit(limits)


@pytest.mark.parametrize("limits", [None, 5, 5.0, b"5/minute", True, (5, 60), object()])
def test_limits_of_another_type_raise_before_a_function_is_there(limits):
    with pytest.raises(TypeError):
        goblin.rate_limit(limits)


@pytest.mark.parametrize(("limits", "expected"), [
    ("10/second; 1000/hour", [(10, 1), (1000, 3600)]),
    (goblin.Limit(5, 60), [(5, 60)]),
    (["10/second", goblin.Limit(1000, 3600)], [(10, 1), (1000, 3600)]),
    (iter(["10/second", "10/second"]), [(10, 1)]),
    ("0/minute", [(0, 60)]),
])  # fmt: skip
def test_limits_of_each_form_are_taken(limits, expected):
    limited = goblin.rate_limit(limits)
    for _ in range(2):  # an iterator is read once, for all functions
        assert [(limit.amount, limit.seconds) for limit in limited(function).limiter.limits] == expected


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"key": b"k"}, TypeError, "key must be None, a template or a callable, not bytes"),
        ({"key": 5}, TypeError, "key must be None, a template or a callable, not int"),
        ({"cost": -1}, ValueError, r"cost=-1 \(allowed: at least 0\)"),
        ({"cost": 1.0}, TypeError, "cost=1.0"),
        ({"cost": True}, TypeError, "cost=True"),
        ({"cost": None}, TypeError, "cost=None"),
        ({"cost": "1"}, TypeError, "cost='1'"),
        ({"cost": 2**63}, OverflowError, "cost=9223372036854775808"),
        ({"algorithm": "leaky"}, ValueError, "algorithm='leaky'"),
        ({"store": {}}, TypeError, "store must be"),
        ({"name": 5}, TypeError, "name must be a str"),
        ({"name": "a{b}"}, ValueError, "no braces"),
        ({"on_limit": "ignore"}, ValueError, r"""on_limit='ignore' \(allowed: "raise", "wait" or a callable\)"""),
        ({"on_limit": None}, TypeError, 'on_limit must be "raise", "wait" or a callable, not NoneType'),
        ({"timeout": 5}, ValueError, 'timeout goes with on_limit="wait" only'),
        ({"timeout": 5, "on_limit": print}, ValueError, 'timeout goes with on_limit="wait" only'),
        ({"timeout": -1, "on_limit": "wait"}, ValueError, r"timeout=-1 \(allowed: at least 0\)"),
        ({"timeout": float("nan"), "on_limit": "wait"}, ValueError, "timeout=nan"),
        ({"timeout": datetime.timedelta(seconds=-1), "on_limit": "wait"}, ValueError, "timeout="),
        ({"timeout": "5", "on_limit": "wait"}, TypeError, "timeout='5'"),
        ({"timeout": True, "on_limit": "wait"}, TypeError, "timeout=True"),
        ({"exempt_when": True}, TypeError, "exempt_when must be None or a callable, not bool"),
        ({"refund_on": "OSError"}, TypeError, "refund_on must be exception classes, not str"),
        ({"refund_on": (OSError, OSError())}, TypeError, "refund_on must be exception classes, not OSError"),
        ({"refund_on": [OSError]}, TypeError, "refund_on must be exception classes, not list"),
        ({"refund_on": int}, TypeError, "refund_on must be exception classes, not type"),
    ],
)
def test_argument_wrong_raises_before_a_function_is_there(options, error, message):
    if "algorithm" not in options:
        with pytest.raises(error, match=message):
            goblin.quota(5, **{"key": None, **options})
    for limits in ("5/minute", lambda: "5/minute"):
        with pytest.raises(error, match=message):
            goblin.rate_limit(limits, **options)


@pytest.mark.parametrize("wrong", [{"limits": "5/minute"}, {"algorithm": "gcra"}, {"nonsense": 1}])
def test_argument_unknown_to_quota_raises(wrong):
    with pytest.raises(TypeError):
        goblin.quota(5, key=None, **wrong)


@pytest.mark.parametrize(
    ("amount", "period"), [(-1, None), (-1, 60), (5, 0), (5, -1), (5, float("nan")), (5, datetime.timedelta())]
)
def test_quota_out_of_range_raises_before_a_function_is_there(amount, period):
    with pytest.raises(ValueError):
        goblin.quota(amount, key=None, period=period)


@pytest.mark.parametrize(
    ("amount", "period"), [(None, 60), (1.5, 60), ("5", 60), (True, 60), (5, "60"), ("5/minute", None)]
)
def test_quota_of_another_type_raises_before_a_function_is_there(amount, period):
    with pytest.raises(TypeError):
        goblin.quota(amount, key=None, period=period)


@pytest.mark.parametrize("options", [{"store": goblin.Counters()}, {"name": "x"}, {"algorithm": "gcra"}])
def test_limiter_given_beside_what_is_its_own_raises(options):
    [argument] = options
    with pytest.raises(ValueError, match=f"{argument} is the RateLimiter's own and cannot be given beside it"):
        goblin.rate_limit(goblin.RateLimiter("5/minute"), **options)
    gcra = goblin.RateLimiter("5/minute", algorithm="gcra")
    assert decorated(gcra).limiter is decorated(gcra, algorithm="gcra").limiter is gcra


@pytest.mark.parametrize("argument", ["key", "cost", "exempt_when", "on_limit", "limits"])
@pytest.mark.parametrize("below", [function, generator, async_generator, len], ids=lambda below: below.__name__)
@pytest.mark.parametrize("asked", [later, Later()], ids=["function", "instance"])
def test_async_callable_for_what_cannot_await_it_raises_at_decoration(argument, below, asked):
    options = {"limits": "5/minute", argument: asked}
    with pytest.raises(TypeError, match=f"{argument} {ASYNC_CANNOT}"):
        decorated(below=below, **options)
    decorated(below=later, **options)


@pytest.mark.parametrize("below", [async_generator, AsyncGenerating()], ids=["function", "instance"])
def test_wait_for_an_async_generator_function_raises_at_decoration(below):
    with pytest.raises(TypeError, match='on_limit="wait": .* is an async generator function, its call cannot await'):
        decorated(below=below, on_limit="wait")
    decorated(below=generator, on_limit="wait")


@pytest.mark.parametrize("below", [generator, async_generator, AsyncGenerating()], ids=["sync", "async", "instance"])
def test_refund_for_a_generator_function_raises_at_decoration(below):
    with pytest.raises(TypeError, match="refund_on: .* is a generator function, it raises after its call"):
        decorated(below=below, refund_on=OSError)


def test_signatures_of_the_decorators_are_the_documented_ones():
    rest = "on_limit='raise', timeout=None, on_error='raise', exempt_when=None, refund_on=())"
    for decorator, expected in [
        (goblin.rate_limit, f"(limits, *, key=None, cost=1, algorithm='fixed-window', store=None, name=None, {rest}"),
        (goblin.quota, f"(amount, *, key, cost=1, period=None, store=None, name=None, {rest}"),
    ]:
        parameters = inspect.signature(decorator).parameters.values()
        assert (
            str(inspect.Signature([parameter.replace(annotation=parameter.empty) for parameter in parameters]))
            == expected
        )
