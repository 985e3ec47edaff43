"""Tables with named columns: what is written is what is read, with its line, whatever the delimiter, quotes and encoding."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from theodolite.spaces.readers.data_files import DataError, EmptyFileError, File, locate
from theodolite.spaces.readers.delimited import DelimitedTable, JsonTable, only_column, vector_columns

CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\ufeff"))
ROWS = st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6)
quick = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(tmp_path: Path, text: str, name: str = "t.csv", encoding: str = "utf-8") -> File:
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return locate(path)


@quick
@given(rows=ROWS, encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_quoted_cells_come_back_whatever_they_hold(tmp_path: Path, rows: list[tuple[str, str]], encoding: str) -> None:
    with open(tmp_path / "t.csv", "w", encoding=encoding, newline="") as file:
        csv.writer(file).writerows([("a", "b"), *rows])
    table = DelimitedTable(locate(tmp_path / "t.csv"), encoding=encoding, has_header=True)
    assert [tuple(cells) for _, cells in table.rows()] == rows
    assert [values["second"] for _, values in table.select({"second": "b"})] == [second for _, second in rows]


@quick
@given(rows=ROWS)
def test_json_values_come_back_whatever_they_hold(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    lines = [json.dumps({"a": a, "b": b}, ensure_ascii=False) for a, b in rows]
    table = JsonTable(write(tmp_path, "\n".join(lines), "t.jsonl"))
    assert table.names == ["a", "b"]
    assert [(values["x"], values["y"]) for _, values in table.select({"x": "a", "y": "b"})] == rows


def test_the_line_of_a_row_is_where_it_begins(tmp_path: Path) -> None:
    table = DelimitedTable(write(tmp_path, 'a,b\n"one\ntwo",1\n\nthree,3\n'))
    assert [line for line, _ in table.rows()] == [2, 5]
    plain = DelimitedTable(write(tmp_path, "a\tb\n\nx\ty\n", "t.tsv"), quoting=False)
    assert list(plain.rows()) == [(3, ["x", "y"])]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("a;b\n1;2\n", "t.csv", ["a", "b"]),
        ("a,b;c\n1,2\n", "t.csv", ["a", "b;c"]),
        ("a\tb\n1\t2\n", "t.csv", ["a", "b"]),
        ("a,b\tc\n1\t2\n", "t.tsv", ["a,b", "c"]),
        ("a\n1\n", "t.csv", ["a"]),
        ("1,2\n3,4\n", "t.csv", ["0", "1"]),  # no header: columns are counted
    ],
)
def test_delimiter_and_header_are_found(tmp_path: Path, text: str, name: str, expected: list[str]) -> None:
    assert DelimitedTable(write(tmp_path, text, name)).names == expected


def test_a_header_of_numbers_can_be_demanded(tmp_path: Path) -> None:
    table = DelimitedTable(write(tmp_path, "1,2\n3,4\n"), has_header=True)
    assert (table.names, list(table.rows())) == (["1", "2"], [(2, ["3", "4"])])


def test_quotes_may_be_text(tmp_path: Path) -> None:
    file = write(tmp_path, 'a,b\n"Stop,x\nhe said "no,x\n')
    assert [cells[0] for _, cells in DelimitedTable(file, quoting=False).rows()] == ['"Stop', 'he said "no']
    with pytest.raises(DataError, match=r"line 2: .*double the quotes") as caught:
        list(DelimitedTable(file).rows())
    assert "quoting" not in str(caught.value)  # only a task of one's own has such an option
    with pytest.raises(DataError, match=r"line 2: .*double the quotes.*quoting=False"):
        list(DelimitedTable(file, is_own=True).rows())


def test_a_missing_or_doubled_column_is_explained(tmp_path: Path) -> None:
    table = DelimitedTable(write(tmp_path, "text,text,Label\na,b,x\n"))
    with pytest.raises(DataError, match=r"line 1: there is no column 'label' for the tag; .*did you mean 'Label'.*; try tag"):
        next(table.select({"tag": "label"}, hint="; try ROLE"))
    with pytest.raises(DataError, match="line 1: column 'text' occurs twice"):
        next(table.select({"text": "text"}))
    objects = JsonTable(write(tmp_path, '{"a": 1}\n{"b": 1}\n', "t.jsonl"))
    with pytest.raises(DataError, match="line 2: there is no column 'a' for the x; the columns are b"):
        list(objects.select({"x": "a"}))


@pytest.mark.parametrize(("name", "kind"), [("t.csv", DelimitedTable), ("t.jsonl", JsonTable)])
def test_an_empty_file_is_an_error_of_its_own_kind(tmp_path: Path, name: str, kind: type) -> None:
    for text in ("", "\n\n"):
        with pytest.raises(EmptyFileError, match="the file is empty"):
            kind(write(tmp_path, text, name))


def test_columns_are_chosen_in_the_order_of_the_choice() -> None:
    file, names = File("t", None), ["x", "y", "dim_0", "dim_1", "a:b"]
    assert vector_columns(file, names, ["floats"] * 5, ["dim_*", "x"]) == [2, 3, 0]
    assert vector_columns(file, names, ["floats"] * 5, ["y:dim_1", "a:b"]) == [1, 2, 3, 4]
    assert only_column(file, names, "*_1") == "dim_1"
    with pytest.raises(DataError, match=r"'dim_\*' names 2 columns"):
        only_column(file, names, "dim_*")
    with pytest.raises(DataError, match=r"t: there is no column 'dm_0'; the columns are x, y.*did you mean 'dim_0'"):
        vector_columns(file, names, ["floats"] * 5, ["dm_0"])
