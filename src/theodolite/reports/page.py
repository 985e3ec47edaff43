"""Results as one HTML file that loads nothing, sends nothing, and shows verdicts, tables and figures."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from theodolite.core.files import require_free, write_text
from theodolite.core.options import option
from theodolite.reports.embed import ASSETS, content_policy, json_for_page, page_script, page_style, plotly_script
from theodolite.reports.markdown import markdown_of
from theodolite.reports.sections import page_content

if TYPE_CHECKING:
    import jinja2

    from theodolite.core.result import Result

MARK = "theodolite-report"
"""What the head of every report contains: a file with it may be replaced by a newer report."""
PAGES, MARKDOWN = (".html", ".htm"), ".md"


def write_report(results: Sequence[Result], path: str | os.PathLike[str], *, text: bool = True, overwrite: bool = False) -> Path:
    """Write the report of some results to an HTML file, or of one result to a Markdown file, whole or not at all.

    Parameters
    ----------
    results
        What to show; several results are put side by side.
    path
        The `.html` or `.md` file to write.
    text
        Whether sentences and tokens of the data may be in the file.
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
        The name ends in neither .html nor .md, or several results were given for a .md file.
    """
    path = check_target(path, overwrite=overwrite)
    if path.suffix.lower() != MARKDOWN:
        write_text(path, report_html(results, text=text))
    elif len(results) == 1:
        write_text(path, markdown_of(results[0]))
    else:
        raise ValueError(f"a Markdown page shows one result, not {len(results)}; write one page for each, or one .html for all")
    return path


def check_target(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """The path, if a report could be written there; called before long work rather than after it.

    Parameters
    ----------
    path
        The `.html` or `.md` file that is going to be written.
    overwrite
        Whether a file that is not an HTML report may be replaced.

    Raises
    ------
    FileExistsError, IsADirectoryError, FileNotFoundError, ValueError
        The file is not ours to replace, is a folder, is in a folder that does not exist, or has the wrong ending.
    """
    path = Path(path)
    if path.suffix.lower() not in (*PAGES, MARKDOWN):
        raise ValueError(f"{path.name!r} does not end in .html or .md; name the report report.html, for example")
    require_free(path, overwrite=True)
    if path.exists() and not overwrite and not _is_report(path):
        raise FileExistsError(
            f"{path} exists and is not an HTML report; choose another name, or replace it with {option('overwrite')}"
        )
    return path


def report_html(results: Sequence[Result], *, text: bool = True) -> str:
    """The report of some results as one HTML page.

    Parameters
    ----------
    results
        What to show; several results are put side by side.
    text
        Whether sentences and tokens of the data may be on the page.
    """
    if not results:
        raise ValueError("a report needs at least one result; none was given")
    content = page_content(results, text=text)
    data = {name: json_for_page(value) for name, value in content.data.items()}
    early = (ASSETS / "early.js").read_text(encoding="utf-8")
    plotly = plotly_script() if content.has_plots else ""
    script, style = page_script(), page_style()
    scripts = [early, script, *([plotly] if plotly else [])]
    # From the content, so that the same results give the same bytes.
    nonce = hashlib.sha256("".join([*scripts, style, *data.values()]).encode("utf-8")).hexdigest()[:32]
    page: str = _environment().get_template("page.html").render(
        **content.context, mark=MARK, policy=content_policy(scripts, [style], nonce), nonce=nonce, style=style, early=early,
        plotly=plotly, script=script, data=data,
    )  # fmt: skip
    return page


def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,  # whatever a result contains is text
        undefined=jinja2.StrictUndefined,  # a name that the template misspells is an error, not nothing
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return f'content="{MARK}"'.encode() in file.read(8192)  # the mark is in the head
