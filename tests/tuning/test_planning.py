"""The papers' presets are what the papers print; which runs a request stands for, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from theodolite.tuning import LayerSettings, fine_tune, plan_runs  # noqa: E402
from theodolite.tuning.run_plans import PRESETS, preset, preset_for, settings_of_run  # noqa: E402

Quick = Callable[..., Any]


def test_presets_are_the_papers() -> None:
    rp21 = preset("rp21", task="stsb", model="m", output="o")
    assert (rp21.learning_rate, rp21.batch_size, rp21.epochs, rp21.pooled) == (7e-5, 32, 3, "mean")
    assert rp21.is_siamese
    il23 = preset("il23", task="rte", model="m", output="o")
    assert (il23.validation, il23.pooled) == (0.3, "cls") and il23.patience is not None
    assert not preset("il23", task="stsb", model="m", output="o").is_siamese
    zs22 = preset("zs22", task="pos", model="m", output="o", epochs=3)
    assert (zs22.learning_rate, zs22.batch_size, zs22.warmup, zs22.schedule, zs22.epochs) == (3e-4, 32, 0.1, "linear", 3)
    isobn = preset("isobn", task="rte", model="m", output="o", method="isobn")
    assert (isobn.learning_rate, isobn.batch_size, isobn.epochs, isobn.warmup) == (5e-5, 16, 10, 0.06)
    assert (isobn.max_length, isobn.pooler, isobn.validation) == (256, True, 0)
    with pytest.raises(ValueError, match="there is no preset 'rp22'; there are rp21, il23, isobn, zs22"):
        preset("rp22", task="stsb", model="m", output="o")


def test_every_preset_is_json_and_names_settings() -> None:
    for name in PRESETS:
        values = preset(name, task="stsb", model="m", output="o").to_dict()
        assert json.loads(json.dumps(values))["model"] == "m"
        assert "output" not in values


def test_the_preset_that_fits_a_kind_of_task() -> None:
    kinds = ("similarity", "classification", "pair_classification", "tagging", "word_pairs")
    assert [preset_for(kind) for kind in kinds] == ["rp21", "il23", "il23", "zs22", "zs22"]  # type: ignore[arg-type]
    assert preset_for("similarity", "isobn") == "il23"


def test_settings_come_back_from_a_run(quick: Quick, moods: Any, tmp_path: Path) -> None:
    settings = quick(moods, epochs=1, track=(3, 5), method="isobn")
    fine_tune(settings)
    earlier = settings_of_run(settings.output, output=str(tmp_path / "other"), task=moods)
    assert replace(earlier, output=settings.output) == settings
    with pytest.raises(ValueError, match="a run on your own task"):
        settings_of_run(settings.output, output="x")
    with pytest.raises(FileNotFoundError, match="not the folder of a run"):
        settings_of_run(tmp_path, output="x")


def test_a_request_is_one_run_with_the_preset_that_fits(moods: Any, alike: Any, tags: Any, tmp_path: Path) -> None:
    (run,) = plan_runs("demo", task=moods, to=tmp_path, seed=3, epochs=1)
    assert run.plain is None and run.settings.output == str(tmp_path)
    assert (run.settings.model, run.settings.seed, run.settings.epochs, run.settings.validation) == ("demo", 3, 1, 0.3)
    rates = [plan_runs("m", task=task, to="x")[0].settings.learning_rate for task in (moods, alike, tags)]
    assert rates == [2e-5, 7e-5, 3e-4]
    assert not plan_runs("m", task=alike, to="x", method="isobn")[0].settings.is_siamese
    assert plan_runs("m", task=moods, to="x", preset_name="zs22")[0].settings.learning_rate == 3e-4


def test_batches_are_by_length_unless_a_preset_is_named(moods: Any, alike: Any, tags: Any, tmp_path: Path) -> None:
    def by_length(task: Any, **options: Any) -> bool:
        return bool(plan_runs("m", task=task, to=tmp_path / "run", **options)[0].settings.by_length)

    assert by_length(moods) and by_length(alike) and by_length(tags)
    assert not by_length(alike, by_length=False)
    # The records of the studies were made with these.
    assert {name: preset(name, task="stsb", model="m", output="o").by_length for name in PRESETS} == {
        "rp21": False,
        "il23": True,
        "isobn": False,
        "zs22": False,
    }
    assert not by_length(alike, preset_name="rp21") and by_length(alike, preset_name="rp21", by_length=True)


@pytest.mark.parametrize("stored", [{"by_length": False}, {}])
def test_a_run_of_an_earlier_release_is_continued_with_its_own_batches(
    alike: Any, tiny_bert: str, tmp_path: Path, stored: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"task": alike, "to": tmp_path / "run", "epochs": 1, "track": None, "device": "cpu"}
    earlier = plan_runs(tiny_bert, by_length=False, **options)[0].settings
    finished = fine_tune(earlier)
    path = tmp_path / "run" / "settings.json"
    values = json.loads(path.read_text())
    del values["by_length"]
    path.write_text(json.dumps({**values, **stored}))
    (again,) = plan_runs(tiny_bert, **options)
    assert not again.settings.by_length
    assert fine_tune(again.settings).after == finished.after
    with pytest.raises(FileExistsError, match="by_length"):
        fine_tune(plan_runs(tiny_bert, by_length=True, **options)[0].settings)


def test_a_request_with_seeds_is_one_run_per_seed(moods: Any) -> None:
    runs = plan_runs("m", task=moods, to="x", seeds=[4, 2])
    assert [(run.settings.seed, run.settings.output) for run in runs] == [(4, "x/seed-4"), (2, "x/seed-2")]


@pytest.mark.parametrize(
    ("request_options", "message"),
    [
        ({"task": "cola"}, "name a model"),
        ({"model": "m"}, "name a task to fine-tune on, such as task='stsb'"),
        ({"model": "m", "task": "cola", "seeds": []}, "at least one seed"),
        ({"model": "m", "task": "cola", "seeds": [1, 1]}, "each only once"),
        ({"plain": "x"}, "for method isolayer, not 'plain'"),
        ({"plain": "x", "method": "isolayer", "epochs": 3}, "leave out epochs"),
        ({"plain": "x", "method": "isolayer", "preset_name": "il23"}, "leave out preset"),
        ({"plain": "x", "method": "isolayer"}, "x is not the folder of a run"),
    ],
)
def test_a_request_that_lacks_or_contradicts_something_is_an_error(request_options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        plan_runs(to="somewhere", **request_options)


def test_a_layer_starts_from_the_plain_run_that_is_named(plain_run: Path, moods: Any, tmp_path: Path) -> None:
    (run,) = plan_runs(to=tmp_path, task=moods, plain=plain_run, method="isolayer", layer=LayerSettings(alpha=0.3))
    assert (run.plain, run.settings.seed, run.settings.layer) == (plain_run, 0, LayerSettings(alpha=0.3))
    named = plain_run.rename(plain_run.with_name("seed-0"))
    try:
        for pattern in (named.parent, str(named.parent / "seed-{seed}")):
            (again,) = plan_runs(to=tmp_path, task=moods, plain=pattern, seeds=[0], method="isolayer")
            assert (again.plain, again.settings.output) == (named, str(tmp_path / "seed-0"))
        with pytest.raises(ValueError, match=r"is a run of .*bert, not of other; leave the model out"):
            plan_runs("other", to=tmp_path, task=moods, plain=named, method="isolayer")
        (named.parent / "seed-1").symlink_to(named)
        with pytest.raises(ValueError, match="seed-1 is a run with seed 0, not 1"):
            plan_runs(to=tmp_path, task=moods, plain=named.parent, seeds=[1], method="isolayer")
    finally:
        (named.parent / "seed-1").unlink(missing_ok=True)
        named.rename(plain_run)
