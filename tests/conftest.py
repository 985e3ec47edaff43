"""Fixtures shared by all tests: real data and reference values where they are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from tiny_encoders import build

# A busy machine makes any one example slow, which says nothing of the code.
hypothesis.settings.register_profile("without a clock", deadline=None)
hypothesis.settings.load_profile("without a clock")

Tiny = Callable[[str], Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with slow tests first, so that no worker is left alone with a long one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


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


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The folder of a tiny random encoder of a family, made once per session."""
    folders: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in folders:
            folders[family] = build(family, tmp_path_factory.mktemp(family) / f"tiny-{family}")
        return folders[family]

    return folder


@pytest.fixture
def vector_texts() -> list[str]:
    return [
        "the cat sat on the mat.",
        "a dog",
        "unbelievable dogs, the banks!",
        "",
        "猫 and 犬: naïve café ünïcode",
        "river " * 20,
        "  two  spaces ",
        "the cat sat on the mat.",
    ]


@pytest.fixture
def few_open_files() -> Iterator[None]:
    """A process that may open only some forty files more than it has open already."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = max(int(path.name) for path in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 40, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
