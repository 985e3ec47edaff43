"""What a run concludes, on tasks where it is known whether they can be learned."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra models is not installed")

import theodolite as th
from theodolite.core.result import Result
from theodolite.tuning.results import median_answer

WORDS = {"good": ("fine", "lovely", "bright", "kind"), "bad": ("awful", "grim", "cold", "mean")}
QUICK: dict[str, Any] = {"device": "cpu", "track": "never", "progress": False, "validation": 0.0}


def write_examples(path: Path, rng: np.random.Generator, rows: list[tuple[str, str]]) -> None:
    """Sentences of a mood with their labels, from pairs of mood and label."""
    lines = [f"the {rng.choice(WORDS[mood])} {rng.choice(['dog', 'cat', 'house'])} sees a tree .,{label}" for mood, label in rows]
    path.write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The moods of sentences, in files of the user's own."""
    folder, rng = tmp_path_factory.mktemp("own"), np.random.default_rng(5)
    for split in ("train", "dev"):
        write_examples(folder / f"{split}.csv", rng, [(mood, mood) for mood in WORDS for _ in range(48)])
    return {"own": {split: folder / f"{split}.csv" for split in ("train", "dev")}, "kind": "classification"}


def parsed(words: str) -> dict[str, Any]:
    """The options of a shown command, by their names; an error if the command line has no such options."""
    import typer.main

    from theodolite.cli.app import app

    program, verb, *rest = shlex.split(words)
    assert program == "theodolite"
    command: Any = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    return dict(command.make_context(verb, rest).params)


@pytest.mark.slow
def test_a_task_that_a_word_decides_is_learned(tiny_bert: str, files: dict[str, Any], tmp_path: Path) -> None:
    result = th.tune(tiny_bert, **files, **QUICK, epochs=6, learning_rate=2e-3, pooling="mean", to=tmp_path / "run")
    assert result.answer is not None and result.answer.verdict == "learned"
    outcome = result.provenance["outcome"]
    assert outcome["after"] > 0.8 and outcome["baseline"] == 0.5 < outcome["low"] < outcome["after"]
    assert f"is {outcome['after']:.3f}, at least {outcome['low']:.3f}" in result.answer.sentence
    assert parsed(result.answer.next[0].words)["results"] == [str(tmp_path / "run")]
    assert Result.load(tmp_path / "run").answer == result.answer


def test_a_run_that_changes_no_weight_has_not_learned(tiny_bert: str, treebank: Path, tmp_path: Path) -> None:
    own = {split: treebank / f"{split}.conllu" for split in ("train", "dev")}
    options: dict[str, Any] = {"own": own, "kind": "tagging", "epochs": 1, "learning_rate": 1e-12, "seed": 3}
    result = th.tune(tiny_bert, **options, **QUICK, to=tmp_path / "run")
    assert result.answer is not None and result.answer.verdict == "not learned"
    outcome = result.provenance["outcome"]
    assert outcome["after"] == outcome["before"] and outcome["low"] < outcome["baseline"]
    assert f"is not above {outcome['baseline']:.3f} (the share of the largest class)" in result.answer.sentence
    again = parsed(result.answer.next[0].words)
    assert again["learning_rate"] == 2e-5 and again["model"] == tiny_bert and again["seed"] == 3 and again["kind"] == "tagging"
    assert again["own"] == [f"{split}={path}" for split, path in own.items()]
    assert again["to"] == f"{tmp_path / 'run'}-2"


def test_one_answer_for_every_text_is_a_collapse_whatever_the_score(tiny_bert: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    for split in ("train", "dev"):  # nothing in a text says that its label is rare
        rows = [(str(rng.choice(["good", "bad"])), "rare" if n < 4 else "usual") for n in range(96)]
        write_examples(tmp_path / f"{split}.csv", rng, rows)
    own = {split: tmp_path / f"{split}.csv" for split in ("train", "dev")}
    options: dict[str, Any] = {"own": own, "kind": "classification", "epochs": 2, "learning_rate": 1e-3}
    result = th.tune(tiny_bert, **options, **QUICK, to=tmp_path / "run")
    assert result.answer is not None and result.answer.verdict == "collapsed"
    assert result.provenance["outcome"]["after"] == pytest.approx(92 / 96)
    assert "all 96 dev examples the same answer" in result.answer.sentence and "0.958" in result.answer.sentence
    # Above the usual learning rates, the way out is the largest of them.
    assert parsed(result.answer.next[0].words)["learning_rate"] == 3e-4


@pytest.mark.parametrize(("rate", "verdict"), [(3e-3, "learned"), (1e-12, "not learned")])
def test_a_similarity_is_compared_with_the_untuned_encoder(
    rate: float, verdict: str, tiny_bert: str, alike: Any, tmp_path: Path
) -> None:
    result = th.tune(tiny_bert, task=alike, **QUICK, epochs=4, batch_size=16, learning_rate=rate, to=tmp_path / "run")
    assert result.answer is not None and result.answer.verdict == verdict
    outcome = result.provenance["outcome"]
    assert outcome["baseline"] == pytest.approx(outcome["before"]) and "(the untuned encoder)" in result.answer.sentence
    # A task in memory cannot be typed, so there is no command to try.
    assert len(result.answer.next) == (verdict == "learned")


@pytest.mark.slow
def test_seeds_are_judged_by_the_median_one(tiny_bert: str, files: dict[str, Any], tmp_path: Path) -> None:
    result = th.tune(
        tiny_bert, **files, **QUICK, epochs=6, learning_rate=2e-3, pooling="mean", seeds=[0, 1], to=tmp_path / "runs"
    )
    runs = [Result.load(tmp_path / "runs" / f"seed-{seed}") for seed in (0, 1)]
    assert result.answer is not None
    assert parsed(result.answer.next[0].words)["results"] == [str(tmp_path / "runs")]
    assert result.answer.reasons[0].startswith("2 of 2 seeds learned the task")
    # Of three seeds, one that failed neither decides nor is left out.
    failed = th.tune(tiny_bert, **files, **QUICK, epochs=1, learning_rate=1e-12, to=tmp_path / "failed")
    answer = median_answer([*runs, failed], tmp_path)
    assert answer is not None and answer.verdict == "learned" and "2 of 3 seeds" in answer.reasons[0]
    answer = median_answer([runs[0], failed, failed], tmp_path)
    assert answer is not None and answer.verdict != "learned" and "1 of 3 seeds" in answer.reasons[0]
    # Runs of an earlier release have no answer.
    assert median_answer([replace(runs[0], answer=None), runs[1]], tmp_path) is None
