"""`repair`: the command does what the estimator does, and leaves nothing half done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

from theodolite.cli.options import settings_dict
from theodolite.core.vectors import array
from theodolite.metrics.cosine import mean_cosine
from theodolite.repairs import REPAIRS
from theodolite.spaces import read

X = (np.random.default_rng(0).normal(size=(500, 16)) * np.linspace(0.2, 4, 16) + 2).astype(np.float32)


@pytest.fixture(autouse=True)
def files(here: Path) -> Path:
    np.save("x.npy", X)
    return here


def test_zero_mean_centres_and_says_what_changed(run: Run) -> None:
    run("repair", "fit", "zero-mean", "x.npy", "--to", "r")
    text = run("repair", "apply", "r", "x.npy", "--to", "out.npy").stdout
    out = np.load("out.npy")
    np.testing.assert_allclose(out, X - X.mean(axis=0), atol=1e-5)
    assert f"mean cosine {mean_cosine(X):.4g} →" in text
    assert "IsoScore" in text
    assert len(text.splitlines()) <= 2


def test_global_removes_the_asked_number_of_directions(run: Run) -> None:
    run("repair", "fit", "global", "x.npy", "--to", "r", "--directions", "5")
    run("repair", "apply", "r", "x.npy", "--to", "out.npy")
    assert np.linalg.matrix_rank(np.load("out.npy"), tol=1e-3) == 11


@pytest.mark.parametrize("ending", [".npy", ".safetensors", ".parquet"])
def test_the_command_gives_what_the_estimator_gives(ending: str, run: Run) -> None:
    fitted = REPAIRS["global"](n_directions=3).fit(X)
    run("repair", "fit", "global", "x.npy", "--to", "r", "--set", "n_directions=3")
    run("repair", "apply", "r", "x.npy", "--to", f"out{ending}")
    np.testing.assert_allclose(array(read(f"out{ending}")), fitted.transform(X), atol=1e-5)


def test_a_clustered_repair_takes_its_clusters_and_seed(run: Run) -> None:
    run("repair", "fit", "cluster-based", "x.npy", "--to", "r", "--clusters", "4", "--directions", "2", "--seed", "3")
    run("repair", "apply", "r", "x.npy", "--to", "out.npy")
    assert np.load("out.npy").shape == X.shape


def test_nothing_is_replaced_unasked(run: Run) -> None:
    run("repair", "fit", "zero-mean", "x.npy", "--to", "r")
    again = run("repair", "fit", "zero-mean", "x.npy", "--to", "r", code=2)
    assert "--overwrite" in again.stderr
    run("repair", "fit", "zero-mean", "x.npy", "--to", "r", "--overwrite")
    Path("out.npy").write_bytes(b"mine")
    run("repair", "apply", "r", "x.npy", "--to", "out.npy", code=2)
    assert Path("out.npy").read_bytes() == b"mine"
    run("repair", "apply", "r", "x.npy", "--to", "out.npy", "--overwrite")


def test_vectors_of_another_width_are_refused_and_leave_no_file(files: Path, run: Run) -> None:
    run("repair", "fit", "zero-mean", "x.npy", "--to", "r")
    np.save("narrow.npy", X[:, :5])
    run("repair", "apply", "r", "narrow.npy", "--to", "out.npy", code=2)
    assert not list(files.glob("*out.npy*"))


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["fit", "zero-maen", "x.npy", "--to", "r"], "did you mean 'zero-mean'"),
        (["fit", "zero-mean", "x.npy", "--to", "r", "--clusters", "3"], "no setting 'clusters'"),
        (["fit", "zero-mean", "x.npy", "--to", "r", "--set", "novalue"], "NAME=VALUE"),
        (["fit", "global", "x.npy", "--to", "r", "--directions", "16"], "n_directions=16 must be"),
        (["apply", "nowhere", "x.npy", "--to", "out.npy"], "nowhere"),
    ],
)
def test_faults_are_one_line(arguments: list[str], fault: str, files: Path, run: Run) -> None:
    result = run("repair", *arguments, code=2)
    assert fault in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (files / "r").exists()


def test_all_repairs_are_listed_and_can_be_fitted_by_name(run: Run) -> None:
    text = run("repair", "list").stdout
    lines = text.splitlines()
    for name in REPAIRS:
        assert name in lines


def test_settings_are_read_as_json_or_text(run: Run) -> None:
    texts = {"a": "3", "b": "0.5", "c": "true", "d": "null", "e": "[1, 2]", "f": "top"}
    values = settings_dict("--set", [f"{name}={text}" for name, text in texts.items()])
    assert list(values.values()) == [3, 0.5, True, None, [1, 2], "top"]


def test_weights_are_learned_from_scored_pairs(run: Run) -> None:
    rng = np.random.default_rng(1)
    meaning = rng.normal(size=(200, 16))
    other = 0.6 * meaning + rng.normal(size=(200, 16)) * rng.uniform(0, 1.5, (200, 1))
    scores = np.sum(meaning * other, axis=1) / np.linalg.norm(meaning, axis=1) / np.linalg.norm(other, axis=1)
    noise = rng.normal(size=(2, 200, 1)) * np.eye(1, 16) * 9  # one direction that says nothing about the scores
    np.save("a.npy", meaning + noise[0])
    np.save("b.npy", other + noise[1])
    np.savetxt("scores.txt", scores)
    np.save("scores.npy", scores)
    for number, file in enumerate(("scores.txt", "scores.npy")):
        told = run("repair", "fit", "weighted", "a.npy", "--pairs", "b.npy", "--scores", file, "--to", f"r{number}").stdout
        before, after = (float(part) for part in told.split("scores ")[1].split(" on")[0].split(" → "))
        assert after > before + 0.2


def test_pairs_without_scores_or_for_another_repair_are_refused(run: Run) -> None:
    for arguments in (["weighted", "x.npy", "--pairs", "x.npy"], ["global", "x.npy", "--pairs", "x.npy", "--scores", "x.npy"]):
        result = run("repair", "fit", *arguments, "--to", "r", code=2)
        assert "go together" in result.stderr


def test_other_columns_stay_and_zero_rows_are_named(run: Run) -> None:
    Path("docs.csv").write_text("id,v,w,text\n" + "".join(f"{i:03d},{i},{i * i},t{i}\n" for i in range(20)))
    run("repair", "fit", "zero-mean", "docs.csv", "--columns", "v,w", "--to", "r")
    run("repair", "apply", "r", "docs.csv", "--columns", "v,w", "--to", "out.csv")
    lines = Path("out.csv").read_text().splitlines()
    assert lines[0] == "id,v,w,text" and lines[1] == "000,-9.5,-123.5,t0" and len(lines) == 21
    told = run("repair", "apply", "r", "docs.csv", "--columns", "v,w", "--to", "out.npy").stdout
    assert "leaves out id, text" in " ".join(told.split())


def test_a_map_is_exported_for_other_programs(run: Run) -> None:
    run("repair", "fit", "global", "x.npy", "--directions", "3", "--to", "r")
    told = run("repair", "export", "r", "--to", "map").stdout
    fitted = REPAIRS["global"](n_directions=3).fit(X)
    np.testing.assert_allclose(X @ np.load("map/matrix.npy") + np.load("map/bias.npy"), fitted.transform(X), atol=1e-4)
    assert "16 → 16 dimensions, written to map" in " ".join(told.split())
    assert "--overwrite" in run("repair", "export", "r", "--to", "map", code=2).stderr
    run("repair", "fit", "cluster-based", "x.npy", "--clusters", "2", "--directions", "1", "--to", "c")
    told = run("repair", "export", "c", "--to", "c.onnx", code=2).stderr
    assert "moves each cluster in its own way" in told and "can represent it" in told and "theodolite repair apply c FILE" in told
    run("repair", "fit", "unit-length", "x.npy", "--to", "u")
    assert "divides each row by its own length" in run("repair", "export", "u", "--to", "u.onnx", code=2).stderr


def test_a_model_is_exported_and_checked(tiny: Callable[[str], Path], run: Run) -> None:
    pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
    words = ("mat", "dog", "bank", "river", "a", "un", "s", "on", "sat", "the")
    Path("texts.txt").write_text("".join(f"the cat sat on the {word}.\n" for word in words))
    run("extract", tiny("bert"), "--texts", "texts.txt", "--unit", "mean", "--layers", "last", "--to", "space")
    run("repair", "fit", "zero-mean", "space", "--to", "r")
    run("repair", "export", "r", tiny("bert"), "--to", "model")
    assert "gives the same vectors as at export" in " ".join(run("repair", "check", "model").stdout.split())
    assert "no repair was exported" in run("repair", "check", tiny("bert"), code=2).stderr
    bias = Path("model/2_Dense/self_test.json")
    bias.write_text(bias.read_text().replace('"No."', '"the river."'))
    assert "differ from those at export" in " ".join(run("repair", "check", "model", code=1).stdout.split())
    run("extract", tiny("bert"), "--texts", "texts.txt", "--unit", "tokens", "--layers", "last", "--to", "tokens")
    run("repair", "fit", "zero-mean", "tokens", "--to", "rt")
    assert "fitted on vectors of tokens" in run("repair", "export", "rt", tiny("bert"), "--to", "m2", code=2).stderr
