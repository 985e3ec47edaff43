"""What the sentences of findings are made of: measured values, and details read off the cloud when a sentence needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.cosine import dimension_contributions
from theodolite.metrics.graph import components
from theodolite.metrics.neighbours import NEAR, neighbours_of, outlying_rows
from theodolite.metrics.registry import METRICS


@dataclass(frozen=True)
class Facts:
    """The defined metrics of a survey by name, and the cloud they were measured on."""

    cloud: Cloud
    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        """A metric's value; one that was not asked for is measured when a sentence needs it, or raises `Undefined`."""
        return self.values[name] if name in self.values else METRICS[name].function(self.cloud)

    @property
    def ceiling(self) -> int:
        """The most dimensions that so many rows can fill."""
        return max(1, min(self.cloud.d, self.cloud.n - 1))

    def contributions(self) -> tuple[NDArray[np.intp], float]:
        """The three dimensions that add most to the mean cosine, and their share of it."""
        parts = dimension_contributions(self.cloud)
        top = np.argsort(parts)[::-1][:3]
        return top, float(parts[top].sum() / parts.sum())

    def widest(self) -> tuple[NDArray[np.intp], Doubles]:
        """The three dimensions of largest variance, and each one's share of the total."""
        variances = self.cloud.moments.squared_deviations
        top = np.argsort(variances)[::-1][:3]
        return top, variances[top] / variances.sum()

    def hubs(self) -> NDArray[np.intp]:
        """Rows that most others have as a neighbour, most listed first."""
        table = neighbours_of(self.cloud)
        order = np.argsort(-table.occurrences(), kind="stable")
        return table.rows[order]

    def lonely(self) -> NDArray[np.intp]:
        """Rows that are nobody's neighbour."""
        table = neighbours_of(self.cloud)
        return table.rows[np.flatnonzero(table.occurrences() == 0)]

    def copies(self) -> NDArray[np.intp]:
        """Rows that have another row almost on top of them."""
        table = neighbours_of(self.cloud)
        return table.rows[table.distance[:, 0] <= 1 - NEAR]

    def outlying(self) -> NDArray[np.intp]:
        """Rows far from all others, farthest first."""
        return outlying_rows(self.cloud)

    def cut_off(self) -> NDArray[np.intp]:
        """Rows on islands of the neighbour graph."""
        return np.array([row for island in components(self.cloud).islands for row in island], dtype=np.intp)

    def zeros(self) -> NDArray[np.intp]:
        """Sampled rows that are zero."""
        return self.cloud.sample_index[np.flatnonzero(~self.cloud.sample.any(axis=1))]
