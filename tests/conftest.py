"""Fixtures shared by all tests: real data and reference values where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data sets named by THEODOLITE_DATA."""
    folder = Path(os.environ.get("THEODOLITE_DATA", ""))
    if not os.environ.get("THEODOLITE_DATA") or not folder.is_dir():
        pytest.skip("THEODOLITE_DATA does not name a folder of real data")
    return folder


@pytest.fixture(scope="session")
def reference(data: Path) -> Path:
    """The folder of reference values that lies beside the real data."""
    folder = data.parent / "reference"
    if not folder.is_dir():
        pytest.skip("there are no reference values beside THEODOLITE_DATA")
    return folder


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of real encoders named by THEODOLITE_MODELS."""
    folder = Path(os.environ.get("THEODOLITE_MODELS", ""))
    if not os.environ.get("THEODOLITE_MODELS") or not folder.is_dir():
        pytest.skip("THEODOLITE_MODELS does not name a folder of encoders")
    return folder
