"""Vectors from the columns of tables: every format gives the same numbers, and faults are named by line and column."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import theodolite
from theodolite.core.spelling import ON_COMMAND_LINE
from theodolite.core.vectors import array
from theodolite.spaces import read
from theodolite.spaces.readers.data_files import locate
from theodolite.spaces.readers.table_vectors import read_parquet_column

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
@pytest.mark.parametrize("columns", [NAMES, ["dim_0:dim_3"], ["dim_*"], ["dim_0", "dim_1:dim_2", "*_3"], "dim_0,dim_1:dim_3"])
def test_columns_are_chosen_by_name_range_and_pattern(tmp_path: Path, frame, ending: str, columns: list[str] | str) -> None:
    source = read(write(frame, tmp_path / f"v{ending}"), columns=columns)
    for _ in range(2):  # the second pass comes from the spool, if there is one
        np.testing.assert_allclose(array(source), X, atol=1e-14)
    np.testing.assert_allclose(source.take(np.array([0, 1024, 2499])), X[[0, 1024, 2499]], atol=1e-14)


@TABLES
def test_rows_can_be_taken_before_the_first_full_pass(tmp_path: Path, frame, ending: str) -> None:
    source = read(write(frame[NAMES], tmp_path / f"v{ending}"))
    np.testing.assert_allclose(source.take(np.array([3, 2000])), X[[3, 2000]], atol=1e-14)


@TABLES
def test_columns_come_in_the_order_of_the_choice(tmp_path: Path, frame, ending: str) -> None:
    source = read(write(frame, tmp_path / f"v{ending}"), columns=["dim_2", "dim_0"])
    np.testing.assert_allclose(array(source), X[:, [2, 0]], atol=1e-14)


@TABLES
def test_the_only_list_column_is_taken(tmp_path: Path, frame, ending: str) -> None:
    lists = pd.DataFrame({"text": frame["text"], "embedding": list(X.tolist())})
    np.testing.assert_allclose(array(read(write(lists, tmp_path / f"v{ending}"))), X, atol=1e-14)


@TABLES
def test_number_columns_alone_need_no_choice(tmp_path: Path, frame, ending: str) -> None:
    np.testing.assert_allclose(array(read(write(frame[NAMES], tmp_path / f"v{ending}"))), X, atol=1e-14)


@TABLES
def test_text_and_other_numbers_next_to_counted_columns_are_left_out(tmp_path: Path, frame, ending: str) -> None:
    np.testing.assert_allclose(array(read(write(frame, tmp_path / f"v{ending}"))), X, atol=1e-14)
    mixed = frame.assign(id=range(len(X)), score=0.5)
    np.testing.assert_allclose(array(read(write(mixed, tmp_path / f"w{ending}"))), X, atol=1e-14)


@TABLES
def test_a_text_column_that_is_named_is_an_error(tmp_path: Path, frame, ending: str) -> None:
    with pytest.raises(ValueError, match=r"'text'.*columns=NAMES"):
        read(write(frame, tmp_path / f"v{ending}"), columns=["text", "dim_0"])


@TABLES
def test_a_row_number_is_not_taken_for_a_dimension(tmp_path: Path, frame, ending: str) -> None:
    path = write(named_by_letter(frame).assign(id=range(len(X))), tmp_path / f"v{ending}")
    with pytest.raises(ValueError, match=r"'id' looks like a row number.*columns='a:d'"):
        read(path)
    np.testing.assert_allclose(array(read(path, columns="a:d")), X, atol=1e-14)  # the hint as it is printed


def named_by_letter(frame):
    return frame[NAMES].rename(columns=dict(zip(NAMES, "abcd", strict=True)))


def test_on_the_command_line_the_hint_is_an_option(tmp_path: Path, frame) -> None:
    token = ON_COMMAND_LINE.set(True)
    try:
        with pytest.raises(ValueError, match=r"with --columns a:d$"):
            read(write(named_by_letter(frame).assign(id=range(len(X))), tmp_path / "v.csv"))
    finally:
        ON_COMMAND_LINE.reset(token)


@TABLES
def test_an_unknown_column_lists_those_there_are(tmp_path: Path, frame, ending: str) -> None:
    with pytest.raises(ValueError, match=r"no column 'vec'; the columns are text, dim_0"):
        read(write(frame, tmp_path / f"v{ending}"), columns=["vec"])


@TABLES
def test_a_column_chosen_twice_is_an_error(tmp_path: Path, frame, ending: str) -> None:
    with pytest.raises(ValueError, match="'dim_0' is chosen twice"):
        read(write(frame, tmp_path / f"v{ending}"), columns=["dim_0", "dim_*"])


@TABLES
def test_a_list_of_another_length_is_named(tmp_path: Path, ending: str) -> None:
    lists = X.tolist()
    lists[2000] = lists[2000][:3]
    path = write(pd.DataFrame({"v": lists}), tmp_path / f"v{ending}")
    with pytest.raises(ValueError, match=r"(row 2000|line 200[12]).*has 3 entries, (but )?the first (vector )?has 4"):
        array(read(path))


def test_several_list_columns_need_a_choice(tmp_path: Path) -> None:
    for ending in (".parquet", ".csv", ".jsonl"):
        path = write(pd.DataFrame({"a": [[1.0, 2.0]], "b": [[3.0, 4.0]]}), tmp_path / f"v{ending}")
        with pytest.raises(ValueError, match=r"several list columns \(a, b\); choose one with columns=NAME"):
            read(path)
        np.testing.assert_array_equal(array(read(path, columns=["b"])), [[3.0, 4.0]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("0,1,2\n5,6,7\n", [[5, 6, 7]]),  # the names that a data frame gives by default
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


def test_columns_without_a_header_are_chosen_by_number(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("cat,1,2\ndog,3,4\n")
    for columns in (["1:2"], None):
        np.testing.assert_array_equal(array(read(tmp_path / "v.csv", columns=columns)), [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"line 1: column 0: 'cat' is not a number"):
        read(tmp_path / "v.csv", columns=["0"])


def test_the_user_may_say_what_separates_cells_and_whether_there_is_a_header(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("0~1~2\n5~6~7\n")
    with pytest.raises(ValueError, match="no column holds numbers"):
        read(tmp_path / "v.csv")
    np.testing.assert_array_equal(array(read(tmp_path / "v.csv", delimiter="~")), [[5, 6, 7]])
    np.testing.assert_array_equal(array(read(tmp_path / "v.csv", delimiter="~", header=False)), [[0, 1, 2], [5, 6, 7]])
    (tmp_path / "v.txt").write_text("a b\n1 2\n")
    np.testing.assert_array_equal(array(read(tmp_path / "v.txt", delimiter=" ")), [[1, 2]])
    for wrong in ("", "ab", '"', "\n"):
        with pytest.raises(ValueError, match="must be one character"):
            read(tmp_path / "v.csv", delimiter=wrong)
    path = write(pd.DataFrame({"a": [1.0]}), tmp_path / "v.parquet")
    with pytest.raises(ValueError, match=r"header=False is for \.csv"):
        read(path, header=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", [[1, 2]]),
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("word\td0\td1\ncat\t1\t2\n", [[1, 2]]),
        ("id;v\nx;[1, 2]\n", [[1, 2]]),
        (", 1 2\n. 3 4\n", [[1, 2], [3, 4]]),  # words of a file of word vectors, not delimiters
        ("a 1 2\n, 3 4\n", [[1, 2], [3, 4]]),
        ("1\t2\n3\t4\n", [[1, 2], [3, 4]]),
    ],
)
def test_a_txt_file_may_be_a_table(tmp_path: Path, text: str, expected: list[list[float]]) -> None:
    (tmp_path / "v.txt").write_text(text)
    np.testing.assert_array_equal(array(read(tmp_path / "v.txt")), expected)


def test_decimal_commas_are_named_and_read_if_asked_for(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("a;b\n1;2\n0,5;0,25\n")
    with pytest.raises(
        ValueError, match="line 3: column 'a': '0,5' is not a number; if that is a decimal comma, use decimal=','"
    ):
        array(read(tmp_path / "v.csv"))
    np.testing.assert_array_equal(array(read(tmp_path / "v.csv", decimal=",")), [[1, 2], [0.5, 0.25]])
    (tmp_path / "v.csv").write_text('"0,5","0,25"\n1,2\n')  # as pandas writes it: the quotes tell both kinds of comma apart
    for options in ({}, {"delimiter": ","}):
        np.testing.assert_array_equal(array(read(tmp_path / "v.csv", decimal=",", **options)), [[0.5, 0.25], [1, 2]])
    with pytest.raises(ValueError, match="decimal=';' must be a point or a comma"):
        read(tmp_path / "v.csv", decimal=";")


def test_numbers_that_were_left_out_are_noted(tmp_path: Path, frame) -> None:
    path = write(frame.assign(score=0.5), tmp_path / "v.parquet")
    note = "vectors from columns dim_0, dim_1, dim_2, … (4 in all); left out: score"
    assert read(path).notes == (note,) and read(path).watched(lambda _: None).notes == (note,)
    assert read(path, columns="dim_*").notes == ()
    result = theodolite.survey(path, metrics=["iso_score"], findings=False, progress=False)
    assert note in result.notes


def test_a_column_name_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = [pa.array([1.0, 2.0]), pa.array([3.0, 4.0]), pa.array(["x", "y"])]
    pq.write_table(pa.Table.from_arrays(columns, names=["a", "a", "text"]), tmp_path / "v.parquet")
    for choice in (None, ["a"]):
        with pytest.raises(ValueError, match="column 'a' occurs twice"):
            read(tmp_path / "v.parquet", columns=choice)


def test_a_whole_number_of_400_digits_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text(f"[1, 2]\n[1, {'9' * 400}]\n")
    with pytest.raises(ValueError, match="line 2: a whole number is too large"):
        array(read(tmp_path / "v.jsonl"))


def test_a_cell_may_hold_a_very_long_list(tmp_path: Path) -> None:
    vector = np.random.default_rng(0).normal(size=(1, 20_000))  # beyond the csv module's default of 131,072 characters
    (tmp_path / "v.csv").write_text(f'v\n"{vector[0].tolist()}"\n')
    np.testing.assert_array_equal(array(read(tmp_path / "v.csv")), vector)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("v.csv", "a,b\n1,2\n3\n", "line 3: the line has 1 cells, but the header has 2"),
        ("v.csv", "1,2\n3\n", "line 2: the line has 1 cells, but the first line has 2"),
        ("v.csv", "a,b\n1,2\n3,x\n", "line 3: column 'b': 'x' is not a number"),
        ("v.csv", "a,b\n1,2\n3,\n", "line 3: column 'b': '' is not a number"),
        ("v.csv", 'v\n"[1, 2]"\nhello\n', "line 3: column 'v': 'hello' is not a list"),
        ("v.csv", "a,b\n", "header but no row"),
        ("v.csv", 'w,a,b\n",1,2\nx,3,4\n', "line 2: .*double the quotes inside a quoted cell$"),
        ("v.jsonl", "[1, 2]\n[1, 2\n", "line 2: this is not JSON"),
        ("v.jsonl", "[1, 2]\n\n[1, null]\n", "line 3: entry 1: null is not a number"),
        ("v.jsonl", '{"a": 1, "b": 2}\n{"a": 1, "b": "x"}\n', "line 2: field 'b': \"x\" is not a number"),
        ("v.jsonl", '{"a": 1, "b": 2}\n{"a": 1}\n', "line 2: there is no field 'b'"),
        ("v.jsonl", "[1, 2]\n{}\n", "line 2: this is dict; every line must be a list like the first"),
        ("v.jsonl", "3\n", "line 1: this is int; every line must be a list or an object"),
        ("v.jsonl", "[]\n", "line 1: the vector has no entries"),
    ],
)
def test_faults_are_named_by_line_and_column(tmp_path: Path, name: str, text: str, fault: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=fault):
        array(read(tmp_path / name))


def test_lists_without_names_have_no_columns(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text("[1, 2]\n")
    with pytest.raises(ValueError, match="which have no names; leave columns=NAMES out"):
        read(tmp_path / "v.jsonl", columns=["a"])


def test_nan_is_found_when_the_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text(json.dumps([1.0, 2.0]) + "\n" + json.dumps([1.0, float("nan")]) + "\n")
    with pytest.raises(ValueError, match="NaN at row 1, column 1"):
        array(read(tmp_path / "v.jsonl"))


# Parquet alone: streaming, gaps, and columns that are not dimensions


def test_the_file_is_read_in_batches_and_knows_its_length(tmp_path: Path) -> None:
    wide = np.random.default_rng(0).normal(size=(3000, 1000)).astype(np.float32)
    pd.DataFrame({"v": list(wide)}).to_parquet(tmp_path / "v.parquet", row_group_size=500)
    source = read(tmp_path / "v.parquet")
    sizes = [len(chunk) for chunk in source._chunks()]
    assert source.n == 3000
    assert source.dtype == np.float32
    assert max(sizes) < 1100
    np.testing.assert_array_equal(array(source), wide)


def test_missing_numbers_and_vectors_are_named(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1.0, None], "b": [1.0, 2.0]}).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="row 1 of column 'a' is missing"):
        array(read(tmp_path / "v.parquet"))
    pd.DataFrame({"a": [[1.0], None]}).to_parquet(tmp_path / "w.parquet")
    with pytest.raises(ValueError, match="row 1 of column 'a' has no vector"):
        array(read(tmp_path / "w.parquet"))


def test_whole_numbers_among_floats_need_a_choice(tmp_path: Path) -> None:
    pd.DataFrame({"count": [1, 2], "a": [1.0, 2.0]}).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="'count' holds whole numbers, 1 other columns hold floats"):
        read(tmp_path / "v.parquet")
    np.testing.assert_array_equal(array(read(tmp_path / "v.parquet", columns=["count", "a"])), [[1, 1], [2, 2]])


def test_a_list_column_is_chosen_alone(tmp_path: Path) -> None:
    pd.DataFrame({"v": [[1.0, 2.0]], "a": [3.0]}).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="'v' holds whole vectors; choose it alone"):
        read(tmp_path / "v.parquet", columns=["v", "a"])


def test_a_file_without_rows_is_empty(tmp_path: Path) -> None:
    pd.DataFrame({"a": np.empty(0)}).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="the file has no rows"):
        read(tmp_path / "v.parquet")


def test_one_column_gives_its_values_in_order(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1.0, 2.0], "label": ["x", None]}).to_parquet(tmp_path / "v.parquet")
    assert list(read_parquet_column(locate(tmp_path / "v.parquet"), "lab*")) == [(0, "x"), (1, None)]
