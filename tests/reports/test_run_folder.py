"""A run is read whole from its folder, and nothing outside of the folder is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from report_samples import study, write_run

from theodolite.core.rows import Row, write_rows
from theodolite.reports.run_folder import RunData, read_run


@pytest.fixture(scope="module")
def run() -> RunData:
    return study(points=40)


@pytest.fixture
def folder(run: RunData, tmp_path: Path) -> Path:
    return write_run(run, tmp_path / "runs" / "one")


def test_what_was_written_is_read(run: RunData, folder: Path) -> None:
    read = read_run(folder)
    for name in ("name", "title", "kind", "command"):
        assert getattr(read, name) == getattr(run, name)
    assert read.facts == run.facts
    assert [row.to_dict() for row in read.rows] == [row.to_dict() for row in run.rows]
    assert read.verdicts == run.verdicts
    assert read.spectra.equals(run.spectra) and read.paths.equals(run.paths)
    for mine, yours in zip(read.pictures, run.pictures, strict=True):
        assert np.array_equal(mine.points, yours.points)
        assert mine.columns == yours.columns


def test_what_is_optional_may_be_missing(folder: Path) -> None:
    for name in ("rows.parquet", "verdicts.json", "spectra.parquet", "paths.parquet"):
        (folder / name).unlink()
    read = read_run(folder)
    assert (read.rows, read.verdicts, read.spectra, read.paths) == ((), (), None, None)


def test_a_command_of_arguments_is_quoted_for_a_shell(folder: Path) -> None:
    told = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**told, "command": ["theodolite", "study", "run", "a b"]}))
    assert read_run(folder).command == "theodolite study run 'a b'"


@pytest.mark.parametrize("name", ["rows.parquet", "verdicts.json", "pictures/0.parquet", "spectra.parquet", "run.json"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "elsewhere"
    (folder / name).rename(secret)
    (folder / name).symlink_to(secret)
    with pytest.raises(ValueError, match="leads out of the run's folder"):
        read_run(folder)


def test_a_linked_folder_of_pictures_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "pictures").rename(tmp_path / "pictures")
    (folder / "pictures").symlink_to(tmp_path / "pictures")
    with pytest.raises(ValueError, match="leads out of the run's folder"):
        read_run(folder)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.json", "{", "is not JSON"),
        ("run.json", "[]", "must hold a JSON object"),
        ("verdicts.json", "{}", "must hold a JSON list"),
        ("verdicts.json", '[{"claim": "x"}]', "does not hold verdicts"),
        ("rows.parquet", "PAR", "does not hold rows"),
    ],
)
def test_a_broken_file_is_named(folder: Path, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_run(folder)
    assert name in str(error.value)


def test_a_table_without_its_columns_is_named(folder: Path) -> None:
    (folder / "spectra.parquet").write_bytes((folder / "paths.parquet").read_bytes())
    with pytest.raises(ValueError, match=r"spectra\.parquet lacks the column 'k'"):
        read_run(folder)


@pytest.mark.parametrize("ending", [".parquet", ".json", ".jsonl"])
def test_a_file_of_rows_is_a_run(tmp_path: Path, ending: str) -> None:
    row = Row(metric="iso_score", value=0.5, model="m")
    write_rows([row], tmp_path / f"mine{ending}")
    read = read_run(tmp_path / f"mine{ending}")
    assert (read.name, read.kind, read.rows) == ("mine", "rows", (row,))


def test_a_run_of_tune_is_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "tuned"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"model": "some/model", "task": "rte", "epochs": 3}))
    with pytest.raises(ValueError, match="has not finished"):
        read_run(folder)
    write_rows([Row(metric="accuracy", value=0.5, versions="python 3")], folder / "rows.parquet")
    (folder / "done.json").write_text(json.dumps({"after": 0.5}))
    read = read_run(folder)
    assert (read.name, read.kind, read.title) == ("tuned", "tune", "Fine-tuning model on rte")
    assert read.facts["settings"] == {"model": "some/model", "task": "rte", "epochs": 3, "after": 0.5}
    assert read.facts["versions"] == "python 3"


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no run"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is no run"):
        read_run(tmp_path)
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(ValueError, match="no known ending"):
        read_run(tmp_path / "x.txt")
