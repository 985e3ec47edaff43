"""Displays as static pictures for papers: PNG and SVG, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from theodolite.reports.display import Display
from theodolite.reports.figures.slider import without_slider
from theodolite.reports.look import template

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INSTALL = 'pip install "theodolite[figures]"'
CHROME = "install one, as Debian's package chromium, or run kaleido_get_chrome"
FORMATS = ("png", "svg", "pdf")
WIDTH = 1000
SCALE = 2
"""Pixels of a PNG for each of a page."""


def write_figures(
    displays: Iterable[Display],
    folder: str | os.PathLike[str],
    formats: Sequence[str] = ("png", "svg"),
    *,
    width: int = WIDTH,
) -> list[Path]:
    """Write every display as `folder/name.format` on white ground; the paths, in order.

    One browser draws all of them before the first gets its name, and each appears whole: where drawing fails, no file is new or
    changed.
    """
    shown = list(displays)
    wrong = [one for one in formats if one not in FORMATS]
    if wrong:
        raise ValueError(f"there is no figure in the format {wrong[0]!r}; use {', '.join(FORMATS)}")
    require_figures()
    if not shown or not formats:
        return []
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figures = [for_paper(one.plot()) for one in shown]
    targets = [folder / f"{name}.{ending}" for ending in formats for name in _names(shown)]
    with TemporaryDirectory(prefix=".figures-", dir=folder) as partial:
        _draw(figures, formats, targets, Path(partial), width)
        for target in targets:
            os.replace(Path(partial) / target.name, target)
    return sorted(targets, key=lambda target: _names(shown).index(target.stem))


def for_paper(figure: Figure) -> Figure:
    """The figure with dark letters on white, without the controls that paper has no use for."""
    return without_slider(figure).update_layout(template=template("paper"))


def _draw(figures: Sequence[Figure], formats: Sequence[str], targets: Sequence[Path], folder: Path, width: int) -> None:
    kaleido = import_module("kaleido")
    size = [{"width": width, "height": figure.layout.height} for _ in formats for figure in figures]
    files = [folder / target.name for target in targets]
    orders = [
        {
            "fig": figure.to_plotly_json(),
            "path": file,
            "opts": {"format": file.suffix[1:], "scale": SCALE if file.suffix == ".png" else 1, **each},
        }
        for figure, file, each in zip([figure for _ in formats for figure in figures], files, size, strict=True)
    ]
    try:
        # Without MathJax, which it would fetch: nothing here is mathematics, and nothing leaves the machine.
        kaleido.write_fig_from_object_sync(orders, kopts={"mathjax": False})
    except import_module("kaleido.errors").ChromeNotFoundError as error:
        raise RuntimeError(f"static figures are drawn by Chrome or Chromium, and there is none ({error}); {CHROME}") from None
    missing = [file.name for file in files if not file.is_file() or file.stat().st_size == 0]
    if missing:
        raise RuntimeError(f"{missing[0]} could not be drawn; {CHROME}")


def require_figures() -> None:
    """Raise one sentence with the command to run where kaleido cannot be imported."""
    try:
        import_module("kaleido").write_fig_from_object_sync  # noqa: B018
    except (ImportError, AttributeError) as error:
        raise ImportError(f"static figures need kaleido 1 or newer ({error}); get it with: {INSTALL}") from None


def _names(displays: Sequence[Display]) -> list[str]:
    """The displays' names, numbered where two are the same."""
    found: list[str] = []
    for one in displays:
        name, number = one.name, 2
        while name in found:
            name, number = f"{one.name}-{number}", number + 1
        found.append(name)
    return found
