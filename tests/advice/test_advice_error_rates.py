"""A small version of benchmarks/advice_error_rates.py, and that its committed results keep their promises."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RESULTS: dict[str, Any] = json.loads((BENCHMARKS / "advice_error_rates.json").read_text(encoding="utf-8"))
MOST_WRONG = 0.05


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import advice_error_rates

    yield advice_error_rates
    sys.modules.pop("advice_error_rates")


def test_the_committed_rates_are_of_these_cases_and_low(simulation: Any) -> None:
    assert RESULTS.keys() == simulation.CASES.keys()
    for name, case in RESULTS.items():
        _, wrong, repetitions = simulation.CASES[name]
        assert sum(case["verdicts"].values()) == case["repetitions"] == repetitions and case["wrong verdict"] == wrong
        # Layers that are all equal come close to the limit: two standard errors of the simulation are allowed there.
        allowed = MOST_WRONG * repetitions + (2 * (MOST_WRONG * repetitions) ** 0.5 if "12 layers" in name else 0)
        assert case["wrong"] == case["verdicts"].get(wrong, 0) <= allowed, name
        if "noise, " in name and not name.startswith("wide"):
            assert repetitions == 200 and case["verdicts"]["not shown"] >= 0.95 * repetitions
        if name.startswith("one of 12 layers"):  # the planted one is named
            assert case["choice"].get("layer 2 (mean)", 0) == repetitions
        if "hides" in name or name.startswith("one of 12 layers"):  # a remedy is planted, and found
            assert case["verdicts"]["apply"] >= 0.8 * repetitions
    assert RESULTS["sound space, 60 pairs"]["verdicts"]["not shown"] >= 45
    large = RESULTS["sound space, 1,500 pairs"]
    assert large["verdicts"]["leave it alone"] == large["form of a quarter of the size"]["int8"] == large["repetitions"]


@pytest.mark.parametrize("kind", [pytest.param("pairs", marks=pytest.mark.slow), "labels", "queries"])
def test_noise_is_hardly_ever_recommended(simulation: Any, kind: str) -> None:
    draw = getattr(simulation, kind)
    runs = [simulation.search(draw(60, seed, noise=True), folds=3, draws=200) for seed in range(6)]
    assert sum(advice.verdict == "apply" for advice in runs) <= 1


@pytest.mark.parametrize(("kind", "planted"), [("pairs", {"cone": 20.0}), ("labels", {"wide": 3.0}), ("queries", {"cone": 20.0})])
def test_a_planted_remedy_is_recommended(simulation: Any, kind: str, planted: dict[str, float]) -> None:
    draw = getattr(simulation, kind)
    assert simulation.search(draw(150, 0, **planted), folds=3, draws=200).verdict == "apply"
