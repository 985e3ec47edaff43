"""Rows turned into tables in which what is to be compared is side by side."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.core.rows import Row
from theodolite.core.states import state_title
from theodolite.metrics.registry import label_of
from theodolite.reports.plain_text import clean

LONGEST = 20_000
"""Lines that a table has at most; a longer one is cut, and its note says so."""
CELL = 200
"""Characters of a text in a cell."""
DIGITS = 7
"""Significant digits of a number in a cell: more than any of these numbers means, and what is copied as CSV."""
ROW_COLUMNS = ("study", "model", "state", "task", "split", "layer", "step", "seed", "setting", "label")
"""Columns of the table of every row, before its value."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name, group
        Its head, and a head above several columns.
    values
        One value per line; None is an empty cell.
    low, high, sd
        Bounds of an interval, and standard deviations, that are shown next to the values; empty if there are none.
    """

    name: str
    values: Sequence[Any]
    group: str = ""
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    sd: Sequence[float | None] = ()

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers, and there are any."""
        values = [value for value in self.values if value is not None]
        return bool(values) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)

    def to_dict(self) -> dict[str, Any]:
        """For the page: every text once, numbers without needless digits."""
        head = {"name": clean(self.name, CELL), "group": clean(self.group, CELL)}
        if self.is_number:
            spreads = {"low": self.low, "high": self.high, "sd": self.sd}
            filled = {name: spread for name, spread in spreads.items() if any(value is not None for value in spread)}
            parts = {name: [_short(value) for value in part] for name, part in {"values": self.values, **filled}.items()}
            return {**head, "kind": "number", **parts}
        texts = ["" if value is None else clean(value, CELL) for value in self.values]
        places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        return {**head, "kind": "text", "names": list(places), "values": [places[text] for text in texts]}


@dataclass(frozen=True)
class Table:
    """A heading, columns, and a note on how to read them; `total` is the number of lines before it was cut, or 0."""

    title: str
    columns: tuple[Column, ...]
    note: str = ""
    total: int = 0

    @property
    def lines(self) -> int:
        """The number of lines."""
        return len(self.columns[0].values) if self.columns else 0

    def to_dict(self) -> dict[str, Any]:
        """For the page."""
        cut = f" The first {self.lines:,} of {self.total:,} lines." if self.total > self.lines else ""
        note = clean((self.note + cut).strip(), 600)
        return {"title": clean(self.title, CELL), "note": note, "columns": [column.to_dict() for column in self.columns]}


@dataclass(frozen=True)
class Entry:
    """A row, and the name of the run that it is from."""

    run: str
    row: Row

    def field(self, name: str) -> Any:
        """`run` or a field of the row, as a table shows it: metrics and states by their titles."""
        if name == "run":
            return self.run
        value = getattr(self.row, name)
        return label_of(value) if name == "metric" else state_title(value) if name == "state" else value


def pivot(
    entries: Iterable[Entry],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    note: str = "",
    metrics: Sequence[str] = (),
) -> Table | None:
    """One line for each combination of some fields, one column for each combination of others; None without entries.

    Fields that have one value everywhere are named in the note instead. If several rows meet in a cell (several seeds, for
    example), it has their median and standard deviation.

    Parameters
    ----------
    entries
        The rows; lines and columns come in their order.
    rows, columns
        Fields of a row, or `run`, that make up a line and a column.
    title, note
        Heading and note of the table.
    metrics
        The order of the metrics under each head, if it is not that of the entries.
    """
    entries = list(entries)
    if not entries:
        return None
    # What is the same everywhere needs no column; if everything is, the last field still gives each line a head.
    line_fields = [f for f in rows if len({entry.field(f) for entry in entries}) > 1] or [rows[-1]]
    head_fields = [f for f in columns if f == "metric" or len({entry.field(f) for entry in entries}) > 1]
    fixed = [f for f in (*rows, *columns) if f not in (*line_fields, *head_fields, "run")]
    constants = [f"{f} {entries[0].field(f)}" for f in fixed if entries[0].field(f) not in ("", None)]
    cells: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Row]]] = {}
    lines: dict[tuple[Any, ...], None] = {}
    for entry in entries:
        line, head = tuple(entry.field(f) for f in line_fields), tuple(entry.field(f) for f in head_fields)
        lines[line] = None
        cells.setdefault(head, {}).setdefault(line, []).append(entry.row)
    heads = list(cells)
    if metrics and "metric" in head_fields:
        heads = _in_metric_order(heads, head_fields.index("metric"), [label_of(metric) for metric in metrics])
    first = list(lines)[:LONGEST]
    table = [Column(f, [line[i] for line in first]) for i, f in enumerate(line_fields)]
    table += [_cells(head, [cells[head].get(line, ()) for line in first]) for head in heads]
    note = " ".join(filter(None, (note, f"Throughout: {', '.join(constants)}." if constants else "")))
    return Table(title, tuple(table), note, len(lines) if len(lines) > len(first) else 0)


def frame_table(columns: Mapping[str, Sequence[Any]], *, title: str) -> Table:
    """The numbers of a display, by column, as a table."""
    total = max((len(values) for values in columns.values()), default=0)
    # NumPy's numbers become Python's, which JSON takes.
    plain = {name: [v.item() if hasattr(v, "item") else v for v in list(values)[:LONGEST]] for name, values in columns.items()}
    return Table(title, tuple(Column(str(name), values) for name, values in plain.items()), total=total if total > LONGEST else 0)


def all_rows(entries: Sequence[Entry], *, several: bool) -> Table | None:
    """Every row, for whoever looks for one; columns that no row fills are left out.

    Parameters
    ----------
    entries
        The rows.
    several
        Whether they are of several runs, which then have a column.
    """
    if not entries:
        return None
    first = entries[:LONGEST]
    names = [*(["run"] if several else []), *ROW_COLUMNS, "metric", "value", "n", "d", "reason"]
    columns = [
        _values(name, [entry.row for entry in first]) if name == "value" else Column(name, [entry.field(name) for entry in first])
        for name in names
    ]
    filled = tuple(column for column in columns if any(value not in ("", None) for value in column.values))
    return Table("Every row", filled, total=len(entries) if len(entries) > LONGEST else 0)


def _in_metric_order(heads: Sequence[tuple[Any, ...]], place: int, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The heads with the metric, at this place in each of them, in the order of the names; the rest as it came."""
    rest = [(*head[:place], *head[place + 1 :]) for head in heads]
    first = {parts: i for i, parts in reversed(list(enumerate(rest)))}
    return sorted(heads, key=lambda head: (first[(*head[:place], *head[place + 1 :])], names.index(head[place])))


def _cells(head: tuple[Any, ...], cells: Sequence[Sequence[Row]]) -> Column:
    *groups, name = [str(part) for part in head if part not in ("", None)] or ["value"]
    group = " · ".join(groups)
    # One column is either of single values with their intervals or of medians: a mixture would be misread.
    if all(len(rows) <= 1 for rows in cells):
        return _values(name, [rows[0] if rows else None for rows in cells], group)
    values = [[row.value for row in rows if not math.isnan(row.value)] for rows in cells]
    medians = [statistics.median(many) if many else None for many in values]
    return Column(name, medians, group, sd=[statistics.stdev(many) if len(many) > 1 else None for many in values])


def _values(name: str, rows: Sequence[Row | None], group: str = "") -> Column:
    values, low, high = ([None if row is None else getattr(row, field) for row in rows] for field in ("value", "low", "high"))
    return Column(name, values, group, low=low, high=high)


def _short(value: Any) -> Any:
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
