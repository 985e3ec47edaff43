"""Rules that check a paper's printed numbers against one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.core.result import Effect, Judged, Outcome
from theodolite.core.rows import Row
from theodolite.studies.claims.evidence import Evidence, difference
from theodolite.studies.claims.rules import Part, conclude, judgement, rule


@rule("gains agree with values", scope="models")
def gains_agree(evidence: Evidence, *, metrics: Sequence[str], states: Sequence[str], suffix: str) -> Judged:
    """Each printed gain is the second state's value over the first's, minus 1, to half a unit of its last printed digit."""
    wrong, effects, count = [], [], 0
    for gain in [row for metric in metrics for row in _task_rows(evidence, f"{metric}{suffix}")]:
        own = evidence.of_model(gain.model)
        before, after = (own.estimate(gain.metric.removesuffix(suffix), task=gain.task, state=state) for state in states)
        if before is None or after is None:
            continue
        count += 1
        computed = after.value / before.value - 1
        # Some gains are off by exactly half a unit, which rounding errors must not turn into more.
        if abs(computed - gain.value) > evidence.halves.get(gain, 0.0) * 1.001 + 1e-12:
            name = f"{gain.task} {gain.model} {gain.metric}"
            wrong.append(f"{name} {gain.value:+.1%} should be {computed:+.1%}")
            effects.append(Effect(name=name, value=computed, how=f"from the printed values; printed {gain.value:.4g}"))
    why = "; ".join([f"{count - len(wrong)} of {count} printed gains are what the printed values give", *wrong])
    return judgement(evidence, _outcome(count, wrong), why, effects)


@rule("smaller in every cell", scope="models")
def smaller_in_every_cell(
    evidence: Evidence, *, models: Sequence[str], metrics: Sequence[str], tasks: Sequence[str], states: Sequence[str]
) -> Judged:
    """For the named models, in every task, every metric is smaller in the first state than in the second."""
    parts = []
    for model, task, metric in ((model, task, metric) for model in models for task in tasks for metric in metrics):
        first, second = (evidence.of_model(model).estimate(metric, task=task, state=state) for state in states)
        estimate = difference(first, second) if first and second else None
        name = f"{task} {model} {metric}"
        parts.append(Part(name=name, estimate=estimate, rises=False, missing=name))
    return conclude(evidence, parts)


@rule("IsoScore within explained variance", scope="models")
def within_explained_variance(evidence: Evidence, *, metric: str, explained: Sequence[str], centred: bool) -> Judged:
    """Each printed IsoScore is at most what the printed EV of the same task, model and state allows in the model's dimension.

    EV is taken as of the centred cloud or, as written, of the uncentred one, which allows more. The rounding of the printed
    digits is not searched: the excess is shown, and is what matters.
    """
    wrong, effects, count = [], [], 0
    for row in _task_rows(evidence, metric):
        own, width = evidence.of_model(row.model), evidence.widths.get(row.model)
        estimates = [own.estimate(name, task=row.task, state=row.state) for name in explained]
        shares = [estimate.value for estimate in estimates if estimate is not None]
        if width is None or len(shares) < len(explained):
            continue
        count += 1
        bound = largest_iso_score(shares, width, centred=centred)
        name = f"{row.task} {row.model} {row.state}"
        effects.append(Effect(name=name, value=row.value - bound, how=f"printed {row.value:g} minus the bound {bound:.3g}"))
        if row.value > bound:
            wrong.append(f"{name} {row.value:g} > {bound:.2g}")
    reading = "centred" if centred else "uncentred, as written"
    why = f"with EV read as {reading}, {len(wrong)} of {count} printed IsoScores exceed what it allows"
    return judgement(evidence, _outcome(count, wrong), why + (f" ({', '.join(wrong)})" if wrong else ""), effects)


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


def _outcome(count: int, wrong: Sequence[str]) -> Outcome:
    if not count:
        return "not decidable here"
    return "does not hold" if wrong else "holds"


def _task_rows(evidence: Evidence, metric: str) -> list[Row]:
    """Rows of a metric; "score" is each task's own."""
    tasks = dict.fromkeys(row.task for row in evidence.rows)
    return [row for task in tasks for row in evidence.find(metric, task=task)]
