"""What happens to the labels while an encoder is fine-tuned: distances, likeness to the start, and where centroids go (ZS22)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.core.rows import Row, current_versions
from theodolite.probes.alignment import cka_similarity
from theodolite.probes.direct import DirectProbe, NoSpread
from theodolite.probes.movement import centroid_movement, centroid_paths, closest_labels, movement_directions
from theodolite.probes.rows import probe_rows
from theodolite.probes.similarity import spatial_similarity
from theodolite.studies.step import Work

if TYPE_CHECKING:
    from theodolite.tuning.kept_vectors import KeptStep

PATHS = "paths.parquet"
SHOWN = ("minimum_distance", "mean_minimum_distance", "label_distance")


def movement(work: Work) -> list[Row]:
    """Rows of every layer and step; and the paths of the three closest labels' centroids as a table."""
    from theodolite.tuning.kept_vectors import read_steps

    told = work.settings
    steps = read_steps(work.inputs["tuned"] / "vectors")
    layers = sorted(steps[0].layers)
    rows: list[Row] = []
    for number, layer in enumerate(layers):
        fields = {
            "model": told["model"]["name"],
            "task": told["task"],
            "layer": layer,
            "seed": told["seed"],
            "versions": current_versions(),
            "d": steps[0].layers[layer].shape[1],
        }
        rows += _of_layer(steps, layer, fields)
        if work.tick is not None:
            work.tick(number + 1, len(layers))
    _write_paths(steps, (layers[min(1, len(layers) - 1)], layers[-1]), told, work)
    return rows


def _of_layer(steps: Sequence[KeptStep], layer: int, fields: dict[str, Any]) -> list[Row]:
    labels, rows = steps[0].labels, []
    first = steps[0].layers[layer]
    start: DirectProbe | None = None
    for kept in steps:
        X = kept.layers[layer]
        told = {**fields, "step": kept.step, "state": "fine-tuning" if kept.step else "pre-trained"}
        try:
            probe = DirectProbe().fit(X, labels, clusters=labels)
        except NoSpread as error:
            rows.append(Row(**{**told, "metric": "mean_minimum_distance", "value": float("nan"), "reason": str(error)}))
            continue
        start = probe if start is None else start
        # Pairs at the start and at the end alone: there are many.
        wanted = SHOWN if kept.step in (steps[0].step, steps[-1].step) else SHOWN[:2]
        rows += [row for row in probe_rows(probe, labels, about=told) if row.metric in wanted]
        alike = spatial_similarity(start, probe, force=True)
        rows.append(_similar("similarity_to_original", alike, told))
        rows.append(_similar("cka_to_original", cka_similarity(first, X, bootstrap=0), told))
    return rows + _moved(first, steps[-1].layers[layer], labels, {**fields, "step": steps[-1].step, "state": "fine-tuned"})


def _moved(before: Any, after: Any, labels: Any, told: dict[str, Any]) -> list[Row]:
    """How far each centroid went, over the mean norm at the start, and in how many directions."""
    norm = float(np.linalg.norm(before.astype(np.float64), axis=1).mean())
    rows = []
    for one in centroid_movement(before, after, labels):
        low, high = (None if bound is None else bound / norm for bound in (one.low, one.high))
        value = {"value": one.distance / norm, "low": low, "high": high}
        rows.append(Row(**{**told, "metric": "centroid_movement", "label": str(one.label), "n": one.n, **value}))
    found = movement_directions(before, after, labels, components=2)
    for k, share in enumerate(np.cumsum(found.shares), 1):
        reason = "" if np.isfinite(share) else "nothing moved"
        rows.append(Row(**{**told, "metric": f"movement_share_{k}", "value": float(share), "n": len(labels), "reason": reason}))
    return rows


def _similar(metric: str, found: Any, told: dict[str, Any]) -> Row:
    reason = found.reason if np.isnan(found.value) else ""
    return Row(
        **{**told, "metric": metric, "value": found.value, "low": found.low, "high": found.high, "n": found.n, "reason": reason}
    )


def _write_paths(steps: Sequence[KeptStep], layers: Sequence[int], told: Any, work: Work) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    labels, columns = steps[0].labels, []
    for layer in dict.fromkeys(layers):
        states = [kept.layers[layer] for kept in steps]
        try:
            probe = DirectProbe().fit(states[0], labels, clusters=labels)
        except NoSpread:
            continue
        distances = np.where(np.isfinite(probe.label_distances_), probe.label_distances_, 0.0)
        chosen = closest_labels(list(probe.classes_), distances, count=min(3, len(probe.classes_)))
        found = centroid_paths(states, labels, labels=chosen, components=3)
        for kept, points in zip(steps, found.points, strict=True):
            for label, point in zip(found.labels, points, strict=True):
                place = dict(zip("xyz", [*map(float, point), 0.0, 0.0], strict=False))
                about = {"model": told["model"]["name"], "task": told["task"], "layer": layer}
                columns.append({**about, "label": str(label), "step": kept.step, **place})
    parquet.write_table(pyarrow.Table.from_pylist(columns), work.folder / PATHS)
