"""A fitted DirectProbe as results: a summary of each label, and the rows that carry all numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.rows import Row, current_versions
from theodolite.probes.direct.direct_probe import DirectProbe

if TYPE_CHECKING:
    from theodolite.probes.classifiers.scores import ProbeScore
    from theodolite.probes.similarity import Similarity

ONE_LABEL = "there is no other label with a cluster"
ONE_POINT = "every cluster of the label is a single point"


@dataclass(frozen=True)
class LabelSummary:
    """One label: its size, its nearest other label, and how wide its clusters are.

    Parameters
    ----------
    label
        Its name.
    rows, clusters
        How many of each it has.
    nearest, minimum_distance
        The nearest other label and the distance to it; "" and nan if there is none.
    inside_mean
        The mean distance between two points of a cluster, averaged over its clusters; nan if each is a single point.
    inside_max
        The largest distance between two points of a cluster; nan if each cluster is a single point.
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
    """The share of held-out rows whose nearest hull is one of their own label (`accuracy`), of `n` rows of a split."""

    accuracy: float
    n: int
    split: str = ""


def label_summaries(probe: DirectProbe, y: ArrayLike) -> tuple[LabelSummary, ...]:
    """The summary of each label, in the order of the probe's classes.

    Parameters
    ----------
    probe
        A fitted probe.
    y
        The labels it was fitted on.
    """
    labels = np.asarray(y)
    sizes = np.bincount(probe.clusters_[probe.clusters_ >= 0], minlength=len(probe.cluster_labels_))
    summaries = []
    for label, distances, minimum in zip(probe.classes_, probe.label_distances_, probe.minimum_distances_, strict=True):
        own = np.flatnonzero(probe.cluster_labels_ == label)
        wide = own[sizes[own] > 1]  # a single point has no distance inside
        summaries.append(
            LabelSummary(
                label=str(label),
                rows=int(np.count_nonzero(labels == label)),
                clusters=len(own),
                nearest=str(probe.classes_[np.nanargmin(distances)]) if np.isfinite(distances).any() else "",
                minimum_distance=float(minimum),
                inside_mean=float(np.mean(probe.inside_mean_[wide])) if len(wide) else math.nan,
                inside_max=float(np.max(probe.inside_max_[wide])) if len(wide) else math.nan,
            )
        )
    return tuple(summaries)


def mean_minimum_distance(labels: Sequence[LabelSummary]) -> float:
    """The mean over the labels of the distance to the nearest other label; nan if there is none.

    Parameters
    ----------
    labels
        What `label_summaries` returned.
    """
    distances = [label.minimum_distance for label in labels if math.isfinite(label.minimum_distance)]
    return float(np.mean(distances)) if distances else math.nan


def probe_rows(
    probe: DirectProbe,
    labels: Sequence[LabelSummary],
    *,
    about: Mapping[str, Any],
    held_out: HeldOut | None = None,
    score: ProbeScore | None = None,
    train_test: Similarity | None = None,
    seconds: float | None = None,
) -> list[Row]:
    """All numbers of one probed layer as rows.

    `labels`, `clusters`, `is_linear` (1 or 0) and `mean_minimum_distance`; for each label `label_clusters`, `minimum_distance`,
    `inside_mean` and `inside_max`; for each pair of labels `label_distance`, with "A|B" as its setting and the certified bounds
    as its interval; and what the optional parameters add.

    Parameters
    ----------
    probe, labels
        A fitted probe, and what `label_summaries` returned for it.
    about
        Further fields of the rows: model, layer, task, split, seed, d.
    held_out
        Adds `hull_accuracy`, with the number and the split of the held-out rows.
    score
        Adds `probe_accuracy`, `probe_accuracy_sd` over initialisations and `classifier_seconds`.
    train_test
        Adds `train_test_similarity`, with its interval.
    seconds
        How long the fit took; adds `probe_seconds`.
    """
    fields = {"n": len(probe.clusters_), "versions": current_versions(), **about}
    mean = mean_minimum_distance(labels)
    parts: list[dict[str, Any]] = [
        {"metric": "labels", "value": float(len(probe.classes_))},
        {"metric": "clusters", "value": float(probe.n_clusters_)},
        {"metric": "is_linear", "value": float(probe.is_linear_)},
        {"metric": "mean_minimum_distance", "value": mean, "reason": _reason(mean, ONE_LABEL)},
        *_label_fields(labels),
        *_pair_fields(probe, labels),
    ]
    split = {"split": held_out.split} if held_out is not None and held_out.split else {}
    if held_out is not None:
        parts.append({"metric": "hull_accuracy", "value": held_out.accuracy, "n": held_out.n, **split})
    if score is not None:
        values = {"probe_accuracy": score.mean, "probe_accuracy_sd": score.sd, "classifier_seconds": score.seconds}
        parts += [{"metric": metric, "value": value, "n": score.n, **split} for metric, value in values.items()]
    if train_test is not None:
        reason = _reason(train_test.value, train_test.reason)
        interval = {"value": train_test.value, "low": train_test.low, "high": train_test.high, "n": train_test.n}
        parts.append({"metric": "train_test_similarity", **interval, "reason": reason})
    if seconds is not None:
        parts.append({"metric": "probe_seconds", "value": seconds})
    return [Row(**{**fields, **part}) for part in parts]


def _label_fields(labels: Sequence[LabelSummary]) -> Iterator[dict[str, Any]]:
    for label in labels:
        for metric, value, reason in (
            ("label_clusters", float(label.clusters), ""),
            ("minimum_distance", label.minimum_distance, ONE_LABEL),
            ("inside_mean", label.inside_mean, ONE_POINT),
            ("inside_max", label.inside_max, ONE_POINT),
        ):
            yield {"metric": metric, "value": value, "label": label.label, "n": label.rows, "reason": _reason(value, reason)}


def _pair_fields(probe: DirectProbe, labels: Sequence[LabelSummary]) -> Iterator[dict[str, Any]]:
    for i, j in combinations(range(len(labels)), 2):
        if math.isfinite(probe.label_distances_[i, j]):
            yield {
                "metric": "label_distance",
                "value": float(probe.label_distances_[i, j]),
                "low": float(probe.label_lower_[i, j]),
                "high": float(probe.label_upper_[i, j]),
                "n": labels[i].rows + labels[j].rows,
                "setting": f"{labels[i].label}|{labels[j].label}",
            }


def _reason(value: float, reason: str) -> str:
    return reason if math.isnan(value) else ""
