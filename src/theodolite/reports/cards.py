"""One card per claim: its verdict, a forest plot of its effects, why, and what the papers' own tables say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from theodolite.core.numbers import interval_text, number_text
from theodolite.core.result import OUTCOMES, Effect, Judged, Verdict
from theodolite.reports.wording import clean, outcome_look, standing, with_labels

# Length of the line that an effect is drawn on, and what is left free at both ends.
WIDTH, MARGIN = 240.0, 6.0
# Effects about one boundary share a scale if the largest reaches at most this many times as far as the smallest.
SAME_SCALE = 20.0


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
        "printed": [_judged(judged) for judged in verdict.printed],
        "printed_counts": _counts([judged.outcome for judged in verdict.printed]),
    }


def outcome_counts(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """How many claims had each outcome, in words.

    Parameters
    ----------
    verdicts
        The verdicts of all runs.
    """
    return _counts([verdict.measured.outcome for verdict in verdicts])


def _counts(outcomes: Sequence[str]) -> list[dict[str, Any]]:
    counts = Counter(outcomes)
    # A file may hold an outcome that this version does not know: it is shown last, as undecided.
    lines = []
    for outcome in (outcome for outcome in dict.fromkeys((*OUTCOMES, *counts)) if counts[outcome]):
        sign, kind = outcome_look(outcome)
        word = outcome.removesuffix("s") if counts[outcome] > 1 else outcome  # one agrees, two agree; other outcomes have no s
        lines.append({"n": counts[outcome], "word": clean(word, 60), "sign": sign, "kind": kind})
    return lines


def bars(effects: Sequence[Effect]) -> list[dict[str, Any]]:
    """Effects drawn from left to right on a line of `WIDTH`, with the boundary of each in the middle.

    `zero` is the place of the boundary, `claimed` the part of the line where the claim expects a primary effect. `side` is
    `above` or `below` if the interval leaves out the boundary, and empty otherwise.

    Parameters
    ----------
    effects
        The effects behind a verdict; one that is not finite has no bar.
    """
    finite = [effect for effect in effects if math.isfinite(effect.value)]
    reaches = [
        max(abs(value - _centre(effect)) for value in (effect.value, *_bounds(effect), *_margin(effect))) for effect in finite
    ]
    positive = [reach for reach in reaches if reach > 0]
    same = len({_centre(effect) for effect in finite}) == 1 and positive and max(positive) <= SAME_SCALE * min(positive)
    return [_bar(effect, max(positive) if same else reach or 1.0) for effect, reach in zip(finite, reaches, strict=True)]


def _bounds(effect: Effect) -> tuple[float, ...]:
    """Both ends of the interval, or nothing if there is none."""
    low, high = effect.low, effect.high
    return (low, high) if low is not None and high is not None and math.isfinite(low) and math.isfinite(high) else ()


def _is_inside(effect: Effect) -> bool:
    return effect.claimed.startswith("inside")


def _centre(effect: Effect) -> float:
    return 0.0 if _is_inside(effect) else effect.boundary


def _margin(effect: Effect) -> tuple[float, ...]:
    return (-effect.boundary, effect.boundary) if _is_inside(effect) else ()


def _bar(effect: Effect, reach: float) -> dict[str, Any]:
    centre, bounds = _centre(effect), _bounds(effect)

    def place(value: float) -> float:
        return round(WIDTH / 2 + max(-1.0, min(1.0, (value - centre) / reach)) * (WIDTH / 2 - MARGIN), 2)

    low, high = bounds or (effect.value, effect.value)
    claimed = {"above": (WIDTH / 2, WIDTH), "below": (0.0, WIDTH / 2), "inside": tuple(map(place, _margin(effect)))}
    return {
        "name": clean(with_labels(effect.name), 160),
        # With the true minus sign that the page's tables have.
        "value": number_text(effect.value).replace("-", "−"),
        "interval": interval_text(*bounds).replace("-", "−") if bounds else "",
        "level": f"{effect.level:.0%}" if bounds else "",
        "expected": clean(f"claimed {effect.claimed}".replace("-", "−"), 80) if effect.claimed else "",
        "how": clean(effect.how, 300),
        "shown_only": not effect.primary,
        "zero": WIDTH / 2,
        "claimed": claimed.get(effect.claimed.partition(" ")[0], ()),
        "at": place(effect.value),
        "low": place(low),
        "high": place(high),
        "side": "" if not bounds else "above" if low > centre else "below" if high < centre else "",
    }


def _judged(judged: Judged) -> dict[str, Any]:
    sign, kind = outcome_look(judged.outcome)
    return {
        "source": clean(judged.source, 200),
        "outcome": clean(judged.outcome, 60),
        "why": clean(with_labels(judged.why), 1500),
        "standing": clean(standing(judged), 1500),
        "sign": sign,
        "kind": kind,
        "command": clean(judged.command, 1500),
        "bars": bars(judged.effects),
    }
