"""`theodolite report`."""

from __future__ import annotations

from typing import Annotated

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import say


def report_command(
    context: typer.Context,
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULT...",
            help="Folders that study run or tune wrote, or files of rows (.parquet, .json, .jsonl).",
            show_default=False,
        ),
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="FILE", help="The page to write; Markdown if it ends in .md, LaTeX tables if in .tex.")
    ] = "report.html",
    text: opt.Text = True,
    figures: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Also write every figure there as PNG and SVG; needs theodolite[figures]."),
    ] = None,
    overwrite: opt.Overwrite = False,
) -> None:
    """Show results as one HTML file: verdicts, tables, figures and where they come from.

    The file loads nothing and sends nothing. Several results are shown next to each other.

    \b
    Examples:
      theodolite report theodolite-studies/rp21 --to rp21.html
      theodolite report tuned-stsb tuned-rte --to both.html --no-text
      theodolite report rows.parquet --figures figures
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.reports.drawing import report

    path = report(results, **opt.typed_options(context))
    say(f"report written to {path}")
    if figures is not None:
        say(f"figures written to {figures}")
