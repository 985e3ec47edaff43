"""Similarity of two representations: of layouts of labels, by their invariances; and CKA, compared with its definition."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform
from scipy.stats import pearsonr

import theodolite.probes.similarity as module
from theodolite.core.vectors import Source
from theodolite.probes.direct_probe import DirectProbe
from theodolite.probes.similarity import cka, cka_null, cka_of_layers, cka_similarity, spatial_similarity

NAMES = ("ADJ", "ADP", "DET", "NOUN", "NUM", "VERB", "X")


def measured(names: tuple[str, ...], distances: np.ndarray, **about: object) -> SimpleNamespace:
    """What is used of a fitted probe whose labels have these distances."""
    distances = np.where(np.eye(len(names), dtype=bool), np.nan, distances)
    probe = {"classes_": np.array(names), "label_distances_": distances, "is_linear_": True, "n_clusters_": len(names)}
    return SimpleNamespace(**(probe | about))


def layout(points: np.ndarray, names: tuple[str, ...] = NAMES) -> SimpleNamespace:
    return measured(names[: len(points)], squareform(pdist(points)))


def places(seed: int, labels: int = 7, d: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((labels, d))


@given(seed=st.integers(0, 100), scale=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
def test_a_rotated_scaled_and_shifted_copy_is_the_same_layout(seed: int, scale: float, shift: float) -> None:
    points = places(seed)
    Q = np.linalg.qr(places(seed + 1, 5, 5))[0]
    result = spatial_similarity(layout(points), layout(scale * points @ Q + shift))
    assert result.value == pytest.approx(1)
    assert result.low == pytest.approx(1) and result.high == pytest.approx(1)
    assert (result.n, result.dropped, result.reason) == (7, (), "")


def test_it_is_pearson_over_pairs_and_reaches_both_ends() -> None:
    first, second = squareform(pdist(places(0))), squareform(pdist(places(1)))
    above = np.triu_indices(7, 1)
    value = spatial_similarity(layout(places(0)), layout(places(1))).value
    assert value == pytest.approx(pearsonr(first[above], second[above])[0])
    reversed_order = measured(NAMES, first.max() + 1 - first)
    assert spatial_similarity(layout(places(0)), reversed_order).value == pytest.approx(-1)


def test_it_is_symmetric_and_a_stretched_copy_is_not_the_same() -> None:
    first, second = layout(places(0)), layout(places(0) * [10, 1, 1, 0.1, 0.1])
    there, back = spatial_similarity(first, second), spatial_similarity(second, first)
    assert there.value == pytest.approx(back.value)
    assert there.value < 0.9


def test_labels_are_matched_by_name_and_the_others_are_listed() -> None:
    points = places(2)
    order = [3, 0, 5, 1]
    fewer = layout(points[order], tuple(NAMES[i] for i in order) + ("",))
    result = spatial_similarity(layout(points), fewer)
    assert result.value == pytest.approx(1)
    assert (result.n, result.dropped) == (4, ("DET", "NUM", "X"))
    other = layout(np.vstack([points[:5], places(9, 1)]), (*NAMES[:5], "INTJ"))
    assert spatial_similarity(layout(points), other).dropped == ("VERB", "X", "INTJ")


def test_a_label_without_any_distance_counts_as_absent() -> None:
    matrix = squareform(pdist(places(3)))
    matrix[2], matrix[:, 2] = np.nan, np.nan
    result = spatial_similarity(measured(NAMES, matrix), layout(places(3)))
    assert (result.value, result.dropped) == (pytest.approx(1), ("DET",))


def test_labels_in_several_clusters_are_refused_unless_forced() -> None:
    probe = measured(NAMES, squareform(pdist(places(0))), is_linear_=False, n_clusters_=9)
    result = spatial_similarity(layout(places(0)), probe)
    assert math.isnan(result.value) and result.low is None
    assert "the second has 9 clusters of 7 labels" in result.reason and "force=True" in result.reason
    assert spatial_similarity(layout(places(0)), probe, force=True).value == pytest.approx(1)


def test_too_few_labels_or_no_contrast_are_nan_with_a_reason() -> None:
    two = layout(places(0, 2))
    assert "at least 3" in spatial_similarity(two, two).reason
    three = spatial_similarity(layout(places(0, 3)), layout(places(1, 3)))
    assert np.isfinite(three.value) and three.low is None and "at least 4 labels" in three.reason
    even = measured(NAMES, np.ones((7, 7)))
    result = spatial_similarity(even, layout(places(0)))
    assert math.isnan(result.value) and "equally far" in result.reason


def test_intervals_cover_the_truth_about_as_often_as_their_level() -> None:
    """Labels drawn from one population each time: the truth is the correlation over very many of them."""

    def two_states(seed: int, labels: int) -> tuple[SimpleNamespace, SimpleNamespace]:
        points = places(seed, labels, 6)
        names = tuple(map(str, range(labels)))
        return layout(points, names), layout(points * [1, 1, 1, 1, 0.2, 0.2] + 0.3 * places(seed + 5000, labels, 6), names)

    many = [side.label_distances_[np.triu_indices(600, 1)] for side in two_states(1, 600)]
    truth = pearsonr(*many)[0]
    results = [spatial_similarity(*two_states(seed, 17), level=0.9) for seed in range(2, 202)]
    covered = sum(result.low <= truth <= result.high for result in results)  # type: ignore[operator]
    # 90 % of 200 is 180 with a deviation of 4.2; a jackknife of 17 labels may be a little wide.
    assert 166 <= covered <= 197


def test_a_level_outside_of_its_range_is_named() -> None:
    with pytest.raises(ValueError, match="level=95"):
        spatial_similarity(layout(places(0)), layout(places(0)), level=95)


def test_an_object_without_distances_is_refused() -> None:
    with pytest.raises(TypeError, match="fitted DirectProbe"):
        spatial_similarity(np.ones((3, 3)), layout(places(0)))


def normal(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def by_definition(X: np.ndarray, Y: np.ndarray, *, debiased: bool) -> float:
    """CKA as the papers write it, with n × n matrices."""
    n = len(X)
    one, H = np.ones(n), np.eye(n) - 1 / n

    def hsic(K: np.ndarray, L: np.ndarray) -> float:
        if not debiased:
            return float(np.trace(K @ H @ L @ H)) / (n - 1) ** 2
        K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
        inside = np.trace(K @ L) + (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (one @ K @ L @ one)
        return float(inside) / (n * (n - 3))

    K, L = X @ X.T, Y @ Y.T
    return hsic(K, L) / math.sqrt(hsic(K, K) * hsic(L, L))


@given(n=st.integers(5, 60), dx=st.integers(1, 30), dy=st.integers(1, 30), seed=st.integers(0, 50), debiased=st.booleans())
def test_cka_is_its_definition_whichever_matrices_are_smaller(n: int, dx: int, dy: int, seed: int, debiased: bool) -> None:
    X = normal(n, dx, seed) + 3
    Y = normal(n, dy, seed + 1) + X[:, :1]
    assert cka(X, Y, debiased=debiased) == pytest.approx(by_definition(X, Y, debiased=debiased), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("debiased", [True, False])
@pytest.mark.parametrize("n", [12, 300])
def test_rotation_scale_and_shift_leave_cka_alone_but_other_maps_do_not(n: int, debiased: bool) -> None:
    X, Y = normal(n, 20, 0) * np.linspace(3, 0.1, 20), normal(n, 20, 1) + normal(n, 20, 0)
    Q = np.linalg.qr(normal(20, 20, 2))[0]
    assert cka(X, 5 * X @ Q + 100, debiased=debiased) == pytest.approx(1)
    assert cka(X @ Q - 7, 0.01 * Y, debiased=debiased) == pytest.approx(cka(X, Y, debiased=debiased))
    assert cka(X, Y, debiased=debiased) == pytest.approx(cka(Y, X, debiased=debiased))
    assert cka(X, X * np.linspace(0.1, 5, 20), debiased=debiased) < 0.95


def test_unrelated_clouds_with_as_many_dimensions_as_rows() -> None:
    values = [cka(normal(200, 200, 2 * i), normal(200, 200, 2 * i + 1)) for i in range(10)]
    assert abs(np.mean(values)) < 0.01
    assert min(cka(normal(200, 200, 2 * i), normal(200, 200, 2 * i + 1), debiased=False) for i in range(3)) > 0.45


def test_the_debiased_estimate_does_not_depend_on_the_number_of_rows() -> None:
    """Truth by d × d covariances: |C_xy|² / (|C_xx| |C_yy|) of Y = X A."""
    A = normal(30, 30, 7) * np.linspace(2, 0.1, 30)
    truth = float(np.vdot(A, A) / math.sqrt(30 * np.vdot(A.T @ A, A.T @ A)))

    def mean(n: int, debiased: bool) -> float:
        return float(np.mean([cka(X, X @ A, debiased=debiased) for X in (normal(n, 30, seed) for seed in range(30))]))

    assert mean(40, True) == pytest.approx(truth, abs=0.03)
    assert mean(1000, True) == pytest.approx(truth, abs=0.01)
    assert mean(40, False) > truth + 0.1


def test_blocks_of_unequal_length_and_streams_give_the_same() -> None:
    X, Y = normal(500, 6, 0), normal(500, 9, 1) + normal(500, 6, 0)[:, :1]
    chunks = [X[:7], X[7:300], X[300:]]
    others = [Y[:250], Y[250:251], Y[251:]]
    left, right = (Source(lambda p=part: iter(p), n=None, d=part[0].shape[1], dtype=X.dtype) for part in (chunks, others))
    assert cka(left, right) == pytest.approx(cka(X, Y), rel=1e-12)
    small = cka(X.astype(np.float32), (Y + 1000).astype(np.float32))
    assert small == pytest.approx(cka(X, Y), abs=1e-4)


def test_no_large_matrix_of_rows_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a Gram matrix of all rows")

    monkeypatch.setattr(module, "_gram", fail)
    assert cka(normal(400, 20, 0), normal(400, 20, 0) + normal(400, 20, 1)) > 0.3


def test_intervals_of_cka_cover_the_truth_about_as_often_as_their_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_RESAMPLED", 150)
    A = np.diag([2.0, 1.0, 0.5])
    # Y = XA + noise: C_xy = A, C_yy = A² + I
    truth = float(np.vdot(A, A) / math.sqrt(3 * np.square(np.diag(A) ** 2 + 1).sum()))
    covered = 0
    for seed in range(120):
        n = 150 if seed % 2 else 300  # all rows, and a sample of them
        X = normal(n, 3, seed)
        result = cka_similarity(X, X @ A + normal(n, 3, seed + 999), bootstrap=100, level=0.9, seed=seed)
        assert result.low is not None and result.high is not None
        covered += result.low <= truth <= result.high
    # 90 % of 120 is 108 with a deviation of 3.3
    assert 97 <= covered <= 118


def test_half_samples_are_seeded_and_are_those_of_the_definition() -> None:
    X = normal(60, 4, 0)
    Y = X * [1, 2, 3, 4] + normal(60, 4, 1)
    first, again, other = (cka_similarity(X, Y, bootstrap=50, seed=seed) for seed in (3, 3, 4))
    assert (first.low, first.high) == (again.low, again.high) != (other.low, other.high)
    assert first.value == pytest.approx(cka(X, Y)) and first.n == 60
    generator = np.random.default_rng(3)
    halves = [generator.permutation(60)[:30] for _ in range(50)]
    values = np.array([by_definition(X[half], Y[half], debiased=True) for half in halves])
    low, high = first.value + np.quantile(values - values.mean(), [0.025, 0.975])
    assert (first.low, first.high) == (pytest.approx(low), pytest.approx(min(1.0, high)))


def test_undefined_cka_has_a_reason() -> None:
    X = normal(20, 3, 0)
    for left, right in ((X, np.full((20, 3), 0.1)), (np.full((20, 30), 0.1), X)):
        for debiased in (True, False):
            result = cka_similarity(left, right, debiased=debiased)
            assert math.isnan(result.value) and "same point" in result.reason
    few = cka_similarity(X[:3], X[:3])
    assert math.isnan(few.value) and "at least 4 rows, there are 3" in few.reason
    assert cka(X[:3], X[:3], debiased=False) == pytest.approx(1)
    simplex = np.eye(20)  # all pairs are equally far apart
    assert "more alike than another" in cka_similarity(simplex, normal(20, 20, 0)).reason
    assert cka_similarity(X[:6], X[:6]).low is None


def test_wrong_input_of_cka_is_an_error_that_names_it() -> None:
    X = normal(30, 3, 0)
    with pytest.raises(ValueError, match="30 and 29 rows"):
        cka(X, X[1:])
    for part, word in ((X[1:], "fewer"), (np.vstack([X, X]), "more")):
        with pytest.raises(ValueError, match=f"{word} rows than the first"):
            cka(X, Source(lambda part=part: iter([part]), n=None, d=3, dtype=X.dtype))
    with pytest.raises(ValueError, match="bootstrap=5 is too few"):
        cka_similarity(X, X, bootstrap=5)
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match="NaN at row 4, column 1"):
        cka(X, X)


def test_labels_that_overlap_have_no_similarity_unless_forced() -> None:
    """ZS22 leaves such a case out; a distance of 0 would be correlated as if it were one."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.repeat(np.arange(4), 10)
    apart = X + 20 * np.eye(4, 3)[y]
    overlapping, separate = (DirectProbe().fit(rows, y, clusters=y) for rows in (X, apart))
    assert overlapping.n_overlaps_ > 0 and separate.n_overlaps_ == 0
    similarity = spatial_similarity(separate, overlapping)
    assert np.isnan(similarity.value) and "overlap" in similarity.reason
    assert np.isfinite(spatial_similarity(separate, overlapping, force=True).value)
    assert spatial_similarity(separate, separate).value == pytest.approx(1.0)


def layers_of(random: np.random.Generator, count: int, n: int = 60) -> list[np.ndarray]:
    """Layers that grow out of each other, with a mean and directions of very different size."""
    first = random.standard_normal((n, 12)) * np.linspace(3, 0.2, 12) + 1
    return [first + 0.3 * number * random.standard_normal((n, 12)) for number in range(count)]


def test_every_pair_of_layers_has_the_cka_of_that_pair() -> None:
    random = np.random.default_rng(5)
    A, B = layers_of(random, 3), layers_of(random, 2)
    B.append(A[1] @ np.linalg.qr(random.standard_normal((12, 12)))[0])
    table = cka_of_layers(A, B, permutations=40)
    assert [len(line) for line in table] == [3, 3, 3]
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            cell = table[i][j]
            assert cell.value == pytest.approx(cka(a, b), abs=1e-9) and abs(cell.null) < 0.1
            assert cell.calibrated == pytest.approx((cell.value - cell.null) / (1 - cell.null))
    assert max(((cell.calibrated, i, j) for i, line in enumerate(table) for j, cell in enumerate(line)))[1:] == (1, 2)
    assert table[1][2].calibrated == pytest.approx(1) and table[1][2].p == pytest.approx(1 / 41)


def test_the_largest_of_many_unrelated_pairs_is_rarely_significant() -> None:
    """At 5%, of 60 repetitions at most 8 are expected with probability 0.99; without the null of the largest there are more."""
    random = np.random.default_rng(6)
    found, alone = 0, 0
    for seed in range(60):
        A, B = ([random.standard_normal((24, 4)) for _ in range(3)] for _ in range(2))
        found += min(cell.p for line in cka_of_layers(A, B, permutations=39, seed=seed) for cell in line) <= 0.05
        alone += min(cka_null(a, b, permutations=39, seed=seed).p for a in A for b in B) <= 0.05
    assert found <= 8 < alone


def test_a_layer_without_spread_has_no_cka_and_leaves_the_others_theirs() -> None:
    A = layers_of(np.random.default_rng(7), 2)
    table = cka_of_layers([A[0], np.ones_like(A[0])], [A[0]], permutations=20)
    assert table[0][0].value == pytest.approx(1) and np.isnan(table[1][0].value)
    assert np.isnan(cka_of_layers([A[0][:3]], [A[0][:3]])[0][0].value)
