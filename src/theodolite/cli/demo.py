"""`theodolite demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from theodolite.cli.output import guarded, say, show


@guarded
def demo_command(
    to: Annotated[
        str,
        typer.Option("--to", metavar="FOLDER", help="Folder for all results; replaces what an earlier demo wrote."),
    ] = "theodolite-demo",
    static: Annotated[
        bool, typer.Option("--static", help="Without torch: survey and repair a table of 32,000 word vectors instead.")
    ] = False,
) -> None:
    """Fine-tune a small English encoder, try to repair its space, and see why the score falls.

    Takes about a minute of one core and needs no network: the encoder (all-MiniLM-L6-v2, a contrastively fine-tuned sentence
    model) comes with the extra [demo], the sentences with the package.

    \b
    Examples:
      theodolite demo
      theodolite demo --static
    """  # noqa: D301  # \b keeps the lines of the example apart
    from pathlib import Path
    from time import perf_counter

    from theodolite.cli.output import console
    from theodolite.reports.blocks import print_blocks
    from theodolite.reports.drawing import report
    from theodolite.reports.page import check_target
    from theodolite.reports.summary import opening_blocks
    from theodolite.verbs.demonstrating import demo, static_demo

    start, folder = perf_counter(), Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    page = check_target(folder / "report.html")
    if not static:
        say("all-MiniLM-L6-v2 (6 layers, d = 384), fine-tuned here on pairs of sentences\n")
    first, *others = static_demo(to) if static else demo(to)
    show(first)
    for result in others:  # what they conclude; the page has the rest
        print()
        print_blocks([block for block in opening_blocks(result) if block.style != "dim"], console())
    report([first, *others], page)
    kept = "vectors.npy, the repaired vectors, the repairs" if static else "the tuned encoder, sentences.npy, sentences.txt"
    say(f"\nThis took {perf_counter() - start:.0f} s. {to} holds {kept}\nand all numbers. Next, survey vectors:")
    say(f"    theodolite survey {folder / ('vectors.npy' if static else 'sentences.npy')}")
    say(f"Open this page in a browser: {page}")
