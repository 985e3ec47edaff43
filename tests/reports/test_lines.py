"""Lines: what shares a panel, a line and a pen; gaps, seeds and sliders."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from report_samples import STATES, STEPS, figure_rows, figure_spectra

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports.displays import Display
from theodolite.reports.figures import displays_of


def display_of(rows: Any, kind: str = "isotropy-by-layer", **fields: Any) -> Display:
    (display,) = [each for each in displays_of(Result(verb="rows", rows=tuple(rows), **fields)) if each.kind == kind]
    return display


def test_what_is_not_a_number_is_a_gap_with_its_reason() -> None:
    rows = [Row(metric="iso_score", value=0.5, layer=layer, model="m") for layer in range(3)]
    rows[1] = Row(metric="iso_score", value=math.nan, reason="one <row>", layer=1, model="m")
    display = display_of(rows)
    (trace,) = display.plot().data
    assert trace.y == (0.5, None, 0.5) and trace.text[1] == "one &lt;row&gt;"
    assert list(display.frame()["reason"]) == ["", "one <row>", ""]


def test_models_with_one_line_each_share_a_panel() -> None:
    rows = [Row(metric="iso_score", value=0.1 * layer, layer=layer, model=model) for model in ("a", "b") for layer in range(3)]
    figure = display_of(rows).plot()
    assert [(trace.name, trace.xaxis) for trace in figure.data] == [("a", "x"), ("b", "x")]
    assert len({trace.line.color for trace in figure.data}) == 2


def test_a_panel_that_would_flatten_the_others_has_an_axis_of_its_own() -> None:
    def shared(factor: float) -> set[str | None]:
        values = [(model, size * layer * 0.1) for model, size in (("a", 1), ("b", 2), ("c", factor)) for layer in range(3)]
        rows = [
            Row(metric="log_partition_isotropy", value=-value - shift, layer=i % 3, model=model, state=state, task="t")
            for i, (model, value) in enumerate(values)
            for shift, state in enumerate(STATES)
        ]
        return {axis.matches for axis in list(display_of(rows).plot().select_yaxes())[1:]}

    assert shared(3) == {"y"}
    assert shared(3000) == {None}


def test_cls_and_tokens_of_a_state_share_its_colour_but_not_their_dash() -> None:
    traces = {trace.name: trace for trace in display_of(figure_rows()).plot().data}
    assert list(traces) == ["pre-trained, tokens", "pre-trained, [CLS]", "fine-tuned, tokens", "fine-tuned, [CLS]"]
    tokens, cls = traces["fine-tuned, tokens"], traces["fine-tuned, [CLS]"]
    assert tokens.line.color == cls.line.color != traces["pre-trained, tokens"].line.color
    assert tokens.line.dash != cls.line.dash


def test_rows_over_steps_show_the_first_step_and_the_last_in_two_colours() -> None:
    rows = [
        Row(metric="iso_score", value=step + layer / 10, layer=layer, step=step, model="m")
        for step in STEPS
        for layer in range(3)
    ]
    traces = display_of(rows).plot().data
    assert {trace.name for trace in traces} == {"before step 1", "last step"}
    assert len({trace.line.color for trace in traces}) == 2


def test_seeds_are_lines_of_their_own_under_one_name() -> None:
    rows = [
        Row(metric="iso_score", value=seed + layer / 10, layer=layer, seed=seed, model="m")
        for seed in (0, 1)
        for layer in range(3)
    ]
    traces = display_of(rows).plot().data
    assert [trace.y for trace in traces] == [(0.0, 0.1, 0.2), (1.0, 1.1, 1.2)]
    assert [(trace.name, trace.showlegend) for trace in traces] == [("m", True), ("m", False)]


def test_curves_of_several_seeds_have_a_thick_median() -> None:
    rows = [
        Row(metric=f"ev_{k}", value=0.1 * k + 0.01 * seed, seed=seed, state="fine-tuned", model="m", task="rte")
        for seed in (0, 1, 5)
        for k in (1, 2, 3, 4)
    ]
    thin, thick = display_of(rows, "ev-curves").plot().data
    assert len(thin.x) == 15 and thin.showlegend is False and thin.line.width < thick.line.width
    assert thick.name == "fine-tuned, m, rte, median" and thick.y == tuple(0.1 * k + 0.01 for k in (1, 2, 3, 4))


def test_spectra_contain_the_table_over_all_layers() -> None:
    table = figure_spectra()
    display = display_of((), "spectra", records={"spectra": table})
    frame = display.frame()[["model", "state", "layer", "setting", "k", "value"]]
    lines = sorted(map(tuple, frame.to_numpy().tolist()))
    assert lines == sorted(tuple(line.values()) for line in table.to_pylist())
    figure = display.plot()
    labels = [step.label for step in figure.layout.sliders[0].steps]
    assert [frame.name for frame in figure.frames] == labels == ["0", "1", "2"]
    for layer, frame in enumerate(figure.frames):
        for state, trace in zip(STATES, frame.data, strict=True):
            shares = [line["value"] for line in table.to_pylist() if (line["state"], line["layer"]) == (state, layer)]
            assert list(trace.y) == shares and list(trace.x) == [1, 2, 3, 4, 5]
    *lines, isotropic = figure.data
    assert set(isotropic.y) == {1 / 5}
    last = [trace.y for trace in lines]
    assert [trace.y for trace in figure.frames[2].data] == last != [trace.y for trace in figure.frames[0].data]


def test_spectra_of_several_seeds_have_a_thick_median() -> None:
    lines = [
        {
            "model": "m",
            "state": "fine-tuned",
            "layer": 2,
            "setting": "tokens",
            "seed": seed,
            "k": k,
            "value": 0.5 / k + 0.01 * seed,
        }
        for seed in (0, 1, 5)
        for k in (1, 2, 3)
    ]
    thin, thick, isotropic = display_of((), "spectra", records={"spectra": pa.Table.from_pylist(lines)}).plot().data
    assert len([y for y in thin.y if y is not None]) == 9 and thin.line.width < thick.line.width
    assert thick.mode == "lines"  # hundreds of markers would hide it
    assert thick.y == pytest.approx([0.5 / k + 0.01 for k in (1, 2, 3)])
    assert set(isotropic.y) == {1 / 3}


def test_the_slider_reads_distances_off_at_its_step() -> None:
    rows = figure_rows()
    figure = display_of(rows, "minimum-distances").plot()
    for frame in figure.frames:
        (cursor,) = frame.data
        assert set(cursor.x) == {int(frame.name)}
        assert set(cursor.y) == {row.value for row in rows if row.metric == "minimum_distance" and row.step == int(frame.name)}


def test_the_labels_that_grow_most_and_least_are_named() -> None:
    growth = dict(zip("abcdefghi", (5, -3, 0, 4, 1, -2, 3, -1, 2), strict=True))
    rows = [
        Row(metric="minimum_distance", value=10.0 + step * by, label=label, step=step, layer=1, model="m", task="t")
        for label, by in growth.items()
        for step in (0, 1)
    ]
    traces = display_of(rows, "minimum-distances").plot().data
    assert [trace.name for trace in traces] == ["3 other labels", "a", "d", "g", "h", "f", "b", "at the step"]


def test_a_label_without_a_number_at_one_end_is_not_named() -> None:
    values = {"a": (1.0, 2.0), "b": (math.nan, 3.0)}
    rows = [
        Row(metric="minimum_distance", value=value, reason="none", label=label, step=step, layer=1, model="m", task="t")
        for label, ends in values.items()
        for step, value in enumerate(ends)
    ]
    traces = display_of(rows, "minimum-distances").plot().data
    assert [trace.name for trace in traces] == ["1 other labels", "a", "at the step"]


def test_low_layers_are_blue_and_high_ones_orange() -> None:
    traces = display_of(figure_rows(), "similarity-by-layer").plot().data
    assert [trace.name for trace in traces] == ["layer 0", "layer 1", "layer 2"]
    assert [trace.line.color for trace in traces] == ["#3d5fc0", "#b5569b", "#d87a2a"]
