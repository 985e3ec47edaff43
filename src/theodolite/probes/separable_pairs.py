"""What it means that labels are separable: whether any labels would be, and what gaps the same rows have with shuffled labels.

Affinely independent rows can be separated however they are labelled. Beyond that, random labels are often separable too, above
all rare ones, so the labels are shuffled with their sizes kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from theodolite.core.vectors import array
from theodolite.probes.direct_probe import DirectProbe, centred
from theodolite.probes.label_codes import code_labels

if TYPE_CHECKING:
    from theodolite.probes.hulls.active_set import Flags, Floats, Ints

# Shuffles by default: labels that beat all 19 are rarer than 1 in 20.
SHUFFLES = 19
# Seconds that the shuffles of a layer may take if their number was not requested.
AFFORDABLE = 10.0
# A gap of shuffled labels needs no more digits than it is shown with.
_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Separability:
    """Whether planes separate labels pair by pair, and whether that says anything about them.

    Parameters
    ----------
    pairs, overlapping
        Pairs of labels, and how many of them overlap.
    guaranteed
        Pairs that a plane would separate however their rows were labelled, since the rows are affinely independent.
    largest, d
        Rows of the largest pair, and their dimensions.
    gap, closest
        The smallest gap between two labels, 0 if two overlap, and the labels.
    shuffled
        The smallest gap after each shuffle of the labels: 0 if two overlap, nan if none do and the gap took too long to measure;
        empty if there were no shuffles.
    """

    pairs: int
    overlapping: int
    guaranteed: int
    largest: int
    d: int
    gap: float
    closest: tuple[str, str]
    shuffled: tuple[float, ...] = ()

    @property
    def verdict(self) -> str:
        """One of "separable", "separable by dimension alone" and "not separable"."""
        if self.overlapping:
            return "not separable"
        if self.shuffled:
            # Each part alone errs: labels without meaning have the largest gap once in 20, but their gap is of interest only if
            # most labels have none.
            is_usual = self.beaten < len(self.shuffled) or 2 * self.separable_shuffles > len(self.shuffled)
        else:
            # Cover (1965): of up to 2 (d + 1) rows, a plane separates at least half of all dichotomies.
            is_usual = self.largest <= 2 * (self.d + 1)
        return "separable by dimension alone" if is_usual or self.guaranteed == self.pairs else "separable"

    @property
    def separable_shuffles(self) -> int:
        """The shuffles after which no two labels overlap."""
        return sum(gap != 0 for gap in self.shuffled)

    @property
    def beaten(self) -> int:
        """The shuffles whose smallest gap is below that of the labels."""
        return sum(gap < self.gap for gap in self.shuffled)

    @property
    def gap_ratio(self) -> float:
        """The smallest gap over the median one of shuffled labels; nan without shuffles, or if most of them overlap."""
        middle = float(np.median(self.shuffled)) if self.shuffled else 0.0
        return self.gap / middle if middle > 0 else math.nan

    def metrics(self) -> Iterator[dict[str, Any]]:
        """The numbers as fields of rows."""
        yield {"metric": "overlapping_pairs", "value": float(self.overlapping)}
        yield {"metric": "guaranteed_pairs", "value": float(self.guaranteed)}
        yield {"metric": "smallest_gap", "value": self.gap}
        if self.shuffled:
            setting = {"setting": f"{len(self.shuffled)} shuffles"}
            low, middle, high = (float(np.quantile(self.shuffled, share)) for share in (0.0, 0.5, 1.0))
            bounds = {} if math.isnan(middle) else {"low": low, "high": high}
            reason = "labels overlap in most shuffles" if middle == 0 else "the gaps of shuffled labels take long to measure"
            for metric, value in (("shuffled_gap", middle), ("gap_ratio", self.gap_ratio)):
                own = bounds if metric == "shuffled_gap" else {}
                yield {"metric": metric, "value": value, "reason": reason if math.isnan(value) else "", **own, **setting}
            yield {"metric": "shuffled_separable", "value": self.separable_shuffles / len(self.shuffled), **setting}


def separability(
    probe: DirectProbe, X: ArrayLike, y: ArrayLike, *, shuffles: int | None = None, seed: int = 0, n_jobs: int | None = None
) -> Separability:
    """What a fitted probe's answer to linear separability is worth.

    Parameters
    ----------
    probe
        A `DirectProbe` that was fitted on X and y.
    X, y
        (n, d) vectors and the label of each.
    shuffles
        How often to shuffle the labels, which is done only if they are separable; by default 19 times if that takes seconds.
    seed
        Of the shuffles.
    n_jobs
        Pairs of hulls solved at a time; all cores by default.

    Returns
    -------
    Separability
        The pairs that overlap, those that are separable in any case, and the gaps of shuffled labels.

    Examples
    --------
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], ["low", "high", "high"]
    >>> separability(DirectProbe().fit(X, y), X, y).verdict
    'separable by dimension alone'
    """
    vectors = np.asarray(array(X), dtype=np.float64)
    codes, _ = code_labels(vectors, y)
    rows, _, touching = centred(vectors)
    sizes = np.bincount(codes)
    pairs = len(sizes) * (len(sizes) - 1) // 2
    closest = probe.closest_pair()
    guaranteed = int(guaranteed_pairs(rows, codes, touching).sum()) // 2
    gap = 0.0
    shuffled: tuple[float, ...] = ()
    if not probe.n_label_overlaps_ and closest is not None:
        gap = closest[2]
        shuffled = _shuffled_gaps(rows, codes, touching, shuffles, seed, n_jobs, decide=guaranteed < pairs)
    largest = int(np.sort(sizes)[-2:].sum())
    names = ("", "") if closest is None else closest[:2]
    return Separability(pairs, probe.n_label_overlaps_, guaranteed, largest, rows.shape[1], gap, names, shuffled)


def guaranteed_pairs(rows: Floats, codes: Ints, touching: float) -> Flags:
    """(labels, labels): whether any labels of the two labels' rows would be separable by more than `touching`.

    Two convex combinations that share no row differ by weights that sum to 0 and have a squared norm of at least 4 / n, so their
    distance is at least 2 s / √n, with s the least singular value of the centred rows but for the 0 of the mean.
    """
    sizes = np.bincount(codes)
    flags = np.zeros((len(sizes), len(sizes)), dtype=np.bool_)
    if len(rows) <= rows.shape[1] + 1 and _least_gap(rows) > touching:
        return ~np.eye(len(sizes), dtype=np.bool_)  # and so of every part of them
    members = [rows[codes == label] for label in range(len(sizes))]
    for i, j in combinations(range(len(sizes)), 2):
        if sizes[i] + sizes[j] <= rows.shape[1] + 1:
            flags[i, j] = flags[j, i] = _least_gap(np.concatenate([members[i], members[j]])) > touching
    return flags


def _least_gap(rows: Floats) -> float:
    """A lower bound of the gap between any two parts of some rows; 0 if they are affinely dependent."""
    apart = rows - rows.mean(axis=0)
    n = len(apart)
    squares = np.linalg.eigvalsh(apart @ apart.T)  # its first is 0, of the mean
    if squares[1] > 1e-8 * squares[-1]:
        return float(2.0 * math.sqrt(squares[1] / n))
    # Products have lost the digits that decide here.
    return float(2.0 * np.linalg.svd(apart, compute_uv=False)[n - 2] / math.sqrt(n)) if n - 2 < apart.shape[1] else 0.0


def _shuffled_gaps(
    rows: Floats, codes: Ints, touching: float, shuffles: int | None, seed: int, n_jobs: int | None, *, decide: bool
) -> tuple[float, ...]:
    """The smallest gap between two labels after each shuffle.

    If their number is open and they would take too long, only whether there is a gap (nan) or none (0), if asked to `decide`.
    """
    ends = np.cumsum([0, *np.bincount(codes)])
    for measure in (True, False) if shuffles is None and decide else (True,):
        random, start = np.random.default_rng(seed), time.process_time()
        gaps: list[float] = []
        for done in range(SHUFFLES if shuffles is None else shuffles):
            if shuffles is None and done == 1 and SHUFFLES * (time.process_time() - start) > AFFORDABLE:
                break
            order = random.permutation(len(rows))
            hulls = [np.ascontiguousarray(rows[order[low:high]]) for low, high in pairwise(ends)]
            gaps.append(_smallest_gap(hulls, touching, n_jobs, measure=measure))
        else:
            return tuple(gaps)
    return ()


def _smallest_gap(hulls: list[Floats], touching: float, n_jobs: int | None, *, measure: bool) -> float:
    """The smallest distance of two hulls, or nan if there is one and it is not to be measured; 0 if two overlap."""
    from theodolite.probes.hulls.gap import pair_bounds, separating_plane

    d = hulls[0].shape[1]
    pairs = sorted(combinations(range(len(hulls)), 2), key=lambda pair: -len(hulls[pair[0]]) - len(hulls[pair[1]]))
    # The largest pairs first, and only whether they overlap: with many rows the first one nearly always does.
    for i, j in pairs:
        is_open = not measure or len(hulls[i]) + len(hulls[j]) > d + 1
        if is_open and separating_plane(hulls[i], hulls[j], touching, None) is None:
            return 0.0
    if not measure:
        return math.nan
    bounds = pair_bounds(hulls, np.array(pairs), touching, _TOLERANCE, n_jobs, None)
    lower, upper = bounds[bounds[:, 0].argmin()]
    return 0.0 if lower <= 0 else float(0.5 * (lower + upper))
