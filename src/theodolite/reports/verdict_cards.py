"""Verdicts as cards: the outcome as a word, a sign and a colour, why, and its effects as small bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.core.result import OUTCOMES, Effect, Judged, Verdict
from theodolite.reports.plain import clean
from theodolite.reports.words import worded

SIGNS = {"holds": "✓", "does not hold": "✗", "not decidable here": "?"}
CLASSES = {"holds": "holds", "does not hold": "fails", "not decidable here": "open"}
WIDTH, MARGIN = 200.0, 6.0
ALIKE = 20.0
"""Effects share one scale where the widest reaches no more than so many times as far as the narrowest."""


@dataclass(frozen=True)
class Bar:
    """An effect drawn from left to right: where 0, the value and the ends of its interval lie on a line of `WIDTH`."""

    name: str
    value: str
    interval: str
    how: str
    zero: float
    at: float
    low: float
    high: float
    sided: str
    """`above` or `below` where the interval leaves out 0, else empty."""


def outcome_counts(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """How many claims had each outcome, in words."""
    words = {"holds": ("holds", "hold"), "does not hold": ("does not hold", "do not hold")}
    counts = [(outcome, sum(verdict.measured.outcome == outcome for verdict in verdicts)) for outcome in OUTCOMES]
    return [
        {"n": n, "word": words.get(outcome, (outcome, outcome))[n != 1], "sign": SIGNS[outcome], "kind": CLASSES[outcome]}
        for outcome, n in counts
        if n
    ]


def card(verdict: Verdict, number: int) -> dict[str, Any]:
    """What the page's template shows of one verdict."""
    return {
        "id": f"claim-{number}",
        "claim": clean(verdict.claim, 60),
        "title": clean(verdict.title, 300),
        "rule": clean(verdict.rule, 1000),
        "model": clean(verdict.model, 120),
        "measured": _judged(verdict.measured),
        "printed": [_judged(one, against=verdict) for one in verdict.printed],
    }


def _judged(judged: Judged, against: Verdict | None = None) -> dict[str, Any]:
    return {
        "source": clean(judged.source, 200),
        "outcome": judged.outcome,
        "sign": SIGNS[judged.outcome],
        "kind": CLASSES[judged.outcome],
        "why": clean(worded(judged.why), 1500),
        "bars": bars(judged.effects),
        # A paper's own table that does not bear out its claim is worth more than a word in passing.
        "bends": against is not None and judged.outcome == "does not hold",
    }


def bars(effects: Sequence[Effect]) -> list[Bar]:
    """Effects with the places where their bars are drawn; those of like size share one scale."""
    drawn = [effect for effect in effects if math.isfinite(effect.value)]
    reaches = [_reach(effect) for effect in drawn]
    positive = [reach for reach in reaches if reach > 0]
    shared = max(positive, default=1.0) if positive and max(positive) <= ALIKE * min(positive) else None
    return [_bar(effect, shared or reach or 1.0) for effect, reach in zip(drawn, reaches, strict=True)]


def _reach(effect: Effect) -> float:
    return max(abs(v) for v in (effect.value, effect.low, effect.high) if v is not None and math.isfinite(v))


def _bar(effect: Effect, reach: float) -> Bar:
    def place(value: float) -> float:
        return round(WIDTH / 2 + max(-1.0, min(1.0, value / reach)) * (WIDTH / 2 - MARGIN), 2)

    known = effect.low is not None and effect.high is not None and math.isfinite(effect.low) and math.isfinite(effect.high)
    low, high = (effect.low, effect.high) if known and effect.low is not None and effect.high is not None else (0.0, 0.0)
    sided = "" if not known else "above" if low > 0 else "below" if high < 0 else ""
    return Bar(
        name=clean(worded(effect.name), 160),
        value=number(effect.value),
        interval=f"[{number(low)}, {number(high)}]" if known else "",
        how=clean(", ".join(part for part in (effect.how, f"n = {effect.n:,}" if effect.n is not None else "") if part), 300),
        zero=WIDTH / 2,
        at=place(effect.value),
        low=place(low) if known else place(effect.value),
        high=place(high) if known else place(effect.value),
        sided=sided,
    )


def number(value: float) -> str:
    """Three significant digits with a true minus sign."""
    if value == 0:
        return "0"
    text = f"{value:.3g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.2e}"
    if "e" in text and 1 <= abs(value) < 1e5:
        text = f"{value:.0f}"
    return text.replace("-", "−")
