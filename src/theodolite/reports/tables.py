"""Results as tables for the page: rows turned so that what is to be compared stands side by side."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.core.rows import Row
from theodolite.reports.plain import clean
from theodolite.reports.words import METRIC_NAMES

LONGEST = 20_000
"""Lines that a table of the page holds at most; it says so where there were more."""
CELL = 200
"""Characters of a text in a cell."""
DIGITS = 7
"""Significant digits that are kept: more than any of these numbers means, and what CSV is copied with."""


@dataclass(frozen=True)
class Column:
    """One column. `low` and `high` are intervals, `sd` standard deviations; `group` is a head above several columns."""

    name: str
    values: Sequence[Any]
    group: str = ""
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    sd: Sequence[float | None] = ()

    @property
    def is_number(self) -> bool:
        return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in self.values if v is not None) and any(
            v is not None for v in self.values
        )

    def to_dict(self) -> dict[str, Any]:
        """For the page: texts are kept once each, numbers without needless digits."""
        told: dict[str, Any] = {"name": clean(self.name, CELL), "group": clean(self.group, CELL)}
        if self.is_number:
            told |= {"kind": "number", "values": [_short(v) for v in self.values]}
            spreads = (("low", self.low), ("high", self.high), ("sd", self.sd))
            return told | {name: [_short(v) for v in given] for name, given in spreads if any(v is not None for v in given)}
        texts = ["" if v is None else clean(v, CELL) for v in self.values]
        places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        return told | {"kind": "text", "names": list(places), "values": [places[text] for text in texts]}


@dataclass(frozen=True)
class Table:
    """A table of the page: a heading, one or two sentences on how to read it, and its columns."""

    title: str
    columns: tuple[Column, ...]
    note: str = ""
    total: int = 0
    """Lines that there were before it was cut; 0 where it was not."""

    @property
    def lines(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def to_dict(self) -> dict[str, Any]:
        """For the page."""
        cut = f" The first {self.lines:,} of {self.total:,} lines." if self.total > self.lines else ""
        return {
            "title": self.title,
            "note": clean(self.note + cut, 600),
            "columns": [column.to_dict() for column in self.columns],
        }


@dataclass(frozen=True)
class Entry:
    """A row of a run: `run` tells several runs apart."""

    run: str
    row: Row

    def field(self, name: str) -> Any:
        value = self.run if name == "run" else getattr(self.row, name)
        return metric_name(value) if name == "metric" else value


def turned(
    entries: Iterable[Entry],
    *,
    lines: Sequence[str],
    across: Sequence[str],
    title: str,
    note: str = "",
    metrics: Sequence[str] = (),
) -> Table | None:
    """One line for each combination of the fields `lines`, one column for each of the fields `across`; None without entries.

    Columns come in the order of the entries, those of one head in the order of `metrics` where that is given.

    Fields that are the same everywhere are told in the note instead of in a column. Where several rows meet in a cell (several
    seeds, say), it holds their median and standard deviation.
    """
    entries = list(entries)
    if not entries:
        return None
    shown = [f for f in lines if len({entry.field(f) for entry in entries}) > 1] or [lines[-1]]
    heads = [f for f in across if f == "metric" or len({entry.field(f) for entry in entries}) > 1]
    fixed = [f for f in (*lines, *across) if f not in (*shown, *heads, "run")]
    same = [f"{f} {entries[0].field(f)}" for f in fixed if entries[0].field(f) not in ("", None)]
    keys = list(dict.fromkeys(tuple(entry.field(f) for f in shown) for entry in entries))
    kept = keys[:LONGEST]
    cells: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Row]]] = {}
    for entry in entries:
        line, head = tuple(entry.field(f) for f in shown), tuple(entry.field(f) for f in heads)
        cells.setdefault(head, {}).setdefault(line, []).append(entry.row)
    if metrics and "metric" in heads:
        cells = _ordered(cells, heads.index("metric"), [metric_name(metric) for metric in metrics])
    columns = [Column(f, [key[i] for key in kept]) for i, f in enumerate(shown)]
    columns += [_measured(head, [found.get(key, ()) for key in kept]) for head, found in cells.items()]
    said = " ".join(part for part in (note, f"Throughout: {', '.join(same)}." if same else "") if part)
    return Table(title, tuple(columns), said, len(keys) if len(keys) > len(kept) else 0)


def metric_name(metric: str) -> str:
    """What a metric is called in a head."""
    return METRIC_NAMES.get(metric, metric.replace("_", " "))


def _ordered(
    cells: Mapping[tuple[Any, ...], dict[tuple[Any, ...], list[Row]]], at: int, names: Sequence[str]
) -> dict[tuple[Any, ...], dict[tuple[Any, ...], list[Row]]]:
    """The columns with the metric, at this place of their heads, in the order of the names; the rest as it came."""
    rest = [(*head[:at], *head[at + 1 :]) for head in cells]
    first = {each: i for i, each in reversed(list(enumerate(rest)))}
    return dict(sorted(cells.items(), key=lambda item: (first[(*item[0][:at], *item[0][at + 1 :])], names.index(item[0][at]))))


def frame_table(columns: Mapping[str, Sequence[Any]], *, title: str) -> Table:
    """A display's own numbers."""
    total = max((len(values) for values in columns.values()), default=0)
    kept = tuple(Column(str(head), [_scalar(v) for v in list(values)[:LONGEST]]) for head, values in columns.items())
    return Table(title, kept, total=total if total > LONGEST else 0)


def all_rows(entries: Sequence[Entry], several: bool) -> Table | None:
    """Every row, for whoever looks for one; fields that none of them fills are left out."""
    if not entries:
        return None
    names = (["run"] if several else []) + [
        "study",
        "model",
        "state",
        "task",
        "split",
        "layer",
        "step",
        "seed",
        "setting",
        "label",
    ]
    kept = entries[:LONGEST]
    columns = [Column(name, [entry.field(name) for entry in kept]) for name in names]
    columns = [column for column in columns if any(value not in ("", None) for value in column.values)]
    columns.append(Column("metric", [entry.field("metric") for entry in kept]))
    columns.append(_values("value", [entry.row for entry in kept]))
    columns += [Column(name, [entry.field(name) for entry in kept]) for name in ("n", "d", "reason")]
    columns = [column for column in columns if any(value not in ("", None) for value in column.values)]
    return Table("Every row", tuple(columns), total=len(entries) if len(entries) > LONGEST else 0)


def _measured(head: tuple[Any, ...], found: Sequence[Sequence[Row]]) -> Column:
    *group, name = [str(part) for part in head if part not in ("", None)] or ["value"]
    if all(len(rows) <= 1 for rows in found):
        return _values(name, [rows[0] if rows else None for rows in found], " · ".join(group))
    numbers = [[row.value for row in rows if not math.isnan(row.value)] for rows in found]
    return Column(
        name,
        [statistics.median(many) if many else None for many in numbers],
        " · ".join(group),
        sd=[statistics.stdev(many) if len(many) > 1 else None for many in numbers],
    )


def _values(name: str, rows: Sequence[Row | None], group: str = "") -> Column:
    def each(take: Callable[[Row], Any]) -> list[Any]:
        return [None if row is None else take(row) for row in rows]

    return Column(name, each(lambda r: r.value), group, low=each(lambda r: r.low), high=each(lambda r: r.high))


def _scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _short(value: Any) -> Any:
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
