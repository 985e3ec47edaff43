"""What a claim takes for granted: an encoder that is pre-trained, and tasks that were learned. Each is tested on records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from theodolite.core.intervals import share_interval
from theodolite.core.measures import label_of
from theodolite.core.rows import Row
from theodolite.core.spelling import option
from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.studies.claims.evidence import UNDECLARED, Evidence, Missing, Number, combined
from theodolite.tasks.scores import ONE_SIDED, Learning, accuracy_learning, has_one_answer, lower_limit

# Scores that a model which ignores the input has no fixed value of; the encoder before it is tuned stands for it.
SIMILARITIES = ("spearman", "pearson")


@dataclass(frozen=True)
class Premises:
    """What a claim takes for granted, as its study's file declares it."""

    learned: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)


def unmet_origin(evidence: Evidence) -> str:
    """Which encoder is not known to be pre-trained, and what it is; empty if all of them are."""
    for model in evidence.models:
        origin = evidence.origins.get(model)
        if origin is None or origin.kind == UNDECLARED:
            way = f"declare it with {option('origin', PRE_TRAINED)} if its last training was language modelling"
            return f"a pre-trained encoder ({model} is undeclared; {way})"
        if origin.kind != PRE_TRAINED:
            return f"a pre-trained encoder ({model} is {origin.about or origin.kind})"
    return ""


def unlearned(evidence: Evidence, task: str, learned: Mapping[str, Any]) -> str:
    """Why a task does not count as learned, with the number; empty if it does, for every model of the evidence.

    In the seed with the median score, the one-sided 95% lower limit over items must be above what ignores the input: the share of
    the largest class, 0 for Matthews, and for a similarity the encoder before it was tuned.
    """
    fields = {"state": FINE_TUNED, **{name: value for name, value in learned.items() if name not in ("metric", "tasks", "needs")}}
    for model in evidence.models:
        reason = _unlearned(evidence.of_model(model), task, learned["metric"], fields)
        if reason:
            return reason if len(evidence.models) == 1 else f"{model}: {reason}"
    return ""


def _unlearned(evidence: Evidence, task: str, metric: str, fields: Mapping[str, Any]) -> str:
    rows = [row for row in evidence.final(evidence.find(metric, task=task, **fields)) if np.isfinite(row.value)]
    if not rows:
        raise Missing(f"{metric}, {task}, {fields['state']}")
    row = sorted(rows, key=lambda row: row.value)[(len(rows) - 1) // 2]
    answers = evidence.records.predictions.get((row.model, row.state, task, row.seed))
    if row.metric in SIMILARITIES and answers is None:
        untuned = evidence.numbers(metric, {**fields, "task": task, "state": PRE_TRAINED})
        gain = combined(lambda a, b: a - b, evidence.number(row), next(iter(untuned.values())))
        return _not_above_zero(f"{row.metric} gained", gain, "what it gained over the untuned encoder")
    if answers is not None and has_one_answer(answers[1]):
        return f"not learned: it answers one class for every text ({row.metric} {row.value:.3f})"
    if row.metric == "accuracy" and answers is not None:
        return _reason(row.metric, accuracy_learning(*answers))
    if row.metric == "accuracy":
        share = _majority_share(evidence, row)
        low, _ = share_interval(round(row.value * (row.n or 1)), row.n or 1, level=ONE_SIDED)
        return _reason(row.metric, Learning(row.value, low, share, "the share of the largest class"))
    return _not_above_zero(row.metric, evidence.number(row), "what ignoring the input gives")


def _majority_share(evidence: Evidence, row: Row) -> float:
    """The share of the largest class, of the split that the score is of if there is one."""
    rows = evidence.find("majority_share", task=row.task)
    if not rows or not row.n:
        raise Missing("the share of its largest class was not measured")
    return next((share.value for share in rows if share.split == row.split), rows[0].value)


def _not_above_zero(name: str, number: Number, what: str) -> str:
    if number.items is None:
        raise Missing(f"item-level records of {name}")
    return _reason(name, Learning(number.value, lower_limit(number.value, number.items, number.n), 0.0, what))


def _reason(name: str, learning: Learning) -> str:
    baseline = f"{learning.baseline:.3f}" if learning.baseline else "0"
    score = f"{name} {learning.value:.3f}, whose 95% lower limit {learning.low:.3f}"
    return "" if learning.low > learning.baseline else f"not learned: {score} is not above {baseline} ({learning.what})"


def grouped_reasons(reasons: Mapping[str, str]) -> str:
    """Tasks with why they are left out, each reason once."""
    tasks: dict[str, list[str]] = {}
    for task, why in reasons.items():
        tasks.setdefault(why, []).append(task)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in tasks.items())


@dataclass(frozen=True)
class Entered:
    """The tasks that enter a claim, those that do not with the reason, and why nothing can be judged if so."""

    tasks: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""
    unlearned: bool = False


def entered_tasks(evidence: Evidence, tasks: Sequence[str], premises: Premises) -> Entered:
    """The tasks of a claim that were run and learned. One that was not run is named; a claim needs at least one that was.

    With `needs`, a task enters only if that was measured on it: an encoder may be tuned on a task whose labels are not probed.
    """
    left_out = {task: reason for task, reason in premises.left_out.items() if any(row.task == task for row in evidence.rows)}
    if not premises.learned:
        return Entered(tuple(tasks), left_out)
    required, needs = premises.learned.get("tasks", ()), premises.learned.get("needs")
    candidates = required or tasks or dict.fromkeys(row.task for row in evidence.find(premises.learned["metric"]) if row.task)
    learned, failed, absent = [], {}, {}
    for task in candidates:
        if needs and not evidence.find(needs, task=task):
            absent[task] = (
                f"{label_of(needs)} was not measured on it" if any(row.task == task for row in evidence.rows) else "not run"
            )
            continue
        try:
            reason = unlearned(evidence, task, premises.learned)
        except Missing as error:
            absent[task] = str(error) if any(row.task == task for row in evidence.rows) else "not run"
            continue
        if reason:
            failed[task] = reason
        else:
            learned.append(task)
    left_out |= failed | absent
    if (required and len(learned) < len(required)) or not learned:
        reasons = grouped_reasons({**failed, **absent})
        what = "tasks that were learned" if required else "a task that was learned"
        return Entered((), left_out, f"{what} ({reasons or 'nothing was run'})", bool(failed))
    return Entered(tuple(tasks) if required else tuple(learned), left_out)
