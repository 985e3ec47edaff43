"""`theodolite repair`: fit, apply, list."""

from __future__ import annotations

from typing import Annotated

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import console, guarded, say, show

app = typer.Typer(help="Fit a repair on vectors, and apply it to others.", no_args_is_help=True, rich_markup_mode=None)

Vectors = Annotated[str, typer.Argument(metavar="PATH", help="File of vectors, folder of shards, or space.")]
Layers = Annotated[str, typer.Option(help="Which layer of a space: last, or a number.", metavar="LAYER")]


@app.command("list")
@guarded
def list_command() -> None:
    """List the repairs and what each of them does.

    \b
    Example:
      theodolite repair list
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.repairs import REPAIRS, repair_settings
    from theodolite.reports.blocks import Paragraph, print_blocks

    blocks = []
    for name, kind in REPAIRS.items():
        settings = ", ".join(f"{key}={value!r}" for key, value in repair_settings(kind).items())
        summary = (kind.__doc__ or "").strip().partition("\n")[0]
        blocks += [Paragraph(name, "bold"), Paragraph(summary, indent=4)]
        blocks += [Paragraph(settings, "dim", indent=4)] if settings else []
    print_blocks(blocks, console())


@app.command("fit")
@guarded
def fit_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which repair; see repair list.")],
    path: Vectors,
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Folder to save the fitted repair to.")],
    directions: Annotated[int | None, typer.Option(help="Principal directions to remove.", min=0, metavar="N")] = None,
    clusters: Annotated[int | None, typer.Option(help="Clusters to repair one by one.", min=1, metavar="N")] = None,
    components: Annotated[int | None, typer.Option(help="Dimensions to keep.", min=1, metavar="N")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting of the repair; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(help="For weighted: the other side of scored pairs, row by row with PATH.", metavar="FILE")
    ] = None,
    scores: Annotated[
        str | None, typer.Option(help="For weighted: one score per pair, one per line or .npy.", metavar="FILE")
    ] = None,
    seed: opt.Seed = 0,
    key: opt.Key = None,
    columns: opt.Columns = None,
    delimiter: opt.Delimiter = None,
    header: opt.Header = None,
    layers: Layers = "last",
    overwrite: opt.Overwrite = False,
) -> None:
    """Learn a repair from vectors, and save it to a folder.

    \b
    Examples:
      theodolite repair fit global vectors.npy --to my-repair --directions 12
      theodolite repair fit cluster-based vectors.npy --to my-repair --clusters 27
      theodolite repair fit weighted a.npy --pairs b.npy --scores s.txt --to r
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs import repairing

    repair = repairing.fit(name, path, **opt.typed_options(context, "name", "path"))
    say(f"{name} fitted on {path} and saved to {to}")
    if pairs:
        say(f"Pearson of cosines with scores {repair.pearson_before_:.4f} → {repair.pearson_:.4f} on these pairs")
    elif hasattr(repair, "fit_pairs"):
        say("its weights are all 1, which removes whole directions: --pairs and --scores let it learn them")
    say(f"apply it with: theodolite repair apply {to} {path} --to repaired.npy")


@app.command("apply")
@guarded
def apply_command(
    context: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder a repair was saved to.")],
    path: Vectors,
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="File to write: .npy, .safetensors or .parquet.")],
    key: opt.Key = None,
    columns: opt.Columns = None,
    delimiter: opt.Delimiter = None,
    header: opt.Header = None,
    layers: Layers = "last",
    overwrite: opt.Overwrite = False,
) -> None:
    """Apply a fitted repair to vectors, and write the result to a new file.

    \b
    Example:
      theodolite repair apply my-repair vectors.npy --to repaired.npy
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs import repairing

    show(repairing.apply(folder, path, **opt.typed_options(context, "folder", "path")))
