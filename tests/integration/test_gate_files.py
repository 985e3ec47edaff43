"""The files for GitHub and pre-commit in docs/gate.md: valid, and their commands pass and fail as a gate must."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text(encoding="utf-8")
WORKFLOW, HOOKS = (yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE))
X = np.random.default_rng(0).normal(0, 1, (300, 8)).astype(np.float32)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    np.save(folder / "vectors.npy", X)
    text = "baseline = 'baseline'\n[survey]\nsource = 'vectors.npy'\n[bounds]\nmean_cosine = { rise = 0.02 }\n"
    (folder / "theodolite.toml").write_text(text)
    assert run("theodolite gate --update", folder).returncode == 0
    return folder


def run(command: str, folder: Path) -> Any:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    summary = str(folder.parent / "summary.md")
    environment = {**os.environ, "THEODOLITE_CACHE": str(folder / "cache"), "PATH": path, "GITHUB_STEP_SUMMARY": summary}
    return subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_workflow_passes_fails_and_writes_its_summary(project: Path) -> None:
    steps = [step for step in WORKFLOW["jobs"]["gate"]["steps"] if "run" in step]
    assert WORKFLOW[True] == "pull_request"  # `on` is true in YAML 1.1
    install, gate, summary = (step["run"] for step in steps)
    assert install.startswith("pip install path/to/theodolite") and steps[2]["if"] == "always()"
    assert run(gate, project).returncode == 0
    np.save(project / "vectors.npy", X + 1)
    broken = run(gate, project)
    assert broken.returncode == 1
    assert sum(line.startswith("✗ mean cosine") for line in broken.stdout.splitlines()) == 1
    assert run(summary, project).returncode == 0
    assert "| ✗ | mean cosine |" in (project.parent / "summary.md").read_text(encoding="utf-8")


def test_the_hook_passes_and_fails(project: Path) -> None:
    (hook,) = HOOKS["repos"][0]["hooks"]
    assert HOOKS["repos"][0]["repo"] == "local" and hook["language"] == "system" and hook["pass_filenames"] is False
    pattern = re.compile(hook["files"])
    assert pattern.search("data/vectors.npy") and pattern.search("theodolite.toml") and not pattern.search("README.md")
    assert run(hook["entry"], project).returncode == 0
    np.save(project / "vectors.npy", X + 1)
    assert run(hook["entry"], project).returncode == 1
