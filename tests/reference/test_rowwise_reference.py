"""Uniformity, alignment and intrinsic dimension against the values of the authors' own implementations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theodolite.metrics.neighbours import intrinsic_dimension
from theodolite.metrics.sphere import alignment, uniformity

CLOUDS = ("iso_2000x32", "plaw_1500x64", "rogue_1200x48", "deficient_40x96", "lowrank_500x64", "dup_600x24", "constfeat_700x20")


@pytest.fixture(scope="module")
def inputs(reference: Path) -> dict[str, np.ndarray]:
    with np.load(reference / "isotropy" / "inputs.npz") as stored:
        return {name: stored[name] for name in stored.files}


@pytest.fixture(scope="module")
def expected(reference: Path) -> dict[str, dict[str, Any]]:
    return dict(json.loads((reference / "isotropy" / "metrics.json").read_text())["metrics"])


@pytest.mark.parametrize("name", CLOUDS)
def test_uniformity_and_alignment(name: str, inputs: dict[str, np.ndarray], expected: dict[str, dict[str, Any]]) -> None:
    X = inputs[name]
    assert uniformity(X) == pytest.approx(expected[name]["uniform_loss_t2_f64"], rel=1e-12)
    assert uniformity(X.astype(np.float32)) == pytest.approx(expected[name]["uniform_loss_t2_f64"], rel=1e-5)
    half = len(X) // 2
    printed = expected[name]["align_loss_alpha2_firsthalf_vs_secondhalf_f64"]
    assert alignment(X[:half], X[half : 2 * half]) == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in CLOUDS if name not in ("deficient_40x96", "dup_600x24")])
def test_intrinsic_dimension(name: str, inputs: dict[str, np.ndarray], expected: dict[str, dict[str, Any]]) -> None:
    assert intrinsic_dimension(inputs[name]) == pytest.approx(expected[name]["skdim_TwoNN_default"], rel=1e-9)
    assert intrinsic_dimension(inputs[name].astype(np.float32)) == pytest.approx(expected[name]["skdim_TwoNN_default"], rel=1e-3)


def test_copies_do_not_make_a_cloud_a_point(inputs: dict[str, np.ndarray], expected: dict[str, dict[str, Any]]) -> None:
    """With copies kept, ratios are not defined and the library answers 0; the distinct rows have a dimension."""
    assert expected["dup_600x24"]["skdim_TwoNN_default"] == 0
    distinct = np.unique(inputs["dup_600x24"], axis=0)
    assert len(distinct) == 60
    assert intrinsic_dimension(inputs["dup_600x24"]) == intrinsic_dimension(distinct) > 1
