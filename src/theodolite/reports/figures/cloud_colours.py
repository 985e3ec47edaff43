"""What the points of clouds are coloured by: a number on a scale, or one of several names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.pictures import Picture
from theodolite.reports.look import GREY, PALETTE

COLOURS = ("frequency", "label", "pos", "cluster")
MOST = 12
"""Names that have a colour of their own in a plot; the rest are grey together."""
SYMBOLS = ("circle", "diamond")


@dataclass(frozen=True)
class Scale:
    """A column of numbers."""

    column: str

    def values(self, one: Picture) -> NDArray[np.float32]:
        """The numbers of a picture's points; nan where one is not known."""
        return numbers(one.columns.get(self.column, [None] * one.n))


@dataclass(frozen=True)
class Category:
    """A column of names, the most frequent first."""

    column: str
    names: tuple[str, ...]

    def groups(self, one: Picture, *, before: Picture | None) -> Iterator[tuple[str, str, str, list[int], bool]]:
        """(name, colour, symbol, rows, whether the picture before lacks it) of each name with points here; the rest first."""
        found, earlier = self._rows(one), self._rows(before) if before else {}
        rest = sorted(i for name, rows in found.items() if name not in self.names[:MOST] for i in rows)
        if rest:
            behind = any(name not in self.names[:MOST] for name in earlier)
            yield (
                f"{max(0, len(self.names) - MOST)} others" if len(self.names) > MOST else "not known",
                GREY,
                SYMBOLS[0],
                rest,
                not behind,
            )
        for at, name in enumerate(self.names[:MOST]):
            if name in found:
                symbol = SYMBOLS[at // len(PALETTE) % len(SYMBOLS)]
                yield name, PALETTE[at % len(PALETTE)], symbol, found[name], before is not None and name not in earlier

    def codes(self, one: Picture) -> list[int | None]:
        """The place of each point's name among the names; None where it is not known."""
        at = {name: i for i, name in enumerate(self.names)}
        return [at.get(named(value)) for value in one.columns.get(self.column, [None] * one.n)]

    def _rows(self, one: Picture) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i, value in enumerate(one.columns.get(self.column, [None] * one.n)):
            found.setdefault(named(value), []).append(i)
        return found


def category(pictures: Sequence[Picture], column: str) -> Category:
    """The names of a column in all pictures; clusters, which are numbers, in their order, others the most frequent first."""
    counts = Counter(named(value) for one in pictures for value in one.columns.get(column, ()))
    counts.pop("", None)
    if all(name.lstrip("-").isdecimal() for name in counts):
        return Category(column, tuple(sorted(counts, key=int)))
    return Category(column, tuple(name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))))


def numbers(values: Sequence[Any]) -> NDArray[np.float32]:
    """Values as numbers, nan where one is none."""
    return np.array([_number(value) for value in values], np.float32)


def named(value: Any) -> str:
    """A value as a name; "" where it is not known."""
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
