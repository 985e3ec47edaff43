"""`theodolite compare`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import Output, guarded


@guarded
@opt.reading_options(without=("revision",))
def compare_command(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="A", help="File of vectors, space, or encoder.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The one to compare with it.")],
    metrics: opt.Metrics = None,
    paired: Annotated[
        bool | None,
        typer.Option(
            "--paired/--independent",
            help="Whether row i of both is the same text; by default if both have equally many rows.",
            show_default=False,
        ),
    ] = None,
    sample: opt.Sample = 10_000,
    seed: opt.Seed = 0,
    bootstrap: Annotated[
        int | None,
        typer.Option(help="Half-samples for 95 % intervals; 200 for vectors, 0 for layers by default.", min=0, metavar="N"),
    ] = None,
    cache: opt.Cache = True,
    as_json: opt.AsJson = False,
    output: opt.Output = None,
    report: opt.Report = None,
    text: opt.Text = True,
    **_reading: Any,
) -> None:
    """Show how the metrics differ between two spaces.

    Each difference of two files comes with a 95 % interval from half-samples of the rows. Two spaces written by extract, or two
    encoders that read the texts of --task, are compared layer by layer.

    \b
    Examples:
      theodolite compare before.npy after.npy
      theodolite compare a.npy b.npy --independent --metrics iso_score,mean_cosine
      theodolite compare bert-base-uncased tuned/model --task stsb --unit tokens
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs.comparing import compare

    target = Output(as_json, output, report, text)
    result = compare(before, after, **opt.typed_options(context, "before", "after", *opt.PRINTING))
    target.show(result)
    target.finish(result)
