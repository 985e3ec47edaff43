"""A report of a saved result: it is read whole, nothing outside its folder is read, and a file that was changed is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_samples import finding_of, study

from theodolite.core.files import sha256_of
from theodolite.core.result import Result
from theodolite.core.rows import Row, write_rows


@pytest.fixture(scope="module")
def result() -> Result:
    return study(points=40, findings=(finding_of(),))


@pytest.fixture
def folder(result: Result, tmp_path: Path) -> Path:
    return result.save(tmp_path / "runs" / "one")


def rewrite(folder: Path, **changes: Any) -> None:
    about = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**about, **changes}))


def test_what_was_saved_is_loaded(result: Result, folder: Path) -> None:
    loaded = Result.load(folder)
    for name in ("verb", "title", "verdicts", "findings", "notes", "provenance"):
        assert getattr(loaded, name) == getattr(result, name)
    assert [row.to_dict() for row in loaded.rows] == [row.to_dict() for row in result.rows]
    assert {name: table.equals(result.records[name]) for name, table in loaded.records.items()} == {
        "paths": True,
        "spectra": True,
        "printed": True,
    }
    for mine, yours in zip(loaded.pictures, result.pictures, strict=True):
        assert np.array_equal(mine.points, yours.points)
        assert mine.columns == yours.columns


FILES = ["rows.parquet", "pictures/01.parquet", "records/spectra.parquet", "result.json"]


@pytest.mark.parametrize("name", FILES)
def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "elsewhere"
    (folder / name).rename(secret)
    (folder / name).symlink_to(secret)
    with pytest.raises(ValueError, match="leads out of the folder"):
        Result.load(folder)


def test_a_linked_folder_of_pictures_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "pictures").rename(tmp_path / "pictures")
    (folder / "pictures").symlink_to(tmp_path / "pictures")
    with pytest.raises(ValueError, match="leads out of the folder"):
        Result.load(folder)


def test_a_name_that_leads_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    rewrite(folder, files={"../../secret": sha256_of(tmp_path / "secret")})
    with pytest.raises(ValueError, match="leads out of the folder"):
        Result.load(folder)


@pytest.mark.parametrize("name", FILES[:3])
def test_a_file_that_was_changed_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    with pytest.raises(ValueError, match="is not the file that was saved"):
        Result.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ("[]", "does not describe a result"), ('{"format": 1, "files": {}}', "does not describe a result")],
)
def test_a_broken_description_is_named(folder: Path, text: str, message: str) -> None:
    (folder / "result.json").write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        Result.load(folder)
    assert "result.json" in str(error.value)


def test_verdicts_that_are_not_verdicts_are_refused(folder: Path) -> None:
    rewrite(folder, verdicts=[{"claim": "x"}])
    with pytest.raises(ValueError, match="does not describe a result"):
        Result.load(folder)


@pytest.mark.parametrize("ending", [".parquet", ".json", ".jsonl"])
def test_a_file_of_rows_is_a_result(tmp_path: Path, ending: str) -> None:
    row = Row(metric="iso_score", value=0.5, model="m")
    write_rows([row], tmp_path / f"mine{ending}")
    loaded = Result.load(tmp_path / f"mine{ending}")
    assert (loaded.verb, loaded.rows) == ("rows", (row,))


def test_what_is_not_a_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no result"):
        Result.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="does not hold a result"):
        Result.load(tmp_path)
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(ValueError, match="no known ending"):
        Result.load(tmp_path / "x.txt")
    (tmp_path / "x.parquet").write_text("PAR")
    with pytest.raises(ValueError, match="does not hold rows"):
        Result.load(tmp_path / "x.parquet")
