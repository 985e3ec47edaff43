"""Rules that hold a paper's printed numbers against one another."""

from __future__ import annotations

from collections.abc import Sequence

from theodolite.core.result import Effect, Judged
from theodolite.core.rows import Row
from theodolite.studies.rules.bound import largest_iso_score
from theodolite.studies.rules.estimate import difference
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.parts import Part, conclude, judged
from theodolite.studies.rules.registry import rule


@rule("gains agree with values", scope="models")
def gains_agree(evidence: Evidence, *, metrics: Sequence[str], states: Sequence[str], suffix: str) -> Judged:
    """Each printed gain is the second state's value over the first's, less 1, to half a unit of its last printed digit."""
    wrong, effects, count = [], [], 0
    for gain in [row for metric in metrics for row in _tasks_rows(evidence, f"{metric}{suffix}")]:
        own = evidence.of_model(gain.model)
        before, after = (own.estimate(gain.metric.removesuffix(suffix), task=gain.task, state=state) for state in states)
        if before is None or after is None:
            continue
        count += 1
        made = after.value / before.value - 1
        # Halves are met exactly by some, so that a hair is allowed for.
        if abs(made - gain.value) > evidence.halves.get(gain, 0.0) * 1.001 + 1e-12:
            name = f"{gain.task} {gain.model} {gain.metric}"
            wrong.append(f"{name} {gain.value:+.1%} should be {made:+.1%}")
            effects.append(Effect(name=name, value=made, how=f"made from the printed values; printed {gain.value:.4g}"))
    why = f"{count - len(wrong)} of {count} printed gains are what the printed values give" + "".join(f"; {one}" for one in wrong)
    return judged(evidence, "not decidable here" if not count else "does not hold" if wrong else "holds", why, effects)


@rule("smaller in every cell", scope="models")
def smaller_in_every_cell(
    evidence: Evidence, *, models: Sequence[str], metrics: Sequence[str], tasks: Sequence[str], states: Sequence[str]
) -> Judged:
    """For the named models, in every task, every metric is smaller in the first state than in the second."""
    parts = []
    for model in models:
        own = evidence.of_model(model)
        for task in tasks:
            for metric in metrics:
                first, second = (own.estimate(metric, task=task, state=state) for state in states)
                found = None if first is None or second is None else difference(first, second)
                parts.append(
                    Part(name=f"{task} {model} {metric}", estimate=found, rises=False, missing=f"{task} {model} {metric}")
                )
    return conclude(evidence, parts)


@rule("IsoScore within explained variance", scope="models")
def within_explained_variance(evidence: Evidence, *, metric: str, explained: Sequence[str], centred: bool) -> Judged:
    """Each printed IsoScore is at most what the printed EV of the same task, model and state allows in the model's dimension.

    EV is taken as of the centred cloud or, as written, of the uncentred one, which allows more. The lower ends of the printed
    digits' rounding are not searched: the excess is told, and is what matters.
    """
    over_bound, effects, count = [], [], 0
    for row in _tasks_rows(evidence, metric):
        own, width = evidence.of_model(row.model), evidence.widths.get(row.model)
        shares = [own.estimate(name, task=row.task, state=row.state) for name in explained]
        known = [one.value for one in shares if one is not None]
        if width is None or len(known) < len(explained):
            continue
        count += 1
        bound = largest_iso_score(known, width, centred=centred)
        name = f"{row.task} {row.model} {row.state}"
        effects.append(Effect(name=name, value=row.value - bound, how=f"printed {row.value:g} less the bound {bound:.3g}"))
        if row.value > bound:
            over_bound.append(f"{name} {row.value:g} > {bound:.2g}")
    reading = "centred" if centred else "uncentred, as written"
    why = f"with EV read as {reading}, {len(over_bound)} of {count} printed IsoScores exceed what it allows"
    why += f" ({', '.join(over_bound)})" if over_bound else ""
    return judged(evidence, "not decidable here" if not count else "does not hold" if over_bound else "holds", why, effects)


def _tasks_rows(evidence: Evidence, metric: str) -> list[Row]:
    """Rows of a metric; "score" is each task's own."""
    tasks = dict.fromkeys(row.task for row in evidence.rows)
    return [row for task in tasks for row in evidence.find(metric, task=task)]
