"""Cards of claims: where bars are drawn, outcomes as words and signs, and what printed tables say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from report_samples import verdicts_of

from theodolite.core.result import OUTCOMES, Effect, Judged, Verdict
from theodolite.reports.cards import WIDTH, bars, card, interval_head, outcome_counts, verdict_table
from theodolite.reports.wording import standing


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
    primary, shown = bars(
        [Effect(name="a", value=1.0, claimed="above 0", side="above"), Effect(name="b", value=1.0, primary=False)]
    )
    assert (primary["shown_only"], shown["shown_only"]) == (False, True) and primary["expected"] == "claimed above 0"


def test_printed_tables_are_counted_by_what_they_say() -> None:
    first, second, _ = (card(verdict, i) for i, verdict in enumerate(verdicts_of()))
    assert [(count["n"], count["word"], count["kind"]) for count in first["printed_counts"]] == [(1, "disagrees", "fails")]
    assert second["printed"] == second["printed_counts"] == []


def test_a_boundary_is_in_the_middle_and_the_claimed_side_is_marked() -> None:
    below = Effect(name="a", value=-3.0, low=-3.5, high=-2.5, claimed="below -2", side="below", boundary=-2.0)
    (bar,) = bars([below])
    assert bar["high"] < bar["zero"] == WIDTH / 2 and bar["claimed"] == (0.0, WIDTH / 2) and bar["side"] == "below"
    (bar,) = bars([Effect(name="b", value=0.01, low=-0.005, high=0.04, claimed="inside ±0.02", side="inside", boundary=0.02)])
    low, high = bar["claimed"]
    assert low + high == pytest.approx(WIDTH) and low < bar["low"] < bar["at"] < high < bar["high"] and bar["side"] == ""


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


def test_the_head_of_a_column_names_the_level_of_its_own_intervals() -> None:
    wide = Effect(name="a", value=0.1, low=0.0, high=0.2)
    narrow = replace(wide, level=0.9)
    assert interval_head([wide]) == "value, 95% interval" and interval_head([narrow]) == "value, 90% interval"
    assert interval_head([wide, narrow]) == "value, interval" and interval_head([Effect(name="a", value=0.1)]) == "value"
    assert [bar["interval"] for bar in bars([wide, narrow])] == ["[0, 0.2] (95%)", "[0, 0.2] (90%)"]
    assert [bar["interval"] for bar in bars([narrow])] == ["[0, 0.2]"]


def test_a_card_says_what_the_verdict_stands_on() -> None:
    effect = Effect(name="a", value=0.1, counts={"rte": 277, "mrpc": 408})
    judged = Judged(
        source="measured", outcome="supported", why="it is", encoders={"mini": "a sentence encoder"}, seeds=(0, 2),
        tasks=("rte", "mrpc"), remarks=("scale enters",), effects=(effect,),
    )  # fmt: skip
    verdict = Verdict(claim="C", title="A claim", rule="how", model="mini", measured=judged, stated="it grows")
    words = "It is based on mini (a sentence encoder); fine-tuning seeds 0, 2; rte (277 items), mrpc (408 items). Scale enters."
    assert standing(judged) == words and card(verdict, 1)["measured"]["standing"] == words
    assert card(verdict, 1)["stated"] == "it grows"
    assert standing(Judged(source="measured", outcome="not measured", why="missing")) == ""


def test_the_table_of_verdicts_has_claims_down_and_models_across() -> None:
    table = verdict_table([("one", verdicts_of("m")), ("two", verdicts_of("n"))])
    assert table["heads"] == ["m", "n"]
    assert [line["claim"] for line in table["lines"]] == [verdict.claim for verdict in verdicts_of("m")]
    ids = [cell["id"] for line in table["lines"] for cell in line["cells"]]
    assert len(set(ids)) == len(ids) == 2 * len(verdicts_of("m"))
    same = verdict_table([("one", verdicts_of("m")), ("two", verdicts_of("m"))])
    assert same["heads"] == ["one, m", "two, m"]
