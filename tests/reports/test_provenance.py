"""Where a result comes from: its name, its command, and every other fact in words."""

from __future__ import annotations

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports.provenance import command_of, facts_of, name_of


def test_a_result_is_called_by_its_name_its_title_or_its_verb() -> None:
    assert name_of(Result(verb="survey", title="a title", provenance={"name": "mine\x00"})) == "mine"
    assert name_of(Result(verb="survey", title="a title")) == "a title"
    assert name_of(Result(verb="survey")) == "survey"
    assert name_of(Result(verb="")) == "unnamed"


def test_a_command_of_arguments_is_quoted_for_a_shell() -> None:
    arguments = ["theodolite", "study", "run", "a b"]
    assert command_of(Result(verb="study", provenance={"command": arguments})) == "theodolite study run 'a b'"
    assert command_of(Result(verb="study", provenance={"command": "theodolite survey x.npy"})) == "theodolite survey x.npy"
    assert command_of(Result(verb="study")) == ""


def test_facts_are_words_and_what_is_empty_or_shown_elsewhere_is_left_out() -> None:
    provenance = {
        "command": "c",
        "tables": [{"title": "t"}],
        "models": ["a", "b"],
        "settings": {"seed": 0, "tuning": {"epochs": 1}, "limit": None},
        "inputs": [],
    }
    facts = facts_of(Result(verb="study", rows=(Row(metric="m", value=1.0, versions="python 3"),), provenance=provenance))
    assert facts == [
        ("verb", "study"),
        ("models", "a, b"),
        ("settings", [("seed", "0"), ("tuning", "epochs=1"), ("limit", "none")]),
        ("versions", "python 3"),
    ]
