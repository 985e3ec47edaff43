"""Pivoting: every value in its own cell, and what is the same everywhere said once."""

from __future__ import annotations

import statistics

import pytest
from report_samples import rows_of

from theodolite.core.rows import Row
from theodolite.reports import pivot as pivot_module
from theodolite.reports.pivot import Column, Entry, Table, all_rows, frame_table, pivot


def entries_of(rows: list[Row]) -> list[Entry]:
    return [Entry("r", row) for row in rows]


def column(table: Table | None, name: str, group: str = "") -> Column:
    assert table is not None
    (match,) = [each for each in table.columns if (each.name, each.group) == (name, group)]
    return match


def test_pivoting_keeps_every_value_in_its_cell() -> None:
    rows = [
        Row(metric="iso_score", value=10 * layer + at, model="m", state=state, layer=layer)
        for layer in range(3)
        for at, state in enumerate(("pre-trained", "fine-tuned"))
    ]
    table = pivot(entries_of(rows), rows=("run", "model", "layer"), columns=("state", "metric"), title="t")
    assert table is not None
    assert [each.name for each in table.columns] == ["layer", "IsoScore", "IsoScore"]
    assert column(table, "layer").values == [0, 1, 2]
    assert column(table, "IsoScore", "pre-trained").values == [0, 10, 20]
    assert column(table, "IsoScore", "fine-tuned").values == [1, 11, 21]
    assert table.note == "Throughout: model m."


def test_several_seeds_become_median_and_deviation() -> None:
    values = [0.1, 0.5, 0.7]
    rows = [Row(metric="accuracy", value=value, seed=i) for i, value in enumerate(values)]
    accuracy = column(pivot(entries_of(rows), rows=("model",), columns=("metric",), title="t"), "accuracy")
    assert accuracy.values == [0.5]
    assert accuracy.sd == [pytest.approx(statistics.stdev(values))]


def test_a_cell_without_a_row_is_empty_and_nan_is_null() -> None:
    rows = [Row(metric="a", value=1.0, layer=0), Row(metric="b", value=float("nan"), reason="none", layer=1)]
    table = pivot(entries_of(rows), rows=("layer",), columns=("metric",), title="t")
    assert column(table, "a").values == [1.0, None]
    assert column(table, "b").to_dict()["values"] == [None, None]


def test_no_rows_make_no_table() -> None:
    assert pivot([], rows=("layer",), columns=("metric",), title="t") is None
    assert all_rows([], several=False) is None


def test_texts_are_kept_once_and_cleaned() -> None:
    texts = Column("x", ["a", "b\x00\n", "a", None]).to_dict()
    assert (texts["kind"], texts["names"], texts["values"]) == ("text", ["a", "b", ""], [0, 1, 0, 2])


def test_columns_of_one_head_come_in_the_order_of_the_metrics() -> None:
    rows = [Row(metric="b", value=1.0, state="x", setting="s"), Row(metric="a", value=2.0, state="x", setting="t")]
    rows += [Row(metric="a", value=3.0, state="y", setting="s"), Row(metric="b", value=4.0, state="y", setting="s")]
    table = pivot(entries_of(rows), rows=("setting",), columns=("state", "metric"), title="t", metrics=("a", "b"))
    assert table is not None
    heads = [(each.group, each.name) for each in table.columns[1:]]
    assert heads == [("x", "a"), ("x", "b"), ("y", "a"), ("y", "b")]


def test_metrics_and_states_have_their_titles() -> None:
    rows = [Row(metric="ev_1", value=0.1, state=state) for state in ("isolayer", "isobn")]
    table = pivot(entries_of(rows), rows=("metric",), columns=("state",), title="t")
    assert table is not None
    assert [each.name for each in table.columns] == ["metric", "isotropy layer", "IsoBN"]
    assert column(table, "metric").values == ["EV 1"]


def test_every_row_is_in_the_table_of_all_rows() -> None:
    rows = list(rows_of())
    table = all_rows(entries_of(rows), several=False)
    assert table is not None
    assert table.lines == len(rows)
    assert "run" not in [each.name for each in table.columns]
    assert "word frequencies are not at hand" in column(table, "reason").values


def test_a_long_table_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pivot_module, "LONGEST", 5)
    table = frame_table({"x": list(range(9))}, title="t")
    assert table.lines == 5
    assert table.to_dict()["note"] == "The first 5 of 9 lines."
