"""Spectra: the share of the variance on every principal direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theodolite.reports.figures.base import Shown, frame_of, grouped, state_rank
from theodolite.reports.figures.lines import drawn, pens
from theodolite.reports.figures.slider import BELOW, with_slider
from theodolite.reports.look import panels

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow
    from plotly.graph_objects import Figure, Scatter

COLUMNS = ("model", "state", "layer", "setting", "k", "value")


@dataclass(frozen=True)
class Curve:
    """One spectrum: `values[i]` is the share on direction `ks[i]`."""

    model: str
    state: str
    layer: int
    setting: str
    ks: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def line(self) -> str:
        return ", ".join(filter(None, (self.state, self.setting))) or "all"


@dataclass(frozen=True)
class Spectra(Shown):
    """λ_k over the sum of λ of the centred cloud, over k, both axes logarithmic: flat is isotropic. Layers by a slider."""

    curves: tuple[Curve, ...]

    @classmethod
    def of(cls, table: pyarrow.Table | None) -> Spectra | None:
        """The spectra of a table with the columns model, state, layer, setting, k and value; None where it has no line."""
        if table is None or table.num_rows == 0:
            return None
        lines = zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)
        found = grouped(lines, lambda one: (str(one[0] or ""), str(one[1] or ""), int(one[2] or 0), str(one[3] or "")))
        return cls(tuple(Curve(*key, *_ordered(members)) for key, members in found.items()))

    @property
    def name(self) -> str:
        return "spectra"

    @property
    def title(self) -> str:
        return "Spectrum of the cloud"

    @property
    def note(self) -> str:
        return (
            "Share of the centred variance on each principal direction. A flat line is isotropic; a steep start, a few that rule."
        )

    def frame(self) -> pd.DataFrame:
        """Every share, one line each."""
        lines = [(c.model, c.state, c.layer, c.setting, k, v) for c in self.curves for k, v in zip(c.ks, c.values, strict=True)]
        return frame_of({name: [one[i] for one in lines] for i, name in enumerate(COLUMNS)})

    def plot(self) -> Figure:
        """The spectra of the last layer; a slider shows the other layers."""
        from plotly.graph_objects import Frame

        layers = sorted({curve.layer for curve in self.curves})
        figure = panels(self._models, columns=len(self._models), shared_y=True, height=380)
        shown = self._at(layers[-1])
        for column, trace in shown:
            figure.add_trace(trace, row=1, col=column)
        figure.update_xaxes(title_text="principal direction k", type="log", dtick=1)
        figure.update_yaxes(type="log", exponentformat="power", dtick=1)
        figure.update_yaxes(title_text="share of the variance", col=1)
        if len(layers) == 1:
            return figure
        frames = [Frame(data=[trace for _, trace in self._at(layer)], traces=list(range(len(shown)))) for layer in layers]
        figure.update_layout(height=figure.layout.height + BELOW)
        return with_slider(figure, layers, frames, what="layer", start=len(layers) - 1)

    @property
    def _models(self) -> list[str]:
        return list(dict.fromkeys(curve.model for curve in self.curves))

    def _at(self, layer: int) -> list[tuple[int, Scatter]]:
        # Every layer has the same traces in the same order, empty where it lacks one: a frame replaces them one by one.
        from plotly.graph_objects import Scatter

        chosen, known = pens(sorted(dict.fromkeys(c.line for c in self.curves), key=state_rank)), set[str]()
        found = []
        for model, name in dict.fromkeys((curve.model, curve.line) for curve in self.curves):
            curve = next((c for c in self.curves if (c.model, c.line, c.layer) == (model, name, layer)), None)
            x, y = (curve.ks, curve.values) if curve else ((), ())
            look = drawn(chosen[name].silent(known))
            trace = Scatter(x=x, y=y, mode="lines", hovertemplate="direction %{x}: %{y:.3%}", **look)
            found.append((self._models.index(model) + 1, trace))
        return found


def _ordered(lines: Sequence[tuple[Any, ...]]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    pairs = sorted((int(one[4]), float(one[5])) for one in lines)
    return tuple(k for k, _ in pairs), tuple(value for _, value in pairs)
