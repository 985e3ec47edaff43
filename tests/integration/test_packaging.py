"""Wheel and sdist hold what they should, and the wheel, built from the sdist, works in an empty environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command, run without what this test run has put in the environment."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both distributions; the wheel is built from the sdist, as pip would."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def test_the_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "theodolite").rglob("*.py")}
    assert modules <= names
    assert "theodolite/py.typed" in names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"theodolite"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata


def test_the_package_index_accepts_both(built: dict[str, Path]) -> None:
    pytest.importorskip("twine")
    run(sys.executable, "-m", "twine", "check", "--strict", *built.values(), cwd=built["wheel"].parent)


def test_the_base_install_asks_for_no_torch(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
    base = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert any("numpy" in line for line in base)
    assert not any("torch" in line or "transformers" in line for line in base)
    offered = {line.split()[-1] for line in metadata.splitlines() if line.startswith("Provides-Extra:")}
    assert {"models", "fast", "demo", "figures", "docs", "dev"} <= offered


def test_the_sdist_can_be_read_built_and_tested(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "SECURITY.md",
        "docs/conf.py",
        "pyproject.toml",
        "constraints.txt",
        "Makefile",
        "src/theodolite/py.typed",
    }
    assert wanted <= names
    assert "tests/integration/test_packaging.py" in names
    assert not any(name.startswith((".git/", ".venv", "dist/", "docs/studies/")) or "__pycache__" in name for name in names)


def test_an_empty_environment_gets_a_working_command(built: dict[str, Path], tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    binaries = tmp_path / "env" / "bin"
    # What is imported is compiled then; compiling all of plotly and SciPy would take longer than everything else here.
    pip = (binaries / "python", "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt")
    run(*pip, built["wheel"], cwd=tmp_path)
    place = run(binaries / "python", "-c", "import theodolite; print(theodolite.__file__)", cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(tmp_path)
    assert "survey" in run(binaries / "theodolite", "--help", cwd=tmp_path)

    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32))
    assert "other checks OK" in run(binaries / "theodolite", "survey", "vectors.npy", cwd=tmp_path)
    json.loads(run(binaries / "theodolite", "survey", "vectors.npy", "--json", cwd=tmp_path))
    run(binaries / "python", "-m", "pip", "check", cwd=tmp_path)
    # The word vectors of the demo come in a package of their own, which needs no torch either.
    run(*pip, "wordllama", cwd=tmp_path)
    assert "other checks OK" in run(binaries / "theodolite", "demo", "--static", cwd=tmp_path)
    installed = json.loads(run(binaries / "python", "-m", "pip", "list", "--format", "json", cwd=tmp_path))
    assert "torch" not in {package["name"] for package in installed}
