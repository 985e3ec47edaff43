"""Cards of verdicts: bars lie where their numbers do, and an outcome is never told by its colour alone."""

from __future__ import annotations

import pytest
from report_samples import verdicts_of

from theodolite.core.result import OUTCOMES, Effect
from theodolite.reports.verdict_cards import WIDTH, bars, card, number, outcome_counts


def test_bars_are_ordered_as_their_numbers() -> None:
    effects = [Effect(name=str(v), value=v, low=v - 0.5, high=v + 0.5) for v in (-2.0, -1.0, 0.0, 1.0, 2.0)]
    drawn = bars(effects)
    assert [bar.at for bar in drawn] == sorted(bar.at for bar in drawn)
    for bar in drawn:
        assert 0 <= bar.low < bar.at < bar.high <= WIDTH
    assert drawn[2].at == drawn[2].zero
    assert [bar.sided for bar in drawn] == ["below", "below", "", "above", "above"]


def test_effects_of_unlike_size_have_each_their_own_scale() -> None:
    small, large = bars([Effect(name="a", value=0.001), Effect(name="b", value=1000.0)])
    assert small.at == large.at > WIDTH / 2
    small, large = bars([Effect(name="a", value=0.5), Effect(name="b", value=1.0)])
    assert WIDTH / 2 < small.at < large.at


def test_an_effect_without_an_interval_has_none() -> None:
    (bar,) = bars([Effect(name="a", value=0.3)])
    assert (bar.interval, bar.sided, bar.low, bar.high) == ("", "", bar.at, bar.at)
    (bar,) = bars([Effect(name="a", value=0.3, low=float("nan"), high=1.0)])
    assert bar.interval == ""


def test_an_effect_that_is_not_finite_is_not_drawn() -> None:
    assert bars([Effect(name="a", value=float("nan"))]) == []
    (bar,) = bars([Effect(name="a", value=0.0)])
    assert bar.at == bar.zero


def test_every_outcome_has_a_word_a_sign_and_a_class_of_its_own() -> None:
    told = [card(verdict, i)["measured"] for i, verdict in enumerate(verdicts_of())]
    assert [one["outcome"] for one in told] == list(OUTCOMES)
    for key in ("sign", "kind"):
        assert len({one[key] for one in told}) == len(OUTCOMES)


def test_a_printed_table_that_bends_its_claim_is_marked() -> None:
    first, second, _ = (card(verdict, i) for i, verdict in enumerate(verdicts_of()))
    assert [one["bends"] for one in first["printed"]] == [True]
    assert not first["measured"]["bends"]
    assert second["printed"] == []


def test_counts_are_of_the_measured_outcomes() -> None:
    counts = outcome_counts([*verdicts_of(), verdicts_of()[0]])
    assert [(one["n"], one["word"]) for one in counts] == [(2, "hold"), (1, "does not hold"), (1, "not decidable here")]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (-0.0213, "−0.0213"), (1234.0, "1234"), (1e-5, "1.00e−05"), (0.1, "0.1")]
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text
