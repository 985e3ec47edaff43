"""What is known of each row: columns keep their values, also on disk, and what does not fit is named by column and row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from theodolite.spaces import Space, row_table

from .sample_space import ROWS, N, the_space

X = np.random.default_rng(5).normal(size=(10, 4)).astype(np.float32)


def test_rows_keep_their_values() -> None:
    rows = Space.of(
        {0: X[:3]},
        rows={
            "text": ["a", None, "ö\n"],
            "word": np.array(["x", "y", "z"]),
            "label": (1, 2, 3),
            "gap": [1, None, np.int32(3)],
            "score": [1, 2.5, np.float32(0.5)],
            "frequency": np.array([0.5, np.nan, 1], np.float32),
            "flag": [True, False, True],
            "nothing": [None] * 3,
        },
    ).rows
    assert list(rows["text"]) == ["a", None, "ö\n"] and list(rows["word"]) == ["x", "y", "z"]
    assert list(rows["label"]) == [1, 2, 3] and list(rows["gap"]) == [1, None, 3]
    assert list(rows["score"]) == [1.0, 2.5, 0.5] and list(rows["flag"]) == [1, 0, 1]
    np.testing.assert_array_equal(rows["frequency"], [0.5, np.nan, 1])
    assert list(rows["nothing"]) == [None] * 3


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ({"text": ["a"] * 9}, "column 'text' has 9 values, but there are n=10 vectors"),
        ({"text": "a text of "}, "column 'text' is one string"),
        ({"label": ["a"] * 3 + [7] + ["b"] * 6}, "column 'label' holds row 0: 'a', row 3: 7"),
        ({"label": [0.5] * 9 + [b"x"]}, "column 'label' holds row 0: 0.5, row 9: b'x'"),
        ({"label": [[1]] * 10}, r"column 'label' holds row 0: \[1\]"),
        ({"label": [2**63] * 10}, "column 'label' holds an int that needs more than 64 bits"),
        ({"": [1] * 10}, "a column has the empty name ''"),
    ],
)
def test_wrong_rows(rows: dict[str, list[object]], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Space.of({0: X}, rows=rows)


def test_stored_columns_are_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_table, "BATCH", 8)
    the_space().save(tmp_path / "s")
    rows = Space.open(tmp_path / "s").rows
    for name in ("text", "label", "gap"):
        column, plain = rows[name], ROWS[name]
        assert len(column) == N and column[0] == plain[0] and column[-1] == plain[-1] and column[np.int64(9)] == plain[9]
        assert column[5:21] == plain[5:21] and column[::-3] == plain[::-3] and column[40:30] == []
        with pytest.raises(IndexError):
            column[N]
    assert np.asarray(rows["text"]).tolist() == ROWS["text"]
    assert np.asarray(rows["gap"]).tolist() == ROWS["gap"]
    assert rows["word"].dtype == np.int64 and rows["frequency"].dtype == np.float64  # type: ignore[attr-defined]
    with pytest.raises(KeyError, match="no column 'txt'; there are text, label"):
        rows["txt"]


def test_repeated_strings_are_stored_once(tmp_path: Path) -> None:
    texts = ["a rather long sentence " * 20] * 1000
    Space.of({0: np.zeros((1000, 1))}, rows={"text": texts}).save(tmp_path / "s")
    assert len({id(text) for text in Space.open(tmp_path / "s").rows["text"]}) == 1
    assert (tmp_path / "s" / "rows.parquet").stat().st_size < 10_000
