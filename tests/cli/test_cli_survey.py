"""`survey` and `compare`: what is printed is what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from theodolite.cli.app import app
from theodolite.core.rows import read_rows
from theodolite.metrics.cosine import mean_cosine
from theodolite.metrics.isoscore import iso_score

X = np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)
Y = (X * np.linspace(0.1, 3, 8) + 1).astype(np.float32)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.save("y.npy", Y)
    return tmp_path


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result


def test_json_holds_the_values_of_the_functions() -> None:
    document = json.loads(run("survey", "x.npy", "y.npy", "--json", "--metrics", "iso_score,mean_cosine", "--no-findings").stdout)
    for one, vectors in zip(document["surveys"], (X, Y), strict=True):
        values = {row["metric"]: row["value"] for row in one["rows"]}
        assert values == {"iso_score": pytest.approx(iso_score(vectors)), "mean_cosine": pytest.approx(mean_cosine(vectors))}
        assert (one["n"], one["d"], one["dtype"], one["findings"]) == (600, 8, "float32", [])


def test_the_table_fits_80_columns_and_has_no_colour() -> None:
    text = run("survey", "y.npy", "--no-findings", "--bootstrap", "20").stdout
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    (line,) = [line for line in text.splitlines() if line.startswith("iso_score ")]
    assert f"{iso_score(Y):.4g}" in line
    assert "y.npy  600 × 8, float32" in text


def test_a_second_survey_is_the_same_with_and_without_the_cache() -> None:
    first = run("survey", "y.npy", "--no-findings", "--json").stdout
    assert run("survey", "y.npy", "--no-findings", "--json").stdout == first
    assert run("survey", "y.npy", "--no-findings", "--json", "--no-cache").stdout == first


def test_no_cache_keeps_nothing(files: Path) -> None:
    run("survey", "y.npy", "--no-findings", "--no-cache")
    assert not (files / "cache").exists()


@pytest.mark.parametrize("ending", [".parquet", ".json", ".jsonl"])
def test_output_holds_the_rows(ending: str) -> None:
    run("survey", "x.npy", "--metrics", "iso_score", "--no-findings", "--output", f"rows{ending}")
    (row,) = read_rows(f"rows{ending}")
    assert (row.metric, row.model, row.n, row.d) == ("iso_score", "x.npy", 600, 8)
    assert row.value == pytest.approx(iso_score(X))


def test_an_output_that_cannot_be_written_is_refused_before_the_work() -> None:
    for output in ("rows.csv", "nowhere/rows.json"):
        result = CliRunner().invoke(app, ["survey", "x.npy", "--output", output])
        assert result.exit_code == 2
        assert result.stdout == ""


def test_reasons_stand_below_the_table() -> None:
    np.save("one.npy", X[:1])
    text = " ".join(run("survey", "one.npy", "--no-findings").stdout.split())
    assert "iso_score" in text
    assert "one row has no covariance" in text


def test_not_finite_is_an_error_that_names_the_place() -> None:
    bad = X.copy()
    bad[17, 3] = np.nan
    np.save("bad.npy", bad)
    result = CliRunner().invoke(app, ["survey", "bad.npy"])
    assert result.exit_code == 2
    assert "row 17, column 3" in result.stderr


def test_every_metric_is_listed() -> None:
    from theodolite.metrics.registry import METRICS

    text = run("survey", "--list-metrics").stdout
    assert all(f"  {name}" in text for name in METRICS)


def test_survey_needs_a_file() -> None:
    result = CliRunner().invoke(app, ["survey"])
    assert result.exit_code == 2
    assert "give files of vectors" in result.stderr


def test_findings_end_the_survey_worst_first() -> None:
    np.save("cone.npy", X + 20)
    document = json.loads(run("survey", "cone.npy", "--json").stdout)
    verdicts = [finding["verdict"] for finding in document["surveys"][0]["findings"]]
    assert "bad" in verdicts
    text = run("survey", "cone.npy").stdout
    marks = [line[0] for line in text.splitlines() if line[:2] in ("✗ ", "! ", "✓ ")]
    assert marks == sorted(marks, key="✗!✓".index)
    assert "→" in text


def test_compare_is_zero_against_itself_and_clear_against_another() -> None:
    arguments = ["--json", "--metrics", "iso_score,mean_cosine", "--bootstrap", "30"]
    same = json.loads(run("compare", "x.npy", "x.npy", *arguments).stdout)
    assert same["paired"]
    assert [one["difference"] for one in same["comparisons"]] == [0, 0]
    assert not any(one["clear"] for one in same["comparisons"])
    other = json.loads(run("compare", "x.npy", "y.npy", *arguments).stdout)
    assert all(one["clear"] for one in other["comparisons"])
    assert other["comparisons"][0]["difference"] == pytest.approx(iso_score(Y) - iso_score(X))


def test_compare_table_and_rows() -> None:
    text = run(
        "compare", "x.npy", "y.npy", "--independent", "--metrics", "iso_score", "--bootstrap", "30", "--output", "c.parquet"
    ).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "independent rows" in text
    assert [row.state for row in read_rows("c.parquet")] == ["before", "after", "difference"]


def test_compare_of_unequal_files_is_independent_and_cannot_be_paired() -> None:
    np.save("short.npy", X[:100])
    document = json.loads(run("compare", "x.npy", "short.npy", "--json", "--metrics", "iso_score", "--bootstrap", "20").stdout)
    assert document["paired"] is False
    result = CliRunner().invoke(app, ["compare", "x.npy", "short.npy", "--paired", "--metrics", "iso_score"])
    assert result.exit_code == 2
    assert "600 and 100" in result.stderr
