"""Are two large hulls apart? A squared-hinge separator by Newton steps, its ridge shrinking until a certificate holds.

For a ridge r the slacks of the best separator are weights of two points, one in each hull, whose difference is r times its
normal. Where the hulls overlap that difference vanishes with the ridge; where they do not, the normal tends to the widest
separation. Each step solves one d x d system, so thousands of points near the limit cost what a few matrix products cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.probes.corral import OVERLAPPING, SEPARATED, UNDECIDED

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

COLD = tuple(10.0**-k for k in (2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15))
WARM = tuple(10.0**-k for k in (8, 9, 10, 11, 12, 13, 14, 15))
"""Ridges, as shares of the number of points: each solution starts the next, and a plane from before spares the first of them."""


def newton_verdict(
    A: Floats, B: Floats, *, touching: float, start: Floats | None = None, tolerance: float = np.inf
) -> tuple[int, float, float, Floats, Floats, Floats]:
    """Verdict, bounds of the distance, the normal of the plane, and the weights of the two nearest points found.

    `start` is the normal of a plane that nearly separates: the closer, the fewer steps. Any plane that separates ends it, or with
    a `tolerance` one whose bound is within that share of the distance.
    """
    origin = 0.5 * (A.mean(axis=0) + B.mean(axis=0))
    rows = np.empty((len(A) + len(B), A.shape[1] + 1))
    X = rows[:, :-1]
    X[: len(A)] = A - origin
    X[len(A) :] = origin - B
    rows[: len(A), -1], rows[len(A) :, -1] = 1.0, -1.0
    scale = float(np.sqrt(np.einsum("ij,ij->i", X, X).max())) or 1.0
    X /= scale
    hinge = SquaredHinge(rows)
    warm = start is not None and hinge.aim(start, len(A))
    lower, upper = -np.inf, np.inf
    normal, weights = np.zeros(A.shape[1]), np.r_[np.full(len(A), 1 / len(A)), np.full(len(B), 1 / len(B))]
    verdict = UNDECIDED
    for ridge in WARM if warm else COLD:
        slack = hinge.minimise(ridge * len(X))
        w = hinge.solution[:-1]
        on = X @ w
        bound = scale * float(on[: len(A)].min() + on[len(A) :].min()) / max(float(np.linalg.norm(w)), 1e-300)
        if bound > lower:
            lower, normal = bound, w.copy()
        one, two = slack[: len(A)].sum(), slack[len(A) :].sum()
        if one > 0 and two > 0:
            convex = np.r_[slack[: len(A)] / one, slack[len(A) :] / two]
            length = scale * float(np.linalg.norm(convex @ X))
            if length < upper:
                upper, weights = length, convex
        if upper <= touching or (lower > touching and (tolerance == np.inf or upper - lower <= tolerance * upper)):
            verdict = SEPARATED if lower > touching else OVERLAPPING
            break
    return verdict, lower, upper, normal, weights[: len(A)], weights[len(A) :]


class SquaredHinge:
    """ridge |w|^2 / 2 + sum of max(0, 1 - row . solution)^2 / 2, its minimiser carried from one ridge to the next.

    The last column is the offset. The products of the rows with slack are kept and changed by the rows that come and go, which
    near the end are few.
    """

    def __init__(self, rows: Floats) -> None:
        self.rows = rows
        self.solution = np.zeros(rows.shape[1])
        self.inside: Flags = np.zeros(len(rows), dtype=np.bool_)
        self.products = np.zeros((rows.shape[1], rows.shape[1]))

    def aim(self, normal: Floats, n_a: int) -> bool:
        """Start from a plane with this normal, the closer half of the points inside its margin; whether it parts them at all."""
        length = float(np.linalg.norm(normal))
        if length == 0:
            return False
        w = normal / length
        on = self.rows[:, :-1] @ w
        low, high = float(np.median(on[:n_a])), -float(np.median(on[n_a:]))
        half = 0.5 * (low - high)
        if half <= 0:
            return False
        self.solution = np.r_[w, -0.5 * (low + high)] / half
        return True

    def minimise(self, ridge: float, *, most: int = 40) -> Floats:
        """Go to the minimum for a ridge; the slacks there."""
        penalty = np.full(len(self.solution), ridge)
        penalty[-1] = 1e-3 * ridge  # an unpenalised offset leaves the system singular where no slack is left
        margin = self.rows @ self.solution
        for _ in range(most):
            short = margin < 1.0
            self._hold(short)
            system = self.products.copy()
            system[np.diag_indices(len(penalty))] += penalty
            # The minimum of the quadratic piece itself: no gradient, so no digits lost in one.
            step = solve(system, self.rows[short].sum(axis=0)) - self.solution
            along = self.rows @ step
            length = line_minimum(margin, along, self.solution, step, penalty)
            self.solution = self.solution + length * step
            margin = margin + length * along
            if length > 1.0 - 1e-6 and np.array_equal(short, margin < 1.0):
                break
        return np.asarray(np.maximum(1.0 - self.rows @ self.solution, 0.0))

    def _hold(self, short: Flags) -> None:
        """The products of the rows with slack, by the fewer of two sums: anew, or what changed."""
        came, left = short & ~self.inside, self.inside & ~short
        if came.sum() + left.sum() < 0.5 * short.sum():
            for rows, sign in ((self.rows[came], 1.0), (self.rows[left], -1.0)):
                if len(rows):
                    self.products += sign * (rows.T @ rows)
        else:
            rows = self.rows[short]
            self.products = rows.T @ rows
        self.inside = short


def solve(system: Floats, right: Floats) -> Floats:
    """The solution of a symmetric positive definite system; the shortest one where rounding has made it singular."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        return np.asarray(cho_solve(cho_factor(system, lower=True, check_finite=False), right, check_finite=False))
    except LinAlgError:  # the ridge has sunk into the rounding of the products
        return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0])


def line_minimum(margin: Floats, along: Floats, solution: Floats, step: Floats, penalty: Floats) -> float:
    """How far to go: the zero of the derivative of a convex piecewise quadratic, by bisection."""
    base, slope = float(penalty * solution @ step), float(penalty * step @ step)

    def derivative(length: float) -> float:
        slack = np.maximum(1.0 - margin - length * along, 0.0)
        return base + length * slope - float(slack @ along)

    if derivative(1.0) <= 1e-9 * abs(derivative(0.0)):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        if derivative(middle) < 0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
