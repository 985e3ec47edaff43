"""The slower, surer solvers of the gap between two hulls, for what the active sets leave undecided.

`solve_by_least_squares` works on the points themselves and not on their products: it keeps twice as many digits, which thin gaps
need, but it suits few points only.

`solve_by_newton` decides about many: it is a squared-hinge separator by Newton steps, its ridge shrinking until there is a proof.
For a ridge r, the slacks of the best separator are weights of two points, one in each hull, whose difference is r times its
normal. If the hulls overlap, that difference vanishes with the ridge; if they do not, the normal tends to the widest separation.
Each step solves one d × d system, so thousands of points near the limit of separability cost what a few matrix products cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from theodolite.probes.hulls.active_set import Flags, Floats, solve_positive

# Ridges, as shares of the number of points: each solution starts the next, and a plane from before replaces the first ones.
_COLD_RIDGES = tuple(10.0**-k for k in (2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15))
_WARM_RIDGES = _COLD_RIDGES[3:]
# The same if any plane or any common point will do: one ridge to find the points that matter, unless a plane between nearly the
# same points has found them, then nearly none.
_DECIDING_RIDGES = tuple(10.0**-k for k in (3, 12, 13, 14, 15))
_FINE_RIDGE = 1e-12

# `mend_plane` moves points this share of the usual distance beyond the plane, in at most so many rounds.
_MENDED_SHARE, _MENDING_ROUNDS = 0.1, 12

# Points that may enter the set of `solve_by_least_squares`: by itself, and between two ridges.
_MAX_ENTERING, _FEW_ENTERING = 400, 8


class Proof(NamedTuple):
    """Bounds of the distance between two hulls, with what proves them."""

    lower: float
    upper: float
    normal: Floats
    weights_a: Floats
    weights_b: Floats

    def improved_by(self, other: Proof) -> Proof:
        """The better lower bound and the better upper bound of two proofs."""
        plane, points = (other if other.lower > self.lower else self), (other if other.upper < self.upper else self)
        return Proof(plane.lower, points.upper, plane.normal, points.weights_a, points.weights_b)


def is_decided(lower: float, upper: float, touching: float, tolerance: float) -> bool:
    """Whether bounds prove that hulls overlap, or that they are disjoint with the distance known well enough."""
    return upper <= touching or (lower > touching and upper - lower <= tolerance * upper)


def solve_by_least_squares(
    A: Floats,
    B: Floats,
    weights_a: Floats,
    weights_b: Floats,
    *,
    touching: float,
    tolerance: float,
    max_entering: int = _MAX_ENTERING,
) -> Proof:
    """Better nearest points of two hulls than those that are known.

    A least-squares problem in the points loses half as many digits to rounding as one in their products does.
    """
    signed = np.concatenate([A, -B])
    in_a = np.arange(len(signed)) < len(A)
    weights = np.concatenate([weights_a, weights_b])
    # A weight far below rounding means nothing, but each hull keeps its heaviest point.
    in_set = weights > 1e-12 * np.where(in_a, weights_a.max(), weights_b.max())
    lower, upper, normal, best = -np.inf, np.inf, np.zeros(A.shape[1]), weights
    idle = 0
    for _ in range(max_entering):
        if not (in_set[in_a].any() and in_set[~in_a].any()):
            break  # rounding took the last point of a hull
        weights = np.maximum(np.where(in_set, weights, 0.0), 0.0)
        weights = weights / np.where(in_a, weights[in_a].sum(), weights[~in_a].sum())
        weights, in_set = _to_flat_minimum(signed, in_a, weights, in_set)
        w = weights @ signed
        length = float(np.linalg.norm(w))
        idle = 0 if length < upper * (1 - 1e-12) else idle + 1
        if length < upper:
            upper, best = length, weights
        along = signed @ w
        first, second = np.where(in_a, along, np.inf), np.where(in_a, np.inf, along)
        if length > 0 and (bound := float(first.min() + second.min()) / length) > lower:
            lower, normal = bound, w
        if is_decided(lower, upper, touching, tolerance):
            break
        away_first, away_second = (weights * in_a) @ along - first.min(), (weights * ~in_a) @ along - second.min()
        entering = int(first.argmin() if away_first >= away_second else second.argmin())
        if in_set[entering] or idle > 8:
            break  # the digits are used up
        in_set = in_set.copy()
        in_set[entering] = True
    return Proof(lower, upper, normal, best[: len(A)], best[len(A) :])


def _to_flat_minimum(signed: Floats, in_a: Flags, weights: Floats, in_set: Flags) -> tuple[Floats, Flags]:
    """Go to the nearest points of the two flats; each point whose weight runs out on the way leaves the set."""
    while True:
        places = np.flatnonzero(in_set)
        target = np.zeros_like(weights)
        target[places] = _flat_minimum(signed[places], in_a[places], weights[places])
        negative = in_set & (target <= 0)
        if not negative.any():
            return target, in_set
        steps = np.where(negative, weights / np.maximum(weights - target, 1e-300), np.inf)
        leaving = int(steps.argmin())
        weights = weights + steps[leaving] * (target - weights)
        weights[leaving] = 0.0
        in_set = in_set.copy()
        in_set[leaving] = False


def _flat_minimum(points: Floats, in_a: Flags, weights: Floats) -> Floats:
    """Weights of the nearest points of two flats, each group's summing to 1: least squares in the differences to its heaviest."""
    from scipy.linalg import lstsq

    target = weights.copy()
    columns, owners = [], []
    for group in (np.flatnonzero(in_a), np.flatnonzero(~in_a)):
        base = group[weights[group].argmax()]
        for place in group[group != base]:
            columns.append(points[place] - points[base])
            owners.append((place, base))
    if not columns:
        return target
    # By an orthogonal factorisation: ten times as fast as singular values.
    moves = lstsq(np.stack(columns, axis=1), -(weights @ points), cond=1e-14, lapack_driver="gelsy", check_finite=False)[0]
    for (place, base), move in zip(owners, moves, strict=True):
        target[place] += move
        target[base] -= move
    return target


def solve_by_newton(
    A: Floats, B: Floats, *, touching: float, start: Floats, tolerance: float = np.inf, is_close: bool = False
) -> Proof:
    """Bounds of the distance between two hulls by a separator of all points."""
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
    is_warm = hinge.start_from(start, len(A))
    if tolerance == np.inf:
        ridges = _DECIDING_RIDGES[1:] if is_warm and is_close else _DECIDING_RIDGES
    else:
        ridges = _WARM_RIDGES if is_warm else _COLD_RIDGES
    best = Proof(-np.inf, np.inf, np.zeros(A.shape[1]), np.full(len(A), 1 / len(A)), np.full(len(B), 1 / len(B)))
    for ridge in ridges:
        slack = hinge.minimise(ridge * len(X), None if tolerance < np.inf else (len(A), touching / scale))
        w = hinge.solution[:-1]
        along = X @ w
        bound = scale * float(along[: len(A)].min() + along[len(A) :].min()) / max(float(np.linalg.norm(w)), 1e-300)
        # The slacks, as convex weights of each hull, are the nearest points for this ridge.
        sum_a, sum_b = slack[: len(A)].sum(), slack[len(A) :].sum()
        if sum_a > 0 and sum_b > 0:
            weights = np.concatenate([slack[: len(A)] / sum_a, slack[len(A) :] / sum_b])
            length = scale * float(np.linalg.norm(weights @ X))
            best = best.improved_by(Proof(bound, length, w.copy(), weights[: len(A)], weights[len(A) :]))
        else:
            best = best.improved_by(best._replace(lower=bound, normal=w.copy()))
        if is_decided(best.lower, best.upper, touching, tolerance):
            break
        weights_a, weights_b = best.weights_a, best.weights_b
        is_last = ridge == ridges[-1]
        # No more points than the nearest ones can have: they are known, and what is missing is digits. If any plane will do, the
        # next ridge nearly always finds one, in less time.
        n_points = np.count_nonzero(weights_a) + np.count_nonzero(weights_b)
        if is_last or (tolerance < np.inf and ridge <= _FINE_RIDGE and n_points <= A.shape[1] + 2):
            few = _MAX_ENTERING if is_last else _FEW_ENTERING
            best = best.improved_by(
                solve_by_least_squares(A, B, weights_a, weights_b, touching=touching, tolerance=tolerance, max_entering=few)
            )
            if is_decided(best.lower, best.upper, touching, tolerance):
                break
    return best


def mend_plane(A: Floats, B: Floats, *, touching: float, start: Floats) -> Floats | None:
    """The normal of a plane that separates two sets, close to one that nearly does; None if it is not found quickly.

    The smallest change that puts the points on the wrong side of the plane on the right one is a least-norm problem in these
    points alone. They are few, so a round costs much less than a Newton step over all points and dimensions. Each round takes in
    the points that the change has moved to the wrong side, and drops those that need not be held.
    """
    length = float(np.linalg.norm(start))
    if length == 0:
        return None
    normal = start / length
    side = np.repeat([1.0, -1.0], [len(A), len(B)])
    along = np.concatenate([A @ normal, -(B @ normal)])
    offset = 0.5 * (_middle(along[: len(A)]) - _middle(along[len(A) :]))
    margin = along - offset * side
    goal = _MENDED_SHARE * _middle(margin)
    if goal <= 0:
        return None
    # The offset is one more coordinate, of the size of the points.
    square = float(np.einsum("ij,ij->", A, A) + np.einsum("ij,ij->", B, B)) / len(side)
    held = margin < goal
    for _ in range(_MENDING_ROUNDS):
        places = np.flatnonzero(held)
        if not 0 < len(places) <= A.shape[1]:  # none if `start` itself separates the sets, or nearly touches them
            return None
        points = np.concatenate([A[places[places < len(A)]], -B[places[places >= len(A)] - len(A)]])
        gram = points @ points.T + square * np.outer(side[places], side[places])
        gram.flat[:: len(places) + 1] *= 1.0 + 1e-9  # repeated points would make it singular
        pull = _solve(gram, goal - margin[places])
        change = pull @ points
        moved = margin + np.concatenate([A @ change, -(B @ change)]) + square * float(pull @ side[places]) * side
        if moved[: len(A)].min() + moved[len(A) :].min() > 2.0 * touching * float(np.linalg.norm(normal + change)):
            return np.asarray(normal + change)
        held = moved < 0.5 * goal
        held[places] = pull > 0
    return None


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
        low, high = _middle(along[:n_a]), -_middle(along[n_a:])
        half = 0.5 * (low - high)
        if half <= 0:
            return False
        self.solution = np.append(w, -0.5 * (low + high)) / half
        return True

    def minimise(self, ridge: float, plane: tuple[int, float] | None = None) -> Floats:
        """Go to the minimum for a ridge, in at most 40 steps; returns the slacks there.

        With `plane`, the number of rows of the first set and a distance, a plane that separates the sets by more ends the steps.
        """
        penalty = np.full(len(self.solution), ridge)
        penalty[-1] = 1e-3 * ridge  # an offset without penalty would make the system singular once no slack is left
        margin = self.rows @ self.solution
        for _ in range(40):
            short = margin < 1.0
            self._update_products(short)
            system = self.products.copy()
            system.flat[:: len(penalty) + 1] += penalty
            # The minimum of the quadratic piece itself, without a gradient in which digits would be lost.
            step = _solve(system, short.astype(np.float64) @ self.rows) - self.solution
            along = self.rows @ step
            length = _line_minimum(margin, along, self.solution, step, penalty)
            self.solution = self.solution + length * step
            margin = margin + length * along
            if plane is not None:
                gap = margin[: plane[0]].min() + margin[plane[0] :].min()
                if gap > 2.0 * plane[1] * np.linalg.norm(self.solution[:-1]):
                    break
            # A full step that changes no slack has reached the minimum: the function is quadratic there.
            if length > 1.0 - 1e-6 and np.array_equal(short, margin < 1.0):
                break
        return np.asarray(np.maximum(1.0 - self.rows @ self.solution, 0.0))

    def _update_products(self, short: Flags) -> None:
        """The products of the rows with slack: from what changed, or from the start if too much did."""
        changed = np.flatnonzero(short != self.has_slack)
        if len(changed) < 0.5 * np.count_nonzero(short):
            rows = self.rows[changed]
            self.products += rows.T @ (np.where(short[changed], 1.0, -1.0)[:, None] * rows)
        else:
            rows = self.rows[short]
            self.products = rows.T @ rows
        self.has_slack = short


def _middle(values: Floats) -> float:
    """The median, or of two the larger one; NumPy's own takes longer than a whole step over a few hundred points."""
    half = len(values) // 2
    return float(np.partition(values, half)[half])


def _solve(system: Floats, right: Floats) -> Floats:
    """The solution of a symmetric positive definite system; the shortest one if rounding has made it singular."""
    solution = solve_positive(system, right)
    # If there is none, the ridge is below the rounding of the products.
    return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0]) if solution is None else solution


def _line_minimum(margin: Floats, along: Floats, solution: Floats, step: Floats, penalty: Floats) -> float:
    """How far to go along a step: the zero of the derivative of a convex piecewise quadratic, by Newton steps in an interval."""
    base, slope = float(penalty * solution @ step), float(penalty * step @ step)
    low, high, length = 0.0, 1.0, 1.0
    for _ in range(30):
        slack = 1.0 - margin - length * along
        rows = slack > 0
        moves = along[rows]
        derivative = base + length * slope - float(slack[rows] @ moves)
        # The full step, unless it goes beyond the minimum because rows lose or gain slack on the way.
        if length == 1.0 and derivative <= 1e-9 * abs(base - float(np.maximum(1.0 - margin, 0.0) @ along)):
            return 1.0
        low, high = (length, high) if derivative < 0 else (low, length)
        last, length = length, length - derivative / max(slope + float(moves @ moves), 1e-300)
        if not low <= length <= high:
            length = 0.5 * (low + high)
        if abs(length - last) <= 1e-9:
            break
    return length
