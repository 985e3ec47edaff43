"""`theodolite probe`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import measure


@opt.measuring_options(without=("texts", "score_range", "specials"))
def probe_command(
    context: typer.Context,
    path: Annotated[
        str | None,
        typer.Argument(help="A space written by extract, or a file of vectors.", metavar="PATH", show_default=False),
    ] = None,
    model: opt.Model = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Labels: a column of the space (label by default), or FILE[:COLUMN].", metavar="NAME"),
    ] = None,
    test: Annotated[str | None, typer.Option(help="Held-out rows to score on, of the same kind as PATH.", metavar="PATH")] = None,
    test_labels: Annotated[str | None, typer.Option(help="Labels of the test rows, in the same syntax.", metavar="NAME")] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(help="Hold out this share of the rows, stratified by label.", min=0.0, max=0.99, metavar="SHARE"),
    ] = None,
    classifier: Annotated[
        str, typer.Option(help="Also train a classifier probe on the rows: mlp, linear or none.", metavar="NAME")
    ] = "none",
    search: Annotated[
        str,
        typer.Option(
            help="How to search mlp's grid: full, or race (15 times fewer networks; loses 0.3 points on average, up to 1.2).",
            metavar="NAME",
        ),
    ] = "full",
    control: Annotated[
        int | None,
        typer.Option(
            help="Compare gaps with those of N shuffles of the labels; by default 19 if that takes seconds.", min=0, metavar="N"
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(help="Fit on a stratified sample of N rows; every label keeps at least one.", min=2, metavar="N"),
    ] = None,
    drop_unseen: Annotated[bool, typer.Option("--drop-unseen", help="Leave out held-out rows with new labels.")] = False,
    label_distance: Annotated[
        str, typer.Option(help="Distance between two labels: mean or minimum over their clusters.", metavar="NAME")
    ] = "mean",
    min_cluster_size: Annotated[
        int, typer.Option(help="Leave out clusters with fewer rows (6 in the published analysis).", min=1, metavar="N")
    ] = 1,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Time limit per layer; at the limit, bounds on the number of clusters are reported.", min=0.0, metavar="SECONDS"
        ),
    ] = None,
    workers: opt.Workers = None,
    engine: opt.Engine = None,
    seed: opt.Seed = 0,
    split: Annotated[str | None, typer.Option(help="Split to fit on; train by default.", metavar="NAME")] = None,
    **_reading: Any,
) -> None:
    """Measure how labels are arranged: linear separability, distances between labels, and the closest pairs.

    The clusters are DirectProbe's (Zhou & Srikumar 2022), with certified distances between their convex hulls. A space and an
    encoder are probed layer by layer. Held-out rows get the label of the nearest hull.

    \b
    Examples:
      theodolite probe words-space --layers last
      theodolite probe vectors.npy --labels tags.txt --hold-out 0.2
      theodolite probe -m bert-base-uncased --task pos --classifier mlp
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs.probing import probe

    if bool(path) == bool(model):
        raise ValueError("give either vectors (theodolite probe vectors.npy --labels FILE) or an encoder (--model with --task)")
    # The verb also writes the rows of each layer as it goes.
    measure(context, probe, path or model, without=("model",), output=context.params["output"])
