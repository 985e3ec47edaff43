"""`survey` on the command line: what is printed is what was measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

from theodolite.core.rows import read_rows
from theodolite.metrics import METRICS, iso_score, mean_cosine
from theodolite.spaces import Space

X = np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)
Y = (X * np.linspace(0.1, 3, 8) + 1).astype(np.float32)


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    np.save("x.npy", X)
    np.save("y.npy", Y)


def test_json_is_one_document_with_the_values_of_the_functions(run: Run) -> None:
    options = ["--json", "--metrics", "iso_score,mean_cosine", "--no-findings"]
    document = json.loads(run("survey", "x.npy", "y.npy", *options).stdout)
    for name, vectors in (("x.npy", X), ("y.npy", Y)):
        values = {row["metric"]: row["value"] for row in document["rows"] if row["model"] == name}
        assert values == {"iso_score": pytest.approx(iso_score(vectors)), "mean_cosine": pytest.approx(mean_cosine(vectors))}
    facts = {"n": 600, "d": 8, "dtype": "float32", "sample": 600, "seed": 0}
    assert document["provenance"]["inputs"] == [{"name": "x.npy", **facts}, {"name": "y.npy", **facts}]
    assert (document["verb"], document["findings"]) == ("survey", [])


def measured(run: Run, *words: str) -> tuple[float, list[str]]:
    document = json.loads(run("survey", *words, "--json", "--metrics", "mean_cosine", "--no-findings").stdout)
    return document["rows"][0]["value"], document["notes"]


def test_a_row_number_before_counted_columns_is_not_a_dimension(run: Run) -> None:
    names = ",".join(["doc_id", *(f"d{i}" for i in range(8))])
    np.savetxt("x.csv", np.c_[np.arange(10_000, 10_600), X], delimiter=",", header=names, comments="")
    value, notes = measured(run, "x.csv")
    assert value == pytest.approx(mean_cosine(X), abs=1e-6)
    assert "vectors from columns d0, d1, d2, … (8 in all); left out: doc_id" in notes


def test_decimal_commas_are_read_as_the_error_says(run: Run, refused: Callable[..., str]) -> None:
    Path("x.txt").write_text("\n".join(" ".join(map(str, row)) for row in X.tolist()).replace(".", ","))
    message = refused("survey", "x.txt")
    assert "if that is a decimal comma, use --decimal ," in message
    assert measured(run, "x.txt", "--decimal", ",")[0] == pytest.approx(mean_cosine(X), abs=1e-6)
    lines = [";".join(["w", *map(str, row)]) for row in X.tolist()]
    Path("x.csv").write_text("\n".join(["word;" + ";".join("abcdefgh"), *lines]).replace(".", ","))
    for words in (["fit", "zero-mean", "x.csv", "--to", "r"], ["apply", "r", "x.csv", "--to", "centred.csv"]):
        run("repair", *words, "--decimal", ",")
    table = np.loadtxt("centred.csv", delimiter=",", skiprows=1, usecols=range(1, 9))
    np.testing.assert_allclose(table, X - X.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("columns", [60, 80, 118])
def test_the_table_fits_the_terminal_and_has_no_colour(columns: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = run("survey", "y.npy", "--no-findings", "--bootstrap", "20").stdout
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= columns
    line = next(line for line in text.splitlines() if line.startswith("IsoScore ") and "value" not in line)
    assert f"{iso_score(Y):.4g}" in line
    assert "y.npy: 600 × 8, float32" in text


def test_a_second_survey_is_the_same_with_and_without_the_cache(run: Run) -> None:
    def rows(*options: str) -> object:
        return json.loads(run("survey", "y.npy", "--no-findings", "--json", *options).stdout)["rows"]

    assert rows() == rows() == rows("--no-cache")


def test_no_cache_keeps_nothing(run: Run, here: Path) -> None:
    run("survey", "y.npy", "--no-findings", "--no-cache")
    assert not (here.parent / "cache").exists()


@pytest.mark.parametrize("ending", [".parquet", ".json", ".jsonl"])
def test_output_holds_the_rows(ending: str, run: Run) -> None:
    run("survey", "x.npy", "--metrics", "iso_score", "--no-findings", "--output", f"rows{ending}")
    (row,) = read_rows(f"rows{ending}")
    assert (row.metric, row.model, row.n, row.d) == ("iso_score", "x.npy", 600, 8)
    assert row.value == pytest.approx(iso_score(X))


@pytest.mark.parametrize("output", ["rows.csv", "nowhere/rows.json"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(output: str, refused: Callable[..., str]) -> None:
    refused("survey", "x.npy", "--output", output)


def test_reasons_are_given_below_the_table(run: Run) -> None:
    np.save("one.npy", X[:1])
    text = " ".join(run("survey", "one.npy", "--no-findings").stdout.split())
    assert "one row has no covariance" in text


def test_a_value_that_is_not_finite_is_an_error_that_names_the_place(refused: Callable[..., str]) -> None:
    bad = X.copy()
    bad[17, 3] = np.nan
    np.save("bad.npy", bad)
    assert "row 17, column 3" in refused("survey", "bad.npy")


def test_every_metric_is_listed(run: Run) -> None:
    text = run("survey", "--list-metrics").stdout
    assert all(f"  {name}" in text for name in METRICS)


def test_survey_needs_files_or_an_encoder(refused: Callable[..., str]) -> None:
    assert "give either files of vectors" in refused("survey")
    assert "give either files of vectors" in refused("survey", "x.npy", "-m", "model", "--task", "stsb")


def test_the_first_screen_has_the_verdict_causes_worst_first_and_one_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    np.save("cone.npy", X + 20)
    document = json.loads(run("survey", "cone.npy", "--json").stdout)
    assert document["answer"]["verdict"] == "bad"
    text = run("survey", "cone.npy").stdout
    lines = text.splitlines()
    assert lines[0] == "cone.npy: 600 × 8, float32" and lines[1].startswith("✗ bad: The rows share a large mean")
    assert len(lines) <= 30
    marks = [line[0] for line in lines[2:] if line[:2] in ("✗ ", "! ", "✓ ")]
    assert marks == sorted(marks, key="✗!✓".index)
    assert [line.strip() for line in lines if "theodolite " in line] == [document["answer"]["next"][0]["words"]]
    assert f"✓ {sum(f['verdict'] == 'good' for f in document['findings'])} other checks OK" in lines
    assert "partition ratio" not in text


def test_all_numbers_are_printed_on_request_under_headings(run: Run) -> None:
    short, everything = (run("survey", "y.npy", *options).stdout for options in ([], ["--all"]))
    headings = ["IsoScore ", "Partition function I(W) ", "Variance by direction ", "Cosines and lengths ", "Nearest neighbours "]
    for heading in headings:
        assert f"\n{heading}" in everything and f"\n{heading}" not in short
    assert "participation ratio" in everything and "participation_ratio" not in everything
    assert "--all shows every number" in short


def test_several_files_end_with_one_verdict(run: Run) -> None:
    np.save("cone.npy", X + 20)
    assert "Of 2 inputs, bad: cone.npy; " in run("survey", "cone.npy", "x.npy").stdout


def test_a_space_is_shown_layer_by_layer(run: Run) -> None:
    Space.of({0: X, 3: Y}).save("space")
    text = run("survey", "space", "--metrics", "iso_score,mean_cosine").stdout
    lines = [line.split() for line in text.splitlines()]
    assert ["layer", "IsoScore", "mean", "cosine"] in lines
    assert [line[0] for line in lines if line[:1] in (["0"], ["3"])] == ["0", "3"]
    one = run("survey", "space", "--layers", "last", "--metrics", "iso_score", "--no-findings").stdout
    assert [line.split()[0] for line in one.splitlines() if line.strip()[:1].isdigit()] == ["3"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["space", "--key", "x"], "--key x does not apply to a space"),
        (["x.npy", "--task", "stsb"], "--task stsb does not apply to a file of vectors"),
        (["-m", "model", "--texts", "t.txt", "--key", "k"], "--key k does not apply to an encoder"),
        (["x.npy", "--no-store"], "--no-store is for encoders"),
        (["x.npy", "--metrics", "iso_scor"], "did you mean 'iso_score'?"),
        (["bert-base-uncased"], "if it is an encoder, give the texts that it should read: --task NAME or --texts FILE"),
        (["x.npy", "--trust-remote-code"], "--trust-remote-code does not apply to a file of vectors"),
    ],
)
def test_an_option_that_does_not_apply_is_refused_with_one_sentence(
    arguments: list[str], sentence: str, refused: Callable[..., str], here: Path
) -> None:
    Space.of({0: X}).save("space")
    Path("t.txt").write_text("the cat\n")
    (here / "model").mkdir()
    (here / "model" / "config.json").write_text("{}")
    assert sentence in refused("survey", *arguments)


def test_names_are_shown_as_they_are_and_steer_no_terminal(run: Run) -> None:
    name = "[red]x[bold]\x1b[2Jy.npy"
    np.save(name, X)
    text = run("survey", name, "--metrics", "iso_score", "--no-findings").stdout
    assert "[red]x[bold]" in text and "\x1b" not in text
