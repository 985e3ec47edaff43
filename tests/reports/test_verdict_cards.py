"""Cards of verdicts: bars are where their numbers are, and an outcome is never shown by its colour alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from report_samples import verdicts_of

from theodolite.core.result import OUTCOMES, Effect
from theodolite.reports.verdict_cards import WIDTH, bars, card, number_text, outcome_counts, with_labels


def test_bars_are_ordered_as_their_numbers() -> None:
    effects = [Effect(name=str(v), value=v, low=v - 0.5, high=v + 0.5) for v in (-2.0, -1.0, 0.0, 1.0, 2.0)]
    drawn = bars(effects)
    assert [bar.at for bar in drawn] == sorted(bar.at for bar in drawn)
    for bar in drawn:
        assert 0 <= bar.low < bar.at < bar.high <= WIDTH
    assert drawn[2].at == drawn[2].zero
    assert [bar.side for bar in drawn] == ["below", "below", "", "above", "above"]


def test_effects_of_very_different_size_have_scales_of_their_own() -> None:
    small, large = bars([Effect(name="a", value=0.001), Effect(name="b", value=1000.0)])
    assert small.at == large.at > WIDTH / 2
    small, large = bars([Effect(name="a", value=0.5), Effect(name="b", value=1.0)])
    assert WIDTH / 2 < small.at < large.at


def test_an_effect_without_an_interval_shows_none() -> None:
    (bar,) = bars([Effect(name="a", value=0.3)])
    assert (bar.interval, bar.side, bar.low, bar.high) == ("", "", bar.at, bar.at)
    (bar,) = bars([Effect(name="a", value=0.3, low=float("nan"), high=1.0)])
    assert bar.interval == ""


def test_an_effect_that_is_not_finite_is_not_drawn() -> None:
    assert bars([Effect(name="a", value=float("nan"))]) == []
    (bar,) = bars([Effect(name="a", value=0.0)])
    assert bar.at == bar.zero


def test_every_outcome_has_a_word_a_sign_and_a_class_of_its_own() -> None:
    judged = [card(verdict, i)["measured"] for i, verdict in enumerate(verdicts_of())]
    assert [each["outcome"] for each in judged] == list(OUTCOMES)
    for key in ("sign", "kind"):
        assert len({each[key] for each in judged}) == len(OUTCOMES)


def test_a_printed_table_that_disagrees_with_its_claim_is_marked() -> None:
    first, second, _ = (card(verdict, i) for i, verdict in enumerate(verdicts_of()))
    assert [printed["disagrees"] for printed in first["printed"]] == [True]
    assert "disagrees" not in first["measured"]
    assert second["printed"] == []


def test_counts_are_of_the_measured_outcomes() -> None:
    counts = outcome_counts([*verdicts_of(), verdicts_of()[0]])
    assert [(count["n"], count["word"]) for count in counts] == [(2, "hold"), (1, "does not hold"), (1, "not decidable here")]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (-0.0213, "−0.0213"), (1234.0, "1234"), (1e-5, "1.00e−05"), (0.1, "0.1"), (None, "–")]
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number_text(value) == text


def test_an_outcome_that_is_not_known_is_shown_as_undecided_text() -> None:
    odd: Any = "<b>won</b>"
    verdict = replace(verdicts_of()[0], measured=replace(verdicts_of()[0].measured, outcome=odd))
    assert card(verdict, 1)["measured"]["sign"] == "?" and card(verdict, 1)["measured"]["outcome"] == odd
    assert outcome_counts([verdict]) == [{"n": 1, "word": odd, "sign": "?", "kind": "open"}]


def test_sentences_have_the_labels_of_metrics() -> None:
    text = "largest log_partition_isotropy_unit_norm, iso_score and spearman_change of my_iso_score"
    assert with_labels(text) == "largest log I, unit norm, IsoScore and Spearman change of my_iso_score"
