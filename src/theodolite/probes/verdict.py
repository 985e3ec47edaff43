"""What a DirectProbe found, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from theodolite.probes.direct import DirectProbe


def verdict(probe: DirectProbe) -> str:
    """Labels, clusters, whether that is linear, what is split most, and which labels are closest."""
    labels, clusters = len(probe.classes_), probe.n_clusters_
    counted = f"{labels} labels, {clusters} cluster{'s' if clusters != 1 else ''}"
    if probe.is_linear_ and not probe.n_overlaps_:
        return f"{counted}: linearly separable; {_closest(probe)}"
    parts = ["not linearly separable", _split(probe), _shared(probe), _closest(probe)]
    return f"{counted}: {'; '.join(part for part in parts if part)}"


def _split(probe: DirectProbe) -> str:
    names, counts = np.unique(probe.cluster_labels_, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:3]
    parts = ", ".join(f"{names[at]} into {counts[at]}" for at in most if counts[at] > 1)
    return f"split: {parts}" if parts else ""


def _shared(probe: DirectProbe) -> str:
    """Clusters that overlap: those given, or points that bear two labels, which no clustering can part."""
    count = probe.n_overlaps_
    return f"{count} pair{'s' if count != 1 else ''} of clusters overlap{'s' if count == 1 else ''}" if count else ""


def _closest(probe: DirectProbe) -> str:
    table = probe.label_distances_
    if np.isnan(table).all():
        return "no distances"
    one, two = sorted(divmod(int(np.nanargmin(table)), len(table)))
    return f"{probe.classes_[one]} and {probe.classes_[two]} are closest, {table[one, two]:.2g}"
