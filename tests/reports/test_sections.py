"""The sections of a page: the first sentence, findings with the worst first, cards of verdicts, and figures of several runs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from report_samples import finding_of, study

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports.sections import page_content


def test_the_first_line_names_models_and_tasks_if_there_are_no_inputs() -> None:
    assert page_content([study(points=5)], text=True).context["facts_line"].startswith("minilm · stsb")
    rows = tuple(Row(metric="m", value=1.0, model=f"m{i}") for i in range(6))
    line = page_content([Result(verb="survey", rows=rows)], text=True).context["facts_line"]
    assert line == "m0, m1, m2, m3, … (6 in all)"


def test_findings_come_worst_first_with_labels_and_without_what_is_good() -> None:
    findings = (
        finding_of("good"),
        finding_of("watch", topic="cosines"),
        finding_of("bad", model="m", layer=6),
        finding_of("bad", value=None),
    )
    cards = page_content([Result(verb="survey", findings=findings)], text=True).context["findings"]
    assert [card["verdict"] for card in cards] == ["bad", "bad", "watch"]
    assert cards[0]["measured"] == "IsoScore 0.01, healthy above 0.1" and cards[0]["where"] == "m, layer 6"
    assert cards[1]["measured"] == "IsoScore –, healthy above 0.1"


def test_figures_of_several_runs_alternate_within_their_section() -> None:
    content = page_content([study("one", points=5), study("two", models=("other",), points=5)], text=True)
    claims, isotropy = content.context["figures"][:2]
    assert claims["id"] == "figures-claims" and [figure["run"] for figure in claims["figures"]] == ["one", "two"]
    assert (isotropy["id"], isotropy["title"]) == ("figures-isotropy-by-layer", "Isotropy by layer")
    assert [figure["run"] for figure in isotropy["figures"]] == ["one", "two", "one", "two"]


def test_without_pandas_figures_have_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    content = page_content([study(points=5)], text=True)
    figures: list[dict[str, Any]] = content.context["figures"][0]["figures"]
    assert figures[0]["numbers"] == "" and "numbers-0" not in content.data


def test_a_command_of_a_finding_can_be_copied_apart_from_its_sentence() -> None:
    about = {"action": "subtract the mean", "command": "theodolite repair fit zero-mean a.npy --to repair"}
    (card,) = page_content([Result(verb="survey", findings=(finding_of("bad", **about),))], text=True).context["findings"]
    assert {name: card[name] for name in about} == about


def test_only_a_short_first_table_is_open() -> None:
    def opened(count: int) -> list[bool]:
        rows = tuple(Row(metric=f"m{i}", value=0.5, model="m") for i in range(count))
        return [table["open"] for table in page_content([Result(verb="rows", rows=rows)], text=True).context["tables"]]

    assert opened(3) == [True, False] and opened(80) == [False, False]
