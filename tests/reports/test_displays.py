"""Traces: what a hover text says, bars only for intervals, every name once in the legend, and the slider."""

from __future__ import annotations

import math

import pytest
from plotly.graph_objects import Figure, Scatter

from theodolite.core.rows import Row
from theodolite.reports.displays import add_slider, error_bars, hover_text, name_once, remove_slider


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Row(metric="m", value=0.8123456), "0.8123"),
        (Row(metric="m", value=0.8, low=0.7, high=0.9, n=1500), "0.8 [0.7, 0.9], n = 1,500"),
        (Row(metric="m", value=0.8, low=0.7, high=math.inf), "0.8"),
        (Row(metric="m", value=math.nan, reason="<none>"), "&lt;none&gt;"),
    ],
)
def test_a_hover_text_has_the_value_its_interval_and_n(row: Row, text: str) -> None:
    assert hover_text(row) == text


def test_rows_without_intervals_have_no_bars() -> None:
    rows = [Row(metric="m", value=1.0), Row(metric="m", value=2.0, low=1.5)]
    assert error_bars(rows, "#000000") is None
    bars = error_bars([*rows, Row(metric="m", value=3.0, low=2.5, high=3.25)], "#000000")
    assert bars is not None and (bars["array"], bars["arrayminus"]) == ([0.0, 0.0, 0.25], [0.0, 0.0, 0.5])


def test_a_name_is_once_in_the_legend_and_what_is_hidden_stays_hidden() -> None:
    figure = Figure([Scatter(name="a", showlegend=False), Scatter(name="a"), Scatter(name="b"), Scatter(name="a")])
    assert [trace.showlegend for trace in name_once(figure).data] == [False, True, True, False]


def test_a_slider_opens_at_its_last_position_and_leaves_its_text_on_paper() -> None:
    figure = Figure(Scatter(y=[1]), {"height": 300})
    figure = add_slider(figure, {0: [{"y": [0]}], 50: [{"y": [1]}]}, prefix="step", traces=[0])
    assert figure.layout.sliders[0].active == 1 and figure.layout.height > 300
    assert [(frame.name, frame.data[0].y) for frame in figure.frames] == [("0", (0,)), ("50", (1,))]
    paper = remove_slider(figure)
    assert not paper.layout.sliders and not paper.layout.updatemenus and not paper.frames
    assert [note.text for note in paper.layout.annotations] == ["step 50"] and paper.layout.height == 300
