"""Plain values, as JSON and TOML have them, checked against declared types: one reader for every file that we write."""

from __future__ import annotations

import functools
import math
import numbers
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, NotRequired, TypeAlias, Union, get_args, get_origin, get_type_hints, is_typeddict

# Turns a value into what its type declares, or raises a ValueError that begins with the name of the value.
Check: TypeAlias = Callable[[Any, str], Any]

_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", types.NoneType: "nothing"}


def as_declared(kind: Any, value: Any, name: str = "") -> Any:
    """The value as a type declares it: dataclasses made of their fields, lists as tuples if these are declared.

    None where a number is declared is nan, which JSON does not have. A value that already is an object of the class stays.

    Examples
    --------
    >>> as_declared(tuple[int, ...], [1, 2]), as_declared(float, 3)
    ((1, 2), 3.0)
    """
    return _check(kind)(value, name)


@functools.cache
def _check(kind: Any) -> Check:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return lambda value, _: value
    if origin in (Union, types.UnionType):
        return _union(kind, arguments)
    if origin is Literal:
        return _plain(
            kind, lambda value: any(value is entry or (type(value) is type(entry) and value == entry) for entry in arguments)
        )
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind)
    if is_typeddict(kind):
        return _typed_dict(kind)
    base = origin or kind
    if base is tuple and len(arguments) == 2 and arguments[1] is not Ellipsis:
        inner = [_check(entry) for entry in arguments]
        return _sequence(
            kind, lambda values, name: tuple(check(v, name) for check, v in zip(inner, values, strict=True)), length=2
        )
    if isinstance(base, type) and issubclass(base, Mapping):
        return _mapping(kind, _check(arguments[1]) if arguments else _check(Any))
    if isinstance(base, type) and issubclass(base, Sequence) and base is not str:
        check, make = _check(arguments[0]) if arguments else _check(Any), list if base is list else tuple
        return _sequence(kind, lambda values, name: make(check(value, f"{name}[{i}]") for i, value in enumerate(values)))
    if kind is float:
        return _float
    if kind is int:
        return _plain(kind, lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool))
    return _plain(kind, lambda value: isinstance(value, kind))


def _inside(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _wrong(value: Any, name: str, kind: Any) -> ValueError:
    return ValueError(f"{name or 'it'} is {value!r:.40}; it must be {_words(kind)}")


def _plain(kind: Any, fits: Callable[[Any], bool]) -> Check:
    def check(value: Any, name: str) -> Any:
        if not fits(value):
            raise _wrong(value, name, kind)
        return value

    return check


def _float(value: Any, name: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _wrong(value, name, float)
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name or 'it'} has too many digits") from None


def _union(kind: Any, members: Sequence[Any]) -> Check:
    # None first, which is nan to a number; a whole number is tried before any number.
    ordered = sorted(members, key=lambda member: (member is not types.NoneType, member is float))
    checks = [_check(member) for member in ordered]

    def check(value: Any, name: str) -> Any:
        for check in checks:
            try:
                return check(value, name)
            except ValueError as error:
                problem = error
        raise problem if len(members) == 2 and types.NoneType in members else _wrong(value, name, kind)

    return check


def _sequence(kind: Any, make: Callable[[Sequence[Any], str], Any], *, length: int | None = None) -> Check:
    def check(value: Any, name: str) -> Any:
        if not isinstance(value, (list, tuple)) or length not in (None, len(value)):
            raise _wrong(value, name, kind)
        return make(value, name)

    return check


def _mapping(kind: Any, inner: Check) -> Check:
    def check(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise _wrong(value, name, kind)
        return {key: inner(entry, _inside(name, key)) for key, entry in value.items()}

    return check


def _record(kind: type) -> Check:
    hints = get_type_hints(kind)
    checks = {field.name: _check(hints[field.name]) for field in fields(kind) if field.init}
    needed = [f.name for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING]

    def check(value: Any, name: str) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise _wrong(value, name, kind)
        for key in value:
            if key not in checks:
                raise ValueError(f"{name or 'it'} has the unknown key {str(key)[:60]!r}; it may have {', '.join(checks)}")
        for key in needed:
            if key not in value:
                raise ValueError(f"{name or 'it'} lacks {key!r}")
        return kind(**{key: checks[key](entry, _inside(name, key)) for key, entry in value.items()})

    return check


def _typed_dict(kind: Any) -> Check:
    checks = {key: _check(hint) for key, hint in get_type_hints(kind).items()}
    # Python itself does not see NotRequired in a module that postpones the evaluation of annotations.
    hints = get_type_hints(kind, include_extras=True)
    required = [key for key in checks if key in kind.__required_keys__ and get_origin(hints[key]) is not NotRequired]

    def check(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _wrong(value, name, kind)
        for key in required:
            if key not in value:
                raise ValueError(f"{name or 'it'} lacks {key!r}")
        return {key: checks[key](entry, _inside(name, key)) if key in checks else entry for key, entry in value.items()}

    return check


def _words(kind: Any) -> str:
    """A type in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(entry) for entry in arguments)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if is_dataclass(kind) or is_typeddict(kind):
        return "an object with named values"
    base = origin or kind
    if isinstance(base, type) and issubclass(base, Mapping):
        return "a table of named values"
    if isinstance(base, type) and issubclass(base, Sequence) and base is not str:
        return "a list"
    return _WORDS.get(kind, str(getattr(kind, "__name__", kind)))
