"""`calibrate`: cutoffs of each line, matches above them, the map, and the answer that no threshold separates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import theodolite as th
from theodolite.core.result import Result
from theodolite.spaces import Space
from theodolite.tasks import canonical_sentences

random = np.random.default_rng(0)
X = random.standard_normal((300, 16)).astype(np.float32) + np.float32(0.3)
MATCHES = np.arange(300) % 2
Y = np.where(MATCHES[:, None] == 1, X, random.standard_normal((300, 16)) + 0.3).astype(np.float32)
Y += 0.5 * random.standard_normal(Y.shape).astype(np.float32)
CANONICAL = random.standard_normal((250, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def matched() -> Result:
    return th.calibrate(X, pairs=Y, scores=MATCHES)


def test_each_line_has_its_cutoff_and_the_own_one_is_the_answer() -> None:
    result = th.calibrate(X, canonical=CANONICAL, pairs=Y, scores=MATCHES, false_positive_rate=0.05)
    units = CANONICAL / np.linalg.norm(CANONICAL, axis=1, keepdims=True)
    domain = np.array(canonical_sentences()[1])
    apart = np.triu(domain[:, None] != domain[None, :], 1)
    cutoff = result.value("cutoff", setting="canonical sentences")
    assert ((units @ units.T)[apart] > cutoff).mean() == pytest.approx(0.05, abs=1e-3)
    assert result.answer is not None and result.answer.verdict == "separates"
    assert f"The cutoff from your own pairs is {result.value('cutoff', setting='own non-matches'):.4f}" in result.answer.sentence
    assert "across domains, not within one" in result.answer.reasons[-1]
    cosines = (X * Y).sum(axis=1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)
    for metric, side in (("matches_above", 1), ("non_matches_above", 0)):
        share = (cosines[side == MATCHES] > cutoff).mean()
        assert result.value(metric, setting="canonical sentences") == pytest.approx(share)
    assert result.value("cutoff", setting="own texts") > cutoff  # they share a mean, as texts of one domain do
    assert result.value("non_matches_above", setting="own non-matches") <= 0.05


def test_the_map_is_in_the_records_and_survives_saving(matched: Result, tmp_path: Path) -> None:
    result = matched
    points = result.records["probability"].to_pylist()
    assert points[0]["probability"] < 0.2 and points[-1]["probability"] > 0.9
    again = Result.load(result.save(tmp_path / "saved"))
    assert repr(again) == repr(result) and "probability of a match" in repr(result)
    lines = result.records["cutoffs"].to_pylist()
    assert [line["pairs"] for line in lines] == ["own non-matches", "own texts"]
    assert lines[0]["low"] <= lines[0]["cutoff"] == result.value("cutoff", setting="own non-matches") <= lines[0]["high"]


def test_pairs_that_no_threshold_separates_are_said_to_be_so() -> None:
    result = th.calibrate(X, pairs=Y[::-1].copy(), scores=MATCHES)
    assert result.answer is not None and result.answer.verdict == "does not separate"
    assert result.answer.sentence.startswith("No threshold separates 150 matches from 150 non-matches")


def test_too_few_non_matches_have_no_upper_limit_and_it_is_said() -> None:
    result = th.calibrate(X[:60], pairs=Y[:60], scores=MATCHES[:60])
    cutoff = result.where(metric="cutoff", setting="own non-matches").rows[0]
    assert cutoff.high == 1.0 and "30 pairs that do not match are too few" in result.conditions[0]
    assert th.calibrate(X, pairs=Y, scores=MATCHES, false_positive_rate=0.1).conditions == ()


def test_without_known_pairs_the_cutoff_says_what_it_holds_for() -> None:
    domain = np.repeat(random.standard_normal((25, 16)), 10, axis=0)  # sentences of one domain are alike
    vectors = (CANONICAL + domain).astype(np.float32)
    result = th.calibrate(vectors[:40], canonical=vectors)
    assert result.answer is not None and result.answer.verdict == "cutoff only"
    cutoff = result.value("cutoff", setting="canonical sentences")
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    together = np.triu(np.arange(250)[:, None] // 10 == np.arange(250) // 10, 1)
    inside = ((units @ units.T)[together] > cutoff).mean()
    assert result.value("same_domain_above") == pytest.approx(inside) and inside > 0.1
    mine = np.triu(np.ones((40, 40), bool), 1)
    own = ((units[:40] @ units[:40].T)[mine] > cutoff).mean()
    assert result.value("own_texts_above") == pytest.approx(own)
    assert result.conditions == ("780 pairs of your own texts are too few for a cutoff at 1%",)
    reason = f"across domains, not within one: {inside:.0%} of sentence pairs of one domain exceed it, and {own:.1%} of random"
    assert reason in result.answer.reasons[0]
    alone = th.calibrate(vectors).answer
    assert alone is not None and "canonical=FILE" in alone.reasons[-1] and "--list-sentences" in alone.next[0].words


def test_queries_and_judged_documents_give_a_cutoff_of_their_own(tmp_path: Path) -> None:
    documents = random.standard_normal((200, 16))
    queries = documents[:50] + 0.6 * random.standard_normal((50, 16))
    judged = [[f"q{i}", f"d{i}", 1] for i in range(50)]
    frames = [
        pandas.DataFrame({"id": [f"{letter}{i}" for i in range(len(rows))], **{f"x{i}": rows[:, i] for i in range(16)}})
        for letter, rows in (("d", documents), ("q", queries))
    ]
    result = th.calibrate(frames[0], queries=frames[1], judgements=judged)
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, documents)]
    cosines = units[0] @ units[1].T
    relevant = np.eye(50, 200, dtype=bool)
    cutoff = result.value("cutoff", setting="other documents")
    assert (cosines[~relevant] > cutoff).mean() == pytest.approx(0.01, abs=2e-4)
    assert result.value("matches_above", setting="other documents") == pytest.approx((cosines[relevant] > cutoff).mean())
    assert result.answer is not None and result.answer.verdict == "separates"
    assert "50 relevant documents lie above it, and 1% of 9,950 other documents" in result.answer.sentence
    points = result.records["probability"].to_pylist()
    assert points[-1]["probability"] > 0.9 and points[0]["probability"] < 0.01
    # Judgements that fit no document: chance, and nothing to separate.
    shuffled = [[f"q{i}", f"d{100 + (11 * i) % 97}", 1] for i in range(50)]
    none = th.calibrate(frames[0], queries=frames[1], judgements=shuffled).answer
    assert none is not None and none.verdict == "does not separate"


def test_graded_scores_need_the_grade_that_matches(matched: Result) -> None:
    grades = np.where(MATCHES == 1, 4.0, np.arange(300) % 3)
    with pytest.raises(ValueError, match=r"scores range from 0 to 4; give the lowest score of a match, such as match=4"):
        th.calibrate(X, pairs=Y, scores=grades)
    assert th.calibrate(X, pairs=Y, scores=grades, match=3).value("separation") == matched.value("separation")
    with pytest.raises(ValueError, match=r"all 300 pairs are non-matches"):
        th.calibrate(X, pairs=Y, scores=grades, match=9)


def test_a_space_of_pairs_brings_them_along(matched: Result) -> None:
    rows = {"side": [0] * 300 + [1] * 300, "score": [*MATCHES.astype(float)] * 2}
    space = Space.of({3: np.concatenate([X, Y])}, rows=rows)
    assert th.calibrate(space).value("separation") == matched.value("separation")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"pairs": Y}, r"pairs=FILE and scores=FILE go together"),
        ({"match": 3}, r"match=3 is for scored pairs"),
        ({"canonical": CANONICAL[:10]}, r"has shape \(10, 16\); it must be one vector of 16 dimensions for each of the 250"),
        ({"false_positive_rate": 1e-6}, r"needs at least 10,000,000 unrelated pairs"),
        ({"pairs": Y, "scores": np.full(300, np.nan)}, r"pair 0 has no score"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        th.calibrate(X, **options)


@pytest.mark.slow
def test_an_encoder_reads_the_sentences_alone_or_with_pairs(models: Path) -> None:
    alone = th.calibrate(models / "tiny-mlm")
    assert {row.setting for row in alone.rows} == {"canonical sentences"}
    assert 0 < alone.value("cutoff") < 1
    result = th.calibrate(models / "tiny-mlm", task="demo-pairs", match=4)
    assert result.value("cutoff", setting="canonical sentences") == pytest.approx(alone.value("cutoff"), abs=1e-5)
    assert result.value("separation") > 0.6
    with pytest.raises(ValueError, match=r"scores range from 0 to 5"):
        th.calibrate(models / "tiny-mlm", task="demo-pairs")
