"""Weighted removal: how much of each direction to remove is learned from scored pairs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from theodolite.core.moments import Doubles, Moments
from theodolite.core.spectrum import eigenpairs
from theodolite.core.vectors import Floats, Source, Vectors, array
from theodolite.repairs.base import Affine, Repair, directions_to_remove
from theodolite.repairs.directions import PAPER_DIRECTIONS, significant_rank


class WeightedRemoval(OneToOneFeatureMixin, Repair):  # type: ignore[misc]
    """Remove a learned share of each dominant direction: x - sum_k w_k (u_k . x) u_k, w in [0, 1] (Liang 2021). Affine.

    The u_k are the leading eigenvectors of the uncentred X^T X, so the first is close to the mean; x is not centred. `fit`
    alone has no scores to learn from and sets all weights to 1; `fit_pairs` learns them from scored pairs.

    Parameters
    ----------
    n_directions
        How many directions, at most d - 1. None means 12, or d - 1 if that is less.
    """

    directions_: Doubles  # (d, m) orthonormal columns
    weights_: Doubles  # (m,) the share of each direction that is removed

    def __init__(self, n_directions: int | None = None) -> None:
        self.n_directions = n_directions

    def fit_pairs(self, A: Vectors, B: Vectors, scores: Any, *, X: Vectors = None) -> Self:
        """Learn the weights that make the cosines of rows of A with rows of B correlate most (Pearson) with the scores.

        Also sets `pearson_before_` and `pearson_`, the correlations without and with the repair.

        Parameters
        ----------
        A, B
            Row i of A and row i of B are a pair; pairs with a row of zeros are left out.
        scores
            One number per pair.
        X
            The vectors that the directions come from; A and B together by default.
        """
        first, second = array(A).astype(np.float64), array(B).astype(np.float64)
        target = np.asarray(scores, dtype=np.float64)
        _check_pairs(first, second, target)
        self.fit([first, second] if X is None else X)
        self._check_width(first.shape[1], reset=False)
        rows = first.any(axis=1) & second.any(axis=1)
        pairs = _Pairs(first[rows], second[rows], target[rows], self.directions_)
        self.weights_ = pairs.best_weights()
        self.pearson_before_ = pairs.correlation(np.zeros_like(self.weights_))
        self.pearson_ = pairs.correlation(self.weights_)
        return self

    def _learn(self, data: Source) -> None:
        count = directions_to_remove(self.n_directions, PAPER_DIRECTIONS, data.d)
        moments = Moments.of(data)
        pairs = eigenpairs(moments, centered=False)
        self.directions_ = pairs.vectors[:, : min(count, significant_rank(pairs.values, moments, data.dtype))]
        self.weights_ = np.ones(self.directions_.shape[1])
        for name in ("pearson_before_", "pearson_"):
            self.__dict__.pop(name, None)

    def _apply(self, block: Floats) -> Floats:
        directions = self.directions_.astype(block.dtype)
        return block - (block @ directions * self.weights_.astype(block.dtype)) @ directions.T

    def _affine(self) -> Affine:
        d = len(self.directions_)
        return np.eye(d) - (self.directions_ * self.weights_) @ self.directions_.T, np.zeros(d)


class _Pairs:
    """The correlation of scored pairs, as a function of how much remains of each direction.

    With g = (1 - w)^2 the inner products after removal are a.b - p.q + sum_k g_k p_k q_k, p and q the coordinates along u. They
    are linear in g, which is why the search is over g.
    """

    def __init__(self, first: Doubles, second: Doubles, scores: Doubles, directions: Doubles) -> None:
        p, q = first @ directions, second @ directions
        self.products = p * q
        self.squares = np.square(p), np.square(q)
        self.rest = _dots(first, second) - self.products.sum(axis=1)
        # A row in the span of the directions keeps a little length, so that its cosine stays defined.
        lengths = _dots(first, first), _dots(second, second)
        self.rests = tuple(
            np.maximum(length - square.sum(axis=1), 1e-12 * length) for length, square in zip(lengths, self.squares, strict=True)
        )
        target = scores - scores.mean()
        self.target = target / np.linalg.norm(target)

    def correlation(self, weights: Doubles) -> float:
        """Pearson correlation of the cosines with the scores."""
        return -self.loss(np.square(1 - weights))[0]

    def best_weights(self) -> Doubles:
        """The best weights of three searches, which start with everything, half and nothing removed."""
        from scipy.optimize import minimize

        m = self.products.shape[1]
        # The correlation may have several local maxima, so the search starts at both ends and in the middle.
        starts = [np.full(m, remaining) for remaining in (0.0, 0.25, 1.0)]
        runs = [minimize(self.loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * m) for start in starts]
        best = min(runs, key=lambda run: float(run.fun))
        return np.asarray(1 - np.sqrt(np.clip(best.x, 0.0, 1.0)), dtype=np.float64)

    def loss(self, remaining: Doubles) -> tuple[float, Doubles]:
        """Minus the correlation for remaining shares g, and its gradient."""
        a, b = (rest + square @ remaining for rest, square in zip(self.rests, self.squares, strict=True))
        cosines = (self.rest + self.products @ remaining) / np.sqrt(a * b)
        spread = cosines - cosines.mean()
        length = float(np.linalg.norm(spread))
        if length == 0:
            return 0.0, np.zeros_like(remaining)
        correlation = float(spread @ self.target) / length
        slope = (self.target - correlation * spread / length) / length
        gradient = self.products.T @ (slope / np.sqrt(a * b))
        for square, norm in zip(self.squares, (a, b), strict=True):
            gradient -= square.T @ (slope * cosines / (2 * norm))
        return -correlation, -gradient


def _dots(first: Doubles, second: Doubles) -> Doubles:
    return np.asarray(np.einsum("ij,ij->i", first, second))


def _check_pairs(first: Floats, second: Floats, scores: Doubles) -> None:
    if first.shape != second.shape or scores.shape != (len(first),):
        raise ValueError(
            f"pairs of shapes {first.shape} and {second.shape} with scores of shape {scores.shape} do not match; "
            "row i of A, row i of B and score i make one pair"
        )
    if not np.isfinite(scores).all():
        raise ValueError(f"score {int(np.flatnonzero(~np.isfinite(scores))[0])} is not finite; leave out pairs without a score")
    if len(scores) < 3 or np.ptp(scores) == 0:
        raise ValueError(
            f"{len(scores)} pairs with {len(np.unique(scores))} distinct scores have no correlation; give at least 3 and 2"
        )
