"""Repairs that are fitted on one part and scored on another, against a plain computation of both parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")

from scipy.stats import spearmanr

from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.studies import study
from theodolite.studies.do_no_harm.plan import AS_IT_IS
from theodolite.tasks import load_task

SMALL = {"bootstrap": 50, "tuning.epochs": 1, "tuning.track": None, "repairs.clustering+zero-mean.clusters": 2,
         "repairs.cluster-based.clusters": 2, "repairs.cluster-based.directions": 1}  # fmt: skip


@pytest.fixture
def collections(releases: Path, tmp_path: Path) -> Path:
    """The toy releases, and a collection of fifteen documents that answers five queries."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("stsb", "trec"):
        (folder / name).symlink_to(releases / name)
    (folder / "cranfield" / "qrels").mkdir(parents=True)
    words = ["dog", "cat", "house", "river", "book"]
    documents = [{"_id": f"d{i}", "title": "", "text": f"the {words[i % 5]} sees a {words[i // 5]} ."} for i in range(15)]
    queries = [{"_id": f"q{i}", "text": f"a {word}"} for i, word in enumerate(words)]
    for name, records in (("corpus", documents), ("queries", queries)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / "cranfield" / f"{name}.jsonl").write_text(lines)
    grades = "".join(f"q{i}\td{i}\t1\n" for i in range(5))
    (folder / "cranfield" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + grades)
    return folder


@pytest.mark.slow
def test_a_repair_is_fitted_on_one_part_and_scored_on_the_other(study_bert: str, collections: Path, tmp_path: Path) -> None:
    changes = {**SMALL, "collections": ["cranfield"]}
    result = study("do-no-harm").run(study_bert, data=collections, settings=changes, to=tmp_path / "run")
    assert result.provenance["failed"] == []
    values = {(row.task, row.state, row.setting, row.metric): row for row in result}
    assert {row.task for row in result} >= {"stsb", "trec-50", "cranfield"}

    def vectors(split: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        examples = load_task("stsb", split, collections)
        encoder = Encoder.load(study_bert, device="cpu")
        first, second = (extract_space(encoder, list(side), unit="mean")[-1] for side in (examples.texts, examples.second or ()))
        assert examples.scores is not None
        return first.astype(np.float64), second.astype(np.float64), examples.scores

    known, asked = vectors("train"), vectors("test")
    mean = np.concatenate(known[:2]).mean(axis=0)

    def spearman(first: np.ndarray, second: np.ndarray) -> float:
        cosines = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
        return float(spearmanr(cosines, asked[2])[0])

    before, after = spearman(*asked[:2]), spearman(asked[0] - mean, asked[1] - mean)
    assert values["stsb", "pre-trained", AS_IT_IS, "spearman"].value == pytest.approx(before, abs=1e-3)
    gain = values["stsb", "pre-trained", "zero-mean", "gain"]
    assert gain.value == pytest.approx(after - before, abs=1e-3) and gain.n == len(asked[2])
    assert gain.low is not None and gain.low <= gain.value


def test_a_collection_needs_a_data_folder_and_a_known_name(study_bert: str, collections: Path) -> None:
    with pytest.raises(ValueError, match=r"the collection 'cisi' is not on the Hub; give data=FOLDER"):
        study("do-no-harm").plan(study_bert, tasks=["cisi"])
    with pytest.raises(ValueError, match="the study has no task 'nfcorpus'; it has stsb, trec-50, cranfield, cisi"):
        study("do-no-harm").plan(study_bert, data=collections, tasks=["nfcorpus"])
    only = study("do-no-harm").plan(study_bert, data=collections, tasks=["cranfield"])
    assert [step.kind for step in only.steps] == ["tune", "held-out", "held-out"]
