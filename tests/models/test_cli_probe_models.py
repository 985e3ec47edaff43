"""`probe` on tiny random encoders: a task's words and texts, fitted on one split and scored on another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.cli.app import app
from theodolite.core.rows import read_rows
from theodolite.spaces.readers.directprobe import read_clusters

Tiny = Callable[[str], Path]

TAGS = "".join(f"the\tDET\ncat{letter}\tNOUN\nsat\tVERB\n\n" for letter in "abcdefgh")
MORE = "".join(f"a\tDET\ndog{letter}\tNOUN\nsat\tVERB\n\n" for letter in "ab")
TEXTS = "text,label\n" + "".join(f"the cat sat on {word},animal\na river bank {word},place\n" for word in "abcdefghij")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    Path("train.conll").write_text(TAGS)
    Path("test.conll").write_text(MORE)
    Path("texts.csv").write_text(TEXTS)
    return tmp_path


def done(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["probe", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_layer_is_fitted_on_one_split_and_scored_on_the_other(tiny: Tiny) -> None:
    own = ["--own", "train=train.conll", "--own", "test=test.conll", "--kind", "tagging"]
    said = done("-m", str(tiny("bert")), *own, "-o", "rows.jsonl", "--clusters", "c{layer}.txt")
    assert [f"layer {layer}: 3 labels" in said for layer in range(4)] == [True] * 4
    assert "24 × 16, 6 held out" in said
    assert max(len(line) for line in said.splitlines() if "tiny-bert" not in line and ":" not in line) <= 80
    rows = read_rows("rows.jsonl")
    assert {row.layer for row in rows} == {0, 1, 2, 3}
    assert {(row.split, row.n) for row in rows if row.metric == "clusters"} == {("train", 24)}
    scored = [row for row in rows if row.metric == "hull_accuracy"]
    assert [(row.split, row.n) for row in scored] == [("test", 6)] * 4
    assert all(row.model.endswith("tiny-bert") and row.seed == 0 and row.d == 16 for row in rows)
    assert len(read_clusters("c0.txt", n=24)) == 24


def test_a_task_of_one_split_holds_out_a_share_of_it(tiny: Tiny) -> None:
    own = ["-m", str(tiny("bert")), "--own", "train=texts.csv", "--kind", "classification", "--unit", "mean", "--json"]

    def rows(*more: str) -> list[dict[str, object]]:
        return json.loads(done(*own, "--layers", "last", *more))["rows"]  # type: ignore[no-any-return]

    scored = next(row for row in rows() if row["metric"] == "hull_accuracy")
    assert (scored["split"], scored["n"], scored["layer"]) == ("train, held out", 4, 3)
    assert next(row for row in rows("--hold-out", "0.5") if row["metric"] == "hull_accuracy")["n"] == 10
    nothing = rows("--hold-out", "0")
    assert not [row for row in nothing if row["metric"] == "hull_accuracy"]
    assert {row["n"] for row in nothing if row["metric"] == "clusters"} == {20}
    sampled = rows("--sample", "6", "--seed", "3")
    assert {row["n"] for row in sampled if row["metric"] == "clusters"} == {6}
    linear = {row["metric"]: row["value"] for row in rows("--classifier", "linear")}
    assert 0 <= float(np.array(linear["probe_accuracy"])) <= 1


def test_a_unit_without_labels_is_one_line_that_says_so(tiny: Tiny) -> None:
    arguments = ["probe", "-m", str(tiny("bert")), "--own", "train=train.conll", "--kind", "tagging", "--unit", "mean"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert "--unit mean has no column 'label' of labels" in result.stderr
