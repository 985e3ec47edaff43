"""Tables of the page: every value in its own cell, what is alike said once."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from report_samples import rows_of

from theodolite.core.rows import Row
from theodolite.reports import tables
from theodolite.reports.layouts import STUDIES, tables_of
from theodolite.reports.tables import Column, Entry, Table, all_rows, frame_table, turned


def column(table: Table, name: str, group: str = "") -> Column:
    (found,) = [one for one in table.columns if (one.name, one.group) == (name, group)]
    return found


def test_turning_keeps_every_value_in_its_cell() -> None:
    rows = [
        Row(metric="iso_score", value=10 * layer + at, model="m", state=state, layer=layer)
        for layer in range(3)
        for at, state in enumerate(("pre-trained", "fine-tuned"))
    ]
    table = turned([Entry("r", row) for row in rows], lines=("run", "model", "layer"), across=("state", "metric"), title="t")
    assert table is not None
    assert [one.name for one in table.columns] == ["layer", "IsoScore", "IsoScore"]
    assert column(table, "layer").values == [0, 1, 2]
    assert column(table, "IsoScore", "pre-trained").values == [0, 10, 20]
    assert column(table, "IsoScore", "fine-tuned").values == [1, 11, 21]
    assert table.note == "Throughout: model m."


def test_several_seeds_become_median_and_deviation() -> None:
    values = [0.1, 0.5, 0.7]
    rows = [Entry("r", Row(metric="accuracy", value=value, seed=i)) for i, value in enumerate(values)]
    table = turned(rows, lines=("model",), across=("metric",), title="t")
    assert table is not None
    told = column(table, "accuracy")
    assert told.values == [0.5]
    assert told.sd == [pytest.approx(statistics.stdev(values))]


def test_a_cell_without_a_row_is_empty_and_nan_is_null() -> None:
    rows = [Row(metric="a", value=1.0, layer=0), Row(metric="b", value=float("nan"), reason="none", layer=1)]
    table = turned([Entry("r", row) for row in rows], lines=("layer",), across=("metric",), title="t")
    assert table is not None
    assert column(table, "a").values == [1.0, None]
    assert column(table, "b").to_dict()["values"] == [None, None]


def test_no_rows_make_no_table() -> None:
    assert turned([], lines=("layer",), across=("metric",), title="t") is None
    assert tables_of([]) == []
    assert all_rows([], several=False) is None


def test_texts_are_kept_once_and_cleaned() -> None:
    told = Column("x", ["a", "b\x00\n", "a", None]).to_dict()
    assert (told["kind"], told["names"], told["values"]) == ("text", ["a", "b", ""], [0, 1, 0, 2])


def test_a_study_gets_the_tables_of_its_paper() -> None:
    found = tables_of([Entry("r", row) for row in rows_of()])
    titles = [table.title for table in found]
    assert titles[0] == "Repairs: score and isotropy"
    assert set(titles) <= {layout.title for layout in STUDIES["rp21"]}
    repairs = found[0]
    assert column(repairs, "setting").values[0] == "baseline"
    by_row = {(row.state, row.setting): row.value for row in rows_of() if row.metric == "spearman" and row.layer == 6}
    for state in ("pre-trained", "fine-tuned"):
        told = column(repairs, "Spearman", state)
        assert told.values == [by_row[state, setting] for setting in column(repairs, "setting").values]
        assert all(low < value < high for low, value, high in zip(told.low, told.values, told.high, strict=True))


def test_lines_of_several_models_and_runs_stand_together() -> None:
    entries = [Entry(run, row) for run in ("one", "two") for model in ("m", "n") for row in rows_of(model)]
    repairs = tables_of(entries)[0]
    owners = list(zip(column(repairs, "run").values, column(repairs, "model").values, strict=True))
    assert owners == sorted(owners)
    assert len(set(owners)) == 4


def test_a_comparison_names_its_models_by_their_states() -> None:
    rows = [
        Row(metric=metric, value=1.0, state=state, model=model, layer=layer)
        for metric in ("iso_score", "mean_cosine")
        for layer in range(7)
        for state, model in (("before", "a"), ("after", "b"))
    ]
    (table,) = tables_of([Entry("r", row) for row in rows])
    heads = [(one.group, one.name) for one in table.columns]
    assert heads == [
        ("", "layer"),
        ("IsoScore", "before"),
        ("IsoScore", "after"),
        ("mean cosine", "before"),
        ("mean cosine", "after"),
    ]
    assert table.note.startswith("before: a; after: b.")


def test_many_metrics_of_one_cloud_get_a_line_each() -> None:
    rows = [Row(metric=f"metric_{i}", value=float(i), model="m") for i in range(30)]
    (table,) = tables_of([Entry("r", row) for row in rows])
    assert table.lines == 30
    assert column(table, "metric").values[3] == "metric 3"


def test_steps_have_a_table_of_their_own() -> None:
    rows = [Row(metric="iso_score", value=0.1 * step, step=step, layer=1) for step in range(4)]
    (table,) = tables_of([Entry("r", row) for row in rows])
    assert (table.title, column(table, "step").values) == ("Over the steps", [0, 1, 2, 3])


def test_every_row_is_in_the_last_table() -> None:
    rows = list(rows_of())
    table = all_rows([Entry("r", row) for row in rows], several=False)
    assert table is not None
    assert table.lines == len(rows)
    assert "run" not in [one.name for one in table.columns]
    assert "word frequencies are not at hand" in column(table, "reason").values


def test_a_long_table_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LONGEST", 5)
    table = frame_table({"x": list(range(9))}, title="t")
    assert table.lines == 5
    assert "The first 5 of 9 lines." in table.to_dict()["note"]


def test_columns_of_one_head_come_in_the_order_of_the_metrics() -> None:
    rows = [Row(metric="b", value=1.0, state="x", setting="s"), Row(metric="a", value=2.0, state="x", setting="t")]
    rows += [Row(metric="a", value=3.0, state="y", setting="s"), Row(metric="b", value=4.0, state="y", setting="s")]
    entries = [Entry("r", row) for row in rows]
    found = turned(entries, lines=("setting",), across=("state", "metric"), title="t", metrics=("a", "b"))
    assert found is not None
    assert [(column.group, column.name) for column in found.columns[1:]] == [("x", "a"), ("x", "b"), ("y", "a"), ("y", "b")]


def test_a_studys_runs_are_told_by_what_they_ended_with() -> None:
    told: dict[str, Any] = {"study": "il23", "task": "rte", "metric": "accuracy", "split": "dev"}
    rows = [Row(**told, state="fine-tuned", seed=seed, step=90 + seed, value=value) for seed, value in enumerate((0.5, 0.7, 0.6))]
    rows += [Row(**told, state="isolayer", seed=0, step=5, value=0.9)]
    rows += [Row(**told, state="pre-trained", seed=0, step=0, value=0.1, setting="untrained head")]
    rows += [Row(**told | {"metric": "iso_score"}, state="fine-tuning", seed=0, step=3, layer=2, value=0.3)]
    (table,) = tables_of([Entry("r", row) for row in rows])
    assert [(column.name, list(column.values)) for column in table.columns[1:]] == [("fine-tuned", [0.6]), ("isolayer", [0.9])]
