"""`study` on the command line: list, show, run, check, and one line for what is wrong."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

from theodolite.core.result import Result
from theodolite.studies import study_names

NOUNS = ("dog", "cat", "house", "river", "book", "song", "tree", "road")
VERBS = ("sees", "likes", "finds", "keeps")
SMALL = {
    "rp21": {
        "examples": 40, "bootstrap": 20, "starts": 2, "sample": 200, "points": 50, "clusters": 3, "components": 2,
        "sweep": [0, 1, 2],
        "tuning.epochs": 1, "tuning.track": None, "repairs.global.n_directions": 2, "repairs.clustering+zero-mean.n_clusters": 3,
        **{f"repairs.{name}.n_clusters": 3 for name in
           ("cluster-based", "cluster-based scaled", "least cluster-based 100", "least cluster-based 700")},
        "repairs.cluster-based.n_directions": 2,
    },
    "il23": {"tuning.epochs": 1, "tuning.track": None, "choose.learning_rate": [1e-4], "choose.layer_learning_rate": [1e-3]},
    "zs22": {"tuning.epochs": 1, "tuning.track_texts": 40, "probe.classifier": "linear", "points": 30, "cross": []},
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("releases")

    def sentence() -> str:
        return f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} a {rng.choice(NOUNS)} ."

    (folder / "stsb").mkdir()
    for name, count in (("train", 48), ("dev", 40), ("test", 20)):
        lines = [f"main\tx\t2017\t{i}\t{rng.integers(0, 6)}.0\t{sentence()}\t{sentence()}" for i in range(count)]
        (folder / "stsb" / f"sts-{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "cola").mkdir()
    for name, count in (("in_domain_train", 260), ("in_domain_dev", 20), ("out_of_domain_dev", 20)):
        lines = [f"gj04\t{i % 2}\t\t{sentence()}" for i in range(count)]
        (folder / "cola" / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    (folder / "trec").mkdir()
    for name, count in (("train_5500", 60), ("TREC_10", 24)):
        lines = [f"{('DESC:def', 'HUM:ind', 'NUM:date')[i % 3]} {sentence()}" for i in range(count)]
        (folder / "trec" / f"{name}.label").write_text("\n".join(lines) + "\n", encoding="latin-1")
    return folder


def small(name: str, **changes: Any) -> list[str]:
    """Options that make a study run in seconds."""
    return [f"--set={key}={json.dumps(value)}" for key, value in {**SMALL[name], **changes}.items()]


def test_every_study_is_listed(run: Run) -> None:
    text = run("study", "list").stdout
    assert all(name in text for name in study_names())
    assert [each["name"] for each in json.loads(run("study", "list", "--json").stdout)] == study_names()


def test_show_prints_a_file_that_is_a_study_again(run: Run) -> None:
    text = run("study", "show", "rp21").stdout
    assert tomllib.loads(text)["name"] == "rp21"
    Path("mine.toml").write_text(text.replace('name = "rp21"', 'name = "mine"'), encoding="utf-8")
    assert tomllib.loads(run("study", "show", "mine.toml").stdout)["name"] == "mine"


@pytest.mark.slow
def test_a_study_runs_is_resumed_and_checked(run: Run, tiny: Any, files: Path) -> None:
    words = ["study", "run", "rp21", "-m", tiny("bert"), "--data", files, "--layers", 3, "--to", "rp21", *small("rp21")]
    plan = run(*words, "--dry-run").stdout
    count = plan.count("missing  ")
    assert f"{count} steps, {count} missing" in plan.splitlines()
    assert plan.splitlines()[-1].startswith("nothing would be downloaded")
    text = run(*words).stdout
    assert "RP21-a" in text and "report: rp21/report.html" in text
    result = Result.load("rp21")
    assert {verdict.claim for verdict in result.verdicts} >= {"RP21-a", "PD22-1"}
    assert result.provenance["command"].startswith("theodolite study run rp21 -m ")
    assert "RP21-a" in Path("rp21/report.html").read_text(encoding="utf-8")
    assert " steps, 0 missing\n" in run(*words, "--dry-run").stdout
    document = json.loads(run(*words, "--json").stdout)
    assert [verdict["claim"] for verdict in document["verdicts"]] == [verdict.claim for verdict in result.verdicts]
    checked = json.loads(run("study", "check", "rp21", "--to", "rp21", "--json").stdout)["checked"]
    assert checked and not any(each["comparable"] for each in checked)
    assert "not a reproduction" in " ".join(run("study", "check", "rp21", "--to", "rp21").stdout.split())
    assert "records: kept" in run("study", "export", "rp21", "kept", "--to", "rp21").stdout
    again = run("study", "check", "rp21", "--to", "kept", "--page", "kept.md").stdout
    assert "RP21-e" in again and "RP21-e" in Path("kept.md").read_text(encoding="utf-8")
    assert "RP21-a" in run("report", "rp21", "--to", "page.md").stdout + Path("page.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_step_that_fails_leaves_the_others_and_exit_code_1(run: Run, tiny: Any, files: Path) -> None:
    words = ["study", "run", "rp21", "-m", tiny("bert"), "--data", files, "--layers", 3, "--to", "rp21"]
    result = run(*words, *small("rp21", **{"repairs.global.n_directions": 99}), code=1)
    assert "n_directions=99" in result.stdout
    assert any(row.metric == "silhouette" for row in Result.load("rp21"))


@pytest.mark.slow
def test_a_study_runs_on_files_of_ones_own(run: Run, tiny: Any) -> None:
    random = np.random.default_rng(0)
    for split, count in (("train", 240), ("dev", 40)):
        lines = [f"the {random.choice(NOUNS)} {random.choice(VERBS)} it,{'ab'[i % 2]}" for i in range(count)]
        Path(f"{split}.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    own = ["--own", "train=train.csv", "--own", "dev=dev.csv", "--kind", "classification"]
    run("study", "run", "il23", "-m", tiny("bert"), *own, "--seeds", "0", "--to", "il23", *small("il23"))
    rows = Result.load("il23").rows
    assert {row.task for row in rows} == {"own"}
    assert {row.state for row in rows if row.metric == "accuracy"} >= {"fine-tuned", "isolayer", "isobn"}


def test_errors_name_the_value_and_the_way_out(refused: Callable[..., str], tiny: Any, files: Path, here: Path) -> None:
    model = tiny("bert")
    cases: dict[tuple[Any, ...], str] = {
        ("run", "rp12", "-m", model): "there is no study 'rp12'",
        ("run", "rp21", "-m", model, "-m", f"{model}/"): "two models are called",
        ("run", "rp21", "-m", model, "--data", files, "--task", "rte"): "no task 'rte'",
        ("run", "rp21", "-m", model, "--data", files, "--layers", "9"): "no layer 9",
        ("run", "rp21", "-m", model, "--data", files, "--set", "pionts=3"): "no setting 'pionts'",
        ("run", "rp21", "-m", model, "--data", files, "--set", "points"): "must be NAME=VALUE",
        ("run", "rp21", "-m", here / "nothing"): "there is no folder",
        ("check", "rp21", "--to", here / "nothing"): "there is no run of rp21",
    }
    for words, sentence in cases.items():
        assert sentence in refused("study", *words), words
