"""Whether two large hulls are disjoint: a squared-hinge separator by Newton steps, its ridge shrinking until there is a proof.

For a ridge r, the slacks of the best separator are weights of two points, one in each hull, whose difference is r times its
normal. If the hulls overlap, that difference vanishes with the ridge; if they do not, the normal tends to the widest separation.
Each step solves one d × d system, so thousands of points near the limit of separability cost what a few matrix products cost.
"""

from __future__ import annotations

import numpy as np

from theodolite.probes.compiled import Flags, Floats
from theodolite.probes.hulls.working_set import OVERLAPPING, SEPARATED, UNDECIDED

# Ridges, as shares of the number of points: each solution starts the next, and a plane from before replaces the first ones.
_COLD_RIDGES = tuple(10.0**-k for k in (2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15))
_WARM_RIDGES = _COLD_RIDGES[3:]


def newton_gap(
    A: Floats, B: Floats, *, touching: float, start: Floats | None = None, tolerance: float = np.inf
) -> tuple[int, float, float, Floats, Floats, Floats]:
    """Bounds of the distance between two hulls by a separator of all points.

    Parameters
    ----------
    A, B
        The two sets, (n, d) and (m, d).
    touching
        The distance up to which hulls count as overlapping.
    start
        The normal of a plane that nearly separates them: the closer, the fewer steps.
    tolerance
        How far the bounds may differ, as a share of the distance; infinity if any separating plane will do.

    Returns
    -------
    tuple
        SEPARATED, OVERLAPPING or UNDECIDED; lower and upper bound; the normal of the plane; the convex weights of A and of B.
    """
    origin = 0.5 * (A.mean(axis=0) + B.mean(axis=0))
    rows = np.empty((len(A) + len(B), A.shape[1] + 1))
    X = rows[:, :-1]
    X[: len(A)] = A - origin
    X[len(A) :] = origin - B
    rows[: len(A), -1], rows[len(A) :, -1] = 1.0, -1.0
    # At scale 1 the ridges mean the same for every cloud.
    scale = float(np.sqrt(np.einsum("ij,ij->i", X, X).max())) or 1.0
    X /= scale
    hinge = _SquaredHinge(rows)
    is_warm = start is not None and hinge.start_from(start, len(A))
    lower, upper = -np.inf, np.inf
    normal, weights = np.zeros(A.shape[1]), np.r_[np.full(len(A), 1 / len(A)), np.full(len(B), 1 / len(B))]
    verdict = UNDECIDED
    for ridge in _WARM_RIDGES if is_warm else _COLD_RIDGES:
        slack = hinge.minimise(ridge * len(X))
        w = hinge.solution[:-1]
        along = X @ w
        bound = scale * float(along[: len(A)].min() + along[len(A) :].min()) / max(float(np.linalg.norm(w)), 1e-300)
        if bound > lower:
            lower, normal = bound, w.copy()
        # The slacks, as convex weights of each hull, are the nearest points for this ridge.
        sum_a, sum_b = slack[: len(A)].sum(), slack[len(A) :].sum()
        if sum_a > 0 and sum_b > 0:
            convex = np.r_[slack[: len(A)] / sum_a, slack[len(A) :] / sum_b]
            length = scale * float(np.linalg.norm(convex @ X))
            if length < upper:
                upper, weights = length, convex
        if upper <= touching or (lower > touching and (tolerance == np.inf or upper - lower <= tolerance * upper)):
            verdict = SEPARATED if lower > touching else OVERLAPPING
            break
    return verdict, lower, upper, normal, weights[: len(A)], weights[len(A) :]


class _SquaredHinge:
    """ridge |w|² / 2 + sum of max(0, 1 - row . solution)² / 2; its minimiser is carried from one ridge to the next.

    The last column is the offset. The products of the rows with slack are stored and updated by the rows that come and go, which
    are few near the end.
    """

    def __init__(self, rows: Floats) -> None:
        self.rows = rows
        self.solution = np.zeros(rows.shape[1])
        self.has_slack: Flags = np.zeros(len(rows), dtype=np.bool_)
        self.products = np.zeros((rows.shape[1], rows.shape[1]))

    def start_from(self, normal: Floats, n_a: int) -> bool:
        """Start with this normal and the closer half of the points inside the margin; False if it does not separate at all."""
        length = float(np.linalg.norm(normal))
        if length == 0:
            return False
        w = normal / length
        along = self.rows[:, :-1] @ w
        low, high = float(np.median(along[:n_a])), -float(np.median(along[n_a:]))
        half = 0.5 * (low - high)
        if half <= 0:
            return False
        self.solution = np.r_[w, -0.5 * (low + high)] / half
        return True

    def minimise(self, ridge: float) -> Floats:
        """Go to the minimum for a ridge, in at most 40 steps; returns the slacks there."""
        penalty = np.full(len(self.solution), ridge)
        penalty[-1] = 1e-3 * ridge  # an offset without penalty would make the system singular once no slack is left
        margin = self.rows @ self.solution
        for _ in range(40):
            short = margin < 1.0
            self._update_products(short)
            system = self.products.copy()
            system[np.diag_indices(len(penalty))] += penalty
            # The minimum of the quadratic piece itself, without a gradient in which digits would be lost.
            step = _solve(system, self.rows[short].sum(axis=0)) - self.solution
            along = self.rows @ step
            length = _line_minimum(margin, along, self.solution, step, penalty)
            self.solution = self.solution + length * step
            margin = margin + length * along
            # A full step that changes no slack has reached the minimum: the function is quadratic there.
            if length > 1.0 - 1e-6 and np.array_equal(short, margin < 1.0):
                break
        return np.asarray(np.maximum(1.0 - self.rows @ self.solution, 0.0))

    def _update_products(self, short: Flags) -> None:
        """The products of the rows with slack: from what changed, or from the start if too much did."""
        added, removed = short & ~self.has_slack, self.has_slack & ~short
        if added.sum() + removed.sum() < 0.5 * short.sum():
            for rows, sign in ((self.rows[added], 1.0), (self.rows[removed], -1.0)):
                if len(rows):
                    self.products += sign * (rows.T @ rows)
        else:
            rows = self.rows[short]
            self.products = rows.T @ rows
        self.has_slack = short


def _solve(system: Floats, right: Floats) -> Floats:
    """The solution of a symmetric positive definite system; the shortest one if rounding has made it singular."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        return np.asarray(cho_solve(cho_factor(system, lower=True, check_finite=False), right, check_finite=False))
    except LinAlgError:  # the ridge is below the rounding of the products
        return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0])


def _line_minimum(margin: Floats, along: Floats, solution: Floats, step: Floats, penalty: Floats) -> float:
    """How far to go along a step: the zero of the derivative of a convex piecewise quadratic, by bisection."""
    base, slope = float(penalty * solution @ step), float(penalty * step @ step)

    def derivative(length: float) -> float:
        slack = np.maximum(1.0 - margin - length * along, 0.0)
        return base + length * slope - float(slack @ along)

    # The full step, unless it goes beyond the minimum because rows lose or gain slack on the way.
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
