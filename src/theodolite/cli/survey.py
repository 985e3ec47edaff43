"""`theodolite survey`: measure files of vectors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
    from collections.abc import Sequence

    from theodolite.core.rows import Row
    from theodolite.metrics.cloud import Cloud


@dataclass(frozen=True)
class Surveyed:
    """One file, measured."""

    path: str
    cloud: Cloud
    rows: list[Row]
    findings: list[Any]

    def document(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        cloud = self.cloud
        return {
            "path": self.path,
            "n": cloud.n,
            "d": cloud.d,
            "dtype": str(cloud.source.dtype),
            "sample": min(cloud.n, cloud.sample_size),
            "seed": cloud.seed,
            "rows": [row.to_dict() for row in self.rows],
            "findings": [asdict(finding) for finding in self.findings],
        }


@guarded
def survey_command(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Files, folders of shards, or URLs.", metavar="PATH", show_default=False)
    ] = None,
    key: Key = None,
    columns: Columns = None,
    metrics: Metrics = None,
    sample: Sample = 10_000,
    seed: Seed = 0,
    bootstrap: Annotated[int, typer.Option(help="Half-samples for 95 % intervals; 0 leaves them out.", min=0, metavar="N")] = 0,
    as_json: AsJson = False,
    output: Output = None,
    no_findings: Annotated[bool, typer.Option("--no-findings", help="Leave out the findings.")] = False,
    no_cache: NoCache = False,
    list_metrics: Annotated[bool, typer.Option("--list-metrics", help="List all metrics and leave.")] = False,
) -> None:
    """Measure how a space is shaped, and say what is wrong with it.

    Reads .npy, .npz, .safetensors, .parquet, .csv, .tsv, .jsonl, .txt and .vec files, and folders of them.

    \b
    Examples:
      theodolite survey vectors.npy
      theodolite survey table.parquet --columns embedding --bootstrap 200
      theodolite survey layer-*.npy --metrics iso_score,mean_cosine --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.cli.tables import show_findings, show_header, show_metrics, show_rows

    if list_metrics:
        show_metrics(stdout())
        return
    if not paths:
        raise ValueError("give at least one file of vectors: theodolite survey vectors.npy")
    check_output(output)
    chosen = split(metrics)
    done = []
    for path in paths:
        found = survey_file(
            path,
            split(columns),
            chosen,
            key=key,
            sample=sample,
            seed=seed,
            bootstrap=bootstrap,
            findings=not no_findings,
            cache=not no_cache,
        )
        done.append(found)
        if not as_json:
            console = stdout()
            show_header(console, path, found.cloud)
            show_rows(console, found.rows)
            console.print()
            show_findings(console, found.findings)
            if path != paths[-1]:
                console.print()
    if as_json:
        print_json({"surveys": [one.document() for one in done]})
    save_rows([row for one in done for row in one.rows], output, quiet=as_json)


def survey_file(
    path: str,
    columns: Sequence[str] | None,
    metrics: Sequence[str] | None,
    *,
    key: str | None = None,
    sample: int = 10_000,
    seed: int = 0,
    bootstrap: int = 0,
    findings: bool = True,
    cache: bool = True,
) -> Surveyed:
    """All that `survey` does with one file, with progress on a terminal."""
    from theodolite.cli.tables import short_name
    from theodolite.metrics.survey import survey
    from theodolite.metrics.values import metric_names

    metric_names(metrics)  # a misspelt name should not cost a pass over the file
    with progress() as bars:
        cloud = open_cloud(path, columns, key=key, sample=sample, seed=seed, cache=cache, seen=bars)
        rows = survey(cloud, metrics, bootstrap=bootstrap, about={"model": short_name(path)}, progress=bars.steps("half-samples"))
        found: list[Any] = []
        if findings:
            from theodolite.advice.findings import findings as conclude

            found = list(conclude(cloud, rows))
    return Surveyed(path, cloud, rows, found)


def open_cloud(
    path: str, columns: Sequence[str] | None, *, key: str | None, sample: int, seed: int, cache: bool, seen: Any
) -> Cloud:
    """The file as a cloud, its moments from the cache where they are there."""
    from theodolite.cli.tables import short_name
    from theodolite.metrics.cloud import Cloud
    from theodolite.spaces import read
    from theodolite.spaces.cache import cached_moments

    opened = read(path, key=key, columns=columns)
    cloud = Cloud(opened.watched(seen.rows(f"reading {short_name(path)}", opened.n)), sample=sample, seed=seed)
    if cache:
        cloud.moments = cached_moments(path, key=key, columns=columns, data=cloud.source)
    return cloud


def check_output(output: str | None) -> None:
    """Refuse a name that could not be written, before the work rather than after it."""
    from pathlib import Path

    if output is None:
        return
    path = Path(output)
    if path.suffix not in (".parquet", ".json", ".jsonl"):
        raise ValueError(f"{output!r} has no known ending for rows; use .parquet, .json or .jsonl")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first")


def save_rows(rows: list[Row], output: str | None, *, quiet: bool) -> None:
    """Write the rows where asked, and say so on the terminal."""
    if output is None:
        return
    from theodolite.core.rows import write_rows

    write_rows(rows, output)
    if not quiet:
        print(f"\n{len(rows)} rows written to {output}")
