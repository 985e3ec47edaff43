"""Verdicts as cards: the outcome as a word, a sign and a colour, why, and its effects as small bars."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.core.result import OUTCOMES, Effect, Judged, Verdict
from theodolite.metrics import METRICS
from theodolite.metrics.registry import MEASURES, label_of
from theodolite.reports.plain_text import clean

LOOKS = {"holds": ("✓", "holds", "hold"), "does not hold": ("✗", "fails", "do not hold")}
"""Sign, style class and plural of each outcome; any other is undecided."""
WIDTH, MARGIN = 200.0, 6.0
"""Length of a bar's line, and what is left free at both ends."""
SAME_SCALE = 20.0
"""Effects share one scale if the largest reaches at most this many times as far as the smallest."""


@dataclass(frozen=True)
class Bar:
    """An effect drawn from left to right: positions of 0, of the value and of the ends of its interval on a line of `WIDTH`.

    `side` is `above` or `below` if the interval leaves out 0, and empty otherwise.
    """

    name: str
    value: str
    interval: str
    how: str
    zero: float
    at: float
    low: float
    high: float
    side: str


def outcome_counts(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """How many claims had each outcome, in words."""
    counts: Counter[str] = Counter(verdict.measured.outcome for verdict in verdicts)
    # A file may hold an outcome that this version does not know: it is shown last, as undecided.
    outcomes: list[str] = [outcome for outcome in OUTCOMES if counts[outcome]]
    outcomes += [outcome for outcome in counts if outcome not in OUTCOMES]
    looks = [(outcome, *_look(outcome)) for outcome in outcomes]
    return [
        {"n": counts[outcome], "word": outcome if counts[outcome] == 1 else plural, "sign": sign, "kind": kind}
        for outcome, sign, kind, plural in looks
    ]


def card(verdict: Verdict, number: int) -> dict[str, Any]:
    """What the page's template shows of one verdict.

    Parameters
    ----------
    verdict
        The verdict.
    number
        Its number on the page, from 1.
    """
    return {
        "id": f"claim-{number}",
        "claim": clean(verdict.claim, 60),
        "title": clean(verdict.title, 300),
        "rule": clean(verdict.rule, 1000),
        "model": clean(verdict.model, 120),
        "measured": _judged(verdict.measured),
        # A paper's own table that does not support its claim is opened, so that nobody misses it.
        "printed": [{**_judged(judged), "disagrees": _look(judged.outcome)[1] == "fails"} for judged in verdict.printed],
    }


def bars(effects: Sequence[Effect]) -> list[Bar]:
    """Effects with the positions of their bars; those of similar size share one scale. One that is not finite has no bar."""
    finite = [effect for effect in effects if math.isfinite(effect.value)]
    reaches = [_reach(effect) for effect in finite]
    positive = [reach for reach in reaches if reach > 0]
    shared = max(positive) if positive and max(positive) <= SAME_SCALE * min(positive) else None
    return [_bar(effect, shared or reach or 1.0) for effect, reach in zip(finite, reaches, strict=True)]


def number_text(value: float | None) -> str:
    """A number with three significant digits and a true minus sign; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    text = f"{value:.3g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.2e}"
    if "e" in text and 1 <= abs(value) < 1e5:  # `.3g` writes 1234 as 1.23e+03
        text = f"{value:.0f}"
    return text.replace("-", "−")


def with_labels(text: str) -> str:
    """A sentence in which metrics have their labels rather than the names that rows have: IsoScore, not iso_score."""
    return _metric_names().sub(lambda match: label_of(match[1]), text)


def sign_of(outcome: str) -> str:
    """The sign of an outcome."""
    return _look(outcome)[0]


@functools.cache
def _metric_names() -> re.Pattern[str]:
    # Longest first, so that iso_score_corrected is not read as iso_score; names of one word may be ordinary words.
    names = sorted((name for name in {**METRICS, **MEASURES} if "_" in name), key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(names)})\b")


def _look(outcome: str) -> tuple[str, str, str]:
    return LOOKS.get(outcome, ("?", "open", outcome))


def _judged(judged: Judged) -> dict[str, Any]:
    sign, kind, _ = _look(judged.outcome)
    return {
        "source": clean(judged.source, 200),
        "outcome": clean(judged.outcome, 60),
        "why": clean(with_labels(judged.why), 1500),
        "sign": sign,
        "kind": kind,
        "bars": bars(judged.effects),
    }


def _reach(effect: Effect) -> float:
    return max(abs(v) for v in (effect.value, effect.low, effect.high) if v is not None and math.isfinite(v))


def _bar(effect: Effect, reach: float) -> Bar:
    def place(value: float) -> float:
        return round(WIDTH / 2 + max(-1.0, min(1.0, value / reach)) * (WIDTH / 2 - MARGIN), 2)

    low, high = effect.low, effect.high
    has_interval = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    if low is None or high is None or not has_interval:
        low = high = effect.value
    return Bar(
        name=clean(with_labels(effect.name), 160),
        value=number_text(effect.value),
        interval=f"[{number_text(low)}, {number_text(high)}]" if has_interval else "",
        how=clean(", ".join(filter(None, (effect.how, f"n = {effect.n:,}" if effect.n is not None else ""))), 300),
        zero=WIDTH / 2,
        at=place(effect.value),
        low=place(low),
        high=place(high),
        side="" if not has_interval else "above" if low > 0 else "below" if high < 0 else "",
    )
