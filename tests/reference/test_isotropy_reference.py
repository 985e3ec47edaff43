"""Agreement with the values that the authors' own programs gave on the reference clouds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theodolite.metrics.cosine import dimension_contributions, mean_cosine
from theodolite.metrics.isoscore import iso_score, iso_score_star
from theodolite.metrics.partition import eigen_gap, log_partition_isotropy, partition_isotropy
from theodolite.metrics.spectral import effective_rank, effective_rank_singular, explained_variance_curve, participation_ratio

CLOUDS = (
    "iso_2000x32",
    "plaw_1500x64",
    "rogue_1200x48",
    "deficient_40x96",
    "lowrank_500x64",
    "dup_600x24",
    "constfeat_700x20",
)


@pytest.fixture(scope="module", params=CLOUDS)
def case(request: pytest.FixtureRequest, reference: Path) -> tuple[np.ndarray, dict[str, Any]]:
    with np.load(reference / "isotropy" / "inputs.npz") as stored:
        X = stored[request.param]
    return X, json.loads((reference / "isotropy" / "metrics.json").read_text())["metrics"][request.param]


def number(value: Any) -> float | None:
    """A published value, or None where the program raised or gave a complex number."""
    return value if isinstance(value, float) else None


def test_the_reference_has_these_clouds(reference: Path) -> None:
    with np.load(reference / "isotropy" / "inputs.npz") as stored:
        assert set(stored.files) == set(CLOUDS)


def test_iso_score(case: tuple[np.ndarray, dict[str, Any]]) -> None:
    X, known = case
    score = iso_score(X)
    assert score == pytest.approx(known["closed_form_(PR-1)/(D-1)"], rel=1e-12)
    if number(known["isoscore_github_f64"]) is not None:
        assert score == pytest.approx(known["isoscore_github_f64"], rel=1e-12)
    assert score == pytest.approx(known["isoscore_pypi201_f64"], rel=1e-6)
    assert iso_score(X.astype(np.float32)) == pytest.approx(score, rel=1e-5)
    assert participation_ratio(X) == pytest.approx(known["participation_ratio"], rel=1e-12)


@pytest.mark.parametrize("zeta", [0.0, 0.2, 0.75, 1.0])
def test_iso_score_star(case: tuple[np.ndarray, dict[str, Any]], zeta: float) -> None:
    X, known = case
    published = known[f"isoscore_star_C0=I_zeta={zeta}_f64"]
    assert iso_score_star(X, np.eye(X.shape[1]), zeta=zeta) == pytest.approx(published, rel=1e-6)


def test_partition_isotropy(case: tuple[np.ndarray, dict[str, Any]]) -> None:
    X, known = case
    assert log_partition_isotropy(X) == pytest.approx(known["logI_both_signs_raw"], abs=1e-9)
    assert log_partition_isotropy(X, centered=True) == pytest.approx(known["logI_both_signs_zero_mean"], abs=1e-9)
    for field, centered in (("IW_notebook_f64", False), ("IW_notebook_zero_mean_f64", True)):
        published = number(known[field])
        if published is not None:
            assert partition_isotropy(X, centered=centered) <= published * (1 + 1e-9)


def test_the_eigen_gap_where_no_direction_is_empty(case: tuple[np.ndarray, dict[str, Any]]) -> None:
    X, known = case
    if np.linalg.matrix_rank(X) == X.shape[1]:
        assert eigen_gap(X) == pytest.approx(known["min_eig_gap_rel_raw"], rel=1e-6)
    else:  # the reference compares empty directions with each other, which only measures rounding
        assert known["min_eig_gap_rel_raw"] < 1e-15 < eigen_gap(X)


def test_explained_variance_and_ranks(case: tuple[np.ndarray, dict[str, Any]]) -> None:
    X, known = case
    np.testing.assert_allclose(explained_variance_curve(X, 3), known["EV_1_2_3_uncentred(eq1 literal)"], rtol=1e-10)
    np.testing.assert_allclose(explained_variance_curve(X, 3, centered=True), known["EV_1_2_3_centred"], rtol=1e-10)
    assert effective_rank(X) == pytest.approx(known["erank_entropy_cov_eigs"], rel=1e-9)
    assert effective_rank_singular(X) == pytest.approx(known["erank_RoyVetterli_singular_centred"], rel=1e-9)


def test_mean_cosine_and_contributions(case: tuple[np.ndarray, dict[str, Any]]) -> None:
    X, known = case
    assert mean_cosine(X) == pytest.approx(known["mean_cos_exact_i!=j"], rel=1e-9, abs=1e-14)
    contributions = dimension_contributions(X)
    for dimension, value in known["timkey_contrib_top3_exact"]:
        assert contributions[dimension] == pytest.approx(value, rel=1e-9)
    assert set(np.argsort(contributions)[-3:]) == {dimension for dimension, _ in known["timkey_contrib_top3_exact"]}
