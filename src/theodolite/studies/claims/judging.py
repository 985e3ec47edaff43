"""What becomes of claims and printed numbers: each rule on measured and on printed rows, and measured next to printed cells."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from theodolite.core.result import OUTCOMES, Answer, Command, Judged, Result, Verdict
from theodolite.core.rows import Row
from theodolite.core.spelling import shell_word
from theodolite.core.states import PRE_TRAINED
from theodolite.studies.claims.evidence import SEEDS, Evidence, ModelOrigin, Records
from theodolite.studies.claims.rules import judge
from theodolite.studies.spec import Claim, PrintedTable, PrintedValue, StudySpec

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, kw_only=True)
class PrintedComparison:
    """A printed number and what was measured in its cell.

    Only the paper's own model can be compared; any other is only shown next to it.
    """

    printed: PrintedValue
    model: str
    measured: Row | None
    comparable: bool
    words: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """A run checked again: every printed number next to the measured ones, and the verdicts on the claims.

    `quick` says whether the run used the small sizes, which decide nothing for good; `result` is the run with these verdicts.
    """

    comparisons: tuple[PrintedComparison, ...]
    verdicts: tuple[Verdict, ...]
    quick: bool
    result: Result


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """How the user called the run, so that a command for what is missing can be pasted."""

    models: Mapping[str, str] = field(default_factory=dict)
    options: str = ""


def judge_claims(
    spec: StudySpec,
    rows: Sequence[Row],
    records: Mapping[str, pyarrow.Table] | None = None,
    *,
    own_tasks: Mapping[str, str] | None = None,
    rerun: Rerun | None = None,
    origins: Mapping[str, ModelOrigin] | None = None,
    quick: bool = False,
) -> list[Verdict]:
    """A verdict for each claim and each model in the rows; a claim that compares models has one for all of them."""
    run = Evidence(
        source="measured", rows=_own_rows(spec, rows), records=Records(records), score={**spec.score, **(own_tasks or {})},
        origins=origins or {}, quick=quick,
    )  # fmt: skip
    models = run.models
    by_model = {model: run.of_model(model) for model in models}
    tasks = list(dict.fromkeys(row.task for row in run.rows if row.task)) if own_tasks else []
    verdicts = []
    for claim in spec.claims:
        printed = _judge_printed(spec, claim)
        for model, evidence in ({", ".join(models): run} if claim.scope == "models" or not models else by_model).items():
            measured = judge(
                evidence, claim.primary, claim.secondary, tasks=tasks or claim.tasks, premises=claim.premises, note=claim.note,
                command=claim.decide,
            )  # fmt: skip
            if measured.command:
                given = [model] if model in by_model else models
                measured = replace(measured, command=_command(spec, measured, given, rerun or Rerun()))
            fields = {"claim": claim.id, "title": measured.part or claim.title, "rule": claim.criterion, "model": model}
            verdicts.append(Verdict(**fields, measured=measured, printed=printed, stated=claim.stated))
    return verdicts


def study_answer(verdicts: Sequence[Verdict], rows: Sequence[Row]) -> Answer | None:
    """How many claims had each outcome and what would decide an open one; without claims, what repairs gain; or None."""
    if not verdicts:
        return _gains_answer(rows)
    counts = Counter(verdict.measured.outcome for verdict in verdicts)
    words = [f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]]
    models = len({verdict.model for verdict in verdicts})
    on = f" on {models} models" if models > 1 else ""
    open_claim = next((verdict for verdict in verdicts if verdict.measured.command), None)
    listed = " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    return Answer(
        verdict=", ".join(words),
        sentence=f"Of {len(verdicts)} claim{'s' if len(verdicts) > 1 else ''}{on}: {listed}.",
        next=(Command(words=open_claim.measured.command, why=f"would decide {open_claim.claim}"),) if open_claim else (),
    )


def _gains_answer(rows: Sequence[Row]) -> Answer | None:
    bounds = [(row.low, row.high) for row in rows if row.metric == "gain" and row.low is not None and row.high is not None]
    if not bounds:
        return None
    up, down = sum(low > 0 for low, _ in bounds), sum(high < 0 for _, high in bounds)
    sentence = f"Of {len(bounds)} gains, {up} are above 0 and {down} below by their 95% intervals; the other intervals include 0."
    return Answer(verdict=f"{up} above 0, {down} below", sentence=sentence)


def chance_note(verdicts: Sequence[Verdict]) -> str:
    """How many false verdicts chance alone would give; empty if nothing was judged."""
    judged = sum(verdict.measured.outcome in ("supported", "contradicted", "inconclusive") for verdict in verdicts)
    if not judged:
        return ""
    return f"Of {judged} claims judged, each at 5%, chance alone would give up to {0.05 * judged:.1f} false verdicts."


def _command(spec: StudySpec, measured: Judged, models: Sequence[str], rerun: Rerun) -> str:
    """The claim's command with the user's own study, models and options, and with as many seeds as would decide it."""
    locations = [shell_word(rerun.models.get(model, model)) for model in models if model] or ["MODEL"]
    paper = next((hub for model in spec.models for hub in model.hub), "")
    # If a premise fails, no run with the same encoder would decide it.
    if measured.unmet == "layers":
        locations = ["A-DEEPER-MODEL"]
    elif paper and measured.unmet:
        locations = [paper]
    command = measured.command.replace("{study}", shell_word(spec.reference)).replace("{model}", " --model ".join(locations))
    more = max((effect.more or 0 for effect in measured.effects if effect.more_of == SEEDS), default=0)
    if more:
        seeds = ",".join(map(str, range(max(measured.seeds, default=-1) + 1 + more)))
        command = re.sub(r"--seeds \S+", f"--seeds {seeds}", command)
    return " ".join(filter(None, [command, rerun.options]))


def _own_rows(spec: StudySpec, rows: Sequence[Row]) -> tuple[Row, ...]:
    own = tuple(row for row in rows if row.study in ("", spec.name))
    if rows and not own:
        others = ", ".join(sorted({row.study for row in rows}))
        raise ValueError(
            f"the rows are from the study {others}, not {spec.name}; give rows from {spec.name}, or check that study"
        )
    return own


def _judge_printed(spec: StudySpec, claim: Claim) -> tuple[Judged, ...]:
    verdicts = []
    widths = {model.name: model.d for model in spec.models if model.d}
    for group in claim.printed:
        rows = tuple(value.row for value in spec.printed if value.source in group)
        tables = Evidence(source=" + ".join(group), rows=rows, printed=True, score=spec.score, widths=widths)
        if claim.scope == "models":
            verdicts.append(judge(tables, claim.primary, tasks=claim.tasks))
            continue
        for model in tables.models:
            evidence = replace(tables.of_model(model), source=f"{tables.source}, {model}")
            verdict = judge(evidence, claim.primary, claim.secondary, tasks=claim.tasks)
            # A table that lacks what the claim needs says less than the sentence of the text that comes below.
            if verdict.outcome != "not printed" or not claim.stated:
                verdicts.append(verdict)
    if claim.stated:
        why = f"the text states, without the numbers that the claim needs: {claim.stated}"
        verdicts.append(Judged(source=f"{spec.source} text", outcome="not printed", why=why))
    return tuple(verdicts)


def compare_printed(spec: StudySpec, rows: Sequence[Row], *, quick: bool = False) -> list[PrintedComparison]:
    """Every printed number next to that of every measured model."""
    measured = Evidence(source="measured", rows=_own_rows(spec, rows))
    # Without any row the printed numbers are listed all the same.
    by_model = {model: measured.of_model(model) for model in measured.models} or {"": measured}
    tables = {table.name: table for table in spec.printed_tables}
    hub_ids = {model.name: model.hub for model in spec.models}
    comparisons = []
    for value in spec.printed:
        if tables[value.table].pool == "none":
            continue
        for model, evidence in by_model.items():
            row, same = _measured_row(value.row, tables[value.table], evidence), model in hub_ids[value.row.model]
            comparable = row is not None and same and not quick
            words = _words(value, row, model, same=same, quick=quick)
            comparisons.append(PrintedComparison(printed=value, model=model, measured=row, comparable=comparable, words=words))
    return comparisons


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
