"""Values are what their types declare, or one sentence says which of them is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import pytest

from theodolite.core.declared import as_declared


@dataclass(frozen=True)
class Part:
    name: str
    value: float = 0.0
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    n: int | None = None
    more: Mapping[str, list[int]] | None = None


class Described(TypedDict):
    whole: Whole
    note: NotRequired[str]


def test_nested_values_become_what_is_declared() -> None:
    value = {"parts": [{"name": "x", "value": 3}, {"name": "y", "kind": "b"}], "more": {"k": [1, 2]}}
    expected = Whole((Part("x", 3.0), Part("y", kind="b")), more={"k": [1, 2]})
    assert as_declared(Whole, value) == expected
    assert as_declared(Whole, expected) is expected
    assert as_declared(Described, {"whole": value, "later": 1}) == {"whole": expected, "later": 1}


def test_none_is_nan_where_a_number_is_declared_and_none_where_nothing_is() -> None:
    assert math.isnan(as_declared(float, None))
    assert as_declared(float | None, None) is None


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (int, True, "it is True; it must be a whole number"),
        (int, 1.5, "it is 1.5; it must be a whole number"),
        (int, math.inf, "it is inf; it must be a whole number"),
        (float, "x", "it is 'x'; it must be a number"),
        (float, True, "it is True; it must be a number"),
        (float, 10**400, "it has too many digits"),
        (str, 3, "it is 3; it must be text"),
        (bool, 1, "it is 1; it must be true or false"),
        (int | None, "x", "it is 'x'; it must be a whole number"),
        (int | str, [], r"it is \[\]; it must be a whole number or text"),
        (Whole, [], r"it is \[\]; it must be an object with named values"),
        (Whole, {}, "it lacks 'parts'"),
        (Whole, {"parts": [], "part": 1}, "it has the unknown key 'part'; it may have parts, n, more"),
        (Whole, {"parts": [{"name": 3}]}, r"parts\[0\]\.name is 3; it must be text"),
        (Whole, {"parts": [{"name": "x", "kind": "c"}]}, r"parts\[0\]\.kind is 'c'; it must be one of a, b"),
        (Whole, {"parts": "x"}, "parts is 'x'; it must be a list"),
        (Whole, {"parts": [], "more": {"k": [1, "2"]}}, r"more\.k\[1\] is '2'; it must be a whole number"),
        (Described, {"note": "x"}, "it lacks 'whole'"),
    ],
)
def test_another_type_is_named_with_the_place_and_the_rule(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        as_declared(kind, value)
