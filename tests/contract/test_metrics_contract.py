"""What every registered metric promises, by being registered."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import theodolite.metrics as package
from theodolite.metrics import METRICS, Cloud, Metric

RNG = np.random.default_rng(0)
CLOUD = RNG.standard_normal((60, 6)) * np.arange(1, 7) + 0.5


def with_row(X: np.ndarray, factor: float) -> np.ndarray:
    """The cloud in float32, with one row of another length."""
    Y = X.copy()
    Y[3] *= factor
    return Y.astype(np.float32)


CLOUDS = {
    "ordinary": CLOUD,
    "one row": CLOUD[:1],
    "two rows": CLOUD[:2],
    "one column": CLOUD[:, :1],
    "constant": np.full((9, 4), 0.1),
    "zero": np.zeros((9, 4)),
    "duplicated rows": np.repeat(CLOUD[:5], 6, axis=0),
    "fewer rows than dimensions": RNG.standard_normal((12, 40)),
    "some zero rows": np.concatenate([CLOUD, np.zeros((5, 6))]),
    "integers": RNG.integers(-5, 6, (60, 6)),
    "half precision": CLOUD.astype(np.float16),
    "far from the origin": (CLOUD + 1000).astype(np.float32),
    "very far from the origin": (CLOUD + 1e6).astype(np.float32),
    "one tiny row": with_row(CLOUD, 1e-25),
    "one row of the smallest numbers": with_row(CLOUD, 1e-44),
    "all rows tiny": (CLOUD * 1e-25).astype(np.float32),
    "all but one row tiny": with_row((CLOUD * 1e-25), 1e25),
    "one row far away": with_row(CLOUD, 1e7),
}
# Clouds whose float32 numbers are all that there is to know: float64 must find the same in them.
EDGES = ["one tiny row", "one row of the smallest numbers", "all rows tiny", "all but one row tiny", "one row far away"]
ALONE = {name: entry for name, entry in METRICS.items() if entry.needs not in ("pairs", "reference")}


@pytest.mark.parametrize("name", ALONE)
def test_every_cloud_gives_a_number_or_a_reason(name: str) -> None:
    for cloud, X in CLOUDS.items():
        value, reason = METRICS[name].value(Cloud(X))
        assert np.isfinite(value) != bool(reason), cloud
        if not reason:
            low, high = bounds(METRICS[name], X)
            assert low - 1e-9 <= value <= high + 1e-9, cloud


# The two largest inner products may tie in float32; a gap of 1e-13 is below what float32 products can show.
@pytest.mark.parametrize("name", [name for name in ALONE if name not in ("metric_agreement", "eigen_gap")])
def test_single_precision_finds_what_double_precision_finds(name: str) -> None:
    for cloud in EDGES:
        single, double = (METRICS[name].value(Cloud(CLOUDS[cloud].astype(kind)))[0] for kind in (np.float32, np.float64))
        assert single == pytest.approx(double, rel=2e-3, abs=1e-6, nan_ok=True), cloud


def bounds(entry: Metric, X: np.ndarray) -> tuple[float, float]:
    """The stated range as numbers."""
    if entry.range.startswith("about"):
        return -np.inf, np.inf
    n, d = X.shape
    known = {"inf": np.inf, "n": n, "d": d}
    low, high = (eval(end, {}, known) for end in entry.range.strip("[]()").split(","))
    return low, high


# The steps of retrieval_stability are drawn by position: another order gives each row another step.
@pytest.mark.parametrize("name", [name for name in ALONE if name != "retrieval_stability"])
def test_row_order_changes_nothing(name: str) -> None:
    shuffled = CLOUD[np.random.default_rng(1).permutation(len(CLOUD))]
    assert ALONE[name].value(Cloud(shuffled))[0] == pytest.approx(ALONE[name].value(Cloud(CLOUD))[0], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ALONE)
def test_the_input_is_left_as_it_was(name: str) -> None:
    X = CLOUD.copy()
    ALONE[name].value(Cloud(X))
    np.testing.assert_array_equal(X, CLOUD)


@pytest.mark.parametrize("name", METRICS)
def test_a_reader_is_told_what_the_number_means(name: str) -> None:
    entry = METRICS[name]
    assert entry.summary.endswith((".", ")", "sample."))
    assert len(entry.summary) < 140
    assert entry.range[0] in "[(a"
    assert name in package.__all__
    assert callable(getattr(package, name))


@pytest.mark.parametrize("name", ALONE)
def test_a_direct_call_agrees_and_warns_where_there_is_no_value(name: str) -> None:
    function = getattr(package, name)
    assert function(CLOUD) == pytest.approx(ALONE[name].value(Cloud(CLOUD))[0], rel=1e-12)
    value, reason = ALONE[name].value(Cloud(CLOUDS["zero"]))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert function(CLOUDS["zero"]) == pytest.approx(value, nan_ok=True)
    assert bool(seen) == bool(reason)
