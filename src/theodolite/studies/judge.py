"""What becomes of a study's claims: each rule on the measured rows of each model, and on the rows that the sources print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from theodolite.core.result import Judged, Verdict
from theodolite.core.rows import Row
from theodolite.studies.printed import Printed
from theodolite.studies.rules import RULES, Evidence
from theodolite.studies.spec import Claim, Study


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A check of printed numbers against one another."""

    check: str
    title: str
    rule: str
    printed: tuple[Judged, ...]


def judge(study: Study, rows: Sequence[Row]) -> list[Verdict]:
    """A verdict for each claim and each model in the rows; a rule that compares models gives one for all of them."""
    own = tuple(row for row in rows if row.study in ("", study.name))
    models = list(dict.fromkeys(row.model for row in own))
    verdicts = []
    for claim in study.claims:
        printed = _on_printed(study, claim)
        every = [", ".join(models)] if RULES[claim.rule].scope == "models" or not models else models
        for model in every:
            seen = own if RULES[claim.rule].scope == "models" else tuple(row for row in own if row.model == model)
            verdicts.append(
                Verdict(
                    claim=claim.id,
                    title=claim.title,
                    rule=claim.asks,
                    model=model,
                    measured=_on_measured(study, claim, seen, model),
                    printed=printed,
                )
            )
    return verdicts


def audit(study: Study) -> list[Audit]:
    """What the study's checks find in the printed tables."""
    return [Audit(check=one.id, title=one.title, rule=one.asks, printed=_on_printed(study, one)) for one in study.checks]


def notes_of(study: Study) -> list[str]:
    """The study's notes, and what its checks find wrong in the printed tables."""
    found = [f"{one.title}: {judged.why}." for one in audit(study) for judged in one.printed if judged.outcome == "does not hold"]
    return [*study.notes, *found]


def _on_measured(study: Study, claim: Claim, rows: tuple[Row, ...], model: str) -> Judged:
    decide = claim.decide.replace("{model}", model or "MODEL")
    if not rows:
        return Judged(source="measured", outcome="not decidable here", why=f"nothing was measured; to decide it: {decide}")
    evidence = Evidence(source="measured", rows=rows, decide=decide, score=study.score, repeats=study.repeats)
    return RULES[claim.rule](evidence, claim.parameters)


def _on_printed(study: Study, claim: Claim) -> tuple[Judged, ...]:
    found: list[Judged] = []
    for group in claim.printed:
        cells = [one for one in study.printed if one.source in group]
        whole = _evidence(study, " + ".join(group), cells)
        if RULES[claim.rule].scope == "models":
            found.append(RULES[claim.rule](whole, claim.parameters))
            continue
        for model in whole.models:
            own = _evidence(study, f"{whole.source}, {model}", (one for one in cells if one.row.model == model))
            verdict = RULES[claim.rule](own, claim.parameters)
            if verdict.outcome != "not decidable here" or not claim.stated:
                found.append(verdict)
    if claim.stated:
        why = f"the text states, without the numbers that the rule needs: {claim.stated}"
        found.append(Judged(source=f"{study.source} text", outcome="not decidable here", why=why))
    return tuple(found)


def _evidence(study: Study, source: str, cells: Iterable[Printed]) -> Evidence:
    rows = {one.row: one.half for one in cells}
    return Evidence(
        source=source,
        rows=tuple(rows),
        printed=True,
        score=study.score,
        halves=rows,
        widths={model.name: model.d for model in study.models if model.d},
    )
