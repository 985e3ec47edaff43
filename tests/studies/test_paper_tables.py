"""A paper's tables in its own lines, columns and units, with what was measured next to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.studies.claims.judging import compare_printed
from theodolite.studies.claims.paper_tables import MEASURED, paper_table_cells
from theodolite.studies.spec import load_spec


def rp21_row(model: str, metric: str, value: float) -> Row:
    about: dict[str, Any] = {"study": "rp21", "task": "stsb", "split": "dev", "setting": "global", "layer": 2}
    return Row(metric=metric, value=value, model=model, state=PRE_TRAINED, **about)


def cells_of(study: str, rows: list[Row]) -> list[dict[str, Any]]:
    spec = load_spec(study)
    return paper_table_cells(spec, compare_printed(spec, rows), ["a"])


def test_every_printed_number_is_in_its_cell_and_each_measured_one_is_there_once() -> None:
    cells = cells_of("rp21", [rp21_row("a", "spearman", 0.7), rp21_row("b", "spearman", 0.6)])
    here = [cell for cell in cells if MEASURED in cell["line"]]
    assert [(cell["line"][0], cell["text"]) for cell in here] == [("a", "70.00 · –"), ("b", "60.00 · –")]
    # Table 1 of both sources, five columns of eight lines; table 2, of which nothing was measured, is left out.
    assert {cell["table"].partition(":")[0] for cell in cells} == {"RP21 table 1"}
    assert len(cells) - len(here) == 40
    (printed,) = [
        cell for cell in cells if cell["line"] == ["BERT-base", "pre-trained", "RP21 table 1"] and "global" in cell["head"]
    ]
    assert printed["text"] == "69.20 · 0.59"


def test_only_a_pre_trained_encoder_is_called_so_before_it_is_tuned() -> None:
    cells = cells_of("rp21", [rp21_row("a", "spearman", 0.7), rp21_row("b", "spearman", 0.6)])
    assert {cell["line"][0]: cell["line"][1] for cell in cells if MEASURED in cell["line"]} == {"a": "pre-trained", "b": "before"}


def test_without_measurements_there_is_no_table() -> None:
    assert cells_of("rp21", []) == []


@pytest.mark.parametrize(("task", "metric"), [("rte", "accuracy"), ("cola", "matthews")])
def test_a_table_with_models_across_has_ours_in_columns_of_its_own(task: str, metric: str) -> None:
    row = Row(metric=metric, value=0.5, study="il23", model="mine", task=task, split="dev", state=FINE_TUNED, seed=0)
    cells = {(cell["line"][0], *cell["head"][:2]): cell["text"] for cell in cells_of("il23", [row]) if "table 2" in cell["table"]}
    assert cells[task, f"mine, {MEASURED}", "fine-tuned"] == "50.00 · –"
    assert cells["rte", "BERT-base-cased", "+ Isotropy Layer"] == "71.84 · 0.025"


def test_numbers_that_nothing_is_measured_next_to_complete_their_table() -> None:
    row = Row(metric="accuracy", value=0.5, study="il23", model="mine", task="rte", split="dev", state=FINE_TUNED, seed=0)
    cells = [cell for cell in cells_of("il23", [row]) if "table 3" in cell["table"]]
    assert {cell["table"] for cell in cells} == {cells[0]["table"]}
    line = {tuple(cell["head"]): cell["text"] for cell in cells if cell["line"] == ["rte", "BERT-base-cased", "plain"]}
    assert line["IsoLayer", "score"] == "67.72 (0.83)" and line["IsoBN", "score"] == "67.87 (1.10)"
    assert line["IsoBN", "EV 1/2/3"] == "0.88/0.93/0.95"


def test_improvements_are_computed_from_our_own_rows_in_the_table() -> None:
    about: dict[str, Any] = {"study": "il23", "model": "mine", "task": "rte", "split": "dev", "seed": 0}
    rows = [
        Row(metric=metric, value=value, state=state, **about)
        for state, values in ((FINE_TUNED, (0.5, 0.01)), ("isolayer", (0.55, 0.03)))
        for metric, value in zip(("accuracy", "iso_score"), values, strict=True)
    ]
    cells = {(cell["line"][0], *cell["head"][:2]): cell["text"] for cell in cells_of("il23", rows) if "table 2" in cell["table"]}
    assert cells["rte", f"mine, {MEASURED}", "improvement"] == "+10.0% · +200.0%"
    assert cells["mrpc", "BERT-base-cased", "improvement"] == "+221.2% · +221.2%"  # as printed, slip and all
    without = [replace(row, value=0.0) if row.metric == "accuracy" else row for row in rows]
    cells = {(cell["line"][0], *cell["head"][:2]): cell["text"] for cell in cells_of("il23", without)}
    assert cells["rte", f"mine, {MEASURED}", "improvement"] == "– · +200.0%"
