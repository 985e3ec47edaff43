"""`theodolite verify`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import CHECK_FAILED, measure


@opt.measuring_options()
def verify_command(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="VECTORS", help="Stored vectors, or a space.")],
    original: Annotated[
        str | None, typer.Argument(metavar="ORIGINAL", help="Vectors to compare with, instead of --model.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Encoder that should have made them: a Hub id or a folder.", metavar="MODEL"),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Prompt before each text; the model's own by default.", metavar="TEXT")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="Number of rows to check; by default 64 with a model, 10,000 for two files.", min=1, metavar="N"),
    ] = None,
    seed: opt.Seed = 0,
    layers: opt.Layer = "last",
    **_reading: Any,
) -> None:
    """Check whether a model made the stored vectors, by encoding some of the texts again.

    Texts and vectors are paired by their ids if both have them, and by their order otherwise. If the vectors are not the model's,
    verify tries other poolings, prompts, length limits and row orders. Give a second file instead of a model to compare two sets
    of vectors for the same rows, such as a server's and the original model's.

    Exits with code 0 if the vectors are identical or the same up to precision or length, and with 1 otherwise.

    \b
    Examples:
      theodolite verify vectors.npy -m ./my-encoder --texts texts.txt
      theodolite verify docs.parquet -m ./my-encoder --texts docs.jsonl --unit cls
      theodolite verify docs.npy -m ./e5 --texts docs.txt --prompt "passage: "
      theodolite verify served.npy original.npy
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs.verifying import PASSED, verify

    result = measure(context, verify, path, original)
    if result.answer is None or result.answer.verdict not in PASSED:
        raise typer.Exit(CHECK_FAILED)
