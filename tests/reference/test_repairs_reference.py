"""Repairs against what the authors' own programs answered on the same clouds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theodolite.repairs import ClusterRemoveDirections, RemoveDirections, Whiten

Stored = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def inputs(reference: Path) -> Stored:
    with np.load(reference / "isotropy" / "inputs.npz", allow_pickle=False) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def transforms(reference: Path) -> Stored:
    with np.load(reference / "isotropy" / "transforms.npz", allow_pickle=False) as stored:
        return dict(stored)


def same_signs(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`found` with its columns turned to the side of `wanted`: an eigenvector has no sign."""
    return found * np.sign(np.einsum("ij,ij->j", found, wanted))


def test_whitening_up_to_the_sign_of_columns(inputs: Stored, transforms: Stored) -> None:
    repair = Whiten().fit(inputs["plaw_1500x64"])
    np.testing.assert_allclose(
        same_signs(repair.kernel_, transforms["whiten_kernel"]), transforms["whiten_kernel"], rtol=1e-8, atol=1e-9
    )
    np.testing.assert_allclose(-repair.mean_, transforms["whiten_bias"][0], rtol=1e-10)
    whitened = repair.transform(inputs["plaw_1500x64"])
    unit = whitened / np.linalg.norm(whitened, axis=1, keepdims=True)  # the authors scale rows to unit length after whitening
    wanted = transforms["whiten_out_normalized"]
    np.testing.assert_allclose(same_signs(unit, wanted), wanted, atol=1e-8)


def test_whitening_to_sixteen_components(inputs: Stored, transforms: Stored) -> None:
    whitened = Whiten(16).fit_transform(inputs["plaw_1500x64"])
    unit = whitened / np.linalg.norm(whitened, axis=1, keepdims=True)
    wanted = transforms["whiten_out_k16"]
    np.testing.assert_allclose(same_signs(unit, wanted), wanted, atol=1e-8)


def test_all_but_the_top_projects_centred_rows(inputs: Stored, transforms: Stored) -> None:
    X = inputs["rogue_1200x48"]
    repair = RemoveDirections(3).fit(X)
    np.testing.assert_allclose(repair.transform(X), transforms["abtt_centred_projection_n3"], atol=1e-6)
    # The other published variant subtracts the mean but takes the coordinates of the rows as they were: it shifts every row
    # by the same part of the mean, along the removed directions.
    along = repair.basis_ @ (repair.basis_.T @ repair.mean_)
    uncentred = transforms["abtt_s1998_n3(projection of UNCENTRED x)"]
    np.testing.assert_allclose(repair.transform(X) - along, uncentred, atol=1e-6)
    assert np.abs(along).max() > 1e-3


def test_cluster_based_with_the_stored_labels(inputs: Stored, transforms: Stored) -> None:
    labels = transforms["cb_labels"]
    repaired = ClusterRemoveDirections(5, 4).fit_transform(inputs["plaw_1500x64"], labels=labels)
    np.testing.assert_allclose(repaired, transforms["cluster_based_out_K5_pc4"], atol=1e-6)
