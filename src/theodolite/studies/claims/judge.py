"""What becomes of a study's claims: each rule on the measured rows of each model, and on the rows that the sources print."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from theodolite.core.result import Judged, Verdict
from theodolite.core.rows import Row
from theodolite.studies.claims.evidence import Evidence
from theodolite.studies.claims.rules import RULES
from theodolite.studies.printed import PrintedValue
from theodolite.studies.spec import Claim, StudySpec


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A check of printed numbers against one another, and what it found in each group of sources."""

    id: str
    title: str
    criterion: str
    printed: tuple[Judged, ...]


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
    own = tuple(row for row in rows if row.study in ("", spec.name))
    models = list(dict.fromkeys(row.model for row in own))
    verdicts = []
    for claim in spec.claims:
        printed = _judge_printed(spec, claim)
        together = RULES[claim.rule].scope == "models" or not models
        for model in [", ".join(models)] if together else models:
            evidence = own if together else tuple(row for row in own if row.model == model)
            measured = _judge_measured(spec, claim, evidence, model, own_tasks or {})
            verdicts.append(
                Verdict(claim=claim.id, title=claim.title, rule=claim.criterion, model=model, measured=measured, printed=printed)
            )
    return verdicts


def audit_tables(spec: StudySpec) -> list[Audit]:
    """What the study's audits find in the printed tables."""
    return [
        Audit(id=audit.id, title=audit.title, criterion=audit.criterion, printed=_judge_printed(spec, audit))
        for audit in spec.audits
    ]


def study_notes(spec: StudySpec) -> list[str]:
    """The study's notes, and what its audits find wrong in the printed tables."""
    verdicts = [(audit.title, judged) for audit in audit_tables(spec) for judged in audit.printed]
    return [*spec.notes, *(f"{title}: {judged.why}." for title, judged in verdicts if judged.outcome == "does not hold")]


def _judge_measured(spec: StudySpec, claim: Claim, rows: tuple[Row, ...], model: str, own_tasks: Mapping[str, str]) -> Judged:
    decide = claim.decide.replace("{model}", model or "MODEL").replace("{study}", shlex.quote(spec.reference))
    if not rows:
        return Judged(source="measured", outcome="not decidable here", why=f"nothing was measured; to decide it: {decide}")
    parameters, score = dict(claim.parameters), {**spec.score, **own_tasks}
    if own_tasks and "tasks" in parameters:
        parameters["tasks"] = list(dict.fromkeys(row.task for row in rows if row.task))
    evidence = Evidence(source="measured", rows=rows, decide=decide, score=score, repeats=spec.repeats)
    return RULES[claim.rule](evidence, parameters)


def _judge_printed(spec: StudySpec, claim: Claim) -> tuple[Judged, ...]:
    rule, verdicts = RULES[claim.rule], []
    for group in claim.printed:
        values = [value for value in spec.printed if value.source in group]
        whole = _printed_evidence(spec, " + ".join(group), values)
        if rule.scope == "models":
            verdicts.append(rule(whole, claim.parameters))
            continue
        for model in whole.models:
            own = _printed_evidence(spec, f"{whole.source}, {model}", (value for value in values if value.row.model == model))
            verdict = rule(own, claim.parameters)
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
