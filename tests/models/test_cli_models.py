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
from typer.testing import CliRunner

pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("sentence_transformers", reason="the extra models is not installed")

from theodolite.cli.app import app
from theodolite.core.rows import read_rows
from theodolite.spaces import Space

Tiny = Callable[[str], Path]

LABELLED = "text,label\n" + "".join(f"the cat sat on {word},animal\na river bank {word},place\n" for word in "abcdefghijklmnop")
PAIRS = "text\ttext_b\tscore\n" + "".join(f"the cat {word}\ta dog {word}\t{i % 6}\n" for i, word in enumerate("abcdefghijkl"))
TAGS = "".join(f"the\tDET\ncat{letter}\tNOUN\nsat\tVERB\n\n" for letter in "abcdefgh")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("labelled.csv").write_text(LABELLED)
    Path("pairs.tsv").write_text(PAIRS)
    Path("tags.conll").write_text(TAGS)
    Path("texts.txt").write_text("the cat sat\na dog on the mat\n\nunbelievable banks\n")
    return tmp_path


def done(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_from_a_model_to_its_tuned_space(family: str, tiny: Tiny) -> None:
    model = str(tiny(family))
    own = ["--own", "train=labelled.csv", "--own", "dev=labelled.csv", "--kind", "classification"]
    mean = [*own, "--unit", "mean"]  # [CLS] is one point in layer 0, where most metrics are not defined
    told = done("extract", model, *own, "--to", "space")
    assert "32 × 16 vectors (cls) of 4 layers" in told
    space = Space.open("space")
    assert (space.n, space.layers, set(space.rows["label"])) == (32, (0, 1, 2, 3), {"animal", "place"})
    assert "layer" in done("survey", "space", "--metrics", "iso_score,mean_cosine")

    names = "iso_score,mean_cosine,log_partition_isotropy"
    stored = json.loads(done("survey", "-m", model, *mean, "--metrics", names, "--json"))["rows"]
    streamed = json.loads(done("survey", "-m", model, *mean, "--metrics", names, "--no-store", "--json"))["rows"]
    assert [row["layer"] for row in stored] == [layer for layer in range(4) for _ in range(3)]
    np.testing.assert_allclose([row["value"] for row in streamed], [row["value"] for row in stored], rtol=1e-5, atol=1e-7)

    said = done("tune", model, *own, "--preset", "zs22", "--epochs", "2", "--device", "cpu", "--to", "run")
    assert "accuracy" in said
    rows = read_rows("run/rows.parquet")
    assert {row.state for row in rows} >= {"pre-trained", "fine-tuned"}
    # The tracker's are by layer; those of the vectors that the head takes name none.
    assert {row.layer for row in rows if row.metric == "iso_score"} == {0, 1, 2, 3, None}
    change = done("compare", model, "run/model", *own, "--metrics", "iso_score,mean_cosine", "--output", "change.jsonl")
    assert change.count("→") > 8
    assert len(read_rows("change.jsonl")) == 2 * 4 * 2


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_pairs_words_and_plain_texts_are_read(family: str, tiny: Tiny) -> None:
    model = str(tiny(family))
    done("extract", model, "--own", "dev=pairs.tsv", "--kind", "similarity", "--score-range", "0,5", "--to", "pairs")
    assert Space.open("pairs").n == 24
    done("extract", model, "--own", "train=tags.conll", "--kind", "tagging", "--to", "words", "--layers", "0,-1")
    words = Space.open("words")
    assert (words.n, words.layers, list(words.rows["label"][:3])) == (24, (0, 3), ["DET", "NOUN", "VERB"])
    done("extract", model, "--texts", "texts.txt", "--unit", "tokens", "--to", "tokens")
    assert "3 × 16 vectors (mean)" in done("extract", model, "--texts", "texts.txt", "--to", "sentences", "--layers", "last")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--task", "nothing"], "there is no task 'nothing'"),
        ([], "say which texts to read"),
        (["--task", "cola", "--texts", "texts.txt"], "say which texts to read"),
        (["--own", "dev=labelled.csv"], "--own needs --kind"),
        (["--own", "labelled.csv", "--kind", "classification"], "must read NAME=VALUE"),
        (["--own", "dev=labelled.csv", "--kind", "classification", "--column", "label=colour"], "colour"),
        (["--own", "dev=pairs.tsv", "--kind", "similarity", "--score-range", "5"], "two numbers"),
        (["--kind", "tagging", "--texts", "texts.txt"], "describes your own files"),
        (["--texts", "texts.txt", "--layers", "first"], "all, last, or numbers"),
        (["--texts", "texts.txt", "--layers", "9"], "there is no layer 9"),
        (["--texts", "nowhere.txt"], "nowhere.txt"),
        (["--task", "cola", "--data", "nowhere"], "nowhere is no folder"),
    ],
)
def test_wrong_use_is_one_line_that_says_what_to_do(arguments: list[str], said: str, tiny: Tiny) -> None:
    result = CliRunner().invoke(app, ["extract", str(tiny("bert")), *arguments, "--to", "space"])
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not Path("space").exists()


def test_an_unknown_model_is_one_line(cache_layout: object) -> None:
    result = CliRunner().invoke(app, ["survey", "-m", "no/such-model", "--texts", "texts.txt"])
    assert result.exit_code == 2
    assert "no/such-model" in result.stderr


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
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["rows"]) == 4 * 6
