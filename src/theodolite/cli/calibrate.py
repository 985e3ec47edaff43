"""`theodolite calibrate`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import measure


@opt.measuring_options()
def calibrate_command(
    context: typer.Context,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="Vectors of your own texts, or a space.", show_default=False)
    ] = None,
    model: opt.Model = None,
    canonical: Annotated[
        str | None, typer.Option(help="Vectors of the package's sentences, in order, from the encoder of PATH.", metavar="FILE")
    ] = None,
    pairs: opt.Pairs = None,
    scores: opt.Scores = None,
    queries: opt.Queries = None,
    judgements: opt.Judgements = None,
    retrieval: opt.Retrieval = None,
    query_prompt: opt.QueryPrompt = None,
    document_prompt: opt.DocumentPrompt = None,
    match: Annotated[float | None, typer.Option(help="Pairs with at least this score are matches.", metavar="SCORE")] = None,
    false_positive_rate: Annotated[
        float, typer.Option(help="Share of unrelated pairs that may be above the cutoff.", metavar="SHARE")
    ] = 0.01,
    seed: opt.Seed = 0,
    layers: opt.Layer = "last",
    list_sentences: Annotated[
        bool, typer.Option("--list-sentences", help="Print the package's sentences, one per line, and exit.")
    ] = False,
    **_reading: Any,
) -> None:
    """Calibrate a similarity threshold: a cutoff with its interval, and how probable a match is.

    From your own pairs with known matches, or queries with judged documents, it finds your cutoff, or shows that no threshold
    separates them. Without these, it uses unrelated pairs of the package's own 250 sentences from 25 domains.

    \b
    Examples:
      theodolite calibrate -m ./my-encoder
      theodolite calibrate -m ./my-encoder --task stsb --match 4
      theodolite calibrate -m ./my-encoder --retrieval ./my-collection
      theodolite calibrate -m ./my-encoder --texts mine.txt --false-positive-rate 0.001
      theodolite calibrate a.npy --pairs b.npy --scores same.txt --canonical canonical.npy
      theodolite calibrate --list-sentences > sentences.txt
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs.calibrating import calibrate

    if list_sentences:
        from theodolite.tasks.loading import canonical_sentences

        print("\n".join(canonical_sentences()[0]))
        return
    if bool(path) == bool(model):
        raise ValueError("give either an encoder (theodolite calibrate -m MODEL) or vectors (theodolite calibrate vectors.npy)")
    measure(context, calibrate, path or model, without=("model", "list_sentences"))
