"""How like its original each layer stays while a model is fine-tuned (ZS22, figure on layers)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from theodolite.core.rows import Row
from theodolite.reports.figures.base import RowsDisplay, grouped, one_of
from theodolite.reports.figures.lines import Pen, line
from theodolite.reports.figures.words import axis
from theodolite.reports.look import SYMBOLS, panels, ramp

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

METRICS = ("similarity_to_original", "cka_to_original")


@dataclass(frozen=True)
class SimilarityByLayer(RowsDisplay):
    """Pearson of the label distances to those of step 0 (and CKA beside it), at most 1, over training: a line for each layer."""

    fields: ClassVar[tuple[str, ...]] = ("model", "task", "layer", "step", "metric", "value", "low", "high", "n", "reason")

    @classmethod
    def of(cls, rows: Iterable[Row]) -> SimilarityByLayer | None:
        """`similarity_to_original` and `cka_to_original` of one model and task by layer and step; None where there are none."""
        found = [row for row in rows if row.metric in METRICS and row.step is not None and row.layer is not None]
        one_of(found, "SimilarityByLayer", "model", "task")
        return cls(tuple(sorted(found, key=lambda row: (row.layer or 0, row.step or 0)))) if found else None

    @property
    def name(self) -> str:
        return self.file_name("similarity-by-layer", "model", "task")

    @property
    def title(self) -> str:
        return f"Similarity of each layer to its original{self.about('model', 'task')}"

    @property
    def note(self) -> str:
        return "1 is unchanged. Low layers are blue, high ones orange: the further a line falls, the more its layer changed."

    def plot(self) -> Figure:
        """Similarity over training steps, a line for each layer."""
        shown = [metric for metric in METRICS if any(row.metric == metric for row in self.rows)]
        figure = panels([""] * len(shown), columns=2, height=380, shared_y=False)
        layers = sorted({row.layer for row in self.rows if row.layer is not None})
        tints = dict(zip(layers, ramp(len(layers)), strict=True))
        known: set[str] = set()
        for column, metric in enumerate(shown, start=1):
            for layer, members in grouped((row for row in self.rows if row.metric == metric), lambda row: row.layer or 0).items():
                at = layers.index(layer)
                pen = Pen(name=f"layer {layer}", colour=tints[layer], symbol=SYMBOLS[at % len(SYMBOLS)], width=1.8)
                trace = line([row.step for row in members], members, pen.silent(known), before="step ")
                figure.add_trace(trace, row=1, col=column)
            figure.update_yaxes(title_text=axis(metric), row=1, col=column)
        return figure.update_xaxes(title_text="training step")
