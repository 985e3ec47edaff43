"""Displays as image files for papers: PNG, SVG and PDF, all of them or none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from theodolite.reports.displays.traces import remove_slider
from theodolite.reports.plain_text import unique_names
from theodolite.reports.theme import template

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from theodolite.reports.displays.base import Display

INSTALL = 'pip install "theodolite[figures]"'
CHROME = "install one, such as Debian's package chromium, or run kaleido_get_chrome"
FORMATS = ("png", "svg", "pdf")
WIDTH = 1000
SCALE = 2
"""Pixels of a PNG for each pixel of a page."""


def write_figures(
    displays: Iterable[Display],
    folder: str | os.PathLike[str],
    formats: Sequence[str] = ("png", "svg"),
    *,
    width: int = WIDTH,
) -> list[Path]:
    """Write every display as `folder/name.format`, dark on white.

    One browser draws all of them before the first gets its name: if drawing fails, no file is new or changed.

    Parameters
    ----------
    displays
        What to draw; a name that comes twice is numbered.
    folder
        Where to write; it is made if it does not exist.
    formats
        Any of png, svg and pdf.
    width
        Width of a figure in pixels of a page.

    Returns
    -------
    list[Path]
        The files, display by display.

    Raises
    ------
    ImportError
        kaleido is not installed; the message has the command that installs it.
    RuntimeError
        There is no Chrome or Chromium to draw with, or it could not draw.
    """
    displays = list(displays)
    unknown = next((ending for ending in formats if ending not in FORMATS), None)
    if unknown is not None:
        raise ValueError(f"formats has {unknown!r}, which figures cannot be written as; use {', '.join(FORMATS)}")
    require_figures()
    if not displays or not formats:
        return []
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = unique_names(display.name for display in displays)
    files = {
        f"{name}.{ending}": figure
        for name, figure in zip(names, [figure_for_paper(display.plot()) for display in displays], strict=True)
        for ending in formats
    }
    with TemporaryDirectory(prefix=".figures-", dir=folder) as partial:
        _draw({Path(partial) / name: figure for name, figure in files.items()}, width)
        for name in files:
            os.replace(Path(partial) / name, folder / name)
    return [folder / name for name in files]


def require_figures() -> None:
    """Raise an ImportError with the command to run if kaleido cannot be imported."""
    try:
        import_module("kaleido").write_fig_from_object_sync  # noqa: B018
    except (ImportError, AttributeError) as error:
        raise ImportError(f"static figures need kaleido 1 or newer ({error}); install it with: {INSTALL}") from None


def figure_for_paper(figure: Figure) -> Figure:
    """The figure with dark letters on white, without the controls that paper has no use for."""
    return remove_slider(figure).update_layout(template=template("paper"))


def _draw(files: dict[Path, Figure], width: int) -> None:
    orders = [
        {
            "fig": figure.to_plotly_json(),
            "path": path,
            "opts": {
                "format": path.suffix[1:],
                "scale": SCALE if path.suffix == ".png" else 1,
                "width": width,
                "height": figure.layout.height,
            },
        }
        for path, figure in files.items()
    ]
    try:
        # Without MathJax, which it would fetch: nothing here is a formula, and nothing leaves the machine.
        import_module("kaleido").write_fig_from_object_sync(orders, kopts={"mathjax": False})
    except import_module("kaleido.errors").ChromeNotFoundError as error:
        raise RuntimeError(f"static figures are drawn by Chrome or Chromium, which was not found ({error}); {CHROME}") from None
    missing = next((path.name for path in files if not path.is_file() or path.stat().st_size == 0), None)
    if missing is not None:
        raise RuntimeError(f"{missing} could not be drawn; {CHROME}")
