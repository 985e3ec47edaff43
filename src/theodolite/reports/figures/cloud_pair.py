"""A cloud before and after fine-tuning, side by side in two or three dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from theodolite.core.pictures import AXES, Picture
from theodolite.reports.figures.base import Shown, file_name, frame_of
from theodolite.reports.figures.cloud_colours import COLOURS, Category, Scale, category
from theodolite.reports.look import NAME, PALETTE, dressed, panels, scale
from theodolite.reports.plain import clean, plain, wrapped

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

CAMERA = {"eye": {"x": 1.75, "y": 1.75, "z": 1.25}, "center": {"x": 0.0, "y": 0.0, "z": -0.12}}
"""Where the eye is at first: as far as it takes to see the axes' titles whole."""
Colour: TypeAlias = Literal["frequency", "label", "pos", "cluster"]


@dataclass(frozen=True, eq=False)
class CloudPair(Shown):
    """Points of one cloud, or of two states of it, on each one's own principal directions, coloured by what is known of them."""

    pictures: tuple[Picture, ...]

    @classmethod
    def of(cls, pictures: Sequence[Picture]) -> CloudPair | None:
        """One picture or two, before and after; the pre-trained one comes first. None where there are no points."""
        found = sorted((one for one in pictures if one.n), key=lambda one: one.about.get("state") != "pre-trained")
        if len(found) > 2:
            raise ValueError(f"{len(found)} pictures are no pair; give two states of one cloud, before and after")
        return cls(tuple(found)) if found else None

    @property
    def name(self) -> str:
        told = [str(value) for value in self._shared().values()]
        return file_name(
            "cloud", *told, *(str(one.about.get("state", "")) for one in self.pictures[1:] if "state" not in self._shared())
        )

    @property
    def title(self) -> str:
        shared = self._shared()
        told = [clean(shared[key], 60) for key in ("model", "state", "task") if shared.get(key)]
        told += [f"layer {shared['layer']}"] if shared.get("layer") is not None else []
        return "The cloud" + (": " + ", ".join(told) if told else "")

    @property
    def note(self) -> str:
        return "Each cloud lies on its own first principal directions. Point at a dot to read the token in its sentence."

    @property
    def colours(self) -> tuple[str, ...]:
        """What the points can be coloured by, the first by default."""
        return tuple(name for name in COLOURS if any(_known(one, name) for one in self.pictures))

    def frame(self) -> pd.DataFrame:
        """Every point, one line each: its state, its row in the cloud, its place, and what is known of it."""
        extra = list(dict.fromkeys(name for one in self.pictures for name in one.columns))
        columns: dict[str, list[Any]] = {name: [] for name in ("model", "state", "layer", "row", *AXES, *extra)}
        for one in self.pictures:
            for name in ("model", "state", "layer"):
                columns[name] += [one.about.get(name)] * one.n
            columns["row"] += one.rows.tolist()
            for i, name in enumerate(AXES):
                columns[name] += one.points[:, i].tolist()
            for name in extra:
                columns[name] += list(one.columns.get(name, [None] * one.n))
        return frame_of(columns)

    def plot(self, dimensions: Literal[2, 3] = 2, color: Colour | None = None) -> Figure:
        """The clouds as WebGL points in 2 or 3 dimensions, coloured by frequency, label, part of speech or cluster."""
        if dimensions not in (2, 3):
            raise ValueError(f"dimensions={dimensions!r} must be 2 or 3: a picture keeps three directions")
        if color is not None and color not in self.colours:
            raise ValueError(
                f"these points have no {color!r}; known of them: {', '.join(self.colours) or 'nothing to colour by'}"
            )
        by: str | None = color or next(iter(self.colours), None)
        kind: dict[str, Any] = {} if dimensions == 2 else {"specs": [[{"type": "scene"}] * len(self.pictures)]}
        figure = panels(
            [self._panel(one) for one in self.pictures],
            columns=2,
            height=440,
            horizontal_spacing=0.08 if dimensions == 2 else 0.01,
            **kind,
        )
        for column, one in enumerate(self.pictures, start=1):
            for trace in self._traces(one, dimensions, by, first=column == 1):
                figure.add_trace(trace, row=1, col=column)
        self._axes(figure, dimensions)
        return dressed(_colour_bar(figure, by), height=520).update_layout(legend_itemsizing="constant")

    def _shared(self) -> Mapping[str, Any]:
        first = self.pictures[0].about
        return {
            key: first[key]
            for key in ("model", "state", "task", "layer")
            if all(one.about.get(key) == first.get(key) for one in self.pictures) and key in first
        }

    def _panel(self, one: Picture) -> str:
        shared = self._shared()
        told = [str(one.about[key]) for key in ("model", "state") if one.about.get(key) and key not in shared]
        if "layer" not in shared and one.about.get("layer") is not None:
            told.append(f"layer {one.about['layer']}")
        return ", ".join(told) or clean(one.about.get("state") or "the cloud", NAME)

    def _traces(self, one: Picture, dimensions: int, by: str | None, *, first: bool) -> list[Any]:
        from plotly.graph_objects import Scatter3d, Scattergl

        draw = Scattergl if dimensions == 2 else Scatter3d
        told = _told(one)
        size = {"size": 4 if dimensions == 2 else 2.5, "opacity": 0.7, "line": {"width": 0}}

        def trace(rows: Any, **marker: Any) -> Any:
            places = {name: one.points[rows, i] for i, name in enumerate(AXES[:dimensions])}
            texts = [told[i] for i in rows]
            return draw(
                **places,
                mode="markers",
                text=texts,
                hovertemplate="%{text}<extra></extra>",
                marker=size | marker,
                showlegend=False,
            )

        known = _colouring(self.pictures, by)
        everything = range(one.n)
        if isinstance(known, Category):
            return [
                trace(rows, color=colour, symbol=symbol).update(
                    name=plain(name, NAME), legendgroup=f"{at}", showlegend=first or new
                )
                for at, (name, colour, symbol, rows, new) in enumerate(
                    known.groups(one, before=None if first else self.pictures[0])
                )
            ]
        if isinstance(known, Scale):
            return [trace(list(everything), color=known.values(one), coloraxis="coloraxis")]
        return [trace(list(everything), color=PALETTE[0])]

    def _axes(self, figure: Figure, dimensions: int) -> None:
        for column, one in enumerate(self.pictures, start=1):
            titles = [f"direction {i + 1} ({share:.0%} of variance)" for i, share in enumerate(one.explained)]
            if dimensions == 2:
                figure.update_xaxes(title_text=titles[0], zeroline=False, row=1, col=column)
                figure.update_yaxes(title_text=titles[1], scaleanchor="x" if column == 1 else f"x{column}", row=1, col=column)
            else:
                axes = {
                    f"{name}axis_title_text": title.replace("direction", "dir.").replace(" of variance", "")
                    for name, title in zip(AXES, titles, strict=False)
                }
                figure.update_layout(margin_l=4)  # a scene brings its own
                figure.update_scenes(aspectmode="data", camera=CAMERA, **axes, row=1, col=column)


def _known(one: Picture, name: str) -> bool:
    return any(value is not None and value != "" for value in one.columns.get(name, ()))


def _colouring(pictures: Sequence[Picture], by: str | None) -> Category | Scale | None:
    if by is None:
        return None
    return Scale(by) if by == "frequency" else category(pictures, by)


def _told(one: Picture) -> list[str]:
    """What a hover text says of each point: its token, its sentence, and what else is known."""
    names = [name for name in ("label", "pos", "cluster") if name in one.columns]
    tokens = one.columns.get("token", [None] * one.n)
    texts = one.columns.get("text", [None] * one.n)
    seen: dict[str, str] = {}  # a sentence has many tokens
    lines = []
    for i in range(one.n):
        parts = [f"<b>{plain(tokens[i], 60)}</b>"] if tokens[i] else []
        parts += [seen.get(texts[i]) or seen.setdefault(texts[i], wrapped(texts[i]))] if texts[i] else []
        parts += [f"{name}: {plain(one.columns[name][i], 60)}" for name in names if one.columns[name][i] is not None]
        lines.append("<br>".join(parts) or f"row {one.rows[i]:,}")
    return lines


def _colour_bar(figure: Figure, by: str | None) -> Figure:
    if by != "frequency":
        return figure
    bar = {"title": {"text": "log<sub>10</sub> word frequency", "side": "right"}, "thickness": 12, "outlinewidth": 0}
    return figure.update_layout(coloraxis={"colorscale": scale(), "colorbar": bar})
