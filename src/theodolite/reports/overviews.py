"""Figures that carry a whole page: healthy ranges, histograms of cosines, a study's effects, and what a comparison changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.advice.diagnosis import RULES
from theodolite.core.numbers import interval_text, number_text
from theodolite.core.result import Effect, Finding, Verdict
from theodolite.core.rows import Row
from theodolite.core.states import DIFFERENCE, state_order, state_title
from theodolite.metrics.registry import label_of
from theodolite.reports.displays import (
    Display,
    DrawnDisplay,
    field_columns,
    finite_value,
    grouped,
    heat_map,
    name_once,
    records_of,
    titles_of,
)
from theodolite.reports.theme import AXIS, CELL_SCALE, GREY, NAME, Pen, faded, panel_grid, panel_position, state_pens
from theodolite.reports.wording import (
    SEVERITY_LOOKS,
    change_mark,
    clean,
    finding_numbers,
    judged_number,
    outcome_look,
    plain,
    plain_lines,
    with_labels,
)

if TYPE_CHECKING:
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
CUTOFF_NOTE = " A dashed line is a cutoff, in the colour of its pairs: only the accepted share of them lies above it."
# An effect that decides a claim, or None, and the verdict on the claim.
EffectLine: TypeAlias = tuple[Verdict, Effect | None]
# How many pairs of one kind have a cosine between two values: a line of the record `similarities`.
Bar: TypeAlias = Mapping[str, Any]
BAR_COLUMNS = ("model", "state", "layer", "pairs", "low", "high", "count", "n")


def overview_displays(result: Result) -> Iterator[Display]:
    """The figures that carry a survey, a study or a comparison by layer, if the result is one."""
    models = grouped(result.findings, lambda finding: finding.model) if result.verb == "survey" else {}
    for model, findings in models.items():
        note = "Left of the first line is OK, right of the second is bad. The ranges come from a few real spaces."
        note += " An arrow marks a number beyond the axis." if any(_is_beyond(finding) for finding in findings) else ""
        titles = titles_of("ranges", "Where this space lies", (model if len(models) > 1 else "",))
        columns, draw = partial(_finding_columns, findings), partial(_draw_ranges, findings)
        yield DrawnDisplay(columns=columns, draw=draw, note=note, **titles)
    if any(effect.primary for verdict in result.verdicts for effect in verdict.measured.effects):
        lines = list(_effect_lines(result.verdicts))
        yield DrawnDisplay(
            columns=partial(_effect_columns, lines),
            draw=partial(_draw_forest, lines),
            note="One line per effect that decides a claim: its distance from the bound of the claim, to the right if it is as "
            "claimed, over half the width of its interval, so that effects of different units share an axis. Beyond a dotted "
            "line the interval excludes the bound. An arrow marks an effect that is further out than the axis reaches.",
            **titles_of("claims", "All claims at a glance", ()),
        )
    if result.verb != "compare":
        return
    changes = [row for row in result.rows if row.state == DIFFERENCE and row.layer is not None and not row.label]
    if len({row.layer for row in changes}) > 1:
        yield DrawnDisplay(
            columns=partial(field_columns, changes, ("layer", "metric", "value", "low", "high")),
            draw=partial(_draw_changes, changes),
            note="B minus A in every layer. Colours are scaled for each metric by its largest change: orange is up, blue is "
            "down. A star marks an interval that excludes 0.",
            **titles_of("changes", "What changed, layer by layer", ()),
        )
    if alike := [row for row in result.rows if row.metric == "layer_cka"]:
        heads = {"layer of A": "label", "layer of B": "other_label", "value": "value", "n": "n", "reason": "reason"}
        yield DrawnDisplay(
            columns=lambda: {head: [getattr(row, field) for row in alike] for head, field in heads.items()},
            draw=partial(_draw_layer_pairs, alike),
            note="Debiased CKA of every layer of A with every layer of B, above chance: 0 is chance, 1 is the same layout up to "
            "rotation, scale and shift. Layers that do the same work make a bright diagonal.",
            **titles_of("layer-cka", "Which layers are alike", ()),
        )


def _finding_columns(findings: Sequence[Finding]) -> dict[str, list[Any]]:
    names = ("topic", "metric", "value", "healthy", "verdict")
    return {name: [_cell(getattr(finding, name)) for finding in findings] for name in names}


def _draw_ranges(findings: Sequence[Finding]) -> Figure:
    """Every finding of a survey as a dot on one axis, from healthy to bad, worst on top."""
    from plotly.graph_objects import Scatter

    ordered = sorted(findings, key=lambda finding: -_severity(finding))
    lines = {id(finding): line for line, finding in enumerate(ordered)}
    figure = panel_grid([""], columns=1, height=LINE * len(ordered) + 40).update_layout(meta={"names": "above"})
    for verdict, group in grouped(ordered, lambda finding: finding.verdict).items():
        sign, look = SEVERITY_LOOKS[verdict]
        severities = [_severity(finding) for finding in group]
        figure.add_trace(
            Scatter(
                x=severities,
                y=[lines[id(finding)] for finding in group],
                text=[f"\u00a0{_with_arrow(finding)}\u00a0" for finding in group],  # some room between a dot and its number
                customdata=[plain(f"{finding.topic}: {finding_numbers(finding)}") for finding in group],
                hovertemplate="%{customdata}<extra></extra>",
                mode="markers+text",
                textposition=["middle left" if x > 0.5 else "middle right" for x in severities],  # long texts stay inside
                cliponaxis=False,
                marker={"color": LOOKS[look], "size": 11, "symbol": {"good": "circle", "watch": "diamond", "bad": "x"}[verdict]},
                name=f"{sign} {'OK' if verdict == 'good' else verdict}",
            )
        )
    for bound in (0.0, 1.0):
        figure.add_vline(x=bound, line_width=1, line_dash="dot", line_color=AXIS)
    ticks = {"tickvals": [-0.5, 0.5, 1.5], "ticktext": ["OK", "watch", "bad"], "ticks": "", "showgrid": False}
    figure.update_xaxes(range=[NEAR - 0.15, FAR + 0.15], zeroline=False, **ticks)
    names = [plain(finding.topic, NAME) for finding in ordered]
    return figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.5])


def _distance(finding: Finding) -> float | None:
    """How far a finding is from the healthy range, 1 where it is bad; None if its rule has no bounds for it."""
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
    distance = _distance(finding)
    if distance is None:
        return {"good": -0.5, "watch": 0.5, "bad": 1.5}[finding.verdict]
    # The words of the finding and its position must agree, although a bound itself counts as healthy.
    low, high = {"good": (NEAR, -0.04), "watch": (0.04, 0.96), "bad": (1.04, FAR)}[finding.verdict]
    return max(low, min(high, distance))


def _effect_lines(verdicts: Sequence[Verdict]) -> Iterator[EffectLine]:
    """Each effect that decides a claim with its verdict; a claim without one has a line too."""
    for verdict in verdicts:
        effects: Sequence[Effect | None] = [effect for effect in verdict.measured.effects if effect.primary] or [None]
        yield from ((verdict, effect) for effect in effects)


def _effect_columns(lines: Sequence[EffectLine]) -> dict[str, list[Any]]:
    columns = {name: [_cell(getattr(verdict, name)) for verdict, _ in lines] for name in ("claim", "model")}
    columns["outcome"] = [_cell(verdict.measured.outcome) for verdict, _ in lines]
    names = ("name", "value", "low", "high", "claimed")
    return columns | {name: [_cell(getattr(effect, name, None)) for _, effect in lines] for name in names}


def _draw_forest(lines: Sequence[EffectLine]) -> Figure:
    """The effects that decide the claims of a study, as claimed to the right, each over half the width of its interval."""
    from plotly.graph_objects import Scatter

    figure = panel_grid([""], columns=1, height=2 * LINE * len(lines) + 50)
    several = len({verdict.model for verdict, _ in lines}) > 1
    names: list[str] = []
    for number, (verdict, _) in enumerate(lines):
        is_first = number == 0 or lines[number - 1][0] is not verdict
        model = f" · {plain(verdict.model, 20)}" if several else ""
        sign = outcome_look(verdict.measured.outcome)[0]
        names.append(f"{plain(verdict.claim, 16)}{model} {sign}" if is_first else "")
    for outcome, group in grouped(enumerate(lines), lambda line: line[1][0].measured.outcome).items():
        look = LOOKS[outcome_look(outcome)[1]] if outcome != "not measured" else GREY
        distances = [_standard(effect) for _, (_, effect) in group]
        bars = [1.0 if distance is not None and abs(distance) <= REACH else 0.0 for distance in distances]
        figure.add_trace(
            Scatter(
                # At the edge if the axis does not reach so far.
                x=[math.copysign(REACH + 1, far) if far is not None and abs(far) > REACH else far for far in distances],
                y=[number for number, _ in group],
                mode="markers",
                customdata=[plain(_effect_words(verdict, effect), 160) for _, (verdict, effect) in group],
                name=plain(outcome, NAME),
                hovertemplate="%{customdata}<extra></extra>",
                marker={"color": look, "size": 9, "symbol": list(map(_symbol, distances))},
                error_x={"type": "data", "array": bars, "color": look, "thickness": 1.5, "width": 4},
            )
        )
    for bound, dash in ((0.0, "solid"), (-1.0, "dot"), (1.0, "dot")):
        figure.add_vline(x=bound, line_width=1, line_dash=dash, line_color=AXIS)
    figure.update_yaxes(tickvals=list(range(len(lines))), ticktext=names, range=[len(lines) - 0.5, -0.5], showgrid=False)
    figure.update_xaxes(title_text="← against the claim · as claimed →", range=[-REACH - 1.2, REACH + 1.2])
    # Above the line, which leaves the width of a phone to the axis.
    above = {"xref": "paper", "x": 0.01, "xanchor": "left", "align": "left", "yshift": 4, "yanchor": "bottom"}
    for number, (_, effect) in enumerate(lines):
        text = plain_lines(with_labels(effect.name) if effect else "not measured", width=40, limit=80)
        figure.add_annotation(y=number, yref="y", text=text, **above, showarrow=False, font={"size": 11})
    return figure


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


def _symbol(distance: float | None) -> str:
    """A dot, or an arrow if the axis does not reach so far."""
    return "circle" if distance is None or abs(distance) <= REACH else "triangle-right" if distance > 0 else "triangle-left"


def _effect_words(verdict: Verdict, effect: Effect | None) -> str:
    if effect is None:
        return f"{verdict.claim} {verdict.title}: {verdict.measured.outcome}"
    interval = interval_text(effect.low, effect.high) if effect.low is not None else ""
    claimed = f", claimed {effect.claimed}" if effect.claimed else ""
    return f"{with_labels(effect.name)}: {number_text(effect.value)} {interval}{claimed}"


def _draw_changes(rows: Sequence[Row]) -> Figure:
    """The differences of a comparison: metrics down, layers across, the difference in every cell."""
    metrics = list(dict.fromkeys(row.metric for row in rows))
    layers = sorted({row.layer for row in rows if row.layer is not None})
    cells = {(row.metric, row.layer): row for row in rows}
    shades: list[list[float | None]] = []
    texts: list[list[str]] = []
    for metric in metrics:
        line = [cells.get((metric, layer)) for layer in layers]
        values = [row.value if row is not None and math.isfinite(row.value) else None for row in line]
        reach = max((abs(value) for value in values if value is not None), default=0.0) or 1.0
        shades.append([None if value is None else value / reach for value in values])
        texts.append([_difference(row) for row in line])
    look: dict[str, Any] = {"text": texts, "texttemplate": "%{text}", "hovertemplate": "layer %{x}, %{y}: %{text}<extra></extra>"}
    look |= {"colorscale": DIVERGING, "zmid": 0, "zmin": -1, "zmax": 1, "showscale": False}
    look |= {"textfont": {"color": INK}, "xgap": 2, "ygap": 2}
    names = [plain(label_of(metric), NAME) for metric in metrics]
    figure = heat_map(shades, list(map(str, layers)), names, height=38 * len(metrics) + 60, **look)
    figure.update_xaxes(title_text="layer", type="category", showgrid=False)
    return figure.update_yaxes(autorange="reversed", showgrid=False)


def _draw_layer_pairs(rows: Sequence[Row]) -> Figure:
    """How alike layers are: those of A down, the embeddings at the bottom, those of B across."""
    first, second = (sorted({getattr(row, name) for row in rows}, key=int) for name in ("label", "other_label"))
    cells = {(row.label, row.other_label): finite_value(row) for row in rows}
    bar = {"title": {"text": "CKA above chance", "side": "right"}, "thickness": 12, "outlinewidth": 0}
    look: dict[str, Any] = {"hovertemplate": "layer %{y} of A, layer %{x} of B: %{z:.3f}<extra></extra>"}
    look |= {"colorscale": CELL_SCALE, "zmin": 0, "zmax": 1, "colorbar": bar, "xgap": 1, "ygap": 1}
    look |= {"texttemplate": "%{z:.2f}"} if len(second) <= MOST_NUMBERED else {}
    values = [[cells[a, b] for b in second] for a in first]
    figure = heat_map(values, second, first, height=max(280, 26 * len(first) + 110), **look)
    figure.update_xaxes(title_text="layer of B", type="category", showgrid=False)
    return figure.update_yaxes(title_text="layer of A", type="category", showgrid=False)


def _difference(row: Row | None) -> str:
    if row is None or not math.isfinite(row.value):
        return "–"
    return f"{row.value:+.3g}{change_mark(row.low, row.high)}".replace("-", "−")


def similarity_displays(result: Result) -> Iterator[Display]:
    """The histogram of a result's last layer, if it has the record `similarities`."""
    cutoffs = [row for row in result.rows if row.metric == "cutoff" and math.isfinite(row.value)]
    note = (CALIBRATION_NOTE if result.verb == "calibrate" else SIMILARITY_NOTE) + (CUTOFF_NOTE if cutoffs else "")
    bars = records_of(result, "similarities", BAR_COLUMNS)
    # Several files that were surveyed together have a histogram each; the two sides of a comparison share one.
    groups = grouped(bars, lambda bar: "" if bar["state"] else str(bar["model"]))
    for model, group in groups.items():
        titles = titles_of("similarities", SIMILARITY_HEADING, (model if len(groups) > 1 else "",))
        draw = partial(_draw_histograms, group, cutoffs)
        yield DrawnDisplay(columns=partial(_bar_columns, group), draw=draw, note=note, **titles)


def _bar_columns(bars: Sequence[Bar]) -> dict[str, list[Any]]:
    return {name: [bar[name] for bar in bars] for name in BAR_COLUMNS}


def _draw_histograms(bars: Sequence[Bar], cutoffs: Sequence[Row]) -> Figure:
    """Outlines over one axis of cosines: of all kinds of pairs, or a panel for each kind with the states over each other."""
    states = sorted({bar["state"] for bar in bars}, key=state_order)
    kinds = list(dict.fromkeys(bar["pairs"] for bar in bars))
    panels = kinds if len(states) > 1 else [""]
    # On a phone every entry of the legend takes a line.
    figure = panel_grid(panels, columns=2, height=280 + 14 * (len(kinds if panels == [""] else states) + len(cutoffs)))
    pens = state_pens(states if len(states) > 1 else kinds)
    for i, kind in enumerate(panels):
        members = [bar for bar in bars if kind in ("", bar["pairs"])]
        field = "state" if kind else "pairs"
        for name, group in grouped(members, lambda bar, field=field: str(bar[field])).items():  # type: ignore[misc]
            trace = pens[name].draw(_outline(group), hover="cosine %{x:.2f}: %{y:.1%}", mode="lines")
            title = state_title(name) if group[0]["state"] else f"{name} ({group[0]['n']:,})"
            trace.update(line_shape="hv", fill="tozeroy", fillcolor=faded(pens[name].colour, 0.18), name=title)
            figure.add_trace(trace, **panel_position(i, 2))
    highest = max(bar["count"] / bar["n"] for bar in bars)
    for row in cutoffs:
        colour = next((pens[kind].colour for kind in kinds if kind.endswith(row.setting)), GREY)
        name = f"cutoff, {plain(row.setting, NAME)}: {number_text(row.value)}"
        points = [(row.value, share, "") for share in (0.0, highest)]
        pen = Pen(name=name, colour=colour, dash="dash")
        figure.add_trace(pen.draw(points, hover=f"{name} {interval_text(row.low, row.high)}<extra></extra>", mode="lines"))
    figure.update_xaxes(title_text="cosine", range=[min(0.0, *(bar["low"] for bar in bars)) - 0.02, 1.0])
    figure.update_yaxes(title_text="share of the pairs", tickformat=".0%", rangemode="tozero")
    return name_once(figure)


def _outline(bars: Sequence[Bar]) -> list[Any]:
    """The corners of a histogram's steps; cosines without pairs lie on the axis."""
    shares = {bar["low"]: bar["count"] / bar["n"] for bar in bars}
    width = round(bars[0]["high"] - bars[0]["low"], 6)
    first, last = min(shares), max(shares)
    starts = [round(first + i * width, 6) for i in range(round((last - first) / width) + 1)]
    points = [(start, shares.get(start, 0.0), "") for start in starts]
    return [(first, 0.0, ""), *points, (round(last + width, 6), 0.0, "")]
