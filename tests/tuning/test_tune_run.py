"""What a run refuses, what it leaves behind, and that a finished one is only read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from theodolite.core.rows import read_rows  # noqa: E402
from theodolite.tasks import own_task  # noqa: E402
from theodolite.tasks.errors import DataError  # noqa: E402
from theodolite.tuning import tune  # noqa: E402
from theodolite.tuning.trainers import Diverged  # noqa: E402

Quick = Callable[..., Any]


def test_what_a_run_leaves_behind(quick: Quick, moods: Any) -> None:
    told: list[tuple[int, int]] = []
    settings = quick(moods, track="epoch")
    tuned = tune(settings, progress=lambda done, total: told.append((done, total)))
    folder = Path(settings.output)
    assert {path.name for path in folder.iterdir()} == {"settings.json", "done.json", "rows.parquet", "geometry.jsonl", "model"}
    assert read_rows(folder / "rows.parquet") == list(tuned.rows)
    assert told == [(step, 12) for step in range(1, 13)]
    scores = [(row.state, row.split, row.step, row.value) for row in tuned.rows if row.metric == "accuracy"]
    assert scores == [("pre-trained", "dev", 0, tuned.before), ("fine-tuned", "dev", 12, tuned.after)]
    assert all("transformers" in row.versions for row in tuned.rows if row.metric == "accuracy")


def test_a_finished_run_is_read(quick: Quick, moods: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = quick(moods, epochs=1)
    first = tune(settings)
    monkeypatch.setattr("theodolite.tuning.training._train", lambda *_: pytest.fail("it trained again"))
    again = tune(settings)
    assert (again.rows, again.after, again.steps) == (first.rows, first.after, first.steps)


def test_another_run_in_the_same_folder(quick: Quick, moods: Any) -> None:
    tune(quick(moods, epochs=1))
    with pytest.raises(FileExistsError, match=r"holds a run with epochs=1, not 2 .*--overwrite"):
        tune(quick(moods, epochs=2))
    with pytest.raises(FileExistsError, match="--resume"):
        tune(quick(moods, epochs=1), resume=False)
    assert tune(quick(moods, epochs=2), overwrite=True).steps == 12


def test_a_folder_with_files_of_others_is_left_alone(quick: Quick, moods: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match="no run of ours"):
        tune(quick(moods), overwrite=True)
    assert (tmp_path / "run" / "thesis.tex").read_text() == "mine"


def test_a_loss_that_is_no_number_ends_the_run(quick: Quick, moods: Any) -> None:
    with pytest.raises(Diverged, match=r"the loss is (nan|inf) at step \d+ with learning rate .*lower learning rate"):
        tune(quick(moods, learning_rate=1e30, warmup=0.0, epochs=3))


def test_a_siamese_loss_that_is_no_number_ends_the_run(quick: Quick, alike: Any) -> None:
    with pytest.raises(Diverged, match="the training has diverged"):
        tune(quick(alike, learning_rate=1e30, warmup=0.0, epochs=3))


def written(folder: Path, train: list[str], dev: list[str]) -> Any:
    for split, rows in (("train", train), ("dev", dev)):
        (folder / f"{split}.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    return own_task({s: folder / f"{s}.csv" for s in ("train", "dev")}, "classification")


def test_a_label_that_training_never_shows(quick: Quick, tmp_path: Path) -> None:
    task = written(tmp_path, ["the dog,a", "the cat,b"] * 10, ["the dog,a", "the river,z"])
    with pytest.raises(DataError, match=r"dev\.csv, line 3: label 'z'.*--drop-unseen"):
        tune(quick(task, epochs=1))
    assert next(row.n for row in tune(quick(task, epochs=1, drop_unseen=True)).rows if row.state == "fine-tuned") == 1


def test_too_few_rows(quick: Quick, tmp_path: Path, moods: Any) -> None:
    with pytest.raises(DataError, match="has 4 training examples; fine-tuning needs at least 16"):
        tune(quick(written(tmp_path, ["the dog,a", "the cat,b"] * 2, ["the dog,a"])))
    with pytest.raises(DataError, match="there must be two labels"):
        tune(quick(written(tmp_path, ["the dog,a"] * 20, ["the dog,a"]), output=str(tmp_path / "other")))


def test_a_cap_on_the_rows(quick: Quick, moods: Any) -> None:
    tuned = tune(quick(moods, train_rows=32, epochs=1))
    assert tuned.steps == 2
    assert {row.n for row in tuned.rows if row.metric == "train_loss"} == {32}
