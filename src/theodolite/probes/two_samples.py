"""Whether two sets of vectors whose rows do not correspond come from one population: a classifier two-sample test."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.core.moments import Doubles
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Indices, Vectors, array

DIRECTIONS = 50  # principal directions of the pooled rows that the classifier sees
ROWS = 1000  # rows of each side, at most
FOLDS = 5
PERMUTATIONS = 200
STEPS = 25  # of the classifier's descent; permuted labels take the same ones, so the test is exact after any number
LEVEL = 0.05
UNLIKE = 5  # rows listed of each side
FEWEST = 10  # rows that each side needs


@dataclass(frozen=True, kw_only=True)
class Shift:
    """Whether, and how, two samples differ.

    Parameters
    ----------
    auc
        How often a classifier ranks a row of B above a row of A, on rows it was not fitted on; 0.5 is chance.
    p
        Share of permutations of the labels, the observed one counted, that reach this AUC; uniform if nothing shifted.
    mean_shift, mean_shift_chance
        Distance of the two means over the spread within the sides, and its mean over permutations.
    spectrum_shift, spectrum_shift_chance
        Total variation distance of the two variance profiles, eigenvalues over their sum, in [0, 1], and that over permutations.
    unlike_a, unlike_b
        Row numbers that are most unlike the other side, the most unlike first.
    n_a, n_b
        Rows of both sides that were looked at.
    """

    auc: float
    p: float
    mean_shift: float
    mean_shift_chance: float
    spectrum_shift: float
    spectrum_shift_chance: float
    unlike_a: tuple[int, ...]
    unlike_b: tuple[int, ...]
    n_a: int
    n_b: int

    @property
    def is_shifted(self) -> bool:
        """Whether p is at most 0.05."""
        return self.p <= LEVEL


def two_sample_shift(
    A: Vectors,
    B: Vectors,
    *,
    groups: tuple[NDArray[np.generic], NDArray[np.generic]] | None = None,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Shift:
    """Test whether a classifier tells rows of B from rows of A (Lopez-Paz & Oquab 2017), with p from permuted labels.

    The classifier is a logistic regression with an L2 penalty on at most 50 principal directions of the pooled rows, scored by
    its AUC over five folds. At most 1,000 rows of each side are looked at.

    Parameters
    ----------
    A, B
        (n, d) and (m, d) vectors.
    groups
        The group of each row on both sides, such as the text a token comes from: groups are permuted and held out as a whole.
    permutations
        Number of permutations of the labels.
    seed
        Seed of rows, folds and permutations.

    Raises
    ------
    ValueError
        The dimensions differ, or a side has fewer than 10 rows or groups.
    """
    sides = array(A), array(B)
    if sides[0].shape[1] != sides[1].shape[1]:
        widths = f"{sides[0].shape[1]} and {sides[1].shape[1]}"
        raise ValueError(f"the two samples have {widths} dimensions; a shift needs one common space: embed both in the same way")
    index = [_sampled(len(side), None if groups is None else groups[i], seed + i) for i, side in enumerate(sides)]
    pooled = np.concatenate([np.asarray(side[rows], dtype=np.float64) for side, rows in zip(sides, index, strict=True)])
    is_b = np.repeat([0.0, 1.0], [len(index[0]), len(index[1])])
    codes = np.arange(len(pooled))
    if groups is not None:
        first, second = (np.unique(np.asarray(groups[i])[rows], return_inverse=True)[1] for i, rows in enumerate(index))
        codes = np.concatenate([first, second + first.max() + 1])
    counts = [len(np.unique(codes[is_b == side])) for side in (0, 1)]
    if min(counts) < FEWEST:
        noun = "rows" if groups is None else "texts"
        raise ValueError(f"a test of two samples needs at least {FEWEST} {noun} of each; there are {counts[0]} and {counts[1]}")
    generator = np.random.default_rng(seed)
    members = codes.max() + 1
    owner = np.zeros(members)
    owner[codes] = is_b
    labels = np.stack([owner, *(generator.permutation(owner) for _ in range(permutations))], axis=1)[codes]
    folds = (generator.permutation(members) % FOLDS)[codes]
    scores = _principal_scores(pooled)
    outputs = _held_out_outputs(scores, labels, folds)
    aucs = _aucs(outputs, labels)
    means = _mean_shifts(pooled, labels)
    spectra = [_spectrum_shift(scores, labels[:, i]) for i in range(min(labels.shape[1], 21))]
    order = np.argsort(outputs[:, 0])
    unlike_a = [int(index[0][row]) for row in order if not is_b[row]][:UNLIKE]
    unlike_b = [int(index[1][row - len(index[0])]) for row in order[::-1] if is_b[row]][:UNLIKE]
    return Shift(
        auc=float(aucs[0]),
        p=float((aucs >= aucs[0]).sum() / len(aucs)),
        mean_shift=float(means[0]),
        mean_shift_chance=float(means[1:].mean()),
        spectrum_shift=spectra[0],
        spectrum_shift_chance=float(np.mean(spectra[1:])),
        unlike_a=tuple(unlike_a),
        unlike_b=tuple(unlike_b),
        n_a=len(index[0]),
        n_b=len(index[1]),
    )


def _sampled(n: int, groups: NDArray[np.generic] | None, seed: int) -> Indices:
    """At most ROWS rows; of groups, whole ones in random order until that many are reached."""
    if groups is None or n <= ROWS:
        return sample_rows(n, ROWS, seed=seed)
    codes = np.unique(groups, return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(codes.max() + 1)
    total = np.cumsum(np.bincount(codes)[order])
    # A few more texts rather than too few of them.
    return np.flatnonzero(np.isin(codes, order[: max(2 * FEWEST, int(np.searchsorted(total, ROWS)))]))


def _principal_scores(pooled: Doubles) -> Doubles:
    """The pooled rows on their first principal directions, each with unit variance."""
    centred = pooled - pooled.mean(axis=0)
    if len(centred) <= centred.shape[1]:
        values, vectors = np.linalg.eigh(centred @ centred.T)
        scores = vectors * np.sqrt(np.maximum(values, 0))
    else:
        values, vectors = np.linalg.eigh(centred.T @ centred)
        scores = centred @ vectors
    kept = np.flatnonzero(values > 1e-9 * values[-1])[::-1][:DIRECTIONS]
    return np.asarray(scores[:, kept] * np.sqrt(len(pooled) / values[kept]))


def _held_out_outputs(scores: Doubles, labels: Doubles, folds: Indices) -> Doubles:
    """The classifier's output for every row, from the other folds, for every column of labels at once.

    The curvature of the logistic loss is at most a quarter of the plain one (Böhning & Lindsay 1988), which does not depend on
    the labels: all permutations share one factorisation, and each step is one product of matrices.
    """
    X = np.concatenate([scores, np.ones((len(scores), 1))], axis=1)
    outputs = np.empty(labels.shape)
    for fold in range(FOLDS):
        train = folds != fold
        rows, targets = X[train], labels[train]
        penalty = np.eye(X.shape[1])
        penalty[-1, -1] = 1e-6  # the intercept is free
        inverse = np.linalg.inv(rows.T @ rows / 4 + penalty)
        weights = np.zeros((X.shape[1], labels.shape[1]))
        for _ in range(STEPS):
            chances = 1 / (1 + np.exp(-(rows @ weights)))
            weights += inverse @ (rows.T @ (targets - chances) - penalty @ weights)
        outputs[~train] = X[~train] @ weights
    return outputs


def _aucs(outputs: Doubles, labels: Doubles) -> Doubles:
    """Share of pairs of a row of B and a row of A that the outputs put in this order, for every column."""
    ranks = outputs.argsort(axis=0).argsort(axis=0) + 1.0
    ones = labels.sum(axis=0)
    return np.asarray(((ranks * labels).sum(axis=0) - ones * (ones + 1) / 2) / (ones * (len(labels) - ones)))


def _mean_shifts(pooled: Doubles, labels: Doubles) -> Doubles:
    """Distance of the means over the root of the mean variance within, for every column of labels."""
    centred = pooled - pooled.mean(axis=0)
    ones = labels.sum(axis=0)
    gap = np.square(centred.T @ (labels / ones - (1 - labels) / (len(labels) - ones))).sum(axis=0)
    between = gap * ones * (len(labels) - ones) / len(labels) ** 2
    within = np.square(centred).sum() / len(pooled) - between
    return np.asarray(np.sqrt(gap / np.maximum(within, 1e-300)))


def _spectrum_shift(scores: Doubles, labels: Doubles) -> float:
    # The scores have unit variance: what is compared is how the sides share the pooled variance of each direction.
    profiles = []
    for side in (0, 1):
        rows = scores[labels == side]
        values = np.linalg.eigvalsh(np.cov(rows.T).reshape(rows.shape[1], -1))
        profiles.append(values / max(float(values.sum()), math.ulp(1.0)))
    return float(np.abs(profiles[0] - profiles[1]).sum() / 2)
