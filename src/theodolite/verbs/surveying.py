"""The verb `survey`: measure how a space is shaped, and say what is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from theodolite.core.engines import chosen_engine, in_parallel
from theodolite.core.result import Finding, LateTables, Result
from theodolite.core.spelling import TypedInput, command_line, option, switched_off
from theodolite.verbs.inputs import (
    EncoderInput,
    Reading,
    ReadingOptions,
    VectorsInput,
    encoder_facts,
    open_input,
    reads_input,
    short_name,
    typed_input,
)
from theodolite.verbs.progress import Progress, progress_bars

if TYPE_CHECKING:
    from theodolite.core.pictures import Picture
    from theodolite.core.rows import Row
    from theodolite.metrics.cloud import Cloud
    from theodolite.spaces.space import Space

# Rows that metrics comparing rows with rows look at.
SAMPLE = 10_000


@reads_input()
def survey(
    source: Any,
    /,
    *,
    metrics: Sequence[str] | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
    bootstrap: int = 0,
    findings: bool = True,
    store: bool = True,
    cache: bool = True,
    workers: int | None = None,
    engine: str | None = None,
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Measure how a space is shaped, and say what is wrong with it.

    Vectors get every metric that needs no second input; a space or an encoder gets a few per layer, and findings on its last
    layer, the one that is usually shipped.

    Parameters
    ----------
    source
        Vectors (array, frame, tensor, file, folder of shards, `Cloud`), a `Space` or its folder, or an encoder (id, folder,
        `demo`, or loaded) together with `task`, `texts` or `own`.
    metrics
        Names from `METRICS`; the defaults above if None.
    sample
        Rows for metrics that compare rows with rows.
    seed
        Seed of that sample and of the half-samples.
    bootstrap
        Number of half-samples for 95 % intervals; 0 leaves them out.
    findings
        Whether to judge the numbers.
    store
        Whether to keep an encoder's vectors in memory. False streams them instead, and encodes a second time for I(W).
    cache
        Whether a file's moments are read from, and kept in, the cache folder.
    workers, engine
        Where the work runs: a number of workers on this machine, or the address of a Dask scheduler, such as
        `tcp://10.0.0.1:8786`. What `joblib.parallel_config` says, or this process, by default.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.
    **reading
        How the input is read: the fields of `theodolite.verbs.inputs.Reading`.

    Returns
    -------
    Result
        One row per metric, and per layer where there are layers.

    Examples
    --------
    >>> import numpy as np
    >>> result = survey(np.random.default_rng(0).standard_normal((500, 8)), metrics=["iso_score"])
    >>> round(result.value("iso_score"), 1)
    1.0
    """
    from theodolite.metrics.registry import LAYER_METRICS, check_metrics, default_metrics

    options = Reading(**reading)
    names = check_metrics(metrics) if metrics is not None else None  # a misspelt name must not cost an encoding
    opened = open_input(source, options)
    if not store:
        _require_streamable(opened, bootstrap)
    hints = typed_input(source, opened) if findings else None
    with chosen_engine(workers, engine), progress_bars(progress) as bars:
        if isinstance(opened, VectorsInput):
            cloud = opened.cloud(bars, sample=sample, seed=seed, cache=cache)
            return survey_cloud(cloud, opened.name, names or default_metrics(), bootstrap=bootstrap, hints=hints, progress=bars)
        if isinstance(opened, EncoderInput) and not store:
            return _streamed(opened, names or LAYER_METRICS, sample=sample, seed=seed, progress=bars)
        space, texts = (opened.space(bars), opened.texts.texts) if isinstance(opened, EncoderInput) else (opened, None)
        title = opened.name if isinstance(opened, EncoderInput) else _space_name(source, space)
        return survey_space(
            space,
            title,
            names or LAYER_METRICS,
            layers=options.layers,
            texts=texts,
            sample=sample,
            seed=seed,
            bootstrap=bootstrap,
            hints=hints,
            progress=bars,
        )


def survey_cloud(
    cloud: Cloud,
    name: str,
    metrics: Sequence[str],
    *,
    bootstrap: int,
    hints: TypedInput | None,
    progress: Progress,
) -> Result:
    """The survey of vectors without layers, with findings if it is known how their commands name the vectors."""
    from theodolite.metrics.evaluation import deviation_records, measure

    label = short_name(name)
    about = {"model": label}
    steps = progress.steps("half-samples") if bootstrap else None
    measured = measure(cloud, metrics, bootstrap=bootstrap, about=about, progress=steps)
    rows = [row for row, _ in measured]
    return Result(
        verb="survey",
        title=label,
        rows=tuple(rows),
        findings=_judge(cloud, rows, label, hints) if hints else (),
        pictures=cloud_picture(cloud, about),
        records=similarities(similarity_lines(cloud, metrics, about), deviation_records(measured)),
        conditions=sample_conditions(cloud),
        notes=(*cloud.source.notes, *_cache_note(cloud)),
        provenance=provenance(cloud_facts(cloud, name)),
    )


def survey_space(
    space: Space,
    title: str,
    metrics: Sequence[str],
    *,
    layers: str | int | Sequence[int],
    texts: Any,
    sample: int,
    seed: int,
    bootstrap: int,
    hints: TypedInput | None,
    progress: Progress,
) -> Result:
    """The survey of every chosen layer of a space, with findings if it is known how their commands name the space."""
    from theodolite.metrics.cloud import Cloud
    from theodolite.metrics.evaluation import deviation_records, measure, metric_rows
    from theodolite.metrics.registry import default_metrics
    from theodolite.spaces.space import choose_layers

    chosen = choose_layers(layers, space.layers)
    groups = text_groups(space) if bootstrap else None
    pairs: list[tuple[Row, Any]] = []
    advance = progress.steps("measuring layers")

    def measured(task: tuple[Callable[[], Any], dict[str, Any]]) -> list[tuple[Row, Any]]:
        vectors, about = task
        return measure(Cloud(vectors(), sample=sample, seed=seed), metrics, bootstrap=bootstrap, groups=groups, about=about)

    tasks = [(space.opener(layer), space.about(layer)) for layer in chosen]
    for part in in_parallel(measured, tasks, prefer="processes", progress=advance):
        pairs += part
    rows = [row for row, _ in pairs]
    last = Cloud(space[chosen[-1]], sample=sample, seed=seed)
    judged: tuple[Finding, ...] = ()
    if hints:
        positions = space.rows["position"] if space.unit == "tokens" and "position" in space.rows else None
        rows_of_last = metric_rows(last, default_metrics())
        if hints.path and not hints.before and chosen[-1] != space.layers[-1]:
            hints = replace(hints, options={"layers": str(chosen[-1])})
        judged = _judge(last, rows_of_last, space.origin.model or title, hints, layer=chosen[-1], positions=positions)
    return Result(
        verb="survey",
        title=title,
        rows=tuple(rows),
        findings=judged,
        pictures=space_picture(space, chosen[-1], texts, seed=seed),
        records=similarities(
            similarity_lines(
                last,
                default_metrics() if hints else metrics,
                space.about(chosen[-1]),
                given=given_pairs(space, chosen[-1]),
            ),
            deviation_records(pairs),
        ),
        conditions=sample_conditions(last),
        notes=(*space_notes(space), *_cache_note(last)),
        provenance=provenance(
            cloud_facts(last, title)
            | {"unit": space.origin.pooling, "layers": list(chosen)}
            | texts_digest(space)
            | encoder_facts(space.origin)
        ),
    )


def texts_digest(space: Space) -> dict[str, str]:
    """A hash of the texts or tokens of a space, by which a gate tells whether two results are of the same ones."""
    column = next((name for name in ("sentence", "token") if name in space.rows), None)
    if column is None:
        return {}
    return {"texts": hashlib.sha256("\0".join(map(str, space.rows[column])).encode("utf-8", "replace")).hexdigest()}


def _streamed(opened: EncoderInput, metrics: Sequence[str], *, sample: int, seed: int, progress: Progress) -> Result:
    from theodolite.models.batches import TokenReading
    from theodolite.models.streaming import survey_reading
    from theodolite.models.tokens import counts_line

    options = opened.encoding_options(progress)
    steps = options.pop("progress")
    encoder = opened.reading.load_encoder(opened.model)
    reading = TokenReading.of(encoder, opened.texts.texts, **options)
    rows = survey_reading(reading, metrics, sample=sample, seed=seed, progress=steps)
    facts = {"name": opened.name, "n": rows[0].n, "d": rows[0].d, "dtype": encoder.dtype, "unit": opened.texts.unit}
    return Result(
        verb="survey",
        title=opened.name,
        rows=tuple(rows),
        conditions=("no findings: the vectors were not kept",),
        notes=(counts_line(reading.counts.to_dict()),),
        provenance=provenance(facts),
    )


def _require_streamable(opened: Any, bootstrap: int) -> None:
    if not isinstance(opened, EncoderInput):
        raise ValueError(f"{switched_off('store')} is for encoders, whose vectors are made on the way; leave it out")
    if bootstrap:
        raise ValueError(
            f"{option('bootstrap', 'N')} draws from the vectors, which {switched_off('store')} does not keep; leave one out"
        )


def _judge(
    cloud: Cloud,
    rows: Sequence[Row],
    model: str,
    hints: TypedInput,
    *,
    layer: int | None = None,
    positions: Sequence[int] | None = None,
) -> tuple[Finding, ...]:
    """The findings, worst first; of tokens, whose positions are known, also on what carries most of their norm."""
    from theodolite.advice.diagnosis import findings
    from theodolite.advice.sinks import sink_findings

    sinks = [] if positions is None else sink_findings(cloud, positions, hints)
    worst_first = sorted([*sinks, *findings(cloud, rows, hints)], key=lambda finding: -finding.severity)
    return tuple(replace(finding, model=model, layer=layer) for finding in worst_first)


def _space_name(source: Any, space: Space) -> str:
    return short_name(str(source)) if isinstance(source, str) else space.origin.model or "space"


def cloud_facts(cloud: Cloud, name: str) -> dict[str, Any]:
    """What a result says of one input."""
    return {
        "name": name,
        "n": cloud.n,
        "d": cloud.d,
        "dtype": str(cloud.source.dtype),
        "sample": min(cloud.n, cloud.sample_size),
        "seed": cloud.seed,
    }


def provenance(*inputs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Where a result comes from: the command, the inputs and the versions, as plain values."""
    from theodolite.core.rows import current_versions, today

    return {
        "command": command_line(),
        "date": today(),
        "inputs": [dict(each) for each in inputs],
        "versions": current_versions(),
        **more,
    }


def space_notes(space: Space) -> tuple[str, ...]:
    """What the vectors are, if their unit alone does not say it, and what the tokenizer made of the texts."""
    from theodolite.models.tokens import counts_line

    return tuple(filter(None, (space.origin.description, counts_line(space.origin.counts))))


def sample_conditions(cloud: Cloud) -> tuple[str, ...]:
    """On how many rows pairs and neighbours were looked at, if that was not all."""
    sentence = f"pairs and neighbours: on a sample of {cloud.sample_size:,} rows, seed {cloud.seed}"
    return (sentence,) if cloud.is_sampled else ()


def _cache_note(cloud: Cloud) -> tuple[str, ...]:
    sentence = f"mean, covariance and lengths: from cache; {switched_off('cache')} reads the whole file again"
    return (sentence,) if cloud.moments_are_cached else ()


def similarity_lines(
    cloud: Cloud, metrics: Sequence[str], about: Mapping[str, Any], *, given: Any = None
) -> list[dict[str, Any]]:
    """How similar rows are, as the lines of a record; none if no metric looked at pairs."""
    from theodolite.metrics.similarities import similarity_records

    layer = about.get("layer")
    model = str(about.get("model") or "").encode("utf-8", "replace").decode()  # a table of Arrow has no lone surrogates
    fields = {"model": model, "state": about.get("state") or "", "layer": -1 if layer is None else layer}
    return list(similarity_records(cloud, metrics, fields, given=given))


def similarities(lines: Sequence[Mapping[str, Any]], deviations: Sequence[Mapping[str, Any]] = ()) -> Mapping[str, Any]:
    """The records of a result: these lines for the report's histogram, and what is behind its intervals."""
    return LateTables({name: value for name, value in (("similarities", lines), ("deviations", deviations)) if value})


def text_groups(space: Space) -> Any:
    """The text of each row as a number, if rows are tokens or words of texts; None if each row stands for itself."""
    import numpy as np

    name = next((name for name in ("text", "sentence") if name in space.rows), None)
    if name is None or space.unit not in ("tokens", "words", "pairs"):
        return None
    return np.unique(np.asarray(space.rows[name]), return_inverse=True)[1]


def given_pairs(space: Space, layer: int) -> Any:
    """Cosines of the pairs of a space whose texts come in pairs; None for other spaces."""
    import numpy as np

    from theodolite.advice.pair_scores import row_cosines

    if not {"side", "text"} <= set(space.rows) or space.unit in ("tokens", "words"):
        return None
    text, side = (np.asarray(space.rows[name]) for name in ("text", "side"))
    first, second = (np.flatnonzero(side == each) for each in (0, 1))
    if not len(first) or not np.array_equal(text[first], text[second]):
        return None
    return row_cosines(space[layer][first], space[layer][second])


def cloud_picture(cloud: Cloud, about: Mapping[str, Any], *, frame: Any = None) -> tuple[Picture, ...]:
    """The rows that a survey sampled, as a picture for the report; a single row makes none."""
    from theodolite.core.pictures import draw_picture

    if len(cloud.sample) < 2:
        return ()
    return (draw_picture(cloud.sample, about=about, points=cloud.sample_size, seed=cloud.seed, frame=frame),)


def space_picture(space: Space, layer: int, texts: Any, *, seed: int, state: str = "", frame: Any = None) -> tuple[Picture, ...]:
    """One layer of a space as a picture for the report, each point with its sentence and what else is known of it."""
    from theodolite.core.pictures import draw_picture
    from theodolite.spaces.space import picture_columns

    if space.n < 2:
        return ()
    about = {name: space.about(layer)[name] for name in ("model", "state", "layer", "task")}
    about["state"] = about["state"] or state
    return (draw_picture(space[layer], columns=picture_columns(space, texts), about=about, seed=seed, frame=frame),)
