"""Measured beside printed, cell by cell. Only the paper's own model can be compared; any other stands beside it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.core.rows import Row
from theodolite.studies.printed import Printed, Standing, Table
from theodolite.studies.rules import Evidence
from theodolite.studies.spec import Study


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A printed number and what was measured in its cell. Values are in the metric's own unit; `printed_text` is as printed.

    `comparable` says that the measured model is the one that the paper used; `words` say what the two numbers mean together.
    """

    table: str
    source: str
    standing: Standing
    task: str
    state: str
    setting: str
    metric: str
    printed_model: str
    printed: float
    printed_text: str
    relation: str
    measured_model: str
    measured: float | None
    low: float | None
    high: float | None
    n: int | None
    comparable: bool
    words: str


def check(study: Study, rows: Sequence[Row], *, quick: bool = False) -> list[Checked]:
    """Every printed number beside every measured model's. `quick`: the run took a subsample, which compares with nothing."""
    own = tuple(row for row in rows if row.study in ("", study.name))
    models = list(dict.fromkeys(row.model for row in own)) or [""]
    tables = {table.name: table for table in study.tables}
    hubs = {model.name: model.hub for model in study.models}
    seen = {model: Evidence(source="measured", rows=tuple(row for row in own if row.model == model)) for model in models}
    return [
        _beside(cell, tables[cell.table], seen[model], model, hub=hubs[cell.row.model], quick=quick)
        for cell in study.printed
        if tables[cell.table].pool != "none"
        for model in models
    ]


def _beside(cell: Printed, table: Table, seen: Evidence, model: str, *, hub: Sequence[str], quick: bool) -> Checked:
    found = _measured(cell.row, table, seen)
    same = model in hub and bool(model)
    comparable = found is not None and same and not quick
    return Checked(
        table=table.name,
        source=cell.source,
        standing=cell.standing,
        task=cell.row.task,
        state=cell.row.state,
        setting=cell.row.setting,
        metric=cell.row.metric,
        printed_model=cell.row.model,
        printed=cell.row.value,
        printed_text=cell.text,
        relation=cell.relation,
        measured_model=model,
        measured=None if found is None else found.value,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        n=None if found is None else found.n,
        comparable=comparable,
        words=_words(cell, found, model, same=same, quick=quick),
    )


def _words(cell: Printed, found: Row | None, model: str, *, same: bool, quick: bool) -> str:
    if found is None:
        return "not measured"
    reported = "; the printed number is reported, no target" if cell.standing == "reported" else ""
    if not same:
        return f"{model} is not the paper's {cell.row.model}: beside it, no reproduction{reported}"
    if quick:
        return f"the paper's model on a subsample: beside it, no reproduction{reported}"
    if cell.relation != "=":
        holds = found.value > cell.row.value if cell.relation == ">" else found.value < cell.row.value
        return f"the paper's model: {'as' if holds else 'not as'} stated ({cell.relation} {cell.text}){reported}"
    anew = "" if cell.row.state == "pre-trained" else ", trained anew"
    return f"the paper's model{anew}: {found.value - cell.row.value:+.3g} against the printed number{reported}"


def _measured(cell: Row, table: Table, seen: Evidence) -> Row | None:
    """The measured row of a printed cell, pooled over seeds as its table is; None where there is none."""
    setting = cell.setting if table.measured_setting is None else table.measured_setting
    metric, spread = cell.metric.removesuffix("_sd"), cell.metric.endswith("_sd")
    where = {name: value for name in ("state", "task") if (value := getattr(cell, name))} | {"setting": setting}
    rows = [row for row in seen.find(metric, **where) if math.isfinite(row.value)]
    if table.pool == "lowest":
        return min(rows, key=lambda row: row.value, default=None)
    rows = seen.last(rows)
    if not rows:
        return None
    if spread:
        values = [row.value for row in rows]
        return _pooled(rows, statistics.stdev(values)) if len(values) > 1 else None
    if len(rows) == 1:
        return rows[0]
    if by := table.pool_by.get(metric):
        order = sorted(seen.last(seen.find(by, **where)), key=lambda row: row.value)
        return next((row for row in rows if row.seed == order[(len(order) - 1) // 2].seed), None)
    values = [row.value for row in rows]
    return _pooled(rows, statistics.median(values) if table.pool == "median" else statistics.fmean(values))


def _pooled(rows: Sequence[Row], value: float) -> Row:
    return Row(metric=rows[0].metric, value=value, n=len(rows))
