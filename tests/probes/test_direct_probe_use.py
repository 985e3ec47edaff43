"""DirectProbe in use: threads, progress and cancelling, parameters, the verdict in words, and input that is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hull_oracles import cloud
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from theodolite.probes import parallel
from theodolite.probes.direct import DirectProbe


@pytest.mark.parametrize(("apart", "d", "labels"), [(0.5, 3, 3), (6.0, 80, 6)])
def test_threads_change_no_bit(apart: float, d: int, labels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cloud(150, d, labels, apart=apart, seed=12)
    alone = DirectProbe(n_jobs=1).fit(X, y)
    monkeypatch.setattr(parallel, "SHORT", -1.0)  # else the work is done before a second thread is worth it
    both = DirectProbe(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(alone.clusters_, both.clusters_)
    np.testing.assert_array_equal(alone.cluster_distances_, both.cluster_distances_)
    np.testing.assert_array_equal(alone.distances(X[:9] + 1), both.distances(X[:9] + 1))
    np.testing.assert_array_equal(alone.predict(X[:9] + 1), both.predict(X[:9] + 1))


def test_progress_grows_stage_by_stage() -> None:
    X, y = cloud(300, 4, 3, apart=0.3, seed=13)
    told: list[tuple[str, int, int]] = []
    plain = DirectProbe().fit(X, y)
    probe = DirectProbe(progress=lambda *step: told.append(step)).fit(X, y)
    np.testing.assert_array_equal(probe.cluster_distances_, plain.cluster_distances_)
    stages = list(dict.fromkeys(stage for stage, _, _ in told))
    assert stages == ["pairs of labels", "merging points", "distances between clusters"]
    for stage in stages:
        counts = [done for name, done, _ in told if name == stage]
        totals = {total for name, _, total in told if name == stage}
        assert counts == sorted(counts) and len(totals) == 1 and counts[-1] <= totals.pop()
    assert told[-1][1] == told[-1][2] == len(probe.cluster_distances_)


class Cancelled(Exception):
    pass


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("when", ["pairs of labels", "merging points", "distances between clusters"])
def test_raising_in_progress_cancels(when: str, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "SHORT", -1.0)
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
    }
    X, y = cloud(60, 3, 2, apart=1.0, seed=15)
    assert probe.fit(X, y) is probe and not hasattr(clone(probe), "clusters_")
    table = probe.cluster_distances_
    assert (table["upper"] - table["lower"] <= 1.001e-4 * table["upper"]).all()
    np.testing.assert_array_equal(clone(probe).fit(X, y).cluster_distances_, table)


def test_verdict_in_words() -> None:
    line = [[0.0], [1.0], [4.0], [6.0], [9.0]]
    assert (
        DirectProbe().fit(line, ["low", "low", "mid", "mid", "top"]).verdict()
        == "3 labels, 3 clusters: linearly separable; low and mid are closest, 3"
    )
    assert (
        DirectProbe(label_distance="minimum").fit(line, ["a", "b", "b", "a", "a"]).verdict()
        == "2 labels, 3 clusters: not linearly separable; split: a into 2; a and b are closest, 1"
    )
    assert "1 pair of clusters overlaps" in DirectProbe().fit(line, list("abbaa"), clusters=list("01100")).verdict()


X0, Y0 = cloud(12, 2, 2, apart=3.0, seed=16)


@pytest.mark.parametrize(
    ("wrong", "said"),
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
def test_wrong_input_is_an_error_that_names_it(wrong: Any, said: str) -> None:
    with pytest.raises((ValueError, NotFittedError)) as caught:
        wrong()
    assert said in str(caught.value)
