"""How similar rows are: histograms of cosines of random pairs, of nearest neighbours, and of pairs that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theodolite.core.states import state_order, state_title
from theodolite.reports.displays import Display, frame_of, grouped, name_once, records_of, titles_of
from theodolite.reports.theme import faded, panel_grid, panel_position, state_pens

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from theodolite.core.result import Result

HEADING = "How similar texts are"
NOTE = (
    "Share of pairs at each cosine. If random pairs reach as far to the right as nearest neighbours do, a threshold on "
    "similarity cannot tell related texts from unrelated ones."
)
CALIBRATION_NOTE = (
    "Share of pairs at each cosine. A threshold can tell two kinds of pairs apart only if their histograms hardly overlap."
)
COLUMNS = ("model", "state", "layer", "pairs", "low", "high", "count", "n")


@dataclass(frozen=True)
class Bin:
    """How many pairs of one kind have a cosine between two values."""

    model: str
    state: str
    layer: int
    pairs: str
    low: float
    high: float
    count: int
    n: int


def similarity_displays(result: Result) -> Iterator[Display]:
    """The histogram of a result's last layer, if it has the record `similarities`."""
    bins = [Bin(**{name: line[name] for name in COLUMNS}) for line in records_of(result, "similarities", COLUMNS)]
    # Several files that were surveyed together have a histogram each; the two sides of a comparison share one.
    groups = grouped(bins, lambda each: "" if each.state else each.model)
    for model, group in groups.items():
        about = (model if len(groups) > 1 else "",)
        note = CALIBRATION_NOTE if result.verb == "calibrate" else NOTE
        yield SimilarityDisplay(bins=tuple(group), note=note, **titles_of("similarities", HEADING, about))


@dataclass(frozen=True, eq=False, kw_only=True)
class SimilarityDisplay(Display):
    """Histograms: the kinds of pairs of one cloud over each other, or a panel for each kind with the states over each other."""

    bins: tuple[Bin, ...]

    def frame(self) -> pd.DataFrame:
        """Every bin that is not empty, one per line."""
        return frame_of({name: [getattr(each, name) for each in self.bins] for name in COLUMNS})

    def plot(self) -> Figure:
        """The histograms as outlines over one axis of cosines."""
        states = sorted({each.state for each in self.bins}, key=state_order)
        kinds = list(dict.fromkeys(each.pairs for each in self.bins))
        panels = kinds if len(states) > 1 else [""]
        figure = panel_grid(panels, columns=2, height=300)
        pens = state_pens(states if len(states) > 1 else kinds)
        for i, kind in enumerate(panels):
            members = [each for each in self.bins if kind in ("", each.pairs)]
            field = "state" if kind else "pairs"
            for name, group in grouped(members, lambda each, field=field: str(getattr(each, field))).items():  # type: ignore[misc]
                trace = pens[name].draw(_outline(group), hover="cosine %{x:.2f}: %{y:.1%}", mode="lines")
                trace.update(line_shape="hv", fill="tozeroy", fillcolor=faded(pens[name].colour, 0.18), name=_title(name, group))
                figure.add_trace(trace, **panel_position(i, 2))
        low = min(each.low for each in self.bins)
        figure.update_xaxes(title_text="cosine", range=[min(0.0, low) - 0.02, 1.0])
        figure.update_yaxes(title_text="share of the pairs", tickformat=".0%", rangemode="tozero")
        return name_once(figure)


def _title(name: str, group: list[Bin]) -> str:
    return state_title(name) if group[0].state else f"{name} ({group[0].n:,})"


def _outline(group: list[Bin]) -> list[Any]:
    """The corners of a histogram's steps; bins that are empty lie on the axis."""
    shares = {each.low: each.count / each.n for each in group}
    width = round(group[0].high - group[0].low, 6)
    first, last = min(shares), max(shares)
    places = [round(first + i * width, 6) for i in range(round((last - first) / width) + 1)]
    points = [(place, shares.get(place, 0.0), "") for place in places]
    return [(first, 0.0, ""), *points, (round(last + width, 6), 0.0, "")]
