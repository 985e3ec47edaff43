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
    check_output,
    guarded,
    print_json,
    progress,
    save_rows,
    split,
    stdout,
)
from theodolite.cli.layers import ModelTexts, is_layered, survey_layers_of
from theodolite.cli.report_option import NoText, Report, Wish
from theodolite.cli.texts import (
    BatchSize,
    Column,
    Data,
    Device,
    Dtype,
    Encoding,
    Kind,
    Layers,
    MaxLength,
    Own,
    Revision,
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
    report: Report = None,
    no_text: NoText = False,
    no_findings: Annotated[bool, typer.Option("--no-findings", help="Leave out the findings.")] = False,
    no_cache: NoCache = False,
    list_metrics: Annotated[bool, typer.Option("--list-metrics", help="List all metrics and leave.")] = False,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Instead of files: an encoder, by hub id or folder.", metavar="MODEL")
    ] = None,
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
    no_store: Annotated[
        bool, typer.Option("--no-store", help="Keep no vectors: moments as they come, and a second encoding for I(W).")
    ] = False,
    batch_size: BatchSize = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    max_length: MaxLength = None,
    revision: Revision = None,
    trust_remote_code: Trust = False,
) -> None:
    """Measure how a space is shaped, and say what is wrong with it.

    Reads .npy, .npz, .safetensors, .parquet, .csv, .tsv, .jsonl, .txt and .vec files, folders of them, and spaces written by
    extract. With --model, an encoder reads the texts of a task, and every layer is measured.

    \b
    Examples:
      theodolite survey vectors.npy
      theodolite survey table.parquet --columns embedding --bootstrap 200
      theodolite survey layer-*.npy --metrics iso_score,mean_cosine --json
      theodolite survey -m bert-base-uncased --task stsb --unit tokens --no-store
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.cli.tables import short_name, show_findings, show_header, show_metrics, show_rows

    if list_metrics:
        show_metrics(stdout())
        return
    if bool(paths) == bool(model):
        raise ValueError("give files of vectors (theodolite survey vectors.npy) or an encoder (--model with --task), one of them")
    check_output(output)
    wish = Wish.of(report, no_text)
    chosen = split(metrics)
    if model:
        declared = chosen_task(task, own, kind, column, score_range, encoding)
        source = ModelTexts(
            chosen=chosen_texts(declared, split_name, data, texts, encoding, unit),
            layers=chosen_layers(layers),
            specials=specials,
            batch_size=batch_size,
            encoder={
                "device": device,
                "dtype": dtype,
                "max_length": max_length,
                "revision": revision,
                "trust_remote_code": trust_remote_code,
            },
            frequencies=wish.file is not None,
        )
        survey_layers_of(
            f"{model}, {source.chosen.name}",
            lambda bars: source.space(model, bars),
            chosen,
            output,
            wish,
            texts=source.chosen.texts,
            sample=sample,
            seed=seed,
            bootstrap=bootstrap,
            with_findings=not no_findings,
            as_json=as_json,
            streamed=(lambda bars: source.streamed(model, chosen, sample=sample, seed=seed, seen=bars)) if no_store else None,
        )
        return
    assert paths is not None
    if any(map(is_layered, paths)):
        if len(paths) > 1:
            raise ValueError("survey one space at a time; compare holds two against each other")
        from theodolite.spaces import Space

        survey_layers_of(
            paths[0],
            lambda _: Space.open(paths[0]),
            chosen,
            output,
            wish,
            sample=sample,
            seed=seed,
            bootstrap=bootstrap,
            with_findings=not no_findings,
            as_json=as_json,
        )
        return
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
    rows = [row for one in done for row in one.rows]
    save_rows(rows, output, quiet=as_json)
    pictures = [each for one in done for each in wish.of_cloud(one.cloud, short_name(one.path))]
    findings = [finding for one in done for finding in one.findings]
    wish.save("survey", f"Survey of {', '.join(map(short_name, paths))}", rows, pictures, quiet=as_json, findings=findings)


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
