"""`repair advise` and `calibrate` on the command line: what the verbs return, printed, as JSON and to files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

import theodolite as th

random = np.random.default_rng(0)
Y = np.arange(90) % 3
X = (random.standard_normal((90, 6)) * 0.5 + np.eye(6)[Y]).astype(np.float32)


@pytest.fixture(autouse=True)
def files(here: Path) -> Path:
    np.save("x.npy", X)
    np.save("b.npy", X[::-1])
    Path("labels.txt").write_text("".join(f"{label}\n" for label in Y))
    Path("scores.txt").write_text("".join(f"{score}\n" for score in random.random(90)))
    return here


def test_labels_pairs_and_no_signal(run: Run) -> None:
    text = run("repair", "advise", "x.npy", "--labels", "labels.txt", "--folds", "3").stdout
    assert "not shown:" in text and "k-NN accuracy" in text and "leave it alone" in text
    text = run("repair", "advise", "x.npy", "--pairs", "b.npy", "--scores", "scores.txt", "--folds", "3").stdout
    assert "Spearman" in text
    assert "--pairs FILE, --scores FILE" in " ".join(run("repair", "advise", "x.npy").stdout.split())


def test_json_and_rows_are_the_verbs(run: Run) -> None:
    out = run("repair", "advise", "x.npy", "--labels", "labels.txt", "--folds", "3", "--json", "--output", "rows.json").stdout
    document = json.loads(out)
    result = th.advise(X, labels=Y.tolist(), folds=3)
    assert result.answer is not None and document["answer"]["sentence"] == result.answer.sentence
    assert [row["value"] for row in document["rows"]] == [row.value for row in result.rows]
    assert len(json.loads(Path("rows.json").read_text())) == len(result)


def test_faults_are_one_line(refused: Callable[..., str]) -> None:
    assert "give either vectors" in refused("repair", "advise")
    assert "--pairs FILE and --scores FILE go together" in refused("repair", "advise", "x.npy", "--pairs", "b.npy")
    Path("one.txt").write_text("a\n" * 90)
    assert "all 90 rows have the label 'a'" in refused("repair", "advise", "x.npy", "--labels", "one.txt")
    assert "is not a folder" in refused("repair", "advise", "-m", "tiny", "--retrieval", "nowhere")
    assert "give either an encoder" in refused("calibrate")
    assert "unrelated pairs" in refused("calibrate", "x.npy", "--false-positive-rate", "0.000001")


def test_calibrate_prints_cutoffs_and_lists_its_sentences(run: Run) -> None:
    text = run("calibrate", "x.npy").stdout
    assert "The cutoff is 0." in text and "own texts" in text
    sentences = run("calibrate", "--list-sentences").stdout.splitlines()
    assert len(sentences) == 250
