"""`theodolite compare`: two files of vectors side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.frame import (
    AsJson,
    Columns,
    Key,
    Metrics,
    NoCache,
    Output,
    Sample,
    Seed,
    check_output,
    guarded,
    print_json,
    progress,
    save_rows,
    split,
    stdout,
)
from theodolite.cli.layers import ModelTexts, is_layered, show_change, survey_layered
from theodolite.cli.report_option import NoText, Report, Wish
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
    ScoreRange,
    Specials,
    TaskName,
    Texts,
    Trust,
    Unit,
    chosen_layers,
    chosen_task,
    chosen_texts,
)

if TYPE_CHECKING:
    from theodolite.core.rows import Row
    from theodolite.metrics.compare import Comparison


@guarded
def compare_command(
    first: Annotated[str, typer.Argument(metavar="A", help="File or folder of vectors.")],
    second: Annotated[str, typer.Argument(metavar="B", help="File or folder of vectors to hold against it.")],
    paired: Annotated[
        bool | None,
        typer.Option(
            "--paired/--independent",
            help="Whether row i of both is the same text; by default where both have equally many rows.",
            show_default=False,
        ),
    ] = None,
    key: Key = None,
    columns: Columns = None,
    metrics: Metrics = None,
    sample: Sample = 10_000,
    seed: Seed = 0,
    bootstrap: Annotated[
        int, typer.Option(help="Half-samples for the 95 % intervals; 0 leaves them out.", min=0, metavar="N")
    ] = 200,
    as_json: AsJson = False,
    output: Output = None,
    report: Report = None,
    no_text: NoText = False,
    no_cache: NoCache = False,
    task: TaskName = None,
    split_name: Annotated[
        str | None, typer.Option("--split", help="Split of the task; dev or test by default.", metavar="NAME")
    ] = None,
    data: Data = None,
    texts: Texts = None,
    own: Own = None,
    kind: Kind = None,
    column: Column = None,
    score_range: ScoreRange = None,
    encoding: Encoding = None,
    unit: Unit = None,
    layers: Layers = "all",
    specials: Specials = False,
    batch_size: BatchSize = None,
    device: Device = "auto",
    max_length: MaxLength = None,
    trust_remote_code: Trust = False,
) -> None:
    """Show how the metrics differ between two spaces.

    Each difference comes with a 95 % interval from half-samples of the rows. Two spaces written by extract, or two encoders that
    read the texts of --task, are compared layer by layer (without intervals).

    \b
    Examples:
      theodolite compare before.npy after.npy
      theodolite compare a.npy b.npy --independent --metrics iso_score,mean_cosine
      theodolite compare bert-base-uncased tuned/model --task stsb --unit tokens
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.cli.survey import open_cloud
    from theodolite.cli.tables import short_name, show_comparisons, show_header
    from theodolite.metrics.compare import compare
    from theodolite.metrics.values import metric_names

    check_output(output)
    wish = Wish.of(report, no_text)
    title = f"{short_name(first)} and {short_name(second)}"
    chosen = split(metrics)
    declared = chosen_task(task, own, kind, column, score_range, encoding)
    if declared is not None or texts is not None or is_layered(first):
        from theodolite.spaces import Space

        source = None
        if declared is not None or texts is not None:
            source = ModelTexts(
                chosen=chosen_texts(declared, split_name, data, texts, encoding, unit),
                layers=chosen_layers(layers),
                specials=specials,
                batch_size=batch_size,
                encoder={"device": device, "max_length": max_length, "trust_remote_code": trust_remote_code},
                frequencies=wish.file is not None,
            )
        with progress() as bars:
            spaces = [source.space(place, bars) if source is not None else Space.open(place) for place in (first, second)]
            before, after = (survey_layered(space, chosen, sample=sample, seed=seed, bootstrap=0, seen=bars) for space in spaces)
            read = None if source is None else source.chosen.texts
            states = zip(spaces, ("before", "after"), strict=True)
            pictures = [one for space, state in states for one in wish.of_space(space, read, seed=seed, state=state)]
        rows = report_change(first, second, before, after, output, as_json=as_json)
        wish.save("compare", title, rows, pictures, quiet=as_json)
        return
    metric_names(chosen)
    with progress() as bars:
        clouds = [
            open_cloud(path, split(columns), key=key, sample=sample, seed=seed, cache=not no_cache, seen=bars)
            for path in (first, second)
        ]
        compared = compare(clouds[0], clouds[1], chosen, paired=paired, bootstrap=bootstrap, progress=bars.steps("half-samples"))
    if as_json:
        print_json(document(first, second, compared))
    else:
        console = stdout()
        for name, path, cloud in zip("AB", (first, second), clouds, strict=True):
            show_header(console, f"{name} = {path}", cloud)
        show_comparisons(console, compared)
    rows = as_rows(first, second, compared)
    save_rows(rows, output, quiet=as_json)
    named = zip(clouds, (first, second), ("before", "after"), strict=True)
    pictures = [one for cloud, path, state in named for one in wish.of_cloud(cloud, short_name(path), state=state)]
    wish.save("compare", title, rows, pictures, quiet=as_json)


def report_change(
    first: str, second: str, before: list[Row], after: list[Row], output: str | None, *, as_json: bool
) -> list[Row]:
    """Two layered spaces, layer by layer; their rows, told apart by `state`."""
    rows = [replace(row, state=row.state or "before") for row in before] + [
        replace(row, state=row.state or "after") for row in after
    ]
    if as_json:
        print_json({"a": first, "b": second, "rows": [row.to_dict() for row in rows]})
    else:
        console = stdout()
        console.print(f"A = {first}\nB = {second}\neach cell: A → B", markup=False)
        show_change(console, before, after)
    save_rows(rows, output, quiet=as_json)
    return rows


def document(first: str, second: str, compared: list[Comparison]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "a": first,
        "b": second,
        "paired": compared[0].paired if compared else None,
        "comparisons": [
            {
                "metric": one.metric,
                "a": one.before.value,
                "b": one.after.value,
                "difference": one.difference,
                "low": one.low,
                "high": one.high,
                "clear": one.is_clear,
                "reason": one.before.reason or one.after.reason,
            }
            for one in compared
        ],
    }


def as_rows(first: str, second: str, compared: list[Comparison]) -> list[Row]:
    """Both surveys and the differences, told apart by `state`."""
    rows = []
    for one in compared:
        reason = one.before.reason or one.after.reason
        rows.append(replace(one.before, state="before", model=first))
        rows.append(replace(one.after, state="after", model=second))
        rows.append(
            replace(one.after, state="difference", model=second, value=one.difference, low=one.low, high=one.high, reason=reason)
        )
    return rows
