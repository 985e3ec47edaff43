"""Two processes that train together: the numbers of one process with batches twice as large, written and printed once."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from theodolite.core.rows import read_rows

pytest.importorskip("accelerate", reason="the extra models is not installed")

# Accelerate's launcher for several processes is named after GPUs; --device cpu then trains them on the CPU, over gloo.
LAUNCH = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
LAUNCH += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0", "-m", "theodolite"]


@pytest.fixture(scope="module")
def training(tiny_bert: str, moods: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options of a fine-tuning without dropout, whose random numbers would differ between processes."""
    from transformers import AutoModel, AutoTokenizer

    folder = tmp_path_factory.mktemp("still")
    model = AutoModel.from_pretrained(tiny_bert, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model.save_pretrained(folder / "bert")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder / "bert")
    from theodolite.tasks import load_task

    own = []
    for split in ("train", "dev"):
        examples = load_task(moods, split)
        with open(folder / f"{split}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["text", "label"], *zip(examples.texts, examples.labels, strict=True)])
        own += ["--own", f"{split}={folder / split}.csv"]
    options = ["--epochs", "1", "--lr", "3e-3", "--validation", "0", "--device", "cpu", "--seeds", "0,1", "--json"]
    return ["tune", str(folder / "bert"), *own, "--kind", "classification", *options]


def run(*arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_two_processes_are_one_with_batches_twice_as_large(training: list[str], tmp_path: Path) -> None:
    one = run("-m", "theodolite", *training, "--batch-size", "16", "--to", str(tmp_path / "one"))
    two = run(*LAUNCH, *training, "--batch-size", "8", "--to", str(tmp_path / "two"))
    assert json.loads(two)["title"] == json.loads(one)["title"]  # one document: the other process prints nothing
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}
    assert files(tmp_path / "two") == files(tmp_path / "one")
    lines = [(tmp_path / name / "seed-0" / "geometry.jsonl").read_text().count("\n") for name in ("one", "two")]
    assert lines[0] == lines[1] > 10
    first, second = (read_rows(tmp_path / name / "rows.parquet") for name in ("one", "two"))
    assert {"accuracy", "train_loss", "iso_score"} < {row.metric for row in first}
    for row, other in zip(first, second, strict=True):
        # Every step has the same examples, so that only the order of sums differs.
        assert replace(other, value=0.0, reason="") == replace(row, value=0.0, reason="")
        assert other.value == pytest.approx(row.value, rel=1e-2, abs=1e-3, nan_ok=True), row
