"""Where the labels of a task are: in a layer, after tuning on another task, and while an encoder is fine-tuned (ZS22)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.core.intervals import student_interval
from theodolite.core.result import table_of
from theodolite.core.rows import Row, current_versions, read_rows
from theodolite.core.states import FINE_TUNED, FINE_TUNING, PRE_TRAINED
from theodolite.probes.direct_probe import DirectProbe, NoSpread
from theodolite.probes.labels import check_label_sets
from theodolite.probes.layer_probe import probe_layer
from theodolite.probes.movement import centroid_movement, centroid_paths, closest_labels, movement_directions
from theodolite.probes.similarity import cka_similarity, spatial_similarity
from theodolite.studies.measures.encoders import TRACKED, open_space, row_fields
from theodolite.studies.steps import ROWS, Action, Work

if TYPE_CHECKING:
    from theodolite.tuning.tracked_sample import StepVectors

DISTANCE = "minimum_distance"
# What is kept of a probe at every training step; the distances of all pairs of labels, which are many, only at both ends.
TRACKED_METRICS = (DISTANCE, "mean_minimum_distance")
END_METRICS = (*TRACKED_METRICS, "label_distance")


def _probe_labels(work: Work) -> list[Row]:
    """Probe layers of the input `train`, scored on the input `test`.

    The settings `rows` and `classifier_rows` cap how many rows the clusters and the classifier are made from; 0 is all.
    """
    train, test, settings = open_space(work, "train"), open_space(work, "test"), work.settings
    labels, test_labels = (np.array(space.labels()) for space in (train, test))
    trained, _ = check_label_sets(labels, test_labels, drop_unseen=True)
    rows: list[Row] = []
    about = {"seed": settings["seed"], "setting": settings["setting"], "d": train.d}
    for layer in work.watched(settings["layers"]):
        fields = {**row_fields(train, layer), **about}
        try:
            probe = probe_layer(
                train[layer],
                labels,
                test=(np.asarray(test[layer])[trained], test_labels[trained]),
                test_split=test.origin.split,
                max_rows=settings["rows"],
                max_classifier_rows=settings["classifier_rows"],
                # A classifier of every layer would take most of a study's time: the last layer gets the only one.
                classifier=settings["classifier"] if layer == settings["layers"][-1] else "none",
                grid=settings["grid"],
                train_test=True,
                seed=settings["seed"],
                about=fields,
            )
        except NoSpread as error:  # [CLS] in the embeddings is one point for all texts
            rows.append(Row(**{**fields, "metric": "clusters", "value": float("nan"), "reason": str(error)}))
            continue
        # The setting of a pair's row names the pair, so that it cannot say what the encoder was tuned on.
        rows += [row for row in probe.rows if not (settings["setting"] and row.metric == "label_distance")]
    return rows


def _compare_tasks(work: Work) -> list[Row]:
    """What tuning on one task did to the minimum distances of another: their mean change, and how many labels rose and fell."""
    before, after = (
        {
            row.label: row
            for row in read_rows(work.inputs[role] / ROWS)
            if row.metric == DISTANCE and row.layer == work.settings["layer"] and np.isfinite(row.value)
        }
        for role in ("before", "after")
    )
    labels = [label for label in before if label in after]
    if not labels:
        return []
    changes = np.array([after[label].value - before[label].value for label in labels])
    row = replace(after[labels[0]], label="", low=None, high=None, n=len(labels))
    low, high = student_interval(changes)
    return [
        replace(row, metric="mean_change", value=float(changes.mean()), low=low, high=high),
        replace(row, metric="labels_rose", value=float((changes > 0).sum())),
        replace(row, metric="labels_fell", value=float((changes < 0).sum())),
    ]


def _follow_labels(work: Work) -> list[Row]:
    """Distances, similarity to the start and centroid movement of every layer at every tracked training step.

    The paths of the three closest labels' centroids are kept as records, for a low layer and the last one.
    """
    from theodolite.tuning.tracked_sample import read_steps

    settings, steps = work.settings, read_steps(work.inputs["tuned"] / TRACKED)
    layers = sorted(steps[0].layers)
    about = {"model": settings["model"]["name"], "task": settings["task"], "seed": settings["seed"]}
    rows: list[Row] = []
    for layer in work.watched(layers):
        fields = {**about, "layer": layer, "versions": current_versions(), "d": steps[0].layers[layer].shape[1]}
        rows += _training_rows(steps, layer, fields)
        rows += _movement_rows(steps, layer, {**fields, "step": steps[-1].step, "state": FINE_TUNED})
    ends = dict.fromkeys((layers[min(1, len(layers) - 1)], layers[-1]))
    if paths := [point for layer in ends for point in _paths(steps, layer, {**about, "layer": layer})]:
        work.write_records("paths", table_of(paths))
    return rows


def _training_rows(steps: Sequence[StepVectors], layer: int, fields: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of one layer at every step."""
    labels, original = steps[0].labels, steps[0].layers[layer]
    first: DirectProbe | None = None
    for tracked in steps:
        X = tracked.layers[layer]
        about = {**fields, "step": tracked.step, "state": FINE_TUNING if tracked.step else PRE_TRAINED}
        try:
            probe = probe_layer(X, labels, clusters=labels, about=about)
        except NoSpread as error:
            yield Row(**{**about, "metric": "mean_minimum_distance", "value": float("nan"), "reason": str(error)})
            continue
        first = probe.probe if first is None else first
        metrics = END_METRICS if tracked.step in (steps[0].step, steps[-1].step) else TRACKED_METRICS
        yield from (row for row in probe.rows if row.metric in metrics)
        similarities = {
            # The similarity of labels with several clusters is not defined; here each label is one cluster, hence `force`.
            "similarity_to_original": spatial_similarity(first, probe.probe, force=True),
            "cka_to_original": cka_similarity(original, X, bootstrap=0),
        }
        for metric, similarity in similarities.items():
            numbers = {name: getattr(similarity, name) for name in ("value", "low", "high", "n")}
            reason = similarity.reason if np.isnan(similarity.value) else ""  # not why there is no interval
            yield Row(**{**about, "metric": metric, **numbers, "reason": reason})


def _movement_rows(steps: Sequence[StepVectors], layer: int, fields: Mapping[str, Any]) -> Iterator[Row]:
    """How far each centroid moved, divided by the mean norm at the start, and in how few directions."""
    before, after, labels = steps[0].layers[layer], steps[-1].layers[layer], steps[0].labels
    norm = float(np.linalg.norm(before.astype(np.float64), axis=1).mean())
    for movement in centroid_movement(before, after, labels):
        low, high = (None if bound is None else bound / norm for bound in (movement.low, movement.high))
        values = {"value": movement.distance / norm, "low": low, "high": high, "n": movement.n, "label": str(movement.label)}
        yield Row(**{**fields, "metric": "centroid_movement", **values})
    for k, share in enumerate(np.cumsum(movement_directions(before, after, labels, components=2).shares), 1):
        values = {"value": float(share), "n": len(labels), "reason": "" if np.isfinite(share) else "nothing moved"}
        yield Row(**{**fields, "metric": f"movement_share_{k}", **values})


def _paths(steps: Sequence[StepVectors], layer: int, fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Where the centroids of the three closest labels are at every step, on the directions of their movement."""
    labels, states = steps[0].labels, [tracked.layers[layer] for tracked in steps]
    try:
        probe = probe_layer(states[0], labels, clusters=labels).probe
    except NoSpread:
        return
    # The diagonal, and labels without a distance, count as 0.
    distances = np.where(np.isfinite(probe.label_distances_), probe.label_distances_, 0.0)
    closest = closest_labels(list(probe.classes_), distances, count=min(3, len(probe.classes_)))
    paths = centroid_paths(states, labels, labels=closest, components=3)
    for tracked, points in zip(steps, paths.points, strict=True):
        for label, point in zip(paths.labels, points, strict=True):
            position = dict(zip("xyz", [*map(float, point), 0.0, 0.0], strict=False))
            yield {**fields, "label": str(label), "step": tracked.step, **position}


PROBE = Action("probe", _probe_labels)
COMPARE_TASKS = Action("cross", _compare_tasks)
FOLLOW_LABELS = Action("movement", _follow_labels)
