"""Every display holds exactly its rows' numbers, in its frame and in its traces; hostile strings are text; nothing gives None."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from theodolite.core.rows import Row
from theodolite.reports.display import Display
from theodolite.reports.displays import displays_of
from theodolite.reports.figures.base import file_name
from theodolite.reports.figures.centroid_movement import CentroidMovement
from theodolite.reports.figures.centroid_paths import CentroidPaths
from theodolite.reports.figures.clusters import Clusters
from theodolite.reports.figures.ev_curves import EVCurves
from theodolite.reports.figures.isotropy_by_layer import IsotropyByLayer
from theodolite.reports.figures.label_distances import LabelDistances
from theodolite.reports.figures.layer_scores import LayerScores
from theodolite.reports.figures.minimum_distances import MinimumDistances
from theodolite.reports.figures.probe_scores import ProbeScores
from theodolite.reports.figures.repair_scores import RepairScores
from theodolite.reports.figures.seed_scores import SeedScores
from theodolite.reports.figures.similarity_by_layer import SimilarityByLayer
from theodolite.reports.figures.spectra import Spectra
from theodolite.reports.figures.sweep import Sweep
from theodolite.reports.run_folder import RunData

STATES = ("pre-trained", "fine-tuned")
REPAIRS = ("baseline", "zero-mean", "global", "least global 700")
STEPS = (0, 10, 20)
EVIL = '<b>x</b><a href="javascript:alert(1)">y</a></script>\x00\u202e&amp;'


def numbers() -> Iterator[float]:
    """Values that are all different, so that none can stand in for another."""
    n = 1
    while True:
        yield (n * 0.6180339887) % 1
        n += 1


def study(model: str = "m", labels: tuple[str, ...] = ("A", "B", "C"), tasks: tuple[str, ...] = ("rte", "cola")) -> list[Row]:
    value = numbers()
    rows: list[Row] = []

    def add(metric: str, **fields: Any) -> None:
        at = next(value)
        ends = {"low": at - 0.01, "high": at + 0.02} if fields.pop("interval", False) else {}
        rows.append(Row(metric=metric, value=at, model=model, n=100, **ends, **fields))

    for state in STATES:
        told: dict[str, Any] = {"state": state, "task": "stsb", "split": "dev"}
        for layer in range(3):
            for setting in ("tokens", "cls"):
                add("iso_score", layer=layer, setting=setting, interval=True, **told)
            for setting in REPAIRS:
                add("spearman", layer=layer, setting=setting, interval=True, **told)
        for setting in REPAIRS[1:]:
            add("spearman_change", layer=2, setting=setting, interval=True, **told)
            add("iso_score", layer=2, setting=setting, **told)
        for d in (0, 1, 12):
            for metric in ("spearman", "log_partition_isotropy", "iso_score"):
                add(metric, layer=2, setting="sweep global", label=str(d), **told)
    for task in tasks:
        for state in ("fine-tuned", "isolayer"):
            for seed in range(3):
                told = {"state": state, "task": task, "split": "dev", "seed": seed}
                for metric in ("accuracy", "iso_score", *(f"ev_{k}" for k in range(1, 21))):
                    add(metric, **told)
    for state in STATES:
        told = {"state": state, "task": "pos", "layer": 2}
        for metric in ("clusters", "labels", "probe_accuracy", "hull_accuracy"):
            add(metric, **told)
        add("train_test_similarity", interval=True, **told)
        for i, first in enumerate(labels):
            for second in labels[i + 1 :]:
                add("label_distance", setting=f"{first}|{second}", interval=True, **told)
    for step in STEPS:
        told = {"state": "fine-tuned", "task": "pos", "step": step}
        for label in labels:
            add("minimum_distance", label=label, layer=2, **told)
        add("mean_minimum_distance", layer=2, **told)
        for layer in range(3):
            add("similarity_to_original", layer=layer, **told)
    told = {"state": "fine-tuned", "task": "pos", "step": STEPS[-1]}
    for layer in range(3):
        for label in labels:
            add("centroid_movement", label=label, layer=layer, interval=True, **told)
        for metric in ("movement_share_1", "movement_share_2"):
            add(metric, layer=layer, **told)
    return rows


def paths(task: str = "pos", labels: tuple[str, ...] = ("A", "B", "C")) -> pa.Table:
    value = numbers()
    lines = [
        {"task": task, "layer": layer, "label": label, "step": step, "x": next(value), "y": next(value), "z": next(value)}
        for layer in (1, 2)
        for label in labels
        for step in STEPS
    ]
    return pa.Table.from_pylist(lines)


def spectra(model: str = "m") -> pa.Table:
    value = numbers()
    lines = [
        {"model": model, "state": state, "layer": layer, "setting": "tokens", "k": k, "value": next(value)}
        for state in STATES
        for layer in range(3)
        for k in range(1, 6)
    ]
    return pa.Table.from_pylist(lines)


OF: dict[str, Callable[[Iterable[Row]], Any]] = {
    "IsotropyByLayer": IsotropyByLayer.of,
    "EVCurves": EVCurves.of,
    "RepairScores": RepairScores.of,
    "LayerScores": LayerScores.of,
    "Sweep": Sweep.of,
    "SeedScores": SeedScores.of,
    "Clusters": Clusters.of,
    "LabelDistances": LabelDistances.of,
    "MinimumDistances": MinimumDistances.of,
    "SimilarityByLayer": SimilarityByLayer.of,
    "CentroidMovement": CentroidMovement.of,
    "ProbeScores": ProbeScores.of,
}

# What of the study each display is to show, said apart from how it picks it.
SHOWN: dict[str, Callable[[Row], bool]] = {
    "IsotropyByLayer": lambda row: row.metric == "iso_score" and row.setting in ("tokens", "cls"),
    "EVCurves": lambda row: row.metric.startswith("ev_"),
    "RepairScores": lambda row: row.metric.startswith("spearman") and row.setting in REPAIRS and row.layer == 2,
    "LayerScores": lambda row: row.metric == "spearman" and row.setting in REPAIRS,
    "Sweep": lambda row: row.setting == "sweep global",
    "SeedScores": lambda row: row.seed is not None and row.metric in ("accuracy", "iso_score", "ev_1"),
    "Clusters": lambda row: row.metric in ("clusters", "labels"),
    "LabelDistances": lambda row: row.metric == "label_distance",
    "MinimumDistances": lambda row: row.metric in ("minimum_distance", "mean_minimum_distance"),
    "SimilarityByLayer": lambda row: row.metric == "similarity_to_original",
    "CentroidMovement": lambda row: row.metric.startswith(("centroid_movement", "movement_share")),
    "ProbeScores": lambda row: row.metric in ("probe_accuracy", "hull_accuracy", "train_test_similarity"),
}


def drawn(figure: Any) -> set[float]:
    """Every number in a figure's traces and frames."""
    found: set[float] = set()

    def walk(values: Any) -> None:
        for each in values:
            if isinstance(each, (list, tuple)):
                walk(each)
            elif isinstance(each, (int, float)):
                found.add(float(each))

    for trace in [*figure.data, *(trace for frame in figure.frames for trace in frame.data)]:
        for name in ("x", "y", "z"):
            values = getattr(trace, name, None)
            walk([] if values is None else [list(one) if hasattr(one, "__len__") else one for one in list(values)])
    return found


@pytest.mark.parametrize("name", OF)
def test_frame_and_traces_hold_exactly_the_rows(name: str) -> None:
    rows = study()
    wanted = [row for row in rows if SHOWN[name](row)]
    display = OF[name](rows)
    assert isinstance(display, Display)
    frame = display.frame()
    assert sorted(frame["value"]) == sorted(row.value for row in wanted)
    if "low" in frame:
        assert sorted(frame["high"].dropna()) == sorted(row.high for row in wanted if row.high is not None)
    numbers_drawn = drawn(display.plot())
    # One label count stands for both states.
    assert {row.value for row in wanted if row.metric != "labels"} <= numbers_drawn
    foreign = {row.value for row in rows} - {row.value for row in wanted}
    assert not foreign & numbers_drawn


@pytest.mark.parametrize("name", OF)
def test_nothing_to_show_is_none(name: str) -> None:
    assert OF[name]([]) is None
    assert OF[name]([Row(metric="something else", value=1.0, layer=1, step=3, label="x", setting="y")]) is None


def test_nothing_to_show_in_tables_is_none() -> None:
    assert Spectra.of(None) is None and Spectra.of(spectra().slice(0, 0)) is None
    assert CentroidPaths.of(None) is None and CentroidPaths.of(paths().slice(0, 0)) is None
    assert displays_of(RunData(name="empty")) == []


def test_spectra_hold_the_table_over_all_layers() -> None:
    display = Spectra.of(spectra())
    assert display is not None
    values = set(spectra()["value"].to_pylist())
    assert set(display.frame()["value"]) == values
    figure = display.plot()
    assert values <= drawn(figure)
    assert [frame.name for frame in figure.frames] == [step.label for step in figure.layout.sliders[0].steps] == ["0", "1", "2"]
    last = [trace.y for trace in figure.data]
    assert [trace.y for trace in figure.frames[2].data] == last and [trace.y for trace in figure.frames[0].data] != last


def test_paths_grow_with_the_slider() -> None:
    display = CentroidPaths.of(paths())
    assert display is not None
    assert display.frame()[["x", "y", "z"]].to_numpy().tolist() == [
        [line["x"], line["y"], line["z"]]
        for line in sorted(paths().to_pylist(), key=lambda one: (one["layer"], one["label"], one["step"]))
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
    display = CentroidPaths.of(pa.Table.from_pylist(lines))
    assert display is not None
    assert [trace.name for trace in display.plot().data] == ["4 other labels", "a", "b", "c"]


def test_the_slider_reads_distances_off_at_its_step() -> None:
    rows = study()
    display = MinimumDistances.of(rows)
    assert display is not None
    figure = display.plot()
    for frame in figure.frames:
        (cursor,) = frame.data
        assert set(cursor.x) == {int(frame.name)}
        assert set(cursor.y) == {row.value for row in rows if row.metric == "minimum_distance" and row.step == int(frame.name)}


def test_the_labels_that_grow_most_and_least_have_names() -> None:
    grow = dict(zip("abcdefghi", (5, -3, 0, 4, 1, -2, 3, -1, 2), strict=True))
    rows = [
        Row(metric="minimum_distance", value=10.0 + step * by, label=label, step=step, layer=1, model="m", task="t")
        for label, by in grow.items()
        for step in (0, 1)
    ]
    display = MinimumDistances.of(rows)
    assert display is not None
    assert [trace.name for trace in display.plot().data] == ["3 other labels", "a", "d", "g", "h", "f", "b", "at the step"]


def test_both_maps_have_one_scale_and_one_order() -> None:
    near = {("A", "C"): 1.0, ("B", "D"): 1.1, ("A", "B"): 9.0, ("A", "D"): 9.5, ("B", "C"): 9.2, ("C", "D"): 9.1}
    rows = [
        Row(metric="label_distance", value=value * (1 + i), setting="|".join(pair), state=state, layer=2, model="m", task="t")
        for i, state in enumerate(STATES)
        for pair, value in near.items()
    ]
    display = LabelDistances.of(rows)
    assert display is not None
    figure = display.plot()
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}
    order = "".join(figure.layout.xaxis.ticktext)
    assert set(order) == set("ABCD") and ("AC" in order or "CA" in order) and ("BD" in order or "DB" in order)
    before, after = ([list(line) for line in trace.z] for trace in figure.data)
    for i in range(4):
        assert before[i][i] is None
        for j in range(i):
            pair = tuple(sorted((order[i], order[j])))
            assert before[i][j] == before[j][i] == near[pair] and after[i][j] == 2 * near[pair]  # type: ignore[index]


def test_a_label_may_hold_the_sign_that_parts_two() -> None:
    rows = [
        Row(metric="label_distance", value=1.0, setting="a|b|c", model="m", task="t", layer=1),
        *(Row(metric="minimum_distance", value=1.0, label=label, model="m", task="t", layer=1) for label in ("a|b", "c")),
    ]
    display = LabelDistances.of(rows)
    assert display is not None and display.pairs == (("a|b", "c"),)


def test_intervals_are_bars_from_low_to_high() -> None:
    rows = study()
    display = RepairScores.of(rows)
    assert display is not None
    for trace in display.plot().data:
        for value, up, down in zip(trace.x, trace.error_x.array, trace.error_x.arrayminus, strict=True):
            row = next(row for row in rows if row.value == value)
            assert (value + up, value - down) == (pytest.approx(row.high), pytest.approx(row.low))


def test_what_is_not_a_number_is_a_gap_with_its_reason() -> None:
    rows = [Row(metric="iso_score", value=0.5, layer=layer, model="m") for layer in range(3)]
    rows[1] = Row(metric="iso_score", value=math.nan, reason="one <row>", layer=1, model="m")
    display = IsotropyByLayer.of(rows)
    assert display is not None
    (trace,) = display.plot().data
    assert trace.y == (0.5, None, 0.5) and trace.text[1] == "one &lt;row&gt;"
    assert list(display.frame()["reason"]) == ["", "one <row>", ""]


def test_models_with_one_line_each_share_a_panel() -> None:
    rows = [Row(metric="iso_score", value=0.1 * layer, layer=layer, model=model) for model in ("a", "b") for layer in range(3)]
    display = IsotropyByLayer.of(rows)
    assert display is not None
    figure = display.plot()
    assert [(trace.name, trace.xaxis) for trace in figure.data] == [("a", "x"), ("b", "x")]
    assert len({trace.line.color for trace in figure.data}) == 2


def test_cls_and_tokens_of_a_state_share_its_colour_but_not_their_mark() -> None:
    display = IsotropyByLayer.of(study())
    assert display is not None
    of = {trace.name: trace for trace in display.plot().data}
    assert set(of) == {"pre-trained, tokens", "pre-trained, [CLS]", "fine-tuned, tokens", "fine-tuned, [CLS]"}
    assert of["fine-tuned, tokens"].line.color == of["fine-tuned, [CLS]"].line.color != of["pre-trained, tokens"].line.color
    assert of["fine-tuned, tokens"].line.dash != of["fine-tuned, [CLS]"].line.dash


def test_rows_over_steps_show_the_first_and_the_last() -> None:
    rows = [
        Row(metric="iso_score", value=step + layer / 10, layer=layer, step=step, model="m")
        for step in STEPS
        for layer in range(3)
    ]
    display = IsotropyByLayer.of(rows)
    assert display is not None
    assert {trace.name for trace in display.plot().data} == {"before step 1", "last step"}


def test_seeds_are_lines_of_their_own_under_one_name() -> None:
    rows = [
        Row(metric="iso_score", value=seed + layer / 10, layer=layer, seed=seed, model="m")
        for seed in (0, 1)
        for layer in range(3)
    ]
    display = IsotropyByLayer.of(rows)
    assert display is not None
    traces = display.plot().data
    assert [trace.y for trace in traces] == [(0.0, 0.1, 0.2), (1.0, 1.1, 1.2)]
    assert [(trace.name, trace.showlegend) for trace in traces] == [("m", True), ("m", False)]


def test_what_the_survey_says_of_sampling_names_no_other_setting() -> None:
    rows = [
        replace(row, setting=f"{row.setting} sample=500 half-samples=20") for row in study() if row.setting in ("tokens", "cls")
    ]
    display = IsotropyByLayer.of(rows)
    assert display is not None
    assert {trace.name for trace in display.plot().data} == {
        f"{state}, {unit}" for state in STATES for unit in ("tokens", "[CLS]")
    }


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
    display = SeedScores.of(rows)
    assert display is not None
    assert sorted(display.frame()["value"]) == [0.3, 0.4, 0.6]


def test_a_tracked_run_shows_its_own_first_and_last_distances() -> None:
    rows = [
        Row(metric="label_distance", value=float(step), setting="A|B", state=state, step=step, layer=1, model="m", task="t")
        for step, state in ((0, "pre-trained"), (5, "fine-tuning"), (9, "fine-tuning"))
    ]
    display = LabelDistances.of(rows)
    assert display is not None and list(display.frame()["value"]) == [0.0, 9.0]


@pytest.mark.parametrize("of", [RepairScores.of, LayerScores.of, Sweep.of, SeedScores.of, Clusters.of, LabelDistances.of])
def test_rows_of_two_models_are_refused_where_one_is_shown(of: Callable[[Iterable[Row]], Any]) -> None:
    with pytest.raises(ValueError, match=r"shows one model, and these rows are of 2 \(m, other\)"):
        of([*study(), *study("other")])


def run_of(model: str, labels: tuple[str, ...], task: str) -> RunData:
    rows = tuple(study(model, labels, tasks=(task, "cola")))
    return RunData(name="r", rows=rows, paths=paths(task, labels), spectra=spectra(model))


def test_a_run_shows_all_it_has_in_reading_order() -> None:
    shown = displays_of(run_of("m", ("A", "B", "C"), "rte"))
    kinds = [type(display).__name__ for display in shown]
    assert kinds == [
        "IsotropyByLayer", "Spectra", "EVCurves", "RepairScores", "LayerScores", "Sweep", "SeedScores", "Clusters",
        "ProbeScores", "LabelDistances", "MinimumDistances", "SimilarityByLayer", "CentroidMovement", "CentroidPaths",
    ]  # fmt: skip
    assert all(isinstance(display, Display) and display.title and display.note.endswith(".") for display in shown)
    for display in shown:
        figure = display.plot()
        below = [axis.title.text for axis in figure.select_xaxes()]
        # Panels above each other share the title under the last of them.
        assert all(below) or (isinstance(display, SeedScores) and all(below[-len(below) // 3 :]))
        assert figure.layout.yaxis.title.text


def test_two_models_have_displays_with_names_of_their_own() -> None:
    rows = (*study("a/b"), *study("a-b"), *study("A-b"))
    names = [display.name for display in displays_of(RunData(name="r", rows=rows))]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_.-]+", name) for name in names)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def test_hostile_strings_are_text_in_every_plot() -> None:
    for display in displays_of(run_of(EVIL, (EVIL, EVIL + "2", "$x$", "ש"), EVIL + "task")):
        for text in strings(json.loads(display.plot().to_json())):
            assert not re.search(r"<(?!br>|/?b>|/?sub>|extra>|/extra>)|\x00|\u202e", text), text
            assert "<b>x" not in text and "$x$" not in text
        assert re.fullmatch(r"[a-z0-9_.-]{1,200}", display.name) and not display.name.startswith(".")
        assert not re.search("[\x00\u202e]", display.title)


def test_file_names_are_no_paths() -> None:
    assert file_name("a", "../../etc/passwd").count("/") == 0
    assert file_name("cloud", "minilm", "6") == "cloud-minilm-6"
    assert file_name("x", "A") != file_name("x", "a")
    assert len(file_name("x" * 10_000)) < 60


def test_without_pandas_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    display = Sweep.of(study())
    assert display is not None
    with pytest.raises(ImportError, match="pip install pandas"):
        display.frame()


def test_a_notebook_shows_the_plot_with_its_title(monkeypatch: pytest.MonkeyPatch) -> None:
    from plotly import io

    monkeypatch.setattr(io.renderers, "default", "plotly_mimetype")
    display = Sweep.of(study("<m>"))
    assert display is not None
    bundle = display._repr_mimebundle_()
    assert (
        bundle["application/vnd.plotly.v1+json"]["layout"]["title"]["text"] == "Removing more and more top directions: &lt;m&gt;"
    )


def test_the_probes_deviation_over_initialisations_is_its_bar() -> None:
    told: dict[str, Any] = {"task": "pos", "state": "fine-tuned", "layer": 2}
    rows = [Row(metric="probe_accuracy", value=0.8, **told), Row(metric="probe_accuracy_sd", value=0.03, **told)]
    shown = ProbeScores.of(rows)
    assert shown is not None
    (trace,) = shown.plot().data
    assert (trace.x[0], trace.error_x.array[0], trace.error_x.arrayminus[0]) == pytest.approx((0.8, 0.03, 0.03))
