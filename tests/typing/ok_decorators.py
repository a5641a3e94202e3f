"""rate_limit and quota erase nothing of what they decorate: parameters, result, coroutine, method."""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

from typing_extensions import assert_type

import goblin
from goblin.decorators import Limited


@goblin.rate_limit("5/minute")
def plain(a: int, *, b: str = "") -> bytes:
    return b.encode() * a


assert_type(plain(1), bytes)
assert_type(plain(1, b="x"), bytes)
assert_type(plain(a=1, b="x"), bytes)
assert_type(plain.reset(1, b="x"), bool)
assert_type(plain.peek(1), goblin.Decision)
assert_type(plain.limiter, goblin.RateLimiter)
assert_type(plain.__wrapped__(1), bytes)
assert_type(plain.__name__, str)
as_callable: Callable[[int], bytes] = plain


@goblin.rate_limit("5/minute", key="user:{user}", algorithm="gcra", on_limit="wait", timeout=2.5)
async def coroutine(user: str, n: int = 1) -> bytes:
    return user.encode() * n


pending: Coroutine[Any, Any, bytes] = coroutine("ann")
assert_type(coroutine.peek("ann", n=2), goblin.Decision)


async def awaiting() -> None:
    assert_type(await coroutine("ann", 2), bytes)


# As a call, with a limiter that others share, and with a limit for each user.
def doubled(number: float) -> float:
    return 2 * number


def user_of(user: str, n: int) -> str:
    return user


def size_of(user: str, n: int) -> int:
    return n


def limits_of(number: float) -> str:
    return "5/minute" if number < 0 else "10/minute"


assert_type(goblin.rate_limit(goblin.RateLimiter("10/second"), key="{number}")(doubled)(1.5), float)
assert_type(goblin.rate_limit([goblin.Limit(10, 60), "100/hour"])(doubled)(1.5), float)
assert_type(goblin.rate_limit(limits_of, refund_on=(KeyError, OSError))(doubled)(number=1.5), float)


def sorry(decision: goblin.Decision) -> None:
    """What to give where the call is refused."""


async def sorry_later(decision: goblin.Decision) -> float:
    return decision.retry_after


# A fallback's result joins the function's own; for a coroutine function, what is awaited.
assert_type(goblin.rate_limit("5/minute", on_limit=sorry)(doubled)(1.5), float | None)
with_sorry = goblin.rate_limit("5/minute", on_limit=sorry)(coroutine.__wrapped__)
with_sorry_later = goblin.quota(5, key=None, on_limit=sorry_later)(coroutine.__wrapped__)


async def awaiting_fallbacks() -> None:
    assert_type(await with_sorry("ann", n=2), bytes | None)
    assert_type(await with_sorry_later("ann"), bytes | float)


# Callables of a call's arguments, also async; generator functions; partial objects.
async def user_later(user: str) -> str:
    return user


async def limits_later(user: str) -> tuple[goblin.Limit, ...]:
    return (goblin.Limit(5, 60),)


async def exempt_later(user: str) -> bool:
    return user == "root"


@goblin.rate_limit(limits_later, key=user_later, cost=2, exempt_when=exempt_later, name="x", store=goblin.Counters())
async def asking(user: str) -> int:
    return len(user)


@goblin.rate_limit(("5/minute", goblin.Limit(9, 3600)), algorithm="sliding-window")
def generating(n: int) -> Iterator[int]:
    yield n


@goblin.rate_limit("5/minute")
async def generating_async(n: int) -> AsyncIterator[int]:
    yield n


for number in generating(3):
    assert_type(number, int)
assert_type(generating_async(3), AsyncIterator[int])
assert_type(goblin.rate_limit("5/minute")(functools.partial(doubled, 1.5))(), float)


class Service:
    """Methods of all kinds."""

    name: str = ""

    @goblin.rate_limit("5/minute", key="{self.name}")
    def method(self, user: str) -> int:
        return len(user)

    @goblin.rate_limit("5/minute", key="{self.name}")
    async def coroutine_method(self, user: str) -> int:
        return len(user)

    @goblin.rate_limit("5/minute")
    @staticmethod
    def static_above(user: str) -> int:
        return len(user)

    @staticmethod
    @goblin.rate_limit("5/minute")
    def static_below(user: str) -> int:
        return len(user)

    @goblin.rate_limit("5/minute")
    @staticmethod
    def static_empty() -> int:
        return 1

    @goblin.rate_limit("5/minute")
    @classmethod
    def class_above(cls, user: str) -> int:
        return len(user)

    @classmethod
    @goblin.rate_limit("5/minute")
    def class_below(cls, user: str) -> int:
        return len(user)

    partial = goblin.rate_limit("5/minute")(functools.partialmethod(len))


class Child(Service):
    """Inherits them."""


service = Service()
assert_type(service.method("ann"), int)
assert_type(Child().method(user="ann"), int)
assert_type(Service.method(service, "ann"), int)
assert_type(Service.method.reset(service, "ann"), bool)
assert_type(service.method.peek(service, "ann"), goblin.Decision)  # bound, it is the same function
assert_type(service.method.limiter, goblin.RateLimiter)
assert_type(Service.static_above("ann"), int)
assert_type(service.static_above("ann"), int)
assert_type(Service.static_below("ann"), int)
assert_type(service.static_below("ann"), int)
assert_type(Service.static_empty(), int)
assert_type(service.static_empty(), int)
assert_type(Service.class_above("ann"), int)
assert_type(service.class_above("ann"), int)
assert_type(Child.class_below("ann"), int)
assert_type(service.class_below("ann"), int)
assert_type(Child.class_below.peek(Child, "ann"), goblin.Decision)
pending_method: Coroutine[Any, Any, int] = service.coroutine_method("ann")
as_bound_callable: Callable[[str], int] = service.method


# For those who pass decorated functions around.
def left(limited: Limited[[int], bytes]) -> int:
    return limited.peek(1).remaining


def forget_all(limited: Limited[..., object]) -> bool:
    return limited.reset()


assert_type(forget_all(plain), bool)


@goblin.quota(10_000, key=user_of, cost=size_of, period=timedelta(days=30))
def spend(user: str, n: int) -> str:
    return user * n


assert_type(spend("ann", 5), str)
assert_type(goblin.quota(5, key=None, period=None)(doubled)(1.5), float)
