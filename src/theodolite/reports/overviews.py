"""Figures that carry a whole page: healthy ranges, histograms of cosines, a study's effects, and what a comparison changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theodolite.advice.diagnosis import RULES
from theodolite.core.numbers import interval_text, number_text
from theodolite.core.result import Effect, Finding, Verdict
from theodolite.core.rows import Row
from theodolite.core.states import DIFFERENCE, state_order, state_title
from theodolite.metrics.registry import label_of
from theodolite.reports.displays import Display, frame_of, grouped, name_once, records_of, titles_of
from theodolite.reports.theme import AXIS, CELL_SCALE, GREY, NAME, Pen, faded, panel_grid, panel_position, state_pens
from theodolite.reports.wording import (
    SEVERITY_LOOKS,
    clean,
    finding_numbers,
    judged_number,
    outcome_look,
    plain,
    plain_lines,
    with_labels,
)

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from theodolite.core.result import Result

# Colours of good, undecided and bad that can be read on light and on dark.
LOOKS = {"holds": "#0f9b76", "open": "#b5851a", "fails": "#d2483b"}
# Where a finding is drawn: 0 is the end of the healthy range, 1 where it is bad; further out is cut off.
NEAR, FAR = -1.0, 2.0
# Widths of its interval by which an effect may be away from 0 before it is cut off.
REACH = 4.0
LINE = 22
# For changes: blue is down, orange is up, all of it light enough for dark letters, on a light page and on a dark one.
DIVERGING = [[0.0, "#8cb6ec"], [0.5, "#eeeeea"], [1.0, "#f2ae7e"]]
INK = "#1d2025"
# Layers across up to which the cells of a heat map show their numbers.
MOST_NUMBERED = 13
SIMILARITY_HEADING = "How similar texts are"
SIMILARITY_NOTE = (
    "Share of pairs at each cosine. If random pairs reach as far to the right as nearest neighbours do, a threshold on "
    "similarity cannot tell related texts from unrelated ones."
)
CALIBRATION_NOTE = (
    "Share of pairs at each cosine. A threshold can tell two kinds of pairs apart only if their histograms hardly overlap."
)
CUTOFF_NOTE = " A dashed line is a cutoff, in the colour of the pairs that it is from: only the accepted share of them is above."
BIN_COLUMNS = ("model", "state", "layer", "pairs", "low", "high", "count", "n")


def overview_displays(result: Result) -> Iterator[Display]:
    """The figures that carry a survey, a study or a comparison by layer, if the result is one."""
    for about, findings in grouped(result.findings, lambda finding: finding.model).items():
        if result.verb == "survey":
            note = "Left of the first line is OK, right of the second is bad. The ranges come from a few real spaces."
            note += " An arrow marks a number beyond the axis." if any(_is_beyond(finding) for finding in findings) else ""
            several = len({finding.model for finding in result.findings}) > 1
            titles = titles_of("ranges", "Where this space lies", (about if several else "",))
            yield RangesDisplay(findings=tuple(findings), note=note, **titles)
    if any(effect.primary for verdict in result.verdicts for effect in verdict.measured.effects):
        note = (
            "One line per effect that decides a claim: its distance from the bound of the claim, to the right if it is as "
            "claimed, over half the width of its interval, so that effects of different units share an axis. Beyond a dotted "
            "line the interval excludes the bound. An arrow marks an effect that is further out than the axis reaches."
        )
        yield ForestDisplay(verdicts=result.verdicts, note=note, **titles_of("claims", "All claims at a glance", ()))
    changes = [row for row in result.rows if row.state == DIFFERENCE and row.layer is not None and not row.label]
    if result.verb == "compare" and len({row.layer for row in changes}) > 1:
        note = (
            "B minus A in every layer. Colours are scaled for each metric by its largest change: orange is up, blue is down. A "
            "star marks an interval that excludes 0."
        )
        yield ChangesDisplay(rows=tuple(changes), note=note, **titles_of("changes", "What changed, layer by layer", ()))
    alike = tuple(row for row in result.rows if row.metric == "layer_cka")
    if result.verb == "compare" and alike:
        note = (
            "Debiased CKA of every layer of A with every layer of B, above chance: 0 is chance, 1 is the same layout up to "
            "rotation, scale and shift. Layers that do the same work make a bright diagonal."
        )
        yield LayerPairsDisplay(rows=alike, note=note, **titles_of("layer-cka", "Which layers are alike", ()))


@dataclass(frozen=True, eq=False, kw_only=True)
class RangesDisplay(Display):
    """Every finding of a survey on one axis, from healthy to bad."""

    findings: tuple[Finding, ...]

    def frame(self) -> pd.DataFrame:
        """One line per finding."""
        names = ("topic", "metric", "value", "healthy", "verdict")
        return frame_of({name: [_cell(getattr(finding, name)) for finding in self.findings] for name in names})

    def plot(self) -> Figure:
        """Dots between the bounds, worst on top."""
        from plotly.graph_objects import Scatter

        ordered = sorted(self.findings, key=lambda finding: -_severity(finding))
        lines = {id(finding): line for line, finding in enumerate(ordered)}
        figure = panel_grid([""], columns=1, height=LINE * len(ordered) + 40).update_layout(meta={"names": "above"})
        for verdict, group in grouped(ordered, lambda finding: finding.verdict).items():
            sign, look = SEVERITY_LOOKS[verdict]
            places = [_severity(finding) for finding in group]
            texts = [f"\u00a0{_with_arrow(finding)}\u00a0" for finding in group]  # some room between a dot and its number
            hover = [plain(f"{finding.topic}: {finding_numbers(finding)}") for finding in group]
            marker = {"color": LOOKS[look], "size": 11, "symbol": {"good": "circle", "watch": "diamond", "bad": "x"}[verdict]}
            sides = ["middle left" if place > 0.5 else "middle right" for place in places]  # long texts stay inside
            word = "OK" if verdict == "good" else verdict
            look_of = {
                "mode": "markers+text",
                "textposition": sides,
                "cliponaxis": False,
                "marker": marker,
                "name": f"{sign} {word}",
            }
            figure.add_trace(
                Scatter(
                    x=places, y=[lines[id(finding)] for finding in group], text=texts, customdata=hover,
                    hovertemplate="%{customdata}<extra></extra>", **look_of,
                )
            )  # fmt: skip
        for place in (0.0, 1.0):
            figure.add_vline(x=place, line_width=1, line_dash="dot", line_color=AXIS)
        ticks = {"tickvals": [-0.5, 0.5, 1.5], "ticktext": ["OK", "watch", "bad"], "ticks": "", "showgrid": False}
        figure.update_xaxes(range=[NEAR - 0.15, FAR + 0.15], zeroline=False, **ticks)
        names = [plain(finding.topic, NAME) for finding in ordered]
        return figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.5])


def _distance(finding: Finding) -> float | None:
    """How far a finding is from the healthy range, 1 where it is bad; None if its rule has no place for it."""
    rule = next((rule for rule in RULES if rule.topic == finding.topic), None)
    value: float | None = finding.value  # None if a file was read that has no number there
    if rule is None or value is None or not math.isfinite(rule.bad) or not math.isfinite(value):
        return None
    return (value - rule.watch) / (rule.bad - rule.watch)


def _is_beyond(finding: Finding) -> bool:
    distance = _distance(finding)
    return distance is not None and not NEAR <= distance <= FAR


def _with_arrow(finding: Finding) -> str:
    """The number of a finding, with an arrow if the axis does not reach so far."""
    text = judged_number(finding)
    return text if not _is_beyond(finding) else f"← {text}" if (_distance(finding) or 0.0) < NEAR else f"{text} →"


def _severity(finding: Finding) -> float:
    """Where a finding is between the bounds of its rule: below 0 healthy, above 1 bad."""
    place = _distance(finding)
    if place is None:
        return {"good": -0.5, "watch": 0.5, "bad": 1.5}[finding.verdict]
    # The words of the finding and its place must agree, although a bound itself counts as healthy.
    low, high = {"good": (NEAR, -0.04), "watch": (0.04, 0.96), "bad": (1.04, FAR)}[finding.verdict]
    return max(low, min(high, place))


@dataclass(frozen=True, eq=False, kw_only=True)
class ForestDisplay(Display):
    """The effects that decide the claims of a study, as claimed to the right, each over half the width of its interval."""

    verdicts: tuple[Verdict, ...]

    def frame(self) -> pd.DataFrame:
        """One line per effect that decides."""
        lines = list(self._lines())
        columns: dict[str, list[Any]] = {
            name: [_cell(getattr(verdict, name)) for verdict, _ in lines] for name in ("claim", "model")
        }
        columns["outcome"] = [_cell(verdict.measured.outcome) for verdict, _ in lines]
        names = ("name", "value", "low", "high", "claimed")
        return frame_of(columns | {name: [_cell(getattr(effect, name, None)) for _, effect in lines] for name in names})

    def plot(self) -> Figure:
        """One line per effect; claims without one have a line that says so."""
        from plotly.graph_objects import Scatter

        lines = list(self._lines())
        figure = panel_grid([""], columns=1, height=2 * LINE * len(lines) + 50)
        several = len({verdict.model for verdict in self.verdicts}) > 1
        names: list[str] = []
        for number, (verdict, _) in enumerate(lines):
            is_first = number == 0 or lines[number - 1][0] is not verdict
            model = f" · {plain(verdict.model, 20)}" if several else ""
            sign = outcome_look(verdict.measured.outcome)[0]
            names.append(f"{plain(verdict.claim, 16)}{model} {sign}" if is_first else "")
        for outcome, group in grouped(enumerate(lines), lambda line: line[1][0].measured.outcome).items():
            look = LOOKS[outcome_look(outcome)[1]] if outcome != "not measured" else GREY
            distances = [_standard(effect) for _, (_, effect) in group]
            places = [_place(distance) for distance in distances]
            symbols = [_symbol(distance) for distance in distances]
            bars = [1.0 if place is not None and abs(place) <= REACH else 0.0 for place in places]
            texts = [plain(_effect_words(verdict, effect), 160) for _, (verdict, effect) in group]
            trace = Scatter(
                x=places, y=[number for number, _ in group], mode="markers", customdata=texts, name=plain(outcome, NAME),
                hovertemplate="%{customdata}<extra></extra>", marker={"color": look, "size": 9, "symbol": symbols},
                error_x={"type": "data", "array": bars, "color": look, "thickness": 1.5, "width": 4},
            )  # fmt: skip
            figure.add_trace(trace)
        for place, dash in ((0.0, "solid"), (-1.0, "dot"), (1.0, "dot")):
            figure.add_vline(x=place, line_width=1, line_dash=dash, line_color=AXIS)
        words = [plain_lines(with_labels(effect.name) if effect else "not measured", width=40, limit=80) for _, effect in lines]
        figure.update_yaxes(tickvals=list(range(len(lines))), ticktext=names, range=[len(lines) - 0.5, -0.5], showgrid=False)
        figure.update_xaxes(title_text="← against the claim · as claimed →", range=[-REACH - 1.2, REACH + 1.2])
        for number, text in enumerate(words):
            # Above the line, which leaves the width of a phone to the axis.
            look_of = {
                "xref": "paper",
                "x": 0.01,
                "xanchor": "left",
                "align": "left",
                "yshift": 4,
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": 11},
            }
            figure.add_annotation(y=number, yref="y", text=text, **look_of)
        return figure

    def _lines(self) -> Iterator[tuple[Verdict, Effect | None]]:
        for verdict in self.verdicts:
            effects: Sequence[Effect | None] = [effect for effect in verdict.measured.effects if effect.primary] or [None]
            yield from ((verdict, effect) for effect in effects)


def _cell(value: Any) -> Any:
    """Text of the data without what a table cannot hold."""
    return clean(value) if isinstance(value, str) else value


def _half_width(effect: Effect) -> float:
    if effect.low is None or effect.high is None or not math.isfinite(effect.high - effect.low):
        return 0.0
    return (effect.high - effect.low) / 2


def _standard(effect: Effect | None) -> float | None:
    """How far the effect is on the claimed side of its bound, in halves of its interval's width."""
    if effect is None or not _half_width(effect):
        return None
    middle = (effect.low or 0.0) + _half_width(effect)  # of the interval, which need not be symmetric about the value
    distance = effect.boundary - abs(middle) if effect.side == "inside" else middle - effect.boundary
    return (-distance if effect.side == "below" else distance) / _half_width(effect)


def _place(distance: float | None) -> float | None:
    """Where an effect is drawn: at the edge if the axis does not reach so far."""
    return math.copysign(REACH + 1, distance) if distance is not None and abs(distance) > REACH else distance


def _symbol(distance: float | None) -> str:
    """A dot, or an arrow if the axis does not reach so far."""
    return "circle" if distance is None or abs(distance) <= REACH else "triangle-right" if distance > 0 else "triangle-left"


def _effect_words(verdict: Verdict, effect: Effect | None) -> str:
    if effect is None:
        return f"{verdict.claim} {verdict.title}: {verdict.measured.outcome}"
    interval = interval_text(effect.low, effect.high) if effect.low is not None else ""
    claimed = f", claimed {effect.claimed}" if effect.claimed else ""
    return f"{with_labels(effect.name)}: {number_text(effect.value)} {interval}{claimed}"


@dataclass(frozen=True, eq=False, kw_only=True)
class ChangesDisplay(Display):
    """The differences of a comparison as a heat map of metrics and layers."""

    rows: tuple[Row, ...]

    def frame(self) -> pd.DataFrame:
        """One line per difference."""
        return frame_of({name: [getattr(row, name) for row in self.rows] for name in ("layer", "metric", "value", "low", "high")})

    def plot(self) -> Figure:
        """Metrics down, layers across, the difference in every cell."""
        from plotly.graph_objects import Heatmap

        metrics = list(dict.fromkeys(row.metric for row in self.rows))
        layers = sorted({row.layer for row in self.rows if row.layer is not None})
        cells = {(row.metric, row.layer): row for row in self.rows}
        shades: list[list[float | None]] = []
        texts: list[list[str]] = []
        for metric in metrics:
            line = [cells.get((metric, layer)) for layer in layers]
            finite = [abs(row.value) for row in line if row is not None and math.isfinite(row.value)]
            reach = max(finite, default=0.0) or 1.0
            shades.append([row.value / reach if row is not None and math.isfinite(row.value) else None for row in line])
            texts.append([_difference(row) for row in line])
        look: dict[str, Any] = {
            "colorscale": DIVERGING,
            "zmid": 0,
            "zmin": -1,
            "zmax": 1,
            "showscale": False,
            "textfont": {"color": INK},
            "xgap": 2,
            "ygap": 2,
        }
        figure = panel_grid([""], columns=1, height=38 * len(metrics) + 60)
        names, heads = [plain(label_of(metric), NAME) for metric in metrics], [str(layer) for layer in layers]
        hover = "layer %{x}, %{y}: %{text}<extra></extra>"
        figure.add_trace(Heatmap(z=shades, x=heads, y=names, text=texts, texttemplate="%{text}", hovertemplate=hover, **look))
        figure.update_xaxes(title_text="layer", type="category", showgrid=False)
        return figure.update_yaxes(autorange="reversed", showgrid=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerPairsDisplay(Display):
    """How alike every layer of A and every layer of B are, as a heat map."""

    rows: tuple[Row, ...]

    def frame(self) -> pd.DataFrame:
        """One line per pair of layers."""
        columns = {"layer of A": "label", "layer of B": "other_label", "value": "value", "n": "n", "reason": "reason"}
        return frame_of({name: [getattr(row, field) for row in self.rows] for name, field in columns.items()})

    def plot(self) -> Figure:
        """Layers of A down, the embeddings at the bottom, layers of B across."""
        from plotly.graph_objects import Heatmap

        first, second = (sorted({getattr(row, name) for row in self.rows}, key=int) for name in ("label", "other_label"))
        cells = {(row.label, row.other_label): row.value for row in self.rows}
        values = [[cells[a, b] if math.isfinite(cells[a, b]) else None for b in second] for a in first]
        figure = panel_grid([""], columns=1, height=max(280, 26 * len(first) + 110))
        bar = {"title": {"text": "CKA above chance", "side": "right"}, "thickness": 12, "outlinewidth": 0}
        look: dict[str, Any] = {"colorscale": CELL_SCALE, "zmin": 0, "zmax": 1, "colorbar": bar, "xgap": 1, "ygap": 1}
        look |= {"texttemplate": "%{z:.2f}"} if len(second) <= MOST_NUMBERED else {}
        hover = "layer %{y} of A, layer %{x} of B: %{z:.3f}<extra></extra>"
        figure.add_trace(Heatmap(z=values, x=second, y=first, hovertemplate=hover, **look))
        figure.update_xaxes(title_text="layer of B", type="category", showgrid=False)
        return figure.update_yaxes(title_text="layer of A", type="category", showgrid=False)


def _difference(row: Row | None) -> str:
    if row is None or not math.isfinite(row.value):
        return "–"
    is_clear = row.low is not None and row.high is not None and not row.low <= 0 <= row.high
    return f"{row.value:+.3g}{'*' if is_clear else ''}".replace("-", "−")


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
    bins = [Bin(**{name: line[name] for name in BIN_COLUMNS}) for line in records_of(result, "similarities", BIN_COLUMNS)]
    # Several files that were surveyed together have a histogram each; the two sides of a comparison share one.
    groups = grouped(bins, lambda each: "" if each.state else each.model)
    for model, group in groups.items():
        about = (model if len(groups) > 1 else "",)
        note = CALIBRATION_NOTE if result.verb == "calibrate" else SIMILARITY_NOTE
        cutoffs = tuple(row for row in result.rows if row.metric == "cutoff" and math.isfinite(row.value))
        note += CUTOFF_NOTE if cutoffs else ""
        titles = titles_of("similarities", SIMILARITY_HEADING, about)
        yield SimilarityDisplay(bins=tuple(group), cutoffs=cutoffs, note=note, **titles)


@dataclass(frozen=True, eq=False, kw_only=True)
class SimilarityDisplay(Display):
    """Histograms: the kinds of pairs of one cloud over each other, or a panel for each kind with the states over each other."""

    bins: tuple[Bin, ...]
    cutoffs: tuple[Row, ...] = ()

    def frame(self) -> pd.DataFrame:
        """Every bin that is not empty, one per line."""
        return frame_of({name: [getattr(each, name) for each in self.bins] for name in BIN_COLUMNS})

    def plot(self) -> Figure:
        """The histograms as outlines over one axis of cosines."""
        states = sorted({each.state for each in self.bins}, key=state_order)
        kinds = list(dict.fromkeys(each.pairs for each in self.bins))
        panels = kinds if len(states) > 1 else [""]
        # On a phone every entry of the legend takes a line.
        figure = panel_grid(panels, columns=2, height=280 + 14 * (len(kinds if panels == [""] else states) + len(self.cutoffs)))
        pens = state_pens(states if len(states) > 1 else kinds)
        for i, kind in enumerate(panels):
            members = [each for each in self.bins if kind in ("", each.pairs)]
            field = "state" if kind else "pairs"
            for name, group in grouped(members, lambda each, field=field: str(getattr(each, field))).items():  # type: ignore[misc]
                trace = pens[name].draw(_outline(group), hover="cosine %{x:.2f}: %{y:.1%}", mode="lines")
                trace.update(line_shape="hv", fill="tozeroy", fillcolor=faded(pens[name].colour, 0.18), name=_title(name, group))
                figure.add_trace(trace, **panel_position(i, 2))
        highest = max(each.count / each.n for each in self.bins)
        for row in self.cutoffs:
            colour = next((pens[kind].colour for kind in kinds if kind.endswith(row.setting)), GREY)
            name = f"cutoff, {plain(row.setting, NAME)}: {number_text(row.value)}"
            points = [(row.value, share, "") for share in (0.0, highest)]
            interval = interval_text(row.low, row.high) if row.low is not None and row.high is not None else ""
            pen = Pen(name=name, colour=colour, dash="dash")
            figure.add_trace(pen.draw(points, hover=f"{name} {interval}<extra></extra>", mode="lines"))
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
