"""How a `Result` shows itself: what its `repr`, `.plot()` and `.report()` call, and the verb `report`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from theodolite.core.files import require_free, write_text
from theodolite.core.result import Result
from theodolite.reports.summary import blocks_of


def text_of(result: Result, *, width: int = 100) -> str:
    """The result as plain text."""
    from theodolite.reports.terminal import text_of_blocks

    return text_of_blocks(blocks_of(result), width=width)


def html_of(result: Result) -> str:
    """The result as escaped HTML, for a notebook."""
    from theodolite.reports.notebook import html_of_blocks

    return html_of_blocks(blocks_of(result))


def figure_of(result: Result, name: str | None = None) -> Any:
    """One of the result's figures, the first by default."""
    from theodolite.reports.displays.figures import displays_of

    displays = displays_of(result)
    if not displays:
        raise ValueError("this result has nothing to draw; a figure needs rows of several layers, steps or states, or a cloud")
    if name is None:
        return displays[0].plot()
    named = {display.name: display for display in displays}
    if name not in named:
        raise ValueError(f"there is no figure {name!r}; this result has {', '.join(named)}")
    return named[name].plot()


def report(
    results: Result | str | os.PathLike[str] | Sequence[Result | str | os.PathLike[str]],
    to: str | os.PathLike[str] = "report.html",
    *,
    text: bool = True,
    figures: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Show results as one HTML file that loads nothing from the network; Markdown if its name ends in `.md`.

    Parameters
    ----------
    results
        One or several results: objects, folders that a verb wrote, or files of rows (`.parquet`, `.json`, `.jsonl`).
    to
        The `.html` or `.md` file to write.
    text
        Whether sentences and tokens may appear on the page.
    figures
        Folder that also gets every figure as PNG and SVG; needs the extra `[figures]`.
    overwrite
        Whether a report that is there may be replaced; any other file never is.

    Returns
    -------
    Path
        The file.
    """
    from theodolite.reports.displays.figures import displays_of
    from theodolite.reports.markdown import markdown_of
    from theodolite.reports.page import check_target, write_report
    from theodolite.reports.static import require_figures, write_figures

    path = Path(to)
    single = isinstance(results, (Result, str, os.PathLike))
    items: Sequence[Any] = [results] if single else list(results)  # type: ignore[arg-type]
    if path.suffix == ".md":
        if len(items) > 1:
            raise ValueError(
                f"a Markdown page shows one result, and {len(items)} were named; write one for each, or an .html of all"
            )
        require_free(path, overwrite=overwrite)
    else:
        check_target(path, overwrite=overwrite)
    if figures is not None:
        require_figures()
    loaded = [item if isinstance(item, Result) else Result.load(item) for item in items]
    if path.suffix == ".md":
        write_text(path, markdown_of(loaded[0]), overwrite=overwrite)
    else:
        write_report(loaded, path, text=text, overwrite=overwrite)
    if figures is not None:
        for number, result in enumerate(loaded, start=1):
            write_figures(displays_of(result), Path(figures) / str(number) if len(loaded) > 1 else Path(figures))
    return path
