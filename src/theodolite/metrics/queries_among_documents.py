"""How queries lie among the documents that they search: how far off, around which hubs, and past which documents.

Judged queries say how good a search is; these numbers need none. All of them are about search by cosine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from theodolite.core.intervals import UNLIMITED, Interval, Limits, replicate_interval, share_interval
from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats, Indices, Vectors, array
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest_rows import SPARE, K, largest_products, neighbours_of, squared_distances

FAR = 0.05
"""Share of the documents whose nearest other document is further away than the bound by which queries are called far."""
QUERY_MEASURES: dict[str, Limits] = {
    "query_gap": (0.0, math.inf),
    "query_hubness": UNLIMITED,
    "unreached_documents": (0.0, 1.0),
    "far_queries": (0.0, 1.0),
}
"""The measures by name, in the order in which they are shown, and the values that each can have."""


@dataclass(frozen=True, eq=False, kw_only=True)
class QueryMeasure:
    """One number about queries and documents.

    Parameters
    ----------
    metric, value
        Its name, one of `QUERY_MEASURES`, and the number; nan if it is not defined.
    low, high
        Its 95% interval over queries, the documents held; None if there is none.
    chance
        The number for comparison: what queries would give that are drawn like the documents (`query_gap`), that list documents
        at random (`query_hubness`, `unreached_documents`), or 5% (`far_queries`).
    influence
        What each query adds to the number, by leaving it out; the mean is 0, and the variance of the number is theirs over their
        count. Empty if there is none.
    reason
        Why the value is nan.
    """

    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    chance: float = math.nan
    influence: Doubles
    reason: str = ""

    @property
    def deviations(self) -> Doubles:
        """The influences, scaled so that their variance is that of the number."""
        return np.asarray(self.influence / math.sqrt(max(1, len(self.influence))), dtype=np.float64)


def query_measures(documents: Vectors | Cloud, queries: Vectors) -> tuple[QueryMeasure, ...]:
    """How queries lie among documents: gap of the means, hubs, documents that are never found, and queries far from all.

    `query_gap` is the distance of the mean query from the mean document, both of unit length, over the spread within the two:
    0 if the means are equal. `query_hubness` is the skewness of how often documents are among the 10 nearest of a query,
    `unreached_documents` the share that never is, and `far_queries` the share of queries whose nearest document is further away
    than the nearest other document is for 95% of the documents.

    Parameters
    ----------
    documents
        (n, d) vectors or a cloud; of more than 10,000 rows a seeded sample is searched, see `Cloud`.
    queries
        (q, d) vectors.

    Returns
    -------
    tuple of QueryMeasure
        In the order of `QUERY_MEASURES`, each with an interval over queries.

    Raises
    ------
    ValueError
        The dimensions differ, or a query has length 0.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((200, 8))
    >>> gap, *_ = query_measures(X, X)
    >>> round(gap.value, 6)
    0.0
    """
    cloud, asked = Cloud.of(documents), array(queries)
    if asked.shape[1] != cloud.d:
        raise ValueError(f"queries have {asked.shape[1]} dimensions and documents {cloud.d}; embed both with the same encoder")
    lengths = np.linalg.norm(asked.astype(np.float64), axis=1)
    if (lengths == 0).any():
        raise ValueError(f"query {int(np.argmin(lengths))} is a zero vector, which has no direction; leave it out")
    try:
        units = cloud.units
    except Undefined as undefined:
        return tuple(_undefined(name, str(undefined)) for name in QUERY_MEASURES)
    first = cloud.sample[np.searchsorted(cloud.sample_index, units.rows[0])].astype(np.float64)
    shift = first / np.linalg.norm(first) - units.shifted[0]
    points = np.asarray(asked / lengths[:, None] - shift, dtype=units.shifted.dtype)
    index, distance = _nearest(points, units.shifted)
    return (_gap(units.shifted, points), *_found(index, units.m), _far(cloud, distance))


def _nearest(queries: Floats, documents: Floats) -> tuple[Indices, Doubles]:
    """The 10 nearest documents of each query, fewer if there are fewer, and the cosine distance of the first."""
    k = min(K, len(documents))
    half_squares = np.einsum("ij,ij->i", documents, documents) / 2
    candidates = largest_products(queries, documents, min(k + SPARE, len(documents)), bias=-half_squares)
    squares = squared_distances(queries, documents, candidates)
    order = np.lexsort((candidates, squares), axis=1)[:, :k]
    return np.take_along_axis(candidates, order, 1), np.take_along_axis(squares, order[:, :1], 1)[:, 0] / 2


def _gap(documents: Floats, queries: Floats) -> QueryMeasure:
    n, q = len(documents), len(queries)
    mean, asked = documents.mean(axis=0, dtype=np.float64), queries.astype(np.float64)
    own = float(np.square(documents - mean, dtype=np.float64).sum())
    squares, total = np.einsum("ij,ij->i", asked, asked), asked.sum(axis=0)

    def gap(count: int, sums: Doubles, of_squares: Doubles) -> Doubles:
        """The gap for the queries with this count, sum and sum of squares."""
        centre = sums / count
        within = (own + of_squares - count * np.square(centre).sum(axis=-1)) / (n + count)
        return np.asarray(np.sqrt(np.square(centre - mean).sum(axis=-1) / np.maximum(within, 1e-300)))

    if own + float(squares.sum() - total @ total / q) <= 1e-12 * (n + q):
        return _undefined("query_gap", "all documents and all queries point the same way, so there is no spread")
    value = float(gap(q, total, squares.sum()))
    without = gap(q - 1, total - asked, squares.sum() - squares) if q > 1 else np.empty(0)
    return _measured("query_gap", value, without, math.sqrt(1 / n + 1 / q))


def _found(index: Indices, n: int) -> tuple[QueryMeasure, QueryMeasure]:
    """Hubs among the lists of the queries, and documents that are in none of them."""
    q, k = index.shape
    if n <= K:
        reason = f"each query lists all {n} documents; there must be more than {K}"
        return _undefined("query_hubness", reason), _undefined("unreached_documents", reason)
    counts = np.bincount(index.ravel(), minlength=n).astype(np.float64)
    listed = counts[index]  # of each query, the counts that are one less without it

    def skewness(first: Doubles, second: Doubles, third: Doubles) -> Doubles:
        """The skewness from the means of counts, their squares and their cubes; 0 if all are equal."""
        variance = np.maximum(second - first**2, 0.0)
        central = third - 3 * first * second + 2 * first**3
        return np.asarray(np.divide(central, variance**1.5, out=np.zeros_like(central), where=variance > 1e-12))

    powers = [np.asarray((counts**power).mean()) for power in (1, 2, 3)]
    less = [((listed - 1) ** power - listed**power).sum(axis=1) / n for power in (1, 2, 3)]
    share, empty = k / n, counts == 0
    skew, none = float(skewness(*powers)), float(empty.mean())
    without = skewness(*(power + change for power, change in zip(powers, less, strict=True)))
    by_chance = (1 - 2 * share) / math.sqrt(q * share * (1 - share))
    alone = none + (listed == 1).sum(axis=1) / n
    return (
        _measured("query_hubness", skew, without, by_chance),
        _measured("unreached_documents", none, alone, (1 - share) ** q),
    )


def _far(cloud: Cloud, distance: Doubles) -> QueryMeasure:
    table = neighbours_of(cloud)
    is_far = distance > max(float(np.quantile(table.distance[:, 0], 1 - FAR)), table.copy_distance)
    count, q = int(is_far.sum()), len(is_far)
    low, high = share_interval(count, q)
    value = count / q
    influence = np.asarray(is_far - value, dtype=np.float64)
    return QueryMeasure(metric="far_queries", value=value, low=low, high=high, chance=FAR, influence=influence)


def _measured(name: str, value: float, without: Doubles, chance: float) -> QueryMeasure:
    """A number with its interval, from the numbers without each query."""
    influence = (len(without) - 1) * (without.mean() - without) if len(without) > 1 else np.empty(0)
    found = QueryMeasure(metric=name, value=value, chance=chance, influence=influence)
    low, high = replicate_interval(value, found.deviations)
    least, most = QUERY_MEASURES[name]
    return found if low is None or high is None else replace(found, low=max(low, least), high=min(high, most))


def measured_difference(before: QueryMeasure, after: QueryMeasure) -> tuple[float, Interval]:
    """The second number minus the first, and its 95% interval, for the same queries in two representations."""
    difference = after.value - before.value
    if len(before.influence) != len(after.influence):
        raise ValueError(f"there are {len(before.influence)} and {len(after.influence)} queries; give the same queries twice")
    return difference, replicate_interval(difference, after.deviations - before.deviations)


def _undefined(name: str, reason: str) -> QueryMeasure:
    return QueryMeasure(metric=name, value=math.nan, influence=np.empty(0), reason=reason)
