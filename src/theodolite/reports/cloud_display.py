"""A cloud, or two states of it side by side, as points in two or three dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from theodolite.core.pictures import AXES, COMMON, Picture
from theodolite.reports.clouds import OWN_COLOURS, CloudGroup, Colouring, group_clouds, words_of
from theodolite.reports.displays import Display, frame_of, name_once
from theodolite.reports.theme import CLASS_COLOURS, GREY, NAME, PALETTE, panel_grid, ramp_scale
from theodolite.reports.wording import file_name, plain, plain_lines

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

HEADING = "The cloud"
NOTE = "Each cloud is drawn on its own first principal directions. Point at a dot to read the token in its sentence."
COMMON_NOTE = "Both clouds are drawn on the same directions, seen from the origin, to show what moved. Point at a dot to read it."
# Where the eye is at first: far enough away to see the titles of all axes.
CAMERA = {"eye": {"x": 1.75, "y": 1.75, "z": 1.25}, "center": {"x": 0.0, "y": 0.0, "z": -0.12}}
ABOUT = ("model", "state", "task", "layer")


def cloud_displays(pictures: Sequence[Picture]) -> Iterator[CloudDisplay]:
    """The clouds of one result, those that are shown side by side in one display."""
    for group in group_clouds(("", picture) for picture in pictures):
        for pair in group.pairs:
            yield CloudDisplay.of(group, tuple(group.pictures[i] for i in pair))


@dataclass(frozen=True, eq=False, kw_only=True)
class CloudDisplay(Display):
    """Points of one cloud, or of two, each on its own principal directions, coloured by what is known of them."""

    pictures: tuple[Picture, ...]
    colourings: tuple[Colouring, ...]

    @classmethod
    def of(cls, group: CloudGroup, pictures: tuple[Picture, ...]) -> CloudDisplay:
        """Pictures of a group side by side, in the group's colours."""
        shared = _shared(pictures)
        # Two states have the same model, task and layer: the later state is what tells two such displays apart.
        others = [] if "state" in shared else [str(picture.about.get("state", "")) for picture in pictures[1:]]
        name = file_name("cloud", *(str(pictures[0].about[field]) for field in shared), *others)
        words = words_of(pictures[0], shared)
        title = f"{HEADING}: {', '.join(words)}" if words else HEADING
        note = COMMON_NOTE if all(picture.about.get("frame") == COMMON for picture in pictures) else NOTE
        labels = {"name": name, "kind": "cloud", "heading": HEADING, "title": title, "note": note}
        return cls(**labels, pictures=pictures, colourings=group.colourings)

    def frame(self) -> pd.DataFrame:
        """Every point, one per line: its state, its row in the cloud, its coordinates, and what is known of it."""
        extra = list(dict.fromkeys(name for picture in self.pictures for name in picture.columns))
        columns: dict[str, list[Any]] = {name: [] for name in ("model", "state", "layer", "row", *AXES, *extra)}
        for picture in self.pictures:
            for name in ("model", "state", "layer"):
                columns[name] += [picture.about.get(name)] * picture.n
            columns["row"] += picture.rows.tolist()
            for i, name in enumerate(AXES):
                columns[name] += picture.points[:, i].tolist()
            for name in extra:
                columns[name] += list(picture.columns.get(name, [None] * picture.n))
        return frame_of(columns)

    def plot(self, dimensions: Literal[2, 3] = 2, color: str | None = None) -> Figure:
        """The clouds as points."""
        if dimensions not in (2, 3):
            raise ValueError(f"dimensions={dimensions!r} must be 2 or 3: a picture has three directions")
        choices = {colouring.column: colouring for colouring in self.colourings}
        if color is not None and color not in choices:
            raise ValueError(f"color={color!r} is not a column of these points; use {', '.join(choices) or 'none'}")
        colouring = choices[color] if color is not None else next(iter(self.colourings), None)
        scenes: dict[str, Any] = {"specs": [[{"type": "scene"}] * len(self.pictures)]} if dimensions == 3 else {}
        own = [name for name in ABOUT if name not in _shared(self.pictures)]
        titles = [", ".join(words_of(picture, own) or words_of(picture, ["state"])) or "the cloud" for picture in self.pictures]
        spacing = 0.08 if dimensions == 2 else 0.01
        figure = panel_grid(titles, columns=2, height=460, horizontal_spacing=spacing, **scenes)
        for column, picture in enumerate(self.pictures, start=1):
            for trace in _traces(picture, colouring, dimensions):
                figure.add_trace(trace, row=1, col=column)
            _update_axes(figure, picture, dimensions, column)
            if picture.about.get("frame") == COMMON and dimensions == 2:
                mark = {"symbol": "cross-thin-open", "size": 14, "color": GREY, "line": {"width": 2}}
                figure.add_scatter(x=[0], y=[0], mode="markers", marker=mark, name="origin", hoverinfo="name", row=1, col=column)
        if dimensions == 2 and all(picture.about.get("frame") == COMMON for picture in self.pictures):
            figure.update_xaxes(matches="x")
            figure.update_yaxes(matches="y")
        if colouring is not None and colouring.is_number:
            bar = {"title": {"text": colouring.title, "side": "right"}, "thickness": 12, "outlinewidth": 0}
            scale = {"colorscale": ramp_scale(), "cmin": colouring.low, "cmax": colouring.high, "colorbar": bar}
            figure.update_layout(coloraxis=scale)
        return name_once(figure).update_layout(legend_itemsizing="constant")


def _shared(pictures: Sequence[Picture]) -> list[str]:
    """Which of model, state, task and layer all pictures have in common."""
    first, *others = [picture.about for picture in pictures]
    return [name for name in ABOUT if name in first and all(fields.get(name) == first[name] for fields in others)]


def _traces(picture: Picture, colouring: Colouring | None, dimensions: int) -> Iterator[Any]:
    from plotly.graph_objects import Scatter3d, Scattergl

    texts = np.array(_hover_texts(picture), object)  # objects, not fixed-width strings, which would take the longest's room
    size = {"size": 4 if dimensions == 2 else 2.5, "opacity": 0.7, "line": {"width": 0}}

    def trace(rows: Any, marker: Mapping[str, Any], **options: Any) -> Any:
        coordinates = {name: picture.points[rows, i] for i, name in enumerate(AXES[:dimensions])}
        look = {"mode": "markers", "hovertemplate": "%{text}<extra></extra>", "marker": {**size, **marker}}
        return (Scattergl if dimensions == 2 else Scatter3d)(**coordinates, text=texts[rows], **look, **options)

    if colouring is None:
        yield trace(slice(None), {"color": PALETTE[0]}, showlegend=False)
    elif colouring.is_number:
        yield trace(slice(None), {"color": colouring.numbers(picture), "coloraxis": "coloraxis"}, showlegend=False)
    else:
        classes = colouring.classes(picture)
        others = len(colouring.names) - OWN_COLOURS
        rest = (classes < 0) | (classes >= OWN_COLOURS)
        if rest.any():  # first, so that grey points hide none that have a colour
            yield trace(rest, {"color": GREY}, name=f"{others} others" if others > 0 else "not known", legendgroup="rest")
        for i, name in enumerate(colouring.names[:OWN_COLOURS]):
            if (classes == i).any():
                # The second half of the colours are similar to the first for some eyes, so they have another symbol.
                marker = {"color": CLASS_COLOURS[i], "symbol": "circle" if i < len(PALETTE) else "diamond"}
                yield trace(classes == i, marker, name=plain(name, NAME), legendgroup=str(i))


def _update_axes(figure: Figure, picture: Picture, dimensions: int, column: int) -> None:
    if dimensions == 2:
        titles = [f"direction {i + 1} ({share:.0%} of variance)" for i, share in enumerate(picture.explained)]
        figure.update_xaxes(title_text=titles[0], row=1, col=column)
        # A unit is as long on both axes: a round cloud looks round.
        figure.update_yaxes(title_text=titles[1], scaleanchor="x" if column == 1 else f"x{column}", row=1, col=column)
        return
    axes = {f"{name}axis_title_text": f"dir. {i + 1} ({picture.explained[i]:.0%})" for i, name in enumerate(AXES)}
    figure.update_layout(margin_l=4)  # a scene has a margin of its own
    figure.update_scenes(aspectmode="data", camera=CAMERA, **axes, row=1, col=column)


def _hover_texts(picture: Picture) -> list[str]:
    """The token, the sentence and what else is known of each point."""
    columns = [name for name in ("label", "pos", "cluster") if name in picture.columns]
    tokens, texts = (picture.columns.get(name, [None] * picture.n) for name in ("token", "text"))
    sentences: dict[Any, str] = {}  # a sentence has many tokens: it is wrapped once
    lines = []
    for i in range(picture.n):
        words = [f"<b>{plain(tokens[i], 60)}</b>"] if tokens[i] else []
        if texts[i]:
            words.append(sentences.get(texts[i]) or sentences.setdefault(texts[i], plain_lines(texts[i])))
        words += [f"{name}: {plain(picture.columns[name][i], 60)}" for name in columns if picture.columns[name][i] is not None]
        lines.append("<br>".join(words) or f"row {picture.rows[i]:,}")
    return lines
