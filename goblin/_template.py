"""Keys written as templates of a function's parameters: ``"{user}"``, ``"{request.ip}"``."""

from __future__ import annotations

import inspect
import re
import string
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

__all__ = ["Template"]

_MISSING = inspect.Parameter.empty
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_FIELDS = "a parameter's name, with attributes or items if need be: {user}, {request.ip}, {row[0]}"


class Template:
    """A template, checked against the signature of the function whose calls it makes keys of.

    A key is the tuple of the template and its formatted fields, so no two fields can glue into one.
    """

    def __init__(self, text: str, function: Callable[..., Any], function_name: str) -> None:
        self.text = text
        self.function_name = function_name
        self.pieces: list[str] = []  # for each field, what formats it alone
        names: dict[str, None] = {}
        for piece, needed in _fields_of(text):
            self.pieces.append(piece)
            names.update(dict.fromkeys(needed))
        # Name, place (one that no call has, if only the keyword counts), keyword, default: where a value is found.
        self.parameters: list[tuple[str, int, str | None, Any]] = []
        self.collects = False  # *args and **kwargs are left to `bind`
        # Fields that are a name and no more, by far the most common: those need no format string.
        self.bare = [piece[1:-1] for piece in self.pieces] if {f"{{{name}}}" for name in names} >= set(self.pieces) else None
        if names:
            self.signature = self._signature_of(function)
            self._find(names)
        # Of a template of one bare field, where a call that gives it by place has it: nothing else is to be found then.
        self.only_place = sys.maxsize
        if self.bare is not None and len(self.bare) == 1 and not self.collects:
            self.only_place = self.parameters[0][1]

    def _signature_of(self, function: Callable[..., Any]) -> inspect.Signature:
        try:
            if sys.version_info >= (3, 14):
                import annotationlib

                # As values they would be evaluated, and raise NameError for names that only type checkers have.
                return inspect.signature(function, annotation_format=annotationlib.Format.STRING)
            return inspect.signature(function)
        except (TypeError, ValueError):
            raise TypeError(f"key={self.text!r}: {self.function_name} has no signature to take fields from") from None

    def _find(self, names: Iterable[str]) -> None:
        places = {name: place for place, name in enumerate(self.signature.parameters)}
        for name in names:
            parameter = self.signature.parameters.get(name)
            if parameter is None:
                has = ", ".join(places) or "none"
                raise ValueError(f"key={self.text!r}: {self.function_name} has no parameter {name} (it has: {has})")
            self.collects = self.collects or parameter.kind in _COLLECTING
            place = places[name] if parameter.kind in _BY_PLACE else sys.maxsize
            keyword = None if parameter.kind is parameter.POSITIONAL_ONLY else name
            self.parameters.append((name, place, keyword, parameter.default))

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
        """Of the call with these arguments. TypeError where one is missing; and what formatting them raises."""
        if self.only_place < len(args):
            return (self.text, _formatted(args[self.only_place]))
        values = self._bound(args, kwargs) if self.collects else self._found(args, kwargs)
        if self.bare is not None:
            return (self.text, *[_formatted(values[name]) for name in self.bare])
        key = [self.text]
        for piece in self.pieces:
            key.append(piece.format_map(values))
        return tuple(key)

    def _found(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The values of `parameters` alone: `bind`, which looks at all, takes several times as long."""
        values = {}
        for name, place, keyword, default in self.parameters:
            if place < len(args):
                values[name] = args[place]
            elif keyword in kwargs:
                values[name] = kwargs[keyword]
            elif default is not _MISSING:
                values[name] = default
            else:
                return self._bound(args, kwargs)  # raises, in Python's own words
        return values

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments


def _formatted(value: Any) -> str:
    return value if type(value) is str else format(value)


def _fields_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """For each field, the piece of the template that formats it alone, and the parameters it needs."""
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"key={text!r} is not a template: {error}") from None
    for _, field, spec, conversion in fields:
        if field is None:
            continue
        name = cast(re.Match[str], re.match(r"[^.\[]*", field))[0]
        if not name.isidentifier():
            raise ValueError(f"key={text!r}: {{{field}}} is no field (allowed: {_FIELDS})")
        if conversion not in (None, "r", "s", "a"):
            raise ValueError(f"key={text!r}: unknown conversion !{conversion} (allowed: !r, !s, !a)")
        needed = [name, *(inner for _, names in _fields_of(spec or "") for inner in names)]
        yield f"{{{field}{f'!{conversion}' if conversion else ''}{f':{spec}' if spec else ''}}}", needed
