"""`tune` with methods and seeds: what is printed, what is written, what is resumed, and one line for what is wrong."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from theodolite.cli.app import app
from theodolite.core.rows import read_rows

GOOD, BAD, NOUNS = ("fine", "lovely", "kind"), ("awful", "grim", "cold"), ("dog", "cat", "house", "river", "book")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *NOUNS, "the", "is")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A tiny encoder, and the options that name a task it can learn."""
    torch = pytest.importorskip("torch", reason="the extra models is not installed")
    transformers = pytest.importorskip("transformers", reason="the extra models is not installed")
    pytest.importorskip("accelerate", reason="the extra models is not installed")
    folder = tmp_path_factory.mktemp("world")
    tokenizer = transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(WORDS)}, model_max_length=32)
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    transformers.BertModel(transformers.BertConfig(vocab_size=len(WORDS), **sizes)).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    rng = np.random.default_rng(0)
    own = []
    for split, count in (("train", 80), ("dev", 40)):
        with open(folder / f"{split}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            for i in range(count):
                words = GOOD if i % 2 else BAD
                writer.writerow([f"the {rng.choice(NOUNS)} is {rng.choice(words)}", "good" if i % 2 else "bad"])
        own += ["--own", f"{split}={folder / f'{split}.csv'}"]
    return {"model": str(folder / "bert"), "task": [*own, "--kind", "classification"]}


def tune(*options: str) -> Any:
    return CliRunner().invoke(app, ["tune", *options])


def training(world: dict[str, Any]) -> list[str]:
    return [world["model"], *world["task"], "--epochs", "2", "--lr", "3e-3", "--device", "cpu", "--track", "never"]


LAYER = ["--layer", "batch_size=16", "--layer", "epochs=3", "--layer", "learning_rate=0.01"]


@pytest.mark.slow
def test_seeds_run_one_after_another_and_isolayer_starts_from_them(world: dict[str, Any], tmp_path: Path) -> None:
    plain = tune(*training(world), "--seeds", "0,1,2", "--to", str(tmp_path / "plain"))
    assert plain.exit_code == 0, plain.output
    assert "median ± standard deviation over 3 seeds" in plain.output
    source = ["--from-run", str(tmp_path / "plain" / "seed-{seed}")]
    done = tune("--method", "isolayer", *world["task"], *source, *LAYER, "--seeds", "0,1,2", "--to", str(tmp_path / "layer"))
    assert done.exit_code == 0, done.output
    for word in ("accuracy", "IsoScore", "EV 1", "EV 2", "EV 3", "fine-tuned", "isotropy layer", "the layer was trained in"):
        assert word in done.output
    rows = read_rows(tmp_path / "layer" / "rows.parquet")
    after = {row.seed: row.value for row in rows if (row.metric, row.state, row.split) == ("iso_score", "isolayer", "dev")}
    assert set(after) == {0, 1, 2, None}
    told = {row.setting: row.value for row in rows if row.state == "isolayer" and row.metric == "iso_score" and row.seed is None}
    values = [after[seed] for seed in (0, 1, 2)]
    median, spread = (next(v for setting, v in told.items() if name in setting) for name in ("median", "standard deviation"))
    assert median == pytest.approx(statistics.median(values)) and spread == pytest.approx(statistics.stdev(values))
    # Before, the layer's runs tell what the plain runs ended with.
    ends = {
        row.seed: row.value for row in read_rows(tmp_path / "plain" / "rows.parquet") if is_score(row) and row.seed is not None
    }
    assert ends == {row.seed: row.value for row in rows if is_score(row) and row.seed is not None}
    # Again, it is all there already; the folder of all seeds does without {seed}.
    again = tune(
        "--method", "isolayer", *world["task"], "--from-run", str(tmp_path / "plain"), *LAYER, "--seeds", "0,1,2",
        "--to", str(tmp_path / "layer"), "--json",
    )  # fmt: skip
    assert again.exit_code == 0, again.output
    assert len(json.loads(again.output)["rows"]) == len(rows)


def is_score(row: Any) -> bool:
    return (row.metric, row.state, row.split) == ("accuracy", "fine-tuned", "dev")


@pytest.mark.parametrize("method", ["isolayer", "isobn"])
def test_one_seed_prints_before_and_after(world: dict[str, Any], tmp_path: Path, method: str) -> None:
    options = LAYER if method == "isolayer" else ["--published"]
    done = tune(*training(world), "--method", method, *options, "--to", str(tmp_path / "run"))
    assert done.exit_code == 0, done.output
    assert ("isotropy layer" if method == "isolayer" else "fine-tuned") in done.output
    assert "±" not in done.output
    assert (tmp_path / "run" / "plain" / "result.json").exists() == (method == "isolayer")
    assert (tmp_path / "run" / "model" / "layer.safetensors").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "isonet"], "must be one of plain"),
        (["--method", "isobn", "--layer", "depth=2"], "isolayer"),
        (["--method", "isolayer", "--layer", "dept=2"], "no setting 'dept'"),
        (["--method", "isolayer", "--layer", "batch_size=1"], "at least 3"),
        (["--method", "isobn", "--batch-size", "1"], "at least 2"),
        (["--seeds", "0,0"], "each only once"),
        (["--seeds", "a"], "whole numbers"),
        (["--from-run", "nowhere"], "is for method isolayer"),
    ],
)
def test_wrong_use_is_one_line(world: dict[str, Any], tmp_path: Path, options: list[str], said: str) -> None:
    done = tune(world["model"], *world["task"], *options, "--to", str(tmp_path / "run"))
    assert done.exit_code == 2
    [line] = done.output.strip().splitlines()
    assert said in line
    assert not (tmp_path / "run").exists()


def test_a_plain_run_that_does_not_fit_is_one_line(world: dict[str, Any], tmp_path: Path) -> None:
    plain = str(tmp_path / "plain")
    assert tune(*training(world), "--to", plain).exit_code == 0
    start = ["--method", "isolayer", *world["task"], "--to", str(tmp_path / "run")]
    for options, said in (
        (["--from-run", str(tmp_path)], "is not the folder of a run"),
        (["--from-run", plain, "--epochs", "5"], "leave out"),
        (["--from-run", plain, "--seeds", "0"], "is not the folder of a run"),
        (["other-model", "--from-run", plain], "leave"),
        ([], "give a model to tune"),
    ):
        done = tune(*start, *options)
        assert done.exit_code == 2 and said in done.output, done.output
    diverged = tune(*start, "--from-run", plain, "--layer", "learning_rate=2e37", "--layer", "batch_size=16")
    assert diverged.exit_code == 2 and "diverged" in diverged.output and len(diverged.output.strip().splitlines()) == 1
    assert not (tmp_path / "run" / "model").exists()
    wrong = tune("--method", "isolayer", "--from-run", plain, "--to", str(tmp_path / "other"))
    assert wrong.exit_code == 2 and "give its files again" in wrong.output


def test_help_has_examples() -> None:
    done = tune("--help")
    assert done.exit_code == 0
    assert "--method isolayer --seeds 0,1,2" in done.output and "--from-run" in done.output
