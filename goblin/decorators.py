"""The decorators: :func:`rate_limit` for calls per time, :func:`quota` for amounts per period.

From top to bottom: the two decorators, the checks of their arguments, what a decorated function asks at each call (its
*gate*), the wrappers. Sync and async wrappers share the gate; only the await differs. How much is left and when it comes
back is :class:`goblin.RateLimiter`'s affair alone.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import sys
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from types import FrameType, FunctionType
from typing import Any, Literal, TypeVar, overload

from goblin import errors
from goblin._core import Counters
from goblin._decorated import BoundLimited, Decorates, DecoratesWithFallback, Limited
from goblin._functions import budget_name, is_a, module_of, name_of, source_of
from goblin._template import Template
from goblin._wrappers import awaited, settled, wrapper_of
from goblin.async_limiter import AsyncRateLimiter
from goblin.errors import RateLimitExceeded
from goblin.limiter import Decision, Key, Limit, Period, RateLimiter
from goblin.store import AsyncStore, Store, is_async_store

__all__ = ["BoundLimited", "Limited", "quota", "rate_limit"]

_S = TypeVar("_S")
_Function = Callable[..., Any]
_Limits = str | Limit | Iterable[str | Limit]
_Exceptions = type[BaseException] | tuple[type[BaseException], ...]

# ---- The decorators -------------------------------------------------------------------------------------------------


@overload
def rate_limit(
    limits: _Limits | RateLimiter | AsyncRateLimiter | Callable[..., _Limits | Awaitable[_Limits]],
    *,
    key: str | Callable[..., Key | Awaitable[Key]] | None = None,
    cost: int | Callable[..., int | Awaitable[int]] = 1,
    algorithm: str = "fixed-window",
    store: Store | AsyncStore | None = None,
    name: str | None = None,
    on_limit: Literal["raise", "wait"] = "raise",
    timeout: Period | None = None,
    on_error: str | Counters = "raise",
    exempt_when: Callable[..., object] | None = None,
    refund_on: _Exceptions = (),
) -> Decorates: ...
@overload
def rate_limit(
    limits: _Limits | RateLimiter | AsyncRateLimiter | Callable[..., _Limits | Awaitable[_Limits]],
    *,
    key: str | Callable[..., Key | Awaitable[Key]] | None = None,
    cost: int | Callable[..., int | Awaitable[int]] = 1,
    algorithm: str = "fixed-window",
    store: Store | AsyncStore | None = None,
    name: str | None = None,
    on_limit: Callable[[Decision], _S],
    on_error: str | Counters = "raise",
    exempt_when: Callable[..., object] | None = None,
    refund_on: _Exceptions = (),
) -> DecoratesWithFallback[_S]: ...
def rate_limit(
    limits: Any,
    *,
    key: Any = None,
    cost: Any = 1,
    algorithm: str = "fixed-window",
    store: Store | AsyncStore | None = None,
    name: str | None = None,
    on_limit: Any = "raise",
    timeout: Period | None = None,
    on_error: str | Counters = "raise",
    exempt_when: Callable[..., object] | None = None,
    refund_on: _Exceptions = (),
) -> Any:
    """Let a function be called only so often: a decorator for ``def``, ``async def`` and any other callable.

    A call is one hit, made before the function runs: for ``async def`` when it is awaited, for generator functions,
    sync and async, when they are called, not at the first item. A call that raises counts too.

    Args:
        limits: a string such as ``"5/minute"`` or ``"10/second; 1000/hour"``, a :class:`Limit`, or several; all of them
            must admit the call. Or a callable of the call's arguments that returns them: limits per user, or changed
            live. Or a :class:`RateLimiter` or :class:`AsyncRateLimiter`, whose budget is shared by all that use it;
            `algorithm`, `store`, `name` and `on_error` are its own then.
        key: whose budget a call spends. None: one for the whole function. A template of the function's parameters, such
            as ``"{user}"`` or ``"{request.ip}"``; defaults are filled in, and two templates never share. Or a callable
            of the call's arguments that returns a ``str``, ``bytes``, ``int`` or a tuple of those.
        cost: how many hits a call counts as, from 0; or a callable of the call's arguments.
        algorithm: ``"fixed-window"``, ``"sliding-window"`` or ``"gcra"``.
        store: where the counts are; None for :func:`default_store`, looked up at every call. An ``async def`` may have
            an async one, and awaits it; ``limiter`` is an :class:`AsyncRateLimiter` then, and what ``reset`` and
            ``peek`` return is to be awaited (which type checkers do not see: for them, share an AsyncRateLimiter of
            your own, and ask that).
        name: functions decorated with one name share a budget, if the limits are equal too. None: the function's own,
            made of its module, qualified name and first line, so that every process calls it the same, and closures,
            partial objects and instances of one piece of code share. Decorators stacked on one function differ.
        on_limit: ``"raise"``: a refused call raises :class:`RateLimitExceeded`. ``"wait"``: it sleeps until it may
            pass. Or a callable of the :class:`Decision`: its result is the call's.
        timeout: seconds, with ``"wait"`` only: a call that would wait longer raises at once. None: as long as it takes.
        on_error: what becomes of a call when the store cannot be asked or has no room: see :class:`RateLimiter`.
        exempt_when: a callable of the call's arguments; if the result is true, the call is not counted at all.
        refund_on: exceptions which, raised by the function, give back what the call has spent.

    The callables are called with exactly the call's arguments, a method's with ``self``; where they raise, the error
    reaches the caller and nothing is spent. For ``async def`` they may be async, and so may `on_limit`.

    Returns:
        A decorator. The decorated function keeps its signature, name and docstring, pickles by name, and has
        ``limiter`` (not if the limits are a callable), ``reset(*args, **kwargs)`` and ``peek(*args, **kwargs)`` with
        the arguments of a call: see :class:`~goblin.decorators.Limited`. Above ``@staticmethod`` and ``@classmethod`` it works as below.

    Raises:
        ValueError: malformed limits, a template that the signature cannot fill, a value out of range. All this, and
            TypeError, at decoration.
        TypeError: an argument of the wrong kind; an async callable or store for a function that cannot await it;
            ``"wait"`` or `refund_on` for a kind of generator function that cannot have it; used without a call, as a
            bare ``@rate_limit``.

    Cost: one :meth:`RateLimiter.hit` and a plain Python wrapper around the call. Safe from any number of threads and
    event loops: nothing is kept between calls but what is in the store.

    Source: none in Redis; the counting is ``fixed_window``, ``sliding_window`` or ``gcra`` of :class:`Counters`.

    >>> @goblin.rate_limit("2/minute", key="{user}", store=counters)
    ... def greet(user, greeting="Hello"):
    ...     return f"{greeting}, {user}"
    >>> greet("ann"), greet(user="ann", greeting="Hi")
    ('Hello, ann', 'Hi, ann')
    >>> greet("ann")
    Traceback (most recent call last):
        ...
    goblin.errors.RateLimitExceeded: rate limit exceeded: 2/minute for key ('{user}', 'ann'); retry after 60 s
    >>> greet("bob")
    'Hello, bob'
    >>> greet.peek("ann").retry_after  # seconds
    60.0
    >>> greet.reset("ann"), greet("ann")
    (True, 'Hello, ann')
    """
    if isinstance(limits, FunctionType) and _is_being_decorated(limits, sys._getframe(1)):
        raise _not_a_function("rate_limit", limits)
    return _Decorator(
        "rate_limit", limits, key, cost, algorithm, store, name, on_limit, timeout, on_error, exempt_when, refund_on
    )


@overload
def quota(
    amount: int,
    *,
    key: str | Callable[..., Key | Awaitable[Key]] | None,
    cost: int | Callable[..., int | Awaitable[int]] = 1,
    period: Period | None = None,
    store: Store | AsyncStore | None = None,
    name: str | None = None,
    on_limit: Literal["raise", "wait"] = "raise",
    timeout: Period | None = None,
    on_error: str | Counters = "raise",
    exempt_when: Callable[..., object] | None = None,
    refund_on: _Exceptions = (),
) -> Decorates: ...
@overload
def quota(
    amount: int,
    *,
    key: str | Callable[..., Key | Awaitable[Key]] | None,
    cost: int | Callable[..., int | Awaitable[int]] = 1,
    period: Period | None = None,
    store: Store | AsyncStore | None = None,
    name: str | None = None,
    on_limit: Callable[[Decision], _S],
    on_error: str | Counters = "raise",
    exempt_when: Callable[..., object] | None = None,
    refund_on: _Exceptions = (),
) -> DecoratesWithFallback[_S]: ...
def quota(
    amount: int,
    *,
    key: Any,
    cost: Any = 1,
    period: Period | None = None,
    store: Store | AsyncStore | None = None,
    name: str | None = None,
    on_limit: Any = "raise",
    timeout: Period | None = None,
    on_error: str | Counters = "raise",
    exempt_when: Callable[..., object] | None = None,
    refund_on: _Exceptions = (),
) -> Any:
    """Let calls spend only so much per key: bytes, tokens, money. The fixed window with a cost.

    Args:
        amount: how much there is for each key, from 0.
        key: whose it is; required, for a quota for everybody at once is a slip more often than not. As in
            :func:`rate_limit`: a template, a callable, or None for one quota for all.
        cost: how much a call takes: an int, or a callable of the call's arguments.
        period: seconds or a ``timedelta``; it begins with a key's first call. None: the count never ends, a refused
            call cannot be waited for, and only ``reset`` and refunds make room.

    The rest, the result and what is raised: as :func:`rate_limit`.

    >>> @goblin.quota(1_000, key="{user}", cost=lambda user, size: size, store=counters)
    ... def upload(user, size):
    ...     return "stored"
    >>> upload("ann", 700)
    'stored'
    >>> upload("ann", 700)
    Traceback (most recent call last):
        ...
    goblin.errors.RateLimitExceeded: rate limit exceeded: 1000/never for key ('{user}', 'ann'); it can never pass
    >>> upload.peek("ann", 300).remaining, upload("ann", 300)
    (300, 'stored')
    """
    limits = Limit(amount, period)
    return _Decorator(
        "quota", limits, key, cost, "fixed-window", store, name, on_limit, timeout, on_error, exempt_when, refund_on
    )


# ---- Arguments ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(eq=False)
class _Decorator:
    """The arguments of `rate_limit` or `quota`, checked; called with a function, it makes the decorated one."""

    verb: str
    limits: Any  # once checked: a limiter, a callable, or a tuple of Limit
    key: str | _Function | None
    cost: int | _Function
    algorithm: str
    store: Any
    name: str | None
    on_limit: str | _Function
    timeout: Period | None
    on_error: str | Counters
    exempt_when: _Function | None
    refund_on: Any  # once checked: a tuple of exception classes

    def __post_init__(self) -> None:
        if isinstance(self.limits, (type, staticmethod, classmethod, functools.partialmethod)):
            raise _not_a_function(self.verb, self.limits)
        if not (self.key is None or isinstance(self.key, str) or callable(self.key)):
            raise TypeError(f"key must be None, a template or a callable, not {_kind(self.key)}")
        if not (self.exempt_when is None or callable(self.exempt_when)):
            raise TypeError(f"exempt_when must be None or a callable, not {_kind(self.exempt_when)}")
        _check_on_limit(self.on_limit)
        _check_timeout(self.timeout, self.on_limit)
        if not callable(self.cost):
            self.cost = _checked_cost(self.cost)
        self.refund_on = _checked_exceptions(self.refund_on)
        self.awaits_store = self.store is not None and is_async_store(self.store)
        if isinstance(self.limits, (RateLimiter, AsyncRateLimiter)):
            _check_not_given_twice(self.limits, self.algorithm, self.store, self.name, self.on_error)
            self.awaits_store = isinstance(self.limits, AsyncRateLimiter)
        elif callable(self.limits):
            self.new_limiter("1/second", self.name or "")  # refuses a bad algorithm, store or name
        else:
            self.limits = self.new_limiter(self.limits, self.name or "").limits  # and here, bad limits

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs:
            raise _not_a_function(self.verb, *args, *kwargs.values())
        (function,) = args
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self(function.__func__))
        if isinstance(function, functools.partialmethod):
            return functools.partialmethod(self(function.func), *function.args, **function.keywords)
        if not callable(function):
            raise _not_a_function(self.verb, function)
        gate = Gate(self, function)
        return _dressed(wrapper_of(gate, function), function, gate)

    def new_limiter(self, limits: _Limits, name: str) -> RateLimiter | AsyncRateLimiter:
        kind: Any = AsyncRateLimiter if self.awaits_store else RateLimiter
        limiter: RateLimiter | AsyncRateLimiter = kind(
            limits, algorithm=self.algorithm, store=self.store, name=name, on_error=self.on_error
        )
        return limiter


def _is_being_decorated(function: FunctionType, caller: FrameType) -> bool:
    """Whether the caller stands among the function's own lines, where its decorators are, and has no name for it yet.

    So a bare ``@rate_limit`` is told from ``@rate_limit(limits_of_user)``, whose function was defined before.
    """
    code = function.__code__
    last_line = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    return (
        function.__name__ != "<lambda>"
        and code.co_filename == caller.f_code.co_filename
        and code.co_firstlineno <= caller.f_lineno <= last_line
        and not any(held is function for held in (*caller.f_locals.values(), *caller.f_globals.values()))
    )


def _not_a_function(verb: str, *given: object) -> TypeError:
    usage = '@goblin.quota(1000, key="{user}")' if verb == "quota" else '@goblin.rate_limit("5/minute")'
    what = " and ".join(map(_kind, given)) or "nothing"
    return TypeError(f"{verb} is used as a call above a function, {usage}; it was given {what}")


def _kind(value: object) -> str:
    return errors._type_name(type(value))


def _checked_cost(cost: Any) -> int:
    if isinstance(cost, bool) or not hasattr(type(cost), "__index__"):
        raise errors.not_an_integer("cost", cost)
    number = operator.index(cost)
    if number < 0:
        raise errors.below("cost", cost, 0)
    if number > errors.INT64_MAX:
        raise errors.outside_int64("cost", cost)
    return number


def _check_on_limit(on_limit: object) -> None:
    allowed = '"raise", "wait" or a callable'
    if not (callable(on_limit) or isinstance(on_limit, str)):
        raise TypeError(f"on_limit must be {allowed}, not {_kind(on_limit)}")
    if isinstance(on_limit, str) and on_limit not in ("raise", "wait"):
        raise ValueError(f"on_limit={errors._shown(on_limit)} (allowed: {allowed})")


def _check_timeout(timeout: Any, on_limit: object) -> None:
    if timeout is None:
        return
    if on_limit != "wait":
        raise ValueError('timeout goes with on_limit="wait" only')
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not (isinstance(seconds, float) or hasattr(type(seconds), "__index__")):
        raise errors.not_a_number("timeout", timeout)
    if not seconds >= 0:  # NaN too
        raise errors.below("timeout", timeout, 0)


def _checked_exceptions(refund_on: Any) -> tuple[type[BaseException], ...]:
    kinds = refund_on if isinstance(refund_on, tuple) else (refund_on,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"refund_on must be exception classes, not {_kind(kind)}")
    return kinds


def _check_not_given_twice(
    limiter: RateLimiter | AsyncRateLimiter, algorithm: str, store: object, name: str | None, on_error: object
) -> None:
    other_algorithm = algorithm not in ("fixed-window", limiter.algorithm)
    given = {"algorithm": other_algorithm, "store": store is not None, "name": name is not None}
    for argument, is_given in {**given, "on_error": on_error != "raise"}.items():
        if is_given:
            raise ValueError(f"{argument} is the {_kind(limiter)}'s own and cannot be given beside it")


# ---- The gate -------------------------------------------------------------------------------------------------------

# Different answers of a limits callable whose limiters are kept. One that is dropped is made again, and loses nothing:
# the counts are in the store.
_KEPT_LIMITERS = 256
# The limiter to ask, the key and the cost. A plain tuple: a named one costs as much as the hit.
_Hit = tuple[Any, Key, int]


class Gate:
    """What one decorated function asks at each call. It holds no call's arguments."""

    def __init__(self, settings: _Decorator, function: _Function) -> None:
        source, self.layer = source_of(function)
        name = budget_name(source, self.layer) if settings.name is None else settings.name
        self.is_async = is_a(inspect.iscoroutinefunction, function)
        self.awaits_store = settings.awaits_store
        self.waits = settings.on_limit == "wait"
        self.on_limit = settings.on_limit if callable(settings.on_limit) else None
        self.timeout = settings.timeout
        self.refund_on = settings.refund_on
        self.exempt_when: Any = settings.exempt_when
        # What is the same at every call, or None; and what is asked for it instead.
        self.limits_of: Any = None
        self.limiter: Any = None
        self.limiter_made_for = functools.lru_cache(_KEPT_LIMITERS)(functools.partial(settings.new_limiter, name=name))
        if isinstance(settings.limits, (RateLimiter, AsyncRateLimiter)):
            self.limiter = settings.limits
        elif callable(settings.limits):
            self.limits_of = settings.limits
        else:
            self.limiter = self.limiter_made_for(settings.limits)
        self.template: Template | None = None
        if isinstance(settings.key, str):
            self.template = Template(settings.key, function, name_of(source))
        self.key_of: Any = settings.key if callable(settings.key) else None
        self.key: Any = "" if settings.key is None else None
        self.cost_of: Any = settings.cost if callable(settings.cost) else None
        self.cost: Any = None if callable(settings.cost) else settings.cost
        self._check_kind_of(function, name_of(source))

    def _check_kind_of(self, function: _Function, function_name: str) -> None:
        """Refuse what a function of this kind could not do, here rather than at its first call."""
        for argument, asked in {**self._asked(), "on_limit": self.on_limit}.items():
            if not self.is_async and is_a(inspect.iscoroutinefunction, asked):
                raise TypeError(f"{argument} is async, but {function_name} is not, and cannot await it")
        if self.awaits_store and not self.is_async:
            raise TypeError(f"the store is async, but {function_name} is no async def, and cannot await it")
        is_async_generator = is_a(inspect.isasyncgenfunction, function)
        if is_async_generator and self.waits:
            raise TypeError(f'on_limit="wait": {function_name} is an async generator function, its call cannot await')
        if self.refund_on and (is_async_generator or is_a(inspect.isgeneratorfunction, function)):
            raise TypeError(f"refund_on: {function_name} is a generator function, it raises after its call")

    def _asked(self) -> dict[str, Any]:
        asked = {"limits": self.limits_of, "key": self.key_of, "cost": self.cost_of, "exempt_when": self.exempt_when}
        return {argument: one for argument, one in asked.items() if one is not None}

    @property
    def asks(self) -> bool:
        """Whether there is a callable among the arguments."""
        return bool(self._asked())

    @property
    def asks_beside_the_key(self) -> bool:
        return bool(self._asked().keys() - {"key"})

    def limiter_and_key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Key]:
        limiter = self.limiter
        if limiter is None:
            limiter = self.limiter_for(settled("limits", self.limits_of(*args, **kwargs)))
        key = self.key
        if self.template is not None:
            key = self.template.key(args, kwargs)
        elif self.key_of is not None:
            key = settled("key", self.key_of(*args, **kwargs))
        return limiter, key

    def hit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Hit | None:
        """What this call is to spend, and where; None if it is exempt."""
        if self.exempt_when is not None and settled("exempt_when", self.exempt_when(*args, **kwargs)):
            return None
        limiter, key = self.limiter_and_key(args, kwargs)
        cost = self.cost if self.cost_of is None else settled("cost", self.cost_of(*args, **kwargs))
        return limiter, key, cost

    async def hit_async(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Hit | None:
        """`hit`, for callables that may be async."""
        if self.exempt_when is not None and await awaited(self.exempt_when(*args, **kwargs)):
            return None
        limiter, key, cost = self.limiter, self.key, self.cost
        if limiter is None:
            limiter = self.limiter_for(await awaited(self.limits_of(*args, **kwargs)))
        if self.template is not None:
            key = self.template.key(args, kwargs)
        elif self.key_of is not None:
            key = await awaited(self.key_of(*args, **kwargs))
        if self.cost_of is not None:
            cost = await awaited(self.cost_of(*args, **kwargs))
        return limiter, key, cost

    def limiter_for(self, limits: _Limits) -> Any:
        """For an answer of the limits callable."""
        if isinstance(limits, (str, Limit)):
            return self.limiter_made_for(limits)
        if not isinstance(limits, Iterable):
            what = type(limits).__name__
            raise TypeError(f"limits: the callable must return a str, a Limit or several, not {what}")
        return self.limiter_made_for(tuple(limits))

    def refused(self, decision: Decision) -> Any:
        """The result of a refused call."""
        if self.on_limit is not None:
            return self.on_limit(decision)
        raise RateLimitExceeded(decision) from None

    def peek(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        limiter, key = self.limiter_and_key(args, kwargs)
        return limiter.peek(key, self.cost if self.cost_of is None else settled("cost", self.cost_of(*args, **kwargs)))


# ---- What comes out -------------------------------------------------------------------------------------------------


def _dressed(wrapper: _Function, function: _Function, gate: Gate) -> _Function:
    """The wrapper with the function's name, docstring and attributes, and `limiter`, `reset` and `peek`."""

    def reset(*args: Any, **kwargs: Any) -> Any:
        """Forget what the key of the call with these arguments has used. True if there was anything."""
        limiter, key = gate.limiter_and_key(args, kwargs)
        return limiter.reset(key)

    def peek(*args: Any, **kwargs: Any) -> Any:
        """What the call with these arguments would get now; nothing is spent."""
        return gate.peek(args, kwargs)

    functools.update_wrapper(wrapper, function)
    if not hasattr(function, "__name__"):  # partial objects, instances: named after the code below them
        source, _ = source_of(function)
        wrapper.__module__, wrapper.__qualname__ = module_of(source), name_of(source)
        wrapper.__name__ = wrapper.__qualname__.rpartition(".")[2]
    added = vars(wrapper)
    added.update(limiter=gate.limiter, reset=reset, peek=peek, _goblin_layer=gate.layer)
    if gate.limiter is None:
        del added["limiter"]
    return wrapper
