"""How a `Result` shows itself: what its `repr`, `.plot()` and `.report()` call, the verb `report`, and figures as image files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from theodolite.core.files import write_text
from theodolite.core.result import Result
from theodolite.reports.blocks import html_of_blocks, text_of_blocks
from theodolite.reports.displays import Display, remove_slider
from theodolite.reports.figures import displays_of
from theodolite.reports.page import LATEX, MARKDOWN, check_target, latex_of, markdown_of, report_html
from theodolite.reports.summary import blocks_of
from theodolite.reports.theme import template
from theodolite.reports.wording import unique_names

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FORMATS = ("png", "svg")
# Pixels of a figure's width on a page, and of a PNG for each of them.
WIDTH, SCALE = 1000, 2
INSTALL = 'pip install "theodolite[figures]"'
CHROME = "install one, such as Debian's package chromium, or run kaleido_get_chrome"


def text_of(result: Result, *, width: int = 100) -> str:
    """The result as plain text."""
    return text_of_blocks(blocks_of(result), width=width)


def html_of(result: Result) -> str:
    """The result as escaped HTML, for a notebook."""
    return html_of_blocks(blocks_of(result))


def figure_of(result: Result, name: str | None = None) -> Figure:
    """One of the result's figures."""
    displays = {display.name: display for display in displays_of(result)}
    if not displays:
        raise ValueError("this result has nothing to draw; a figure needs rows of several layers, steps or states, or a cloud")
    if name is None:
        name = next(iter(displays))
    if name not in displays:
        raise ValueError(f"there is no figure {name!r}; this result has {', '.join(displays)}")
    return displays[name].plot()


def report(
    results: Result | str | os.PathLike[str] | Sequence[Result | str | os.PathLike[str]],
    to: str | os.PathLike[str] = "report.html",
    *,
    text: bool = True,
    figures: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Show results as one HTML file that loads nothing from the network; Markdown or LaTeX tables by the ending of its name.

    Parameters
    ----------
    results
        One or several results: objects, folders that a verb wrote, or files of rows (`.parquet`, `.json`, `.jsonl`).
    to
        The `.html`, `.md` or `.tex` file to write, whole or not at all. Markdown and LaTeX show one result.
    text
        Whether sentences and tokens may appear on the page.
    figures
        Folder that also gets every figure as PNG and SVG; needs the extra `[figures]`.
    overwrite
        Whether a file that is not an HTML report may be replaced; an HTML report always is.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FileExistsError
        The file exists, is not an HTML report, and `overwrite` is False.
    ValueError
        The name has another ending, there is no result, or there are several for a .md or .tex file.
    """
    path = check_target(to, overwrite=overwrite)
    items: Sequence[Any] = [results] if isinstance(results, (Result, str, os.PathLike)) else results
    write = {MARKDOWN: markdown_of, LATEX: latex_of}.get(path.suffix.lower())
    if write is not None and len(items) != 1:
        kind = "a Markdown page" if write is markdown_of else "a LaTeX file"
        raise ValueError(f"{kind} shows one result, not {len(items)}; write one for each, or one .html for all")
    if figures is not None:
        require_figures()
    loaded = [item if isinstance(item, Result) else Result.load(item) for item in items]
    write_text(path, write(loaded[0]) if write is not None else report_html(loaded, text=text))
    if figures is not None:
        for number, result in enumerate(loaded, start=1):
            write_figures(displays_of(result), Path(figures) / str(number) if len(loaded) > 1 else figures)
    return path


def write_figures(displays: Iterable[Display], folder: str | os.PathLike[str]) -> list[Path]:
    """Write every display as a PNG and an SVG file, dark on white.

    One browser draws all of them before the first gets its name: if drawing fails, no file is new or changed.
    """
    displays = list(displays)
    require_figures()
    if not displays:
        return []
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = unique_names(display.name for display in displays)
    # Paper has no use for sliders and buttons, and brings its own white.
    figures = [remove_slider(display.plot()).update_layout(template=template("paper")) for display in displays]
    files = {f"{name}.{ending}": figure for name, figure in zip(names, figures, strict=True) for ending in FORMATS}
    with TemporaryDirectory(prefix=".figures-", dir=folder) as partial:
        _draw({Path(partial) / name: figure for name, figure in files.items()})
        for name in files:
            os.replace(Path(partial) / name, folder / name)
    return [folder / name for name in files]


def require_figures() -> None:
    """Raise an ImportError with the command to run if kaleido cannot be imported."""
    try:
        import_module("kaleido").write_fig_from_object_sync  # noqa: B018
    except (ImportError, AttributeError) as error:
        raise ImportError(f"static figures need kaleido 1 or newer ({error}); install it with: {INSTALL}") from None


def _draw(files: dict[Path, Figure]) -> None:
    orders = []
    for path, figure in files.items():
        scale = SCALE if path.suffix == ".png" else 1
        options = {"format": path.suffix[1:], "scale": scale, "width": WIDTH, "height": figure.layout.height}
        orders.append({"fig": figure.to_plotly_json(), "path": path, "opts": options})
    try:
        # Without MathJax, which it would fetch: nothing here is a formula, and nothing leaves the machine.
        import_module("kaleido").write_fig_from_object_sync(orders, kopts={"mathjax": False})
    except import_module("kaleido.errors").ChromeNotFoundError as error:
        raise RuntimeError(f"static figures need Chrome or Chromium, which was not found ({error}); {CHROME}") from None
    missing = next((path.name for path in files if not path.is_file() or path.stat().st_size == 0), None)
    if missing is not None:
        raise RuntimeError(f"{missing} could not be drawn; {CHROME}")
