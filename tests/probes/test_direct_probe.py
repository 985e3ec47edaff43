"""DirectProbe: distances with proof, labels by the nearest hull, threads, progress, words, and wrong input."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hull_oracles import as_partition, cloud, share_a_point
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from theodolite.core import engines
from theodolite.probes.direct_probe import DirectProbe
from theodolite.probes.hulls.gap import hull_gap


@pytest.mark.parametrize(("n", "d", "labels"), [(60, 2, 3), (90, 80, 5), (40, 100, 2)])
def test_separable_labels_are_the_clusters(n: int, d: int, labels: int) -> None:
    X, y = cloud(n, d, labels, apart=20.0, seed=1)
    names = np.array(["ant", "bee", "cat", "dog", "eel"])[y]
    probe = DirectProbe().fit(X, names)
    assert probe.is_linear_ and probe.n_clusters_ == labels
    assert as_partition(probe.clusters_) == as_partition(y)
    assert probe.cluster_labels_.tolist() == probe.classes_.tolist() == sorted(set(names))
    assert (probe.predict(X) == names).all() and probe.score(X, names) == 1.0


def test_labels_of_one_point_and_two_points_with_one_place() -> None:
    probe = DirectProbe().fit([[0.0, 0.0], [3.0, 4.0], [10.0, 0.0]], ["a", "b", "c"])
    assert probe.is_linear_ and probe.label_distances_[0, 1] == pytest.approx(5)
    assert probe.inside_mean_.tolist() == probe.inside_max_.tolist() == [0, 0, 0]
    probe = DirectProbe().fit([[1.0, 2.0], [1.0, 2.0], [5.0, 2.0]], ["a", "b", "b"])
    assert probe.n_clusters_ == 3 and probe.n_overlaps_ == 1 and not probe.is_linear_
    assert probe.cluster_distances_["upper"].tolist() == pytest.approx([0, 4], abs=1e-6)
    with pytest.raises(ValueError, match="all 2 rows are the same point"):
        DirectProbe().fit([[1.0, 2.0], [1.0, 2.0]], ["a", "b"])


@pytest.mark.parametrize(("apart", "d"), [(0.5, 3), (4.0, 3), (0.3, 8)])
def test_motion_keeps_clusters_and_scale_scales_distances(apart: float, d: int) -> None:
    X, y = cloud(120, d, 3, apart=apart, seed=3)
    Q = np.linalg.qr(np.random.default_rng(2).standard_normal((d, d)))[0]
    probe, moved = DirectProbe().fit(X, y), DirectProbe().fit(50 * X @ Q - 7, y)
    np.testing.assert_array_equal(moved.clusters_, probe.clusters_)
    np.testing.assert_array_equal(moved.cluster_distances_["i"], probe.cluster_distances_["i"])
    np.testing.assert_allclose(moved.cluster_distances_["upper"], 50 * probe.cluster_distances_["upper"], rtol=3e-6)
    np.testing.assert_allclose(moved.label_distances_, 50 * probe.label_distances_, rtol=3e-6)
    np.testing.assert_allclose(moved.inside_max_, 50 * probe.inside_max_, rtol=1e-9)


def test_single_precision_gives_the_clusters_of_its_double() -> None:
    X, y = cloud(100, 4, 3, apart=0.5, seed=4)
    single, double = (DirectProbe().fit(X.astype(np.float32).astype(dtype), y) for dtype in (np.float32, np.float64))
    np.testing.assert_array_equal(single.clusters_, double.clusters_)
    np.testing.assert_array_equal(single.cluster_distances_, double.cluster_distances_)


@pytest.mark.parametrize(("apart", "d"), [(0.6, 3), (6.0, 80)])
def test_cluster_distances_are_those_of_the_hulls(apart: float, d: int) -> None:
    X, y = cloud(80, d, 3, apart=apart, seed=5)
    probe = DirectProbe().fit(X, y)
    table = probe.cluster_distances_
    different = [(i, j) for i, j in itertools.combinations(range(probe.n_clusters_), 2) if differ(probe, i, j)]
    assert list(zip(table["i"].tolist(), table["j"].tolist(), strict=True)) == different
    for i, j, lower, upper in table.tolist():
        gap = hull_gap(X[probe.clusters_ == i], X[probe.clusters_ == j])
        assert 0 < lower <= upper <= lower * (1 + 2e-6)
        assert max(lower, gap.lower) <= min(upper, gap.upper) * (1 + 1e-9)  # both contain the distance


def differ(probe: DirectProbe, i: int, j: int) -> bool:
    return bool(probe.cluster_labels_[i] != probe.cluster_labels_[j])


@pytest.mark.parametrize(("how", "summary"), [("mean", np.mean), ("minimum", np.min)])
def test_label_distances_from_cluster_distances(how: Any, summary: Any) -> None:
    X, y = cloud(90, 3, 3, apart=0.6, seed=6)
    probe = DirectProbe(label_distance=how).fit(X, y)
    assert not probe.is_linear_
    table = probe.cluster_distances_
    for name, matrix in (("lower", probe.label_lower_), ("upper", probe.label_upper_)):
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.isnan(np.diag(matrix)).all()
        for a, b in itertools.combinations(range(3), 2):
            pairs = [
                pair[name] for pair in table if {probe.cluster_labels_[pair["i"]], probe.cluster_labels_[pair["j"]]} == {a, b}
            ]
            assert matrix[a, b] == pytest.approx(summary(pairs), rel=1e-12)
    np.testing.assert_allclose(probe.minimum_distances_, np.nanmin(probe.label_distances_, axis=1))
    assert (probe.label_lower_ <= probe.label_upper_)[~np.eye(3, dtype=bool)].all()


def test_given_clusters_are_measured_as_they_are() -> None:
    X, y = cloud(90, 3, 3, apart=0.6, seed=7)
    probe = DirectProbe().fit(X, y)
    again = DirectProbe().fit(X, y, clusters=[f"c{number}" for number in probe.clusters_])
    assert as_partition(again.clusters_) == as_partition(probe.clusters_)
    np.testing.assert_allclose(again.label_distances_, probe.label_distances_, rtol=2e-6)
    # Followed to another state: the same clusters, other distances.
    moved = DirectProbe().fit(X + 30 * np.eye(3)[y], y, clusters=probe.clusters_)
    np.testing.assert_array_equal(moved.clusters_, probe.clusters_)
    assert (moved.minimum_distances_ > probe.minimum_distances_ + 5).all()


def test_given_clusters_that_overlap_have_distance_zero_and_are_counted() -> None:
    X, y = cloud(90, 2, 3, apart=0.1, seed=8)
    probe = DirectProbe().fit(X, y, clusters=y)
    assert probe.n_overlaps_ == sum(share_a_point(X[y == a], X[y == b]) for a, b in itertools.combinations(range(3), 2)) == 3
    assert (probe.cluster_distances_["lower"] == 0).all()
    np.testing.assert_allclose(probe.cluster_distances_["upper"], 0, atol=1e-6)
    assert "3 pairs of clusters overlap" in probe.verdict()
    assert DirectProbe().fit(X, y).n_overlaps_ == 0


def test_small_clusters_can_be_left_out_of_the_distances() -> None:
    X = np.array([[0.0], [1.0], [2.0], [10.0], [20.0], [21.0], [30.0]])
    y = ["a", "a", "a", "b", "c", "c", "b"]
    all_sizes, large = DirectProbe().fit(X, y), DirectProbe(min_cluster_size=2).fit(X, y)
    np.testing.assert_array_equal(all_sizes.clusters_, large.clusters_)
    assert all_sizes.cluster_sizes_.tolist() == [3, 1, 1, 2]
    assert len(all_sizes.cluster_distances_) == 5 and len(large.cluster_distances_) == 1
    assert large.label_distances_[0, 2] == pytest.approx(18)
    assert np.isnan(large.label_distances_[1]).all() and np.isnan(large.minimum_distances_[1])
    assert large.minimum_distances_[0] == pytest.approx(18)


@pytest.mark.parametrize(("apart", "d"), [(0.6, 3), (0.2, 2), (2.0, 80)])
def test_prediction_is_the_nearest_hull(apart: float, d: int) -> None:
    X, y = cloud(100, d, 3, apart=apart, seed=9)
    probe = DirectProbe().fit(X, y)
    points = np.concatenate([1.5 * np.random.default_rng(10).standard_normal((40, d)), X[:10]])
    table = probe.distances(points)
    assert table.shape == (50, probe.n_clusters_) and (table >= 0).all()
    np.testing.assert_array_equal(probe.predict(points), probe.cluster_labels_[table.argmin(axis=1)])
    for row, cluster in itertools.product(range(0, 50, 7), range(min(probe.n_clusters_, 6))):
        gap = hull_gap(points[row : row + 1], X[probe.clusters_ == cluster])
        assert gap.lower * (1 - 1e-6) - 1e-7 <= table[row, cluster] <= gap.upper * (1 + 1e-6) + 1e-7
    assert probe.score(X, y) == 1.0
    assert (table[40:][np.arange(10), probe.clusters_[:10]] == 0).all()  # its own points are in a hull


def test_inside_distances_are_those_of_all_pairs() -> None:
    X, y = cloud(150, 3, 3, apart=0.8, seed=11)
    probe = DirectProbe().fit(X + 1000, y)
    for cluster in range(probe.n_clusters_):
        rows = X[probe.clusters_ == cluster]
        between = pdist(rows) if len(rows) > 1 else np.zeros(1)
        assert probe.inside_mean_[cluster] == pytest.approx(between.mean(), rel=1e-9, abs=1e-12)
        assert probe.inside_max_[cluster] == pytest.approx(between.max(), rel=1e-9, abs=1e-12)
    refitted = probe.fit(X, np.zeros(150, dtype=int) + (X[:, 0] > 0))
    assert len(refitted.inside_max_) == refitted.n_clusters_ == 2  # nothing is left of the first fit


@pytest.mark.parametrize("n", [2, 50, 1500])
def test_inside_distances_are_those_of_all_pairs_whatever_the_blocks(n: int) -> None:
    points = np.random.default_rng(0).standard_normal((n, 3)) + 1e4
    probe = DirectProbe().fit(np.concatenate([points, np.zeros((1, 3))]), ["many"] * n + ["one"])
    assert probe.inside_mean_.tolist() == [pytest.approx(pdist(points).mean(), rel=1e-9), 0]
    assert probe.inside_max_.tolist() == [pytest.approx(pdist(points).max(), rel=1e-9), 0]


@pytest.mark.parametrize(("apart", "d", "labels"), [(0.5, 3, 3), (6.0, 80, 6)])
def test_threads_change_no_bit(apart: float, d: int, labels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cloud(150, d, labels, apart=apart, seed=12)
    alone = DirectProbe(n_jobs=1).fit(X, y)
    monkeypatch.setattr(engines, "INLINE_SECONDS", -1.0)  # otherwise the work is finished before a second thread is worth it
    both = DirectProbe(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(alone.clusters_, both.clusters_)
    np.testing.assert_array_equal(alone.cluster_distances_, both.cluster_distances_)
    np.testing.assert_array_equal(alone.distances(X[:9] + 1), both.distances(X[:9] + 1))
    np.testing.assert_array_equal(alone.predict(X[:9] + 1), both.predict(X[:9] + 1))


def test_progress_grows_stage_by_stage() -> None:
    X, y = cloud(300, 4, 3, apart=0.3, seed=13)
    calls: list[tuple[str, int, int]] = []
    plain = DirectProbe().fit(X, y)
    probe = DirectProbe(progress=lambda *step: calls.append(step)).fit(X, y)
    np.testing.assert_array_equal(probe.cluster_distances_, plain.cluster_distances_)
    stages = list(dict.fromkeys(stage for stage, _, _ in calls))
    assert stages == ["pairs of labels", "merging points", "distances between clusters"]
    for stage in stages:
        counts = [done for name, done, _ in calls if name == stage]
        totals = {total for name, _, total in calls if name == stage}
        assert counts == sorted(counts) and len(totals) == 1 and counts[-1] <= totals.pop()
    assert calls[-1][1] == calls[-1][2] == len(probe.cluster_distances_)


class Cancelled(Exception):
    pass


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("when", ["pairs of labels", "merging points", "distances between clusters"])
def test_raising_in_progress_cancels(when: str, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "INLINE_SECONDS", -1.0)
    calls = 0

    def stop(stage: str, done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if stage == when:
            raise Cancelled(stage)

    X, y = cloud(200, 3, 3, apart=0.3, seed=14)
    with pytest.raises(Cancelled, match=when):
        DirectProbe(progress=stop, n_jobs=jobs).fit(X, y)
    assert calls >= 1


def test_parameters_and_clones() -> None:
    probe = DirectProbe(tolerance=1e-4, label_distance="minimum", min_cluster_size=3, n_jobs=1)
    assert clone(probe).get_params() == probe.get_params()
    assert probe.get_params() == {
        "tolerance": 1e-4,
        "label_distance": "minimum",
        "min_cluster_size": 3,
        "n_jobs": 1,
        "progress": None,
        "budget": None,
    }
    X, y = cloud(60, 3, 2, apart=1.0, seed=15)
    assert probe.fit(X, y) is probe and not hasattr(clone(probe), "clusters_")
    table = probe.cluster_distances_
    assert (table["upper"] - table["lower"] <= 1.001e-4 * table["upper"]).all()
    np.testing.assert_array_equal(clone(probe).fit(X, y).cluster_distances_, table)


def test_verdict_and_repr_in_words() -> None:
    line = [[0.0], [1.0], [4.0], [6.0], [9.0]]
    assert (
        DirectProbe().fit(line, ["low", "low", "mid", "mid", "top"]).verdict()
        == "3 labels, 3 clusters: linearly separable; low and mid are closest, 3"
    )
    assert (
        DirectProbe(label_distance="minimum").fit(line, ["a", "b", "b", "a", "a"]).verdict()
        == "2 labels, 3 clusters: not linearly separable; split: a into 2; a and b are closest, 1"
    )
    assert DirectProbe().fit(line, ["low", "low", "mid", "mid", "top"]).closest_pair() == ("low", "mid", pytest.approx(3))
    lonely = DirectProbe(min_cluster_size=3).fit(line, list("aabbc"))
    assert lonely.closest_pair() is None and lonely.verdict().endswith("linearly separable; no distances")
    assert repr(DirectProbe(tolerance=1e-3)) == "DirectProbe(tolerance=0.001)"
    assert repr(DirectProbe().fit(line, list("aabbc"))) == "DirectProbe: 3 labels, 3 clusters, linearly separable (5 × 1)"
    assert repr(DirectProbe().fit(line, list("abbaa"))) == "DirectProbe: 2 labels, 3 clusters, not linearly separable (5 × 1)"
    wide = DirectProbe().fit(np.repeat(np.eye(2, 1000), 600, axis=0), [0] * 600 + [1] * 600)
    assert repr(wide) == "DirectProbe: 2 labels, 2 clusters, linearly separable (1,200 × 1,000)"
    assert "1 pair of clusters overlaps" in DirectProbe().fit(line, list("abbaa"), clusters=list("01100")).verdict()


X0, Y0 = cloud(12, 2, 2, apart=3.0, seed=16)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DirectProbe().fit(X0, Y0[:-1]), "11 labels for 12 rows"),
        (lambda: DirectProbe().fit(np.where(np.arange(24).reshape(12, 2) == 7, np.nan, X0), Y0), "NaN at row 3, column 1"),
        (lambda: DirectProbe().fit(X0, ["same"] * 12), "all 12 rows have the label same"),
        (lambda: DirectProbe().fit(X0[:, 0], Y0), "one axis"),
        (lambda: DirectProbe().fit(X0, Y0[:, None]), "(12, 1)"),
        (lambda: DirectProbe().fit(X0, Y0, clusters=[0] * 12), "cluster 0 holds rows of the labels"),
        (lambda: DirectProbe().fit(X0, Y0, clusters=[0] * 5), "shape (5,) for 12 rows"),
        (lambda: DirectProbe().fit(X0, Y0).predict(np.ones((2, 3))), "3 columns; the probe was fitted on 2"),
        (lambda: DirectProbe().fit(X0, Y0).predict([[np.nan, 1.0]]), "NaN at row 0, column 0"),
        (lambda: DirectProbe().predict(X0), "not fitted"),
        (lambda: DirectProbe(label_distance="most").fit(X0, Y0), "label_distance='most'"),  # type: ignore[arg-type]
        (lambda: DirectProbe(tolerance=0.0).fit(X0, Y0), "tolerance=0.0"),
        (lambda: DirectProbe(min_cluster_size=0).fit(X0, Y0), "min_cluster_size=0"),
    ],
)
def test_wrong_input_is_an_error_that_names_it(call: Any, message: str) -> None:
    with pytest.raises((ValueError, NotFittedError)) as caught:
        call()
    assert message in str(caught.value)
