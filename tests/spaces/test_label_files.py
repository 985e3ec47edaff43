"""Labels from every kind of file, in order, as text; what is missing is named by its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from theodolite.spaces.labels import read_labels


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


def test_a_name_with_a_colon_is_a_file_where_it_exists() -> None:
    Path("a:b").write_text("A\nB\n")
    assert read_labels("a:b") == ["A", "B"]


@pytest.mark.parametrize(
    ("name", "text", "place", "said"),
    [
        ("y.csv", "text,pos\na,A\n", "y.csv", "no column 'label'; it has text, pos"),
        ("y.csv", "text,label\na,A\nb\n", "y.csv", "line 3 has 1 cells"),
        ("y.csv", "text,label\na,A\nb,\n", "y.csv", "line 3: '' is no label"),
        ("y.csv", "la,lb\na,A\n", "y.csv:l*", "names 2 columns"),
        ("y.jsonl", '{"pos": "A"}\n', "y.jsonl", "line 1 has no field 'label' but pos"),
        ("y.jsonl", '{"label": "A"}\n{"label": null}\n', "y.jsonl", "line 2: None is no label"),
        ("y.jsonl", '{"label": "A"}\n{"label": 0.5}\n', "y.jsonl", "line 2: 0.5 is no label"),
        ("y.jsonl", "nothing\n", "y.jsonl", "line 1 is not JSON"),
        ("y.txt", "A\n\nB\n", "y.txt", "line 2 is blank"),
        ("y.txt", "word\tA\n", "y.txt", "line 1 has a tab"),
        ("y.txt", "A\n", "y.txt:label", "has no columns"),
        ("y.txt", "\n", "y.txt", "holds no label"),
        ("y.txt", "A\n", "x.txt:label", "there is no file x.txt"),
    ],
)
def test_faults_are_named(name: str, text: str, place: str, said: str) -> None:
    Path(name).write_text(text)
    with pytest.raises((ValueError, OSError)) as caught:
        read_labels(place)
    assert said in str(caught.value)


def test_arrays_that_hold_no_labels_are_refused() -> None:
    np.save("y.npy", np.ones((3, 2)))
    with pytest.raises(ValueError, match="one axis"):
        read_labels("y.npy")
    np.save("y.npy", np.array(["A", None], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="array of text"):
        read_labels("y.npy")
    pq.write_table(pa.table({"label": ["A", None]}), "y.parquet")
    with pytest.raises(ValueError, match="row 1: None is no label"):
        read_labels("y.parquet")
    Path("z.parquet").write_text("no")
    with pytest.raises(ValueError, match="not a whole Parquet file"):
        read_labels("z.parquet")
