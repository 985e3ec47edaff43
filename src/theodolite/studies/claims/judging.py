"""What becomes of claims and printed numbers: each rule on measured and on printed rows, and measured next to printed cells."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.core.result import Judged, Verdict
from theodolite.core.rows import Row
from theodolite.core.states import PRE_TRAINED
from theodolite.studies.claims.evidence import Evidence
from theodolite.studies.claims.rules import RULES
from theodolite.studies.spec import Claim, PrintedTable, PrintedValue, StudySpec

# What a run is called among the sources of printed numbers.
MEASURED = "measured here"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A printed number and what was measured in its cell.

    Only the paper's own model can be compared; any other is only shown next to it.

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


def judge_claims(spec: StudySpec, rows: Sequence[Row], *, own_tasks: Mapping[str, str] | None = None) -> list[Verdict]:
    """A verdict for each claim and each model in the rows; a rule that compares models gives one for all of them.

    Parameters
    ----------
    spec
        The study.
    rows
        What was measured; rows of other studies are left out.
    own_tasks
        The metric of each task that the run was given in place of the study's. Claims over several tasks are then judged over
        the tasks that were measured.
    """
    by_model = _rows_by_model(spec, rows)
    together = {", ".join(by_model): tuple(row for own in by_model.values() for row in own)}
    verdicts = []
    for claim in spec.claims:
        printed, is_of_models = _judge_printed(spec, claim), RULES[claim.rule].scope == "models"
        for model, own in (together if is_of_models or not by_model else by_model).items():
            measured = _judge_measured(spec, claim, own, model, own_tasks or {})
            about = {"claim": claim.id, "title": claim.title, "rule": claim.criterion, "model": model}
            verdicts.append(Verdict(**about, measured=measured, printed=printed))
    return verdicts


def audit_tables(spec: StudySpec) -> dict[str, tuple[Judged, ...]]:
    """What each of the study's audits finds in the printed tables, by the audit's id."""
    return {audit.id: _judge_printed(spec, audit) for audit in spec.audits}


def study_notes(spec: StudySpec) -> list[str]:
    """The study's notes, and what its audits find wrong in the printed tables."""
    titles, audits = {audit.id: audit.title for audit in spec.audits}, audit_tables(spec)
    wrong = [(titles[id], judged.why) for id in audits for judged in audits[id] if judged.outcome == "does not hold"]
    return [*spec.notes, *(f"{title}: {why}." for title, why in wrong)]


def _rows_by_model(spec: StudySpec, rows: Sequence[Row]) -> dict[str, tuple[Row, ...]]:
    own = [row for row in rows if row.study in ("", spec.name)]
    return {model: tuple(row for row in own if row.model == model) for model in dict.fromkeys(row.model for row in own)}


def _judge_measured(spec: StudySpec, claim: Claim, rows: tuple[Row, ...], model: str, own_tasks: Mapping[str, str]) -> Judged:
    decide = claim.decide.replace("{model}", model or "MODEL").replace("{study}", shlex.quote(spec.reference))
    if not rows:
        return Judged(source="measured", outcome="not decidable here", why=f"nothing was measured; to decide it: {decide}")
    parameters, score = dict(claim.parameters), {**spec.score, **own_tasks}
    if own_tasks and "tasks" in parameters:
        parameters["tasks"] = list(dict.fromkeys(row.task for row in rows if row.task))
    evidence = Evidence(source="measured", rows=rows, decide=decide, score=score, repeats=spec.repeats)
    return RULES[claim.rule].judge(evidence, **parameters)


def _judge_printed(spec: StudySpec, claim: Claim) -> tuple[Judged, ...]:
    rule, verdicts = RULES[claim.rule], []
    for group in claim.printed:
        values = [value for value in spec.printed if value.source in group]
        whole = _printed_evidence(spec, " + ".join(group), values)
        if rule.scope == "models":
            verdicts.append(rule.judge(whole, **claim.parameters))
            continue
        for model in whole.models:
            own = _printed_evidence(spec, f"{whole.source}, {model}", (value for value in values if value.row.model == model))
            verdict = rule.judge(own, **claim.parameters)
            # A table that lacks what the rule needs says less than the sentence of the text that comes below.
            if verdict.outcome != "not decidable here" or not claim.stated:
                verdicts.append(verdict)
    if claim.stated:
        why = f"the text states, without the numbers that the rule needs: {claim.stated}"
        verdicts.append(Judged(source=f"{spec.source} text", outcome="not decidable here", why=why))
    return tuple(verdicts)


def _printed_evidence(spec: StudySpec, source: str, values: Iterable[PrintedValue]) -> Evidence:
    halves = {value.row: value.half for value in values}
    widths = {model.name: model.d for model in spec.models if model.d}
    return Evidence(source=source, rows=tuple(halves), printed=True, score=spec.score, halves=halves, widths=widths)


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
    by_model = _rows_by_model(spec, rows) or {"": ()}  # without any row the printed numbers are listed all the same
    evidence = {model: Evidence(source="measured", rows=own) for model, own in by_model.items()}
    tables = {table.name: table for table in spec.printed_tables}
    hub_ids = {model.name: model.hub for model in spec.models}
    comparisons = []
    for value in spec.printed:
        if tables[value.table].pool == "none":
            continue
        for model in by_model:
            row, same = _measured_row(value.row, tables[value.table], evidence[model]), model in hub_ids[value.row.model]
            comparable = row is not None and same and not quick
            words = _words(value, row, model, same=same, quick=quick)
            comparisons.append(Comparison(printed=value, model=model, measured=row, comparable=comparable, words=words))
    return comparisons


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
    measured = {comparison.printed.table for comparison in comparisons if comparison.measured is not None}
    records: dict[tuple[Any, ...], None] = {}  # as keys: the cell of two sources is measured once
    for comparison in comparisons:
        cell, table, row = comparison.printed.row, comparison.printed.table, comparison.measured
        place = (titles[table], cell.task, cell.state, cell.setting, cell.metric)
        if table in measured:
            records[*place, comparison.printed.source, cell.model, cell.value, None, None] = None
        if row is not None:
            records[*place, MEASURED, comparison.model, row.value, row.low, row.high] = None
    names = ("table", "task", "state", "setting", "metric", "source", "model", "value", "low", "high")
    return [dict(zip(names, record, strict=True)) for record in records]


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
