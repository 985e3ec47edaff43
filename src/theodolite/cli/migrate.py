"""`theodolite migrate`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import measure

Queries = Annotated[
    str | None, typer.Option(help="Query vectors from this model, if its documents are stored vectors.", metavar="FILE")
]
Unit = Annotated[str | None, typer.Option(help="Embedding unit for this encoder only, such as cls.", metavar="UNIT")]


@opt.measuring_options(without=("revision",))
def migrate_command(
    context: typer.Context,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The model in use: an encoder, or its stored document vectors.")],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The model to change to: an encoder, or its stored document vectors.")
    ],
    retrieval: Annotated[
        str | None, typer.Option(help="BEIR folder: corpus.jsonl, queries.jsonl, qrels/*.tsv.", metavar="FOLDER")
    ] = None,
    queries_old: Queries = None,
    queries_new: Queries = None,
    judgements: Annotated[
        str | None,
        typer.Option(help="For stored vectors: a table of query, document and grade, by id or row number.", metavar="FILE"),
    ] = None,
    unit_old: Unit = None,
    unit_new: Unit = None,
    query_prompt_old: opt.QueryPrompt = None,
    query_prompt_new: opt.QueryPrompt = None,
    document_prompt_old: opt.DocumentPrompt = None,
    document_prompt_new: opt.DocumentPrompt = None,
    margin: Annotated[float, typer.Option(help="Largest acceptable loss of nDCG@10.", metavar="LOSS")] = 0.02,
    folds: Annotated[int, typer.Option(help="Number of folds to split the queries into, at least 2.", metavar="N")] = 5,
    seed: opt.Seed = 0,
    layers: opt.Layer = "last",
    **_reading: Any,
) -> None:
    """Decide what a change of embedding model requires: keep, bridge, two-stage or re-index.

    Four tiers are scored on the same judged queries: keep the old index; map its documents into the new space (bridge); let the
    old index fetch 50 documents for the new model to rank (two-stage); embed every document again (re-index). The answer is the
    cheapest tier that is shown to lose less than --margin. Before encoding, migrate prints what it will encode and how long that
    will take.

    \b
    Examples:
      theodolite migrate all-MiniLM-L6-v2 ./new-model --retrieval ./my-collection
      theodolite migrate index.parquet ./new-model --queries-old queries.parquet --retrieval ./my-collection
      theodolite migrate old.npy new.npy --queries-old qo.npy --queries-new qn.npy --judgements qrels.tsv
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs.migrating import migrate

    measure(context, migrate, old, new)
