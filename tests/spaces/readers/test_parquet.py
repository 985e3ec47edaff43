"""Parquet alone: streaming, gaps, and columns that are not dimensions. What it shares with other tables is tested there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from theodolite.core.vectors import array
from theodolite.spaces import read
from theodolite.spaces.readers.location import locate
from theodolite.spaces.readers.parquet import read_parquet_column


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
