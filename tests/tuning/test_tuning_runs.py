"""What a run refuses, what it leaves behind, and that a finished one is only read."""

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

from theodolite.core.files import BusyError, Lock  # noqa: E402
from theodolite.core.result import Result  # noqa: E402
from theodolite.core.rows import read_rows  # noqa: E402
from theodolite.spaces.readers.data_files import DataError  # noqa: E402
from theodolite.tasks import own_task  # noqa: E402
from theodolite.tuning import LayerSettings, TuneSettings, fine_tune, runs  # noqa: E402
from theodolite.tuning.run_plans import settings_of_run  # noqa: E402

Quick = Callable[..., Any]


def test_a_run_can_be_scored_on_its_held_out_rows_without_reading_the_scored_split(
    quick: Quick, moods: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits, load = [], runs.load_task
    monkeypatch.setattr(runs, "load_task", lambda task, split, data: splits.append(split) or load(task, split, data))
    tuned = fine_tune(quick(moods, validation=0.3, eval_split="held-out", by_length=True))
    best = max(row.value for row in tuned.rows if row.metric == "accuracy" and row.split == "validation")
    assert splits == ["train"] and tuned.after == best
    with pytest.raises(ValueError, match="eval_split='held-out' needs held-out rows"):
        quick(moods, eval_split="held-out")


def test_what_a_run_leaves_behind(quick: Quick, moods: Any) -> None:
    reports: list[tuple[int, int]] = []
    settings = quick(moods, track="epoch")
    tuned = fine_tune(settings, progress=lambda done, total: reports.append((done, total)))
    folder = Path(settings.output)
    assert {path.name for path in folder.iterdir()} == {"settings.json", "result.json", "rows.parquet", "geometry.jsonl", "model"}
    assert read_rows(folder / "rows.parquet") == list(tuned.rows)
    assert reports == [(step, 12) for step in range(1, 13)]
    scores = [(row.state, row.split, row.step, row.value) for row in tuned.rows if row.metric == "accuracy"]
    assert scores == [("pre-trained", "dev", 0, tuned.before), ("fine-tuned", "dev", 12, tuned.after)]
    assert all("transformers" in row.versions for row in tuned.rows if row.metric == "accuracy")


def test_the_folder_is_a_result(quick: Quick, moods: Any) -> None:
    settings = quick(moods, epochs=1)
    tuned = fine_tune(settings)
    result = Result.load(settings.output)
    assert (result.verb, result.title, result.rows) == ("tune", "Fine-tuning bert on moods", tuned.rows)
    assert result.provenance["settings"]["epochs"] == 1 and "torch" in result.provenance["versions"]
    assert result.provenance["models"] == [{"name": "bert", "place": settings.model, "revision": ""}]
    outcome = dict(result.provenance["outcome"])
    assert outcome.pop("baseline") == 0.5 and outcome.pop("low") <= tuned.after
    assert outcome == {"before": tuned.before, "after": tuned.after, "best_epoch": 1.0, "steps": 6}
    assert {row.model for row in result} == {"bert"}


def test_a_finished_run_is_only_read(quick: Quick, moods: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = quick(moods, epochs=1)
    first = fine_tune(settings)
    monkeypatch.setattr("theodolite.tuning.training._train", lambda *_: pytest.fail("it trained again"))
    again = fine_tune(settings)
    assert (again.rows, again.after, again.steps) == (first.rows, first.after, first.steps)


@pytest.mark.slow
def test_another_run_in_the_same_folder_is_an_error(quick: Quick, moods: Any) -> None:
    fine_tune(quick(moods, epochs=1))
    with pytest.raises(FileExistsError, match=r"has a run with epochs=1, not 2 .*overwrite=True"):
        fine_tune(quick(moods, epochs=2))
    with pytest.raises(FileExistsError, match="resume=True"):
        fine_tune(quick(moods, epochs=1), resume=False)
    assert fine_tune(quick(moods, epochs=2), overwrite=True).steps == 12


def test_a_folder_with_files_of_others_is_left_alone(quick: Quick, moods: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match="do not belong to a run"):
        fine_tune(quick(moods), overwrite=True)
    assert (tmp_path / "run" / "thesis.tex").read_text() == "mine"


def test_a_folder_with_settings_of_others_is_left_alone(quick: Quick, moods: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for content in ("{}", '{"model": "bert", "epochs": 1}', "not JSON", '{"format": 1, "verb": "extract"}'):
        (tmp_path / "run" / "settings.json").write_text(content)
        (tmp_path / "run" / "thesis.tex").write_text("mine")
        with pytest.raises(FileExistsError, match="do not belong to a run"):
            fine_tune(quick(moods), overwrite=True)
        assert {path.name for path in (tmp_path / "run").iterdir()} == {"settings.json", "thesis.tex"}


@pytest.mark.slow
def test_a_finished_run_stays_until_the_one_that_replaces_it_is_finished(
    quick: Quick, moods: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = fine_tune(quick(moods, epochs=1))
    few = task_of(tmp_path, ["the dog,a", "the cat,b"] * 2, ["the dog,a"])
    with pytest.raises(DataError):
        fine_tune(quick(few), overwrite=True)  # a mistyped file costs nothing
    with pytest.raises(ValueError, match=r"cannot be replaced, because .* in it is still needed"):
        fine_tune(quick(moods, model=str(finished.model_folder)), overwrite=True)

    def interrupt(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(quick(moods, epochs=2), overwrite=True, progress=interrupt)
    assert Result.load(finished.run_folder).rows == finished.rows and finished.model_folder.is_dir()
    replaced = fine_tune(quick(moods, epochs=2), overwrite=True)
    assert replaced.steps == 12 and Result.load(finished.run_folder).rows == replaced.rows
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
def test_a_run_that_was_cut_off_before_a_setting_existed_is_continued(quick: Quick, moods: Any) -> None:
    settings = quick(moods, epochs=2)

    def interrupt(done: int, total: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(settings, progress=interrupt)
    path = Path(settings.output) / "settings.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in values.items() if name != "published"}))
    reports: list[int] = []
    fine_tune(settings, progress=lambda done, total: reports.append(done))
    assert reports == list(range(7, 13))  # from the checkpoint at the end of the first epoch


@pytest.mark.slow
def test_a_link_to_a_run_stays_a_link(quick: Quick, moods: Any, tmp_path: Path) -> None:
    (tmp_path / "disk" / "run").mkdir(parents=True)
    (tmp_path / "run").symlink_to(tmp_path / "disk" / "run")
    fine_tune(quick(moods, epochs=1))
    assert fine_tune(quick(moods, epochs=2), overwrite=True).steps == 12
    assert (tmp_path / "run").is_symlink() and (tmp_path / "disk" / "run" / "result.json").is_file()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["run"]


def test_a_run_that_another_process_makes_is_left_to_it(quick: Quick, moods: Any) -> None:
    settings = quick(moods, epochs=1)
    Path(settings.output).parent.mkdir(parents=True, exist_ok=True)
    with Lock(Path(settings.output)), pytest.raises(BusyError, match=r"is writing to .*; wait until it ends"):
        fine_tune(settings)
    assert fine_tune(settings).steps == 6


def task_of(folder: Path, train: list[str], dev: list[str]) -> Any:
    for split, rows in (("train", train), ("dev", dev)):
        (folder / f"{split}.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    return own_task({s: folder / f"{s}.csv" for s in ("train", "dev")}, "classification")


def test_a_label_that_training_does_not_have_is_an_error(quick: Quick, tmp_path: Path) -> None:
    task = task_of(tmp_path, ["the dog,a", "the cat,b"] * 10, ["the dog,a", "the river,z"])
    with pytest.raises(DataError, match=r"dev\.csv, line 3: label 'z'.*drop_unseen=True"):
        fine_tune(quick(task, epochs=1))
    assert next(row.n for row in fine_tune(quick(task, epochs=1, drop_unseen=True)).rows if row.state == "fine-tuned") == 1


def test_too_few_rows_are_an_error(quick: Quick, tmp_path: Path, moods: Any) -> None:
    with pytest.raises(DataError, match="has 4 training examples; fine-tuning needs at least 16"):
        fine_tune(quick(task_of(tmp_path, ["the dog,a", "the cat,b"] * 2, ["the dog,a"])))
    with pytest.raises(DataError, match="there must be two labels"):
        fine_tune(quick(task_of(tmp_path, ["the dog,a"] * 20, ["the dog,a"]), output=str(tmp_path / "other")))


def test_a_cap_on_the_rows(quick: Quick, moods: Any) -> None:
    tuned = fine_tune(quick(moods, train_rows=32, epochs=1))
    assert tuned.steps == 2
    assert {row.n for row in tuned.rows if row.metric == "train_loss"} == {32}


def test_the_default_layer_is_written_out(quick: Quick, moods: Any) -> None:
    assert quick(moods, method="isobn").to_dict() == {**quick(moods).to_dict(), "method": "isobn"}
    layered = quick(moods, method="isolayer", validation=0.3).to_dict()
    assert layered["layer"]["alpha"] == 0.5
    assert layered == quick(moods, method="isolayer", validation=0.3, layer=LayerSettings()).to_dict()


def test_a_run_from_before_a_setting_existed_has_its_default(quick: Quick, moods: Any) -> None:
    settings = quick(moods, epochs=1)
    first = fine_tune(settings)
    path = Path(settings.output) / "settings.json"
    values = json.loads(path.read_text())
    assert set(values) == set(TuneSettings.__dataclass_fields__) - {"output"} | {"format", "verb"}
    later = ("method", "strength", "published", "layer", "track_hulls")
    path.write_text(json.dumps({name: value for name, value in values.items() if name not in later}))
    assert fine_tune(settings).rows == first.rows
    with pytest.raises(FileExistsError, match="method"):
        fine_tune(replace(settings, method="isobn"))
    assert settings_of_run(settings.output, output=settings.output, task=moods) == settings
