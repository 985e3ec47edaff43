"""`theodolite demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from theodolite.cli.output import guarded, say, show


@guarded
def demo_command(
    to: Annotated[
        str,
        typer.Option("--to", metavar="FOLDER", help="Folder for all results; what an earlier demo wrote is replaced."),
    ] = "theodolite-demo",
    static: Annotated[
        bool, typer.Option("--static", help="Without torch: survey and repair a table of 32,000 word vectors instead.")
    ] = False,
) -> None:
    """Fine-tune a small English encoder on sentences that come with the package, and see what that does to its space.

    Takes about a minute and a half of one core and needs no network: the encoder (all-MiniLM-L6-v2, a contrastively fine-tuned
    sentence model) comes with the extra [demo], the sentences with the package.

    \b
    Examples:
      theodolite demo
      theodolite demo --static
    """  # noqa: D301  # \b keeps the lines of the example apart
    from time import perf_counter

    from theodolite.verbs.demonstrating import demo, static_demo

    start = perf_counter()
    if not static:
        say("Encoder: all-MiniLM-L6-v2, 6 layers, d = 384, contrastively fine-tuned.\n")
    for result in static_demo(to) if static else demo(to):
        show(result)
        print()
    if not static:
        say(
            "Why repairs can lower the score: training put what the task needs into the directions of most variance, and a repair"
        )
        say("that removes directions removes those.\n")
    say(f"This took {perf_counter() - start:.0f} s.")
    if static:
        say(f"In {to}: vectors.npy, the repaired vectors, the fitted repairs, and rows.json with all numbers.")
        say(f"Next: theodolite survey {to}/vectors.npy --bootstrap 200")
    else:
        say(f"In {to}: the fine-tuned encoders (tuned-pairs/model, tuned-topics/model), sentences.npy, and rows.parquet.")
        say(f"Next: theodolite survey {to}/sentences.npy")
