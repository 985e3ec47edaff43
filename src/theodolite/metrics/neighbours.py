"""What nearest neighbours show: intrinsic dimension, hubs, copies, outliers, islands, and how stable a search is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats, Indices, Vectors
from theodolite.metrics.cloud import Cloud, Undefined, UnitRows
from theodolite.metrics.nearest_rows import (
    SPARE,
    Best,
    K,
    distinct_rows,
    first_connected,
    largest_products,
    mean_distance,
    nearest_candidates,
    nearest_neighbours,
    neighbours_of,
    search_with,
    squared_distances,
)
from theodolite.metrics.registry import NEITHER, metric
from theodolite.metrics.sphere import UNIFORMITY_T, UniformitySums

NEAR = 0.99  # cosine from which two rows count as near-duplicates
HUBS = 0.01  # share of the rows whose neighbour slots `hub_share` counts
AGREEMENT_QUERIES = 2000
STABILITY_QUERIES = 300
STEP = 0.05  # length of a query's step, as a share of the mean distance to the 10 nearest
ISLAND_SHARE = 0.005  # share of all rows up to which a cut-off part of the neighbour graph is an island
# The names under which a cloud keeps candidates for the nearest rows, and the largest products of the queries of agreement.
EUCLIDEAN, PRODUCTS = "euclidean candidates", "largest products"
DISCARD = 0.1  # share of TwoNN's ratios, the largest ones, that the fit leaves out: the density is least constant there


def search_once(cloud: Cloud, names: Sequence[str]) -> None:
    """Compute from one product of the sampled rows with themselves what four would take: a cloud keeps all four results.

    Nothing is computed unless metrics are measured that would need at least three of the four.

    These are the neighbours by cosine, the uniformity, the largest inner products, and candidates for the nearest rows by
    Euclidean distance: with lengths r and unit vectors u, |x - y|^2 = (r_x - r_y)^2 + r_x r_y |u_x - u_y|^2.
    """
    if not {"intrinsic_dimension", "uniformity", "hubness"} <= set(names):
        return
    shifted, norms = cloud.units.shifted, cloud.units.norms
    m, dtype = len(shifted), shifted.dtype
    scale = float(norms.mean())
    length = (norms / scale).astype(dtype)
    # About their mean, so that the lengths of rows at nearly the same distance differ in more than their last digits.
    step = ((norms - scale) / scale).astype(dtype)
    queries = _queries(cloud, m, AGREEMENT_QUERIES)
    sums, nearest, largest = UniformitySums(m), Best(m, min(2 + SPARE, m - 1), dtype), Best(len(queries), min(K, m - 1), dtype)

    def offer_products(rows: slice, tile: Floats, columns: slice) -> None:
        """x . y ranks as r_y (1 - |u - v|^2 / 2) for one x; minus 1 nothing cancels."""
        asked = slice(*np.searchsorted(queries, (rows.start, rows.stop)).tolist())
        scores = tile[queries[asked] - rows.start] * length[columns]
        scores += step[columns]
        largest.offer(asked, scores, columns.start)

    def visit(rows: slice, columns: slice, tile: Floats) -> None:
        scores = (2 * length[rows, None]) * length[columns]
        scores *= tile
        gaps = step[rows, None] - step[columns]
        gaps *= gaps
        scores -= gaps
        products = tile
        if rows == columns:
            np.fill_diagonal(scores, -np.inf)
            products = tile.copy()
            np.fill_diagonal(products, -np.inf)
        else:
            nearest.offer(columns, scores.T, rows.start)
            offer_products(columns, products.T, rows)
        nearest.offer(rows, scores, columns.start)
        offer_products(rows, products, columns)
        sums.add(rows, columns, tile.copy())

    if search_with(cloud, visit):
        cloud.with_cached({("uniformity", UNIFORMITY_T): sums.value(), EUCLIDEAN: nearest.index, PRODUCTS: largest.index})


@metric("(0, inf)", NEITHER, needs="sample", paper="Facco et al. 2017", resample=False, prepare=search_once)
def intrinsic_dimension(X: Vectors | Cloud) -> float:
    """Intrinsic dimension, estimated by TwoNN (Facco et al. 2017) from Euclidean distances; usually far below d.

    If r1 and r2 are a row's distances to its two nearest, P(r2 / r1 <= mu) = 1 - mu^-dimension. The dimension is the slope of
    -log(1 - F) on log mu, by least squares through the origin, with F = i / n for the i-th smallest mu. The 10% largest ratios
    are discarded, and copies of rows are left out.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    points = _centred(cloud.sample)
    first, _ = distinct_rows(points)
    n = len(first)
    if n < 3:
        raise Undefined(f"two distances from each row need at least 3 distinct rows, there are {n}")
    candidates: Indices | None = cloud.cached(EUCLIDEAN, lambda: None)
    # In another precision, or with copies left out, the rows are not those that the candidates were found among.
    if candidates is not None and n == len(points) and points.dtype == cloud.sample.dtype:
        _, squares = nearest_candidates(points, candidates, 2)
    else:
        _, squares = nearest_neighbours(points if n == len(points) else points[first], 2)
    log_ratio = np.sort(np.log(squares[:, 1] / squares[:, 0]) / 2)[: int(n * (1 - DISCARD))]
    log_tail = -np.log1p(-np.arange(1, len(log_ratio) + 1) / n)
    # Ratios within rounding of 1 have no slope to fit.
    if log_ratio[-1] < 256 * np.finfo(points.dtype).eps:
        raise Undefined("the two nearest of each row are equally far, as on a grid, so their ratios fit no dimension")
    return float(log_ratio @ log_tail / (log_ratio @ log_ratio))


@metric("(-inf, inf)", NEITHER, needs="sample", paper="Radovanović et al. 2010", resample=False)
def hubness(X: Vectors | Cloud) -> float:
    """Skewness of how often each row is among the 10 nearest of another, by cosine. It is 0 without hubs; above 1, hubs dominate.

    The count of a row is the number of rows that have it among their 10 nearest. If all counts are equal, it is 0.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    counts = neighbours_of(Cloud.of(X)).occurrences()
    centred = counts - counts.mean()
    spread = float(np.sqrt(np.mean(centred**2)))
    return float(np.mean(centred**3)) / spread**3 if spread > 0 else 0.0


@metric("[0, 1)", NEITHER, needs="sample", paper="Radovanović et al. 2010", resample=False)
def never_retrieved(X: Vectors | Cloud) -> float:
    """Share of rows that are not among the 10 nearest of any other row, by cosine (anti-hubs), in [0, 1).

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    return float(np.mean(neighbours_of(Cloud.of(X)).occurrences() == 0))


@metric("[0.01, 1]", NEITHER, needs="sample", paper="Radovanović et al. 2010", resample=False)
def hub_share(X: Vectors | Cloud) -> float:
    """Share of all top-10 results that the most popular 1% of rows take up, in [0.01, 1]; 0.01 if all rows are equally popular.

    The 1% is rounded up to whole rows.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    counts = neighbours_of(Cloud.of(X)).occurrences()
    top = int(np.ceil(HUBS * len(counts)))
    return float(np.sort(counts)[-top:].sum() / counts.sum())


@metric("[0, 1]", NEITHER, needs="sample", resample=False)
def near_duplicates(X: Vectors | Cloud) -> float:
    """Share of rows that have another row at a cosine of 0.99 or more, exact copies included, in [0, 1].

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`. A pair is counted only if both of
        its rows were sampled, so the whole cloud has at least this share.
    """
    cloud = Cloud.of(X)
    table = neighbours_of(cloud)
    if len(table.distinct) > 1 and mean_distance(cloud.units.shifted, table.distinct) <= 1 - NEAR:
        raise Undefined(f"any two rows are at cosine {NEAR} on average, so this says nothing about copies; remove the mean first")
    return float(np.mean(table.distance[:, 0] <= 1 - NEAR))


@metric("[0, 1)", NEITHER, needs="sample", resample=False)
def exact_duplicates(X: Vectors | Cloud) -> float:
    """Share of rows that repeat an earlier row exactly, rows of zeros included, in [0, 1).

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`. A pair is counted only if both of
        its rows were sampled, so the whole cloud has at least this share.
    """
    rows = Cloud.of(X).sample
    if len(rows) < 2:
        raise Undefined("one row has nothing to repeat; give at least two")
    return 1 - len(distinct_rows(rows)[0]) / len(rows)


@metric("(0, inf)", NEITHER, needs="sample", paper="Aggarwal et al. 2001", resample=False)
def relative_contrast(X: Vectors | Cloud) -> float:
    """Mean cosine distance of two rows divided by the median distance to the nearest; near 1, distances carry no signal.

    Near 1, the nearest row is as far away as any other. Copies of a row count once.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    table = neighbours_of(cloud)
    nearby = float(np.median(table.nearest_distinct))
    return mean_distance(cloud.units.shifted, table.distinct) / nearby


@metric("[0, 0.5]", NEITHER, needs="sample", resample=False)
def outliers(X: Vectors | Cloud) -> float:
    """Share of rows farther from their nearest row than the median + 3 robust standard deviations, in [0, 0.5].

    The distance is the cosine distance to the nearest row that is not a copy. The median and the robust standard deviation,
    which is 1.4826 times the median absolute deviation, count copies once. `outlying_rows` names the rows.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    return float(np.mean(_excess(Cloud.of(X)) > 0))


def outlying_rows(X: Vectors | Cloud, *, count: int = 10) -> Indices:
    """Row numbers, in the whole cloud, of the rows that `outliers` counts, farthest first."""
    cloud = Cloud.of(X)
    excess = _excess(cloud)
    order = np.argsort(-excess, kind="stable")[:count]
    return neighbours_of(cloud).rows[order[excess[order] > 0]]


@metric("[0, inf)", NEITHER, needs="sample", resample=False)
def density_variation(X: Vectors | Cloud) -> float:
    """Coefficient of variation of the mean cosine distance to the 10 nearest rows, at least 0; 0 if the density is even.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    means = neighbours_of(Cloud.of(X)).distance.mean(axis=1)
    if not means.any():
        raise Undefined("all neighbours of every row are copies of it, at distance 0, so there is no density to compare")
    return float(means.std() / means.mean())


@metric("[0, 1]", NEITHER, needs="sample", resample=False)
def metric_agreement(X: Vectors | Cloud) -> float:
    """Share of the 10 nearest rows by cosine that are also among the 10 with the largest inner products, in [0, 1].

    It is the mean over at most 2,000 seeded queries. Rows that tie with the tenth by cosine count as shared.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    units, table = cloud.units, neighbours_of(cloud)
    shifted, queries = units.shifted, _queries(cloud, units.m, AGREEMENT_QUERIES)
    by_product = cloud.cached(PRODUCTS, lambda: _largest_products_of(units, queries, table.k))
    distance = squared_distances(shifted[queries], shifted, by_product) / 2
    # Within a margin of the tenth distance: ties, and rounding of the products, are not disagreement.
    return float(np.mean(distance <= table.distance[queries, -1:] * (1 + 1e-5) + table.copy_distance))


@metric("[0, 1]", NEITHER, needs="sample", resample=False)
def retrieval_stability(X: Vectors | Cloud) -> float:
    """Overlap (Jaccard) of the 10 nearest rows by cosine before and after a small change of the query, in [0, 1]; 1 is stable.

    300 seeded queries take a Gaussian step whose length is about 5% of the mean distance between a row and its 10 nearest, both
    as unit vectors. Copies count once, because their order is arbitrary.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    table = neighbours_of(cloud)
    g, k = len(table.distinct), table.distinct_index.shape[1]
    if k == g - 1:
        raise Undefined(f"each of the {g} distinct directions lists all the others; there must be more than {k + 1}")
    shifted = cloud.units.shifted
    points = shifted if g == table.m else shifted[table.distinct]
    queries = _queries(cloud, g, STABILITY_QUERIES)
    length = STEP * float(np.sqrt(2 * table.distinct_distance).mean())
    # A Gaussian vector of d dimensions has a length of about sqrt(d).
    steps = np.random.default_rng(cloud.seed).standard_normal((len(queries), cloud.d)) * (length / np.sqrt(cloud.d))
    stepped = (points[queries] + steps).astype(points.dtype)
    after = largest_products(stepped, points, k, bias=-np.einsum("ij,ij->i", points, points) / 2, own=queries)
    shared = (table.distinct_index[queries][:, :, None] == after[:, None]).sum(axis=(1, 2))
    return float(np.mean(shared / (2 * k - shared)))


def components(X: Vectors | Cloud) -> tuple[Indices, ...]:
    """Row numbers of each connected part of the symmetrised 10-nearest-neighbour graph by cosine, largest part first."""
    cloud = Cloud.of(X)

    def connected() -> tuple[Indices, ...]:
        table = neighbours_of(cloud)
        first = first_connected(np.repeat(np.arange(table.m), table.k), table.index.ravel(), table.m)
        parts = np.split(np.argsort(first, kind="stable"), np.cumsum(np.unique(first, return_counts=True)[1])[:-1])
        return tuple(table.rows[part] for part in sorted(parts, key=len, reverse=True))

    return cloud.cached("components", connected)


def island_components(X: Vectors | Cloud) -> list[Indices]:
    """Row numbers of each part of the neighbour graph that is an island: of at most 20 rows, or 0.5% of all if that is more.

    A part has at least 11 rows, a row and its 10 nearest, so a much smaller limit would find nothing. The largest part is the
    mainland, and never an island.
    """
    parts = components(X)
    limit = max(2 * K, int(ISLAND_SHARE * sum(map(len, parts))))
    return [rows for rows in parts[1:] if len(rows) <= limit]


@metric("[0, 1)", NEITHER, needs="sample", resample=False)
def islands(X: Vectors | Cloud) -> float:
    """Share of rows in small groups that are cut off from the rest of the graph of the 10 nearest rows by cosine, in [0, 1).

    A group is small if it has at most 20 rows, or at most 0.5% of all rows. `island_components` names the rows.

    Parameters
    ----------
    X
        Vectors or a cloud; of more than 10,000 rows a seeded sample is measured, see `Cloud`.
    """
    cloud = Cloud.of(X)
    return sum(map(len, island_components(cloud))) / neighbours_of(cloud).m


def _largest_products_of(units: UnitRows, queries: Indices, k: int) -> Indices:
    """Positions of the k rows with the largest inner product with each query."""
    shifted, dtype = units.shifted, units.shifted.dtype
    # x_i . x_j ranks as r_j (1 - |u_i - u_j|^2 / 2), r_j the length of x_j; minus 1 and over shifted vectors nothing cancels.
    length = units.norms / units.norms.mean()
    halves = np.einsum("ij,ij->i", shifted, shifted).astype(np.float64) / 2
    keys = np.empty((units.m, shifted.shape[1] + 1), dtype)
    np.multiply(shifted, length.astype(dtype)[:, None], out=keys[:, :-1])
    keys[:, -1] = -length
    rows = np.column_stack([shifted[queries], halves[queries].astype(dtype)])
    return largest_products(rows, keys, k, bias=((length - 1) - length * halves).astype(dtype), own=queries)


def _excess(cloud: Cloud) -> Doubles:
    """(m,) by how much each row's nearest-neighbour distance exceeds the limit of an outlier."""
    table = neighbours_of(cloud)
    distance = table.nearest_distinct
    if len(distance) < 3:
        raise Undefined("an outlier needs at least two others to differ from, but there are only two distinct directions")
    middle = float(np.median(distance))
    deviation = 1.4826 * float(np.median(np.abs(distance - middle)))
    # If most distances are equal, as on a grid, their rounding must not decide.
    return np.asarray(distance - (middle + 3 * max(deviation, 1e-5 * middle)), dtype=np.float64)[table.group]


def _centred(X: Floats) -> Floats:
    """Rows about their mean, divided by the largest entry: ratios stay the same, and squares neither cancel nor overflow."""
    scale = float(np.abs(X).max()) or 1.0
    mean = X.mean(axis=0, dtype=np.float64)
    # One row far outside moves the mean away from all others, whose differences float32 would then round off.
    is_far = scale > 1000 * float(np.median(np.abs(X).max(axis=1)))
    points: Floats = np.empty(X.shape, np.float64 if is_far else X.dtype)
    for start in range(0, len(X), 1024):  # in chunks, so that float64 copies stay small
        points[start : start + 1024] = (X[start : start + 1024] - mean) / scale
    return points


def _queries(cloud: Cloud, m: int, count: int) -> Indices:
    """`count` of m positions, seeded; all of them if there are no more."""
    if m <= count:
        return np.arange(m)
    return np.sort(np.random.default_rng(cloud.seed).choice(m, count, replace=False))
