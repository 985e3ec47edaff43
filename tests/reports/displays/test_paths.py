"""Paths of centroids: every stop is in the frame, and paths grow with the slider."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from report_samples import figure_paths

from theodolite.core.result import Result
from theodolite.reports.displays.base import Display
from theodolite.reports.displays.figures import displays_of


def displays(table: pa.Table) -> list[Display]:
    return displays_of(Result(verb="study", records={"paths": table}))


def test_paths_grow_with_the_slider() -> None:
    (display,) = displays(figure_paths())
    assert display.frame()[["x", "y", "z"]].to_numpy().tolist() == [
        [line["x"], line["y"], line["z"]]
        for line in sorted(figure_paths().to_pylist(), key=lambda line: (line["layer"], line["label"], line["step"]))
    ]
    figure = display.plot()
    lengths = [[len(trace.x) for trace in frame.data] for frame in figure.frames]
    assert lengths == [[1] * 6, [2] * 6, [3] * 6]
    assert [trace.x for trace in figure.frames[-1].data] == [trace.x for trace in figure.data]


def test_of_many_labels_the_three_closest_have_names() -> None:
    places = {
        "far": (9.0, 9.0),
        "a": (0.0, 0.0),
        "b": (0.1, 0.0),
        "c": (0.0, 0.2),
        "d": (5.0, 0.0),
        "e": (0.0, 5.0),
        "f": (-5.0, 0.0),
    }
    lines = [
        {"task": "t", "layer": 1, "label": label, "step": step, "x": x * (1 + step), "y": y, "z": 0.0}
        for label, (x, y) in places.items()
        for step in (0, 1)
    ]
    (display,) = displays(pa.Table.from_pylist(lines))
    assert [trace.name for trace in display.plot().data] == ["4 other labels", "a", "b", "c"]


def test_models_and_tasks_have_figures_of_their_own() -> None:
    stop: dict[str, Any] = {"layer": 1, "label": "A", "step": 0, "x": 0.0, "y": 0.0, "z": 0.0}
    lines = [{**stop, "model": model, "task": task} for model in ("m", "n") for task in ("pos", "dep")]
    titles = [display.title.partition(": ")[2] for display in displays(pa.Table.from_pylist(lines))]
    assert titles == ["m, pos", "m, dep", "n, pos", "n, dep"]
