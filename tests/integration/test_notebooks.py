"""Notebooks are all there and stored without output; test_docs_site.py runs them as it builds the site."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert {"first-steps", "healthy-space", "repair", "fine-tuning", "label-geometry", "reproduce-a-paper"} <= {
        path.stem for path in NOTEBOOKS
    }


def test_stored_notebooks_have_no_output() -> None:
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            assert not cell.get("outputs") and not cell.get("execution_count")
