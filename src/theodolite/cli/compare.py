"""`theodolite compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import Output, guarded


@guarded
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
    key: opt.Key = None,
    columns: opt.Columns = None,
    delimiter: opt.Delimiter = None,
    header: opt.Header = None,
    task: opt.TaskName = None,
    split: opt.Split = None,
    data: opt.Data = None,
    texts: opt.Texts = None,
    own: opt.Own = None,
    kind: opt.Kind = None,
    column: opt.Column = None,
    score_range: opt.ScoreRange = None,
    encoding: opt.Encoding = None,
    unit: opt.Unit = None,
    layers: opt.Layers = "all",
    specials: opt.Specials = False,
    batch_size: opt.BatchSize = None,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "float32",
    max_length: opt.MaxLength = None,
    trust_remote_code: opt.Trust = False,
    as_json: opt.AsJson = False,
    output: opt.Output = None,
    report: opt.Report = None,
    text: opt.Text = True,
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
