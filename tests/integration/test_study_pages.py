"""The pages of studies are what their committed records give today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_pages_are_made_from_the_records() -> None:
    spec = importlib.util.spec_from_file_location("study_pages", ROOT / "benchmarks" / "study_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = dict(module.pages())
    assert ROOT / "docs" / "study-rp21.md" in pages
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"run `python benchmarks/study_pages.py`: {path.name} is out of date"
