"""`gate` and `--strict`: exit codes, one line per breach, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

X = np.random.default_rng(0).standard_normal((300, 16)).astype(np.float32)


@pytest.fixture(autouse=True)
def files(here: Path) -> Path:
    np.save("x.npy", X)
    np.save("shifted.npy", X + 1)
    Path("theodolite.toml").write_text(
        "[survey]\nsource = 'x.npy'\n[bounds]\nmean_cosine = { max = 0.3 }\niso_score = { min = 0.5 }\n"
    )
    return here


def test_bounds_that_hold_and_one_that_is_broken(run: Run) -> None:
    assert "✓ pass: All 2 bounds hold." in run("gate").stdout.splitlines()
    np.save("x.npy", X + 1)
    lines = run("gate", "--report", "gate.md", code=1).stdout.splitlines()
    assert lines[1] == "✗ breach: 1 of 2 bounds is broken: mean cosine." and lines[2].startswith("✗ mean cosine 0.5")
    assert "✓ OK: IsoScore" in lines
    assert Path("gate.md").read_text().count("| ✗ |") == 1
    document = json.loads(run("gate", "--json", code=1).stdout)
    assert [finding["verdict"] for finding in document["findings"]] == ["bad", "good"]


def test_a_saved_survey_is_judged(run: Run) -> None:
    run("survey", "shifted.npy", "--output", "rows.json")
    run("gate", "rows.json", code=1)


def test_wrong_use_is_one_line_and_code_two(refused: Callable[..., str]) -> None:
    assert "there is no file none.toml" in refused("gate", "--config", "none.toml")
    assert "names no baseline to save to" in refused("gate", "--update")
    Path("theodolite.toml").write_text("baseline = 'b'\n[survey]\nsource = 'x.npy'\n[bounds]\nmean_cosine = { rise = 0.1 }\n")
    assert "no baseline b yet; save one with --update" in refused("gate")


def test_a_strict_survey_fails_on_a_bad_finding(run: Run, refused: Callable[..., str]) -> None:
    run("survey", "x.npy", "--strict")
    run("survey", "shifted.npy", "--strict")  # a mean cosine of 0.5 is worth a look, and has not been seen to harm
    np.save("cone.npy", np.load("x.npy") + 20)
    run("survey", "cone.npy")
    run("survey", "cone.npy", "--strict", code=1)
    run("survey", "x.npy", "cone.npy", "--strict", "--json", code=1)
    assert "leave out --no-findings" in refused("survey", "x.npy", "--strict", "--no-findings")


def test_a_strict_comparison_fails_on_what_got_worse(run: Run) -> None:
    options = ("--metrics", "mean_cosine,iso_score", "--strict")
    run("compare", "shifted.npy", "x.npy", *options)
    worse = run("compare", "x.npy", "shifted.npy", *options, code=1)
    assert worse.stderr.startswith("mean cosine got worse: ") and worse.stderr.count("\n") == 1
    run("compare", "x.npy", "shifted.npy", "--metrics", "mean_cosine,iso_score")
