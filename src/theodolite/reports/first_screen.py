"""The first screen of a page: what was measured, on what and when, the conclusion, and the figure that carries it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from theodolite.core.numbers import number_text
from theodolite.core.result import VERDICTS, Answer
from theodolite.core.states import AFTER, BEFORE, DIFFERENCE
from theodolite.metrics.registry import label_of
from theodolite.reports.displays import of_last_layer
from theodolite.reports.wording import COMMAND, FACT, clean, measured_lines, verdict_look

if TYPE_CHECKING:
    from theodolite.core.result import Result
    from theodolite.core.rows import Row

# The figures that carry a page of each verb, by the ids of their sections: the first that the page has, and those next to it.
CARRYING: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "survey": (("figures-ranges", "figures-similarities"), ("figures-similarities",), ("figures-isotropy-by-layer",)),
    "compare": (("figures-isotropy-by-layer", "figures-changes"), ("figures-similarities",)),
    "study": tuple((f"figures-{name}",) for name in ("claims", "repair-gains", "centroid-movement", "isotropy-by-layer")),
    "tune": (("figures-training",),),
    "probe": (("figures-label-distances",),),
    "advise": (("figures-gains",),),
    "calibrate": (("figures-similarities",),),
}
# Metrics that the conclusion of a comparison names, those that were measured first.
NAMED = ("mean_cosine", "iso_score", "effective_rank")


def opening(results: Sequence[Result], context: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows first, and the sections of figures that are left for later."""
    sections = {section["id"]: section for section in context["figures"]}
    result = results[0]
    carrying: list[dict[str, Any]] = []
    if len(results) == 1:
        choices = CARRYING.get(result.verb, ())
        names = next((choice for choice in choices if choice[0] in sections), ())
        carrying = [{**sections[name]["figures"][0], "section": name} for name in names if name in sections]
    shown = {figure["id"] for figure in carrying}
    left = [{**section, "figures": [f for f in section["figures"] if f["id"] not in shown]} for section in context["figures"]]
    return {
        "answers": [
            _answer(run["name"] if len(results) > 1 else "", each) for run, each in zip(context["runs"], results, strict=True)
        ],
        "facts_line": " · ".join(_facts(result)) if len(results) == 1 else "",
        "conditions": [clean(note, FACT) for each in results for note in each.conditions],
        "carrying": carrying,
        "figures": [_with_one_note(section) for section in left if section["figures"]],
        "folded": bool(context["counts"]) or result.verb == "study",
    }


def _with_one_note(section: Mapping[str, Any]) -> dict[str, Any]:
    """The section with what all its figures say of themselves said once."""
    figures, notes = section["figures"], {figure["note"] for figure in section["figures"]}
    if len(figures) == 1 or len(notes) > 1:
        return {**section, "note": ""}
    return {**section, "note": notes.pop(), "figures": [{**figure, "note": ""} for figure in figures]}


def _answer(run: str, result: Result) -> dict[str, Any]:
    """The answer of a result for the template; of a result without one, what it came to."""
    answer = result.answer or Answer(verdict="", sentence=conclusion_of(result))
    sign, kind = verdict_look(answer.verdict)
    is_word = any(answer.verdict in words for words in VERDICTS.values())
    return {
        "run": run,
        "verdict": answer.verdict if is_word else "",
        "sign": sign,
        "kind": kind,
        "sentence": clean(answer.sentence, FACT),
        "reasons": [clean(reason, FACT) for reason in answer.reasons],
        "commands": [{"why": clean(command.why, FACT), "words": clean(command.words, COMMAND)} for command in answer.next],
    }


def conclusion_of(result: Result) -> str:
    """One sentence that says what a result came to; empty if nothing was concluded."""
    if result.verb == "survey":
        return _of_findings(result)
    if result.verb == "compare":
        return _of_changes(result.rows)
    if result.verb in ("probe", "advise", "calibrate"):
        note = next(iter(result.notes), "")
        return f"{note[:1].upper()}{note[1:].rstrip('.')}." if note else ""
    return ""


def _of_findings(result: Result) -> str:
    if not result.findings:
        return "The numbers were measured and not judged."
    bad, watch = ([f.topic for f in result.findings if f.verdict == verdict] for verdict in ("bad", "watch"))
    total = len(result.findings)
    if not bad and not watch:
        return f"All {total} checks are in the healthy range."
    parts = [f"{len(bad)} of {total} checks {'is' if len(bad) == 1 else 'are'} bad ({', '.join(bad)})" if bad else ""]
    parts.append(f"{len(watch)} {'is' if len(watch) == 1 else 'are'} worth a look ({', '.join(watch)})" if watch else "")
    return f"{_and(list(filter(None, parts)))}; the others are healthy."


def _of_changes(rows: Sequence[Row]) -> str:
    last = of_last_layer(rows)
    layer = next((f"In layer {row.layer}, " for row in last if row.layer is not None), "")
    values = {(row.metric, row.state): row.value for row in last}
    parts: list[str] = []
    for metric in [*NAMED, *dict.fromkeys(row.metric for row in last if row.metric not in NAMED)]:
        ends = [values.get((metric, state), math.nan) for state in _two_states(last)]
        if all(map(math.isfinite, ends)) and len(parts) < len(NAMED):
            parts.append(_change(metric, *ends))
    differences = [row for row in last if row.state == DIFFERENCE and row.low is not None and row.high is not None]
    clear = [row for row in differences if row.low is not None and row.high is not None and not row.low <= 0 <= row.high]
    counted = f"; {len(clear)} of {len(differences)} metrics differ beyond doubt (95% intervals)" if differences else ""
    text = f"{layer}{_and(parts)}{counted}."
    return text[:1].upper() + text[1:] if parts else ""


def _two_states(rows: Sequence[Row]) -> list[str]:
    states = [state for state in dict.fromkeys(row.state for row in rows) if state != DIFFERENCE]
    return states if len(states) == 2 else [BEFORE, AFTER]


def _change(metric: str, before: float, after: float) -> str:
    first, last = number_text(before), number_text(after)
    return f"{label_of(metric)} stays at {last}" if first == last else f"{label_of(metric)} goes from {first} to {last}"


def _facts(result: Result) -> Iterator[str]:
    """What it was measured on, and when."""
    yield from measured_lines(result)[:2]
    versions = str(result.provenance.get("versions") or "").split("; ")
    facts = [str(result.provenance.get("date") or ""), *(each for each in versions if each.startswith("theodolite "))]
    yield from (clean(fact, 40) for fact in facts if fact)


def _and(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
