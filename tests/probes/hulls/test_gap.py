"""Every certificate of a hull gap is checked on the points themselves, distances against all faces of small hulls; and points."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hull_oracles import distance_by_faces, distance_by_program, share_a_point
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from theodolite.probes.hulls.fallback_solvers import mend_plane
from theodolite.probes.hulls.gap import TOUCHING, HullGap, hull_distances, hull_gap, nearest_hulls, pair_bounds, solve_gap

EPSILON = float(np.finfo(np.float64).eps)


def normal(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def rotation(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(normal(d, d, seed))[0]


def rounding(*sets: np.ndarray) -> float:
    """How far the products of a plane with the points may be off."""
    return 8 * EPSILON * max(float(np.linalg.norm(points, axis=1).max()) for points in sets)


def proven(A: np.ndarray, B: np.ndarray, **options: float) -> HullGap:
    """The gap of two sets, after its plane was tested on every point and its points were recomputed from their weights."""
    gap = hull_gap(A, B, **options)
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    slack = rounding(A, B)
    for weights, points, near in ((gap.weights_a, A, gap.near_a), (gap.weights_b, B, gap.near_b)):
        assert weights.shape == (len(points),)
        assert (weights >= 0).all() and weights.sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(near, weights @ points, rtol=0, atol=slack)
    assert np.linalg.norm(gap.near_a - gap.near_b) == pytest.approx(gap.upper, abs=2 * slack)
    assert 0 <= gap.lower <= gap.upper
    if gap.overlap:
        assert gap.lower == 0 and not gap.normal.any()
        assert gap.upper <= gap.touching  # a common point, within rounding
    else:
        low, high = (A @ gap.normal).min(), (B @ gap.normal).max()
        assert np.linalg.norm(gap.normal) == pytest.approx(1, abs=1e-12)
        assert low - high >= gap.lower - slack
        assert low - gap.offset == pytest.approx(gap.lower / 2, abs=slack + 1e-6 * gap.upper)
        assert gap.offset - high == pytest.approx(gap.lower / 2, abs=slack + 1e-6 * gap.upper)
        assert gap.lower > gap.touching
    return gap


def tight(gap: HullGap, distance: float, *, relative: float = 1e-6) -> None:
    """The distance is between the bounds, and they are close."""
    slack = 1e-12 * max(distance, 1.0)
    assert gap.lower <= distance + slack and distance <= gap.upper + slack
    assert gap.upper - gap.lower <= relative * gap.upper + slack


@st.composite
def on_a_grid(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of whole numbers: often touching, doubled, in a line, or a single point; never nearly touching."""
    d = draw(st.integers(1, 3))
    sizes = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    shift = draw(arrays(np.int64, d, elements=st.integers(-4, 4)))
    whole = [draw(arrays(np.int64, (n, d), elements=st.integers(-3, 3))) for n in sizes]
    return whole[0].astype(np.float64), (whole[1] + shift).astype(np.float64)


@pytest.mark.slow
@settings(max_examples=120, derandomize=True)
@given(on_a_grid())
def test_sets_on_a_grid_agree_with_all_faces_and_with_a_linear_program(sets: tuple[np.ndarray, np.ndarray]) -> None:
    A, B = sets
    gap = proven(A, B)
    distance = distance_by_faces(A, B)
    assert gap.overlap == (distance < 1e-9) == share_a_point(A, B)
    if not gap.overlap:
        tight(gap, distance)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_distances_of_small_clouds_are_those_of_all_faces(d: int) -> None:
    for seed in range(12):
        A, B = normal(5, d, seed), normal(4, d, 100 + seed) + 2.5 * np.eye(d)[0] * (seed % 3)
        gap, distance = proven(A, B), distance_by_faces(A, B)
        assert gap.overlap == (distance < 1e-9)
        if not gap.overlap:
            tight(gap, distance)


@pytest.mark.parametrize(("n", "d"), [(12, 6), (30, 4), (8, 20)])
def test_no_quadratic_program_finds_nearer_points(n: int, d: int) -> None:
    for seed in range(4):
        A, B = normal(n, d, seed), normal(n, d, 50 + seed) + 4 * np.eye(d)[0]
        gap = proven(A, B)
        nearest = distance_by_program(A, B)
        assert not gap.overlap and not share_a_point(A, B)
        assert gap.upper <= nearest * (1 + 1e-6) and gap.lower == pytest.approx(nearest, rel=1e-4)


@pytest.mark.parametrize(("n", "d"), [(40, 2), (200, 5), (60, 30), (300, 3)])
def test_overlap_of_clouds_of_any_shape_is_that_of_a_linear_program(n: int, d: int) -> None:
    verdicts = []
    for seed, shift in enumerate((0.0, 0.5, 1.0, 2.0, 4.0, 8.0)):
        A, B = normal(n, d, seed), normal(n // 2, d, 70 + seed) + shift / np.sqrt(d)
        verdicts.append(proven(A, B).overlap)
        assert verdicts[-1] == share_a_point(A, B)
    assert not verdicts[-1] and (verdicts[0] or d == 30)


@pytest.mark.parametrize(("d", "share"), [(200, 1.5), (200, 1.8), (200, 2.2), (200, 2.6), (100, 2.0), (65, 2.0), (64, 2.0)])
def test_near_the_limit_of_what_a_plane_can_separate(d: int, share: float) -> None:
    """Random points can be separated up to about two per dimension (Cover 1965)."""
    for seed in range(2):
        points = normal(int(share * d), d, seed)
        A, B = points[: len(points) // 2], points[len(points) // 2 :]
        gap = proven(A, B)
        assert gap.overlap == share_a_point(A, B)
        if share != 2.0:
            assert gap.overlap == (share > 2)


def test_a_plane_is_mended_by_a_small_change_and_never_if_the_hulls_overlap() -> None:
    """Points on both sides of a plane, and a start that has up to a tenth of them on the wrong side."""
    X, direction = normal(120, 40, 0), normal(1, 40, 1)[0]
    X = X[np.abs(X @ direction) > 0.1]
    A, B = X[X @ direction > 0], X[X @ direction < 0]
    for seed in range(20):
        start = direction + 0.5 * normal(1, 40, 100 + seed)[0]
        assert (A @ start).min() < (B @ start).max()
        mended = mend_plane(A, B, touching=1e-7, start=start)
        assert mended is not None and (A @ mended).min() - (B @ mended).max() > 1e-7 * np.linalg.norm(mended)
        cosine = mended @ start / (np.linalg.norm(mended) * np.linalg.norm(start))
        assert cosine > 0.8
        inside = np.vstack([A, B.mean(axis=0)])
        assert mend_plane(inside, B, touching=1e-7, start=start) is None
    assert mend_plane(A, B, touching=1e-7, start=np.zeros(40)) is None
    assert mend_plane(A, B, touching=1e-7, start=-direction) is None


def test_more_dimensions_than_points_leaves_a_gap() -> None:
    A, B = normal(6, 40, 0), normal(5, 40, 1)
    gap = proven(A, B)
    assert not gap.overlap
    # If all weights are positive, the nearest points are those of the two flats.
    tight(gap, min(distance_by_flats(A, B), gap.upper))
    assert distance_by_flats(A, B) <= gap.upper * (1 + 1e-9)


def distance_by_flats(A: np.ndarray, B: np.ndarray) -> float:
    moves = np.concatenate([A[1:] - A[0], B[0] - B[1:]]).T
    between = A[0] - B[0]
    return float(np.linalg.norm(between + moves @ np.linalg.lstsq(moves, -between, rcond=None)[0]))


@pytest.mark.parametrize(("n", "d"), [(20, 3), (90, 80), (150, 8)])
def test_motion_and_scale(n: int, d: int) -> None:
    A, B = normal(n, d, 1), normal(n, d, 2) + 6 / np.sqrt(d) * np.ones(d)
    gap, Q = proven(A, B), rotation(d, 3)
    for scale in (1e-6, 1.0, 1e5):
        moved = proven(scale * (A @ Q + 2), scale * (B @ Q + 2))
        assert moved.overlap is False
        assert moved.lower == pytest.approx(scale * gap.lower, rel=2e-6)
        assert moved.upper == pytest.approx(scale * gap.upper, rel=2e-6)
        # Two planes whose margins are this close to the widest differ by an angle of about the root of the rest.
        np.testing.assert_allclose(moved.normal, gap.normal @ Q, atol=3e-3)
        assert moved.touching == pytest.approx(scale * gap.touching, rel=1e-9)


def test_overlap_stays_overlap_under_motion_and_scale() -> None:
    A, B, Q = normal(60, 5, 1), normal(60, 5, 2), rotation(5, 3)
    assert all(proven(scale * (A @ Q - 3), scale * (B @ Q - 3)).overlap for scale in (1e-6, 1.0, 1e5))


def test_order_of_rows_and_of_sets_changes_nothing() -> None:
    for shift, d in ((3.0, 4), (0.0, 4), (3.0, 70)):
        A, B = normal(50, d, 4), normal(30, d, 5) + shift
        gap, shuffled, swapped = proven(A, B), proven(A[::-1], np.roll(B, 7, axis=0)), proven(B, A)
        assert gap.overlap == shuffled.overlap == swapped.overlap == (shift == 0)
        if not gap.overlap:
            assert shuffled.lower == pytest.approx(gap.lower, rel=2e-6) and swapped.lower == pytest.approx(gap.lower, rel=2e-6)
            np.testing.assert_allclose(swapped.normal, -gap.normal, atol=3e-3)


@pytest.mark.parametrize("d", [3, 70])
def test_copies_and_points_inside_change_nothing(d: int) -> None:
    A, B = normal(25, d, 6), normal(25, d, 7) + 4
    inside = np.random.default_rng(8).dirichlet(np.ones(25), 40) @ A
    gap = proven(A, B)
    for more in (np.repeat(A, 4, axis=0), np.concatenate([inside, A, A])):
        assert proven(more, B, scale=10.0).upper == pytest.approx(gap.upper, rel=2e-6)


def test_single_points() -> None:
    assert proven(np.array([[1.0, 2.0]]), np.array([[4.0, 6.0]])).upper == 5.0
    assert proven(np.array([[1.0, 2.0]]), np.array([[1.0, 2.0]])).overlap
    assert proven(np.array([[7.0]]), np.array([[3.0], [5.0]])).lower == pytest.approx(2, rel=1e-9)
    triangle = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    assert proven(np.array([[1.0, 1.0]]), triangle).overlap
    assert proven(np.array([[4.0, 4.0]]), triangle).upper == pytest.approx(np.sqrt(8), rel=1e-9)


def test_identical_points() -> None:
    copies = np.ones((9, 4))
    assert proven(copies, copies[:3]).overlap
    assert proven(copies, normal(20, 4, 0) * 0.1 + 1).overlap == share_a_point(copies, normal(20, 4, 0) * 0.1 + 1)
    assert proven(copies, copies + [0, 0, 3, 4]).upper == pytest.approx(5, rel=1e-9)


def test_points_in_a_line() -> None:
    direction = np.array([1.0, -2.0, 2.0]) / 3
    near, far = np.linspace(0, 1, 30)[:, None] * direction, np.linspace(1.5, 9, 12)[:, None] * direction
    gap = proven(near, far)
    tight(gap, 0.5)
    np.testing.assert_allclose(gap.normal, -direction, atol=1e-6)
    assert proven(near, far - 0.7 * direction).overlap
    tight(proven(near, far + np.array([0.0, 1.0, 1.0])), np.sqrt(0.25 + 2))
    crossing = np.array([[0.0, 0.0], [2.0, 2.0]]), np.array([[0.0, 2.0], [2.0, 0.0]])
    assert proven(*crossing).overlap


@pytest.mark.parametrize("d", [2, 8, 80])
def test_touching_is_overlap(d: int) -> None:
    A, B = np.abs(normal(30, d, 0)), -np.abs(normal(30, d, 1))
    corner = np.zeros((1, d))
    assert not proven(A + 0.01, B - 0.01).overlap
    assert proven(np.concatenate([A, corner]), np.concatenate([B, corner])).overlap  # a common corner
    edge = np.eye(d)[:2] - np.eye(d)[:2].mean(axis=0)  # through the origin
    assert proven(np.concatenate([A, corner]), np.concatenate([B, edge])).overlap  # a corner on an edge
    shared = np.linalg.qr(normal(d, d, 4))[0]
    assert proven(np.concatenate([A, corner]) @ shared + 3, np.concatenate([B, corner]) @ shared + 3).overlap


def slabs(d: int, gap: float, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two clouds on both sides of a slab of known width, with faces on it that are opposite each other; scale 1."""
    random = np.random.default_rng(seed)
    sets = []
    for sign in (1, -1):
        rows = random.uniform(-1, 1, (8 * d, d)) / np.sqrt(d)
        rows[:, 0] = sign * (gap / 2 + np.abs(rows[:, 0]))
        face = np.concatenate([np.eye(d)[1:], -np.eye(d)[1:]]) / 2 @ np.diag(random.uniform(0.5, 1, d))
        face[:, 0] = sign * gap / 2
        sets.append(np.concatenate([rows, face]))
    Q = rotation(d, seed)
    return sets[0] @ Q, sets[1] @ Q


@pytest.mark.parametrize("d", [2, 3, 8, 16, 30, 80])
@pytest.mark.parametrize("share", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_thin_gaps_are_gaps_and_their_bounds_stay_together(d: int, share: float) -> None:
    for seed in range(10):
        A, B = slabs(d, share, seed=seed)
        gap = proven(A, B, scale=1.0)
        assert not gap.overlap
        assert gap.lower <= share + 1e-14 and gap.upper >= share - 1e-14
        assert gap.upper - gap.lower <= 1e-6 * gap.upper + 1e-14, seed


@pytest.mark.parametrize("d", [2, 3, 8, 30])
@pytest.mark.parametrize("share", [1e-9, 0.0, -1e-4])
def test_hulls_closer_than_rounding_touch(d: int, share: float) -> None:
    assert share < TOUCHING
    assert all(proven(*slabs(d, share, seed=seed), scale=1.0).overlap for seed in range(3))


@pytest.mark.parametrize("d", [4, 70])
def test_single_precision_is_its_double(d: int) -> None:
    A, B = normal(40, d, 0).astype(np.float32), (normal(40, d, 1) + 2).astype(np.float32)
    single, double = proven(A, B), proven(A.astype(np.float64), B.astype(np.float64))
    assert (single.lower, single.upper) == (double.lower, double.upper)
    assert single.normal.dtype == single.weights_a.dtype == np.float64
    np.testing.assert_array_equal(single.weights_a, double.weights_a)


@pytest.mark.parametrize("d", [3, 70])
def test_far_from_the_origin(d: int) -> None:
    A, B = normal(40, d, 0), normal(40, d, 1) + 2.5
    near, far = proven(A, B), proven(A + 1e4, B + 1e4)
    assert far.lower == pytest.approx(near.lower, rel=3e-6) and far.upper == pytest.approx(near.upper, rel=3e-6)
    assert far.touching == pytest.approx(near.touching, rel=1e-9)
    assert proven(A + 1e4, 0.5 * (A + A.mean(axis=0)) + 1e4).overlap


def test_a_finer_tolerance_brings_the_bounds_together() -> None:
    A, B = normal(60, 6, 0), normal(60, 6, 1) + 2
    widths = [(gap := proven(A, B, tolerance=tolerance)).upper / gap.lower - 1 for tolerance in (1e-2, 1e-4, 1e-8)]
    assert all(width <= 1.01 * tolerance for width, tolerance in zip(widths, (1e-2, 1e-4, 1e-8), strict=True))


def test_scale_is_what_touching_is_a_share_of() -> None:
    A, B = slabs(4, 1e-4, seed=0)
    assert not proven(A, B, scale=1.0).overlap
    wide = hull_gap(A, B, scale=1e4)
    assert wide.overlap and wide.touching == 1e4 * TOUCHING


def test_the_answer_is_the_same_every_time() -> None:
    A, B = normal(80, 10, 0), normal(80, 10, 1) + 1.5
    first, second = hull_gap(A, B), hull_gap(A, B)
    assert (first.lower, first.upper, first.offset) == (second.lower, second.upper, second.offset)
    np.testing.assert_array_equal(first.normal, second.normal)


@pytest.mark.parametrize(
    ("A", "B", "message"),
    [
        (np.ones((3, 2)), np.ones((3, 4)), "2 and 4 dimensions"),
        (np.array([[1.0, np.nan]]), np.ones((2, 2)), "NaN at row 0, column 1"),
        (np.ones((2, 2)), np.array([[1.0, 2.0], [np.inf, 1.0]]), "inf at row 1, column 0"),
        (np.ones((0, 2)), np.ones((2, 2)), "(0, 2)"),
        (np.ones(3), np.ones((2, 3)), "one axis"),
    ],
)
def test_wrong_input_is_an_error_that_names_it(A: np.ndarray, B: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        hull_gap(A, B)
    assert message in str(caught.value)


SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])


def test_distances_to_a_square_and_to_a_point() -> None:
    points = np.array([[1.0, 1.0], [2.0, 1.0], [5.0, 1.0], [5.0, 6.0]])
    distances = hull_distances(points, [SQUARE, np.array([[2.0, 1.0]])], 1e-7)
    np.testing.assert_allclose(distances, [[0, 1], [0, 0], [3, 3], [5, np.sqrt(34)]], atol=1e-8)


@pytest.mark.parametrize("d", [2, 5, 70])
def test_the_nearest_hull_is_that_of_all_distances(d: int) -> None:
    random = np.random.default_rng(d)
    hulls = [random.standard_normal((20, d)) + 2 * random.standard_normal(d) for _ in range(6)]
    points = 3 * random.standard_normal((30, d))
    distances = hull_distances(points, hulls, 1e-7)
    np.testing.assert_array_equal(nearest_hulls(points, hulls, 1e-7), distances.argmin(axis=1))


def test_the_first_of_equally_near_hulls_is_taken() -> None:
    assert nearest_hulls(np.array([[1.0, 1.0]]), [SQUARE + 9, SQUARE, SQUARE], 1e-7).tolist() == [1]


def test_bounds_from_products_that_all_pairs_share_are_those_of_each_pair_alone() -> None:
    """Among sets that are stretched, with copies and points inside, in a plane, with a thin gap, and with a point in common."""
    d = 300
    stretched = [normal(40, d, seed) * np.r_[np.full(3, 30.0), np.ones(d - 3)] + 2 * normal(1, d, seed + 10) for seed in range(3)]
    repeated = np.concatenate([stretched[0], stretched[0][:5], stretched[0].mean(axis=0, keepdims=True)]) + 1.0
    flat = normal(30, 2, 4) @ normal(2, d, 5) + 3.0
    thin = stretched[1] + 1e-5 * normal(1, d, 6)
    sharing = np.concatenate([normal(20, d, 7), stretched[2][:1]])
    hulls = [np.ascontiguousarray(points) for points in (*stretched, repeated, flat, thin, sharing)]
    pairs = list(combinations(range(len(hulls)), 2))
    touching = TOUCHING * max(float(np.linalg.norm(points, axis=1).max()) for points in hulls)
    for (i, j), (lower, upper) in zip(pairs, pair_bounds(hulls, np.array(pairs), touching, 1e-6, 1, None), strict=True):
        alone = solve_gap(hulls[i], hulls[j], touching=touching)
        assert (lower <= 0) == alone.overlap
        assert lower <= alone.upper * (1 + 1e-9) + touching and alone.lower <= upper * (1 + 1e-9) + touching
        assert alone.overlap or upper - lower <= 1e-6 * upper
    assert solve_gap(hulls[2], hulls[6], touching=touching).overlap
