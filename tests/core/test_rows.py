"""Rows are the same after writing and reading, and files are whole or absent."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from theodolite.core.rows import Row, current_versions, installed_version, read_rows, require_rows_file, write_rows

ROWS = [
    Row(metric="iso_score", value=0.25, low=0.2, high=0.3, n=10, d=4, seed=1, layer=3, label="a</script>é", versions="x 1"),
    Row(metric="mean_cosine", value=math.nan, reason="one row has no pair"),
]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.json", "rows.jsonl"])
def test_rows_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    write_rows(ROWS, tmp_path / name)
    first, second = read_rows(tmp_path / name)
    assert first == ROWS[0]
    assert math.isnan(second.value)
    assert replace(second, value=0.0) == replace(ROWS[1], value=0.0)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.json", "rows.jsonl"])
def test_no_flipped_bit_changes_a_row(name: str, tmp_path: Path) -> None:
    rows = [replace(ROWS[0], layer=layer, value=layer / 7) for layer in range(5)]
    write_rows(rows, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    noticed, places = 0, range(0, len(whole), len(whole) // 250 | 1)  # an odd step comes by every bit of a byte
    for at in places:
        content = bytearray(whole)
        content[at] ^= 1 << at % 8
        (tmp_path / name).write_bytes(content)
        try:
            # A bit in a file's own statistics, or in white space, is in no row.
            assert read_rows(tmp_path / name) == rows
        except (ValueError, TypeError, OSError):  # what the command line turns into one sentence
            noticed += 1
    assert noticed > len(places) // 4


def test_rows_of_other_programs_have_no_hash(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('[{"metric": "iso_score", "value": 0.5}]')
    assert read_rows(tmp_path / "rows.json") == [Row(metric="iso_score", value=0.5)]


def test_rows_of_version_0_2_get_their_fields(tmp_path: Path) -> None:
    old = [
        {"metric": "hubness", "value": 1.0, "setting": "tokens sample=500 half-samples=40"},
        {"metric": "label_distance", "value": 2.0, "setting": "NOUN|VERB"},
    ]
    (tmp_path / "rows.json").write_text(json.dumps(old))
    first, second = read_rows(tmp_path / "rows.json")
    assert first == Row(metric="hubness", value=1.0, setting="tokens", sample=500)
    assert second == Row(metric="label_distance", value=2.0, label="NOUN", other_label="VERB")


def test_empty_results_have_the_same_columns(tmp_path: Path) -> None:
    write_rows([], tmp_path / "rows.parquet")
    assert read_rows(tmp_path / "rows.parquet") == []


def test_nan_is_null_in_json_and_keeps_its_reason(tmp_path: Path) -> None:
    write_rows(ROWS, tmp_path / "rows.json")
    record = json.loads((tmp_path / "rows.json").read_text())[1]
    assert record["value"] is None
    assert record["reason"] == "one row has no pair"


def test_nan_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="without a reason"):
        Row(metric="iso_score", value=math.nan)


def test_unknown_endings_and_fields_are_named(tmp_path: Path) -> None:
    for act in (lambda: write_rows(ROWS, tmp_path / "rows.xlsx"), lambda: read_rows(tmp_path / "rows.xlsx")):
        with pytest.raises(ValueError, match=r"\.parquet, \.json or \.jsonl"):
            act()
    with pytest.raises(ValueError, match="'colour'"):
        Row.from_dict({"metric": "a", "value": 1.0, "colour": "red"})


def test_versions_name_the_main_libraries() -> None:
    assert all(name in current_versions() for name in ("python", "numpy", "scikit-learn", "theodolite"))
    assert installed_version("no-such-package") == "not installed"


def test_a_file_that_cannot_be_written_is_an_error_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("[]")
    assert require_rows_file(tmp_path / "rows.json") == tmp_path / "rows.json"  # rows are replaced
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        require_rows_file(tmp_path / "nowhere" / "rows.json")


SEPARATORS = "a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg\rh"


@pytest.mark.parametrize("name", ["rows.parquet", "rows.json", "rows.jsonl"])
def test_line_separators_inside_a_label_are_text(name: str, tmp_path: Path) -> None:
    rows = [Row(metric="m", value=1.0, label=SEPARATORS), Row(metric="m", value=2.0, label="[/]\x1b[31m\n")]
    write_rows(rows, tmp_path / name)
    assert read_rows(tmp_path / name) == rows


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"metric": "m", "value": "x"}', "value is 'x'; it must be a number"),
        ('{"value": 1}', "it lacks 'metric'"),
        ("3", "3 is not a row"),
        ("[" * 100_000, "nested too deeply"),
        ('{"metric": "m", "value": ' + "9" * 400 + "}", "value has too many digits"),
    ],
)
def test_damaged_rows_are_one_sentence(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(ValueError, match=f"does not hold complete rows .*{fault}"):
        read_rows(tmp_path / "rows.jsonl")
