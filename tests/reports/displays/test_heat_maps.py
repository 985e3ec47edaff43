"""Heat maps: one colour scale and one order of labels for all states."""

from __future__ import annotations

from report_samples import STATES

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports.displays.base import Display
from theodolite.reports.displays.figures import displays_of


def display_of(rows: list[Row]) -> Display:
    (display,) = displays_of(Result(verb="probe", rows=tuple(rows)))
    return display


def test_all_maps_have_one_scale_and_one_order() -> None:
    near = {("A", "C"): 1.0, ("B", "D"): 1.1, ("A", "B"): 9.0, ("A", "D"): 9.5, ("B", "C"): 9.2, ("C", "D"): 9.1}
    rows = [
        Row(metric="label_distance", value=value * (1 + i), setting="|".join(pair), state=state, layer=2, model="m", task="t")
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


def test_a_label_may_contain_the_sign_that_separates_two() -> None:
    rows = [
        Row(metric="label_distance", value=1.0, setting="a|b|c", model="m", task="t", layer=1),
        *(Row(metric="minimum_distance", value=1.0, label=label, model="m", task="t", layer=1) for label in ("a|b", "c")),
    ]
    frame = display_of(rows).frame()
    assert frame[["first", "second"]].to_numpy().tolist() == [["a|b", "c"]]


def test_a_tracked_run_shows_its_own_first_and_last_distances() -> None:
    rows = [
        Row(metric="label_distance", value=float(step), setting="A|B", state=state, step=step, layer=1, model="m", task="t")
        for step, state in ((0, "pre-trained"), (5, "fine-tuning"), (9, "fine-tuning"))
    ]
    assert list(display_of(rows).frame()["value"]) == [0.0, 9.0]
