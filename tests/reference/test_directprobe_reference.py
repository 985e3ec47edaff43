"""DirectProbe against the authors' program: the same clusters and predictions, and distances inside certified bounds.

If two hulls nearly touch, the authors' own distances are wrong; the cases with such pairs are listed here, with how many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from theodolite.probes import DirectProbe

CASES = (
    "breast_cancer",
    "digits_pca16",
    "digits_pca8",
    "iris",
    "mixed_N500_D32_L8",
    "ovl_N1000_D8_L3",
    "ovl_N300_D8_L3",
    "ovl_N500_D16_L3",
    "sep_N1000_D128_L17",
    "sep_N1000_D128_L50",
    "sep_N1000_D768_L5",
    "sep_N500_D128_L5",
    "wine",
    "xor_N2000_D32_L2",
    "xor_N300_D2_L2",
    "xor_N500_D8_L2",
)

PUBLISHED_DISTANCE_IS_WRONG = {
    "breast_cancer": (1, 0),
    "digits_pca8": (1, 1),
    "mixed_N500_D32_L8": (1, 0),
    "ovl_N1000_D8_L3": (19, 12),
    "ovl_N300_D8_L3": (1, 0),
    "ovl_N500_D16_L3": (3, 2),
}
"""Pairs whose published distance is more than 0.1 % outside the certified bounds, and how many of these it gives as 0."""

STORED_BOUND_IS_WRONG = "ovl_N1000_D8_L3", (0, 11), [383, 422, 728, 839], [205, 438, 555, 601, 774]
"""A case, the clusters of a pair, and the rows of X that carry their nearest points. The stored upper bound of this gap, which is
7e-7 of the scale, is below the distance itself: one test proves it with exact fractions, the others use the exact distance."""


@dataclass(frozen=True)
class Case:
    """One cloud, the results of the authors' program and certified distances for it, and our probe."""

    X: np.ndarray
    y: np.ndarray
    test_points: np.ndarray
    theirs: dict[str, np.ndarray]
    certified: dict[str, np.ndarray]
    probe: DirectProbe

    @property
    def our_number(self) -> dict[int, int]:
        return dict(zip(self.theirs["assign"].tolist(), self.probe.clusters_.tolist(), strict=True))

    def bounds(self, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Our bounds of the distances of their pairs of clusters."""
        table = {(int(row["i"]), int(row["j"])): (row["lower"], row["upper"]) for row in self.probe.cluster_distances_}
        pairs = [sorted((self.our_number[a], self.our_number[b])) for a, b in zip(i.tolist(), j.tolist(), strict=True)]
        lower, upper = zip(*(table[a, b] for a, b in pairs), strict=True)
        return np.array(lower), np.array(upper)


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, reference: Path) -> Case:
    folder = reference / "directprobe"
    with (
        np.load(folder / f"{request.param}.npz") as cloud,
        np.load(folder / f"{request.param}.ref.npz") as theirs,
        np.load(folder / f"{request.param}.exact.npz") as certified,
    ):
        X, y, test_points = cloud["X"], cloud["y"], cloud["Xt"][: len(theirs["pred_top"])]
        case = Case(X, y, test_points, dict(theirs), dict(certified), DirectProbe().fit(X, y))
    if request.param == STORED_BOUND_IS_WRONG[0]:
        place, distance = wrong_pair(case)
        case.certified["ub"][place] = float(distance)
    return case


def wrong_pair(case: Case) -> tuple[int, Fraction]:
    """The place of the pair whose stored upper bound is wrong, and its exact distance."""
    _, (i, j), own, other = STORED_BOUND_IS_WRONG
    place = int(np.flatnonzero((case.certified["i"] == i) & (case.certified["j"] == j))[0])
    A, B = ([[Fraction(float(value)) for value in row] for row in case.X[case.theirs["assign"] == number]] for number in (i, j))
    return place, exact_distance(A, B, *([[Fraction(float(v)) for v in case.X[row]] for row in rows] for rows in (own, other)))


def exact_distance(
    A: list[list[Fraction]], B: list[list[Fraction]], near_a: list[list[Fraction]], near_b: list[list[Fraction]]
) -> Fraction:
    """The distance of two hulls whose nearest points are combinations of `near_a` and of `near_b`, correct to forty digits.

    Solves for the nearest points of the two flats, then asserts what makes them the nearest points of the hulls: all weights are
    positive, and the planes through them, across their difference, have all of A on one side and all of B on the other.
    """
    signed = near_a + [[-value for value in row] for row in near_b]
    groups = [[Fraction(int(i < len(near_a))), Fraction(int(i >= len(near_a)))] for i in range(len(signed))]
    system = [[dot(row, column) for column in signed] + group for row, group in zip(signed, groups, strict=True)]
    system += [[group[side] for group in groups] + [Fraction(0)] * 2 for side in (0, 1)]
    weights = solve_exactly(system, [Fraction(0)] * len(signed) + [Fraction(1)] * 2)[: len(signed)]
    assert min(weights) > 0
    w = [dot(weights, list(column)) for column in zip(*signed, strict=True)]
    assert min(dot(row, w) for row in A) - max(dot(row, w) for row in B) == dot(w, w)
    scale = 10**40
    return Fraction(math.isqrt(int(dot(w, w) * scale**2)), scale)


def dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def solve_exactly(system: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """The solution of a square linear system, by elimination without rounding."""
    rows = [[*row, value] for row, value in zip(system, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k in range(len(rows)):
            if k != i and rows[k][i] != 0:
                rows[k] = [value - rows[k][i] * other for value, other in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def test_every_stored_case_is_compared(reference: Path) -> None:
    assert {path.name.removesuffix(".ref.npz") for path in (reference / "directprobe").glob("*.ref.npz")} == set(CASES)


def test_clusters_are_the_same_up_to_their_numbers(case: Case) -> None:
    numbers = set(zip(case.theirs["assign"].tolist(), case.probe.clusters_.tolist(), strict=True))
    assert len(numbers) == case.theirs["n_clusters"] == case.probe.n_clusters_
    for their, our in numbers:
        assert case.theirs["cluster_label"][their] == case.probe.cluster_labels_[our]


def test_bounds_meet_the_certified_ones(case: Case) -> None:
    lower, upper = case.bounds(case.certified["i"], case.certified["j"])
    assert len(lower) == len(case.probe.cluster_distances_) and case.probe.n_overlaps_ == 0
    scale = np.linalg.norm(case.X - case.X.mean(axis=0), axis=1).max()
    # The stored bounds are rounded too: one of ovl_N1000_D8_L3 is 2.4e-14 of the scale below what a plane proves exactly.
    rounding = 1e-12 * scale
    assert (lower <= case.certified["ub"] * (1 + 1e-9) + rounding).all()
    assert (upper >= case.certified["lb"] * (1 - 1e-9) - rounding).all()
    # One gap of ovl_N1000_D8_L3 is 7e-7 of the scale wide: there the last digits are lost to rounding.
    assert (lower > 0).all() and (upper - lower <= 1e-6 * upper + 1e-10 * scale).all()


@pytest.mark.parametrize("case", [STORED_BOUND_IS_WRONG[0]], indirect=True)
def test_one_stored_upper_bound_is_below_the_exact_distance(reference: Path, case: Case) -> None:
    """In exact arithmetic, 4.17266816…e-6 is the distance; ours are bounds of it, and the stored 4.17255754…e-6 is not."""
    place, distance = wrong_pair(case)
    with np.load(reference / "directprobe" / f"{STORED_BOUND_IS_WRONG[0]}.exact.npz") as stored:
        assert stored["lb"][place] < stored["ub"][place] < distance * (1 - Fraction(1, 10**5))
    lower, upper = (bound[place] for bound in case.bounds(case.certified["i"], case.certified["j"]))
    scale = float(np.linalg.norm(case.X - case.X.mean(axis=0), axis=1).max())
    # Certificates hold up to the rounding of one product of the plane with the centred points.
    rounding = Fraction(8 * float(np.finfo(np.float64).eps) * scale)
    assert Fraction(lower) <= distance + rounding and distance - rounding <= Fraction(upper)


def test_points_go_to_the_same_clusters_and_labels(case: Case) -> None:
    nearest = case.probe.distances(case.test_points).argmin(axis=1)
    assert nearest.tolist() == [case.our_number[cluster] for cluster in case.theirs["pred_top"].tolist()]
    np.testing.assert_array_equal(case.probe.predict(case.test_points), case.theirs["cluster_label"][case.theirs["pred_top"]])


def test_published_distances_are_inside_the_bounds_except_those_listed_as_wrong(
    case: Case, request: pytest.FixtureRequest
) -> None:
    lower, upper = case.bounds(case.theirs["pairs"][:, 0], case.theirs["pairs"][:, 2])
    published = case.theirs["dist"]
    wrong = (published < lower * (1 - 1e-3)) | (published > upper * (1 + 1e-3))
    name = request.node.callspec.params["case"]
    assert (wrong.sum(), (published[wrong] == 0).sum()) == PUBLISHED_DISTANCE_IS_WRONG.get(name, (0, 0))
    assert (published[wrong] < lower[wrong]).all()  # always too small: a solver that gave up
