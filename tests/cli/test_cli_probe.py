"""`probe` on arrays, spaces and tables: what is printed and written is what the probe found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Run

from theodolite.core.rows import read_rows
from theodolite.probes.direct_probe import DirectProbe
from theodolite.spaces import Space

CENTRES = {"ADP": [0, 0, 0], "NOUN": [9, 0, 0], "VERB": [0, 7, 0]}


def cloud(n: int, seed: int) -> tuple[np.ndarray, list[str]]:
    """Three labels far apart."""
    rng = np.random.default_rng(seed)
    labels = [list(CENTRES)[i % 3] for i in range(n)]
    return np.array([CENTRES[label] for label in labels]) + rng.uniform(-1, 1, (n, 3)), labels


X, Y = cloud(60, 0)
T, YT = cloud(24, 1)
CROSS = np.array([[1.0, 1], [-1, -1], [1, -1], [-1, 1]]).repeat(5, axis=0) + np.random.default_rng(2).uniform(-0.2, 0.2, (20, 2))
CROSSED = ["same"] * 10 + ["other"] * 10


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    np.save("x.npy", X)
    np.save("t.npy", T)
    np.save("cross.npy", CROSS)
    Path("y.txt").write_text("\n".join(Y) + "\n")
    Path("yt.txt").write_text("\n".join(YT) + "\n")
    Path("crossed.txt").write_text("\n".join(CROSSED) + "\n")


def test_vectors_and_labels_give_a_verdict_a_table_and_an_accuracy(run: Run) -> None:
    said = run("probe", "x.npy", "--labels", "y.txt", "--test", "t.npy", "--test-labels", "yt.txt").stdout
    probe = DirectProbe().fit(X, Y)
    words = " ".join(said.split())
    assert "✓ separable: The nearest hull labels 100% of 24 held-out rows correctly; always answering ADP gets 33%;" in words
    assert "planes separate all 3 pairs of labels, which happens in none of 19 shuffles of the labels." in words
    assert "The smallest gap, between ADP and VERB, is 5.33; labels overlap in all 19 shuffles (seed 0)." in words
    assert "theodolite probe x.npy --labels y.txt --test t.npy --test-labels yt.txt --classifier linear" in words
    assert len(said.splitlines()) <= 25
    assert f"accuracy {np.mean(probe.predict(T) == np.array(YT)):.3f}" in said
    for label in CENTRES:
        assert any(line.startswith(label) for line in said.splitlines())
    # A command is one line, however long, so that it can be pasted.
    assert max(len(line) for line in said.splitlines() if "theodolite probe" not in line) <= 80


def test_json_and_rows_hold_what_the_probe_found(run: Run) -> None:
    document = json.loads(run("probe", "x.npy", "--labels", "y.txt", "--json", "-o", "rows.parquet").stdout)
    probe = DirectProbe().fit(X, Y)
    rows = read_rows("rows.parquet")
    assert [row.to_dict() for row in rows] == document["rows"]
    assert value(document, "clusters") == probe.n_clusters_ == 3
    distances = {(row.label, row.other_label): row for row in rows if row.metric == "label_distance"}
    assert list(distances) == [("ADP", "NOUN"), ("ADP", "VERB"), ("NOUN", "VERB")]
    for (i, j), row in zip(((0, 1), (0, 2), (1, 2)), distances.values(), strict=True):
        assert row.value == pytest.approx(probe.label_distances_[i, j])
        assert row.low is not None and row.high is not None
        assert row.low <= row.value * (1 + 1e-9) and row.value <= row.high * (1 + 1e-9)
        assert (row.d, row.seed) == (3, 0)
    assert min(row.value for row in distances.values()) == pytest.approx(np.nanmin(probe.label_distances_))


def test_labels_that_cross_are_not_linear(run: Run) -> None:
    document = json.loads(run("probe", "cross.npy", "--labels", "crossed.txt", "--json").stdout)
    # One label joins across the middle and leaves the other in two pieces.
    assert (value(document, "clusters"), value(document, "is_linear")) == (3, 0)
    assert sorted(row["value"] for row in document["rows"] if row["metric"] == "label_clusters") == [1, 2]


def test_a_space_is_probed_layer_by_layer(run: Run, refused: Callable[..., str]) -> None:
    Space.of(
        {0: np.zeros_like(X) + X[:, :1] * 0 + np.arange(60)[:, None], 1: X, 2: 2 * X}, rows={"label": Y, "tag": Y[::-1]}
    ).save("s")
    Space.of({0: T, 1: T, 2: 2 * T}, rows={"label": YT}).save("t")
    said = run("probe", "s", "--test", "t", "-o", "rows.jsonl", "--layers", "1,2").stdout
    assert "separable: In layer 2, the nearest hull labels 100% of 24" in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80
    assert ["1", "3", "yes", "ADP", "VERB"] in [line.split()[:5] for line in said.splitlines()]
    rows = read_rows("rows.jsonl")
    assert {row.layer for row in rows} == {1, 2}
    mean = {row.layer: row.value for row in rows if row.metric == "mean_minimum_distance"}
    assert mean[2] == pytest.approx(2 * mean[1], rel=1e-5)
    assert [row.value for row in rows if row.metric == "hull_accuracy"] == [1.0, 1.0]
    assert "no column 'pos' of labels; it has label, tag" in refused("probe", "s", "--labels", "pos")
    assert "there is no layer 9" in refused("probe", "s", "--layers", "9")
    assert "In layer 2, planes separate all 3 pairs" in run("probe", "s", "--labels", "tag", "--layers", "last").stdout


def test_a_table_may_hold_vectors_and_labels(run: Run) -> None:
    pq.write_table(pa.table({"vector": X.tolist(), "pos": Y}), "x.parquet")
    one, other = (
        value(json.loads(run("probe", "x.parquet", "--labels", place, "--json").stdout), "mean_minimum_distance")
        for place in ("pos", "x.parquet:pos")
    )
    assert one == other == pytest.approx(float(np.mean(DirectProbe().fit(X, Y).minimum_distances_)))


def test_samples_and_held_out_rows_are_seeded_and_keep_every_label(run: Run) -> None:
    def rows(*more: str) -> dict[str, tuple[float, int]]:
        document = json.loads(run("probe", "x.npy", "--labels", "y.txt", "--json", *more).stdout)
        found = {row["metric"]: (row["value"], row["n"]) for row in document["rows"] if not row["label"]}
        found.pop("probe_seconds")
        return found

    one = rows("--sample", "12", "--hold-out", "0.25", "--seed", "5")
    assert one == rows("--sample", "12", "--hold-out", "0.25", "--seed", "5")
    assert one["clusters"] == (3.0, 12) and one["hull_accuracy"][1] == 15
    assert one["mean_minimum_distance"] != rows("--sample", "12", "--hold-out", "0.25", "--seed", "6")["mean_minimum_distance"]
    assert one["mean_minimum_distance"][0] > rows()["mean_minimum_distance"][0]  # fewer points, smaller hulls


def test_a_linear_classifier_is_scored_beside_the_hulls(run: Run) -> None:
    said = run("probe", "x.npy", "--labels", "y.txt", "--hold-out", "0.3", "--classifier", "linear", "-o", "rows.json").stdout
    assert "classifier on 18 held-out rows: accuracy 1.000" in said
    values = {row.metric: row for row in read_rows("rows.json")}
    assert values["probe_accuracy"].value == 1 and values["probe_accuracy"].n == 18
    assert values["probe_accuracy"].split == "rows, held out"


def test_a_budget_that_runs_out_leaves_bounds(run: Run) -> None:
    rng = np.random.default_rng(0)
    np.save("mixed.npy", rng.standard_normal((60, 2)))
    Path("mixed.txt").write_text("\n".join("ab" * 30) + "\n")
    said = " ".join(run("probe", "mixed.npy", "--labels", "mixed.txt", "--budget", "0", "-o", "rows.json").stdout.split())
    assert "– the budget ran out before its clusters were merged" in said and "single point" not in said
    assert "not separable: The two labels overlap, so planes do not separate the labels." in said
    assert "the 2 labels are split into between" in said and "clusters; merging of 2 labels was stopped after 0 s" in said
    values = {row.metric: row for row in read_rows("rows.json") if not row.label}
    assert values["is_linear"].value == 0 and 3 <= values["clusters"].low < values["clusters"].high == values["clusters"].value
    assert "between" not in run("probe", "mixed.npy", "--labels", "mixed.txt", "--budget", "1000").stdout.split("label  rows")[0]


def test_new_labels_among_held_out_rows_are_refused_or_left_out(run: Run, refused: Callable[..., str]) -> None:
    Path("yt.txt").write_text("\n".join([*YT[:22], "ADV", "INTJ"]) + "\n")
    held = ["x.npy", "--labels", "y.txt", "--test", "t.npy", "--test-labels", "yt.txt"]
    said = refused("probe", *held)
    assert "held-out row 22" in said and "ADV (1), INTJ (1)" in said and "--drop-unseen" in said
    result = run("probe", *held, "--drop-unseen")
    assert "on 22 held-out rows" in result.stdout and "2 held-out rows with labels" in result.stdout


def value(document: dict[str, Any], metric: str) -> float:
    """The one value of a metric that has no label."""
    (found,) = [row["value"] for row in document["rows"] if row["metric"] == metric and not row["label"]]
    return found


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either vectors"),
        (["x.npy"], "x.npy has vectors but no labels"),
        (["x.npy", "--labels", "yt.txt"], "24 labels for the 60 rows"),
        (["x.npy", "--labels", "nowhere.txt"], "nowhere.txt"),
        (["x.npy", "--labels", "blank.txt"], "blank.txt, line 2: the line is blank"),
        (["x.npy", "--labels", "one.txt"], "all 60 rows have the label A"),
        (["nan.npy", "--labels", "yt.txt"], "NaN at row 7, column 1"),
        (["x.npy", "--labels", "y.txt", "--test-labels", "yt.txt"], "name them with --test"),
        (["x.npy", "--labels", "y.txt", "--classifier", "linear"], "scored on held-out rows"),
        (["x.npy", "--labels", "y.txt", "--classifier", "svm"], "svm must be one of none, linear, mlp"),
        (["x.npy", "--labels", "y.txt", "--search", "quick"], "quick must be one of full, race"),
        (["x.npy", "--labels", "y.txt", "--label-distance", "max"], "max must be one of mean, minimum"),
        (["x.npy", "--labels", "y.txt", "--sample", "2"], "cannot hold all 3 labels"),
        (["x.npy", "--labels", "y.txt", "-o", "rows.xls"], "no known ending"),
        (["x.npy", "--labels", "y.txt", "--task", "pos"], "--task pos does not apply to a file of vectors"),
        (["x.npy", "-m", "model", "--task", "pos"], "give either vectors"),
        (["-m", "model"], "--task NAME"),
        (["-m", "model", "--task", "stsb"], "has scores, not labels"),
    ],
)
def test_wrong_input_is_one_line_that_says_what_to_do(arguments: list[str], said: str, refused: Callable[..., str]) -> None:
    write("blank.txt", "A\n\nB\n")
    write("one.txt", "A\n" * 60)
    bad = T.copy()
    bad[7, 1] = np.nan
    np.save("nan.npy", bad)
    before = set(Path().iterdir())
    assert said in refused("probe", *arguments)
    assert set(Path().iterdir()) == before


def test_help_has_examples_and_fits_80_columns(run: Run) -> None:
    text = run("probe", "--help").stdout
    assert "theodolite probe" in text.split("Examples")[1]
    assert max(map(len, text.splitlines())) <= 80
