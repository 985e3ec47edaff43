"""The files around a release agree with the package: citation, workflows, issue forms."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

pytestmark = pytest.mark.skipif(not GITHUB.is_dir(), reason="these files are in the repository, not in the sdist")


def load(path: Path) -> dict[Any, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def test_the_citation_names_this_version_and_licence() -> None:
    citation = load(ROOT / "CITATION.cff")
    assert str(citation["version"]) == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_every_python_that_the_package_names_is_tested() -> None:
    versions = [
        name.rpartition(" ")[2] for name in PROJECT["classifiers"] if name.startswith("Programming Language :: Python :: 3.")
    ]
    matrix = load(GITHUB / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert matrix == versions
    assert PROJECT["requires-python"] == f">={versions[0]}"


@pytest.mark.parametrize("name", ["test", "docs", "publish"])
def test_a_workflow_has_few_rights_and_no_secrets(name: str) -> None:
    path = GITHUB / "workflows" / f"{name}.yml"
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in path.read_text(encoding="utf-8")
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            words = step.get("run", "").split()
            if words[:1] == ["make"]:
                assert f"\n{words[-1]}:" in targets, f"there is no target {words[-1]}"


def test_publishing_is_by_token_of_the_run_alone() -> None:
    job = load(GITHUB / "workflows" / "publish.yml")["jobs"]["publish"]
    assert job["permissions"] == {"id-token": "write"}
    assert job["needs"] == "build" and job["environment"] == "pypi"
    assert all("password" not in step.get("with", {}) for step in job["steps"])


@pytest.mark.parametrize("path", sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem)
def test_an_issue_form_has_what_github_asks_for(path: Path) -> None:
    form = load(path)
    assert {"name", "description", "body"} <= set(form)
    names = [part["id"] for part in form["body"]]
    assert len(set(names)) == len(names)
    assert all(part["attributes"]["label"] for part in form["body"])
