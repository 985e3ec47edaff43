"""Results: a sequence of rows, saved and loaded whole, and nothing outside of a result's folder is read."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

from theodolite.core.pictures import draw_picture
from theodolite.core.result import Answer, Effect, Finding, Judged, Result, Verdict, table_of
from theodolite.core.rows import Row, read_rows, write_rows

X = np.random.default_rng(0).standard_normal((30, 5))
ROWS = (
    Row(metric="iso_score", value=0.5, layer=0, model="m"),
    Row(metric="iso_score", value=0.6, layer=1, model="m", low=0.5, high=0.7),
    Row(metric="hubness", value=math.nan, reason="too few rows", layer=1, model="m"),
)
FINDING = Finding(
    topic="cone",
    verdict="bad",
    value=0.9,
    metric="mean_cosine",
    healthy="at most 0.2",
    source="s",
    meaning="m",
    action="a",
    rows=(3, 4),
)
EFFECT = Effect(name="gain", value=0.1, low=-0.1, high=0.3, n=5, how="5 seeds")
VERDICT = Verdict(
    claim="c1",
    title="A claim",
    rule="gain",
    model="m",
    measured=Judged(
        source="measured", outcome="supported", why="it rose", effects=(EFFECT, Effect(name="undefined", value=math.nan))
    ),
    printed=(Judged(source="table 2", outcome="not printed", why="no rows"),),
)


def sample(**changes: Any) -> Result:
    fields: dict[str, Any] = {
        "verb": "study",
        "title": "A title",
        "rows": ROWS,
        "findings": (FINDING,),
        "verdicts": (VERDICT,),
        "pictures": (draw_picture(X, columns={"token": list("abcde" * 6)}, about={"layer": 1}), draw_picture(2 * X)),
        "records": {"paths": table_of([{"step": 0, "x": 1.5}, {"step": 1, "x": 2.5}]), "spectra": table_of([{"k": 1}])},
        "notes": ("one note",),
        "provenance": {"command": "theodolite study run", "inputs": ["a"], "settings": {"seed": 1}},
    }
    return Result(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sample().save(tmp_path / "runs" / "first")


def unhashed(folder: Path) -> dict[str, Any]:
    """What a result's description says, as earlier releases wrote it: without a hash of itself."""
    about: dict[str, Any] = json.loads((folder / "result.json").read_text())
    del about["sha256"]
    return about


def test_a_result_of_an_earlier_release_has_no_hash_of_its_description(folder: Path) -> None:
    before = Result.load(folder)
    (folder / "result.json").write_text(json.dumps(unhashed(folder)))
    assert Result.load(folder).to_dict() == before.to_dict()


def test_no_flipped_bit_of_the_description_changes_what_is_loaded(folder: Path) -> None:
    right, whole = Result.load(folder).to_dict(), (folder / "result.json").read_bytes()
    for at in range(0, len(whole), 3):
        data = bytearray(whole)
        data[at] ^= 1 << at % 7
        (folder / "result.json").write_bytes(bytes(data))
        try:
            loaded = Result.load(folder).to_dict()
        except (ValueError, OSError):
            continue
        assert loaded == right, f"byte {at}"


def test_a_result_is_a_sequence_of_its_rows() -> None:
    result = sample()
    assert isinstance(result, Sequence)
    assert len(result) == 3
    assert result[0] is ROWS[0] and result[-1] is ROWS[2]
    assert result[:2] == ROWS[:2]
    assert list(result) == list(ROWS)


def test_rows_are_selected_by_their_fields() -> None:
    result = sample()
    assert result.where(metric="iso_score", layer=1).rows == (ROWS[1],)
    assert result.where().rows == ROWS
    assert result.where(layer=7).rows == ()
    assert result.where(layer=1).findings == result.findings
    with pytest.raises(ValueError, match="a row has no field 'colour'; it has metric, value"):
        result.where(colour="red")


def test_one_value_is_found_or_the_error_says_how_many_there_are() -> None:
    result = sample()
    assert result.value("iso_score", layer=1) == 0.6
    with pytest.raises(LookupError, match="2 rows have metric='iso_score'; name fields that only one row has"):
        result.value("iso_score")
    with pytest.raises(LookupError, match="0 rows have metric='iso_score', layer=9"):
        result.value("iso_score", layer=9)


def test_a_frame_has_one_column_per_field_that_a_row_has() -> None:
    frame = sample().frame()
    assert list(frame.columns) == [
        name for name in Row.FIELDS if any(getattr(row, name) not in (None, "") for row in sample().rows)
    ]
    assert frame["value"][:2].tolist() == [0.5, 0.6]
    assert list(sample(rows=()).frame().columns) == list(Row.FIELDS)


def test_what_was_saved_is_loaded(folder: Path) -> None:
    result, loaded = sample(), Result.load(folder)
    for name in ("verb", "title", "findings", "notes", "provenance"):
        assert getattr(loaded, name) == getattr(result, name)
    assert [row.to_dict() for row in loaded] == [row.to_dict() for row in result]
    assert math.isnan(loaded[2].value)
    assert repr(loaded.verdicts) == repr(result.verdicts)  # with nan, which equals nothing
    assert list(loaded.records) == list(result.records)
    assert all(loaded.records[name].equals(table) for name, table in result.records.items())
    for mine, theirs in zip(loaded.pictures, result.pictures, strict=True):
        np.testing.assert_array_equal(mine.points, theirs.points)
        assert (dict(mine.about), dict(mine.columns)) == (dict(theirs.about), dict(theirs.columns))


def test_an_empty_result_is_loaded_too(tmp_path: Path) -> None:
    loaded = Result.load(Result(verb="survey").save(tmp_path / "empty"))
    assert (loaded.verb, len(loaded), loaded.findings, dict(loaded.records)) == ("survey", 0, (), {})


def test_saving_again_replaces_the_result(folder: Path) -> None:
    sample(rows=ROWS[:1], pictures=(), records={}, title="Another").save(folder)
    loaded = Result.load(folder)
    assert (loaded.title, len(loaded), loaded.pictures, dict(loaded.records)) == ("Another", 1, (), {})


def test_a_file_that_is_not_for_rows_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(FileExistsError, match=r"is a file; name a folder, or a file that ends in \.parquet"):
        sample().save(tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text() == "all of it"


def test_a_failed_save_leaves_the_result_that_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(folder.rglob("*"))

    def full_disk(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("theodolite.core.result.write_picture", full_disk)
    with pytest.raises(OSError, match="no space left"):
        sample(title="another").save(folder)
    assert Result.load(folder).title == sample().title and sorted(folder.rglob("*")) == before


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("of a space")
    with pytest.raises(FileExistsError, match=r"rows\.parquet does not belong to a result of the verb .*, so it is not replaced"):
        sample().save(tmp_path)
    assert (tmp_path / "rows.parquet").read_text() == "of a space"
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]
    sample().save(tmp_path / "result")
    with pytest.raises(FileExistsError, match="does not belong to a result of the verb gate"):
        sample(verb="gate").save(tmp_path / "result")


@pytest.mark.parametrize("ending", [".parquet", ".json", ".jsonl"])
def test_a_file_of_rows_is_a_result(tmp_path: Path, ending: str) -> None:
    path = sample().save(tmp_path / f"mine{ending}")
    assert [row.to_dict() for row in read_rows(path)] == [row.to_dict() for row in ROWS]
    loaded = Result.load(path)
    assert (loaded.verb, loaded.title, len(loaded)) == ("rows", f"Rows of mine{ending}", 3)


def test_numpy_numbers_and_undefined_numbers_become_json(tmp_path: Path) -> None:
    provenance = {"n": np.int64(3), "share": np.float32(0.5), "bad": math.inf, "nested": ({"x": math.nan},)}
    values = sample(provenance=provenance).to_dict()["provenance"]
    assert values == {"n": 3, "share": 0.5, "bad": None, "nested": [{"x": None}]}
    assert json.loads(json.dumps(sample(provenance=provenance).to_dict(), allow_nan=False))
    assert Result.load(sample(provenance=provenance).save(tmp_path / "r")).provenance == values


@pytest.mark.parametrize(
    "name", ["rows.parquet", "pictures/01.parquet", "pictures/02.parquet", "records/paths.parquet", "records/spectra.parquet"]
)
def test_a_changed_file_is_refused(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match="is not the file that was saved: its SHA-256 differs") as error:
        Result.load(folder)
    assert name in str(error.value)


@pytest.mark.parametrize("name", ["rows.parquet", "result.json", "pictures/01.parquet", "records/paths.parquet"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="points outside the result's folder") as error:
        Result.load(folder)
    assert "is not JSON" not in str(error.value)


def test_a_linked_folder_of_pictures_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "pictures").rename(tmp_path / "pictures")
    (folder / "pictures").symlink_to(tmp_path / "pictures")
    with pytest.raises(ValueError, match="points outside the result's folder"):
        Result.load(folder)


@pytest.mark.parametrize("name", ["../secret.parquet", "/etc/passwd", "pictures/../../secret.parquet"])
def test_a_file_list_that_leads_out_of_the_folder_is_refused(folder: Path, name: str) -> None:
    (folder.parent / "secret.parquet").write_text("x")
    about = unhashed(folder)
    (folder / "result.json").write_text(json.dumps({**about, "files": {**about["files"], name: "0"}}))
    with pytest.raises(ValueError, match="points outside the result's folder"):
        Result.load(folder)


def test_rows_that_the_file_list_leaves_out_are_refused(folder: Path) -> None:
    about = unhashed(folder)
    (folder / "result.json").write_text(json.dumps({**about, "files": {}}))
    with pytest.raises(ValueError, match=r"rows\.parquet is not the file that was saved"):
        Result.load(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "records" / "paths.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"records/paths\.parquet is missing; run the verb again"):
        Result.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        (b"\xff\xfe\xff", "is not JSON"),
        ("[]", "does not describe a result"),
        ("{}", "does not describe a result"),
        ('{"format": 99, "files": {}}', "has format 99; this version reads format 1"),
    ],
)
def test_a_broken_description_is_named(folder: Path, text: str | bytes, message: str) -> None:
    (folder / "result.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message) as error:
        Result.load(folder)
    assert "result.json" in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"verb": None, "verdicts": {}, "findings": [3]},
        {"findings": [{"topic": "x"}]},
        {"verdicts": [{"claim": "x"}]},
        {"verdicts": [{"claim": "x", "measured": {"effects": [{}]}, "printed": []}]},
        {"notes": 3},
    ],
)
def test_a_description_with_wrong_parts_is_named(folder: Path, changes: dict[str, Any]) -> None:
    about = unhashed(folder)
    (folder / "result.json").write_text(json.dumps({**about, **changes}))
    with pytest.raises(ValueError, match=r"result\.json does not describe a result .*; run the verb again"):
        Result.load(folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [("rows.parquet", "PAR"), ("rows.json", "{"), ("rows.json", "[3]"), ("rows.json", '[{"colour": 1}]'), ("rows.jsonl", "[]")],
)
def test_a_file_that_does_not_hold_rows_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=f"{name} does not hold rows"):
        Result.load(tmp_path / name)


def test_what_is_not_a_result_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no result .*nowhere; name a folder that a verb wrote"):
        Result.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="does not hold a result"):
        Result.load(tmp_path)
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(ValueError, match="no known ending"):
        Result.load(tmp_path / "x.txt")


def test_results_are_joined_in_order() -> None:
    second = sample(rows=ROWS[:1], records={"paths": table_of([{"step": 2, "y": "z"}])}, title="Other", notes=("two",))
    joined = Result.joined([sample(), second])
    assert joined.rows == (*ROWS, ROWS[0])
    assert joined.title == "A title, Other"
    assert Result.joined([sample(), second], title="Both").title == "Both"
    assert joined.notes == ("one note", "two")
    assert joined.provenance == {**sample().provenance, "inputs": ["a", "a"]}
    assert joined.records["paths"].to_pylist() == [
        {"step": 0, "x": 1.5, "y": None},
        {"step": 1, "x": 2.5, "y": None},
        {"step": 2, "x": None, "y": "z"},
    ]
    assert joined.records["spectra"].num_rows == 1
    assert len(joined.pictures) == 4 and len(joined.findings) == len(joined.verdicts) == 2


def test_records_in_single_and_double_precision_are_joined() -> None:
    kinds = (pyarrow.float32(), pyarrow.float64())
    results = [sample(records={"draws": pyarrow.table({"items": pyarrow.array([[0.5]], pyarrow.list_(kind))})}) for kind in kinds]
    assert Result.joined(results).records["draws"].to_pylist() == [{"items": [0.5]}] * 2


def test_one_result_joined_is_itself() -> None:
    result = sample()
    assert Result.joined([result]).rows is result.rows
    assert Result.joined([result], title="New").title == "New"


def test_a_finding_knows_how_severe_it_is() -> None:
    severities = [Finding(**{**vars(FINDING), "verdict": verdict}).severity for verdict in ("good", "watch", "bad")]
    assert severities == [0, 1, 2]


def test_a_table_has_one_column_per_key() -> None:
    table = table_of([{"a": 1}, {"a": None}])
    assert isinstance(table, pyarrow.Table)
    assert table.to_pydict() == {"a": [1, None]}


def test_rows_written_by_hand_are_loaded(tmp_path: Path) -> None:
    write_rows(ROWS[:1], tmp_path / "mine.json")
    assert Result.load(tmp_path / "mine.json").rows == ROWS[:1]


def test_a_verdict_that_the_verb_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="'fine' is not a verdict of survey; it must be one of not judged, OK, watch, bad"):
        Result(verb="survey", answer=Answer(verdict="fine", sentence="All is fine."))
    with pytest.raises(ValueError, match="an answer has 4 reasons; it may have at most three"):
        Answer(verdict="OK", sentence="All is OK.", reasons=tuple("abcd"))
