"""`theodolite extract`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import show


@opt.reading_options(
    without=(
        "key",
        "columns",
    )
)
def extract_command(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Hub id or folder of an encoder, or demo (needs the extra [demo]).")
    ],
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Folder to write the space to.")],
    frequencies: Annotated[bool, typer.Option("--frequencies", help="Store each token's or word's English frequency.")] = False,
    store_dtype: Annotated[
        str, typer.Option(help="Precision of the stored vectors: float32, or float16 for half the size.", metavar="NAME")
    ] = "float32",
    workers: opt.Workers = None,
    engine: opt.Engine = None,
    dry_run: opt.DryRun = False,
    overwrite: opt.Overwrite = False,
    **_reading: Any,
) -> None:
    """Write the vectors of every layer of an encoder to a folder, from one pass over the texts.

    If a run is interrupted, run the same command again to resume it.

    \b
    Examples:
      theodolite extract bert-base-uncased --task stsb --unit tokens --to bert-tokens
      theodolite extract ./my-encoder --texts sentences.txt --to sentences
      theodolite extract ./my-encoder --own train=tags.conllu --kind tagging --split train --to words
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.models.tokens import counts_line
    from theodolite.verbs.extracting import extract

    space = extract(model, **opt.typed_options(context))
    if dry_run:
        show(space)
        return
    print(f"{space!r}\n{counts_line(space.origin.counts)}\nwritten to {to}; measure it with: theodolite survey {to}")
