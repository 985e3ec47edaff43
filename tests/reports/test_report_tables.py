"""Tables: every value in its own cell, those that a study declares under any name, and general ones for all other rows."""

from __future__ import annotations

import json
import statistics
import tomllib
from dataclasses import replace
from typing import Any

import pytest
from report_samples import TABLES, rows_of, study

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports import tables as tables_module
from theodolite.reports.tables import Column, Entry, Table, TableSpec, all_rows, frame_table, pivot, tables_of


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
    assert all_rows([]) is None


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
    table = all_rows(entries_of(rows))
    assert table is not None
    assert table.lines == len(rows)
    assert "run" not in [each.name for each in table.columns]
    assert "word frequencies are not at hand" in column(table, "reason").values


def test_a_long_table_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_module, "LONGEST", 5)
    table = frame_table({"x": list(range(9))}, title="t")
    assert table.lines == 5
    assert table.to_dict()["note"] == "The first 5 of 9 lines."


def tables(rows: list[Row], specs: list[dict[str, Any]] | None = None) -> list[Table]:
    return tables_of([("r", Result(verb="study", rows=tuple(rows), provenance={"tables": specs or []}))])


def test_a_result_without_rows_has_no_tables() -> None:
    assert tables([]) == [] and tables([], TABLES) == []


def test_a_study_gets_the_tables_that_it_declares() -> None:
    repairs, *others = tables(list(rows_of()), TABLES)
    assert [repairs.title, *(table.title for table in others)] == [spec["title"] for spec in TABLES]
    assert column(repairs, "setting").values[0] == "baseline"
    scores = {(row.state, row.setting): row.value for row in rows_of() if row.metric == "spearman" and row.layer == 6}
    for state in ("pre-trained", "fine-tuned"):
        spearman = column(repairs, "Spearman", state)
        assert spearman.values == [scores[state, setting] for setting in column(repairs, "setting").values]
        assert all(low < value < high for low, value, high in zip(spearman.low, spearman.values, spearman.high, strict=True))


def test_a_study_under_another_name_has_the_same_tables() -> None:
    copied = [replace(row, study="my copy") for row in rows_of()]
    assert [table.to_dict() for table in tables(copied, TABLES)] == [table.to_dict() for table in tables(list(rows_of()), TABLES)]


def test_lines_of_several_models_and_runs_are_together() -> None:
    two = ("m", "n")
    repairs = tables_of([("one", study(models=two, points=5)), ("two", study(models=two, points=5))])[0]
    owners = list(zip(column(repairs, "run").values, column(repairs, "model").values, strict=True))
    assert owners == sorted(owners)
    assert len(set(owners)) == 4


def test_runs_with_different_tables_keep_them_apart() -> None:
    rows = (Row(metric="accuracy", value=0.5, model="m"),)
    spec = {"title": "Accuracy", "metrics": ["accuracy"], "rows": ["model"]}
    declared = Result(verb="study", rows=rows, provenance={"tables": [spec]})
    titles = [table.title for table in tables_of([("one", declared), ("two", Result(verb="survey", rows=rows))])]
    assert titles == ["Accuracy", "Measured"]


def test_what_training_runs_ended_with_has_no_layer_whatever_the_step() -> None:
    about: dict[str, Any] = {"task": "rte", "metric": "accuracy", "split": "dev"}
    rows = [
        Row(**about, state="fine-tuned", seed=seed, step=90 + seed, value=value) for seed, value in enumerate((0.5, 0.7, 0.6))
    ]
    rows += [Row(**about, state="isolayer", seed=0, step=5, value=0.9)]
    rows += [Row(**about, state="pre-trained", seed=0, step=0, value=0.1, setting="untrained head")]
    rows += [Row(**about | {"metric": "iso_score"}, state="fine-tuning", seed=0, step=3, layer=2, value=0.3)]
    spec = {"title": "t", "metrics": ["accuracy", "iso_score"], "rows": ["task", "metric"], "columns": ["state"]}
    (table,) = tables(rows, [spec | {"settings": [""], "steps": "final"}])
    values = [(each.name, list(each.values)) for each in table.columns[1:]]
    assert values == [("fine-tuned", [0.6]), ("isotropy layer", [0.9])]


def test_rows_are_chosen_by_setting_label_step_and_layer() -> None:
    rows = [
        Row(metric="a", value=0.0, layer=1),
        Row(metric="a", value=1.0, layer=2),
        Row(metric="a", value=2.0, layer=2, label="x"),
        Row(metric="a", value=3.0, layer=2, step=5),
        Row(metric="a", value=4.0, layer=2, setting="tuned on pos"),
    ]
    base = {"title": "t", "metrics": ["a"], "rows": ["layer", "setting"], "columns": ["metric"]}

    def values(**spec: Any) -> list[float]:
        (table,) = tables(rows, [base | spec])
        return list(column(table, "a").values)

    assert values(settings=[""]) == [0.0, 1.0]
    assert values(settings=[""], last_layer=True) == [1.0]
    assert values(labels=True) == [2.0]
    assert values(steps="only") == [3.0]
    assert values(setting_starts_with="tuned on ") == [4.0]


def test_a_declaration_is_the_same_from_toml_and_from_json() -> None:
    text = 'title = "t"\nmetrics = ["a"]\nrows = ["model"]\nlast_layer = true\nsteps = "only"\nsettings = [""]\n'
    values = tomllib.loads(text)
    spec = TableSpec.from_dict(values)
    assert spec == TableSpec.from_dict(json.loads(json.dumps(values)))
    assert spec == TableSpec(title="t", metrics=("a",), rows=("model",), last_layer=True, steps="only", settings=("",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": ""}, "the declared table '' needs 'title'"),
        ({"metrics": []}, "the declared table 't' needs 'metrics'"),
        ({"lines": ["model"]}, "has the unknown key 'lines'; it may have title, metrics, rows"),
        ({"rows": "model"}, "the declared table 't': rows is 'model'; it must be a list"),
        ({"columns": [1]}, r"columns\[0\] is 1; it must be text"),
        ({"rows": ["size"]}, "'rows' of the declared table 't' has 'size', which is not a field of a row; use run, metric"),
        ({"steps": "some"}, "steps is 'some'; it must be one of none, only, final"),
        ({"last_layer": 1}, "last_layer is 1; it must be true or false"),
        ({"note": None}, "note is None; it must be text"),
    ],
)
def test_a_wrong_declaration_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TableSpec.from_dict({"title": "t", "metrics": ["a"], "rows": ["model"], **change})


@pytest.mark.parametrize("specs", ["abc", 3, {"title": "t"}, ["abc"], [None]])
def test_declarations_that_are_not_a_list_of_tables_are_refused(specs: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a (list|table)"):
        tables_of([("r", Result(verb="study", provenance={"tables": specs}))])


def test_a_comparison_names_its_models_by_their_states() -> None:
    rows = [
        Row(metric=metric, value=1.0, state=state, model=model, layer=layer)
        for metric in ("iso_score", "mean_cosine")
        for layer in range(7)
        for state, model in (("before", "a"), ("after", "b"))
    ]
    (table,) = tables(rows)
    assert [(each.group, each.name) for each in table.columns] == [
        ("", "layer"),
        ("IsoScore", "before"),
        ("IsoScore", "after"),
        ("mean cosine", "before"),
        ("mean cosine", "after"),
    ]
    assert table.note.startswith("before: a; after: b.")


def test_many_metrics_of_one_cloud_get_a_line_each() -> None:
    (table,) = tables([Row(metric=f"metric_{i}", value=float(i), model="m") for i in range(30)])
    assert table.lines == 30
    assert column(table, "metric").values[3] == "metric 3"


def test_steps_have_a_table_of_their_own() -> None:
    (table,) = tables([Row(metric="iso_score", value=0.1 * step, step=step, layer=1) for step in range(4)])
    assert (table.title, column(table, "step").values) == ("Over the steps", [0, 1, 2, 3])


def test_distances_of_two_labels_do_not_fill_the_general_table() -> None:
    rows = [Row(metric="label_distance", value=1.0, label="a", other_label=str(i), layer=1) for i in range(50)]
    (table,) = tables([*rows, Row(metric="clusters", value=3.0, layer=1)])
    assert table.lines == 1


def test_a_table_takes_some_tasks_and_leaves_rows_out_by_their_fields() -> None:
    """ZS22's table 5 has the encoder before fine-tuning, and each tuned one once."""
    about = {"metric": "probe_accuracy", "model": "m", "layer": 2}
    cells = [("pre-trained", ""), ("fine-tuned", ""), ("fine-tuned", "tuned on pos")]
    rows = [
        Row(value=0.1 * i, task=task, state=state, setting=setting, **about)
        for task in ("ps-fxn", "pos")
        for i, (state, setting) in enumerate(cells)
    ]
    spec = {"title": "t", "metrics": ["probe_accuracy"], "rows": ["state", "setting"], "columns": ["metric"], "tasks": ["ps-fxn"]}
    (table,) = tables(rows, [{**spec, "leave_out": [["state", "fine-tuned"], ["setting", ""]]}])
    assert list(zip(*(each.values for each in table.columns), strict=True)) == [
        ("pre-trained", "", 0.0),
        ("fine-tuned", "tuned on pos", 0.2),
    ]
    with pytest.raises(ValueError, match="has 'colour', which is not a field of a row"):
        tables(rows, [{**spec, "leave_out": [["colour", "red"]]}])


def test_a_papers_table_has_the_lines_of_every_run_and_its_own_once() -> None:
    one, two = study("one", points=5), study("two", points=5)
    alone = [table for table in tables_of([("one", one)]) if "table" in table.title.lower()]
    both = [table for table in tables_of([("one", one), ("two", two)]) if "table" in table.title.lower()]
    assert [table.title for table in both] == [table.title for table in alone]
    assert [table.lines for table in both] == [table.lines for table in alone]  # the same lines
