"""The report: any runs as one HTML file that loads nothing, sends nothing, and shows verdicts, tables and figures."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from theodolite.reports.embed import ASSETS, joined, json_for_page, plotly, policy, script
from theodolite.reports.sections import gathered

if TYPE_CHECKING:
    from theodolite.reports.run_folder import RunData

MARK = "theodolite-report"
"""What the head of every report holds, by which one is known that may be replaced."""


def write_report(runs: Sequence[RunData], path: str | os.PathLike[str], *, text: bool = True, overwrite: bool = False) -> None:
    """Write the report of these runs to an HTML file, whole or not at all.

    Without `text`, no sentence or token of the runs is in the file. A report that is there already is replaced; any other file
    only with `overwrite`.
    """
    path = Path(path)
    check_place(path, overwrite=overwrite)
    html = report_html(runs, text=text)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(html, encoding="utf-8", newline="\n")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def check_place(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Refuse a place that a report cannot be written to, before the work rather than after it."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path.name!r} does not end in .html; a report is a web page: name it report.html, say")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it, such as {path / 'report.html'}")
    if path.exists() and not overwrite and not _is_report(path):
        raise FileExistsError(
            f"{path} is there already and is no report of ours; name another file, or replace it with --overwrite"
        )


def report_html(runs: Sequence[RunData], *, text: bool = True) -> str:
    """The page as a string."""
    if not runs:
        raise ValueError("a report needs at least one run; none was given")
    shown = gathered(runs, text=text)
    data = {name: json_for_page(value) for name, value in shown.data.items()} | dict(shown.figures)
    styles = [joined("style", "css")]
    early = (ASSETS / "early.js").read_text(encoding="utf-8")
    scripts = [early, script(), *([plotly()] if shown.has_plots else [])]
    nonce = hashlib.sha256("".join([*scripts, *styles, *data.values()]).encode("utf-8")).hexdigest()[:32]
    page: str = _environment().get_template("page.html").render(
        **shown.context, mark=MARK, policy=policy(scripts, styles, nonce), nonce=nonce, styles=styles, early=early,
        plotly=scripts[2] if shown.has_plots else "", script=scripts[1], data=data,
    )  # fmt: skip
    return page


def _environment() -> _Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return f'content="{MARK}"'.encode() in file.read(8192)


if TYPE_CHECKING:
    from jinja2 import Environment as _Environment
