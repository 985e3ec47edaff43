"""`survey`: one row per metric and layer, findings, and nothing long before a cheap mistake is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.metrics import iso_score, mean_cosine
from theodolite.metrics.registry import LAYER_METRICS, default_metrics
from theodolite.spaces import Space

X = np.random.default_rng(0).standard_normal((400, 8)).astype(np.float32) + 1


def test_the_values_are_those_of_the_functions() -> None:
    result = th.survey(X, metrics=["iso_score", "mean_cosine"])
    assert [row.value for row in result] == [iso_score(X), mean_cosine(X)]
    assert (result.verb, result[0].n, result[0].d) == ("survey", 400, 8)


def test_vectors_get_all_metrics_and_layers_a_few() -> None:
    assert [row.metric for row in th.survey(X)] == default_metrics()
    space = Space.of({0: X, 1: X + 1})
    assert [row.metric for row in th.survey(space)] == [*LAYER_METRICS, *LAYER_METRICS]


def test_findings_of_a_space_are_of_its_last_layer() -> None:
    result = th.survey(Space.of({0: X - 1, 5: X + 20}))
    assert {finding.layer for finding in result.findings} == {5}
    assert next(finding for finding in result.findings if finding.topic == "cone").verdict == "bad"
    assert [finding.severity for finding in result.findings] == sorted((f.severity for f in result.findings), reverse=True)
    assert th.survey(Space.of({0: X}), findings=False).findings == ()


def test_layers_are_chosen_once() -> None:
    space = Space.of({0: X, 3: X, 6: X})
    for layers, expected in (("last", [6]), ("0,6", [0, 6]), ([0, -1], [0, 6]), (3, [3]), ("all", [0, 3, 6])):
        assert [row.layer for row in th.survey(space, metrics=["ev_1"], layers=layers)] == expected
    with pytest.raises(ValueError, match="there is no layer 4"):
        th.survey(space, layers="4")


def test_intervals_come_with_bootstrap() -> None:
    result = th.survey(X, metrics=["mean_cosine"], bootstrap=40)
    assert result[0].low < result[0].value < result[0].high  # type: ignore[operator]


def test_the_sample_is_noted() -> None:
    assert th.survey(X, metrics=["hubness"], sample=100).conditions == ("pairs and neighbours: on a sample of 100 rows, seed 0",)
    assert th.survey(X, metrics=["hubness"]).notes == ()


def test_a_misspelt_metric_costs_no_encoding(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from theodolite.models.encoder import Encoder

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the encoder was loaded")

    monkeypatch.setattr(Encoder, "load", refuse)
    for act in (
        lambda: th.survey(tiny("bert"), texts=["a"], metrics=["iso_scor"]),
        lambda: th.compare(tiny("bert"), tiny("bert"), texts=["a"], metrics=["iso_scor"]),
    ):
        with pytest.raises(ValueError, match="did you mean 'iso_score'"):
            act()


def test_streaming_gives_the_rows_of_stored_vectors(tiny: Any, vector_texts: list[str]) -> None:
    stored = th.survey(tiny("bert"), texts=vector_texts, findings=False)
    streamed = th.survey(tiny("bert"), texts=vector_texts, store=False)
    assert [(row.metric, row.layer) for row in streamed] == [(row.metric, row.layer) for row in stored]
    np.testing.assert_allclose([row.value for row in streamed], [row.value for row in stored], rtol=1e-6)
    with pytest.raises(ValueError, match=r"bootstrap=N draws from the vectors, which store=False does not keep"):
        th.survey(tiny("bert"), texts=vector_texts, store=False, bootstrap=50)
    with pytest.raises(ValueError, match="store=False is for encoders"):
        th.survey(X, store=False)


def test_the_result_shows_itself_and_is_saved(tmp_path: Path) -> None:
    result = th.survey(X)
    text = repr(result)
    assert "400 × 8, float32" in text and "iso_score" in text and "! cone" in text
    assert "<table" in result._repr_html_()
    again = th.Result.load(result.save(tmp_path / "saved"))
    assert again.rows == result.rows and again.findings == result.findings
    assert (again.pictures[0].points == result.pictures[0].points).all()
    assert result.frame().loc[0, "metric"] == result[0].metric
    assert result.plot() is not None
    page = result.report(tmp_path / "survey.html").read_text(encoding="utf-8")
    assert "<html" in page


def test_a_notebook_gets_no_markup_of_a_hostile_name(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>.npy"
    np.save(tmp_path / name, X)
    assert "<img" not in th.survey(tmp_path / name, metrics=["ev_1"])._repr_html_()
