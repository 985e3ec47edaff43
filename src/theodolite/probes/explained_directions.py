"""What dominant directions, hubs and outliers follow: their correlation with columns that are known of the rows.

Every target is compared with every column by ranks, so that lengths, frequencies and outlying values need no scale: a column of
numbers or dates by Spearman's correlation, a column of categories by the share of the variance of the ranks that lies between
them. The p-values pay for all comparisons: they count how often the strongest link of permuted rows is as strong. Rows of one
text are not independent: there, the targets of whole texts change sign at random instead, which keeps what a text's rows share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.intervals import limited_interval
from theodolite.core.moments import Doubles
from theodolite.core.vectors import Indices
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.nearest_rows import neighbours_of

DIRECTIONS = 3  # directions of most variance
PERMUTATIONS = 999
LEVEL = 0.05
LEAST_SHARE = 0.05  # of the variance of ranks that a column must explain to be named; |r| of 0.22
FEWEST_ROWS = 20  # with a value, that a column needs
RARE = 5  # rows of a category, below which it is merged with other rare ones
FEW_NUMBERS = 10  # different whole numbers up to which they are taken as categories
NUMBERS, CATEGORIES = "numbers", "categories"


@dataclass(frozen=True, eq=False)
class KnownColumn:
    """What is known of each row, ready to be compared: ranks, or the number of a category; `is_known` if there is a value."""

    name: str
    kind: str
    values: NDArray[Any]
    is_known: NDArray[np.bool_]

    @property
    def n(self) -> int:
        """Rows with a value."""
        return int(self.is_known.sum())

    @property
    def categories(self) -> int:
        """How many parameters describe the rows' means: one per category, two for a line."""
        return int(self.values[self.is_known].max()) + 1 if self.kind == CATEGORIES else 2


@dataclass(frozen=True, kw_only=True)
class ColumnLink:
    """How closely one target follows one column.

    `value` is Spearman's correlation with numbers, or the share of the variance that categories explain, corrected for their
    number; its interval holds for all comparisons at once, and so does `p`. `share` is a direction's part of the variance. A
    direction has no sign of its own: it points the way in which the column of numbers that it follows most closely grows.
    """

    target: str
    share: float | None
    column: str
    kind: str
    value: float
    low: float
    high: float
    p: float
    n: int

    @property
    def explained(self) -> float:
        """The share of the variance of the ranks."""
        return self.value**2 if self.kind == NUMBERS else self.value

    @property
    def is_clear(self) -> bool:
        """Whether the target follows the column more closely than chance and than what is too little to matter."""
        return self.p <= LEVEL and self.explained >= LEAST_SHARE


def column_links(
    X: Any,
    columns: Mapping[str, Sequence[Any]],
    *,
    groups: Indices | None = None,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> tuple[list[ColumnLink], dict[str, str]]:
    """Links of the strongest directions, of hubs and of outliers with columns, closest first, and why columns were left out.

    `columns` have one value for each row of the whole cloud: numbers, dates, text, or None where it is not known; text with too
    many different values is taken by its length. `groups` are the numbers of the rows' texts, if rows of one text are not
    independent. The smallest p is 1 / (permutations + 1).
    """
    cloud = Cloud.of(X)
    rows, targets, shares = _targets(cloud)
    usable, reasons = [], {}
    for name, values in columns.items():
        try:
            usable.append(_read_column(name, [values[row] for row in rows]))
        except Undefined as undefined:
            reasons[name] = str(undefined)
    if not usable:
        return [], reasons
    T = np.stack([_centred_ranks(values) for values in targets.values()])
    design = _Design(usable, len(rows))
    observed = design.chances(T)
    codes = None if groups is None else np.unique(np.asarray(groups)[rows], return_inverse=True)[1]
    random = np.random.default_rng(seed)
    extremes = np.empty(permutations)
    for draw in range(permutations):
        if codes is None:
            shuffled = T[:, random.permutation(T.shape[1])]
        else:
            shuffled = T * random.choice([-1.0, 1.0], int(codes.max()) + 1)[codes]
        extremes[draw] = design.chances(shuffled).min()
    # Rounding must not decide whether a permutation that changes nothing counts.
    p = (1 + (extremes <= observed[..., None] * (1 + 1e-9)).sum(axis=-1)) / (permutations + 1)
    links = []
    for i, target in enumerate(targets):
        own = [_link(T[i], column, target, shares.get(target), float(p[i, j]), p.size, codes) for j, column in enumerate(usable)]
        numbers = [link for link in own if link.kind == NUMBERS]
        if numbers and target in shares and max(numbers, key=lambda link: abs(link.value)).value < 0:
            own = [
                replace(link, value=-link.value, low=-link.high, high=-link.low) if link.kind == NUMBERS else link for link in own
            ]
        links += sorted(own, key=lambda link: (link.p, -link.explained))
    return links, reasons


def _targets(cloud: Cloud) -> tuple[Indices, dict[str, Doubles], dict[str, float]]:
    """The rows that are looked at, one number for each of them by target, and the directions' shares of the variance."""
    try:
        table = neighbours_of(cloud)
        rows = table.rows
        of_neighbours = {"hubs": table.occurrences().astype(np.float64), "outliers": table.nearest_distinct[table.group]}
    except Undefined:  # few rows, or copies only: what is left are the directions
        rows, of_neighbours = cloud.sample_index, {}
    spectrum = cloud.spectrum
    if not spectrum.rank:
        raise Undefined("all rows are the same point, so there is no direction to explain")
    count = min(DIRECTIONS, spectrum.rank)
    X = cloud.sample[np.searchsorted(cloud.sample_index, rows)].astype(np.float64) - cloud.moments.mean
    scores = X @ spectrum.vectors[:, :count]
    names = [f"direction {k}" for k in range(1, count + 1)]
    shares = dict(zip(names, (spectrum.values[:count] / spectrum.values.sum()).tolist(), strict=True))
    return rows, {**dict(zip(names, scores.T, strict=True)), **of_neighbours}, shares


class _Design:
    """All columns as matrices, so that one product gives every link of permuted targets."""

    def __init__(self, columns: Sequence[KnownColumn], n: int) -> None:
        from scipy.sparse import csr_array

        self.n = np.array([column.n for column in columns], np.float64)
        self.k = np.array([column.categories for column in columns], np.float64)
        self.known = np.stack([column.is_known for column in columns], axis=1).astype(np.float64)
        self.is_numeric = np.array([column.kind == NUMBERS for column in columns])
        lines = [
            _unit(np.where(column.is_known, column.values, 0.0), column.is_known) for column in columns if column.kind == NUMBERS
        ]
        self.lines = np.stack(lines, axis=1) if lines else np.zeros((n, 0))
        self.indicators, self.sizes = [], []
        for column in columns:
            if column.kind == CATEGORIES:
                rows = np.flatnonzero(column.is_known)
                codes = column.values[rows]
                self.indicators.append(csr_array((np.ones(len(rows)), (codes, rows)), shape=(column.categories, n)))
                self.sizes.append(np.bincount(codes, minlength=column.categories))

    def explained(self, T: Doubles) -> Doubles:
        """(targets, columns) the share of the variance of each target that lies along, or between, the values of each column."""
        sums, squares = T @ self.known, np.square(T) @ self.known
        spread = np.maximum(squares - sums**2 / self.n, 1e-300)
        between = np.empty_like(spread)
        between[:, self.is_numeric] = np.square(T @ self.lines)
        of_categories = [
            (np.square(indicator @ T.T) / sizes[:, None]).sum(axis=0)
            for indicator, sizes in zip(self.indicators, self.sizes, strict=True)
        ]
        if of_categories:
            is_category = ~self.is_numeric
            between[:, is_category] = np.stack(of_categories, axis=1) - (sums**2 / self.n)[:, is_category]
        return np.clip(between / spread, 0.0, 1.0)

    def chances(self, T: Doubles) -> Doubles:
        """The p-values of normal and independent rows: one scale for columns of every kind, whose own size is not relied on."""
        from scipy.special import betainc

        return np.asarray(betainc((self.n - self.k) / 2, (self.k - 1) / 2, 1 - self.explained(T)), dtype=np.float64)


def _link(
    target: Doubles, column: KnownColumn, name: str, share: float | None, p: float, tests: int, codes: Indices | None
) -> ColumnLink:
    """One link with an interval that holds for all tests at once, from the influence of rows, or of whole texts."""
    from scipy.special import ndtri

    t, c = target[column.is_known], column.values[column.is_known]
    t = (t - t.mean()) / (t.std() or 1.0)
    n, k = len(t), column.categories
    if column.kind == NUMBERS:
        c = (c - c.mean()) / c.std()
        value, limits = float(np.mean(t * c)), (-1.0, 1.0)
        influence = t * c - value * (t**2 + c**2) / 2
    else:
        means = np.bincount(c, t) / np.bincount(c)
        within = np.square(t - means[c])
        rest = float(within.mean())
        correction = (n - 1) / (n - k)
        value, limits = max(0.0, 1 - rest * correction), (0.0, 1.0)
        influence = (rest * t**2 - within) * correction
    if codes is not None:
        influence = np.bincount(codes[column.is_known], influence)
    error = math.sqrt(float(np.square(influence).sum())) / n
    half = float(ndtri(1 - LEVEL / (2 * tests))) * error
    low, high = limited_interval(value, (value - half, value + half), limits)
    return ColumnLink(target=name, share=share, column=column.name, kind=column.kind, value=value, low=low, high=high, p=p, n=n)


def _read_column(name: str, values: Sequence[Any]) -> KnownColumn:
    """A column that can be compared; raises `Undefined` with the reason if it cannot."""
    known = np.array([not _is_missing(value) for value in values])
    present = [value for value, is_known in zip(values, known, strict=True) if is_known]
    if len(present) < FEWEST_ROWS:
        raise Undefined(f"only {len(present)} rows have a value; there must be {FEWEST_ROWS}")
    numbers = _as_numbers(present)
    if numbers is None and not all(isinstance(value, (str, bool, np.bool_, np.str_)) for value in present):
        raise Undefined(f"its values are neither numbers nor dates nor text, such as {type(present[0]).__name__}")
    codes = None
    if numbers is None:
        codes = _categories(list(map(str, present)))
        if codes is None:  # as good as a name for each row: what is left of it is how long it is
            numbers, name = np.array([len(str(value)) for value in present], np.float64), length_name(name)
    elif len(set(numbers.tolist())) <= FEW_NUMBERS and np.array_equal(numbers, np.round(numbers)):
        codes = _categories(list(map(str, numbers.tolist())))
    compared: Any = codes if codes is not None else _centred_ranks(numbers)
    if np.ptp(compared) == 0:
        raise Undefined("all rows have the same value")
    filled = np.zeros(len(known), compared.dtype)
    filled[known] = compared
    return KnownColumn(name, NUMBERS if codes is None else CATEGORIES, filled, known)


def length_name(name: str) -> str:
    """What the length of a column's texts is called."""
    return "text length" if name in ("text", "sentence") else f"length of {name}"


def _is_missing(value: Any) -> bool:
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    # nan and NaT are not equal to themselves; pandas.NA is neither equal nor unequal to anything.
    return str(value) in ("nan", "NaT", "<NA>", "None")


def _as_numbers(values: Sequence[Any]) -> Doubles | None:
    """Numbers or dates, also if they are written as text, as floats; None if they are not."""
    if any(isinstance(value, (bool, np.bool_)) for value in values):
        return None
    try:
        numbers = np.array([_number(value) for value in values], np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if np.isfinite(numbers).all() else None


def _number(value: Any) -> float:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            value = datetime.fromisoformat(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return float(value)


def _categories(values: Sequence[str]) -> Indices | None:
    """The number of each value's category, rare ones merged; None if most rows have values that hardly any other has."""
    counts = Counter(values)
    frequent = sorted(value for value, count in counts.items() if count >= RARE)
    covered = sum(counts[value] for value in frequent)
    if covered < len(values) / 2:
        return None
    number = {value: i for i, value in enumerate(frequent)}
    return np.array([number.get(value, len(frequent)) for value in values], np.intp)


def _centred_ranks(values: Any) -> Doubles:
    """Mean ranks about 0."""
    _, codes, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[codes]
    return np.asarray(ranks - ranks.mean(), dtype=np.float64)


def _unit(values: Doubles, is_known: NDArray[np.bool_]) -> Doubles:
    """The values about their mean, at length 1; 0 where they are not known."""
    centred = np.where(is_known, values - values[is_known].mean(), 0.0)
    return np.asarray(centred / np.linalg.norm(centred), dtype=np.float64)
