"""Methods during whole-network training act where they should, resume to the bit, and leave plain runs as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402

from theodolite.metrics.isoscore import iso_score  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import LayerSettings, TunedClassifier, TuneSettings, tune  # noqa: E402
from theodolite.tuning.batches import collate  # noqa: E402
from theodolite.tuning.classify import Classify  # noqa: E402
from theodolite.tuning.regularisers import cosine_regularisation  # noqa: E402
from theodolite.tuning.run import settings_of_run  # noqa: E402
from theodolite.tuning.splits import load_splits  # noqa: E402
from theodolite.tuning.trainers import Diverged  # noqa: E402

Quick = Callable[..., Any]
METHODS = ("isobn", "cosreg", "istar")


def value(tuned: Any, metric: str, state: str) -> float:
    return next(row.value for row in tuned.rows if row.metric == metric and row.state == state and row.split == "dev")


@pytest.mark.parametrize("method", METHODS)
def test_the_task_is_learnt_with_every_method_and_the_saved_model_gives_its_numbers(
    quick: Quick, moods: Any, method: str
) -> None:
    tuned = tune(quick(moods, epochs=6, method=method, strength=None if method == "isobn" else 0.1))
    assert tuned.after >= 0.9 > tuned.before
    loaded = TunedClassifier.from_pretrained(tuned.folder)
    dev = load_task(moods, "dev")
    assert np.mean(np.array(loaded.predict(dev.texts)) == np.array(dev.labels)) == tuned.after
    X = loaded.vectors(dev.texts)
    assert iso_score(X) == pytest.approx(value(tuned, "iso_score", "fine-tuned"), rel=1e-4)
    assert (tuned.folder / "layer.json").exists() == (method == "isobn")
    assert {row.setting for row in tuned.rows if row.metric == "ev_20" and row.state == "fine-tuned"} == {
        "isobn" if method == "isobn" else f"{method} strength=0.1"
    }


@pytest.mark.parametrize("strength", [0.5, 3.0])
def test_the_loss_is_the_tasks_and_the_penalty_of_the_heads_vectors_in_training_only(
    quick: Quick, moods: Any, tmp_path: Path, strength: float
) -> None:
    settings = quick(moods, method="cosreg", strength=strength)
    job = Classify(settings, load_splits(settings, None), tmp_path)
    for part in job.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    batch = collate(job.items(load_task(moods, "dev"))[:12], pad=job.pad)
    X = job.put.vectors(batch)
    with torch.no_grad():
        training, evaluated = (job.trainer.compute_loss(job.model.train(mode), dict(batch)) for mode in (True, False))
        task = job.model(**batch)["loss"]
    assert float(evaluated) == pytest.approx(float(task), abs=1e-6)
    assert float(training) == pytest.approx(float(task) + strength * float(cosine_regularisation(X)), abs=1e-5)


def test_a_penalty_of_no_weight_changes_nothing(quick: Quick, moods: Any, tmp_path: Path) -> None:
    runs = [
        tune(quick(moods, epochs=1, output=str(tmp_path / name), **told))
        for name, told in (
            ("plain", {}),
            ("cosreg", {"method": "cosreg", "strength": 0.0}),
            ("istar", {"method": "istar", "strength": 0.0}),
        )
    ]
    weights = [load_file(run.folder / "model.safetensors") for run in runs]
    for other in weights[1:]:
        assert all(torch.equal(weights[0][name], other[name]) for name in weights[0])


@pytest.mark.parametrize("method", ["isobn", "istar"])
def test_a_run_that_is_cut_off_ends_with_the_same_weights(quick: Quick, moods: Any, tmp_path: Path, method: str) -> None:
    told = {"method": method, "save_steps": 4, "epochs": 2}
    whole = tune(quick(moods, output=str(tmp_path / "whole"), **told))
    settings = quick(moods, output=str(tmp_path / "cut"), **told)
    seen: list[int] = []

    def stop(done: int, _: int) -> None:
        seen.append(done)
        if done == 10:  # inside the second epoch
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(settings, progress=stop)
    again = tune(settings)
    for name in ("model", "head", *(["layer"] if method == "isobn" else [])):
        first, second = (load_file(run.folder / f"{name}.safetensors") for run in (whole, again))
        assert all(torch.equal(first[key], second[key]) for key in first)


def test_the_last_batch_may_be_a_single_row(quick: Quick, moods: Any) -> None:
    tuned = tune(quick(moods, train_rows=33, epochs=1, batch_size=16, method="cosreg"))
    assert tuned.steps == 3


def test_a_plain_run_says_nothing_of_methods_so_that_older_runs_are_the_same(quick: Quick, moods: Any) -> None:
    told = quick(moods).to_dict()
    assert not {"method", "strength", "published", "layer"} & set(told)
    assert quick(moods, method="isobn").to_dict() == {**told, "method": "isobn"}
    layered = quick(moods, method="isolayer", validation=0.3).to_dict()
    assert layered["layer"]["alpha"] == 0.5
    assert layered == quick(moods, method="isolayer", validation=0.3, layer=LayerSettings()).to_dict()


def test_a_finished_plain_run_is_only_read(quick: Quick, moods: Any) -> None:
    settings = quick(moods, epochs=1)
    first = tune(settings)
    told = json.loads((Path(settings.output) / "settings.json").read_text())
    assert set(told) == set(TuneSettings.__dataclass_fields__) - {
        "output",
        "method",
        "strength",
        "published",
        "layer",
        "track_hulls",
    }
    again = tune(settings)
    assert again.rows == first.rows


def test_settings_come_back_from_a_run(quick: Quick, moods: Any, tmp_path: Path) -> None:
    settings = quick(moods, epochs=1, track=(3, 5), method="isobn")
    tune(settings)
    found = settings_of_run(settings.output, output=str(tmp_path / "other"), task=moods)
    assert replace(found, output=settings.output) == settings
    with pytest.raises(ValueError, match="own"):
        settings_of_run(settings.output, output="x")
    with pytest.raises(FileNotFoundError, match="no run"):
        settings_of_run(tmp_path, output="x")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"method": "isonet"}, "must be one of plain, isolayer"),
        ({"method": "isobn", "batch_size": 1}, "at least 2"),
        ({"method": "plain", "strength": 1.0}, "cosreg or istar"),
        ({"method": "cosreg", "published": True}, "isobn"),
        ({"method": "isobn", "layer": LayerSettings()}, "isolayer"),
        ({"method": "isolayer"}, "validation"),
    ],
)
def test_settings_that_make_no_sense(quick: Quick, moods: Any, told: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        quick(moods, **told)


def test_words_and_siamese_runs_have_no_place_for_a_method(quick: Quick, tags: Any, alike: Any) -> None:
    with pytest.raises(ValueError, match="many vectors a text"):
        quick(tags, method="isobn")
    with pytest.raises(ValueError, match="Siamese"):
        quick(alike, method="isobn")


def test_a_loss_that_is_no_number_ends_the_run_and_leaves_no_model(quick: Quick, moods: Any) -> None:
    settings = quick(moods, method="cosreg", strength=float("nan"))
    with pytest.raises(Diverged, match="learning rate"):
        tune(settings)
    assert not (Path(settings.output) / "model").exists()
    assert not (Path(settings.output) / "done.json").exists()
