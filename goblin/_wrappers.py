"""The functions that a decorator puts around one: each asks the gate, then calls or refuses."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goblin.limiter import Decision, Limit, RateLimiter

if TYPE_CHECKING:
    from goblin.decorators import Gate

__all__ = ["awaited", "settled", "wrapper_of"]

_Function = Callable[..., Any]

# What callables mostly return: seen at once not to be awaitable.
_PLAIN = frozenset({bool, int, str, bytes, tuple, type(None), Limit})


def settled(argument: str, answer: Any) -> Any:
    """The answer, unless it is something to be awaited: true whatever it holds, and as a key new every time."""
    if type(answer) not in _PLAIN and inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # or Python warns that it was never awaited
        raise TypeError(f"{argument} is async, and cannot be awaited here: {type(answer).__name__}")
    return answer


async def awaited(answer: Any) -> Any:
    return await answer if type(answer) not in _PLAIN and inspect.isawaitable(answer) else answer


# ---- The wrappers ---------------------------------------------------------------------------------------------------


def wrapper_of(gate: Gate, function: _Function) -> _Function:
    if gate.is_async:
        return _async_wrapper(gate, function)
    if gate.waits or gate.refund_on or gate.asks_beside_the_key:
        return _sync_wrapper(gate, function)
    if gate.template is not None or gate.key_of is not None:
        return _keyed_wrapper(gate, function)
    return _plain_wrapper(gate, function)


def _plain_wrapper(gate: Gate, function: _Function) -> _Function:
    """`_sync_wrapper` for the common case, where every call asks the same and is simply refused or not."""
    refusal, key, cost = gate.limiter._refusal, gate.key, gate.cost

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        decision = refusal(key, cost)
        if decision is not None:
            return gate.refused(decision)
        # `*args, **kwargs` makes a tuple and a dict anew, a third of what this wrapper costs: not for nothing.
        if kwargs:
            return function(*args, **kwargs)
        return function(*args) if args else function()

    return wrapper


def _keyed_wrapper(gate: Gate, function: _Function) -> _Function:
    """The same where calls differ by their key alone. As no Decision of an admitted call is needed, none is made."""
    refusal, cost, template, key_of = gate.limiter._refusal, gate.cost, gate.template, gate.key_of

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        key = template.key(args, kwargs) if template is not None else settled("key", key_of(*args, **kwargs))
        decision = refusal(key, cost)
        if decision is not None:
            return gate.refused(decision)
        return function(*args, **kwargs)

    return wrapper


def _sync_wrapper(gate: Gate, function: _Function) -> _Function:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        hit = gate.hit(args, kwargs)
        if hit is None:
            return function(*args, **kwargs)
        limiter, key, cost = hit
        decision = limiter.acquire(key, cost, timeout=gate.timeout) if gate.waits else limiter.hit(key, cost)
        if not decision:
            return gate.refused(decision)
        try:
            return function(*args, **kwargs)
        except gate.refund_on:
            _refund(limiter, decision)
            raise

    return wrapper


def _async_wrapper(gate: Gate, function: _Function) -> _Function:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        hit = await gate.hit_async(args, kwargs) if gate.asks else gate.hit(args, kwargs)
        if hit is None:
            return await function(*args, **kwargs)
        limiter, key, cost = hit
        if gate.waits:
            acquire = limiter.acquire if gate.awaits_store else limiter.acquire_async
            decision = await acquire(key, cost, timeout=gate.timeout)
        else:
            decision = limiter.hit(key, cost)
            if gate.awaits_store:
                decision = await decision
        if not decision:
            return await awaited(gate.refused(decision))
        try:
            return await function(*args, **kwargs)
        except gate.refund_on:
            with contextlib.suppress(Exception):  # as in _refund
                await awaited(limiter.refund(decision))
            raise

    return wrapper


def _refund(limiter: RateLimiter, decision: Decision) -> None:
    """Give back once; what goes wrong here must not stand in the place of the function's own exception."""
    with contextlib.suppress(Exception):  # the call stays counted
        limiter.refund(decision)
