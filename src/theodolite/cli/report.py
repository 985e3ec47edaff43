"""`theodolite report`: any runs as one page that needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from theodolite.cli.frame import Overwrite, guarded

if TYPE_CHECKING:
    from pathlib import Path

    from theodolite.reports.run_folder import RunData


@guarded
def report_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Folders that study run or tune left, or files of rows (.parquet, .json, .jsonl).",
            show_default=False,
        ),
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="FILE", help="The page to write; a name that ends in .md gets Markdown.")
    ] = "report.html",
    no_text: Annotated[bool, typer.Option("--no-text", help="Leave sentences and tokens out of the file.")] = False,
    figures: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Also write every figure there as PNG and SVG; needs theodolite[figures]."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Show runs as one HTML file: verdicts, tables, figures and where they come from.

    The file loads nothing and sends nothing. Several runs are put beside each other.

    \b
    Examples:
      theodolite report runs/rp21 --to rp21.html
      theodolite report tuned-stsb tuned-rte --to both.html --no-text
      theodolite report rows.parquet --figures figures
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.reports.page import check_place, write_report
    from theodolite.reports.run_folder import read_run

    if to.endswith(".md"):
        write_markdown(runs, to, overwrite=overwrite)
        return
    check_place(to, overwrite=overwrite)
    if figures is not None:
        from theodolite.reports.figure_files import require_figures

        require_figures()
    read = [read_run(path) for path in runs]
    write_report(read, to, text=not no_text, overwrite=overwrite)
    print(f"report written to {to}")
    if figures is not None:
        written = write_all_figures(read, figures)
        print(f"{len(written)} figures written to {figures}")


def write_markdown(runs: list[str], to: str, *, overwrite: bool) -> None:
    """Verdicts and tables of one run as Markdown."""
    from pathlib import Path

    from theodolite.reports.markdown import markdown_of
    from theodolite.reports.run_folder import read_run

    place = Path(to)
    if len(runs) > 1:
        raise ValueError(f"a Markdown page shows one run, and {len(runs)} were named; write one for each, or an .html of all")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {place.parent} to write {place.name} into; make it first")
    if place.exists() and not overwrite:
        raise FileExistsError(f"{place} exists already; choose another name, or say --overwrite")
    text = markdown_of(read_run(runs[0]))
    partial = place.with_name(f".{place.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(place)
    print(f"report written to {to}")


def write_all_figures(runs: list[RunData], folder: str) -> list[Path]:
    """The figures of every run; those of several runs in a folder each, named after the run with letters that lead nowhere."""
    from pathlib import Path

    from theodolite.reports.displays import displays_of
    from theodolite.reports.figure_files import write_figures
    from theodolite.reports.figures.base import file_name

    written: list[Path] = []
    places = [
        Path(folder) / f"{i}-{file_name(run.name)}" if len(runs) > 1 else Path(folder) for i, run in enumerate(runs, start=1)
    ]
    for run, place in zip(runs, places, strict=True):
        written += write_figures(displays_of(run), place)
    return written
