"""Spatial similarity: a layout of labels equals its rotated copy, and there is none if labels are in several clusters."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform
from scipy.stats import pearsonr

from theodolite.probes.similarity import LabelDistances, spatial_similarity

NAMES = ("ADJ", "ADP", "DET", "NOUN", "NUM", "VERB", "X")


def layout(points: np.ndarray, names: tuple[str, ...] = NAMES, **about: object) -> LabelDistances:
    return LabelDistances.from_matrix(names[: len(points)], squareform(pdist(points)), **about)  # type: ignore[arg-type]


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
    reversed_order = LabelDistances.from_matrix(NAMES, first.max() + 1 - first)
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
    result = spatial_similarity(LabelDistances.from_matrix(NAMES, matrix), layout(places(3)))
    assert (result.value, result.dropped) == (pytest.approx(1), ("DET",))


def test_labels_in_several_clusters_are_refused_unless_forced() -> None:
    probe = SimpleNamespace(
        classes_=np.array(NAMES), label_distances_=squareform(pdist(places(0))), is_linear_=False, n_clusters_=9
    )
    result = spatial_similarity(layout(places(0)), probe)
    assert math.isnan(result.value) and result.low is None
    assert "the second has 9 clusters of 7 labels" in result.reason and "force=True" in result.reason
    assert spatial_similarity(layout(places(0)), probe, force=True).value == pytest.approx(1)


def test_too_few_labels_or_no_contrast_are_nan_with_a_reason() -> None:
    two = layout(places(0, 2))
    assert "at least 3" in spatial_similarity(two, two).reason
    three = spatial_similarity(layout(places(0, 3)), layout(places(1, 3)))
    assert np.isfinite(three.value) and three.low is None and "at least 4 labels" in three.reason
    even = LabelDistances.from_matrix(NAMES, np.ones((7, 7)))
    result = spatial_similarity(even, layout(places(0)))
    assert math.isnan(result.value) and "equally far" in result.reason


def test_intervals_cover_the_truth_about_as_often_as_their_level() -> None:
    """Labels drawn from one population each time: the truth is the correlation over very many of them."""

    def two_states(seed: int, labels: int) -> tuple[LabelDistances, LabelDistances]:
        points = places(seed, labels, 6)
        names = tuple(map(str, range(labels)))
        return layout(points, names), layout(points * [1, 1, 1, 1, 0.2, 0.2] + 0.3 * places(seed + 5000, labels, 6), names)

    many = [side.distances[np.triu_indices(600, 1)] for side in two_states(1, 600)]
    truth = pearsonr(*many)[0]
    results = [spatial_similarity(*two_states(seed, 17), level=0.9) for seed in range(2, 202)]
    covered = sum(result.low <= truth <= result.high for result in results)  # type: ignore[operator]
    # 90 % of 200 is 180 with a deviation of 4.2; a jackknife of 17 labels may be a little wide.
    assert 166 <= covered <= 197


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LabelDistances.from_matrix(NAMES, np.ones((3, 3))), "(7, 7) matrix"),
        (lambda: LabelDistances.from_matrix(["A", "B", "A"], np.ones((3, 3))), "'A' is named twice"),
        (lambda: LabelDistances.from_matrix("ABC", np.arange(9).reshape(3, 3)), "not symmetric"),
        (lambda: spatial_similarity(layout(places(0)), layout(places(0)), level=95), "level=95"),
    ],
)
def test_wrong_input_is_an_error_that_names_it(call: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


def test_an_object_without_distances_is_refused() -> None:
    with pytest.raises(TypeError, match="fitted DirectProbe"):
        spatial_similarity(np.ones((3, 3)), layout(places(0)))
