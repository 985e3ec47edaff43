"""Every figure contains exactly the numbers of its rows, in its frame and in its traces, and shows hostile strings as text."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_samples import figure_paths, figure_rows, figure_spectra

import theodolite as th
from theodolite.core.result import Result, table_of
from theodolite.core.rows import Row
from theodolite.reports.displays import Display
from theodolite.reports.figures import FIGURES, displays_of

REPAIRS = ("baseline", "zero-mean", "global", "least global 700")
EVIL = '<b>x</b><a href="javascript:alert(1)">y</a></script>\x00\u202e&amp;'

# What of the rows each figure is to show, written independently of how it selects them.
SHOWN: dict[str, Callable[[Row], bool]] = {
    "isotropy-by-layer": lambda row: row.metric == "iso_score" and row.setting in ("tokens", "cls"),
    "ev-curves": lambda row: row.metric.startswith("ev_"),
    "repair-scores": lambda row: row.metric.startswith("spearman") and row.setting in REPAIRS and row.layer == 2,
    "repair-gains": lambda row: row.metric == "gain",
    "score-by-layer": lambda row: row.metric == "spearman" and row.setting in REPAIRS,
    "sweep": lambda row: row.setting == "sweep global",
    "scores-by-seed": lambda row: row.seed is not None and row.metric in ("accuracy", "iso_score", "ev_1"),
    "clusters": lambda row: row.metric in ("clusters", "labels"),
    "label-distances": lambda row: row.metric == "label_distance",
    "minimum-distances": lambda row: row.metric in ("minimum_distance", "mean_minimum_distance"),
    "similarity-by-layer": lambda row: row.metric == "similarity_to_original",
    "cka-by-layer": lambda row: row.metric == "cka_to_original",
    "movement-directions": lambda row: row.metric.startswith("movement_pca_"),
    "centroid-movement": lambda row: row.metric.startswith(("centroid_movement", "movement_share")),
    "probe-scores": lambda row: row.metric in ("probe_accuracy", "hull_accuracy", "train_test_similarity"),
}


def result_of(model: str = "m", labels: tuple[str, ...] = ("A", "B", "C"), task: str = "rte") -> Result:
    rows = tuple(figure_rows(model, labels, tasks=(task, "cola")))
    return Result(verb="study", rows=rows, records={"paths": figure_paths(task, labels), "spectra": figure_spectra(model)})


def display_of(rows: list[Row], kind: str) -> Display:
    (display,) = [display for display in displays_of(Result(verb="rows", rows=tuple(rows))) if display.kind == kind]
    return display


def numbers_in(figure: Any) -> set[float]:
    """Every number in a figure's traces and frames."""
    numbers: set[float] = set()

    def walk(values: Any) -> None:
        for value in values:
            if isinstance(value, (list, tuple)):
                walk(value)
            elif isinstance(value, (int, float)):
                numbers.add(float(value))

    for trace in [*figure.data, *(trace for frame in figure.frames for trace in frame.data)]:
        for name in ("x", "y", "z"):
            values = getattr(trace, name, None)
            walk([] if values is None else [list(value) if hasattr(value, "__len__") else value for value in list(values)])
    return numbers


@pytest.mark.parametrize("kind", SHOWN)
def test_frame_and_traces_contain_exactly_the_rows(kind: str) -> None:
    rows = figure_rows()
    expected = [row for row in rows if SHOWN[kind](row)]
    display = display_of(rows, kind)
    frame = display.frame()
    assert sorted(frame["value"]) == sorted(row.value for row in expected)
    if "low" in frame:
        assert sorted(frame["high"].dropna()) == sorted(row.high for row in expected if row.high is not None)
    plotted = numbers_in(display.plot())
    # One count of labels stands for both states.
    assert {row.value for row in expected if row.metric != "labels"} <= plotted
    foreign = {row.value for row in rows} - {row.value for row in expected}
    assert not foreign & plotted


def test_results_without_numbers_for_a_figure_have_no_figure() -> None:
    other = Row(metric="something else", value=1.0, layer=1, step=3, label="x", setting="y")
    records = {"spectra": figure_spectra().slice(0, 0), "paths": figure_paths().slice(0, 0)}
    for result in (Result(verb="rows"), Result(verb="rows", rows=(other,)), Result(verb="rows", records=records)):
        assert displays_of(result) == []


def test_all_figures_of_a_result_come_in_reading_order() -> None:
    displays = displays_of(result_of())
    assert [display.kind for display in displays] == [*(figure.name for figure in FIGURES), "centroid-paths"]
    assert {display.kind for display in displays} == {*SHOWN, "spectra", "centroid-paths"}
    for display in displays:
        assert display.title.startswith(display.heading) and display.note.endswith(".")
        figure = display.plot()
        titles = [axis.title.text for axis in figure.select_xaxes()]
        # Panels above each other share the title below the last of them.
        assert all(titles) or (display.kind == "scores-by-seed" and all(titles[-len(titles) // 3 :]))
        assert figure.layout.yaxis.title.text


def test_metrics_come_in_the_order_of_the_declaration_not_of_the_rows() -> None:
    rows = [
        Row(metric=metric, value=0.1 * layer, layer=layer)
        for metric in ("ev_1", "mean_cosine", "log_partition_isotropy")
        for layer in (0, 1)
    ]
    titles = [display.title for display in displays_of(Result(verb="survey", rows=tuple(rows)))]
    assert titles == ["Isotropy by layer: mean cosine", "Isotropy by layer: EV 1", "Isotropy by layer: log I"]


def test_two_models_have_figures_of_their_own_with_names_of_their_own() -> None:
    rows = (*figure_rows("a/b"), *figure_rows("a-b"), *figure_rows("A-b"))
    displays = displays_of(Result(verb="study", rows=rows))
    names = [display.name for display in displays]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_.-]+", name) for name in names)
    for kind in ("repair-scores", "sweep", "scores-by-seed", "clusters", "probe-scores", "label-distances"):
        frames = [display.frame() for display in displays if display.kind == kind]
        assert [set(frame["model"]) for frame in frames] == [{"a/b"}, {"a-b"}, {"A-b"}]


def test_two_tasks_of_one_model_have_names_of_their_own() -> None:
    rows = [
        Row(metric="spearman", value=0.5, model="m", task=task, layer=1, setting=setting)
        for task in ("stsb", "sick")
        for setting in ("baseline", "global")
    ]
    names = [display.name for display in displays_of(Result(verb="study", rows=tuple(rows)))]
    assert names == ["repair-scores-m-stsb", "repair-scores-m-sick"]


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_in(inner)


def test_hostile_strings_are_text_in_every_plot() -> None:
    for display in displays_of(result_of(EVIL, (EVIL, EVIL + "2", "$x$", "ש"), EVIL + "task")):
        for text in strings_in(json.loads(display.plot().to_json())):
            assert not re.search(r"<(?!br>|/?b>|/?sub>|extra>|/extra>)|\x00|\u202e", text), text
            assert "<b>x" not in text and "$x$" not in text
        assert re.fullmatch(r"[a-z0-9_.-]{1,200}", display.name) and not display.name.startswith(".")
        assert not re.search("[\x00\u202e]", display.title)


@pytest.mark.parametrize("record", ["spectra", "paths"])
def test_a_record_without_its_columns_is_named(record: str) -> None:
    table = figure_paths().drop_columns(["step"])
    with pytest.raises(ValueError, match=rf"the record '{record}' lacks the column '(model|step)'; it must have"):
        displays_of(Result(verb="study", records={record: table}))


def test_without_pandas_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        display_of(figure_rows(), "sweep").frame()


def test_a_notebook_shows_the_plot_with_its_title(monkeypatch: pytest.MonkeyPatch) -> None:
    from plotly import io

    monkeypatch.setattr(io.renderers, "default", "plotly_mimetype")
    bundle = display_of(figure_rows("<m>"), "sweep")._repr_mimebundle_()
    plot = bundle["application/vnd.plotly.v1+json"]
    assert plot["layout"]["title"]["text"] == "Removing more and more top directions: &lt;m&gt;, stsb"
    assert plot["config"]["showSendToCloud"] is False


def test_movement_has_a_panel_per_layer_and_names_intj_sym_and_the_outermost() -> None:
    """ZS22's figures 7 to 10, of the first seed: directions of two seeds are not comparable."""
    places = {"NOUN": (0.9, 0.1), "VERB": (-0.8, 0.2), "ADJ": (0.1, 0.0), "INTJ": (0.2, 0.1), "SYM": (0.0, 0.3)}
    about = {"model": "m", "task": "pos", "state": "fine-tuned", "step": 9}
    rows = [
        Row(metric=f"movement_pca_{k}", value=value * (layer + 1) * (seed + 1), label=label, layer=layer, seed=seed, **about)
        for seed in (0, 1)
        for layer in (0, 1)
        for label, point in places.items()
        for k, value in enumerate(point, 1)
    ]
    figure = display_of(rows, "movement-directions").plot()
    assert [note.text for note in figure.layout.annotations] == ["layer 0", "layer 1"]
    named = [trace for trace in figure.data if "text" in trace.mode]
    assert [set(trace.text) for trace in named] == [{"NOUN", "VERB", "INTJ", "SYM"}] * 2
    others = [trace for trace in figure.data if "text" not in trace.mode]
    assert [(list(trace.text), list(trace.x)) for trace in others] == [(["ADJ"], [0.1]), (["ADJ"], [0.2])]


def test_a_task_without_any_similarity_has_no_panel() -> None:
    def row(task: str, step: int, value: float) -> Row:
        about = {"reason": "17 pairs of labels overlap"} if value != value else {}
        return Row(metric="similarity_to_original", value=value, model="m", task=task, layer=1, step=step, **about)

    rows = [row("pos", 0, 1.0), row("pos", 5, float("nan")), row("dep", 0, 1.0), row("dep", 5, 0.9)]
    assert set(display_of(rows, "similarity-by-layer").frame()["task"]) == {"dep"}


def test_both_readings_of_explained_variance_have_panels_of_their_own() -> None:
    rows = [
        Row(metric=f"ev_{k}{ending}", value=0.1 * k + (0.05 if ending else 0.0), model="m", task="rte", state="isolayer", seed=0)
        for ending in ("", "_centered")
        for k in (1, 2, 3, 4)
    ]
    assert not [display for display in displays_of(Result(verb="tune", rows=tuple(rows[:3]))) if display.kind == "ev-curves"]
    figure = display_of(rows, "ev-curves").plot()
    assert [axis.title.text for axis in figure.select_yaxes()] == ["EV<sub>k</sub>, uncentred", "EV<sub>k</sub>, centred"]
    assert [list(trace.y) for trace in figure.data] == [[row.value for row in rows[:4]], [row.value for row in rows[4:]]]


def test_a_calibration_draws_its_cutoffs_and_how_probable_a_match_is() -> None:
    points = [{"cosine": 0.1 * i, "probability": 0.2 * i, "low": 0.1 * i, "high": 0.2 * i} for i in range(5)]
    rows = [Row(metric="cutoff", value=0.3 + i / 10, low=0.2, high=0.6, setting=f"pairs {i}", model="m") for i in range(2)]
    rows += [Row(metric=f"{kind}_above", value=0.5, n=n, model="m") for kind, n in (("matches", 30), ("non_matches", 90))]
    about = {"model": "m", "state": "", "layer": -1, "n": 10}
    bins = [{**about, "pairs": f"unrelated: pairs {i}", "low": 0.1 * i, "high": 0.1 * i + 0.02, "count": 10} for i in range(2)]
    records = {"probability": table_of(points), "similarities": table_of(bins)}
    by_kind = {display.kind: display for display in displays_of(Result(verb="calibrate", rows=tuple(rows), records=records))}
    line, chance = by_kind["match-probability"].plot().data
    assert list(line.x) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4]) and list(line.y) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert set(chance.y) == {30 / 120} and chance.line.dash == "dash"  # a pair of any cosine matches as often as all pairs do
    *histograms, first, second = by_kind["similarities"].plot().data
    assert [set(cutoff.x) for cutoff in (first, second)] == [{0.3}, {0.4}]
    assert [trace.line.color for trace in histograms] == [cutoff.line.color for cutoff in (first, second)]


@pytest.mark.parametrize("d", [3, 40])
def test_a_survey_draws_the_whole_spectrum_and_what_is_isotropic(d: int) -> None:
    X = np.random.default_rng(0).standard_normal((400, d)) * np.geomspace(1, 0.1, d)
    (display,) = [each for each in displays_of(th.survey(X)) if each.kind == "spectra"]
    line, isotropic = display.plot().data
    shares = np.sort(np.linalg.eigvalsh(np.cov(X.T)))[::-1]
    assert list(line.x) == list(range(1, d + 1)) and list(line.y) == pytest.approx(list(shares / shares.sum()))
    assert set(isotropic.y) == {1 / d} and isotropic.name == f"isotropic: 1/{d}"


def test_a_comparison_draws_both_spectra_on_one_axis() -> None:
    X = np.random.default_rng(0).standard_normal((100, 6))
    (display,) = [each for each in displays_of(th.compare(X, X[:, :4] * 5, bootstrap=0, paired=True)) if each.kind == "spectra"]
    figure = display.plot()
    assert [len(trace.x) for trace in figure.data[:2]] == [6, 4] and len(list(figure.select_yaxes())) == 1
    assert {trace.y[0] for trace in figure.data[2:]} == {1 / 6, 1 / 4}


@pytest.mark.parametrize(("first", "second"), [(0.245, 0.240), (0.001, 0.0), (1.0, 0.999)])
def test_a_small_change_of_a_score_is_not_a_cliff(first: float, second: float) -> None:
    rows = [Row(metric="iso_score", value=value, model="m", layer=i) for i, value in enumerate((first, second))]
    low, high = display_of(rows, "isotropy-by-layer").plot().layout.yaxis.range
    assert low <= second and first <= high  # both are on the axis, which spans at least a tenth of what IsoScore can be
    assert high - low >= 0.1


def test_a_large_change_fills_its_axis() -> None:
    rows = [Row(metric="iso_score", value=value, model="m", layer=i) for i, value in enumerate((0.1, 0.9))]
    assert display_of(rows, "isotropy-by-layer").plot().layout.yaxis.range is None


def test_chance_is_a_dashed_line_at_the_share_of_the_most_frequent_label() -> None:
    rows = [Row(metric="accuracy", value=0.3 + 0.2 * i, model="m", task="t", split="test", step=10 * i) for i in range(3)]
    result = Result(verb="tune", rows=tuple(rows), provenance={"outcome": {"baseline": 0.4}})
    (display,) = [each for each in displays_of(result) if each.kind == "training"]
    scores, chance = display.plot().data
    assert set(chance.y) == {0.4} and chance.line.dash == "dash" and set(scores.y) == {row.value for row in rows}
    probe = [Row(metric=metric, value=value, model="m") for metric, value in (("hull_accuracy", 0.9), ("majority_accuracy", 0.2))]
    (display,) = [each for each in displays_of(Result(verb="probe", rows=tuple(probe))) if each.kind == "probe-scores"]
    mark, dot = display.plot().data
    assert list(mark.x) == [0.2] and list(dot.x) == [0.9]


def test_a_loss_beyond_the_axis_is_an_arrow_and_the_note_says_so() -> None:
    gains = [0.01, 0.0, -0.02, -0.9]
    rows = [
        Row(metric="spearman_gain", value=gain, low=gain - 0.01, high=gain + 0.01, setting=str(gain), state="repair")
        for gain in gains
    ]
    (display,) = displays_of(Result(verb="advise", rows=tuple(rows)))
    (dots,) = display.plot().data
    assert list(dots.marker.symbol) == ["circle"] * 3 + ["triangle-left"] and dots.x[3] == -0.1
    low, high = display.plot().layout.xaxis.range
    assert low < min(dots.x) and max(dots.x) < high < 0.1 and "arrow" in display.note
    (without,) = displays_of(Result(verb="advise", rows=tuple(rows[:3])))
    assert "arrow" not in without.note
    wide = [replace(rows[2], low=-0.3), *rows[:2], rows[3]]
    (display,) = displays_of(Result(verb="advise", rows=tuple(wide)))
    dots, tips = display.plot().data  # only the interval of the first reaches beyond the axis
    assert list(tips.y) == [dots.y[0]] and tips.marker.symbol == "triangle-left"
    assert display.plot().layout.xaxis.range[0] < tips.x[0] < -0.1
