"""Exactly the chosen parameters train; a run that is killed ends with the weights of one that was not, bit by bit."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402

from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.tuning import fine_tune  # noqa: E402
from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.runs import Run  # noqa: E402
from theodolite.tuning.trainers import (  # noqa: E402
    MARKER,
    EarlyStopping,
    LengthSampler,
    apply_strategy,
    last_checkpoint,
    seal,
    sealed_facts,
    trainer_arguments,
)

Quick = Callable[..., Any]


def changed(before: str, after: Path) -> set[str]:
    old, new = load_file(Path(before) / "model.safetensors"), load_file(after / "model.safetensors")
    assert set(old) == set(new)
    return {name for name in old if not torch.equal(old[name], new[name])}


def test_full_moves_everything_but_the_pooler(quick: Quick, moods: Any, tiny_bert: str) -> None:
    moved = changed(tiny_bert, fine_tune(quick(moods, epochs=1)).model_folder)
    names = {name for name in load_file(Path(tiny_bert) / "model.safetensors") if not name.startswith("pooler")}
    # Softmax is blind to a constant: the key's bias gets no gradient beyond rounding.
    assert names - moved <= {name for name in names if name.endswith("key.bias")}


@pytest.mark.parametrize(("strategy", "still"), [("frozen:0", 0), ("frozen:1", 1), ("frozen:2", 2)])
def test_frozen_layers_are_bit_identical(quick: Quick, moods: Any, tiny_bert: str, strategy: str, still: int) -> None:
    moved = changed(tiny_bert, fine_tune(quick(moods, epochs=1, strategy=strategy)).model_folder)
    assert not any(name.startswith("embeddings") for name in moved)
    for layer in range(2):
        assert any(name.startswith(f"encoder.layer.{layer}.") for name in moved) == (layer >= still)


@pytest.mark.slow
def test_head_leaves_the_encoder_and_still_learns(quick: Quick, moods: Any, tiny_bert: str) -> None:
    tuned = fine_tune(quick(moods, epochs=12, strategy="head", pooling="mean", learning_rate=0.1))
    assert changed(tiny_bert, tuned.model_folder) == set()
    assert tuned.after >= 0.8 > 0.6 > tuned.before  # of a random encoder, whose vectors need not be separable


def test_a_frozen_encoder_sees_no_dropout(tiny_bert: str) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu").module
    model = LinearHead(encoder, 2).train()
    assert encoder.training
    apply_strategy(encoder, "head")
    assert not model.train().encoder.training and model.training


@pytest.mark.slow
def test_lora_learns_and_leaves_a_plain_encoder(quick: Quick, moods: Any, tiny_bert: str) -> None:
    pytest.importorskip("peft", reason="peft is not installed")
    tuned = fine_tune(quick(moods, epochs=6, strategy="lora", learning_rate=2e-2))
    assert not any(name.startswith("embeddings") for name in changed(tiny_bert, tuned.model_folder))
    assert tuned.after >= 0.9


def test_lora_without_peft_names_the_command(tiny_bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match="needs peft, which is not installed; run: pip install peft"):
        apply_strategy(Encoder.load(tiny_bert, device="cpu").module, "lora")


def test_freezing_more_layers_than_there_are_is_an_error(tiny_bert: str) -> None:
    with pytest.raises(ValueError, match="frozen:3' must be from 0 to 2, the encoder's layers"):
        apply_strategy(Encoder.load(tiny_bert, device="cpu").module, "frozen:3")


def checkpoint(folder: Path, step: int, *, whole: bool = True) -> Path:
    folder = folder / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    if whole:
        seal(folder, stopped=False)
    return folder


def test_only_complete_checkpoints_count(tmp_path: Path) -> None:
    kept = checkpoint(tmp_path, 9)
    checkpoint(tmp_path, 10, whole=False)
    cut = checkpoint(tmp_path, 11)
    (cut / "model.safetensors").write_bytes(b"weigh")
    flipped = checkpoint(tmp_path, 12)
    (flipped / "model.safetensors").write_bytes(b"weighus")  # as long as before
    gone = checkpoint(tmp_path, 100)
    (gone / "model.safetensors").unlink()
    torn = checkpoint(tmp_path, 101)
    (torn / MARKER).write_text('{"files": {')
    with pytest.warns(UserWarning, match=r"model\.safetensors was changed after it was written") as warned:
        assert last_checkpoint(tmp_path) == kept
    assert len(warned) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-9"]
    assert last_checkpoint(tmp_path / "nowhere") is None


def test_a_checkpoint_does_not_count_without_that_of_its_best_epoch(tmp_path: Path) -> None:
    first, second = checkpoint(tmp_path, 5), checkpoint(tmp_path, 9, whole=False)
    seal(second, stopped=False, best=first.name)
    assert last_checkpoint(tmp_path) == second
    (first / "model.safetensors").write_bytes(b"weighus")
    with pytest.warns(UserWarning, match="checkpoint-5"):
        assert last_checkpoint(tmp_path) is None


def test_the_marker_knows_every_file(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 1, whole=False)
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text("abc")
    seal(folder, stopped=True)
    facts = sealed_facts(folder)
    assert facts is not None and facts["stopped"] and set(facts["files"]) == {"inner/file", "model.safetensors"}


CHILD = """
import os, pickle, sys
from theodolite.tuning import fine_tune
settings, kill_at = pickle.load(open(sys.argv[1], "rb"))
def progress(done, total):
    if done == kill_at:
        os.kill(os.getpid(), 9)
fine_tune(settings, progress=progress)
"""


def kill_at(settings: Any, step: int, folder: Path) -> None:
    """Run in a process of its own that ends by SIGKILL when a step is done, before that step's checkpoint."""
    path = folder / "settings.pickle"
    path.write_bytes(pickle.dumps((settings, step)))
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr


def weights(folder: Path) -> dict[str, Any]:
    tensors = load_file(folder / "model.safetensors")
    head = folder / "head.safetensors"
    return {**tensors, **({f"head.{k}": v for k, v in load_file(head).items()} if head.exists() else {})}


def are_equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
    assert set(first) == set(second)
    return all(torch.equal(first[name], second[name]) for name in first)


def check_continued_run(task: Any, quick: Quick, tmp_path: Path, break_off: Callable[[Any], None], **changes: Any) -> None:
    """A run that is interrupted, and continued next to an incomplete checkpoint, ends like one that never was."""
    options = {"epochs": 2, "track": "epoch", **changes}
    unbroken = fine_tune(quick(task, output=str(tmp_path / "unbroken"), **options))
    settings = quick(task, output=str(tmp_path / "broken"), **options)
    break_off(settings)
    saved = last_checkpoint(tmp_path / "broken" / "checkpoints")
    assert saved is not None and saved.name == (
        "checkpoint-8" if "save_steps" in changes else f"checkpoint-{unbroken.steps // 2}"
    )
    # The newest checkpoint on disk is one that a kill tore: the trainer alone would take it.
    torn = saved.with_name("checkpoint-17")
    torn.mkdir()
    (torn / "trainer_state.json").write_bytes((saved / "trainer_state.json").read_bytes()[:40])
    resumed = fine_tune(settings)
    assert are_equal(weights(resumed.model_folder), weights(unbroken.model_folder))
    assert (resumed.before, resumed.after, resumed.steps) == (unbroken.before, unbroken.after, unbroken.steps)
    assert geometry(resumed) == geometry(unbroken)


def geometry(tuned: Any) -> list[tuple[Any, ...]]:
    return [(row.step, row.layer, row.metric, row.label, row.value) for row in tuned.rows if row.layer is not None]


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_weights(quick: Quick, alike: Any, tmp_path: Path) -> None:
    """Of pairs; the crash tests kill a run with classes wherever it touches the disk."""
    check_continued_run(alike, quick, tmp_path, lambda settings: kill_at(settings, 11, tmp_path), save_steps=4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "strategy"), [("moods", "full"), ("moods", "lora"), ("alike", "full"), ("alike", "lora"), ("tags", "full")]
)
def test_an_interrupted_run_ends_with_the_same_weights(
    kind: str, strategy: str, quick: Quick, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if strategy == "lora":
        pytest.importorskip("peft", reason="peft is not installed")

    def break_off(settings: Any) -> None:
        def progress(done: int, total: int) -> None:
            if done == total // 2 + 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fine_tune(settings, progress=progress)

    batch = 8 if kind == "tags" else 16
    check_continued_run(request.getfixturevalue(kind), quick, tmp_path, break_off, strategy=strategy, batch_size=batch)


@pytest.mark.parametrize("kind", ["moods", "alike"])
@pytest.mark.slow
def test_a_run_by_length_that_is_interrupted_inside_an_epoch_ends_with_the_same_weights(
    kind: str, quick: Quick, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def break_off(settings: Any) -> None:
        def progress(done: int, total: int) -> None:
            if done == 11:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fine_tune(settings, progress=progress)

    check_continued_run(request.getfixturevalue(kind), quick, tmp_path, break_off, save_steps=4, by_length=True)


def test_batches_by_length_have_texts_of_similar_length_and_another_order_in_every_epoch() -> None:
    lengths = np.random.default_rng(0).integers(5, 100, 1003)
    sampler = LengthSampler(lengths, 16, seed=3)
    first = list(sampler)
    assert sorted(first) == list(range(1003)) and list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first and sorted(sampler) == list(range(1003))
    batches = [lengths[first[start : start + 16]] for start in range(0, 1003, 16)]
    padding = sum(len(batch) * batch.max() for batch in batches) / lengths.sum()
    shuffled = np.random.default_rng(1).permutation(lengths)
    assert padding < 1.1 < sum(16 * shuffled[start : start + 16].max() for start in range(0, 1003, 16)) / lengths.sum()
    assert np.corrcoef(np.arange(62), [batch.mean() for batch in batches[:62]])[0, 1] < 0.5, "batches come in random order"


def test_an_equal_score_is_no_improvement_and_does_not_use_up_the_patience() -> None:
    """The scores of epochs, and after which of them a run with a patience of 2 stops."""

    def stops_after(scores: list[float]) -> int | None:
        patience, best = EarlyStopping(early_stopping_patience=2), None
        args = SimpleNamespace(greater_is_better=True, metric_for_best_model="eval_accuracy")
        for epoch, score in enumerate(scores, 1):
            control = SimpleNamespace(should_training_stop=False)
            patience.on_evaluate(args, SimpleNamespace(best_metric=best), control, {"eval_accuracy": score})
            if control.should_training_stop:
                return epoch
            best = score if best is None or score > best else best
        return None

    assert stops_after([0.5, 0.4, 0.3, 0.6]) == 3
    assert stops_after([0.0, 0.0, 0.0, 0.0, 0.2, 0.1, 0.1]) == 7, "one class for every text, and then it learns"
    assert stops_after([0.5, 0.4, 0.5, 0.4]) == 4, "a tie does not begin the patience again"


@pytest.mark.parametrize(("patience", "steps"), [(None, 60), (2, 18), (20, 60)])
def test_warm_up_is_a_share_of_the_steps_that_are_trained_at_least(
    quick: Quick, moods: Any, tmp_path: Path, patience: int | None, steps: int
) -> None:
    settings = quick(moods, epochs=10, validation=0.3, patience=patience, warmup=0.1)
    arguments = trainer_arguments(settings, tmp_path, rows=960, metric="eval_accuracy")
    assert (arguments["warmup_steps"], arguments["num_train_epochs"]) == (steps, 10)


@pytest.mark.slow
def test_patience_is_remembered(quick: Quick, moods: Any, tmp_path: Path) -> None:
    options = {"epochs": 12, "validation": 0.3, "patience": 2}
    unbroken = fine_tune(quick(moods, output=str(tmp_path / "unbroken"), **options))
    settings = quick(moods, output=str(tmp_path / "broken"), **options)
    kill_at(settings, unbroken.steps - 1, tmp_path)  # one epoch without a better score is behind it, the second nearly so
    resumed = fine_tune(settings)
    assert (resumed.steps, resumed.best_epoch) == (unbroken.steps, unbroken.best_epoch)
    assert are_equal(weights(resumed.model_folder), weights(unbroken.model_folder))


@pytest.mark.slow
def test_a_run_killed_after_its_last_step_trains_no_further(
    quick: Quick, moods: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"epochs": 12, "validation": 0.3, "patience": 1}
    unbroken = fine_tune(quick(moods, output=str(tmp_path / "unbroken"), **options))
    settings = quick(moods, output=str(tmp_path / "broken"), **options)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save_model", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fine_tune(settings)
    assert sealed_facts(last_checkpoint(tmp_path / "broken" / "checkpoints"))["stopped"]  # type: ignore[arg-type, index]
    resumed = fine_tune(settings)
    assert (resumed.steps, resumed.after) == (unbroken.steps, unbroken.after)
    assert are_equal(weights(resumed.model_folder), weights(unbroken.model_folder))


@pytest.mark.slow
def test_a_real_kill_from_outside(quick: Quick, moods: Any, tmp_path: Path) -> None:
    settings = quick(moods, epochs=40, output=str(tmp_path / "run"))
    path = tmp_path / "settings.pickle"
    path.write_bytes(pickle.dumps((settings, -1)))
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoints = tmp_path / "run" / "checkpoints"
    end = time.monotonic() + 300
    while time.monotonic() < end and not list(checkpoints.glob(f"checkpoint-*/{MARKER}")):
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    saved = last_checkpoint(checkpoints)
    assert saved is not None
    step = json.loads((saved / "trainer_state.json").read_text())["global_step"]
    assert saved.name == f"checkpoint-{step}" and 0 < step < 240
