"""Measured next to printed, cell by cell. Only the paper's own model can be compared; any other is only shown next to it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.core.result import Verdict
from theodolite.core.rows import Row
from theodolite.core.states import PRE_TRAINED
from theodolite.studies.claims.evidence import Evidence
from theodolite.studies.printed import PrintedTable, PrintedValue
from theodolite.studies.spec import StudySpec

MEASURED = "measured here"
"""What a run is called among the sources of printed numbers."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A printed number and what was measured in its cell.

    Parameters
    ----------
    printed
        The printed number, with its table, its cell and its model.
    model
        The measured model.
    measured
        The measured number in the same unit, pooled over seeds as the table is; None if there is none.
    comparable
        Whether the measured model is the one that the paper used, on all of its data.
    words
        What the two numbers mean together.
    """

    printed: PrintedValue
    model: str
    measured: Row | None
    comparable: bool
    words: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """A run checked again: every printed number next to the measured ones, and the verdicts on the claims."""

    comparisons: tuple[Comparison, ...]
    verdicts: tuple[Verdict, ...]


def compare_printed(spec: StudySpec, rows: Sequence[Row], *, quick: bool = False) -> list[Comparison]:
    """Every printed number next to that of every measured model.

    Parameters
    ----------
    spec
        The study.
    rows
        What was measured; rows of other studies are left out.
    quick
        Whether the run used the small sizes, which compare with nothing.
    """
    own = tuple(row for row in rows if row.study in ("", spec.name))
    models = list(dict.fromkeys(row.model for row in own)) or [""]  # without any row the printed numbers are listed all the same
    tables = {table.name: table for table in spec.printed_tables}
    hub_ids = {model.name: model.hub for model in spec.models}
    evidence = {model: Evidence(source="measured", rows=tuple(row for row in own if row.model == model)) for model in models}
    return [
        _compare(value, tables[value.table], evidence[model], model, same=model in hub_ids[value.row.model], quick=quick)
        for value in spec.printed
        if tables[value.table].pool != "none"
        for model in models
    ]


def printed_records(spec: StudySpec, comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The cells of the printed tables with what was measured in them, as records for a report; tables without any are left out.

    Parameters
    ----------
    spec
        The study.
    comparisons
        Its printed numbers next to the measured ones.
    """
    titles = {table.name: table.title for table in spec.printed_tables}
    measured = {each.printed.table for each in comparisons if each.measured is not None}
    records: dict[tuple[Any, ...], None] = {}  # as keys: the cell of two sources is measured once
    for each in comparisons:
        cell, table = each.printed.row, each.printed.table
        place = (titles[table], cell.task, cell.state, cell.setting, cell.metric)
        if table in measured:
            records[*place, each.printed.source, cell.model, cell.value, None, None] = None
        if each.measured is not None:
            records[*place, MEASURED, each.model, each.measured.value, each.measured.low, each.measured.high] = None
    names = ("table", "task", "state", "setting", "metric", "source", "model", "value", "low", "high")
    return [dict(zip(names, record, strict=True)) for record in records]


def _compare(value: PrintedValue, table: PrintedTable, evidence: Evidence, model: str, *, same: bool, quick: bool) -> Comparison:
    row = _measured_row(value.row, table, evidence)
    words = _words(value, row, model, same=same, quick=quick)
    return Comparison(printed=value, model=model, measured=row, comparable=row is not None and same and not quick, words=words)


def _words(value: PrintedValue, row: Row | None, model: str, *, same: bool, quick: bool) -> str:
    if row is None:
        return "not measured"
    reported = "; the printed number is only reported, not a target" if value.standing == "reported" else ""
    if not same:
        return f"{model} is not the paper's {value.row.model}: shown next to it, not a reproduction{reported}"
    if quick:
        return f"the paper's model on a subsample: shown next to it, not a reproduction{reported}"
    if value.relation != "=":
        holds = row.value > value.row.value if value.relation == ">" else row.value < value.row.value
        return f"the paper's model: {'as' if holds else 'not as'} stated ({value.relation} {value.text}){reported}"
    trained = "" if value.row.state == PRE_TRAINED else ", trained again"
    return f"the paper's model{trained}: {row.value - value.row.value:+.3g} against the printed number{reported}"


def _measured_row(cell: Row, table: PrintedTable, evidence: Evidence) -> Row | None:
    """The measured row of a printed cell, pooled over seeds as its table is; None if there is none."""
    metric = cell.metric.removesuffix("_sd")
    fields = {name: value for name in ("state", "task") if (value := getattr(cell, name))}
    fields["setting"] = cell.setting if table.measured_setting is None else table.measured_setting
    rows = [row for row in evidence.find(metric, **fields) if math.isfinite(row.value)]
    if table.pool == "lowest":  # over all layers and steps, and not only the last ones
        return min(rows, key=lambda row: row.value, default=None)
    rows = evidence.final(rows)
    values = [row.value for row in rows]
    if cell.metric.endswith("_sd"):
        return Row(metric=metric, value=statistics.stdev(values), n=len(values)) if len(values) > 1 else None
    if len(rows) < 2:
        return rows[0] if rows else None
    if by := table.pool_by.get(metric):
        # The seed in the middle; of an even number, the lower of the two in the middle, so that one seed's numbers are shown.
        order = sorted(evidence.final(evidence.find(by, **fields)), key=lambda row: row.value)
        return next((row for row in rows if row.seed == order[(len(order) - 1) // 2].seed), None)
    pool = statistics.median if table.pool == "median" else statistics.fmean
    return Row(metric=metric, value=pool(values), n=len(values))
