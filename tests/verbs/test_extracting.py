"""`extract`: a space in memory or in a folder, from any encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th


def test_a_folder_holds_what_memory_would(tiny: Any, vector_texts: list[str], tmp_path: Path) -> None:
    in_memory = th.extract(tiny("bert"), vector_texts, unit="tokens")
    stored = th.extract(tiny("bert"), vector_texts, unit="tokens", to=tmp_path / "space")
    assert stored.layers == in_memory.layers == (0, 1, 2, 3)
    for layer in stored.layers:
        np.testing.assert_array_equal(stored[layer], in_memory[layer])
    assert "tokens" in repr(stored)


def test_what_exists_is_not_overwritten(tiny: Any, vector_texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError):
        th.extract(tiny("bert"), vector_texts, to=tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_the_default_unit_is_the_tasks_or_the_mean(tiny: Any) -> None:
    assert th.extract(tiny("bert"), ["a dog"]).origin.pooling == "mean"
    assert th.extract(tiny("bert"), task="demo-pairs", layers="last").origin.pooling == "mean"


def test_options_of_files_are_refused(tiny: Any) -> None:
    with pytest.raises(TypeError, match=r"extract\(\) has no option 'key'"):
        th.extract(tiny("bert"), ["a dog"], key="x")
