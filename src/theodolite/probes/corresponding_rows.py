"""How two sets of vectors for the same rows are related: equal, rounded, scaled, turned, mapped, mixed, or different.

`correspondence` names the first relation of a fixed order that holds, `kept_structure` measures what survived whatever the
relation is: nearest neighbours, CKA over its permutation null, and cutoffs translated from one side to the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.intervals import student_interval
from theodolite.core.moments import Doubles, unit_rows
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Floats, Indices, Vectors, array
from theodolite.probes.similarity import CkaNull, cka_null

IDENTICAL, PRECISION, LENGTH, NEARLY = "identical", "same up to precision", "same up to length", "nearly the same"
FIRST, TURNED, LINEAR, PARTLY, DIFFERENT = "first dimensions", "turned", "linear map", "partly re-embedded", "different"
# Relations that chance cannot give, so that they show by themselves that the rows correspond.
CERTAIN = (IDENTICAL, PRECISION, LENGTH, NEARLY, FIRST, TURNED, LINEAR, PARTLY)

ALL_ROWS, SOME_ROWS = 0.99, 0.05  # shares of rows for which a relation holds of all, or at least of some of them
EQUAL = 1e-6  # of the largest entry
# What the same texts differ by if one encoder reads them in other batches, of the largest entry: 3e-6 were seen.
ARITHMETIC = 1e-5
SAME_DIRECTION = 1 - 1e-6
NEAR, NEAR_CENTRED, STRAY = 0.99, 0.9, 0.95  # median cosine of rows that are nearly the same, that about the means, and the least
TURNED_EXACT, TURNED_INT8 = 1e-3, 0.01  # relative difference of centred Gram matrices
ANCHORS = 64  # rows whose Gram matrices are compared
FEWEST_ANCHORS = 8  # Gram matrices of fewer rows may agree by chance
LINEAR_R2 = 0.99  # any two encoders reach 0.4 to 0.55
PROBED = 64  # rows that every candidate is first tried on
BLOCK = 1024  # rows compared at a time, in float64
LEVELS = {"int4": 16, "int8": 256}
GRID_ROWS = 512  # rows that show the step of a column

NEIGHBOURS = 10
ASKING = 500  # rows whose neighbours are compared
SEARCHED = 10_000
CKA_ROWS = 500
FEWEST_PAIRS = 10
SHARES = (0.1, 0.01, 0.001)  # of random pairs above a cutoff

Mask: TypeAlias = NDArray[np.bool_]
# Whether a relation holds, row by row of two blocks of the same rows.
RowTest: TypeAlias = Callable[[Doubles, Doubles], Mask]
# A relation to try: verdict, detail, the side that was made from the other, and the test.
Candidate: TypeAlias = tuple[str, str, str, RowTest]


@dataclass(frozen=True, kw_only=True)
class Correspondence:
    """How the rows of B are related to the rows of A.

    Parameters
    ----------
    verdict
        `identical`, `same up to precision`, `same up to length`, `nearly the same`, `first dimensions`, `turned`, `linear map`,
        `partly re-embedded` or `different`.
    detail
        Which precision, how many dimensions, which direction, or what relates the rows that were not re-embedded.
    side
        The side that was made from the other one, "A" or "B"; empty if both are alike.
    up_to
        What else differs between rows that are turned: `up to int8`, `up to length`.
    scale
        How many times as far apart rows that are turned are in B as in A; 1 unless the difference is more than rounding.
    is_shifted, is_rotated
        Whether rows that are turned are shifted too, and whether they are more than shifted and scaled.
    within
        The verdict on the first dimensions, if one side consists of those of the other.
    share
        Share of the rows for which the relation holds.
    outliers
        Numbers of the rows for which it does not hold.
    numbers
        What the verdict stands on, by name: `median_cosine`, `gram_difference`, `r2_a_to_b`, `r2_b_to_a`, as far as computed.
    n
        Number of rows compared.
    """

    verdict: str
    detail: str = ""
    side: str = ""
    up_to: tuple[str, ...] = ()
    scale: float = 1.0
    is_shifted: bool = False
    is_rotated: bool = True
    within: str = ""
    share: float = 1.0
    outliers: tuple[int, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    n: int = 0


@dataclass(frozen=True, kw_only=True)
class KeptStructure:
    """What two representations of the same rows have in common, whatever their relation.

    Parameters
    ----------
    neighbours, low, high
        Mean share of the nearest rows by cosine that both have, with its interval over the rows that ask.
    chance
        That share for unrelated rows.
    k, asking, searched
        How many neighbours, of how many rows, among how many.
    cka
        Debiased CKA and its permutation null.
    thresholds
        Share of random pairs, and the cosine above which that share lies in A and in B.
    """

    neighbours: float
    low: float | None
    high: float | None
    chance: float
    k: int
    asking: int
    searched: int
    cka: CkaNull
    thresholds: tuple[tuple[float, float, float], ...]


def correspondence(A: Vectors, B: Vectors, *, seed: int = 0) -> Correspondence:
    """The first relation that holds between the rows of A and the same rows of B, from `identical` to `different`.

    A relation holds if at least 99 % of the rows fit it; if 5 to 99 % do, the others were embedded in another way.

    Parameters
    ----------
    A, B
        (n, d) and (n, e) vectors; row i of both stands for the same text.
    seed
        Seed of the rows that Gram matrices and linear maps are tested on.

    Raises
    ------
    ValueError
        The two have different numbers of rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 8))
    >>> Q = np.linalg.qr(np.random.default_rng(1).standard_normal((8, 8)))[0]
    >>> correspondence(X, X.astype(np.float16)).detail, correspondence(X, X @ Q).verdict
    ('float16', 'turned')
    """
    first, second = array(A), array(B)
    if len(first) != len(second):
        raise ValueError(f"there are {len(first)} and {len(second)} rows; correspondence compares the same rows: pair them first")
    numbers: dict[str, float] = {}
    same_width = first.shape[1] == second.shape[1]
    relation = _row_by_row(first, second, numbers) if same_width else _first_dimensions(first, second)
    if relation is None or relation.share < ALL_ROWS:
        turned = _turned(first, second, numbers, seed)
        if relation is None or (turned is not None and turned.share >= ALL_ROWS):
            relation = turned
    if relation is None:
        relation = _linear(first, second, numbers, seed)
    elif relation.share < ALL_ROWS:
        relation = replace(relation, verdict=PARTLY, detail=_words(relation))
    return replace(relation, numbers=numbers, n=len(first))


def kept_structure(A: Vectors, B: Vectors, *, seed: int = 0) -> KeptStructure:
    """Nearest neighbours kept, debiased CKA over its null, and cutoffs translated, for the same rows in two representations.

    Parameters
    ----------
    A, B
        (n, d) and (n, e) vectors; row i of both stands for the same text.
    seed
        Seed of the rows that ask, of the rows and permutations for CKA, and of the random pairs.
    """
    first, second = array(A), array(B)
    n = len(first)
    rows = sample_rows(n, SEARCHED, seed=seed)
    units = [unit_rows(np.asarray(side[rows], dtype=np.float32)) for side in (first, second)]
    asking = sample_rows(len(rows), ASKING, seed=seed + 1)
    k = min(NEIGHBOURS, len(rows) - 1)
    similarities = [_similarities(unit, asking) for unit in units]
    lists = [np.argpartition(side, -k, axis=1)[:, -k:] for side in similarities]
    kept = (lists[0][:, :, None] == lists[1][:, None, :]).any(axis=2).mean(axis=1)
    low, high = student_interval(kept)
    if low is not None and high is not None:
        low, high = max(0.0, low), min(1.0, high)
    sampled = sample_rows(n, CKA_ROWS, seed=seed)
    # A quantile needs some pairs beyond it; the pair of a row with itself is the lowest.
    shares = [share for share in SHARES if share * n * (n - 1) / 2 >= FEWEST_PAIRS]
    quantiles = [1 - share * (1 - 1 / len(rows)) for share in shares]
    cutoffs = [np.quantile(side, quantiles).tolist() for side in similarities]
    return KeptStructure(
        neighbours=float(kept.mean()),
        low=low,
        high=high,
        chance=k / (len(rows) - 1),
        k=k,
        asking=len(asking),
        searched=len(rows),
        cka=cka_null(first[sampled], second[sampled], seed=seed),
        thresholds=tuple(zip(shares, *cutoffs, strict=True)),
    )


def _row_by_row(A: Floats, B: Floats, numbers: dict[str, float]) -> Correspondence | None:
    """The first relation between rows that holds for all or for some of them: equal, rounded, scaled, or nearly the same."""
    scale = max(_largest_entry(A), _largest_entry(B))
    some = None
    identical: Candidate = (IDENTICAL, "", "", lambda a, b: np.abs(a - b).max(axis=1) <= EQUAL * scale)
    others: list[Candidate] = [
        (PRECISION, "float32 arithmetic", "", lambda a, b: np.abs(a - b).max(axis=1) <= ARITHMETIC * scale),
        (LENGTH, "", "", lambda a, b: _cosines(a, b) >= SAME_DIRECTION),
    ]
    # Grids are looked for only if the rows are not identical.
    for verdict, detail, side, test in chain([identical], _roundings(A, B, ARITHMETIC * scale), others):
        fits = _tried(A, B, test)
        if fits is None:
            continue
        relation = _held(verdict, detail, side, fits)
        if relation.share >= ALL_ROWS:
            numbers["median_cosine"] = float(np.median(_by_block(A, B, _cosines)))
            return relation
        some = some if some is not None and some.share >= relation.share else relation
    cosines = _by_block(A, B, _cosines)
    centres = A.mean(axis=0, dtype=np.float64), B.mean(axis=0, dtype=np.float64)
    about_means = _by_block(A, B, lambda a, b: _cosines(a - centres[0], b - centres[1]))
    numbers["median_cosine"] = float(np.median(cosines))
    if some is not None:
        return some
    # If all rows point one way, unrelated ones have a cosine near 1 too: what is left of them about the means decides.
    if numbers["median_cosine"] >= NEAR and np.median(about_means) >= NEAR_CENTRED:
        return _held(NEARLY, "", "", cosines >= STRAY)
    return None


def _first_dimensions(A: Floats, B: Floats) -> Correspondence | None:
    """Whether the shorter side is the first columns of the longer one, itself or by one of the relations between rows."""
    if packed := _packed_signs(A, B):
        return packed
    width, longer = sorted([A.shape[1], B.shape[1]])
    inner = _row_by_row(A[:, :width], B[:, :width], {})
    if inner is None:
        return None
    words = f", {_words(inner)}" if inner.verdict != IDENTICAL else ""
    side = "A" if A.shape[1] == width else "B"
    return replace(inner, verdict=FIRST, detail=f"first {width} of {longer} dimensions{words}", side=side, within=inner.verdict)


def _words(relation: Correspondence) -> str:
    return f"{relation.verdict} ({relation.detail})" if relation.detail else relation.verdict


def _roundings(A: Floats, B: Floats, noise: float) -> Iterator[Candidate]:
    """Precisions that one side may have been rounded to, up to some noise."""
    for name, test in _precisions(A, B, noise):
        yield PRECISION, name, "B", test
    for name, test in _precisions(B, A, noise):
        yield PRECISION, name, "A", partial(_swapped, test)


def _swapped(test: RowTest, a: Doubles, b: Doubles) -> Mask:
    return test(b, a)


def _precisions(exact: Floats, rounded: Floats, noise: float) -> Iterator[tuple[str, RowTest]]:
    """Names of precisions, each with the test for values that were rounded to it."""
    yield "float16", partial(_is_float16, noise)
    yield "bfloat16", partial(_is_bfloat16, noise)
    if digits := _printed_digits(rounded[:PROBED]):
        yield digits
    values = np.unique(rounded[:PROBED])
    if len(values) <= 2:
        yield "binary", partial(_has_signs, float(values[0] + values[-1]) / 2)
        return
    for unit, axis in (("file", None), ("column", 0), ("row", 1)):
        for name, test in _steps(exact, rounded, axis):
            yield f"{name}, one step per {unit}", test


def _has_signs(middle: float, exact: Doubles, rounded: Doubles) -> Mask:
    return np.asarray(((exact > 0) == (rounded > middle)).mean(axis=1) >= 0.999)


def _is_float16(noise: float, exact: Doubles, rounded: Doubles) -> Mask:
    with np.errstate(over="ignore"):
        is_stored = (rounded.astype(np.float16) == rounded).all(axis=1)
    # Up to a whole unit in the last place: some converters cut instead of rounding.
    return np.asarray(is_stored & (np.abs(exact - rounded) <= 2.0**-10 * np.abs(exact) + noise).all(axis=1))


def _is_bfloat16(noise: float, exact: Doubles, rounded: Doubles) -> Mask:
    single = np.ascontiguousarray(rounded, dtype=np.float32)
    is_stored = (single.view(np.uint32) & 0xFFFF == 0).all(axis=1) & (single == rounded).all(axis=1)
    return np.asarray(is_stored & (np.abs(exact - rounded) <= 2.0**-7 * np.abs(exact) + noise).all(axis=1))


def _printed_digits(rounded: Floats) -> tuple[str, RowTest] | None:
    """The test for numbers that were printed with a few decimals or significant digits, if these were."""
    values = np.asarray(rounded, dtype=np.float64)
    rounding = 4 * float(np.finfo(rounded.dtype).eps)
    for decimals in range(1, 8):
        scaled = values * 10.0**decimals
        if (np.abs(scaled - np.round(scaled)) <= rounding * np.abs(scaled) + 1e-9).all() and (np.abs(scaled) <= 1e6).all():
            test = partial(_is_printed, 0.5 * 10.0**-decimals * 1.001, None, rounding)
            return f"{decimals} decimal{'s' * (decimals > 1)}", test
    for digits in range(2, 7):
        unit = _last_digit(values, digits)
        if (np.abs(values / unit - np.round(values / unit)) <= rounding * 10.0**digits).all():
            return f"{digits} significant digits", partial(_is_printed, 0.501, digits, rounding)
    return None


def _is_printed(half: float, digits: int | None, rounding: float, exact: Doubles, rounded: Doubles) -> Mask:
    """Which rows are within half a unit: an absolute one, or one in the last of so many significant digits."""
    unit = 1.0 if digits is None else _last_digit(rounded, digits)
    return np.asarray((np.abs(exact - rounded) <= half * unit + rounding * np.abs(exact)).all(axis=1))


def _last_digit(values: Doubles, digits: int) -> Doubles:
    """The size of one in the last of so many significant digits."""
    size = np.maximum(np.abs(values), 1e-30)
    return np.asarray(10.0 ** (np.floor(np.log10(size) + 1e-6) - digits + 1), dtype=np.float64)


def _steps(exact: Floats, rounded: Floats, axis: int | None) -> Iterator[tuple[str, RowTest]]:
    """The test for integers of 4 or 8 bits, as codes or multiplied out, with one step for the file, each column or each row."""
    if axis == 1:
        grids = [_grid(row) for row in rounded[:PROBED]]
        levels = _most_levels(grids)
        if sum(grid is not None for grid in grids) < SOME_ROWS * len(grids) or not levels:
            return
        yield _bits(levels), lambda a, b: np.array([_fits_grid(x, y, _grid(y)) for x, y in zip(a, b, strict=True)], dtype=bool)
        return
    shown, known = rounded[:GRID_ROWS], exact[:GRID_ROWS]
    if axis is None:
        grids = [_grid(shown[:PROBED])]
        lines = [_line(known.ravel(), shown.ravel(), grids[0])] * shown.shape[1]
    else:
        grids = [_grid(column) if len(np.unique(column)) > 3 else None for column in shown[:PROBED].T]
        if sum(grid is not None for grid in grids) < 0.95 * len(grids):
            return
        grids = [_grid(column) for column in shown.T]
        lines = [_line(x, y, grid) for x, y, grid in zip(known.T, shown.T, grids, strict=True)]
    levels = _most_levels(grids)
    if not levels:
        return
    slope, shift, tolerance = (np.array(values) for values in zip(*lines, strict=True))
    ends = rounded.min(axis=axis), rounded.max(axis=axis)

    def test(a: Doubles, b: Doubles) -> Mask:
        is_clipped = (b <= ends[0]) | (b >= ends[1])
        return np.asarray((is_clipped | (np.abs(a - slope * b - shift) <= tolerance)).mean(axis=1) >= 0.999)

    yield _bits(levels), test


def _most_levels(grids: Sequence[tuple[float, int] | None]) -> int:
    return max((grid[1] for grid in grids if grid is not None), default=0)


def _bits(levels: int) -> str:
    return next(name for name, most in LEVELS.items() if levels <= most)


def _grid(values: Floats) -> tuple[float, int] | None:
    """Step and number of levels of values that lie on at most 256 equally spaced ones; None if they do not."""
    distinct = np.unique(np.asarray(values, dtype=np.float64))
    if len(distinct) < 3 or len(distinct) > LEVELS["int8"]:
        return None
    smallest, span = float(np.diff(distinct).min()), float(distinct[-1] - distinct[0])
    for divisor in range(1, 9):  # of few values, no two may be neighbours on the grid
        step = smallest / divisor
        if span / step > LEVELS["int8"] - 0.5:
            return None
        steps = (distinct - distinct[0]) / step
        if np.abs(steps - np.round(steps)).max() <= 0.02:
            return step, round(span / step) + 1
    return None


def _line(exact: Floats, rounded: Floats, grid: tuple[float, int] | None) -> tuple[float, float, float]:
    """Slope and intercept by which rounded values stand for exact ones, and how far apart the two may be."""
    if grid is None:  # a constant: only equal values fit
        return 1.0, 0.0, 0.0
    step, levels = grid
    # More than half a step: common quantisers of 8 bits cut instead of rounding, and a fitted slope is not the one that was used.
    tolerance = (1.5 if levels > LEVELS["int4"] else 0.9) * step
    x, y = np.asarray(rounded, dtype=np.float64), np.asarray(exact, dtype=np.float64)
    inside = (x > x.min()) & (x < x.max())
    if inside.sum() < 3 or (np.abs(y - x)[inside] <= tolerance).mean() >= 0.999:
        return 1.0, 0.0, tolerance
    x, y = x[inside], y[inside]
    centred = x - x.mean()
    slope = float(centred @ y / max(float(centred @ centred), 1e-300))
    return slope, float(y.mean() - slope * x.mean()), abs(slope) * tolerance


def _fits_grid(exact: Doubles, rounded: Doubles, grid: tuple[float, int] | None) -> bool:
    slope, shift, tolerance = _line(exact, rounded, grid)
    inside = (rounded > rounded.min()) & (rounded < rounded.max())
    return bool((np.abs(exact - slope * rounded - shift)[inside] <= tolerance).mean() >= 0.999) if inside.any() else False


def _packed_signs(A: Floats, B: Floats) -> Correspondence | None:
    """One bit per dimension, eight to a byte: whether one side holds the signs of the other."""
    for side, (exact, packed) in {"B": (A, B), "A": (B, A)}.items():
        if exact.shape[1] != 8 * packed.shape[1] or not (packed == np.round(packed)).all() or np.abs(packed).max() > 255:
            continue
        codes = packed + 128 if packed.min() < 0 else packed  # signed bytes are stored minus 128
        fits = ((exact > 0) == np.unpackbits(codes.astype(np.uint8), axis=1).astype(bool)).mean(axis=1) >= 0.999
        if fits.mean() >= SOME_ROWS:
            return _held(PRECISION, "binary, eight dimensions to a byte", side, fits)
    return None


def _turned(A: Floats, B: Floats, numbers: dict[str, float], seed: int) -> Correspondence | None:
    """Whether centred Gram matrices agree up to one scale: a rotation or reflection, a shift, one scale."""
    for unit in (False, True):
        anchors = sample_rows(len(A), ANCHORS, seed=seed)
        if len(anchors) < FEWEST_ANCHORS:
            return None
        sides = [np.asarray(side[anchors], dtype=np.float64) for side in (A, B)]
        sides = [unit_rows(side) for side in sides] if unit else sides
        kept = np.arange(len(anchors))
        difference, scale = _gram_difference(*sides)
        numbers.setdefault("gram_difference", difference)
        # Some rows may have been embedded in another way: those that fit worst are dropped, up to half of them.
        while difference > TURNED_INT8 and len(kept) > max(FEWEST_ANCHORS, len(anchors) // 2):
            K, L = (_gram(side[kept]) for side in sides)
            misfit = np.square(scale * K - L).sum(axis=1) / np.maximum(np.square(L).sum(axis=1), 1e-300)
            kept = np.delete(kept, np.argsort(misfit)[-max(1, len(kept) // 16) :])
            difference, scale = _gram_difference(*(side[kept] for side in sides))
        if difference > TURNED_INT8:
            continue
        centres = [side[kept].mean(axis=0) for side in sides]
        bases = [side[kept] - centre for side, centre in zip(sides, centres, strict=True)]
        size = math.sqrt(float(np.square(bases[1] @ bases[1].T).sum(axis=1).mean()))

        fits = _by_block(A, B, partial(_fits_anchors, unit, scale, 5 * TURNED_INT8 * size, centres, bases))
        numbers["gram_difference"] = difference
        # Products about 0 are equal too unless there is a shift.
        K, L = (side[kept] @ side[kept].T for side in sides)
        is_shifted = float(np.linalg.norm(scale * K - L)) > 3 * TURNED_INT8 * float(np.linalg.norm(L))
        is_aligned = A.shape[1] == B.shape[1] and np.allclose(math.sqrt(scale) * bases[0], bases[1], atol=1e-3 * size**0.5)
        up_to = (*["up to int8"] * (difference > TURNED_EXACT), *["up to length"] * unit)
        is_scaled = abs(math.sqrt(scale) - 1) > (TURNED_INT8 if difference > TURNED_EXACT else TURNED_EXACT)
        shift = ["a shift without rotation" if is_aligned else "with a shift"] * is_shifted
        factor = math.sqrt(scale) if is_scaled else 1.0
        relation = _held(TURNED, ", ".join([*up_to, *[f"scaled by {factor:.3g}"] * is_scaled, *shift]), "", fits)
        return replace(relation, up_to=up_to, scale=factor, is_shifted=is_shifted, is_rotated=not (is_shifted and is_aligned))
    return None


def _fits_anchors(
    unit: bool, scale: float, most: float, centres: Sequence[Doubles], bases: Sequence[Doubles], a: Doubles, b: Doubles
) -> Mask:
    """Which rows have the same products with the anchors on both sides."""
    rows = [unit_rows(side) if unit else side for side in (a, b)]
    products = [(side - centre) @ base.T for side, centre, base in zip(rows, centres, bases, strict=True)]
    return np.asarray(np.linalg.norm(scale * products[0] - products[1], axis=1) <= most)


def _gram(rows: Doubles) -> Doubles:
    centred = rows - rows.mean(axis=0)
    return np.asarray(centred @ centred.T)


def _gram_difference(A: Doubles, B: Doubles) -> tuple[float, float]:
    """Relative difference of the centred Gram matrices after one scale, and that scale."""
    K, L = _gram(A), _gram(B)
    square, size = float(np.vdot(K, K)), float(np.linalg.norm(L))
    if square <= 0 or size <= 0:
        return math.inf, 1.0
    scale = float(np.vdot(K, L)) / square
    return float(np.linalg.norm(scale * K - L)) / size, max(scale, 0.0)


def _linear(A: Floats, B: Floats, numbers: dict[str, float], seed: int) -> Correspondence:
    """Whether one side is a linear function of the other, on rows that the map was not fitted on; different otherwise."""
    order = np.random.default_rng(seed).permutation(len(A))
    directions = {"r2_a_to_b": (A, B, "from A to B", "B"), "r2_b_to_a": (B, A, "from B to A", "A")}
    shortage = 0
    maps = []
    for name, (source, target, words, side) in directions.items():
        d = source.shape[1]
        fitted = min(4 * len(A) // 5, 8 * (d + 1))
        if fitted <= 1.25 * (d + 1):
            shortage = max(shortage, d)
            continue
        numbers[name] = _unseen_r2(source, target, order[:fitted], order[fitted:][:2000])
        if numbers[name] >= LINEAR_R2:
            maps.append((words, side))
    if maps:
        words, side = maps[0] if len(maps) == 1 else ("in both directions", "")
        return Correspondence(verdict=LINEAR, detail=words, side=side)
    detail = f"too few rows to look for a linear map in {shortage} dimensions: {len(A):,}" if shortage else ""
    return Correspondence(verdict=DIFFERENT, detail=detail, share=0.0)


def _unseen_r2(source: Floats, target: Floats, fitted: Indices, unseen: Indices) -> float:
    X, Y = (np.asarray(side[fitted], dtype=np.float64) for side in (source, target))
    x_mean, y_mean = X.mean(axis=0), Y.mean(axis=0)
    X -= x_mean
    Y -= y_mean
    scatter = X.T @ X
    # Just enough that a null direction, such as LayerNorm's, does not amplify rounding.
    scatter[np.diag_indices_from(scatter)] += 1e-9 * np.trace(scatter) / len(scatter) or 1.0
    weights = np.linalg.solve(scatter, X.T @ Y)
    expected = np.asarray(target[unseen], dtype=np.float64) - y_mean
    rest = expected - (np.asarray(source[unseen], dtype=np.float64) - x_mean) @ weights
    total = float(np.square(expected).sum())
    return 1 - float(np.square(rest).sum()) / total if total > 0 else 0.0


def _held(verdict: str, detail: str, side: str, fits: Mask) -> Correspondence:
    outliers = tuple(np.flatnonzero(~fits).tolist())
    return Correspondence(verdict=verdict, detail=detail, side=side, share=float(fits.mean()), outliers=outliers)


def _tried(A: Floats, B: Floats, test: RowTest) -> Mask | None:
    """Which rows pass a test; None if hardly any does, which a few rows usually show, or if rows of other texts pass it too."""
    rows = sample_rows(len(A), PROBED, seed=len(A))
    a, b = (np.asarray(side[rows], dtype=np.float64) for side in (A, B))
    first = float(test(a, b).mean())
    # Of 64 rows, none passes with probability 0.04 if 5 % of all do.
    if first == 0 or (len(rows) > 1 and float(test(a, np.roll(b, 1, axis=0)).mean()) >= max(SOME_ROWS, first / 2)):
        return None
    fits = _by_block(A, B, test)
    return fits if fits.mean() >= SOME_ROWS else None


def _by_block(A: Floats, B: Floats, function: Callable[[Doubles, Doubles], NDArray[Any]]) -> NDArray[Any]:
    """A function of rows, block by block in float64."""
    starts = range(0, len(A), BLOCK)
    blocks = ((np.asarray(side[start : start + BLOCK], dtype=np.float64) for side in (A, B)) for start in starts)
    return np.concatenate([function(a, b) for a, b in blocks])


def _cosines(a: Doubles, b: Doubles) -> Doubles:
    """Cosines of rows; 1 for two rows of zeros, 0 for one."""
    lengths = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    product = lengths[0] * lengths[1]
    cosines = np.divide(np.einsum("ij,ij->i", a, b), product, out=np.zeros(len(a)), where=product > 0)
    return np.asarray(np.where(lengths[0] + lengths[1] == 0, 1.0, cosines))


def _largest_entry(X: Floats) -> float:
    return float(max(-X.min(), X.max()))


def _similarities(units: Floats, asking: Indices) -> Floats:
    """Cosines of some rows with all, -inf with themselves."""
    similarities: Floats = units[asking] @ units.T
    similarities[np.arange(len(asking)), asking] = -np.inf
    return similarities
