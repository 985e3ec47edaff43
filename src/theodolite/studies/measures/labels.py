"""Where the labels of a task are: in a layer, after tuning on another task, and while an encoder is fine-tuned (ZS22)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.intervals import student_interval
from theodolite.core.result import table_of
from theodolite.core.rows import Row, current_versions, read_rows
from theodolite.core.states import FINE_TUNED, FINE_TUNING, PRE_TRAINED
from theodolite.probes.direct import DirectProbe, NoSpread
from theodolite.probes.kernel_alignment import cka_similarity
from theodolite.probes.labels import check_label_sets
from theodolite.probes.layer_probe import probe_layer
from theodolite.probes.movement import centroid_movement, centroid_paths, closest_labels, movement_directions
from theodolite.probes.similarity import spatial_similarity
from theodolite.studies.measures.training import TRACKED
from theodolite.studies.measures.vectors import open_space, row_fields
from theodolite.studies.steps import Action, Work

if TYPE_CHECKING:
    from theodolite.tuning.tracking.sample import StepVectors

Labels = NDArray[Any]

DISTANCE = "minimum_distance"
TRACKED_METRICS = (DISTANCE, "mean_minimum_distance")
"""What is kept of a probe at every training step."""


def _probe_labels(work: Work) -> list[Row]:
    """Probe layers of the input `train`, scored on the input `test`.

    The settings `rows` and `classifier_rows` cap how many rows the clusters and the classifier are made from; 0 is all.
    """
    train, test, settings = open_space(work, "train"), open_space(work, "test"), work.settings
    layers: Sequence[int] = settings["layers"]
    labels, test_labels = (np.array([str(label) for label in space.rows["label"]]) for space in (train, test))
    trained, _ = check_label_sets(labels, test_labels, drop_unseen=True)
    rows: list[Row] = []
    for number, layer in enumerate(layers, start=1):
        X, T = np.asarray(train[layer]), np.asarray(test[layer])[trained]
        fields = {**row_fields(train, layer), "seed": settings["seed"], "d": X.shape[1], "setting": settings["setting"]}
        # A classifier of every layer would take most of a study's time: the last layer gets the only one.
        options = settings if layer == layers[-1] else {**settings, "classifier": "none"}
        rows += _probe(X, labels, T, test_labels[trained], options, fields, test.origin.split)
        work.report(number, len(layers))
    return rows


def _compare_tasks(work: Work) -> list[Row]:
    """What tuning on one task did to the minimum distances of another: their mean change, and how many labels rose and fell."""
    layer = work.settings["layer"]
    before, after = (_distances(work.inputs[role], layer) for role in ("before", "after"))
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
    from theodolite.tuning.tracking.sample import read_steps

    settings, steps = work.settings, read_steps(work.inputs["tuned"] / TRACKED)
    layers = sorted(steps[0].layers)
    about = {"model": settings["model"]["name"], "task": settings["task"], "seed": settings["seed"]}
    rows: list[Row] = []
    for number, layer in enumerate(layers, start=1):
        fields = {**about, "layer": layer, "versions": current_versions(), "d": steps[0].layers[layer].shape[1]}
        rows += _training_rows(steps, layer, fields)
        work.report(number, len(layers))
    ends = dict.fromkeys((layers[min(1, len(layers) - 1)], layers[-1]))
    paths = [point for layer in ends for point in _paths(steps, layer, {**about, "layer": layer})]
    if paths:
        work.write_records("paths", table_of(paths))
    return rows


def _probe(
    X: Any, labels: Labels, T: Any, test_labels: Labels, settings: Mapping[str, Any], fields: dict[str, Any], split: str
) -> list[Row]:
    try:
        layer_probe = probe_layer(
            X,
            labels,
            test=(T, test_labels),
            test_split=split,
            max_rows=settings["rows"],
            max_classifier_rows=settings["classifier_rows"],
            classifier=settings["classifier"],
            grid=settings["grid"],
            train_test=True,
            seed=settings["seed"],
            about=fields,
        )
    except NoSpread as error:  # [CLS] in the embeddings is one point for all texts
        return [Row(**{**fields, "metric": "clusters", "value": float("nan"), "reason": str(error)})]
    # The setting of a pair's row names the pair, so that it cannot say what the encoder was tuned on.
    return [row for row in layer_probe.rows if not (fields["setting"] and row.metric == "label_distance")]


def _distances(folder: Path, layer: int) -> dict[str, Row]:
    rows = read_rows(folder / "rows.parquet")
    return {row.label: row for row in rows if row.metric == DISTANCE and row.layer == layer and np.isfinite(row.value)}


def _training_rows(steps: Sequence[StepVectors], layer: int, fields: dict[str, Any]) -> list[Row]:
    """The rows of one layer: of every step, and of the whole movement."""
    labels, original = steps[0].labels, steps[0].layers[layer]
    rows: list[Row] = []
    first_probe: DirectProbe | None = None
    for tracked in steps:
        X = tracked.layers[layer]
        about = {**fields, "step": tracked.step, "state": FINE_TUNING if tracked.step else PRE_TRAINED}
        try:
            layer_probe = probe_layer(X, labels, clusters=labels, about=about)
        except NoSpread as error:
            rows.append(Row(**{**about, "metric": "mean_minimum_distance", "value": float("nan"), "reason": str(error)}))
            continue
        first_probe = layer_probe.probe if first_probe is None else first_probe
        # The distances of all pairs of labels, of which there are many, only at the start and at the end.
        is_end = tracked.step in (steps[0].step, steps[-1].step)
        metrics = {*TRACKED_METRICS, "label_distance"} if is_end else set(TRACKED_METRICS)
        rows += [row for row in layer_probe.rows if row.metric in metrics]
        # The similarity of labels with several clusters is not defined; here each label is one cluster, hence `force`.
        similarity = spatial_similarity(first_probe, layer_probe.probe, force=True)
        rows.append(_similarity_row("similarity_to_original", similarity, about))
        rows.append(_similarity_row("cka_to_original", cka_similarity(original, X, bootstrap=0), about))
    end = {**fields, "step": steps[-1].step, "state": FINE_TUNED}
    return [*rows, *_movement_rows(original, steps[-1].layers[layer], labels, end)]


def _movement_rows(before: Any, after: Any, labels: Labels, fields: dict[str, Any]) -> Iterator[Row]:
    """How far each centroid moved, divided by the mean norm at the start, and in how few directions."""
    norm = float(np.linalg.norm(before.astype(np.float64), axis=1).mean())
    for movement in centroid_movement(before, after, labels):
        low, high = (None if bound is None else bound / norm for bound in (movement.low, movement.high))
        values = {"value": movement.distance / norm, "low": low, "high": high, "n": movement.n, "label": str(movement.label)}
        yield Row(**{**fields, "metric": "centroid_movement", **values})
    for k, share in enumerate(np.cumsum(movement_directions(before, after, labels, components=2).shares), 1):
        reason = "" if np.isfinite(share) else "nothing moved"
        values = {"value": float(share), "n": len(labels), "reason": reason}
        yield Row(**{**fields, "metric": f"movement_share_{k}", **values})


def _similarity_row(metric: str, similarity: Any, fields: Mapping[str, Any]) -> Row:
    reason = similarity.reason if np.isnan(similarity.value) else ""
    values = {"value": similarity.value, "low": similarity.low, "high": similarity.high, "n": similarity.n, "reason": reason}
    return Row(**{**fields, "metric": metric, **values})


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
