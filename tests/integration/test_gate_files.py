"""The action, the hook and the files in docs/gate.md: valid, and their commands pass and fail as a gate must."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
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


def run(command: str, folder: Path, *shell: str, **variables: str) -> Any:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "THEODOLITE_CACHE": str(folder / "cache"), "PATH": path, **variables}
    words = [*(shell or ("sh",)), "-c", command]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def step(name: str) -> dict[str, Any]:
    return next(step for step in ACTION["runs"]["steps"] if step.get("name") == name)


def test_the_workflow_uses_the_action_with_inputs_that_it_has() -> None:
    assert WORKFLOW[True] == "pull_request"  # `on` is true in YAML 1.1
    (used,) = (step for step in WORKFLOW["jobs"]["gate"]["steps"] if step["uses"] == "./theodolite")
    assert set(used["with"]) <= set(ACTION["inputs"])


def test_the_action_passes_values_to_the_shell_by_environment_only() -> None:
    """An expression inside a script would run whatever a pull request writes into it."""
    for each in ACTION["runs"]["steps"]:
        assert "${{" not in each.get("run", "")
        named = re.findall(r"inputs\.([\w-]+)", str(each))
        assert set(named) <= set(ACTION["inputs"])


@pytest.mark.slow
def test_the_action_passes_fails_and_writes_its_summary(project: Path) -> None:
    gate = step("Run the gate")
    assert gate["shell"] == "bash"
    written = {name: project.parent / f"{name}.txt" for name in ("summary", "output")}
    environment = {
        "CONFIG": ACTION["inputs"]["config"]["default"],
        "GITHUB_STEP_SUMMARY": str(written["summary"]),
        "GITHUB_OUTPUT": str(written["output"]),
    }
    assert set(gate["env"]) == {"CONFIG"}

    def outcome() -> tuple[int, str, str]:
        written["summary"].write_text("")
        done = run(gate["run"], project, "bash", "--noprofile", "--norc", "-eo", "pipefail", **environment)
        return done.returncode, written["output"].read_text().splitlines()[-1], written["summary"].read_text(encoding="utf-8")

    code, verdict, summary = outcome()
    assert (code, verdict) == (0, "verdict=pass")
    assert "All" in summary or "The bound holds" in summary
    np.save(project / "vectors.npy", X + 1)
    code, verdict, summary = outcome()
    assert (code, verdict) == (1, "verdict=breach")
    assert "| ✗ | mean cosine |" in summary
    (project / "theodolite.toml").write_text("[bounds]\ncolour = { max = 1 }\n")
    code, verdict, summary = outcome()
    assert (code, verdict, summary) == (2, "verdict=error", "")


def test_the_action_installs_the_package_that_it_is_part_of(project: Path) -> None:
    """With pip replaced by a program that prints what it is given."""
    install = step("Install theodolite")
    (project / "python").write_text('#!/bin/sh\necho "$@"\n')
    (project / "python").chmod(0o755)
    for extras, suffix in (("", ""), ("models,fast", "[models,fast]")):
        environment = {"EXTRAS": extras, "SOURCE": "/the/action", "PATH": f"{project}:{os.environ['PATH']}"}
        done = run(install["run"], project, "bash", "-eo", "pipefail", **environment)
        assert done.stdout.split() == ["-m", "pip", "install", "--quiet", f"/the/action{suffix}"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert "models" in extras and "models" in ACTION["inputs"]["extras"]["description"]


def test_both_hooks_run_the_same_command_on_the_same_files() -> None:
    (published,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    (local,) = HOOKS["repos"][0]["hooks"]
    assert published["language"] == "python"  # pre-commit installs the package
    same = ("id", "name", "entry", "pass_filenames", "files")
    assert {name: published[name] for name in same} == {name: local[name] for name in same}


@pytest.mark.slow
def test_the_hook_passes_and_fails(project: Path) -> None:
    (hook,) = HOOKS["repos"][0]["hooks"]
    assert HOOKS["repos"][0]["repo"] == "local" and hook["language"] == "system" and hook["pass_filenames"] is False
    pattern = re.compile(hook["files"])
    assert pattern.search("data/vectors.npy") and pattern.search("theodolite.toml") and not pattern.search("README.md")
    assert run(hook["entry"], project).returncode == 0
    np.save(project / "vectors.npy", X + 1)
    assert run(hook["entry"], project).returncode == 1
