"""`compare` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

from theodolite.core.numbers import interval_text
from theodolite.core.rows import read_rows
from theodolite.metrics import iso_score, label_of
from theodolite.spaces import Space

X = np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)
Y = (X * np.linspace(0.1, 3, 8) + 1).astype(np.float32)


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    np.save("x.npy", X)
    np.save("y.npy", Y)


def test_json_has_the_differences_and_their_intervals(run: Run) -> None:
    options = ["--json", "--metrics", "iso_score,mean_cosine", "--bootstrap", "30"]
    same = json.loads(run("compare", "x.npy", "x.npy", *options).stdout)
    assert same["provenance"]["paired"]
    assert [row["value"] for row in same["rows"] if row["state"] == "difference"] == [0, 0]
    other = json.loads(run("compare", "x.npy", "y.npy", *options).stdout)
    changes = [row for row in other["rows"] if row["state"] == "difference"]
    assert all(row["low"] > 0 or row["high"] < 0 for row in changes)
    assert changes[0]["value"] == pytest.approx(iso_score(Y) - iso_score(X))


@pytest.mark.parametrize("columns", [60, 80, 118])
def test_the_table_fits_the_terminal_and_keeps_numbers_and_marks(columns: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    options = ["--independent", "--bootstrap", "30", "--output", "c.parquet"]
    text = run("compare", "x.npy", "y.npy", *options).stdout
    assert max(len(line) for line in text.splitlines() if "theodolite compare" not in line) <= columns  # a command is one line
    assert "--independent --report" in text and "independent rows" in " ".join(text.split())
    rows = {row.metric: row for row in read_rows("c.parquet") if row.state == "difference"}
    assert [row.state for row in read_rows("c.parquet")][:3] == ["before", "after", "difference"]
    for name in ("iso_score", "participation_ratio"):
        lines = [line for line in text.splitlines() if line.startswith(f"{label_of(name)}  ")]
        assert len(lines) == 1 + (columns < 80), "a table that is too wide is printed in two parts"
        assert "".join(lines).count("*") == 1, "the interval excludes 0"
        assert f"{rows[name].value:.4g}" in lines[0] and interval_text(rows[name].low, rows[name].high) in lines[-1]
    assert len(text.splitlines()) <= 28 + 20 * (columns < 80)


def test_unequal_files_are_independent_and_cannot_be_paired(run: Run, refused: Callable[..., str]) -> None:
    np.save("short.npy", X[:100])
    document = json.loads(run("compare", "x.npy", "short.npy", "--json", "--metrics", "iso_score", "--bootstrap", "20").stdout)
    assert document["provenance"]["paired"] is False
    assert "A has 600 rows and B 100" in refused("compare", "x.npy", "short.npy", "--paired", "--metrics", "iso_score")


@pytest.mark.slow
def test_layers_are_compared_in_one_line_each(run: Run) -> None:
    Space.of({0: X, 1: X}).save("a")
    Space.of({0: X, 1: Y}).save("b")
    text = run("compare", "a", "b", "--metrics", "iso_score,ev_1", "--output", "rows.json").stdout
    assert text.count(" → ") == 4 + 1
    rows = read_rows("rows.json")
    assert [row.state for row in rows if row.metric != "layer_cka"] == ["before", "after", "difference"] * 4
    assert sum(row.metric == "layer_cka" for row in rows) == 2 * 2


def test_a_space_and_a_file_are_refused_alike_in_both_orders(refused: Callable[..., str], run: Run) -> None:
    Space.of({0: X, 1: Y}).save("space")
    assert refused("compare", "space", "y.npy") == refused("compare", "y.npy", "space")
    assert "choose one layer with --layers last" in refused("compare", "space", "y.npy")
    run("compare", "space", "y.npy", "--layers", "last", "--metrics", "iso_score", "--bootstrap", "20")
