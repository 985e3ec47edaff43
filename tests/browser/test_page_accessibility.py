"""Accessibility: axe-core, the rules of the Web Content Accessibility Guidelines as a program, finds no serious violation.

axe-core is fetched by npm once and kept in a cache; `THEODOLITE_AXE` names a file of it instead. Without both, tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th

pytestmark = pytest.mark.slow

VERSION = "4.10.3"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "theodolite-tests"


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    path = Path(os.environ.get("THEODOLITE_AXE", CACHE / f"axe-core-{VERSION}.js"))
    if not path.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("axe-core comes by npm, which is not installed")
        folder = tmp_path_factory.mktemp("axe")
        done = subprocess.run(
            [npm, "pack", f"axe-core@{VERSION}"], cwd=folder, capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode:
            pytest.skip(f"axe-core could not be downloaded by npm: {done.stderr.strip()[-200:]}")
        with tarfile.open(folder / f"axe-core-{VERSION}.tgz") as package:
            source = package.extractfile("package/axe.min.js")
            assert source is not None
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_bytes(source.read())
            partial.replace(path)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory, study_page: Path) -> dict[str, Path]:
    """One page of each kind that needs no encoder."""
    folder = tmp_path_factory.mktemp("pages")
    X = np.random.default_rng(0).standard_normal((200, 8))
    th.survey(X + 2, bootstrap=20).report(folder / "survey.html")
    th.compare(X + 2, X, bootstrap=20).report(folder / "compare.html")
    return {"study": study_page, "survey": folder / "survey.html", "compare": folder / "compare.html"}


@pytest.mark.parametrize(("kind", "scheme"), [("study", "light"), ("study", "dark"), ("survey", "light"), ("compare", "dark")])
def test_there_is_no_serious_violation(
    visit: Any, pages: dict[str, Path], axe: str, draw_all: Callable[[Any], None], kind: str, scheme: str
) -> None:
    page = visit(pages[kind], color_scheme=scheme)
    draw_all(page)  # opens what is folded
    page.evaluate("document.querySelectorAll('.card.folded .card-fold').forEach((button) => button.click())")
    page.evaluate(axe)  # not as an element: the page's own policy would refuse it
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    serious = [
        f"{violation['id']}: {violation['help']}: {violation['nodes'][0]['html'][:200]} {violation['nodes'][0]['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > 10  # it did look
