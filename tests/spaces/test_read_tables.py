"""Tables and texts: vectors out of columns, lists and lines; faults by line and column."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from theodolite.core.vectors import array
from theodolite.spaces import read

X = np.random.default_rng(1).normal(size=(2500, 4))
NAMES = [f"dim_{i}" for i in range(4)]


@pytest.fixture
def frame() -> pd.DataFrame:
    table = pd.DataFrame(X, columns=NAMES)
    table.insert(0, "text", [f'a "quoted", word\n{i}' for i in range(len(X))])
    return table


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=700)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


TABLES = pytest.mark.parametrize("ending", [".parquet", ".csv", ".tsv", ".jsonl"])


@TABLES
@pytest.mark.parametrize("columns", [NAMES, ["dim_0:dim_3"], ["dim_*"], ["dim_0", "dim_1:dim_2", "*_3"]])
def test_columns_are_chosen_by_name_range_and_pattern(tmp_path: Path, frame, ending: str, columns: list[str]) -> None:
    opened = read(write(frame, tmp_path / f"v{ending}"), columns=columns)
    for _ in range(2):  # the second pass comes from the spool where there is one
        np.testing.assert_allclose(array(opened), X, atol=1e-14)
    np.testing.assert_allclose(opened.take(np.array([0, 1024, 2499])), X[[0, 1024, 2499]], atol=1e-14)


@TABLES
def test_columns_keep_the_order_asked_for(tmp_path: Path, frame, ending: str) -> None:
    opened = read(write(frame, tmp_path / f"v{ending}"), columns=["dim_2", "dim_0"])
    np.testing.assert_allclose(array(opened), X[:, [2, 0]], atol=1e-14)


@TABLES
def test_one_list_column_is_found_among_others(tmp_path: Path, frame, ending: str) -> None:
    lists = pd.DataFrame({"text": frame["text"], "embedding": list(X.tolist())})
    opened = read(write(lists, tmp_path / f"v{ending}"))
    np.testing.assert_allclose(array(opened), X, atol=1e-14)


@TABLES
def test_all_numeric_columns_need_no_choice(tmp_path: Path, frame, ending: str) -> None:
    np.testing.assert_allclose(array(read(write(frame[NAMES], tmp_path / f"v{ending}"))), X, atol=1e-14)


@TABLES
def test_a_column_of_text_is_named(tmp_path: Path, frame, ending: str) -> None:
    with pytest.raises(ValueError, match=r"'text'.*--columns"):
        read(write(frame, tmp_path / f"v{ending}"))


@TABLES
def test_a_row_number_is_not_taken_for_a_dimension(tmp_path: Path, frame, ending: str) -> None:
    numbered = frame[NAMES].assign(id=range(len(X)))
    with pytest.raises(ValueError, match=r"'id' looks like a row number.*--columns dim_0:dim_3"):
        read(write(numbered, tmp_path / f"v{ending}"))


@TABLES
def test_an_unknown_column_lists_the_known(tmp_path: Path, frame, ending: str) -> None:
    with pytest.raises(ValueError, match=r"no column 'vec'; it has text, dim_0"):
        read(write(frame, tmp_path / f"v{ending}"), columns=["vec"])


@TABLES
def test_a_column_asked_for_twice_is_refused(tmp_path: Path, frame, ending: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        read(write(frame, tmp_path / f"v{ending}"), columns=["dim_0", "dim_*"])


@TABLES
def test_lists_of_another_length_are_named(tmp_path: Path, ending: str) -> None:
    lists = X.tolist()
    lists[2000] = lists[2000][:3]
    path = write(pd.DataFrame({"v": lists}), tmp_path / f"v{ending}")
    with pytest.raises(ValueError, match=r"(row 2000|line 200[12]).*has 3 entries, the first (vector )?has 4"):
        array(read(path))


def test_parquet_streams_in_batches_and_knows_its_length(tmp_path: Path) -> None:
    wide = np.random.default_rng(0).normal(size=(3000, 1000)).astype(np.float32)
    pd.DataFrame({"v": list(wide)}).to_parquet(tmp_path / "v.parquet", row_group_size=500)
    opened = read(tmp_path / "v.parquet")
    sizes = [len(chunk) for chunk in opened._chunks()]
    assert opened.n == 3000
    assert opened.dtype == np.float32
    assert max(sizes) < 1100
    np.testing.assert_array_equal(array(opened), wide)


def test_parquet_gaps_are_named(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1.0, None], "b": [1.0, 2.0]}).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="row 1 of column 'a' is missing"):
        array(read(tmp_path / "v.parquet"))
    pd.DataFrame({"a": [[1.0], None]}).to_parquet(tmp_path / "w.parquet")
    with pytest.raises(ValueError, match="row 1 of column 'a' has no vector"):
        array(read(tmp_path / "w.parquet"))


def test_parquet_whole_numbers_beside_floats_are_questioned(tmp_path: Path) -> None:
    pd.DataFrame({"count": [1, 2], "a": [1.0, 2.0]}).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="'count' holds whole numbers beside 1 float"):
        read(tmp_path / "v.parquet")


def test_two_list_columns_must_be_told_apart(tmp_path: Path) -> None:
    for ending in (".parquet", ".csv", ".jsonl"):
        path = write(pd.DataFrame({"a": [[1.0, 2.0]], "b": [[3.0, 4.0]]}), tmp_path / f"v{ending}")
        with pytest.raises(ValueError, match=r"several list (columns|fields) \(a, b\)"):
            read(path)
        np.testing.assert_array_equal(array(read(path, columns=["b"])), [[3.0, 4.0]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("0,1,2\n5,6,7\n", [[5, 6, 7]]),  # the names a data frame gives by itself
        ("5,6,7\n0,1,2\n", [[5, 6, 7], [0, 1, 2]]),
        ("a;b\n1;2\n", [[1, 2]]),
        ('"[1, 2]"\n"[3, 4]"\n', [[1, 2], [3, 4]]),
        ('v\n"[1 2\n 3]"\n', [[1, 2, 3]]),  # as NumPy prints an array
        ("\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n", [[1, 2], [3, 4]]),
    ],
)
def test_csv_with_and_without_header(tmp_path: Path, text: str, expected: list[list[float]]) -> None:
    (tmp_path / "v.csv").write_bytes(text.encode())
    np.testing.assert_array_equal(array(read(tmp_path / "v.csv")), expected)


def test_csv_without_header_is_chosen_by_number(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("cat,1,2\ndog,3,4\n")
    np.testing.assert_array_equal(array(read(tmp_path / "v.csv", columns=["1:2"])), [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"line 1, column 0: 'cat' is not a number"):
        read(tmp_path / "v.csv")


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("v.csv", "a,b\n1,2\n3\n", "line 3 has 1 cells, the first line has 2"),
        ("v.csv", "a,b\n1,2\n3,x\n", "line 3, column 'b': 'x' is not a number"),
        ("v.csv", "a,b\n1,2\n3,\n", "line 3, column 'b': '' is not a number"),
        ("v.csv", 'v\n"[1, 2]"\nhello\n', "line 3, column 'v': 'hello' is not a list"),
        ("v.csv", "a,b\n", "header but no row"),
        ("v.jsonl", "[1, 2]\n[1, 2\n", "line 2 is not JSON"),
        ("v.jsonl", "[1, 2]\n\n[1, null]\n", "line 3, entry 1: null is not a number"),
        ("v.jsonl", '{"a": 1, "b": 2}\n{"a": 1}\n', "line 2 has no field 'b'"),
        ("v.txt", "1 2\n3 4\n5\n", "line 3 has 1 tokens, the first vector has 2"),
        ("v.txt", "1 2\n3 x\n", "line 2, column 2: 'x' is not a number"),
        ("v.vec", "3 2\nthe 1 2\na 3 4\n", "promises 3 vectors in its first line but holds 2"),
        ("v.vec", "the 1 2\na 3\n", "line 2 has 1 numbers, the first vector has 2"),
    ],
)
def test_faults_are_named_by_line_and_column(tmp_path: Path, name: str, text: str, fault: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=fault):
        array(read(tmp_path / name))


@pytest.mark.parametrize(
    "text",
    [
        "1 2\n3 4\n",
        "  1\t2\n\n3 4",
        "# made by hand\n1 2\n3 4\n",
        "the 1 2\nof 3 4\n",  # GloVe
        "2 2\nthe 1 2\nof 3 4\n",  # word2vec, fastText
        "the 1 2\n. . . 3 4\n",  # a word with spaces
        "# 1 2\n# 3 4\n",  # the word "#"
    ],
)
def test_text_of_every_kind_gives_the_same_vectors(tmp_path: Path, text: str) -> None:
    for name in ("v.txt", "v.vec"):
        (tmp_path / name).write_text(text)
        np.testing.assert_array_equal(array(read(tmp_path / name)), [[1, 2], [3, 4]])


def test_text_agrees_with_numpy_both_ways(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "v.txt", X)
    np.testing.assert_array_equal(array(read(tmp_path / "v.txt")), np.loadtxt(tmp_path / "v.txt"))


def test_text_that_is_no_utf8_is_told(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"a 1 2\n\xff 3 4\n")
    with pytest.raises(ValueError, match="line 2 is not UTF-8"):
        array(read(tmp_path / "v.txt"))


def test_not_a_number_is_found_by_the_gate(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text(json.dumps([1.0, 2.0]) + "\n" + json.dumps([1.0, float("nan")]) + "\n")
    with pytest.raises(ValueError, match="NaN at row 1, column 1"):
        array(read(tmp_path / "v.jsonl"))
