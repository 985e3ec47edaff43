"""`theodolite verify`: exit codes, hints that can be pasted, and one line for wrong use."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Run

import theodolite as th

X = np.random.default_rng(0).standard_normal((80, 8)).astype(np.float32)
WORDS = ("cat", "dog", "mat", "river", "bank", "sat", "the", "a")


@pytest.fixture
def texts(here: Path) -> list[str]:
    random = np.random.default_rng(1)
    made = [" ".join(random.choice(WORDS, size)) for size in np.linspace(2, 20, 80).astype(int)]
    (here / "texts.txt").write_text("\n".join(made) + "\n")
    return made


@pytest.mark.parametrize(
    ("served", "code"),
    [
        (X, 0),
        (X.astype(np.float16), 0),
        (5 * X, 0),
        (X + 0.01, 1),
        (X[:, :4], 1),
        (X @ np.linalg.qr(X[:8])[0], 1),
        (X[::-1], 1),
        (np.random.default_rng(3).standard_normal((80, 8)), 1),
    ],
)
def test_the_exit_code_is_0_only_for_the_same_up_to_precision_or_length(served: np.ndarray, code: int, run: Run) -> None:
    np.save("served.npy", served)
    np.save("original.npy", X)
    run("verify", "served.npy", "original.npy", code=code)


def test_the_setting_in_the_hint_passes(run: Run, tiny: Callable[[str], Path], texts: list[str]) -> None:
    folder = tiny("bert")
    np.save("mean.npy", th.extract(folder, texts, unit="mean", layers="last")[-1])
    np.save("cls.npy", th.extract(folder, texts, unit="cls", layers="last")[-1])
    output = run("verify", "mean.npy", "-m", folder, "--texts", "texts.txt").stdout
    assert all(words in " ".join(output.partition("\n")[0].split()) for words in ("mean.npy", "tiny-bert", "mean"))
    result = json.loads(run("verify", "cls.npy", "-m", folder, "--texts", "texts.txt", "--json", code=1).stdout)
    assert result["answer"]["verdict"] == "another setting"
    assert "[CLS] pooling instead of mean pooling" in result["answer"]["sentence"]
    name, *hint = shlex.split(result["answer"]["next"][0]["words"])
    assert name == "theodolite" and "--unit cls" in " ".join(hint)
    run(*hint)


def test_wrong_use_is_one_line(refused: Callable[..., str], texts: list[str]) -> None:
    np.save("x.npy", X)
    np.save("short.npy", X[:79])
    Path("empty.npy").write_bytes(b"")
    Path("few.txt").write_text("one\ntwo\n")
    assert "give either a model" in refused("verify", "x.npy")
    assert "79 vectors of x.npy" not in refused("verify", "short.npy", "x.npy")
    assert "80 vectors, but there are 2 texts" in refused("verify", "x.npy", "-m", "demo", "--texts", "few.txt")
    assert "empty" in refused("verify", "empty.npy", "x.npy")
    assert "give the texts that" in refused("verify", "x.npy", "-m", "demo")
    assert "no-such.npy" in refused("verify", "no-such.npy", "x.npy")
    assert "--prompt" in refused("verify", "x.npy", "x.npy", "--prompt", "query: ")
