"""The command line on tiny random encoders: offline, no connection allowed, warnings are errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("sentence_transformers", reason="the extra models is not installed")

from theodolite.core.rows import read_rows
from theodolite.spaces import Space

Tiny = Callable[[str], Path]

LABELLED = "text,label\n" + "".join(f"the cat sat on {word},animal\na river bank {word},place\n" for word in "abcdefghijklmnop")
PAIRS = "text\ttext_b\tscore\n" + "".join(f"the cat {word}\ta dog {word}\t{i % 6}\n" for i, word in enumerate("abcdefghijkl"))
MORE = "".join(f"a\tDET\ndog{letter}\tNOUN\nsat\tVERB\n\n" for letter in "ab")
TAGS = "".join(f"the\tDET\ncat{letter}\tNOUN\nsat\tVERB\n\n" for letter in "abcdefgh")


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    Path("labelled.csv").write_text(LABELLED)
    Path("pairs.tsv").write_text(PAIRS)
    Path("tags.conll").write_text(TAGS)
    Path("more.conll").write_text(MORE)
    Path("texts.txt").write_text("the cat sat\na dog on the mat\n\nunbelievable banks\n")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_from_a_model_to_its_tuned_space(family: str, tiny: Tiny, run: Run) -> None:
    model = str(tiny(family))
    own = ["--own", "train=labelled.csv", "--own", "dev=labelled.csv", "--kind", "classification"]
    mean = [*own, "--unit", "mean"]  # [CLS] is one point in layer 0, where most metrics are not defined
    text = run("extract", model, *own, "--to", "space").stdout
    assert "32 texts (cls) × 16, layers 0–3" in text and "theodolite survey space" in text
    space = Space.open("space")
    assert (space.n, space.layers, set(space.rows["label"])) == (32, (0, 1, 2, 3), {"animal", "place"})
    assert "layer" in run("survey", "space", "--metrics", "iso_score,mean_cosine").stdout

    names = "iso_score,mean_cosine,log_partition_isotropy"
    stored = json.loads(run("survey", "-m", model, *mean, "--metrics", names, "--json").stdout)["rows"]
    streamed = json.loads(run("survey", "-m", model, *mean, "--metrics", names, "--no-store", "--json").stdout)["rows"]
    assert [row["layer"] for row in stored] == [layer for layer in range(4) for _ in range(3)]
    np.testing.assert_allclose([row["value"] for row in streamed], [row["value"] for row in stored], rtol=1e-5, atol=1e-7)

    text = run("tune", model, *own, "--preset", "zs22", "--epochs", "2", "--device", "cpu", "--to", "run").stdout
    assert "accuracy" in text
    rows = read_rows("run/rows.parquet")
    assert {row.state for row in rows} >= {"pre-trained", "fine-tuned"}
    # The tracker's are by layer; those of the vectors that the head takes name none.
    assert {row.layer for row in rows if row.metric == "iso_score"} == {0, 1, 2, 3, None}
    metrics = ["--metrics", "iso_score,mean_cosine"]
    change = run("compare", model, "run/model", *own, *metrics, "--output", "change.jsonl").stdout
    assert change.count("→") >= 8
    assert len(read_rows("change.jsonl")) == 3 * 4 * 2 + 4 * 4  # two metrics of four layers, and the CKA of every two layers


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_pairs_words_and_plain_texts_are_read(family: str, tiny: Tiny, run: Run) -> None:
    model = str(tiny(family))
    run("extract", model, "--own", "dev=pairs.tsv", "--kind", "similarity", "--score-range", "0,5", "--to", "pairs")
    assert Space.open("pairs").n == 24
    run("extract", model, "--own", "train=tags.conll", "--kind", "tagging", "--to", "words", "--layers", "0,-1")
    words = Space.open("words")
    assert (words.n, words.layers, list(words.rows["label"][:3])) == (24, (0, 3), ["DET", "NOUN", "VERB"])
    run("extract", model, "--texts", "texts.txt", "--unit", "tokens", "--to", "tokens")
    text = run("extract", model, "--texts", "texts.txt", "--to", "sentences", "--layers", "last").stdout
    assert "3 texts (mean) × 16, layer 3" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--task", "nothing"], "there is no task 'nothing'"),
        ([], "give the texts that the encoder should read"),
        (["--task", "cola", "--texts", "texts.txt"], "give the texts that the encoder should read"),
        (["--own", "dev=labelled.csv"], "--own train=FILE needs --kind KIND"),
        (["--own", "labelled.csv", "--kind", "classification"], "must be NAME=VALUE"),
        (["--own", "dev=labelled.csv", "--kind", "classification", "--column", "label=colour"], "colour"),
        (["--own", "dev=pairs.tsv", "--kind", "similarity", "--score-range", "5"], "two numbers"),
        (["--kind", "tagging", "--texts", "texts.txt"], "describes your own files"),
        (["--texts", "texts.txt", "--layers", "first"], "all, last, or numbers"),
        (["--texts", "texts.txt", "--layers", "9"], "there is no layer 9"),
        (["--texts", "nowhere.txt"], "nowhere.txt"),
        (["--task", "cola", "--data", "nowhere"], "nowhere"),
    ],
)
def test_wrong_use_is_one_line_that_says_what_to_do(
    arguments: list[str], sentence: str, tiny: Tiny, refused: Callable[..., str]
) -> None:
    assert sentence in refused("extract", tiny("bert"), *arguments, "--to", "space")
    assert not Path("space").exists()


def test_an_unknown_model_is_one_line(refused: Callable[..., str]) -> None:
    assert "no/such-model" in refused("survey", "-m", "no/such-model", "--texts", "texts.txt")


def test_every_layer_is_fitted_on_one_split_and_scored_on_the_other(tiny: Tiny, run: Run) -> None:
    own = ["--own", "train=tags.conll", "--own", "test=more.conll", "--kind", "tagging"]
    said = run("probe", "-m", str(tiny("bert")), *own, "-o", "rows.jsonl").stdout
    assert "24 × 16, words, at most 64 tokens, 8 texts, 6 held out" in said and "In layer 3, the nearest hull labels" in " ".join(
        said.split()
    )
    assert max(len(line) for line in said.splitlines() if "tiny-bert" not in line and ":" not in line) <= 80
    rows = read_rows("rows.jsonl")
    assert {row.layer for row in rows} == {0, 1, 2, 3}
    assert {(row.split, row.n) for row in rows if row.metric == "clusters"} == {("train", 24)}
    scored = [row for row in rows if row.metric == "hull_accuracy"]
    assert [(row.split, row.n) for row in scored] == [("test", 6)] * 4
    assert all(row.model.endswith("tiny-bert") and row.seed == 0 and row.d == 16 for row in rows)


def test_a_task_of_one_split_holds_out_a_share_of_it(tiny: Tiny, run: Run) -> None:
    own = ["-m", str(tiny("bert")), "--own", "train=labelled.csv", "--kind", "classification", "--unit", "mean", "--json"]

    def rows(*more: str) -> list[dict[str, object]]:
        return json.loads(run("probe", *own, "--layers", "last", *more).stdout)["rows"]

    scored = next(row for row in rows() if row["metric"] == "hull_accuracy")
    assert (scored["split"], scored["n"], scored["layer"]) == ("train, held out", 6, 3)
    assert next(row for row in rows("--hold-out", "0.5") if row["metric"] == "hull_accuracy")["n"] == 16
    nothing = rows("--hold-out", "0")
    assert not [row for row in nothing if row["metric"] == "hull_accuracy"]
    assert {row["n"] for row in nothing if row["metric"] == "clusters"} == {32}
    sampled = rows("--sample", "6", "--seed", "3")
    assert {row["n"] for row in sampled if row["metric"] == "clusters"} == {6}
    linear = {row["metric"]: row["value"] for row in rows("--classifier", "linear")}
    assert 0 <= float(np.array(linear["probe_accuracy"])) <= 1


def test_a_unit_without_labels_is_one_line_that_says_so(tiny: Tiny, refused: Callable[..., str]) -> None:
    arguments = ["-m", tiny("bert"), "--own", "train=tags.conll", "--kind", "tagging", "--unit", "mean"]
    assert "no column 'label' of labels" in refused("probe", *arguments)


@pytest.mark.slow
def test_the_command_itself_runs_offline_with_warnings_as_errors(tiny: Tiny, here: Path) -> None:
    """A process of its own, in which every attempt to connect ends the test."""
    (here / "sitecustomize.py").write_text(
        "import socket\n"
        "def refuse(self, address):\n"
        "    raise SystemExit(f'connected to {address}')\n"
        "socket.socket.connect = refuse\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(here), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "theodolite",
        "survey",
        "-m",
        str(tiny("bert")),
        "--texts",
        "texts.txt",
        "--json",
    ]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["rows"]) == 4 * 6
