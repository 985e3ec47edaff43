"""How far each label is from its nearest other one while a model is fine-tuned (ZS22)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import RowsDisplay, grouped, last_layer, one_of
from theodolite.reports.figures.lines import Pen, drawn, line, said, value_of
from theodolite.reports.figures.slider import BELOW, with_slider
from theodolite.reports.figures.words import axis
from theodolite.reports.look import AXIS, GREY, NAME, PALETTE, SYMBOLS, dressed
from theodolite.reports.plain import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Scatter

METRICS = ("minimum_distance", "label_min_distance")
"""Of hulls, or where there are none of centroids."""
MEAN = "mean_minimum_distance"
NAMED = 3
"""Labels that are named of those that grow most, and of those that grow least."""


@dataclass(frozen=True)
class MinimumDistances(RowsDisplay):
    """Distance of each label to the nearest other, at least 0, over training: the three that grow most and least have names."""

    fields: ClassVar[tuple[str, ...]] = ("model", "task", "layer", "label", "step", "metric", "value", "n", "reason")

    @classmethod
    def of(cls, rows: Iterable[Row]) -> MinimumDistances | None:
        """The rows of one model and task over two steps or more, of the last layer; None where there are none."""
        tracked = [row for row in rows if row.step is not None]
        for metric in METRICS:
            found = [row for row in tracked if row.metric == metric and row.label]
            if len({row.step for row in found}) > 1:
                one_of(found, "MinimumDistances", "model", "task")
                last = last_layer(found)
                found += [row for row in tracked if row.metric == MEAN and metric == METRICS[0]]
                # Tracked while it trained and measured again afterwards, a step has two rows: the later one stands.
                once = {(row.metric, row.label, row.step): row for row in found if row.layer == last}
                return cls(tuple(sorted(once.values(), key=lambda row: row.step or 0)))
        return None

    @property
    def name(self) -> str:
        return self.file_name("minimum-distances", "model", "task")

    @property
    def title(self) -> str:
        return f"Distance of each label to its nearest other{self.about('model', 'task')}"

    @property
    def note(self) -> str:
        return (
            "Named are the labels whose distance grows most, and least; the others are grey. The slider walks through training."
        )

    def plot(self) -> Figure:
        """Distances over training steps; the slider reads them off at one step."""
        from plotly.graph_objects import Figure, Frame

        steps = sorted({row.step for row in self.rows if row.step is not None})
        labels = grouped((row for row in self.rows if row.metric != MEAN), lambda row: row.label)
        pens = _pens(_by_growth(labels))
        others = [rows for label, rows in labels.items() if label not in pens]
        figure = Figure([_faint(others)] if others else [])
        for label, pen in pens.items():
            figure.add_trace(line(*_walk(labels[label]), pen, before="step ", mode="lines"))
        means = [row for row in self.rows if row.metric == MEAN]
        if means:
            pen = Pen(name="mean of all labels", colour=GREY, dash="dash", width=3)
            figure.add_trace(line(*_walk(means), pen, before="step ", mode="lines"))
        figure.add_trace(_cursor(labels, pens, steps[-1]))
        frames = [Frame(data=[_cursor(labels, pens, step)], traces=[len(figure.data) - 1]) for step in steps]
        metric = next(row.metric for row in self.rows if row.metric != MEAN)
        figure = dressed(figure, height=440 + BELOW)
        figure.update_layout(xaxis_title_text="training step", yaxis_title_text=axis(metric), yaxis_rangemode="tozero")
        return with_slider(figure, steps, frames, what="step", start=len(steps) - 1)


def _walk(rows: Sequence[Row]) -> tuple[list[int | None], Sequence[Row]]:
    return [row.step for row in rows], rows


def _by_growth(labels: dict[str, list[Row]]) -> list[str]:
    grown = {label: rows[-1].value - rows[0].value for label, rows in labels.items()}
    # What is not a number at an end has no growth, and stands in the middle where nothing is named.
    known = [label for label, growth in grown.items() if not math.isnan(growth)]
    return sorted(known, key=lambda label: -grown[label])


def _pens(ordered: Sequence[str]) -> dict[str, Pen]:
    named = list(ordered) if len(ordered) <= 2 * NAMED else [*ordered[:NAMED], *ordered[-NAMED:]]
    return {
        label: Pen(
            name=label, colour=PALETTE[i % len(PALETTE)], symbol=SYMBOLS[i % len(SYMBOLS)], dash="solid" if i < NAMED else "dot"
        )
        for i, label in enumerate(named)
    }


def _faint(others: Sequence[Sequence[Row]]) -> Scatter:
    from plotly.graph_objects import Scatter

    x: list[Any] = []
    y: list[Any] = []
    told: list[str] = []
    for rows in others:
        x += [*(row.step for row in rows), None]
        y += [*(value_of(row) for row in rows), None]
        told += [*(f"{plain(row.label, NAME)}: {said(row)}" for row in rows), ""]
    look = drawn(Pen(name=f"{len(others)} other labels", colour=AXIS, width=0.9))
    return Scatter(x=x, y=y, text=told, hovertemplate="step %{x}: %{text}<extra></extra>", mode="lines", **look)


def _cursor(labels: dict[str, list[Row]], pens: dict[str, Pen], step: int) -> Scatter:
    from plotly.graph_objects import Scatter

    rows = [row for label in pens for row in labels[label] if row.step == step]
    told = [f"{plain(row.label, NAME)}: {said(row)}" for row in rows]
    look = drawn(replace(Pen(name="at the step", colour=GREY), legend=False))
    look["marker"] = {
        "size": 11,
        "color": [pens[row.label].colour for row in rows],
        "symbol": [pens[row.label].symbol for row in rows],
        "line": {"width": 1, "color": AXIS},
    }
    dots: dict[str, Any] = {"x": [step] * len(rows), "y": [value_of(row) for row in rows], "text": told}
    return Scatter(**dots, hovertemplate="step %{x}: %{text}<extra></extra>", mode="markers", **look)
