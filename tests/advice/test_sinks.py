"""A position or dimension with most of the norm is found, and what leaving it out does is computed on the rest."""

from __future__ import annotations

import numpy as np

from theodolite.advice.sinks import sink_findings
from theodolite.metrics import iso_score, mean_cosine
from theodolite.metrics.cloud import Cloud


def tokens(*, sink: float = 1, dimension: float = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """40 texts of 10 tokens in 12 dimensions."""
    X = np.random.default_rng(seed).standard_normal((400, 12))
    positions = np.tile(np.arange(10), 40)
    X[positions == 0] += (sink - 1) * 3
    X[:, 5] += (dimension - 1) * 3
    return X, positions


def test_even_tokens_have_neither() -> None:
    X, positions = tokens()
    assert sink_findings(Cloud(X), positions) == []


def test_a_sink_is_named_with_what_leaving_it_out_does() -> None:
    X, positions = tokens(sink=30)
    (finding,) = sink_findings(Cloud(X), positions)
    squares = np.square(X).sum(axis=1)
    assert (finding.topic, finding.verdict) == ("attention sink", "bad")
    assert np.isclose(finding.value, squares[positions == 0].sum() / squares.sum())
    rest = X[positions != 0]
    assert f"mean cosine goes from {mean_cosine(X):.2g} to {mean_cosine(rest):.2g}" in finding.meaning
    assert f"IsoScore goes from {iso_score(X):.2g} to {iso_score(rest):.2g}" in finding.meaning
    assert set(finding.rows) <= set(np.flatnonzero(positions == 0).tolist())


def test_a_massive_dimension_is_named() -> None:
    X, positions = tokens(dimension=8)
    (finding,) = sink_findings(Cloud(X), positions)
    assert finding.topic == "massive activation" and "dimension 5 carries" in finding.meaning
    assert f"to {iso_score(np.delete(X, 5, axis=1)):.2g}" in finding.meaning


def test_texts_of_one_token_have_no_sink() -> None:
    X = np.random.default_rng(0).standard_normal((50, 12))
    assert sink_findings(Cloud(X), np.zeros(50, int)) == []
