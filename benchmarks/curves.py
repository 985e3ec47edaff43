"""Curves as SVG pictures: panels with logarithmic axes side by side. The same numbers always give the same bytes.

The reports' figures are drawn by Plotly in a browser, which puts random names into its files; these are written by hand.
A picture brings its own background, light or dark as the reader's system asks, so that its letters can be read on any page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from theodolite.reports.theme import FONT, GREY, INK, PALETTE

WIDTH, PANEL, PLOT = 760, 380, 190
"""Pixels: the most of a picture's and of a panel's width, and the height of a plot."""
LEFT, RIGHT, TOP, BOTTOM, ROW = 58, 14, 34, 50, 17
"""Pixels around a plot: numbers, nothing, the title, sizes with their name; and the name of each line."""
BACKGROUND = {"light": "#ffffff", "dark": "#131416"}
STYLE = (
    # Letters keep the background free around them, so that a line does not strike them through.
    f"svg{{font:13px {FONT}}} text{{paint-order:stroke;stroke-width:4px}} "
    f".back{{fill:{BACKGROUND['light']}}} text{{fill:{INK['light']};stroke:{BACKGROUND['light']}}} "
    f"@media (prefers-color-scheme:dark){{.back{{fill:{BACKGROUND['dark']}}} "
    f"text{{fill:{INK['dark']};stroke:{BACKGROUND['dark']}}}}}"
)

Point = tuple[float, float]


class Line(NamedTuple):
    """Points joined by a line: measured ones with their numbers, or a reference, dashed and grey."""

    name: str
    points: Sequence[Point]
    reference: bool = False


class Panel(NamedTuple):
    """Lines over one logarithmic axis for each direction; panels of a picture with the same `y` have the same range of it."""

    x: str
    y: str
    lines: Sequence[Line]


class Bar(NamedTuple):
    """One comparison: a ratio, of which more is better."""

    label: str
    value: float


def bars(comparisons: Sequence[Bar], title: str) -> str:
    """The SVG text of bars from 1 on a logarithmic axis: to the right faster, to the left slower.

    Parameters
    ----------
    comparisons
        From top to bottom.
    title
        What the chart shows, for readers who do not see it.
    """
    room, step = 350, 24
    low, high = span([1.0, *(bar.value for bar in comparisons)])
    bottom = TOP + step * len(comparisons)

    def across(value: float) -> float:
        return round(room + share(value, (low, high)) * (WIDTH - room - 60), 1)

    body = _opened(WIDTH, bottom + BOTTOM, title)
    for row, bar in enumerate(comparisons):
        y, start, end = TOP + step * row, *sorted((across(1), across(bar.value)))
        colour = PALETTE[0] if bar.value >= 1 else GREY
        body.append(f'<text x="{room - 10}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>')
        body.append(f'<rect x="{start}" y="{y}" width="{max(end - start, 1):.1f}" height="16" fill="{colour}"/>')
        body.append(f'<text x="{end + 6}" y="{y + 13}">{number(bar.value)} ×</text>')
    body.append(f'<path d="M{across(1)} {TOP - 8}V{bottom}" stroke="{GREY}"/>')
    body.append(f'<text x="{across(1)}" y="{bottom + 20}" text-anchor="middle">equal</text>')
    body.append(f'<text x="{WIDTH - 14}" y="{bottom + 20}" text-anchor="end">times as fast as the other program →</text>')
    return "\n".join([*body, "</svg>"]) + "\n"


def in_proportion(name: str, points: Sequence[Point]) -> Line:
    """What the last point would have been at the sizes of the others if the cost were proportional to the size."""
    (x, y), sizes = points[-1], [size for size, _ in points]
    return Line(name, [(size, y * size / x) for size in sizes], reference=True)


def picture(panels: Sequence[Panel], title: str) -> str:
    """The SVG text.

    Parameters
    ----------
    panels
        From left to right.
    title
        What the picture shows, for readers who do not see it.
    """
    width = min(PANEL, WIDTH // len(panels))
    top = TOP + ROW * max(len(panel.lines) for panel in panels)
    body = _opened(width * len(panels), top + PLOT + BOTTOM, title)
    for number, panel in enumerate(panels):
        alike = [other for other in panels if other.y == panel.y]
        heights = [y for other in alike for line in other.lines for _, y in line.points]
        body += [f'<g transform="translate({number * width},0)">', *drawn(panel, width, top, span(heights)), "</g>"]
    return "\n".join([*body, "</svg>"]) + "\n"


def _opened(width: int, height: int, title: str) -> list[str]:
    """What every picture begins with: its size, title, style and background."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        '<rect class="back" width="100%" height="100%"/>',
    ]


def drawn(panel: Panel, width: int, top: int, heights: tuple[float, float]) -> Iterator[str]:
    """The elements of one panel in pixels from its upper left corner."""
    sizes = sorted({x for line in panel.lines for x, _ in line.points})
    left, right, bottom = LEFT, width - RIGHT, top + PLOT

    def at(x: float, y: float) -> Point:
        across, up = share(x, span(sizes)), share(y, heights)
        return round(left + across * (right - left), 1), round(bottom - up * (bottom - top), 1)

    yield f'<text x="{left - 44}" y="20" font-weight="600">{escape(panel.y)}</text>'
    for y in ticks(*heights):
        row = at(sizes[0], y)[1]
        yield f'<path d="M{left} {row}H{right}" stroke="{GREY}" stroke-opacity=".3"/>'
        yield f'<text x="{left - 6}" y="{row + 4}" text-anchor="end">{number(y)}</text>'
    yield f'<path d="M{left} {bottom}H{right}" stroke="{GREY}"/>'
    for x in sizes:
        column = at(x, heights[0])[0]
        yield f'<path d="M{column} {bottom}v5" stroke="{GREY}"/>'
        yield f'<text x="{column}" y="{bottom + 19}" text-anchor="middle">{number(x)}</text>'
    yield f'<text x="{(left + right) / 2}" y="{bottom + 40}" text-anchor="middle">{escape(panel.x)}</text>'
    colours = iter(PALETTE)
    measured = [line for line in panel.lines if not line.reference]
    labels = []
    for index, line in enumerate(panel.lines):
        colour, dash = (GREY, ' stroke-dasharray="5 4"') if line.reference else (next(colours), "")
        pen = f'stroke="{colour}" stroke-width="2"{dash}'
        row = TOP + 2 + ROW * index
        yield f'<path d="M{left - 44} {row}h22" {pen}/>'
        yield f'<text x="{left - 16}" y="{row + 4}">{escape(line.name)}</text>'
        places = [at(*point) for point in line.points]
        yield f'<path d="M{"L".join(f"{x} {y}" for x, y in places)}" fill="none" {pen}/>'
        if line.reference:
            continue
        beside = 20 if line is measured[-1] and len(measured) > 1 else -9  # the last of several lines has its numbers below
        for (column, row), (_, y) in zip(places, line.points, strict=True):
            yield f'<circle cx="{column}" cy="{row}" r="3.5" fill="{colour}"/>'
            labels.append(f'<text x="{column}" y="{round(row + beside, 1)}" text-anchor="middle">{number(y)}</text>')
    yield from labels


def span(values: Sequence[float]) -> tuple[float, float]:
    """A range with room around the values: a sixth of their logarithmic distance, and no less than a factor of 1.4."""
    low, high = min(values), max(values)
    room = max((high / low) ** (1 / 6), 1.4)
    return low / room, high * room


def share(value: float, within: tuple[float, float]) -> float:
    """Where a value lies in a range: equal ratios are equal distances."""
    low, high = within
    return math.log(value / low) / math.log(high / low)


def ticks(low: float, high: float) -> list[float]:
    """Powers of ten within a range, with twice and five times each if there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [[factor * 10.0**power for power in powers for factor in factors] for factors in ((1,), (1, 2, 5))]
    few, many = ([tick for tick in some if low <= tick <= high] for some in found)
    return few if len(few) > 1 else many


def number(value: float) -> str:
    """Three digits at most, and millions in words."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} million"
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.2g}"
