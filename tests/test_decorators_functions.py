"""What can be decorated, and that the decorated function is still what it was: binding, signature, name, pickling."""

import abc
import asyncio
import functools
import gc
import inspect
import pickle
import unittest.mock
import weakref

import pytest

import goblin


@pytest.fixture
def store():
    return goblin.Counters(clock=goblin.ManualClock())


@pytest.fixture
def twice(store):
    return goblin.rate_limit("2/minute", store=store)


def passes_twice(call, result):
    """Whether a call passes two times with this result, and is refused the third time."""
    first, second = call(), call()
    with pytest.raises(goblin.RateLimitExceeded):
        call()
    return [first, second] == [result, result]


def awaited(function, *args, **kwargs):
    """A call that runs the loop until the coroutine is done."""

    async def main():
        return await function(*args, **kwargs)

    return lambda: asyncio.run(main())


# ---- Plain functions and coroutine functions ------------------------------------------------------------------------


def test_function_any_arguments_pass_through(twice):
    @twice
    def f(a, /, b, *args, c=3, **kwargs):
        return a, b, args, c, kwargs

    assert f(1, 2, 4, 5, c=6, d=7) == (1, 2, (4, 5), 6, {"d": 7})
    assert f(1, b=2) == (1, 2, (), 3, {})


def test_function_wrong_arguments_raise_the_functions_own_error(twice):
    @twice
    def f(a):
        return a

    with pytest.raises(TypeError, match=r"f\(\) missing 1 required positional argument: 'a'"):
        f()


def test_coroutine_function_hit_is_made_when_awaited(twice):
    @twice
    async def f(n):
        return n + 1

    calls = [f(1) for _ in range(5)]  # not awaited: nothing is spent
    for call in calls:
        call.close()
    assert passes_twice(awaited(f, 1), 2)


@pytest.mark.skipif(not hasattr(inspect, "markcoroutinefunction"), reason="Python 3.12 and later")
def test_function_marked_as_coroutine_function_is_awaited(twice):
    async def inner():
        return 7

    @twice
    @inspect.markcoroutinefunction
    def f():
        return inner()

    assert inspect.iscoroutinefunction(f)
    assert passes_twice(awaited(f), 7)


def test_function_that_returns_a_coroutine_is_not_taken_for_async(twice):
    async def inner():
        return 7

    @twice
    def f():
        return inner()

    assert not inspect.iscoroutinefunction(f)
    assert passes_twice(lambda: asyncio.run(f()), 7)


def test_builtin_function_is_limited(twice):
    assert passes_twice(functools.partial(twice(len), "abc"), 3)


def test_class_called_is_limited(twice):
    make = twice(complex)
    assert passes_twice(lambda: make(1, 2), 1 + 2j)


def test_lru_cache_below_is_limited_and_keeps_its_attributes(twice):
    @twice
    @functools.lru_cache
    def f(n):
        return n

    assert passes_twice(lambda: f(4), 4)
    assert f.__wrapped__.cache_info().hits == 1


# ---- Generator functions --------------------------------------------------------------------------------------------


def test_generator_function_is_hit_when_called_not_at_the_first_item(twice):
    @twice
    def f(n):
        yield from range(n)

    first, second = f(3), f(2)
    with pytest.raises(goblin.RateLimitExceeded):
        f(1)
    assert [list(first), list(second)] == [[0, 1, 2], [0, 1]]


def test_async_generator_function_is_hit_when_called_not_at_the_first_item(twice):
    @twice
    async def f(n):
        for i in range(n):
            yield i

    async def main():
        first, second = f(3), f(2)
        with pytest.raises(goblin.RateLimitExceeded):
            f(1)
        return [i async for i in first], [i async for i in second]

    assert asyncio.run(main()) == ([0, 1, 2], [0, 1])


# ---- Partial objects and instances ----------------------------------------------------------------------------------


def test_partial_of_a_function_is_limited_and_named_after_it(twice):
    def f(a, b, c=3):
        return a, b, c

    limited = twice(functools.partial(f, 1, c=5))
    assert passes_twice(lambda: limited(2), (1, 2, 5))
    assert (limited.__name__, limited.__qualname__, limited.__module__) == (f.__name__, f.__qualname__, __name__)
    assert inspect.signature(limited) == inspect.signature(functools.partial(f, 1, c=5))


@pytest.mark.parametrize("layers", [1, 2])
def test_partial_of_a_coroutine_function_is_async(twice, layers):
    async def f(a, b, c):
        return a, b, c

    partial = functools.partial(f, 1, 2) if layers == 1 else functools.partial(functools.partial(f, 1), 2)
    limited = twice(partial)
    assert inspect.iscoroutinefunction(limited)
    assert passes_twice(awaited(limited, 3), (1, 2, 3))


class Sync:
    """An instance is called."""

    def __call__(self, n):
        return n


class Async:
    """An instance is called and awaited."""

    async def __call__(self, n):
        return n


class AsyncGenerating:
    """An instance is called and iterated."""

    async def __call__(self, n):
        yield n


def test_instance_with_call_is_limited(twice):
    limited = twice(Sync())
    assert passes_twice(lambda: limited(5), 5)
    assert not inspect.iscoroutinefunction(limited)
    assert limited.__qualname__ == "Sync.__call__"


@pytest.mark.parametrize("wrap", [lambda it: it, functools.partial], ids=["bare", "partial"])
def test_instance_with_async_call_is_awaited(twice, wrap):
    limited = twice(wrap(Async()))
    assert inspect.iscoroutinefunction(limited)
    assert passes_twice(awaited(limited, 5), 5)


def test_instance_with_async_generator_call_is_hit_when_called(twice):
    limited = twice(AsyncGenerating())
    limited(1), limited(2)
    with pytest.raises(goblin.RateLimitExceeded):
        limited(3)


def test_async_mock_is_awaited(twice):
    mock = unittest.mock.AsyncMock(return_value=8)
    assert passes_twice(awaited(twice(mock)), 8)
    assert mock.await_count == 2


# ---- Methods --------------------------------------------------------------------------------------------------------


def service(limited):
    """A class with each kind of method, the decorator above and below."""

    class Service:
        @limited
        def plain(self, n):
            return "plain", type(self), n

        @limited
        async def coroutine(self, n):
            return "coroutine", type(self), n

        @limited
        @staticmethod
        def static_above(n):
            return "static_above", n

        @staticmethod
        @limited
        def static_below(n):
            return "static_below", n

        @limited
        @staticmethod
        async def static_coroutine(n):
            return "static_coroutine", n

        @limited
        @classmethod
        def class_above(cls, n):
            return "class_above", cls, n

        @classmethod
        @limited
        def class_below(cls, n):
            return "class_below", cls, n

        @limited
        @classmethod
        async def class_coroutine(cls, n):
            return "class_coroutine", cls, n

        def _two(self, a, n):
            return a, type(self), n

        partial_above = limited(functools.partialmethod(_two, "partial_above"))
        partial_below = functools.partialmethod(limited(_two), "partial_below")

    return Service


@pytest.mark.parametrize("name", ["plain", "class_above", "class_below", "partial_above", "partial_below"])
def test_method_through_an_instance_gets_it(twice, name):
    cls = service(twice)
    method = getattr(cls(), name)
    assert passes_twice(lambda: method(3), (name, cls, 3))


@pytest.mark.parametrize("name", ["plain", "partial_above", "partial_below"])
def test_method_through_the_class_takes_the_instance(twice, name):
    cls = service(twice)
    assert passes_twice(lambda: getattr(cls, name)(cls(), 3), (name, cls, 3))


@pytest.mark.parametrize("name", ["class_above", "class_below"])
def test_class_method_through_a_subclass_gets_the_subclass(twice, name):
    class Child(service(twice)):
        pass

    assert passes_twice(lambda: getattr(Child, name)(3), (name, Child, 3))


@pytest.mark.parametrize("name", ["static_above", "static_below"])
@pytest.mark.parametrize("through", [lambda cls: cls, lambda cls: cls()], ids=["class", "instance"])
def test_static_method_gets_only_the_arguments(twice, name, through):
    method = getattr(through(service(twice)), name)
    assert passes_twice(lambda: method(3), (name, 3))
    assert method.peek(3).remaining == 0


def test_async_methods_of_each_kind_are_awaited(twice):
    cls = service(twice)
    for name, result in [
        ("coroutine", ("coroutine", cls, 3)),
        ("static_coroutine", ("static_coroutine", 3)),
        ("class_coroutine", ("class_coroutine", cls, 3)),
    ]:
        method = getattr(cls(), name)
        assert inspect.iscoroutinefunction(method)
        assert passes_twice(awaited(method, 3), result)


def test_partial_method_of_a_class_method_is_limited(twice):
    class Service:
        @classmethod
        def _make(cls, a, b):
            return cls, a, b

        make = twice(functools.partialmethod(_make, 1))

    assert passes_twice(lambda: Service.make(2), (Service, 1, 2))


def test_bound_method_is_limited(twice):
    class Service:
        def fetch(self):
            return 9

    assert passes_twice(twice(Service().fetch), 9)


def test_abstract_method_stays_abstract(twice):
    class Base(abc.ABC):
        @twice
        @abc.abstractmethod
        def f(self): ...

        @twice
        @staticmethod
        @abc.abstractmethod
        def g(): ...

    assert Base.__abstractmethods__ == {"f", "g"}


def test_method_of_an_instance_that_is_gone_holds_nothing(store):
    limited = functools.partial(goblin.rate_limit, "2/minute", store=store)

    class Service:
        def __init__(self):
            self.user = "ann"

        @limited(key="{self.user}")
        def by_template(self):
            return None

        @limited(key=lambda self: self.user, cost=lambda self: 1, exempt_when=lambda self: False, refund_on=OSError)
        def by_callables(self):
            return None

        @limited()
        async def coroutine(self):
            return None

    instance = Service()
    gone = weakref.ref(instance)
    instance.by_template(), instance.by_callables(), asyncio.run(instance.coroutine())
    Service.by_template.peek(instance), Service.by_callables.reset(instance)
    del instance
    gc.collect()
    assert gone() is None


def test_method_reset_and_peek_take_the_instance(store):
    class Service:
        user = "ann"

        @goblin.rate_limit("2/minute", key="{self.user}:{n}", store=store)
        def fetch(self, n):
            return n

    instance = Service()
    instance.fetch(1)
    assert [Service.fetch.peek(instance, n).remaining for n in (1, 2)] == [1, 2]
    assert instance.fetch.reset(instance, n=1) is True  # bound, it is the same function
    assert Service.fetch.reset(instance, 1) is False


# ---- What is kept ---------------------------------------------------------------------------------------------------


@goblin.rate_limit("1000000/hour", key="{a}")
def documented(a: int, /, b: "str" = "x", *args: object, c: int = 1, **kwargs: object) -> bytes:
    """Its docstring."""
    return b""


@goblin.quota(1_000_000, key=None)
async def documented_async(a: int) -> bytes:
    """Its docstring."""
    return b""


@pytest.mark.parametrize("limited", [documented, documented_async], ids=["sync", "async"])
def test_wrapper_signature_name_and_docstring_are_the_functions(limited):
    function = limited.__wrapped__
    assert inspect.signature(limited) == inspect.signature(function)
    assert inspect.iscoroutinefunction(limited) == inspect.iscoroutinefunction(function)
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        assert getattr(limited, attribute) == getattr(function, attribute)
    assert limited.__doc__ == "Its docstring."
    assert inspect.isfunction(limited)


def test_wrapper_attributes_of_the_function_are_kept(twice):
    def f():
        pass

    f.tag, f.limiter = "x", "mine"
    limited = twice(f)
    assert limited.tag == "x"
    assert isinstance(limited.limiter, goblin.RateLimiter) and f.limiter == "mine"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("limited", [documented, documented_async], ids=["sync", "async"])
def test_wrapper_pickles_by_name(limited, protocol):
    assert pickle.loads(pickle.dumps(limited, protocol)) is limited


def test_wrapper_stacked_has_the_outer_limiter_and_leads_to_the_inner(store):
    @goblin.rate_limit("2/minute", store=store)
    @goblin.rate_limit(lambda: "5/minute", store=store)
    @goblin.rate_limit("9/minute", store=store)
    def f():
        pass

    middle, inner = f.__wrapped__, f.__wrapped__.__wrapped__
    assert [str(limit) for limit in f.limiter.limits + inner.limiter.limits] == ["2/minute", "9/minute"]
    assert not hasattr(middle, "limiter")
    f()
    assert [g.peek().remaining for g in (f, middle, inner)] == [1, 4, 8]


# ---- Used without a call --------------------------------------------------------------------------------------------

USAGE = r'rate_limit is used as a call above a function, @goblin\.rate_limit\("5/minute"\); it was given '


def test_bare_use_on_a_function_raises_at_decoration():
    with pytest.raises(TypeError, match=USAGE + "function"):

        @goblin.rate_limit
        def f():
            pass


def test_bare_use_on_a_coroutine_function_below_others_raises_at_decoration():
    with pytest.raises(TypeError, match=USAGE + "function"):

        @functools.lru_cache
        @goblin.rate_limit
        async def f():
            pass


def test_bare_use_on_a_method_raises_at_decoration():
    with pytest.raises(TypeError, match=USAGE + "function"):

        class Service:
            @goblin.rate_limit
            def f(self):
                pass


@pytest.mark.parametrize("method", [staticmethod, classmethod])
def test_bare_use_on_a_descriptor_raises_at_decoration(method):
    with pytest.raises(TypeError, match=USAGE + method.__name__):

        class Service:
            @goblin.rate_limit
            @method
            def f(self):
                pass


def test_bare_use_on_a_class_raises_at_decoration():
    with pytest.raises(TypeError, match=USAGE + "type"):

        @goblin.rate_limit
        class Service:
            pass


def test_bare_use_unseen_raises_at_the_first_call():
    def helper(function):
        return goblin.rate_limit(function)

    @helper
    def f(*args, **kwargs):
        raise AssertionError("not called")

    for args, kwargs in [((), {}), ((1,), {}), ((1, 2), {}), ((print,), {"end": ""})]:
        with pytest.raises(TypeError, match=USAGE):
            f(*args, **kwargs)


def test_bare_quota_raises_at_decoration():
    with pytest.raises(TypeError, match="key"):

        @goblin.quota
        def f():
            pass


@pytest.mark.parametrize(
    "thing", [None, 5, "f", property(lambda self: 1), functools.singledispatchmethod(lambda self: 1)]
)
def test_decorating_what_is_not_callable_raises(twice, thing):
    with pytest.raises(TypeError, match=USAGE + type(thing).__name__):
        twice(thing)
    with pytest.raises(TypeError, match=r"quota is used as a call above a function, @goblin\.quota\("):
        goblin.quota(5, key=None)(thing)
