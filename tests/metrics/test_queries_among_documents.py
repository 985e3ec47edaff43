"""Queries among documents: plain loops as oracles, what must be 0, planted hubs and shifts, and how often intervals are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from theodolite.core.measures import MEASURES
from theodolite.metrics import QUERY_MEASURES, Cloud, QueryMeasure, query_measures
from theodolite.metrics.queries_among_documents import measured_difference
from theodolite.probes import two_sample_shift

RANDOM = np.random.default_rng(0)
D = RANDOM.standard_normal((150, 6)) + 0.5
Q = RANDOM.standard_normal((40, 6)) * 1.5 + 0.8


def measures(documents: Any, queries: Any) -> dict[str, QueryMeasure]:
    return {each.metric: each for each in query_measures(documents, queries)}


def plain(documents: Any, queries: Any) -> dict[str, float]:
    """The definitions, row by row."""
    docs, asked = ([row / math.sqrt(sum(row * row)) for row in side] for side in (documents, queries))
    mean_d, mean_q = sum(docs) / len(docs), sum(asked) / len(asked)
    within = sum(sum((u - mean_d) ** 2) for u in docs) + sum(sum((v - mean_q) ** 2) for v in asked)
    gap = math.sqrt(sum((mean_q - mean_d) ** 2)) / math.sqrt(within / (len(docs) + len(asked)))
    counts = [0] * len(docs)
    for query in asked:
        for document in sorted(range(len(docs)), key=lambda j: (-(query @ docs[j]), j))[:10]:
            counts[document] += 1
    mean = sum(counts) / len(counts)
    second, third = (sum((c - mean) ** power for c in counts) / len(counts) for power in (2, 3))
    own = sorted(min(1 - u @ v for j, v in enumerate(docs) if j != i) for i, u in enumerate(docs))
    bound = np.quantile(own, 0.95)
    far = [min(1 - query @ v for v in docs) > bound for query in asked]
    names = ("query_gap", "query_hubness", "unreached_documents", "far_queries")
    return dict(zip(names, (gap, third / second**1.5, counts.count(0) / len(docs), sum(far) / len(far)), strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_measures_are_those_of_a_plain_loop(dtype: Any) -> None:
    found, expected = measures(D.astype(dtype), Q.astype(dtype)), plain(D, Q)
    assert list(found) == list(QUERY_MEASURES) and set(found) <= set(MEASURES)
    assert {name: each.value for name, each in found.items()} == pytest.approx(expected, rel=1e-5)


def test_influences_are_what_leaving_a_query_out_does() -> None:
    few, q = Q[:20], 20
    whole = measures(D, few)
    without = [plain(D, np.delete(few, i, axis=0)) for i in range(q)]
    for name, each in whole.items():
        values = np.array([one[name] for one in without])
        np.testing.assert_allclose(each.influence, (q - 1) * (values.mean() - values), atol=1e-6)


def test_the_gap_is_the_shift_of_the_means_of_two_samples() -> None:
    shift = two_sample_shift(*(side / np.linalg.norm(side, axis=1, keepdims=True) for side in (D, Q)))
    assert measures(D, Q)["query_gap"].value == pytest.approx(shift.mean_shift)
    assert measures(D, Q)["query_gap"].chance == pytest.approx(shift.mean_shift_chance, rel=0.15)


def test_documents_that_ask_for_themselves_have_no_gap_and_are_not_far() -> None:
    found = measures(D, D)
    assert found["query_gap"].value == pytest.approx(0, abs=1e-12)
    assert found["far_queries"].value == 0 and found["unreached_documents"].value == 0


def test_length_and_rotation_change_nothing_and_a_shift_does() -> None:
    turn = np.linalg.qr(RANDOM.standard_normal((6, 6)))[0]
    lengths = RANDOM.uniform(0.1, 9, (len(Q), 1))
    same, other = measures(3 * D @ turn, lengths * Q @ turn), measures(D + 1, Q)
    expected = measures(D, Q)
    assert {name: each.value for name, each in same.items()} == pytest.approx({n: e.value for n, e in expected.items()})
    assert abs(other["query_gap"].value - expected["query_gap"].value) > 0.1


def test_a_planted_shift_is_the_gap() -> None:
    random = np.random.default_rng(1)
    base, asked = (random.standard_normal((n, 32)) for n in (2000, 500))
    gaps = [measures(base, asked + step * np.eye(32)[0])["query_gap"] for step in (0, 2, 6)]
    assert gaps[0].value < 2 * gaps[0].chance < gaps[1].value < gaps[2].value
    assert gaps[0].low is not None and gaps[1].low is not None and gaps[1].low > gaps[0].chance


def test_a_planted_hub_is_in_every_list_and_shows_as_skewness() -> None:
    random = np.random.default_rng(2)
    documents, asked = random.standard_normal((400, 64)), random.standard_normal((100, 64)) + 1
    plain_, hub = measures(documents, asked), measures(np.vstack([documents, np.ones(64)]), asked)
    assert plain_["query_hubness"].high is not None and hub["query_hubness"].low is not None
    assert hub["query_hubness"].low > plain_["query_hubness"].high > plain_["query_hubness"].chance


def test_far_queries_are_about_5_percent_of_queries_like_the_documents_and_all_of_foreign_ones() -> None:
    random = np.random.default_rng(3)
    base = random.standard_normal((3000, 8))
    assert measures(base[:2000], base[2000:])["far_queries"].value == pytest.approx(0.05, abs=0.02)
    narrow = random.standard_normal((500, 8)) * 0.01 + np.eye(8)[0]
    assert measures(narrow, -narrow)["far_queries"].value == 1


@pytest.mark.slow
def test_intervals_hold_the_value_that_other_queries_give() -> None:
    """Coverage over draws of 80 queries, the documents held; at 95%, of 300 repetitions 92% or more are expected."""
    random = np.random.default_rng(4)
    documents = random.standard_normal((300, 10)) * np.linspace(2, 0.5, 10)

    def draw() -> dict[str, QueryMeasure]:
        return measures(Cloud(documents), random.standard_t(6, (80, 10)) * np.linspace(1.5, 0.7, 10) + 0.4)

    drawn = [draw() for _ in range(300)]
    for name in QUERY_MEASURES:
        truth = float(np.mean([each[name].value for each in drawn]))
        covered = np.mean([(each[name].low or 0.0) <= truth <= (each[name].high or 0.0) for each in drawn])
        assert covered >= 0.92, (name, covered)


def test_a_difference_is_paired_by_query() -> None:
    one, same, noisy = measures(D, Q), measures(D, Q), measures(D, Q + 1e-3 * RANDOM.standard_normal(Q.shape))
    for name in QUERY_MEASURES:
        assert measured_difference(one[name], same[name]) == (0, (0, 0))
    difference, (low, high) = measured_difference(one["query_gap"], noisy["query_gap"])
    assert low is not None and high is not None and one["query_gap"].high is not None and one["query_gap"].low is not None
    assert low <= difference <= high and high - low < 0.05 * (one["query_gap"].high - one["query_gap"].low)
    with pytest.raises(ValueError, match="40 and 39 queries"):
        measured_difference(one["query_gap"], measures(D, Q[1:])["query_gap"])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: query_measures(D, Q[:, :4]), "queries have 4 dimensions and documents 6; embed both with the same encoder"),
        (lambda: query_measures(D, np.vstack([Q, np.zeros(6)])), "query 40 is a zero vector"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        wrong()


def test_what_is_not_defined_says_why() -> None:
    few = measures(D[:8], Q)
    assert math.isnan(few["query_hubness"].value) and "lists all 8 documents" in few["query_hubness"].reason
    assert not math.isnan(few["query_gap"].value)
    alone = measures(D, Q[:1])
    assert alone["query_gap"].low is None and alone["query_gap"].value > 0
    one_way = measures(np.ones((20, 3)), np.ones((4, 3)))
    assert math.isnan(one_way["query_gap"].value) and one_way["query_gap"].reason
    assert all(each.reason for each in measures(np.zeros((20, 3)), np.ones((4, 3))).values())
