"""`theodolite probe`: how labels lie in a space: separable or not, how far apart, and what a classifier makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from theodolite.cli.frame import (
    AsJson,
    Columns,
    Key,
    Overwrite,
    Seed,
    check_output,
    guarded,
    print_json,
    progress,
    save_rows,
    split,
    stdout,
)
from theodolite.cli.probe_inputs import Given, Places, Reading, read_test, read_vectors
from theodolite.cli.probe_run import Outputs, Settings, check_budget, given_clusters, prepared, probe_layers
from theodolite.cli.probe_tables import Probed, show_labels, show_probed_layers, show_scores
from theodolite.cli.texts import (
    BatchSize,
    Column,
    Data,
    Device,
    Encoding,
    Kind,
    Layers,
    MaxLength,
    Own,
    Revision,
    TaskName,
    Trust,
    Unit,
    chosen_task,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from theodolite.core.rows import Row


@guarded
def probe_command(
    path: Annotated[
        str | None,
        typer.Argument(help="A space written by extract, or a file of vectors.", metavar="PATH", show_default=False),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Labels: a column of the space (label by default), or FILE[:COLUMN] beside vectors.", metavar="NAME"),
    ] = None,
    test: Annotated[str | None, typer.Option(help="Held-out rows to score on, of the same kind as PATH.", metavar="PATH")] = None,
    test_labels: Annotated[str | None, typer.Option(help="Their labels, as --labels.", metavar="NAME")] = None,
    hold_out: Annotated[
        float | None, typer.Option(help="Hold out this share of the rows, by label, seeded.", min=0.0, max=0.99, metavar="SHARE")
    ] = None,
    embeddings: Annotated[
        str | None, typer.Option(help="DirectProbe's text: a vector a line (instead of PATH).", metavar="FILE")
    ] = None,
    entities: Annotated[
        str | None, typer.Option(help="DirectProbe's text: example<TAB>label, a line a vector.", metavar="FILE")
    ] = None,
    label_set: Annotated[str | None, typer.Option(help="DirectProbe's text: all labels, one a line.", metavar="FILE")] = None,
    test_entities: Annotated[str | None, typer.Option(help="The entities of --test.", metavar="FILE")] = None,
    key: Key = None,
    columns: Columns = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Instead of vectors: an encoder, by hub id or folder.", metavar="MODEL")
    ] = None,
    task: TaskName = None,
    split_name: Annotated[str | None, typer.Option("--split", help="Split to fit on; train by default.", metavar="NAME")] = None,
    data: Data = None,
    own: Own = None,
    kind: Kind = None,
    column: Column = None,
    encoding: Encoding = None,
    unit: Unit = None,
    layers: Layers = "all",
    classifier: Annotated[
        str, typer.Option(help="Also train a classifier probe on the rows: mlp, linear or none.", metavar="NAME")
    ] = "none",
    sample: Annotated[
        int | None, typer.Option(help="Fit on so many rows, by label, seeded; every label keeps one.", min=2, metavar="N")
    ] = None,
    drop_unseen: Annotated[bool, typer.Option("--drop-unseen", help="Leave out held-out rows with new labels.")] = False,
    label_distance: Annotated[
        str, typer.Option(help="Distance of two labels: mean or minimum over their clusters.", metavar="NAME")
    ] = "mean",
    min_cluster_size: Annotated[
        int, typer.Option(help="Leave out smaller clusters (the published analysis: 6).", min=1, metavar="N")
    ] = 1,
    fit_clusters: Annotated[
        str | None, typer.Option(help="Measure these clusters, a number a row, instead of merging.", metavar="FILE")
    ] = None,
    clusters: Annotated[
        str | None, typer.Option(help="Write each row's cluster; {layer} stands for the layer.", metavar="OUT.txt")
    ] = None,
    distances: Annotated[str | None, typer.Option(help="Write distances of clusters, (i-A, j-B): d.", metavar="OUT.txt")] = None,
    predictions: Annotated[str | None, typer.Option(help="Write clusters ranked for held-out rows.", metavar="OUT.txt")] = None,
    overwrite: Overwrite = False,
    budget: Annotated[
        float | None, typer.Option(help="Refuse a run that is estimated to take longer.", min=0.0, metavar="SECONDS")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores by default.", metavar="N")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Also write the rows to this .parquet, .json or .jsonl file.", metavar="FILE"),
    ] = None,
    batch_size: BatchSize = None,
    device: Device = "auto",
    max_length: MaxLength = None,
    revision: Revision = None,
    trust_remote_code: Trust = False,
) -> None:
    """Say how labels lie in a space: whether planes tell them apart, how far apart they are, and which are closest.

    The clusters are DirectProbe's (Zhou & Srikumar 2022), with certified distances between their convex hulls. A space and an
    encoder are probed layer by layer. Held-out rows are given the label of the nearest hull.

    \b
    Examples:
      theodolite probe words-space --layers last
      theodolite probe vectors.npy --labels tags.txt --hold-out 0.2
      theodolite probe --embeddings 12.txt --entities train.txt --clusters c.txt
      theodolite probe -m bert-base-uncased --task pos --classifier mlp
    """  # noqa: D301  # \b keeps the lines of the example apart
    check_output(output)
    settings = Settings(classifier, label_distance, min_cluster_size, jobs, seed, budget, device)
    outputs = Outputs(clusters, distances, predictions, overwrite)
    declared = chosen_task(task, own, kind, column, None, encoding)
    if fit_clusters and (sample or hold_out):
        raise ValueError("--fit-clusters numbers all rows; leave --sample and --hold-out out, and score on --test")
    with progress() as bars:
        if model:
            if path or embeddings or labels or test or declared is None:
                raise ValueError(
                    "an encoder reads a task: --model MODEL --task NAME (or --own), without PATH, --labels or --test"
                )
            reading = Reading(
                task=declared,
                data=data,
                split=split_name,
                unit=unit,
                layers=layers,
                hold_out=hold_out,
                seed=seed,
                encoding=encoding,
                batch_size=batch_size,
                encoder={
                    "device": device,
                    "max_length": max_length,
                    "revision": revision,
                    "trust_remote_code": trust_remote_code,
                },
            )
            given, hold_out = reading.given(model, bars), None
        else:
            if declared is not None:
                raise ValueError("--task and --own are read by an encoder; name it with --model")
            train = Places(_one(path, embeddings), labels, entities, label_set, layers, key, split(columns))
            given = Given(train.vectors, read_vectors(train), read_test(train, test, test_labels, test_entities))
        given = prepared(given, sample=sample, hold_out=hold_out, drop_unseen=drop_unseen, seed=seed)
        outputs.check(given)
        settings.check(given)
        fixed = given_clusters(fit_clusters, given)
        if fixed is None:
            check_budget(given, settings)
        done: list[Probed] = []
        for one in probe_layers(given, settings, outputs, fixed, bars):
            done.append(one)
            save_rows(_rows(done), output, quiet=True)  # what is done is kept, whatever happens to the next layer
    report(given, done, as_json=as_json)
    if output and not as_json:
        print(f"\n{len(_rows(done))} rows written to {output}")


def report(given: Given, done: Sequence[Probed], *, as_json: bool) -> None:
    """The verdict of each layer and a table, or JSON."""
    if as_json:
        rows = [row.to_dict() for row in _rows(done)]
        print_json({"space": given.title, "layers": [one.document() for one in done], "rows": rows})
        return
    console = stdout()
    n, d = done[0].rows[0].n, done[0].rows[0].d
    held = f", {len(given.test.y):,} held out" if given.test is not None else ""
    console.print(f"{given.title}: {n:,} × {d}{held}", markup=False, soft_wrap=True)
    for one in done:
        name = "" if one.layer is None else f"layer {one.layer}: "
        console.print(f"{name}{one.verdict}", markup=False, soft_wrap=True)  # a sentence stays one line in a pipe
    if len(done) > 1:
        show_probed_layers(console, done)
    else:
        show_labels(console, done[0].labels)
        show_scores(console, done[0])


def _one(path: str | None, embeddings: str | None) -> str:
    if (path is None) == (embeddings is None):
        raise ValueError(
            "give vectors (theodolite probe vectors.npy --labels FILE) or an encoder (--model with --task), one of them"
        )
    return path or embeddings or ""


def _rows(done: Sequence[Probed]) -> list[Row]:
    return [row for one in done for row in one.rows]
