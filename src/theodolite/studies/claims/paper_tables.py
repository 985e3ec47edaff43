"""A paper's tables in the paper's own rows, columns and units, with the numbers that were measured in the same cells."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

from theodolite.core.states import BEFORE, FINE_TUNED, PRE_TRAINED, state_title

if TYPE_CHECKING:
    from theodolite.studies.claims.judging import PrintedComparison
    from theodolite.studies.spec import PrintedTable, PrintedValue, StudySpec

# What a run is called among the sources of printed numbers.
MEASURED = "measured here"


class _Cell(NamedTuple):
    """What the numbers of one cell share."""

    table: str
    source: str
    model: str
    task: str
    state: str
    setting: str


def paper_table_cells(
    spec: StudySpec, comparisons: Sequence[PrintedComparison], pre_trained: Collection[str]
) -> list[dict[str, Any]]:
    """The cells of the printed tables with what was measured in them; tables in which nothing was measured are left out.

    `pre_trained` names the models whose first state may be called so; that of any other is the state before fine-tuning.
    """
    tables = {table.name: table for table in spec.printed_tables}
    measured = {comparison.printed.table for comparison in comparisons if comparison.measured is not None}
    values: dict[_Cell, dict[str, float]] = {}
    bounds: dict[_Cell, str] = {}

    def add(printed: PrintedValue, source: str, model: str, value: float) -> _Cell:
        row = printed.row
        cell = _Cell(printed.table, source, model, row.task, row.state, row.setting)
        values.setdefault(cell, {})[row.metric] = value
        return cell

    for comparison in comparisons:
        printed = comparison.printed
        if printed.table in measured:
            cell = add(printed, printed.source, printed.row.model, printed.row.value)
            bounds[cell] = "" if printed.relation == "=" else f"{printed.relation} "
        if comparison.measured is not None:
            add(printed, MEASURED, comparison.model, comparison.measured.value)
    # Numbers that nothing can be measured next to complete the table that they are a part of.
    for printed in spec.printed:
        if tables[printed.table].part_of in measured:
            add(printed, printed.source, printed.row.model, printed.row.value)
    values |= _gains(spec, values)
    cells = []
    for cell, numbers in values.items():
        table = tables[cell.table]
        shown_in = tables[table.part_of or table.name]
        title, fields = f"{spec.source} {shown_in.name}: {shown_in.title}", list(shown_in.lines or shown_in.keys)
        line, heads = _line_and_heads(cell, table, shown_in, pre_trained)
        for column, text in _texts(spec, table.cells or shown_in.cells, table.metrics, cell.task, numbers):
            text = bounds.get(cell, "") + text
            cells.append({"table": title, "fields": fields, "line": line, "head": [*heads, column], "text": text})
    return cells


def _gains(spec: StudySpec, values: Mapping[_Cell, Mapping[str, float]]) -> dict[_Cell, dict[str, float]]:
    """Measured improvements over the fine-tuned state, for tables that print them as parts of another one."""
    gains: dict[_Cell, dict[str, float]] = {}
    for table in spec.printed_tables:
        for cell, after in values.items():
            before = values.get(cell._replace(state=FINE_TUNED), {})
            if cell.source == MEASURED and cell.table == table.part_of and cell.state == table.where.get("state"):
                known = {f"{name}_gain": after[name] / before[name] - 1 for name in after if before.get(name)}
                gains |= {cell._replace(table=table.name): known} if known else {}
    return gains


def _line_and_heads(
    cell: _Cell, table: PrintedTable, shown_in: PrintedTable, pre_trained: Collection[str]
) -> tuple[list[str], list[str]]:
    """The line of a cell, and the heads above it."""
    if cell.source == MEASURED and cell.state == PRE_TRAINED and cell.model not in pre_trained:
        cell = cell._replace(state=BEFORE)
    words = cell._asdict()
    # If no column names the source, the name of the model has to say that it is not the paper's.
    if cell.source == MEASURED and "source" not in shown_in.lines:
        words["model"] = f"{cell.model}, {MEASURED}"
    words["state"], *method = table.places.get(cell.state, state_title(cell.state)).split(" | ")
    heads = [words[name] for name in shown_in.heads or filter(None, (shown_in.across,))]
    return [words[name] for name in shown_in.lines or shown_in.keys], [*heads, *method]


def _texts(
    spec: StudySpec, cells: Mapping[str, str], metrics: Sequence[str], task: str, values: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """The columns of a cell and its numbers there, as the paper writes them; columns without a number are left out."""
    patterns = cells or {metric: f"{{{metric}:.4g}}" for metric in metrics}
    for column, pattern in patterns.items():
        numbers: list[float | None] = []
        text = ""
        for literal, name, form, _ in Formatter().parse(pattern):
            text += literal
            if name is not None:
                metric = name.replace("score", spec.score[task], 1) if name.startswith("score") and task in spec.score else name
                numbers.append(values.get(metric))
                text += "–" if numbers[-1] is None else format(numbers[-1] / spec.scale.get(metric, 1.0), form or "")
        if any(number is not None for number in numbers):
            yield column, text.replace("–%", "–")
