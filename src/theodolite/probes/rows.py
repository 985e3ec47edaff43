"""A fitted DirectProbe as results: what it found of each label, and the rows that carry it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.rows import Row, current_versions

if TYPE_CHECKING:
    from theodolite.probes.direct import DirectProbe
    from theodolite.probes.score import ProbeScore

ONE_LABEL = "there is no other label with a cluster"
ONE_POINT = "every cluster of the label is a single point"


@dataclass(frozen=True)
class LabelSummary:
    """One label: its rows and clusters, its nearest other label and how far that is, and how wide its clusters are.

    `inside_mean` is the mean over the label's clusters of the mean distance between their points, `inside_max` the largest
    distance inside any of them; nan where every cluster is a single point.
    """

    label: str
    rows: int
    clusters: int
    nearest: str
    minimum_distance: float
    inside_mean: float
    inside_max: float


@dataclass(frozen=True)
class HeldOut:
    """How many of the held-out rows lie nearest to a hull of their own label."""

    accuracy: float
    n: int
    split: str = ""


@dataclass(frozen=True)
class Closest:
    """The two labels that are closest, and the distance between them."""

    first: str
    second: str
    distance: float


def summaries(probe: DirectProbe, y: ArrayLike) -> list[LabelSummary]:
    """What the probe found of each label, in the order of its classes; `y` are the labels it was fitted on."""
    labels = np.asarray(y)
    found = []
    everywhere = np.asarray(probe.clusters_)
    sizes = np.bincount(everywhere[everywhere >= 0], minlength=len(probe.cluster_labels_))
    for at, label in enumerate(probe.classes_):
        nearest = _argmin(probe.label_distances_[at])
        own = np.flatnonzero(np.asarray(probe.cluster_labels_) == label)
        several = own[sizes[own] > 1]  # a single point has no distance inside
        found.append(
            LabelSummary(
                label=str(label),
                rows=int(np.count_nonzero(labels == label)),
                clusters=len(own),
                nearest="" if nearest is None else str(probe.classes_[nearest]),
                minimum_distance=float(probe.minimum_distances_[at]),
                inside_mean=float(np.mean(probe.inside_mean_[several])) if len(several) else math.nan,
                inside_max=float(np.max(probe.inside_max_[several])) if len(several) else math.nan,
            )
        )
    return found


def closest_pair(probe: DirectProbe) -> Closest | None:
    """The two labels with the smallest distance between them, the first such pair in order; None where there is no pair."""
    distances = np.asarray(probe.label_distances_)
    flat = _argmin(np.where(np.triu(np.ones_like(distances), 1) > 0, distances, np.nan).ravel())
    if flat is None:
        return None
    i, j = divmod(flat, len(distances))
    return Closest(str(probe.classes_[i]), str(probe.classes_[j]), float(distances[i, j]))


def mean_minimum_distance(found: list[LabelSummary]) -> float:
    """Mean over the labels of the distance to the nearest other label; nan where there is none."""
    known = [one.minimum_distance for one in found if math.isfinite(one.minimum_distance)]
    return float(np.mean(known)) if known else math.nan


def probe_rows(
    probe: DirectProbe,
    y: ArrayLike,
    *,
    about: Mapping[str, Any],
    held_out: HeldOut | None = None,
    score: ProbeScore | None = None,
    seconds: float | None = None,
) -> list[Row]:
    """All that one probe says of one layer, as rows. `about` are further fields of a row: model, layer, task, split, seed, d.

    `clusters`, `is_linear` (1 or 0), `mean_minimum_distance`; for each label `label_clusters`, `minimum_distance`, `inside_mean`,
    `inside_max`; for each pair `label_distance`, whose setting is "A|B" and whose interval are the certified bounds; of
    held-out rows `hull_accuracy`, and `probe_accuracy` with `probe_accuracy_sd` over initialisations; `probe_seconds` and
    `classifier_seconds`.
    """
    labels = np.asarray(y)
    known = {"n": len(labels), "versions": current_versions(), **about}
    found = summaries(probe, labels)
    mean = mean_minimum_distance(found)
    rows = [
        Row(**known | {"metric": "clusters", "value": float(probe.n_clusters_)}),
        Row(**known | {"metric": "is_linear", "value": float(bool(probe.is_linear_))}),
        Row(**known | {"metric": "mean_minimum_distance", "value": mean, "reason": _why(mean, ONE_LABEL)}),
    ]
    rows += [Row(**known | fields) for one in found for fields in _label_fields(one)]
    rows += [Row(**known | fields) for fields in _pair_fields(probe, labels)]
    if held_out is not None:
        scored = {"n": held_out.n, "split": held_out.split or known.get("split", "")}
        rows.append(Row(**known | scored | {"metric": "hull_accuracy", "value": held_out.accuracy}))
    if score is not None:
        scored = {"n": score.n, "split": (held_out.split if held_out else "") or known.get("split", "")}
        rows += [
            Row(**known | scored | {"metric": metric, "value": value})
            for metric, value in (
                ("probe_accuracy", score.mean),
                ("probe_accuracy_sd", score.sd),
                ("classifier_seconds", score.seconds),
            )
        ]
    if seconds is not None:
        rows.append(Row(**known | {"metric": "probe_seconds", "value": seconds}))
    return rows


def _label_fields(one: LabelSummary) -> Iterator[dict[str, Any]]:
    values = {
        "label_clusters": (float(one.clusters), ""),
        "minimum_distance": (one.minimum_distance, ONE_LABEL),
        "inside_mean": (one.inside_mean, ONE_POINT),
        "inside_max": (one.inside_max, ONE_POINT),
    }
    for metric, (value, reason) in values.items():
        yield {"metric": metric, "value": value, "label": one.label, "n": one.rows, "reason": _why(value, reason)}


def _pair_fields(probe: DirectProbe, labels: NDArray[Any]) -> Iterator[dict[str, Any]]:
    counts = [int(np.count_nonzero(labels == label)) for label in probe.classes_]
    for i in range(len(probe.classes_)):
        for j in range(i + 1, len(probe.classes_)):
            value = float(probe.label_distances_[i, j])
            if math.isfinite(value):
                yield {
                    "metric": "label_distance",
                    "value": value,
                    "low": float(probe.label_lower_[i, j]),
                    "high": float(probe.label_upper_[i, j]),
                    "n": counts[i] + counts[j],
                    "setting": f"{probe.classes_[i]}|{probe.classes_[j]}",
                }


def _why(value: float, reason: str) -> str:
    return reason if math.isnan(value) else ""


def _argmin(values: NDArray[Any]) -> int | None:
    return int(np.nanargmin(values)) if np.isfinite(values).any() else None
