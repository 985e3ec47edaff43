"""Verdicts: a table of all claims, and a card for each with its effects, why, and what the paper's own tables say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from theodolite.core.numbers import interval_text, number_text
from theodolite.core.result import OUTCOMES, Effect, Judged, Verdict
from theodolite.reports.tables import Column, Table
from theodolite.reports.wording import clean, outcome_look, standing, with_labels

# Length of the line that an effect is drawn on, and what is left free at both ends.
WIDTH, MARGIN = 240.0, 6.0
# Effects about one boundary share a scale if the largest reaches at most this many times as far as the smallest.
SAME_SCALE = 20.0


def card(verdict: Verdict, number: int) -> dict[str, Any]:
    """What the page's template shows of one verdict."""
    return {
        "id": f"claim-{number}",
        "claim": clean(verdict.claim, 60),
        "title": clean(verdict.title, 300),
        "rule": clean(verdict.rule, 1000),
        "model": clean(verdict.model, 120),
        "measured": _judged(verdict.measured),
        "stated": clean(verdict.stated, 600),
        "printed": [_judged(judged) for judged in verdict.printed],
        "printed_counts": _counts([judged.outcome for judged in verdict.printed]),
    }


def outcome_counts(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """How many claims had each outcome, in words."""
    return _counts([verdict.measured.outcome for verdict in verdicts])


def interval_head(effects: Sequence[Effect]) -> str:
    """What a column of values with their intervals is called: by the level of the intervals, if they share one."""
    levels = {effect.level for effect in effects if _bounds(effect)}
    return f"value, {levels.pop():.0%} interval" if len(levels) == 1 else "value, interval" if levels else "value"


def value_text(effect: Effect, *, with_level: bool = False) -> str:
    """The value of an effect and its interval, with the interval's level if the head of the column does not name it."""
    return f"{number_text(effect.value)} {_interval_words(effect, with_level)}".strip()


def _interval_words(effect: Effect, with_level: bool) -> str:
    bounds = _bounds(effect)
    return f"{interval_text(*bounds)}{f' ({effect.level:.0%})' if with_level else ''}" if bounds else ""


def verdict_table(runs: Sequence[tuple[str, Sequence[Verdict]]]) -> dict[str, Any]:
    """All claims down and all runs and models across, each cell with its outcome and the effects that decide it."""
    several = len({verdict.model for _, verdicts in runs for verdict in verdicts}) == sum(bool(v) for _, v in runs)
    lines: dict[str, dict[str, Any]] = {}
    heads: dict[tuple[str, str], str] = {}
    numbered = enumerate(((name, verdict) for name, verdicts in runs for verdict in verdicts), 1)
    for number, (name, verdict) in numbered:
        head = (name, verdict.model)
        # The model says which run it is if every run has one of its own.
        heads[head] = clean(verdict.model if several or len(runs) == 1 else f"{name}, {verdict.model}", 60)
        line = lines.setdefault(
            verdict.claim, {"claim": clean(verdict.claim, 60), "title": clean(verdict.title, 300), "cells": {}}
        )
        primary = [effect for effect in verdict.measured.effects if effect.primary and math.isfinite(effect.value)]
        sign, kind = outcome_look(verdict.measured.outcome)
        line["cells"][head] = {
            "id": f"claim-{number}", "sign": sign, "kind": kind, "outcome": clean(verdict.measured.outcome, 60),
            "effects": [
                (clean(with_labels(effect.name), 100), value_text(effect, with_level=effect.level != 0.95).replace("-", "−"))
                for effect in primary
            ],
        }  # fmt: skip
    cells = [{**line, "cells": [line["cells"].get(head) for head in heads]} for line in lines.values()]
    return {"heads": list(heads.values()), "lines": cells}


def verdict_overview(verdicts: Sequence[Verdict]) -> Table:
    """Claims down and models across; for a single model with the effects that decide each outcome."""
    table = verdict_table([("", verdicts)])
    columns = [Column("claim", [f"{line['claim']}: {line['title']}" for line in table["lines"]])]
    for i, head in enumerate(table["heads"]):
        cells = [line["cells"][i] or {"sign": "", "outcome": "", "effects": ()} for line in table["lines"]]
        columns.append(Column(head or "outcome", [f"{cell['sign']} {cell['outcome']}".strip() for cell in cells]))
        if len(table["heads"]) == 1:
            effects = ["; ".join(f"{name} {value}" for name, value in cell["effects"]) for cell in cells]
            columns.append(Column("what decides it", effects))
    return Table("", tuple(columns), detail=True)


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
    """
    finite = [effect for effect in effects if math.isfinite(effect.value)]
    reaches = [
        max(abs(value - _centre(effect)) for value in (effect.value, *_bounds(effect), *_margin(effect))) for effect in finite
    ]
    positive = [reach for reach in reaches if reach > 0]
    same = len({_centre(effect) for effect in finite}) == 1 and positive and max(positive) <= SAME_SCALE * min(positive)
    mixed = len({effect.level for effect in finite if _bounds(effect)}) > 1
    return [_bar(effect, max(positive) if same else reach or 1.0, mixed) for effect, reach in zip(finite, reaches, strict=True)]


def _bounds(effect: Effect) -> tuple[float, ...]:
    """Both ends of the interval, or nothing if there is none."""
    low, high = effect.low, effect.high
    return (low, high) if low is not None and high is not None and math.isfinite(low) and math.isfinite(high) else ()


def _centre(effect: Effect) -> float:
    return 0.0 if effect.side == "inside" else effect.boundary


def _margin(effect: Effect) -> tuple[float, ...]:
    return (-effect.boundary, effect.boundary) if effect.side == "inside" else ()


def _bar(effect: Effect, reach: float, with_level: bool) -> dict[str, Any]:
    centre, bounds = _centre(effect), _bounds(effect)

    def position(value: float) -> float:
        return round(WIDTH / 2 + max(-1.0, min(1.0, (value - centre) / reach)) * (WIDTH / 2 - MARGIN), 2)

    low, high = bounds or (effect.value, effect.value)
    claimed = {"above": (WIDTH / 2, WIDTH), "below": (0.0, WIDTH / 2), "inside": tuple(map(position, _margin(effect)))}
    return {
        "name": clean(with_labels(effect.name), 160),
        # With the true minus sign that the page's tables have.
        "value": number_text(effect.value).replace("-", "−"),
        "interval": _interval_words(effect, with_level).replace("-", "−"),
        "expected": clean(f"claimed {effect.claimed}".replace("-", "−"), 80) if effect.claimed else "",
        "how": clean(effect.how, 300),
        "shown_only": not effect.primary,
        "zero": WIDTH / 2,
        "claimed": claimed.get(effect.side, ()),
        "at": position(effect.value),
        "low": position(low),
        "high": position(high),
        "side": "" if not bounds else "above" if low > centre else "below" if high < centre else "",
    }


def _judged(judged: Judged) -> dict[str, Any]:
    sign, kind = outcome_look(judged.outcome)
    why = with_labels(judged.why)
    return {
        "source": clean(judged.source, 200),
        "outcome": clean(judged.outcome, 60),
        "why": clean(why[:1].upper() + why[1:], 1500),
        "standing": clean(standing(judged), 1500),
        "sign": sign,
        "kind": kind,
        "command": clean(judged.command, 1500),
        "bars": bars(judged.effects),
        "interval_head": interval_head(judged.effects),
    }
