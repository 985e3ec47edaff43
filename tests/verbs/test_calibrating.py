"""`calibrate`: cutoffs of each line, matches above them, the map, and the answer that no threshold separates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
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


def test_each_line_has_its_cutoff_and_the_canonical_one_is_the_answer() -> None:
    result = th.calibrate(X, canonical=CANONICAL, pairs=Y, scores=MATCHES, false_positive_rate=0.05)
    units = CANONICAL / np.linalg.norm(CANONICAL, axis=1, keepdims=True)
    domain = np.array(canonical_sentences()[1])
    apart = np.triu(domain[:, None] != domain[None, :], 1)
    cutoff = result.value("cutoff", setting="canonical sentences")
    assert ((units @ units.T)[apart] > cutoff).mean() == pytest.approx(0.05, abs=1e-3)
    assert result.notes[0].startswith("Cutoff ") and "5 % of unrelated pairs of the canonical sentences" in result.notes[0]
    cosines = (X * Y).sum(axis=1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)
    for metric, side in (("matches_above", 1), ("non_matches_above", 0)):
        share = (cosines[side == MATCHES] > cutoff).mean()
        assert result.value(metric, setting="canonical sentences") == pytest.approx(share)
    assert result.value("cutoff", setting="own texts") > cutoff  # they share a mean, as texts of one domain do
    assert "rejects genuine matches" in result.notes[-1]
    assert result.value("non_matches_above", setting="own non-matches") <= 0.05


def test_the_map_is_in_the_records_and_survives_saving(tmp_path: Path) -> None:
    result = th.calibrate(X, pairs=Y, scores=MATCHES)
    points = result.records["probability"].to_pylist()
    assert points[0]["probability"] < 0.2 and points[-1]["probability"] > 0.9
    again = Result.load(result.save(tmp_path / "saved"))
    assert repr(again) == repr(result) and "probability of a match" in repr(result)
    assert "canonical=FILE" in result.notes[-1] and "--list-sentences" in result.notes[-1]


def test_pairs_that_no_threshold_separates_are_said_to_be_so() -> None:
    result = th.calibrate(X, pairs=Y[::-1].copy(), scores=MATCHES)
    assert result.notes[0].startswith("No threshold separates these: of 150 matches and 150 other pairs")
    assert any(note.startswith("A match has a larger cosine") for note in th.calibrate(X, pairs=Y, scores=MATCHES).notes)


def test_graded_scores_need_the_grade_that_matches() -> None:
    grades = np.where(MATCHES == 1, 4.0, np.arange(300) % 3)
    with pytest.raises(ValueError, match=r"scores run from 0 to 4; say from which one on two texts match, such as match=4"):
        th.calibrate(X, pairs=Y, scores=grades)
    assert th.calibrate(X, pairs=Y, scores=grades, match=3).value("separation") == th.calibrate(X, pairs=Y, scores=MATCHES).value(
        "separation"
    )
    with pytest.raises(ValueError, match=r"every one of the 300 pairs is not a match"):
        th.calibrate(X, pairs=Y, scores=grades, match=9)


def test_a_space_of_pairs_brings_them_along() -> None:
    rows = {"side": [0] * 300 + [1] * 300, "score": [*MATCHES.astype(float)] * 2}
    space = Space.of({3: np.concatenate([X, Y])}, rows=rows)
    assert th.calibrate(space).value("separation") == th.calibrate(X, pairs=Y, scores=MATCHES).value("separation")


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
    with pytest.raises(ValueError, match=r"scores run from 0 to 5"):
        th.calibrate(models / "tiny-mlm", task="demo-pairs")
