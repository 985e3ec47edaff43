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
    guarded,
    print_json,
    progress,
    split,
    stdout,
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
    no_cache: NoCache = False,
) -> None:
    """Show how the metrics differ between two spaces.

    Each difference comes with a 95 % interval from half-samples of the rows.

    \b
    Examples:
      theodolite compare before.npy after.npy
      theodolite compare a.npy b.npy --independent --metrics iso_score,mean_cosine
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.cli.survey import check_output, open_cloud, save_rows
    from theodolite.cli.tables import show_comparisons, show_header
    from theodolite.metrics.compare import compare
    from theodolite.metrics.values import metric_names

    check_output(output)
    chosen = split(metrics)
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
    save_rows(as_rows(first, second, compared), output, quiet=as_json)


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
