"""`theodolite repair`: list, fit, apply, quantize, advise, export, check."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import CHECK_FAILED, console, measure, say, show

app = typer.Typer(
    help="Find out which repair helps, fit it on vectors, apply it to others, and ship it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Vectors = Annotated[str, typer.Argument(metavar="PATH", help="File of vectors, folder of shards, or space.")]
Layers = Annotated[str, typer.Option(help="Which layer of a space: last, or a number.", metavar="LAYER")]


@app.command("list")
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
@opt.reading_options(*opt.VECTOR_FILES)
def fit_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the repair; see repair list.")],
    path: Vectors,
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Folder to save the fitted repair to.")],
    directions: Annotated[int | None, typer.Option(help="Number of principal directions to remove.", min=0, metavar="N")] = None,
    clusters: Annotated[int | None, typer.Option(help="Number of clusters to repair one by one.", min=1, metavar="N")] = None,
    components: Annotated[int | None, typer.Option(help="Number of dimensions to keep.", min=1, metavar="N")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting of the repair; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(help="For weighted: second side of scored pairs, in the order of PATH.", metavar="FILE")
    ] = None,
    scores: Annotated[
        str | None, typer.Option(help="For weighted: one score per pair, one per line or .npy.", metavar="FILE")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="For bridge: vectors of the model to map to, matched by id, or row by row with PATH.", metavar="FILE"),
    ] = None,
    seed: opt.Seed = 0,
    layers: Layers = "last",
    workers: opt.Workers = None,
    engine: opt.Engine = None,
    overwrite: opt.Overwrite = False,
    **_reading: Any,
) -> None:
    """Learn a repair from vectors, and save it to a folder.

    \b
    Examples:
      theodolite repair fit global vectors.npy --to my-repair --directions 12
      theodolite repair fit cluster-based vectors.npy --to my-repair --clusters 27
      theodolite repair fit weighted a.npy --pairs b.npy --scores s.txt --to r
      theodolite repair fit bridge old.parquet --target new.parquet --to my-bridge
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs import repairing

    repair = repairing.fit(name, path, **opt.typed_options(context))
    say(f"{name} fitted on {path} and saved to {to}")
    if pairs:
        say(f"Pearson of cosines with scores {repair.pearson_before_:.4f} → {repair.pearson_:.4f} on these pairs")
    elif hasattr(repair, "fit_pairs"):
        say("without --pairs and --scores, all weights are 1, which removes whole directions; give both to learn them")
    say(f"apply it with: theodolite repair apply {to} {path} --to repaired.npy")


@app.command("apply")
@opt.reading_options(*opt.VECTOR_FILES)
def apply_command(
    context: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder of a saved repair.")],
    path: Vectors,
    to: Annotated[
        str, typer.Option("--to", metavar="FILE", help="File to write: .parquet, .csv, .tsv, .jsonl, .npy, .safetensors.")
    ],
    layers: Layers = "last",
    overwrite: opt.Overwrite = False,
    **_reading: Any,
) -> None:
    """Apply a fitted repair to vectors, and write the result to a new file.

    Other columns of a table (ids, texts) stay, in order, in a .parquet, .csv, .tsv or .jsonl file.

    \b
    Examples:
      theodolite repair apply my-repair vectors.npy --to repaired.npy
      theodolite repair apply my-repair docs.parquet --to repaired.parquet
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs import repairing

    show(repairing.apply(folder, path, **opt.typed_options(context)))


@app.command("quantize")
@opt.reading_options(*opt.VECTOR_FILES)
def quantize_command(
    context: typer.Context,
    path: Vectors,
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="The .npy file to write.")],
    code: Annotated[str, typer.Option(help="float16, int8, or binary (one bit for each dimension).", metavar="NAME")],
    layers: Layers = "last",
    overwrite: opt.Overwrite = False,
    **_reading: Any,
) -> None:
    """Store vectors in fewer bytes, in one of the forms that repair advise measures.

    \b
    Example:
      theodolite repair quantize vectors.npy --to int8.npy --code int8
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs import repairing

    stored = repairing.quantize(path, **opt.typed_options(context))
    say(f"{len(stored):,} vectors of {stored.itemsize * stored.shape[1]:,} bytes written to {to}")


@app.command("export")
@opt.reading_options("revision")
def export_command(
    context: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder of a saved repair.")],
    to: Annotated[str, typer.Option("--to", metavar="PATH", help="Folder to write; without MODEL also NAME.faiss or NAME.onnx.")],
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Model to put the repair into, by Hub id or folder.", show_default=False)
    ] = None,
    texts: Annotated[
        str | None,
        typer.Option(help="Texts that the repair was fitted on, one per line, to check the exported model.", metavar="FILE"),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Prompt before every text of the fit, if not the model's default.", metavar="TEXT")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Length limit of the fit in tokens, if not the model's.", metavar="N", min=1)
    ] = None,
    overwrite: opt.Overwrite = False,
    **_reading: Any,
) -> None:
    """Put a repair into a copy of a model's folder, or write it for FAISS, as ONNX, or as arrays.

    The repair goes where it was fitted: after the model's Normalize if on vectors of length 1, before it otherwise. The copy
    loads in sentence-transformers without this program and without trusting remote code. Without MODEL, --to NAME.faiss is a
    LinearTransform, NAME.onnx one Gemm, and any other name a folder with matrix.npy and bias.npy.

    \b
    Examples:
      theodolite repair export my-repair my-model --to my-model-repaired
      theodolite repair export my-repair --to my-repair.faiss
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs import repairing

    show(repairing.export(folder, model, **opt.typed_options(context)))


@app.command("check")
def check_command(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder that repair export wrote.")],
) -> None:
    """Repeat the self-test of an exported model; exit with code 1 if its vectors differ from those at export.

    \b
    Example:
      theodolite repair check my-model-repaired
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs import repairing

    result = repairing.check(folder)
    show(result)
    if any(finding.verdict == "bad" for finding in result.findings):
        raise typer.Exit(CHECK_FAILED)


@app.command("advise")
@opt.measuring_options()
def advise_command(
    context: typer.Context,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="File of vectors, or space.", show_default=False)] = None,
    model: opt.Model = None,
    pairs: opt.Pairs = None,
    scores: opt.Scores = None,
    labels: Annotated[
        str | None, typer.Option(help="Labels: a column of the space or table, or FILE[:COLUMN].", metavar="NAME")
    ] = None,
    queries: opt.Queries = None,
    judgements: opt.Judgements = None,
    retrieval: opt.Retrieval = None,
    query_prompt: opt.QueryPrompt = None,
    document_prompt: opt.DocumentPrompt = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="spearman; knn_accuracy or linear_accuracy; ndcg@K, recall@K or mrr; by default the first that fits.",
            metavar="NAME",
        ),
    ] = None,
    worth: Annotated[float, typer.Option(help="Smallest gain worth having.", metavar="GAIN")] = 0.02,
    dimensions: Annotated[
        str | None,
        typer.Option(help="Numbers of dimensions to try with pca and truncate; 64,128,256 by default.", metavar="N,N"),
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of folds, at least 3.", metavar="N")] = 5,
    sample: Annotated[int, typer.Option(help="Use at most N pairs, texts or queries.", min=2, metavar="N")] = 10_000,
    seed: opt.Seed = 0,
    layers: Annotated[
        str, typer.Option(help="Layer: last or a number; with all or several, layers are tried, not repairs.", metavar="LAYERS")
    ] = "last",
    units: Annotated[
        str | None,
        typer.Option(help="Poolings of --model to try instead of repairs: some or all of mean,cls,max,last.", metavar="LIST"),
    ] = None,
    **_reading: Any,
) -> None:
    """Find the repair that helps on your own data, or learn that none does.

    Every repair is tried by nested cross-validation on your scored pairs, labels, or queries with judged documents. The answer
    is to apply one (the lower limit of its gain is above 0), to leave the vectors alone (no repair can gain what is worth
    having), or that neither is shown, with the number of items that would settle it. What compression costs is measured too.
    With several --layers or --units, layers and poolings are tried instead of repairs, by the same rule.

    \b
    Examples:
      theodolite repair advise a.npy --pairs b.npy --scores scores.txt
      theodolite repair advise vectors.parquet --columns embedding --labels topic
      theodolite repair advise docs.npy --queries queries.npy --judgements qrels.tsv
      theodolite repair advise -m ./my-encoder --retrieval ./scifact --metric recall@100
      theodolite repair advise -m ./my-encoder --task stsb
      theodolite repair advise -m ./my-encoder --task stsb --layers all --units mean,cls,last
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs.advising import advise

    if bool(path) == bool(model):
        raise ValueError("give either vectors (theodolite repair advise vectors.npy) or an encoder (--model)")
    measure(context, advise, path or model, without=("model",))
