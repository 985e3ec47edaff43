"""The sections of a page: the first sentence, findings with the worst first, cards of verdicts, and figures of several runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from report_samples import finding_of, study, verdicts_of

from theodolite.core.result import OUTCOMES, Effect, Result
from theodolite.core.rows import Row
from theodolite.reports.sections import WIDTH, bars, card, outcome_counts, page_content


def test_the_first_sentence_says_what_was_run() -> None:
    assert (
        page_content([study(points=5)], text=True).context["lead"] == "A study of minilm on stsb: 140 numbers, 3 claims judged."
    )
    rows = tuple(Row(metric="m", value=1.0, model=f"m{i}") for i in range(6))
    lead = page_content([Result(verb="survey", rows=rows)], text=True).context["lead"]
    assert lead == "A survey of m0, m1, m2, m3 and 2 more: 6 numbers."
    assert page_content([Result(verb="odd", rows=rows[:1])], text=True).context["lead"] == "A run of m0: 1 number."


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


def test_bars_are_ordered_as_their_numbers() -> None:
    effects = [Effect(name=str(v), value=v, low=v - 0.5, high=v + 0.5) for v in (-2.0, -1.0, 0.0, 1.0, 2.0)]
    positions = bars(effects)
    assert [bar["at"] for bar in positions] == sorted(bar["at"] for bar in positions)
    for bar in positions:
        assert 0 <= bar["low"] < bar["at"] < bar["high"] <= WIDTH
    assert positions[2]["at"] == positions[2]["zero"]
    assert [bar["side"] for bar in positions] == ["below", "below", "", "above", "above"]


def test_effects_of_very_different_size_have_scales_of_their_own() -> None:
    small, large = bars([Effect(name="a", value=0.001), Effect(name="b", value=1000.0)])
    assert small["at"] == large["at"] > WIDTH / 2
    small, large = bars([Effect(name="a", value=0.5), Effect(name="b", value=1.0)])
    assert WIDTH / 2 < small["at"] < large["at"]


def test_an_effect_without_an_interval_shows_none() -> None:
    (bar,) = bars([Effect(name="a", value=0.3)])
    assert (bar["interval"], bar["side"], bar["low"], bar["high"]) == ("", "", bar["at"], bar["at"])
    (bar,) = bars([Effect(name="a", value=0.3, low=float("nan"), high=1.0)])
    assert bar["interval"] == ""


def test_an_effect_that_is_not_finite_is_not_positions() -> None:
    assert bars([Effect(name="a", value=float("nan"))]) == []
    (bar,) = bars([Effect(name="a", value=0.0)])
    assert bar["at"] == bar["zero"]


def test_every_outcome_has_a_word_a_sign_and_a_class_of_its_own() -> None:
    verdict = verdicts_of()[0]
    measured = [replace(verdict, measured=replace(verdict.measured, outcome=outcome)) for outcome in OUTCOMES[:4]]
    judged = [card(each, i)["measured"] for i, each in enumerate(measured)]
    assert [each["outcome"] for each in judged] == ["supported", "contradicted", "inconclusive", "not measured"]
    assert len({each["sign"] for each in judged}) == 4
    assert [each["kind"] for each in judged] == ["holds", "fails", "open", "open"]


def test_a_card_has_the_command_and_marks_what_is_only_shown() -> None:
    verdict = verdicts_of()[2]
    assert card(verdict, 1)["measured"]["command"] == "theodolite study run rp21 --model x"
    primary, shown = bars([Effect(name="a", value=1.0, claimed="above 0"), Effect(name="b", value=1.0, primary=False)])
    assert (primary["shown_only"], shown["shown_only"]) == (False, True) and "claimed above 0" in primary["how"]


def test_a_printed_table_that_disagrees_with_its_claim_is_marked() -> None:
    first, second, _ = (card(verdict, i) for i, verdict in enumerate(verdicts_of()))
    assert [printed["disagrees"] for printed in first["printed"]] == [True]
    assert "disagrees" not in first["measured"]
    assert second["printed"] == []


def test_counts_are_of_the_measured_outcomes() -> None:
    counts = outcome_counts([*verdicts_of(), verdicts_of()[0]])
    assert [(count["n"], count["word"]) for count in counts] == [(2, "supported"), (1, "contradicted"), (1, "not measured")]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (-0.0213, "−0.0213"), (1234.0, "1234"), (1e-5, "1.00e−05"), (0.12345, "0.1235")]
)
def test_numbers_have_four_digits_and_a_true_minus_sign(value: float, text: str) -> None:
    (bar,) = bars([Effect(name="a", value=value, low=-0.5, high=2.0)])
    assert (bar["value"], bar["interval"]) == (text, "[−0.5, 2]")


def test_an_outcome_that_is_not_known_is_shown_as_undecided_text() -> None:
    odd: Any = "<b>won</b>"
    verdict = replace(verdicts_of()[0], measured=replace(verdicts_of()[0].measured, outcome=odd))
    assert card(verdict, 1)["measured"]["sign"] == "?" and card(verdict, 1)["measured"]["outcome"] == odd
    assert outcome_counts([verdict]) == [{"n": 1, "word": odd, "sign": "?", "kind": "open"}]
