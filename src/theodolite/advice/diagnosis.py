"""Findings: measured numbers compared with what healthy spaces show, in words, with the smallest thing to try."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from theodolite.advice.rules import RULES, Rule
from theodolite.core.result import Finding, Severity
from theodolite.core.rows import Row
from theodolite.core.vectors import Indices
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.cosine import dimension_contributions
from theodolite.metrics.neighbours import NEAR, neighbours_of, outlying_rows
from theodolite.metrics.registry import METRICS
from theodolite.metrics.retrieval import components

EXAMPLES = 5
"""Rows that a finding names at most."""


def findings(cloud: Cloud, rows: Sequence[Row]) -> list[Finding]:
    """What the rows of a survey mean, worst first; a rule whose metric was not measured is left out.

    Parameters
    ----------
    cloud
        The cloud that was surveyed.
    rows
        Its rows, as `theodolite.metrics.metric_rows` returns them.
    """
    facts = Facts(cloud, {row.metric: row.value for row in rows if math.isfinite(row.value)})
    judged = [_judge(rule, facts) for rule in RULES if rule.metric in facts.values]
    return sorted(judged, key=lambda finding: -finding.severity)


class Facts:
    """What the sentences of findings are made of, by name: metrics of a survey, and details computed when needed.

    Parameters
    ----------
    cloud
        The cloud that was surveyed.
    values
        The metrics that are defined, by name.
    """

    def __init__(self, cloud: Cloud, values: Mapping[str, float]) -> None:
        self.cloud = cloud
        self.values = values

    def __getitem__(self, name: str) -> Any:
        """A fact of this class, or a metric; one that was not measured is measured now, or raises `Undefined`."""
        if name in self.values:
            return self.values[name]
        return getattr(self, name) if name in vars(Facts) else METRICS[name].function(self.cloud)

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.cloud.d

    @property
    def ceiling(self) -> int:
        """The largest number of dimensions that the rows can fill."""
        return max(1, min(self.cloud.d, self.cloud.n - 1))

    @property
    def effective_rank_share(self) -> float:
        """The effective rank as a share of what the rows can fill."""
        return float(self["effective_rank"]) / self.ceiling

    @property
    def partition_isotropy_centered(self) -> float:
        """I(W) about the mean."""
        return math.exp(self["log_partition_isotropy_centered"])

    @property
    def coverage(self) -> str:
        """How well the unit vectors cover the sphere, in words."""
        return "well" if self["uniformity"] < -3 else "only in part"

    @property
    def cone(self) -> str:
        """Which dimensions a large mean cosine comes from, and what centring achieves; nothing if it is small."""
        if self["mean_cosine"] <= 0.1:
            return ""
        parts = dimension_contributions(self.cloud)
        top = np.argsort(parts)[::-1][:3]
        return (
            f"; dimensions {', '.join(map(str, top))} carry {float(parts[top].sum() / parts.sum()):.0%} of the mean; "
            f"centring alone brings it to {self['mean_cosine_centered']:.2f}"
        )

    @property
    def widest(self) -> str:
        """The dimensions of largest variance, and their shares of the total."""
        variances = self.cloud.moments.squared_deviations
        top = np.argsort(variances)[::-1][:3]
        shares = variances[top] / variances.sum()
        return (
            f"dimension {top[0]} alone holds {shares[0]:.1%} of the variance ({self.d} even ones would hold {1 / self.d:.1%} "
            f"each); the widest three ({', '.join(map(str, top))}) hold {shares.sum():.1%}"
        )

    @property
    def hubs(self) -> Indices:
        """Rows that most others have as a neighbour, most listed first."""
        table = neighbours_of(self.cloud)
        return table.rows[np.argsort(-table.occurrences(), kind="stable")]

    @property
    def lonely(self) -> Indices:
        """Rows that are nobody's neighbour."""
        table = neighbours_of(self.cloud)
        return table.rows[np.flatnonzero(table.occurrences() == 0)]

    @property
    def copies(self) -> Indices:
        """Rows that have another row at almost the same place."""
        table = neighbours_of(self.cloud)
        return table.rows[table.distance[:, 0] <= 1 - NEAR]

    @property
    def outlying(self) -> Indices:
        """Rows far from all others, farthest first."""
        return outlying_rows(self.cloud)

    @property
    def cut_off(self) -> Indices:
        """Rows on islands of the neighbour graph."""
        return np.array([row for island in components(self.cloud).islands for row in island], dtype=np.intp)

    @property
    def zeros(self) -> Indices:
        """Sampled rows that are zero."""
        return self.cloud.sample_index[np.flatnonzero(~self.cloud.sample.any(axis=1))]


def _judge(rule: Rule, facts: Facts) -> Finding:
    value = float(facts[rule.judged or rule.metric])
    verdict: Severity = "bad" if rule.exceeds(value, rule.bad) else "watch" if rule.exceeds(value, rule.watch) else "good"
    is_good = verdict == "good"
    try:
        meaning = rule.meaning.format_map(facts)
        examples = () if is_good or not rule.examples else tuple(int(row) for row in facts[rule.examples][:EXAMPLES])
    except Undefined as undefined:
        meaning, examples = f"details are not defined: {undefined}", ()
    return Finding(
        topic=rule.topic,
        verdict=verdict,
        value=value,
        metric=rule.metric,
        healthy=rule.healthy,
        source=rule.source,
        meaning=meaning,
        action="" if is_good else rule.action.format_map(facts),
        rows=examples,
    )
