"""What a function is and what it is called, below partial objects, methods, instances and other decorators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any


def is_a(kind: Callable[[object], bool], function: object) -> bool:
    """`inspect`'s question, asked also of the ``__call__`` of an instance, and below partial objects."""
    while isinstance(function, functools.partial):
        function = function.func
    return kind(function) or kind(getattr(type(function), "__call__", None))


def source_of(function: Any) -> tuple[Any, int]:
    """The code below partial objects, bound methods, instances and wrappers, and which of our layers is the next."""
    layer = 1
    while True:
        kept = getattr(function, "__dict__", {})
        layer = max(layer, kept.get("_goblin_layer", 0) + 1)
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif "__wrapped__" in kept:
            function = kept["__wrapped__"]
        elif not isinstance(function, type) and isinstance(getattr(type(function), "__call__", None), FunctionType):
            function = type(function).__call__
        else:
            return function, layer


def module_of(source: Any) -> str:
    return getattr(source, "__module__", None) or type(source).__module__


def name_of(source: Any) -> str:
    return str(getattr(source, "__qualname__", type(source).__qualname__))


def budget_name(source: Any, layer: int) -> str:
    """The same in every process. The line is in it because two functions of one module can have one name."""
    line = getattr(getattr(source, "__code__", None), "co_firstlineno", getattr(source, "__firstlineno__", 0))
    name = f"{module_of(source)}.{name_of(source)}:{line}" + (f"#{layer}" if layer > 1 else "")
    return name.replace("{", "(").replace("}", ")")  # a limiter's name has no braces: its keys begin with one
