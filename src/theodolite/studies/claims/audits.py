"""Audits: checks of printed numbers against one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.core.result import Effect, Judged, Outcome
from theodolite.core.rows import Row
from theodolite.studies.claims.evidence import Evidence, Missing
from theodolite.studies.claims.rules import Names, rule


def _value(evidence: Evidence, metric: str, **fields: Any) -> float | None:
    try:
        return evidence.numbers(metric, fields)[None].value
    except (Missing, KeyError):
        return None


def _judged(evidence: Evidence, count: int, wrong: Names, why: str, effects: Sequence[Effect]) -> Judged:
    outcome: Outcome = "not printed" if not count else "disagrees" if wrong else "agrees"
    return Judged(source=evidence.source, outcome=outcome, why=why, effects=tuple(effects))


@rule("gains agree with values", audit=True)
def gains_agree(evidence: Evidence, *, metrics: Names, states: Names, suffix: str) -> Judged:
    """Each printed gain is the second state's value over the first's, minus 1, to half a unit of its last printed digit."""
    wrong, effects, count = [], [], 0
    for gain in [row for metric in metrics for row in _task_rows(evidence, f"{metric}{suffix}")]:
        own = evidence.of_model(gain.model)
        before, after = (_value(own, gain.metric.removesuffix(suffix), task=gain.task, state=state) for state in states)
        if before is None or after is None:
            continue
        count += 1
        computed = after / before - 1
        # Some gains are off by exactly half a unit, which rounding errors must not turn into more.
        if abs(computed - gain.value) > evidence.halves.get(gain, 0.0) * 1.001 + 1e-12:
            name = f"{gain.task} {gain.model} {gain.metric}"
            wrong.append(f"{name} {gain.value:+.1%} should be {computed:+.1%}")
            effects.append(Effect(name=name, value=computed, how=f"from the printed values; printed {gain.value:.4g}"))
    why = "; ".join([f"{count - len(wrong)} of {count} printed gains are what the printed values give", *wrong])
    return _judged(evidence, count, wrong, why, effects)


@rule("smaller in every cell", audit=True)
def smaller_in_every_cell(evidence: Evidence, *, models: Names, metrics: Names, tasks: Names, states: Names) -> Judged:
    """For the named models, in every task, every metric is smaller in the first state than in the second."""
    wrong, effects = [], []
    for model, task, metric in ((model, task, metric) for model in models for task in tasks for metric in metrics):
        first, second = (_value(evidence.of_model(model), metric, task=task, state=state) for state in states)
        if first is None or second is None:
            continue
        effects.append(Effect(name=f"{task} {model} {metric}", value=first - second, how="as printed"))
        if first >= second:
            wrong.append(f"{effects[-1].name} {first - second:+.3g}")
    why = f"{len(effects) - len(wrong)} of {len(effects)} as claimed" + (f"; contradicting: {', '.join(wrong)}" if wrong else "")
    return _judged(evidence, len(effects), wrong, why, effects)


@rule("IsoScore within explained variance", audit=True)
def within_explained_variance(evidence: Evidence, *, metric: str, explained: Names, centred: bool) -> Judged:
    """Each printed IsoScore is at most what the printed EV of the same task, model and state allows in the model's dimension.

    EV is taken as of the centred cloud or, as written, of the uncentred one, which allows more. The rounding of the printed
    digits is not searched: the excess is shown, and is what matters.
    """
    wrong, effects = [], []
    for row in _task_rows(evidence, metric):
        own, width = evidence.of_model(row.model), evidence.widths.get(row.model)
        values = [_value(own, name, task=row.task, state=row.state) for name in explained]
        shares = [value for value in values if value is not None]
        if width is None or len(shares) < len(explained):
            continue
        bound = largest_iso_score(shares, width, centred=centred)
        name = f"{row.task} {row.model} {row.state}"
        effects.append(Effect(name=name, value=row.value - bound, how=f"printed {row.value:g} minus the bound {bound:.3g}"))
        if row.value > bound:
            wrong.append(f"{name} {row.value:g} > {bound:.2g}")
    reading, count = "centred" if centred else "uncentred, as written", len(effects)
    why = f"with EV read as {reading}, {len(wrong)} of {count} printed IsoScores exceed what it allows"
    return _judged(evidence, count, wrong, why + (f" ({', '.join(wrong)})" if wrong else ""), effects)


def largest_iso_score(explained: Sequence[float], d: int, *, centred: bool) -> float:
    """The largest IsoScore, in [0, 1], that a cloud with a given explained variance can have.

    IsoScore is of the covariance. If EV is too (`centred`), the shares of the first k directions are known and the rest is best
    spread evenly: PR = 1/(p1² + … + pk² + (1 - EVk)²/(d - k)). EV as IL23 writes it is of the second moments M, and the
    covariance is C = M - μμᵀ, so that the mean may be what fills the first direction. Then all that is known is that the
    eigenvalues interlace, m(i+1) <= c(i) <= m(i), and any such c has a mean that gives it. PR is largest if each c(i) is as
    near as it may be to one number t = Σc²/Σc.

    Parameters
    ----------
    explained
        EV 1, EV 2, …, each in (0, 1].
    d
        The dimension of the cloud.
    centred
        Whether EV is of the centred cloud.
    """
    shares = np.diff([0.0, *explained])
    k, rest = len(shares), (1.0 - explained[-1]) / (d - len(shares))
    if not 0 < k < d or (np.diff([*shares, rest]) > 1e-9).any() or rest < -1e-12:
        raise ValueError(
            f"explained variance {list(explained)} must rise by ever smaller steps to at most 1, for fewer than d={d} directions"
        )
    upper = np.append(shares, np.full(d - k, rest))
    values = upper if centred else _evened(upper, np.append(upper[1 : k + 1], np.full(d - k, rest)))
    ratio = values.sum() ** 2 / np.square(values).sum()
    return float((ratio - 1) / (d - 1))


def _evened(upper: Doubles, lower: Doubles) -> Doubles:
    """The values between the bounds with the largest participation ratio: Σ c(c - t) falls in t, and is 0 at the best t."""
    low, high = float(upper[-1]), float(upper[0])
    for _ in range(200):  # bisection, far beyond the precision of a double
        middle = (low + high) / 2
        values = np.clip(middle, lower, upper)
        low, high = (middle, high) if float((values * (values - middle)).sum()) > 0 else (low, middle)
    return np.asarray(np.clip((low + high) / 2, lower, upper))


def _task_rows(evidence: Evidence, metric: str) -> list[Row]:
    """Rows of a metric; "score" is each task's own."""
    tasks = dict.fromkeys(row.task for row in evidence.rows)
    return [row for task in tasks for row in evidence.find(metric, task=task)]
