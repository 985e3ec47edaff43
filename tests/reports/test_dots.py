"""Dots: intervals from low to high, deviations over initialisations, and the scores of finished runs only."""

from __future__ import annotations

from typing import Any

import pytest
from report_samples import figure_rows

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports.displays import Display
from theodolite.reports.figures import displays_of


def display_of(rows: list[Row], kind: str) -> Display:
    (display,) = [display for display in displays_of(Result(verb="rows", rows=tuple(rows))) if display.kind == kind]
    return display


def test_intervals_are_bars_from_low_to_high() -> None:
    rows = figure_rows()
    for trace in display_of(rows, "repair-scores").plot().data:
        for value, up, down in zip(trace.x, trace.error_x.array, trace.error_x.arrayminus, strict=True):
            row = next(row for row in rows if row.value == value)
            assert (value + up, value - down) == (pytest.approx(row.high), pytest.approx(row.low))


def test_states_are_next_to_each_other_within_a_repair() -> None:
    figure = display_of(figure_rows(), "repair-scores").plot()
    before, after = [trace for trace in figure.data if trace.xaxis == "x"]
    assert [round(b - a, 2) for a, b in zip(before.y, after.y, strict=True)] == [0.28] * 4
    assert list(figure.layout.yaxis.ticktext) == ["baseline", "zero-mean", "global", "least global 700"]
    assert [trace.showlegend for trace in figure.data] == [True, True, False, False]


def test_a_change_has_a_line_at_zero() -> None:
    figure = display_of(figure_rows(), "repair-scores").plot()
    assert [(shape.x0, shape.x1, shape.xref) for shape in figure.layout.shapes] == [(0, 0, "x2")]


def test_the_probes_deviation_over_initialisations_is_its_bar() -> None:
    place: dict[str, Any] = {"task": "pos", "state": "fine-tuned", "layer": 2}
    rows = [Row(metric="probe_accuracy", value=0.8, **place), Row(metric="probe_accuracy_sd", value=0.03, **place)]
    (trace,) = display_of(rows, "probe-scores").plot().data
    assert (trace.x[0], trace.error_x.array[0], trace.error_x.arrayminus[0]) == pytest.approx((0.8, 0.03, 0.03))


def test_scores_over_seeds_are_those_of_finished_runs() -> None:
    def row(metric: str, value: float, state: str, **fields: Any) -> Row:
        return Row(metric=metric, value=value, state=state, model="m", task="rte", **{"seed": 0, "split": "dev", **fields})

    rows = [
        row("accuracy", 0.1, "pre-trained", step=0, setting="untrained head"),
        row("accuracy", 0.2, "fine-tuning", step=5, split="validation"),
        row("accuracy", 0.3, "fine-tuned", step=9),
        row("iso_score", 0.4, "fine-tuned", step=9),
        row("iso_score", 0.5, "fine-tuned", step=9, layer=2),
        row("accuracy", 0.6, "isolayer", step=4),
        row("accuracy", 0.7, "isolayer", setting="median"),
    ]
    assert sorted(display_of(rows, "scores-by-seed").frame()["value"]) == [0.3, 0.4, 0.6]


def test_seeds_are_joined_and_their_median_is_a_bar() -> None:
    rows = [
        Row(metric="accuracy", value=value + seed / 10, state=state, seed=seed, model="m", task="rte")
        for state, value in (("fine-tuned", 0.5), ("isolayer", 0.6))
        for seed in range(3)
    ]
    figure = display_of(rows, "scores-by-seed").plot()
    joined, *others = figure.data
    assert joined.y == (0.5, 0.6, None, 0.6, 0.7, None, 0.7, 0.8, None)
    medians = [trace for trace in others if trace.name == "median over seeds"]
    assert [(trace.x, trace.y) for trace in medians] == [((0,), (0.6,)), ((1,), (0.7,))]
    assert [trace.name for trace in figure.data if trace.showlegend] == ["median over seeds"]
    assert list(figure.layout.xaxis.ticktext) == ["fine-tuned", "isotropy layer"]


def test_clusters_over_layers_have_panels_of_their_own_and_the_dots_are_of_the_last() -> None:
    rows = [
        Row(metric="clusters", value=10.0 * layer + i, layer=layer, state=state, task="pos", model="m")
        for layer in (1, 2)
        for i, state in enumerate(("pre-trained", "fine-tuned"))
    ]
    rows.append(Row(metric="labels", value=17.0, layer=2, state="fine-tuned", task="pos", model="m"))
    figure = display_of(rows, "clusters").plot()
    dots = [trace for trace in figure.data if trace.mode == "markers"]
    assert [(trace.name, trace.x) for trace in dots] == [("labels", (17.0,)), ("pre-trained", (20.0,)), ("fine-tuned", (21.0,))]
    lines = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert [(trace.x, trace.y) for trace in lines] == [((1, 2), (10.0, 20.0)), ((1, 2), (11.0, 21.0))]
    assert [note.text for note in figure.layout.annotations] == ["last layer", "pos, by layer"]
