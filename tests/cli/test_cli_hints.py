"""Every command that a survey or advice prints is on one line, names the user's own input, and runs when it is pasted."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

X = (np.random.default_rng(0).standard_normal((120, 6)) * [9, 1, 1, 1, 1, 0.01] + 3).astype(np.float32)


def commands(output: str) -> list[str]:
    """The printed commands, as a user copies them: whole lines."""
    return [line.strip() for line in output.splitlines() if line.strip().startswith("theodolite ")]


def paste(run: Run, line: str) -> None:
    for part in line.split(" && "):
        run(*shlex.split(part)[1:])


def table() -> list[str]:
    with Path("my docs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "size", *"abcdef"], *([i, 7 * i, *row] for i, row in enumerate(X.tolist()))])
    return ["my docs.csv", "--columns", "a:f"]


def arrays() -> list[str]:
    np.savez("two.npz", a=X, b=X[:5])
    return ["two.npz", "--key", "a"]


@pytest.mark.parametrize("prepared", [table, arrays])
def test_the_next_step_of_a_survey_names_the_file_and_runs(run: Run, prepared: Any) -> None:
    (hint,) = commands(run("survey", *prepared()).stdout)
    Path("LABELS").write_text("a\nb\n" * 60)
    paste(run, hint)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["mean", "tokens"])
def test_the_next_step_of_a_survey_of_an_encoder_names_it_and_its_options(run: Run, tiny: Any, unit: str) -> None:
    texts = [f"the {one} sees {n} {other}s.\n" for one in ("dog", "cat", "cow") for other in ("tree", "car") for n in range(2, 9)]
    Path("my texts.txt").write_text("".join(texts))
    options = ["--texts", "my texts.txt", "--unit", unit, "--max-length", "12", "--device", "cpu", "--allow-unknown"]
    (hint,) = commands(run("survey", "-m", tiny("bert"), *options).stdout)
    words = shlex.split(hint)
    assert words[1:5] == ["repair", "advise", "--model", str(tiny("bert"))]
    assert words[-2:] == ["--retrieval", "FOLDER"] and "--texts" not in words
    assert words[words.index("--max-length") + 1] == "12" and ("--unit" in words) == (unit == "mean")


@pytest.mark.slow
def test_the_command_of_advice_repairs_both_sides(run: Run) -> None:
    rng = np.random.default_rng(1)
    scores = rng.uniform(0, 1, 150)
    latent = rng.standard_normal((150, 8))
    other = latent * scores[:, None] + np.sqrt(1 - scores**2)[:, None] * rng.standard_normal((150, 8))
    cone = np.eye(8)[3] * 20
    for name, rows in (("a.npy", latent + cone * rng.uniform(0.5, 1.5, (150, 1))), ("b.npy", other + cone)):
        np.save(name, rows.astype(np.float32))
    np.savetxt("s.txt", scores)
    shown = commands(run("repair", "advise", "a.npy", "--pairs", "b.npy", "--scores", "s.txt", "--folds", 3).stdout)
    hints = [hint for line in shown for hint in line.split(" && ")]
    assert [hint.split()[2] for hint in hints] == ["fit", "apply", "apply", "quantize", "quantize"]
    for hint in hints:
        paste(run, hint)
    assert np.load("repaired-1.npy").shape[0] == np.load("repaired-2.npy").shape[0] == 150
