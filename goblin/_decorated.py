"""What type checkers see of decorators and of the functions they make. Nothing here runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from goblin.limiter import Decision, RateLimiter

__all__ = ["BoundLimited", "Decorates", "DecoratesWithFallback", "Limited"]

MYPY = False  # mypy alone takes it for True

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R")
_S = TypeVar("_S")
_T = TypeVar("_T")
_R_co = TypeVar("_R_co", covariant=True)
_S_co = TypeVar("_S_co", covariant=True)


class Limited(Protocol[_P, _R_co]):
    """A decorated function, for annotations: called as the one below it, with three names more.

    At run time it is a plain function, so a method is called and bound as ever. ``reset`` and ``peek`` take what a
    call takes, for a method ``self`` too: ``Service.fetch.reset(service, "ann")``.
    """

    __name__: str
    __qualname__: str

    @property
    def __wrapped__(self) -> Callable[_P, _R_co]:
        """The function as it was before."""
        ...

    @property
    def limiter(self) -> RateLimiter:
        """The limiter that is asked. Absent where the limits are a callable: there is one for each of its answers."""
        ...

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...

    def reset(self, *args: _P.args, **kwargs: _P.kwargs) -> bool:
        """Forget what this call's key has used: the next one finds a full quota. True if there was anything."""
        ...

    def peek(self, *args: _P.args, **kwargs: _P.kwargs) -> Decision:
        """What this call would get now; nothing is spent, and `exempt_when` is not asked."""
        ...

    if MYPY:  # chooses among overloads of __get__ without a look at `self`, so one form has to do for all methods

        def __get__(  # pyright: ignore[reportRedeclaration]
            self: Limited[Concatenate[Any, _Q], Any], instance: object, owner: type | None = None, /
        ) -> AccessedLimited[_P, _Q, _R_co]: ...
    else:

        @overload  # a class method
        def __get__(
            self: Limited[Concatenate[type[_S], _Q], _R], instance: _S | None, owner: type[_S], /
        ) -> BoundLimited[Concatenate[type[_S], _Q], _Q, _R]: ...
        @overload
        def __get__(self, instance: None, owner: type, /) -> Limited[_P, _R_co]: ...
        @overload
        def __get__(
            self: Limited[Concatenate[_S, _Q], _R], instance: _S, owner: type | None = None, /
        ) -> BoundLimited[Concatenate[_S, _Q], _Q, _R]: ...
        @overload  # a static method
        def __get__(self, instance: object, owner: type | None = None, /) -> Limited[_P, _R_co]: ...


class BoundLimited(Protocol[_P, _Q, _R_co]):
    """A decorated method of an instance: called without ``self``, while ``reset`` and ``peek`` take it."""

    __name__: str
    __qualname__: str

    @property
    def limiter(self) -> RateLimiter: ...
    def __call__(self, *args: _Q.args, **kwargs: _Q.kwargs) -> _R_co: ...
    def reset(self, *args: _P.args, **kwargs: _P.kwargs) -> bool: ...
    def peek(self, *args: _P.args, **kwargs: _P.kwargs) -> Decision: ...


class AccessedLimited(Protocol[_P, _Q, _R_co]):
    """mypy's view of a decorated method, static method or class method: called with the first argument or without."""

    __name__: str
    __qualname__: str

    @property
    def limiter(self) -> RateLimiter: ...
    @overload
    def __call__(self, *args: _Q.args, **kwargs: _Q.kwargs) -> _R_co: ...
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    def reset(self, *args: _P.args, **kwargs: _P.kwargs) -> bool: ...
    def peek(self, *args: _P.args, **kwargs: _P.kwargs) -> Decision: ...


class Decorates(Protocol):
    """What ``rate_limit(...)`` returns; the result of a refused call is an exception."""

    @overload
    def __call__(self, function: staticmethod[_P, _R], /) -> staticmethod[_P, _R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: classmethod[_T, _P, _R], /) -> classmethod[_T, _P, _R]: ...
    @overload
    def __call__(self, function: functools.partialmethod[_R], /) -> functools.partialmethod[_R]: ...
    @overload
    def __call__(self, function: Callable[_P, _R], /) -> Limited[_P, _R]: ...


class DecoratesWithFallback(Protocol[_S_co]):  # type: ignore[misc]  # the `self` below makes it look invariant
    """What ``rate_limit(..., on_limit=callable)`` returns: a refused call has the callable's result."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: staticmethod[_P, _R], /
    ) -> staticmethod[_P, _R | _S_co]: ...
    @overload
    def __call__(self, function: classmethod[_T, _P, _R], /) -> classmethod[_T, _P, _R | _S_co]: ...
    @overload
    def __call__(self, function: functools.partialmethod[Any], /) -> functools.partialmethod[Any]: ...
    @overload
    def __call__(
        self: DecoratesWithFallback[Coroutine[Any, Any, _T]], function: Callable[_P, Coroutine[Any, Any, _R]], /
    ) -> Limited[_P, Coroutine[Any, Any, _R | _T]]: ...
    @overload
    def __call__(
        self, function: Callable[_P, Coroutine[Any, Any, _R]], /
    ) -> Limited[_P, Coroutine[Any, Any, _R | _S_co]]: ...
    @overload
    def __call__(self, function: Callable[_P, _R], /) -> Limited[_P, _R | _S_co]: ...
