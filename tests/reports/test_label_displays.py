"""Labels: every distance in its cell of a heat map, and paths of centroids that grow with the slider."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from report_samples import STATES, figure_paths

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports.displays import Display
from theodolite.reports.figures import displays_of


def display_of(rows: list[Row]) -> Display:
    (display,) = displays_of(Result(verb="probe", rows=tuple(rows)))
    return display


def test_all_maps_have_one_scale_and_one_order() -> None:
    near = {("A", "C"): 1.0, ("B", "D"): 1.1, ("A", "B"): 9.0, ("A", "D"): 9.5, ("B", "C"): 9.2, ("C", "D"): 9.1}
    rows = [
        Row(
            metric="label_distance",
            value=value * (1 + i),
            label=pair[0],
            other_label=pair[1],
            state=state,
            layer=2,
            model="m",
            task="t",
        )
        for i, state in enumerate(STATES)
        for pair, value in near.items()
    ]
    figure = display_of(rows).plot()
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}
    order = "".join(figure.layout.xaxis.ticktext)
    assert set(order) == set("ABCD") and ("AC" in order or "CA" in order) and ("BD" in order or "DB" in order)
    before, after = ([list(line) for line in trace.z] for trace in figure.data)
    for i in range(4):
        assert before[i][i] is None
        for j in range(i):
            pair = tuple(sorted((order[i], order[j])))
            assert before[i][j] == before[j][i] == near[pair] and after[i][j] == 2 * near[pair]  # type: ignore[index]


def test_a_tracked_run_shows_its_own_first_and_last_distances() -> None:
    rows = [
        Row(
            metric="label_distance",
            value=float(step),
            label="A",
            other_label="B",
            state=state,
            step=step,
            layer=1,
            model="m",
            task="t",
        )
        for step, state in ((0, "pre-trained"), (5, "fine-tuning"), (9, "fine-tuning"))
    ]
    assert list(display_of(rows).frame()["value"]) == [0.0, 9.0]


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


def test_of_several_seeds_the_paths_of_the_first_are_drawn() -> None:
    seeds = [figure_paths().append_column("seed", pa.array([seed] * len(figure_paths()))) for seed in (3, 1)]
    (display,), (alone,) = displays(pa.concat_tables(seeds)), displays(figure_paths())
    assert display.frame().equals(alone.frame())


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
