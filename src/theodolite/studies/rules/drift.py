"""Rules on how far each layer goes from where it was."""

from __future__ import annotations

import math

from theodolite.core.result import Judged
from theodolite.studies.rules.estimate import Estimate, over, rank_correlation
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.parts import Part, conclude
from theodolite.studies.rules.registry import rule


@rule("higher layers drift most")
def higher_layers_drift_most(
    evidence: Evidence, *, similarity: str, floor: float, movement: str, directions: str, fewest_layers: int = 3
) -> Judged:
    """In every task tracked: similarity to the original falls with height and stays above `floor` in every layer at every step,
    centroids move less in the lower half of the layers than in the upper, and there in fewer directions (a larger share of the
    movement on the first ones).
    """  # noqa: D205
    tasks = list(dict.fromkeys(row.task for row in evidence.find(similarity)))
    parts = [part for task in tasks for part in _of_task(evidence, task, similarity, floor, movement, directions, fewest_layers)]
    return conclude(evidence, parts or [Part(name=similarity, missing=f"{similarity} by layer and step")])


def _of_task(
    evidence: Evidence, task: str, similarity: str, floor: float, movement: str, directions: str, fewest: int
) -> list[Part]:
    last = _by_layer(evidence, similarity, task)
    ever = [row.value for row in evidence.find(similarity, task=task) if math.isfinite(row.value)]
    parts = []
    if len(last) < fewest:
        parts.append(
            Part(name=f"{task} {similarity} against height", missing=f"{similarity} of {task} in {fewest} layers or more")
        )
    else:
        height = rank_correlation(list(map(float, last)), list(last.values()), "layers") or Estimate(
            value=0.0, how="the same in all layers"
        )
        parts.append(Part(name=f"{task} {similarity} against height", estimate=height, rises=False))
    if ever:
        lowest = Estimate(value=min(ever) - floor, n=len(ever), how=f"lowest is {min(ever):.3g} of {len(ever)} layers and steps")
        parts.append(Part(name=f"{task} lowest {similarity} over {floor:g}", estimate=lowest))
    for metric, rises in ((movement, True), (directions, False)):
        parts.append(_halves(_by_layer(evidence, metric, task), f"{task} {metric}, upper less lower layers", rises))
    return parts


def _halves(values: dict[int, float], name: str, rises: bool) -> Part:
    """The upper half of the layers less the lower; the middle one of an odd number is in neither."""
    half = len(values) // 2
    if not half:
        return Part(name=name, missing=name)
    found = list(values.values())
    pairs = [upper - lower for lower, upper in zip(found[:half], found[-half:], strict=True)]
    return Part(name=name, estimate=over(pairs, "pairs of a lower and an upper layer"), rises=rises)


def _by_layer(evidence: Evidence, metric: str, task: str) -> dict[int, float]:
    """Each layer's number after the last step: the mean over labels and seeds."""
    layers = sorted({row.layer for row in evidence.find(metric, task=task) if row.layer is not None})
    found = {}
    for layer in layers:
        rows = [row for row in evidence.find(metric, task=task, layer=layer) if math.isfinite(row.value)]
        ends = {(row.seed, row.label): row.value for row in sorted(rows, key=lambda row: row.step or 0)}
        if ends:
            found[layer] = sum(ends.values()) / len(ends)
    return found
