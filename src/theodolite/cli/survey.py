"""`theodolite survey`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import CHECK_FAILED, Output, console, say


@opt.measuring_options()
def survey_command(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders of shards, quoted patterns, spaces or URLs.", metavar="PATH", show_default=False),
    ] = None,
    model: opt.Model = None,
    metrics: opt.Metrics = None,
    queries: Annotated[
        str | None, typer.Option(help="Queries: vectors if PATH holds document vectors, texts with --texts.", metavar="FILE")
    ] = None,
    judgements: opt.Judgements = None,
    retrieval: opt.Retrieval = None,
    query_prompt: opt.QueryPrompt = None,
    document_prompt: opt.DocumentPrompt = None,
    sample: opt.Sample = 10_000,
    seed: opt.Seed = 0,
    bootstrap: Annotated[int, typer.Option(help="Half-samples for 95% intervals; 0 leaves them out.", min=0, metavar="N")] = 0,
    findings: Annotated[bool, typer.Option("--findings/--no-findings", help="Compare the numbers with healthy ranges.")] = True,
    explain: Annotated[
        bool, typer.Option("--explain", help="Find the columns that the strongest directions, hubs and outliers follow.")
    ] = False,
    store: Annotated[
        bool,
        typer.Option("--store/--no-store", help="Keep an encoder's vectors (--no-store streams, and encodes twice for I(W))."),
    ] = True,
    cache: opt.Cache = True,
    workers: opt.Workers = None,
    engine: opt.Engine = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if a finding is bad.")] = False,
    list_metrics: Annotated[bool, typer.Option("--list-metrics", help="List all metrics and exit.")] = False,
    **_reading: Any,
) -> None:
    """Measure how a space is shaped, and report what is unusual about it.

    Reads .npy, .npz, .safetensors, .parquet, .csv, .tsv, .jsonl, .txt and .vec files, folders of them, and spaces written by
    extract. With --model, an encoder reads the texts of a task, and every layer is measured.

    \b
    Examples:
      theodolite survey vectors.npy
      theodolite survey table.parquet --columns embedding --bootstrap 200
      theodolite survey table.parquet --columns embedding --explain
      theodolite survey layer-*.npy --metrics iso_score,mean_cosine --json
      theodolite survey "s3://bucket/shards/*.npy" --engine tcp://10.0.0.1:8786
      theodolite survey -m bert-base-uncased --task stsb --unit tokens --no-store
      theodolite survey docs.npy --queries queries.npy
      theodolite survey -m ./my-encoder --retrieval ./my-collection
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.core.result import Result
    from theodolite.verbs.surveying import survey

    if list_metrics:
        _print_metrics()
        return
    if bool(paths) == bool(model):
        raise ValueError("give either files of vectors (theodolite survey vectors.npy) or an encoder (--model with --task)")
    if strict and not (findings and store):
        raise ValueError(f"--strict needs findings; leave out {'--no-findings' if store else '--no-store'}")
    target = Output.of(context)
    verb_options = opt.typed_options(context, "model", "list_metrics", "strict", *opt.PRINTING)
    results = []
    for source in paths or [str(model)]:
        results.append(survey(source, **verb_options))
        target.show(results[-1])
    joined = Result.joined(results)
    if len(results) > 1 and joined.answer is not None and not target.as_json:
        say(f"\n{joined.answer.sentence}")
    target.finish(joined)
    if strict and any(finding.verdict == "bad" for result in results for finding in result.findings):
        raise typer.Exit(CHECK_FAILED)


def _print_metrics() -> None:
    """Print all metrics of the registry: name, whether a survey measures it by default, and what it is."""
    from theodolite.metrics import METRICS
    from theodolite.reports.blocks import Paragraph, print_blocks

    blocks = []
    for entry in METRICS.values():
        second = entry.needs in ("pairs", "reference")
        note = "  (needs a second input: from Python)" if second else "" if entry.default else "  (only if named)"
        blocks += [Paragraph(note, "bold", lead=f"  {entry.name}"), Paragraph(entry.summary, "dim", indent=6)]
    print_blocks(blocks, console())
