"""The vectors of a frame are found in every library's frame alike, and its other columns stay at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import theodolite
from theodolite.core.frames import frame_column, frame_vectors, vector_columns
from theodolite.core.vectors import array

X = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
TEXTS = [f"text {i}" for i in range(40)]
LABELS = ["A", "B"] * 20
LISTS = {"text": TEXTS, "label": LABELS, "vector": X.tolist()}
COLUMNS = {"id": list(range(40)), "text": TEXTS, "label": LABELS, "score": [0.5] * 40, **{f"d{i}": X[:, i] for i in range(3)}}


def dataset(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


LIBRARIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": lambda columns: pytest.importorskip("pandas").DataFrame(columns),
    "pandas of Arrow": lambda columns: pytest.importorskip("pandas").DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "polars, lazy": lambda columns: pytest.importorskip("polars").LazyFrame(columns),
    "Arrow": lambda columns: pa.table({name: list(values) for name, values in columns.items()}),
    "Arrow batch": lambda columns: pa.RecordBatch.from_pydict({name: list(values) for name, values in columns.items()}),
    "datasets": dataset,
}


@pytest.mark.parametrize("columns", [LISTS, COLUMNS], ids=["lists", "columns"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_vectors_are_found_and_the_other_columns_kept(library: str, columns: dict[str, Any]) -> None:
    frame = LIBRARIES[library](columns)
    np.testing.assert_allclose(array(frame), X, rtol=1e-6)
    assert frame_column(frame, "label") == LABELS
    result = theodolite.probe(frame, labels="label", progress=False)
    assert {row.n for row in result.where(metric="n_clusters")} <= {40} and len(result) > 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_user_may_choose_the_columns(library: str) -> None:
    frame = LIBRARIES[library](COLUMNS)
    np.testing.assert_allclose(frame_vectors(frame, ["d2", "d0"]), X[:, [2, 0]], rtol=1e-6)
    (row,) = theodolite.survey(frame, columns="d0:d1", metrics=["participation_ratio"], findings=False, progress=False)
    assert (row.n, row.d) == (40, 2)
    with pytest.raises(ValueError, match="'text'"):
        frame_vectors(frame, ["text"])


def series() -> dict[str, Any]:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    return {
        "pandas, arrays": pandas.Series(list(X)),
        "pandas, lists": pandas.Series(X.tolist()),
        "pandas, other index": pandas.Series(list(X), index=range(100, 140)),
        "polars": polars.Series(X.tolist()),
        "Arrow": pa.array(X.tolist()),
        "Arrow, chunked": pa.chunked_array([X[:7].tolist(), X[7:].tolist()]),
        "Arrow, fixed": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3),
        "lists": X.tolist(),
        "arrays": list(X),
    }


@pytest.mark.parametrize("name", series())
def test_a_series_of_vectors_is_the_vectors(name: str) -> None:
    np.testing.assert_allclose(array(series()[name]), X, rtol=1e-6)


def test_a_gap_is_named_by_its_row() -> None:
    pandas = pytest.importorskip("pandas")
    lists = X.tolist()
    for form in (pa.table({"v": [*lists[:5], None]}), pa.table({"v": [*lists[:5], [1.0, None, 2.0]]})):
        with pytest.raises(ValueError, match="row 5 of column 'v'"):
            array(form)
    with pytest.raises(ValueError, match="row 5 of column 'v' has 2 entries, the first has 3"):
        array(pa.table({"v": [*lists[:5], [1.0, 2.0]]}))
    numbers = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, None]}, dtype="Float64")
    with pytest.raises(ValueError, match="NaN at row 1, column 1"):
        array(numbers)


@pytest.mark.parametrize(
    ("names", "kinds", "expected"),
    [
        ("a b", "fo", "'a' alone holds numbers"),
        ("a b t", "ffo", [0, 1]),
        ("n a b", "iff", "'n' holds whole numbers"),
        ("n d1 d2", "iff", [1, 2]),
        ("id d0 d1 x", "iffo", [1, 2]),
        ("id a b", "fff", "'id' looks like a row number"),
        ("x1 x2 y1 y2 t", "ffffo", "counted columns x1:x2, y1:y2 are 2 groups"),
        ("d0 d1 score t", "fffo", [0, 1]),
        ("d0 d2 score t", "fffo", "counted columns d0:d2 have a gap"),
        ("d0 d2 d4", "fff", [0, 1, 2]),
        ("doc_id d0 d1", "fff", [1, 2]),  # no text, and no type that tells it apart
        ("d0 d1 price", "fff", [0, 1]),
        ("x_1 x_2 n", "iii", [0, 1]),
        ("emb_000 emb_001 y", "fff", [0, 1]),
        ("0 1 2", "iff", "'0' holds whole numbers"),  # a table that was read without its header
        ("0 1 t", "ffo", [0, 1]),
        ("x y z", "fff", [0, 1, 2]),
        ("a b my_score", "fff", "'my_score' looks like a row number or label"),
        ("d0 d0 d1", "fff", "'d0' occurs twice"),
        ("v t", "vo", [0]),
        ("v w", "vv", "several list columns"),
        ("t u", "oo", "no column holds numbers"),
    ],
)
def test_one_rule_finds_the_columns(names: str, kinds: str, expected: list[int] | str) -> None:
    words: Any = {"f": "floats", "i": "ints", "o": "other", "v": "vectors"}
    arguments = names.split(), [words[kind] for kind in kinds]
    if isinstance(expected, list):
        assert vector_columns(*arguments) == expected
    else:
        with pytest.raises(ValueError, match=expected):
            vector_columns(*arguments)


@pytest.mark.parametrize("library", LIBRARIES)
def test_counted_columns_win_over_other_numbers(library: str) -> None:
    others = dict.fromkeys(("doc_id", "year", "target", "y", "cluster", "score", "timestamp", "price"), 2 * X[:, 0])
    columns = {**others, **{f"d{i}": X[:, i] for i in range(X.shape[1])}}
    np.testing.assert_array_equal(frame_vectors(LIBRARIES[library](columns)), X)


@pytest.mark.parametrize("library", ["pandas", "polars", "Arrow"])
def test_a_column_that_counts_the_rows_is_noticed_by_its_values(library: str) -> None:
    numbers = {"a": [3, 1, 4, 1, 5], "b": [1, 2, 3, 4, 5]}
    with pytest.raises(ValueError, match=r"'b' counts up like a row number.*columns='a:a'"):
        frame_vectors(LIBRARIES[library](numbers))
    assert frame_vectors(LIBRARIES[library]({"b": numbers["b"]})).shape == (5, 1)


def test_a_repair_is_not_fitted_on_a_number_next_to_the_vectors() -> None:
    frame = LIBRARIES["pandas"]({"score": 2 * X[:, 0], **{f"d{i}": X[:, i] for i in range(X.shape[1])}})
    assert theodolite.repairs.Whiten().fit(frame).n_features_in_ == X.shape[1]


def test_a_dataset_of_several_splits_is_named() -> None:
    datasets = pytest.importorskip("datasets")
    with pytest.raises(TypeError, match="choose a split"):
        array(datasets.DatasetDict({"train": dataset(LISTS)}))
