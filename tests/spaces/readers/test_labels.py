"""Labels and scores from every kind of file, in order; what is missing is named by its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import theodolite
from theodolite.spaces.readers.data_files import DataError
from theodolite.spaces.readers.label_files import checked_label, labels_for, read_labels, read_scores


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_format_gives_the_same_labels() -> None:
    Path("y.txt").write_text("NOUN\nVERB\nX Y\n")
    Path("y.csv").write_text('text,label\na,NOUN\n"b,\nc",VERB\nd,X Y\n')
    Path("y.tsv").write_text("upos\tid\nNOUN\t1\nVERB\t2\nX Y\t3\n")
    Path("y.jsonl").write_text('{"label": "NOUN"}\n\n{"label": "VERB"}\n{"label": "X Y"}\n')
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "label": ["NOUN", "VERB", "X Y"]}), "y.parquet")
    np.save("y.npy", np.array(["NOUN", "VERB", "X Y"]))
    for place in ("y.txt", "y.csv", "y.csv:label", "y.tsv:upos", "y.jsonl", "y.parquet:label", "y.npy"):
        assert read_labels(place) == ["NOUN", "VERB", "X Y"], place


def test_whole_numbers_are_labels() -> None:
    np.save("y.npy", np.array([0, 1, 10]))
    Path("y.jsonl").write_text('{"k": 0}\n{"k": 1.0}\n{"k": 10}\n')
    pq.write_table(pa.table({"k": [0, 1, 10]}), "y.parquet")
    for place in ("y.npy", "y.jsonl:k", "y.parquet:k"):
        assert read_labels(place) == ["0", "1", "10"]


def test_a_name_with_a_colon_is_a_file_if_it_exists() -> None:
    Path("a:b").write_text("A\nB\n")
    assert read_labels("a:b") == ["A", "B"]


@pytest.mark.parametrize(
    ("name", "text", "place", "fault"),
    [
        ("y.csv", "text,pos\na,A\n", "y.csv", "no column 'label'; the columns are text, pos"),
        ("y.csv", "text,label\na,A\nb\n", "y.csv", "line 3: the line has 1 cells, but the header has 2"),
        ("y.csv", "text,label\na,A\nb,\n", "y.csv", "line 3: '' is not a label"),
        ("y.csv", "la,lb\na,A\n", "y.csv:l*", "names 2 columns"),
        ("y.jsonl", '{"pos": "A"}\n', "y.jsonl", "there is no column 'label'; the columns are pos"),
        ("y.jsonl", '{"label": "A"}\n{"pos": "A"}\n', "y.jsonl", "line 2: there is no column 'label' for the label"),
        ("y.csv", "text,label\n", "y.csv", "the file holds no label"),
        ("y.jsonl", '{"label": "A"}\n{"label": null}\n', "y.jsonl", "line 2: None is not a label"),
        ("y.jsonl", '{"label": "A"}\n{"label": 0.5}\n', "y.jsonl", "line 2: 0.5 is not a label"),
        ("y.jsonl", "nothing\n", "y.jsonl", "line 1: this is not JSON"),
        ("y.txt", "A\n\nB\n", "y.txt", "line 2: the line is blank"),
        ("y.txt", "word\tA\n", "y.txt", "line 1: the line has a tab"),
        ("y.txt", "A\n", "y.txt:label", "the file has no columns"),
        ("y.txt", "\n", "y.txt", "y.txt: the file is empty"),
        ("y.txt", "A\n", "x.txt:label", "there is no file x.txt"),
    ],
)
def test_faults_are_named(name: str, text: str, place: str, fault: str) -> None:
    Path(name).write_text(text)
    with pytest.raises((ValueError, OSError)) as caught:
        read_labels(place)
    assert fault in str(caught.value)


def test_arrays_without_labels_are_refused() -> None:
    np.save("y.npy", np.ones((3, 2)))
    with pytest.raises(ValueError, match="one axis"):
        read_labels("y.npy")
    np.save("y.npy", np.array(["A", None], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"pickled objects.*as text or numbers"):
        read_labels("y.npy")
    pq.write_table(pa.table({"label": ["A", None]}), "y.parquet")
    with pytest.raises(ValueError, match="row 1: None is not a label"):
        read_labels("y.parquet")
    Path("z.parquet").write_text("no")
    with pytest.raises(ValueError, match="not a complete Parquet file"):
        read_labels("z.parquet")


def test_the_labels_of_vectors_are_in_a_file_or_in_their_own_table() -> None:
    Path("x.csv").write_text("a,b,pos\n1,2,A\n3,4,B\n")
    Path("y.txt").write_text("B\nA\n")
    assert labels_for("x.csv", "pos", n=2) == ["A", "B"]
    assert labels_for("x.csv", "y.txt", n=2) == ["B", "A"]
    assert labels_for("x.npy", "y.txt", n=2) == ["B", "A"]
    assert labels_for("x.npy", "x.csv:pos", n=2) == ["A", "B"]
    assert labels_for(Path("x.csv"), Path("y.txt"), n=2) == ["B", "A"]


def test_wrong_counts_are_explained() -> None:
    Path("y.txt").write_text("B\nA\n")
    with pytest.raises(DataError, match=r"y\.txt: there are 2 labels for the 3 rows of x\.npy; row i needs label i"):
        labels_for("x.npy", "y.txt", n=3)


def test_scores_are_one_number_per_pair() -> None:
    np.save("s.npy", np.array([1, 2], dtype=np.float32))
    np.save("column.npy", np.array([[1], [2]]))
    Path("s.txt").write_text("1\n2\n")
    Path("s.csv").write_text("score\n1\n2\n")
    for path in ("s.npy", "column.npy", "s.txt", "s.csv"):
        scores = read_scores(path)
        assert scores.tolist() == [1, 2] and scores.dtype == np.float64
    Path("gap.txt").write_text("1\n\n2\n")
    with pytest.raises(DataError, match=r"gap\.txt, line 2"):
        read_scores("gap.txt")
    Path("word.txt").write_text("1\ntwo\n")
    with pytest.raises(DataError, match=r"word\.txt, line 2: 'two' is not a number; scores are one number per line"):
        read_scores("word.txt")
    Path("missing.csv").write_text("score\n1\nnan\n")
    np.testing.assert_array_equal(read_scores("missing.csv"), [1, np.nan])  # the caller says which pair has none
    np.save("wide.npy", np.ones((2, 3)))
    np.save("text.npy", np.array(["a", "b"]))
    for path in ("wide.npy", "text.npy"):
        with pytest.raises(DataError, match="scores are one number per pair"):
            read_scores(path)


def test_a_column_of_labels_without_a_header_is_read_by_its_number() -> None:
    Path("y.csv").write_text("A;x\nB;y\n")
    with pytest.raises(ValueError, match=r"no column '0'.*The first line was read as column names.*header=False"):
        read_labels("y.csv:0")
    assert read_labels("y.csv:0", header=False) == ["A", "B"]
    assert read_labels("y.csv:1", header=False, delimiter=";") == ["x", "y"]


def test_what_stands_for_a_missing_label_is_not_one() -> None:
    import pandas as pd

    for missing in (None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, "", " ", [], b"x", 0.5):
        with pytest.raises(DataError, match=r"row 3: .* is not a label"):
            checked_label("row 3", missing)
    kinds = ("x", " x ", 1, 1.0, np.float32(1), np.int8(1), True, np.bool_(True))
    assert [checked_label("", label) for label in kinds] == ["x", "x", "1", "1", "1", "1", "True", "True"]


def test_a_missing_label_of_a_frame_or_a_list_is_named_by_every_verb() -> None:
    import pandas as pd

    X = np.random.default_rng(0).normal(size=(40, 3))
    names: list[Any] = ["a", "b"] * 20
    names[7] = pd.NA
    frame = pd.DataFrame({"label": pd.array(names, "string"), **{f"d{i}": X[:, i] for i in range(3)}})
    for labels, data in (("label", frame), (names, X), (pd.array(names, "string"), X)):
        for verb in (theodolite.probe, theodolite.advise):
            with pytest.raises(ValueError, match="row 7: <NA> is not a label"):
                verb(data, labels=labels, progress=False)


def test_half_of_a_surrogate_pair_is_refused_before_the_work() -> None:
    with pytest.raises(DataError, match=r"row 1: the label .* half of a surrogate pair"):
        theodolite.probe(np.eye(4), labels=["a", "\ud800", "a", "b"], progress=False)
    Path("y.jsonl").write_text('{"label": "a\\ud83d"}\n')
    with pytest.raises(DataError, match=r"y\.jsonl, line 1: the line holds half of a surrogate pair"):
        read_labels("y.jsonl")
    Path("y.jsonl").write_text('{"label": "\\ud83d\\ude00"}\n')
    assert read_labels("y.jsonl") == ["\U0001f600"]
