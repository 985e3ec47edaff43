"""What a change of model requires: tiers equal to plain loops, planted truths found, and errors as rare as declared."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from theodolite.advice.migration import (
    BRIDGE,
    FETCHED,
    KEEP,
    MARGIN,
    NOT_SHOWN,
    REINDEX,
    TIERS,
    TWO_STAGE,
    Migration,
    TierVariant,
    decide,
    numbers_of_documents,
    tier_scores,
)
from theodolite.advice.scorers import JudgedQueries
from theodolite.core.vectors import Floats
from theodolite.tasks.retrieval import Judgements

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
N, Q, D, RELEVANT = 400, 200, 24, 5


def sides(old: tuple[Floats, Floats], new: tuple[Floats, Floats], judgements: Judgements) -> tuple[JudgedQueries, JudgedQueries]:
    return JudgedQueries(*old, judgements), JudgedQueries(*new, judgements)


def meaning(seed: int) -> tuple[Floats, Floats, Judgements, Any]:
    """What documents and queries mean, and the documents closest in meaning to each query, which are the relevant ones."""
    random = np.random.default_rng(seed)
    documents, queries = random.standard_normal((N, D)), random.standard_normal((Q, D))
    cosines = (queries / np.linalg.norm(queries, axis=1)[:, None]) @ (documents / np.linalg.norm(documents, axis=1)[:, None]).T
    best = np.argsort(-cosines, axis=1)[:, :RELEVANT]
    judgements = Judgements(np.repeat(np.arange(Q), RELEVANT), best.ravel(), np.ones(Q * RELEVANT))
    return documents, queries, judgements, random


def planted(kind: str, seed: int) -> tuple[JudgedQueries, JudgedQueries]:
    """An old and a new model whose relation is known."""
    documents, queries, judgements, random = meaning(seed)
    good = documents, queries
    if kind == "rotated":
        turn = np.linalg.qr(random.standard_normal((D, D)))[0]
        return sides(good, (documents @ turn, queries @ turn), judgements)
    if kind == "linear":  # the old model stretches what the new one has in proportion, plus a little noise of its own
        stretch = np.diag(np.geomspace(1, 30, D)) @ np.linalg.qr(random.standard_normal((D, D)))[0]
        noise = 0.002 * random.standard_normal((N, D))
        return sides((documents @ stretch + noise, queries @ stretch), good, judgements)
    if kind == "noisy":  # what the old model adds to each document no map can take away, but the right ones are near the top
        return sides((documents + 0.3 * random.standard_normal((N, D)), queries), good, judgements)
    waves = 3 * random.standard_normal((D, 48))
    return sides((np.cos(documents @ waves), np.cos(queries @ waves)), good, judgements)


def plain_ndcg(similarities: Floats, relevant: set[int]) -> float:
    order = sorted(range(len(similarities)), key=lambda row: (-similarities[row], row))[:10]
    gain = sum(1 / math.log2(place + 2) for place, row in enumerate(order) if row in relevant)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(10, len(relevant))))


def cosines(queries: Floats, documents: Floats) -> Floats:
    lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(documents, axis=1)
    return np.asarray(queries @ documents.T / lengths)


def test_every_tier_has_the_scores_of_plain_loops() -> None:
    old, new = planted("noisy", 0)
    measured = tier_scores(old, new, seed=4)
    relevant = [set(old.judgements.document[old.judgements.query == query].tolist()) for query in range(Q)]
    before, after = cosines(old.queries, old.rows), cosines(new.queries, new.rows)
    sample = np.random.default_rng(4).permutation(N)[:100]
    A, B = old.rows[sample], new.rows[sample]
    turn, total = orthogonal_procrustes(A - A.mean(axis=0), B - B.mean(axis=0))
    mapped = (old.rows - A.mean(axis=0)) @ turn * total / np.square(A - A.mean(axis=0)).sum() + B.mean(axis=0)
    bridged = cosines(new.queries, mapped)
    naive = cosines(new.queries, old.rows)

    def in_two_stages(first: Floats) -> list[float]:
        scores = []
        for query in range(Q):
            fetched = set(np.argsort(-first[query], kind="stable")[:FETCHED].tolist())
            ranked = np.array([after[query, row] if row in fetched else -2.0 for row in range(N)])
            scores.append(plain_ndcg(ranked, relevant[query]))
        return scores

    expected = {
        TierVariant(KEEP): [plain_ndcg(before[query], relevant[query]) for query in range(Q)],
        TierVariant(REINDEX): [plain_ndcg(after[query], relevant[query]) for query in range(Q)],
        TierVariant(BRIDGE, "procrustes", 100): [plain_ndcg(bridged[query], relevant[query]) for query in range(Q)],
        TierVariant(TWO_STAGE): in_two_stages(before),
        TierVariant(TWO_STAGE, "procrustes", 100): in_two_stages(bridged),
    }
    for variant, scores in expected.items():
        assert measured.scores[variant] == pytest.approx(scores), variant
    assert measured.naive == pytest.approx([plain_ndcg(naive[query], relevant[query]) for query in range(Q)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kind", "verdict"), [("rotated", KEEP), ("linear", BRIDGE), ("noisy", TWO_STAGE), ("unrelated", REINDEX)]
)
def test_a_planted_truth_is_found(kind: str, verdict: str, seed: int) -> None:
    found = decide(tier_scores(*planted(kind, seed), seed=seed), seed=seed)
    assert found.verdict == verdict, (found.gain, [(tier.name, tier.loss, tier.most) for tier in found.tiers])


def test_the_other_way_round_a_worse_model_is_not_changed_to() -> None:
    old, new = planted("unrelated", 0)
    assert decide(tier_scores(new, old)).verdict == KEEP


def test_costs_are_what_has_to_be_embedded() -> None:
    found = decide(tier_scores(*planted("linear", 0)))
    assert [tier.name for tier in found.tiers] == list(TIERS)
    assert found.tier(KEEP).documents == 0
    assert found.tier(REINDEX).documents == N
    assert found.tier(BRIDGE).documents in numbers_of_documents(N)
    assert [tier.per_query for tier in found.tiers] == [0, 0, FETCHED, 0]
    assert found.tier(BRIDGE).variant.map == "ridge"  # a rotation cannot undo a stretch


def test_maps_are_tried_on_half_of_the_documents_at_most() -> None:
    assert numbers_of_documents(1400) == [50, 100, 200, 500, 700]
    assert numbers_of_documents(60) == [30]
    assert numbers_of_documents(10**6)[-1] == 20_000


def test_different_dimensions_have_no_naive_swap_and_models_that_find_nothing_no_verdict() -> None:
    old, new = planted("rotated", 0)
    narrow = JudgedQueries(old.rows[:, :7], old.queries[:, :7], old.judgements)
    assert tier_scores(narrow, new).naive is None
    random = np.random.default_rng(7)  # not that of the judgements
    lost = JudgedQueries(random.standard_normal((N, D)), random.standard_normal((Q, D)), old.judgements)
    again = JudgedQueries(random.standard_normal((N, D)), random.standard_normal((Q, D)), old.judgements)
    found = decide(tier_scores(lost, again))
    assert not found.is_above_chance
    assert found.verdict == NOT_SHOWN


def test_a_difference_of_zero_on_few_queries_is_no_certainty() -> None:
    measured = tier_scores(*planted("rotated", 0))
    equal = replace(measured, scores={**measured.scores, TierVariant(REINDEX): measured.scores[TierVariant(KEEP)]})
    assert decide(equal, np.arange(200)).verdict == KEEP
    few = decide(equal, np.arange(100))
    assert few.verdict == NOT_SHOWN
    assert few.more == 51
    assert decide(equal, np.arange(151)).verdict == KEEP


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import migration_error_rates

    yield migration_error_rates
    sys.modules.pop("migration_error_rates")


def test_the_committed_rates_are_of_these_cases_and_as_low_as_declared(simulation: Any) -> None:
    results = json.loads((BENCHMARKS / "migration_error_rates.json").read_text(encoding="utf-8"))
    assert list(results) == [f"{name}, {n} queries" for name in simulation.CASES for n in simulation.QUERIES]
    runs = simulation.REPETITIONS
    for name, case in results.items():
        assert sum(case["verdicts"].values()) == runs
        # 2.5% on each side, and the Monte Carlo error of that.
        assert case.get("wrong", 0.0) <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / runs), name


@pytest.mark.slow
@pytest.mark.parametrize("case", ["gain equals the margin", "no gain", "losses equal the margin"])
def test_wrong_recommendations_are_as_rare_as_declared(simulation: Any, case: str) -> None:
    runs = 100
    counts, counted = simulation.verdicts(case, 100, runs), simulation.CASES[case][3]
    assert sum(counts[verdict] for verdict in counted) / runs <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / runs)


@pytest.mark.parametrize(
    ("truth", "verdict"),
    [((0.2, 0.0, 0.0), BRIDGE), ((0.2, 0.1, 0.0), TWO_STAGE), ((0.2, 0.1, 0.1), REINDEX), ((-0.05, 0.0, 0.0), KEEP)],
)
def test_with_enough_queries_the_cheapest_good_tier_is_found(
    simulation: Any, truth: tuple[float, float, float], verdict: str
) -> None:
    found = [decide(simulation.drawn(np.random.default_rng(seed), 6000, *truth)).verdict for seed in range(5)]
    assert found == [verdict] * 5


def test_the_number_of_queries_that_would_settle_it_settles_it(simulation: Any) -> None:
    """With as many queries more as named, at the same mean and spread, it is no longer not shown."""
    checked = 0
    for seed in range(30):
        measured = simulation.drawn(np.random.default_rng(seed), 100, 0.03, 0.0, 0.0)
        found = decide(measured)
        if found.verdict != NOT_SHOWN or found.more is None:
            continue
        checked += 1
        gains = measured.scores[TierVariant(REINDEX)] - measured.scores[TierVariant(KEEP)]
        standard = (gains - gains.mean()) / gains.std(ddof=1)
        total = len(gains) + found.more
        more = np.resize(standard, total)
        more = (more - more.mean()) / more.std(ddof=1) * gains.std(ddof=1) + gains.mean()
        low, high = gains_limits(more)
        assert low > 0 or high < MARGIN
    assert checked >= 5


def gains_limits(gains: Any) -> tuple[float, float]:
    from scipy.stats import t

    half = t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / math.sqrt(len(gains))
    return gains.mean() - half, gains.mean() + half


def test_a_migration_is_decided_by_its_fields_alone(simulation: Any) -> None:
    found = decide(simulation.drawn(np.random.default_rng(0), 400, 0.2, 0.1, 0.1))
    assert isinstance(found, Migration)
    assert found.verdict == REINDEX
    assert replace(found, gain_high=0.019).verdict == KEEP
    assert replace(found, gain_low=-0.001).verdict == NOT_SHOWN
