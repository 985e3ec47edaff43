"""Tables: rows pivoted so that what is to be compared is side by side, as a study declares it or as fits any rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from theodolite.core.declared import as_declared
from theodolite.core.numbers import interval_text, number_text, short_number
from theodolite.core.rows import Row
from theodolite.core.states import DIFFERENCE, FINE_TUNING, state_order, state_title
from theodolite.metrics.registry import label_of
from theodolite.reports.wording import change_mark, clean, is_value, with_states_by_origin

if TYPE_CHECKING:
    from theodolite.core.result import Result

# Lines that a table has at most; a longer one is cut, and its note says so.
LONGEST = 20_000
# Characters of a text in a cell.
CELL = 200
# Significant digits of a number on the page: more than any of these numbers means, and what is copied as CSV.
DIGITS = 7
# Fields that say what a row is of, and the columns of the table of every row.
ABOUT_FIELDS = ("model", "state", "task", "split", "layer", "step", "seed", "setting", "label", "other_label")
ROW_COLUMNS = ("run", "study", *ABOUT_FIELDS, "metric", "value", "n", "d", "reason")
# Metrics that are side by side; if there are more, each gets a line instead.
MOST_METRICS = 8
# Columns up to which a table has a line for each metric.
MOST_HEADS = 6
Steps: TypeAlias = Literal["none", "only", "final"]


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    values: Sequence[Any]
    group: str = ""
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    sd: Sequence[float | None] = ()
    is_difference: bool = False
    optional: bool = False

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers, and there are any."""
        values = [value for value in self.values if value is not None]
        return bool(values) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)

    @property
    def heading(self) -> str:
        """The head as one text, with the one above it."""
        return f"{self.group} · {self.name}" if self.group else self.name

    def texts(self) -> list[str]:
        """The cells in words: a number with its interval or deviation, a dash for one that is not defined."""
        if not self.is_number:
            return ["" if value is None else str(value) for value in self.values]
        numbers = [f"{value:,}" if isinstance(value, int) else number_text(value) for value in self.values]
        spreads = [f"± {short_number(value)}" if value is not None else "" for value in self.sd]
        for low, high in zip(self.low, self.high, strict=True):
            mark = change_mark(low, high) if self.is_difference else ""
            spreads.append(f"{interval_text(low, high)} {mark}".strip())
        spreads = spreads or [""] * len(numbers)
        return [f"{number} {spread}".rstrip() for number, spread in zip(numbers, spreads, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """For the page: every text once, numbers without needless digits."""
        head = {"name": clean(self.name, CELL), "group": clean(self.group, CELL)}
        if self.is_number:
            spreads = {"low": self.low, "high": self.high, "sd": self.sd}
            filled = {name: spread for name, spread in spreads.items() if any(value is not None for value in spread)}
            numbers = {name: [_rounded(value) for value in spread] for name, spread in {"values": self.values, **filled}.items()}
            return {**head, "kind": "number", "difference": self.is_difference, **numbers}
        texts = ["" if value is None else clean(value, CELL) for value in self.values]
        codes = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        return {**head, "kind": "text", "names": list(codes), "values": [codes[text] for text in texts]}


@dataclass(frozen=True)
class Table:
    """Columns under a heading.

    Parameters
    ----------
    title, note
        Its heading, and how to read it.
    columns
        The columns, all of one length.
    total
        The number of lines before it was cut; 0 if it was not.
    breaks
        Lines that a terminal puts a blank line before.
    detail
        Whether a terminal and a notebook show it on request only.
    """

    title: str
    columns: tuple[Column, ...]
    note: str = ""
    total: int = 0
    breaks: tuple[int, ...] = ()
    detail: bool = False

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


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """The declaration of one table: which rows, and which of their fields are down and across.

    A study's TOML file has these as plain values, and a result carries them in `provenance["tables"]`.

    Examples
    --------
    >>> spec = TableSpec.from_dict({"title": "Isotropy by layer", "metrics": ["iso_score"], "rows": ["model", "layer"]})
    >>> spec.columns
    ('state', 'metric')
    """

    title: str
    metrics: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...] = ("state", "metric")
    note: str = ""
    settings: tuple[str, ...] | None = None
    setting_starts_with: str = ""
    states: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    leave_out: tuple[tuple[str, str], ...] = ()
    last_layer: bool = False
    labels: bool = False
    steps: Steps = "none"

    @classmethod
    def from_dict(cls, values: Any) -> TableSpec:
        """The declaration that plain values, as TOML and JSON have them, describe."""
        title = values.get("title", "") if isinstance(values, Mapping) else ""
        where = f"the declared table {str(title)[:60]!r}"
        if not isinstance(values, Mapping):
            raise ValueError(f"{where} must be a table of keys and values, not {values!r:.60}")
        for name in ("title", "metrics", "rows"):
            if not values.get(name):
                raise ValueError(f"{where} needs {name!r}")
        try:
            spec: TableSpec = as_declared(cls, values)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        choices = ("run", *Row.FIELDS)
        fields = {"rows": spec.rows, "columns": spec.columns, "leave_out": [field for field, _ in spec.leave_out]}
        for name, used in fields.items():
            for wrong in (field for field in used if field not in choices):
                rule = f"which is not a field of a row; use {', '.join(choices)}"
                raise ValueError(f"{name!r} of {where} has {wrong[:60]!r}, {rule}")
        return spec

    def table(self, entries: Sequence[Entry]) -> Table | None:
        """The table of these rows; None if it would be empty."""
        # The last layer is that of each model of each run: models differ in depth.
        last: dict[tuple[str, str], int] = {}
        for entry in entries:
            owner = (entry.run, entry.row.model)
            last[owner] = max(last.get(owner, -1), -1 if entry.row.layer is None else entry.row.layer)
        selected = [entry for entry in entries if self._takes(entry.row)]
        if self.last_layer:
            selected = [entry for entry in selected if entry.row.layer in (None, last[entry.run, entry.row.model])]
        ranks = {owner: i for i, owner in enumerate(last)}

        def order(entry: Entry) -> tuple[int, ...]:
            row = entry.row
            setting = 0 if self.settings is None else self.settings.index(row.setting)
            return ranks[entry.run, row.model], state_order(row.state), setting, self.metrics.index(row.metric)

        selected.sort(key=order)
        return pivot(selected, rows=self.rows, columns=self.columns, title=self.title, note=self.note, metrics=self.metrics)

    def _takes(self, row: Row) -> bool:
        in_settings = (self.settings is None or row.setting in self.settings) and row.setting.startswith(self.setting_starts_with)
        in_time = row.layer is None if self.steps == "final" else (row.step is not None) == (self.steps == "only")
        in_states = (self.states is None or row.state in self.states) and (self.tasks is None or row.task in self.tasks)
        is_left_out = bool(self.leave_out) and all(getattr(row, name) == value for name, value in self.leave_out)
        is_whole = bool(row.label) == self.labels
        return row.metric in self.metrics and in_settings and in_states and is_whole and in_time and not is_left_out


def pivot(
    entries: Iterable[Entry],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    note: str = "",
    metrics: Sequence[str] = (),
    cell: Callable[[Sequence[Row]], str] | None = None,
) -> Table | None:
    """One line for each combination of some fields, one column for each combination of others; None without entries.

    Fields that have one value everywhere are named in the note instead. If several rows meet in a cell (several seeds, for
    example), it has their median and standard deviation.
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
        line = tuple(entry.field(f) for f in line_fields)
        # A number alone would not say what it is: `layer 6`.
        head = tuple(f"{f} {value}" if isinstance(value := entry.field(f), int) else value for f in head_fields)
        lines[line] = None
        cells.setdefault(head, {}).setdefault(line, []).append(entry.row)
    heads = list(cells)
    if metrics and "metric" in head_fields:
        heads = _in_metric_order(heads, head_fields.index("metric"), [label_of(metric) for metric in metrics])
    first = list(lines)[:LONGEST]
    table = [Column(f, [line[i] for line in first]) for i, f in enumerate(line_fields)]
    table += [_column(head, [cells[head].get(line, ()) for line in first], cell) for head in heads]
    pooled = "A cell with several numbers shows their median ± standard deviation." if any(column.sd for column in table) else ""
    note = " ".join(filter(None, (note, f"Throughout: {', '.join(constants)}." if constants else "", pooled)))
    return Table(title, tuple(table), note, len(lines) if len(lines) > len(first) else 0)


def frame_table(columns: Mapping[str, Sequence[Any]], *, title: str) -> Table:
    """Values by the name of their column as a table; columns that no line fills are left out."""
    total = max((len(values) for values in columns.values()), default=0)
    # nan is the one value that is not equal to itself.
    short = {name: [None if value != value else value for value in values[:LONGEST]] for name, values in columns.items()}
    filled = tuple(Column(name, values) for name, values in short.items() if any(value not in ("", None) for value in values))
    return Table(title, filled, total=total if total > LONGEST else 0)


def text_table(columns: Mapping[str, Sequence[Any]], *, detail: bool = False) -> Table:
    """Values by the heads of their columns as a table without a title."""
    return Table("", tuple(Column(name, values) for name, values in columns.items()), detail=detail)


def all_rows(entries: Sequence[Entry]) -> Table | None:
    """Every row, for whoever looks for one; columns that no row fills are left out."""
    if not entries:
        return None
    first = entries[:LONGEST]
    names = ROW_COLUMNS if len({entry.run for entry in entries}) > 1 else ROW_COLUMNS[1:]
    values = row_values("value", [entry.row for entry in first])
    columns = [values if name == "value" else Column(name, [entry.field(name) for entry in first]) for name in names]
    filled = tuple(column for column in columns if any(value not in ("", None) for value in column.values))
    return Table("Every row", filled, total=len(entries) if len(entries) > LONGEST else 0)


def row_values(name: str, rows: Sequence[Row | None], group: str = "") -> Column:
    """The values of rows with their intervals as a column; None is an empty cell."""
    values, low, high = ([None if row is None else getattr(row, field) for row in rows] for field in ("value", "low", "high"))
    return Column(name, values, group, low=low, high=high)


def tables_of(results: Iterable[tuple[str, Result]]) -> list[Table]:
    """The tables of one result or of several; a table that several of them declare has the rows of all."""
    declared: dict[TableSpec, list[Entry]] = {}
    others: dict[str, list[Entry]] = {}
    runs = [(name, with_states_by_origin(result)) for name, result in results]
    for name, result in runs:
        entries = [Entry(name, row) for row in result.rows]
        specs = result.provenance.get("tables") or []
        if not isinstance(specs, (list, tuple)):
            raise ValueError(f"the declared tables of {name[:60]!r} must be a list, not {specs!r:.60}")
        # Two runs of one study declare equal tables, which makes them one key: their rows go into one table.
        for spec in map(TableSpec.from_dict, specs):
            declared.setdefault(spec, []).extend(entries)
        for entry in entries if not specs else ():
            others.setdefault(entry.row.study, []).append(entry)
    tables = [spec.table(entries) for spec, entries in declared.items()]
    for entries in others.values():
        # Not of a label, nor of two: a probe has thousands of those, which its heat map and the table of all rows show.
        unlabelled = [entry for entry in entries if not entry.row.label]
        # Several seeds that meet in a cell are pooled there, so rows that already are would repeat it.
        unlabelled = [entry for entry in unlabelled if is_value(entry.row) or entry.row.state == DIFFERENCE]
        kinds: dict[str, list[Entry]] = {"measured": [], "states": [], "steps": []}
        for entry in unlabelled:
            is_state = entry.row.layer is None and entry.row.state not in ("", FINE_TUNING)
            kinds["measured" if entry.row.step is None else "states" if is_state else "steps"].append(entry)
        origin = ("run", "model", "task", "split")
        tables.append(_general(kinds["measured"]))
        tables.append(pivot(kinds["states"], rows=(*origin, "metric"), columns=("state",), title="By state"))
        over_steps = (*origin, "setting", "layer", "step")
        tables.append(pivot(kinds["steps"], rows=over_steps, columns=("metric",), title="Over the steps"))
    tables += _paper_tables([result for _, result in runs])
    return [table for table in tables if table is not None]


def _paper_tables(results: Sequence[Result]) -> Iterator[Table]:
    """A paper's tables with its own lines and columns, and what all results measured next to them."""
    cells: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        record = result.records.get("paper_tables")
        for cell in () if record is None else record.to_pylist():
            cells.setdefault(str(cell["table"]), []).append(cell)
    for title, members in cells.items():
        texts = {(tuple(cell["line"]), tuple(cell["head"])): cell["text"] for cell in members}
        lines = list(dict.fromkeys(line for line, _ in texts))
        # Columns under one head are side by side, in the order in which they come.
        heads = list(dict.fromkeys(head for _, head in texts))
        for depth in range(max(map(len, heads)) - 1, 0, -1):
            first = {head[:depth]: i for i, head in reversed(list(enumerate(heads)))}
            heads.sort(key=lambda head, depth=depth, first=first: first[head[:depth]])  # type: ignore[misc]
        columns = [Column(name, [line[i] for line in lines]) for i, name in enumerate(members[0]["fields"])]
        for head in heads:
            *groups, name = [level for level in head if level] or ["value"]
            columns.append(Column(label_of(name), [texts.get((line, head), "") for line in lines], " · ".join(groups)))
        note = "Rows and columns are the paper's. Numbers from another model are there for orientation; they do not reproduce it."
        yield Table(title, tuple(columns), note)


def _general(entries: list[Entry]) -> Table | None:
    """Metrics side by side, or one per line if there are many of them."""
    fields: tuple[str, ...] = ("run", "model", "task", "split", "setting", "layer", "seed")
    metrics = list(dict.fromkeys(entry.row.metric for entry in entries))
    heads = {tuple(entry.field(f) for f in (*fields, "state")) for entry in entries}
    # In a comparison each state is another model, on another task perhaps: what the state decides needs no column of its own.
    possible = ("model", "task", "split", "setting")
    origins = {name: values for name in possible if (values := _by_state(entries, name))}
    fields = tuple(name for name in fields if name not in origins)
    states = [state for state in next(iter(origins.values()), {}) if state != DIFFERENCE]
    words = {state: ", ".join(filter(None, (values[state] for values in origins.values()))) for state in states}
    note = "; ".join(f"{state_title(state)}: {origin}" for state, origin in words.items() if origin)
    note = f"{note}." if note else ""
    # States that hardly share a line, such as repairs and ways to compress, are below each other.
    lines = {tuple(entry.field(f) for f in fields) for entry in entries}
    if 2 * len(heads) <= len(lines) * len({entry.row.state for entry in entries}):
        return pivot(entries, rows=("state", *fields), columns=("metric",), title="Measured", note=note)
    # A survey of one cloud has many metrics and one head, a survey of layers many heads: the longer side goes down.
    if len(heads) <= MOST_HEADS or (len(metrics) > MOST_METRICS and len(heads) <= MOST_METRICS):
        return pivot(entries, rows=("metric",), columns=(*fields, "state"), title="Measured", note=note)
    entries.sort(key=lambda entry: state_order(entry.row.state))
    if origins:
        entries.sort(key=lambda entry: metrics.index(entry.row.metric))
    columns = ("metric", "state") if origins else ("state", "metric")
    return pivot(entries, rows=fields, columns=columns, title="Measured", note=note)


def _by_state(entries: Sequence[Entry], name: str) -> dict[str, str]:
    """The value of a field in each state, if each has exactly one and they are not all the same; otherwise nothing."""
    pairs = list(dict.fromkeys((entry.row.state, entry.field(name)) for entry in entries))
    values = dict(pairs)
    return values if len(values) == len(pairs) and len(set(values.values())) > 1 else {}


def _in_metric_order(heads: Sequence[tuple[Any, ...]], index: int, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The heads with the metric, at this index in each of them, in the order of the names; the rest as it came."""
    rest = [(*head[:index], *head[index + 1 :]) for head in heads]
    first = {others: i for i, others in reversed(list(enumerate(rest)))}
    return sorted(heads, key=lambda head: (first[(*head[:index], *head[index + 1 :])], names.index(head[index])))


def _column(head: tuple[Any, ...], cells: Sequence[Sequence[Row]], cell: Callable[[Sequence[Row]], str] | None) -> Column:
    *groups, name = [str(level) for level in head if level not in ("", None)] or ["value"]
    group = " · ".join(groups)
    if cell is not None:
        return Column(name, [cell(rows) if rows else "" for rows in cells], group)
    # One column is either of single values with their intervals or of medians: a mixture would be misread.
    if all(len(rows) <= 1 for rows in cells):
        column = row_values(name, [rows[0] if rows else None for rows in cells], group)
        return replace(column, is_difference={row.state for rows in cells for row in rows} == {DIFFERENCE})
    values = [[row.value for row in rows if not math.isnan(row.value)] for rows in cells]
    medians = [statistics.median(many) if many else None for many in values]
    return Column(name, medians, group, sd=[statistics.stdev(many) if len(many) > 1 else None for many in values])


def _rounded(value: Any) -> Any:
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
