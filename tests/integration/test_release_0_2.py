"""What version 0.2 wrote, made with its own code, still loads: spaces, repairs, results, baselines, rows and moments."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.core.moments import Moments
from theodolite.core.result import Result
from theodolite.core.rows import read_rows
from theodolite.repairs import load_repair
from theodolite.spaces import Space

FOLDER = Path(__file__).parent / "release_0_2"
X = np.load(FOLDER / "vectors.npy")
REPAIRED = dict(np.load(FOLDER / "repaired.npz"))  # as version 0.2 repaired these vectors


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_gives_the_vectors_it_gave_then(name: str) -> None:
    np.testing.assert_array_equal(load_repair(FOLDER / f"repair-{name}").transform(X), REPAIRED[name])


def test_a_space_has_its_layers_rows_and_origin() -> None:
    space = Space.open(FOLDER / "space")
    np.testing.assert_array_equal(space[1], X * 2 + 1)
    assert (space.origin.model, space.origin.revision, space.unit) == ("tiny", "abc", "tokens")
    assert space.rows["token"][3] == "t3" and space.rows["position"][39] == 39


@pytest.mark.parametrize(("name", "n"), [("survey", 4), ("layers", 2), ("compare", 3), ("probe", 16), ("baseline", 1)])
def test_a_result_without_an_answer_shows_its_rows_and_findings(name: str, n: int, tmp_path: Path) -> None:
    result = Result.load(FOLDER / name)
    assert len(result) == n and result.answer is None
    text = repr(result)
    for finding in result.findings:
        assert finding.verdict == "good" or finding.topic in text
    assert name == "baseline" or any(f"{row.value:.3g}"[:4] in text for row in result if row.value > 0)
    assert "<" in result._repr_html_()
    again = Result.load(result.save(tmp_path / "again"))
    assert again.rows == result.rows and again.findings == result.findings


def test_numbers_are_those_that_are_measured_now() -> None:
    then = Result.load(FOLDER / "survey")
    now = th.survey(X, metrics=[row.metric for row in then], bootstrap=20)
    for row in then:
        # Processors add up unit vectors of float32 in different orders.
        assert now.value(row.metric) == pytest.approx(row.value, rel=1e-6 if row.metric == "mean_cosine" else 1e-12)


def test_rows_and_moments_are_read() -> None:
    rows = read_rows(FOLDER / "rows.jsonl")
    assert rows == read_rows(FOLDER / "rows.parquet") and {row.n for row in rows} == {40}
    moments, repeated = Moments.load(FOLDER / "moments.npz"), Moments.of(np.repeat(X, 20, axis=0))
    assert moments.n == repeated.n == 800
    np.testing.assert_allclose(moments.full_scatter(), repeated.full_scatter(), rtol=1e-5, atol=1e-3)


def test_a_baseline_is_judged_against(tmp_path: Path) -> None:
    for name in ("baseline", "theodolite.toml"):
        copy = shutil.copytree if (FOLDER / name).is_dir() else shutil.copy
        copy(FOLDER / name, tmp_path / name)
    options: dict[str, Any] = {"metrics": ["iso_score"], "findings": False, "bootstrap": 40}
    same, flat = (th.survey(vectors, **options) for vectors in (X, X * [9, 1, 1, 1]))
    assert not any(finding.severity for finding in th.gate(same, config=tmp_path / "theodolite.toml").findings)
    # It holds no deviations, by which a change could be told from noise.
    with pytest.raises(ValueError, match="older releases did not save it"):
        th.gate(flat, config=tmp_path / "theodolite.toml")
