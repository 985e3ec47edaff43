"""`theodolite compare`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import CHECK_FAILED, Output


@opt.measuring_options(without=("revision",))
def compare_command(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="A", help="File of vectors, space, or encoder.")],
    after: Annotated[str, typer.Argument(metavar="B", help="File of vectors, space, or encoder to compare A with.")],
    metrics: opt.Metrics = None,
    paired: Annotated[
        bool | None,
        typer.Option(
            "--paired/--independent",
            help="Pair row i of A with row i of B; by default only if ids, texts or the vectors show that they correspond.",
            show_default=False,
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(help="Second side of scored pairs, row by row; give it twice if A and B have their own.", metavar="FILE"),
    ] = None,
    scores: opt.Scores = None,
    labels: Annotated[
        str | None, typer.Option(help="Row labels: a column that A and B both have, or FILE[:COLUMN].", metavar="NAME")
    ] = None,
    queries: opt.QueriesOfBoth = None,
    judgements: opt.Judgements = None,
    retrieval: Annotated[
        str | None, typer.Option(help="BEIR folder for two encoders: corpus.jsonl, queries.jsonl, qrels/*.tsv.", metavar="FOLDER")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Score: spearman; knn_accuracy, linear_accuracy; ndcg@K, recall@K, mrr.", metavar="NAME"),
    ] = None,
    sample: opt.Sample = 10_000,
    seed: opt.Seed = 0,
    bootstrap: Annotated[
        int | None,
        typer.Option(help="Half-samples for 95% intervals; by default 40, for the last layer only.", min=0, metavar="N"),
    ] = None,
    cache: opt.Cache = True,
    workers: opt.Workers = None,
    engine: opt.Engine = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 1 if a metric or score got worse by more than 5% (95% interval)."),
    ] = False,
    **_reading: Any,
) -> None:
    """Show how two spaces are related, and how their metrics differ.

    If rows correspond, the answer is that B is identical to A, rounded, scaled, rotated, mapped, partly re-embedded or different.
    Otherwise, a test decides whether B is a shifted sample. Two spaces written by extract, or two encoders that read the texts of
    --task, are compared layer by layer. With labels, scored pairs or judged queries, the answer also states which of the two
    scores higher on them.

    \b
    Examples:
      theodolite compare before.npy after.npy
      theodolite compare a.npy b.npy --independent --metrics iso_score,mean_cosine
      theodolite compare bert-base-uncased tuned/model --task stsb --unit tokens
      theodolite compare old-model new-model --retrieval ./my-collection
      theodolite compare a.npy b.npy --labels topics.txt
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.advice.gate import worse_metrics
    from theodolite.metrics.evaluation import REPLICATES
    from theodolite.verbs.comparing import compare

    target = Output.of(context)
    verb_options = opt.typed_options(context, "strict", *opt.PRINTING)
    if strict:  # judged by intervals, which layers have only if they are asked for
        verb_options.setdefault("bootstrap", REPLICATES)
    result = compare(before, after, **verb_options)
    worse = worse_metrics(result) if strict else []
    target.show(result)
    target.finish(result)
    for sentence in worse:
        print(sentence, file=sys.stderr)
    if worse:
        raise typer.Exit(CHECK_FAILED)
