"""The verb `survey`: measure how a space is shaped, and report what is unusual about it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from theodolite.core.engines import chosen_engine, in_parallel
from theodolite.core.result import Answer, Command, LateTables, Result
from theodolite.core.spelling import command, command_line, option, switched_off
from theodolite.verbs.explaining import columns_of_space, columns_of_vectors, explained
from theodolite.verbs.inputs import (
    FILE_OPTIONS,
    EncoderInput,
    Input,
    Reading,
    ReadingOptions,
    VectorsInput,
    encoder_facts,
    input_name,
    open_input,
    reads_input,
    short_name,
)
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.query_survey import with_queries
from theodolite.verbs.signals import Signals, open_signal

if TYPE_CHECKING:
    from theodolite.core.pictures import Picture
    from theodolite.core.rows import Row
    from theodolite.metrics.cloud import Cloud
    from theodolite.spaces.space import Space

# Dimensions up to which the eigenvalues of a covariance take less than a second.
CHEAP = 1024
# Rows that metrics comparing rows with rows look at.
SAMPLE = 10_000
# The columns of a table that name its rows, the first that is there.
ID_COLUMNS = ("id", "_id", "doc_id", "document_id", "key", "name", "word", "title", "text", "sentence")
NOT_JUDGED: dict[str, Any] = {
    "answer": Answer(verdict="not judged", sentence="The numbers were not judged, because findings are switched off.")
}


@reads_input()
def survey(
    source: Any,
    /,
    *,
    metrics: Sequence[str] | None = None,
    queries: Any = None,
    judgements: Any = None,
    retrieval: str | os.PathLike[str] | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
    bootstrap: int = 0,
    findings: bool = True,
    explain: bool = False,
    store: bool = True,
    cache: bool = True,
    workers: int | None = None,
    engine: str | None = None,
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Measure how a space is shaped, and report what is unusual about it.

    Vectors get every metric that needs no second input; a space or an encoder gets a few per layer, and findings on its last
    layer, the one that is usually shipped.

    Parameters
    ----------
    source
        Vectors (array, frame, tensor, file, folder of shards, `Cloud`), a `Space` or its folder, or an encoder (id, folder,
        `demo`, or loaded) together with `task`, `texts` or `own`.
    metrics
        Names from `METRICS`; the defaults above if None.
    queries, judgements
        Queries, to see how they lie among the rows of `source`, which are documents: vectors if these are, or texts if an encoder
        reads `texts`; then other prompts are tried too. A table of query, document and grade scores both.
    retrieval
        A BEIR folder, which an encoder reads, instead of texts, queries and judgements.
    query_prompt, document_prompt
        What an encoder puts before queries and documents; the model's own prompts of these names by default.
    sample
        Rows for metrics that compare rows with rows.
    seed
        Seed of that sample and of the half-samples.
    bootstrap
        Number of half-samples for 95% intervals; 0 leaves them out.
    findings
        Whether to judge the numbers.
    explain
        Whether to find out which columns of the table or space the strongest directions, hubs and outliers follow, such as the
        length of texts, their language or their label. Of layers, in the last one.
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
        One row per metric, and per layer where there are layers; with queries, one per measure of them, whose values by chance
        are in `provenance["queries"]`. `records["prompts"]` has what other prompts do.

    Examples
    --------
    >>> import numpy as np
    >>> result = survey(np.random.default_rng(0).standard_normal((500, 8)), metrics=["iso_score"])
    >>> round(result.value("iso_score"), 1)
    1.0
    """
    from theodolite.metrics.cloud import Cloud
    from theodolite.metrics.registry import LAYER_METRICS, check_metrics, default_metrics

    options = Reading(**reading)
    names = check_metrics(metrics) if metrics is not None else None  # a misspelt name must not cost an encoding
    prompts = {"query_prompt": query_prompt, "document_prompt": document_prompt}
    named = Signals(queries=queries, judgements=judgements, retrieval=retrieval, **prompts, needs_judgements=False)
    opened: Input | None = None if named.is_collection(options) else open_input(source, options)
    if not store:
        if named.names:
            raise ValueError(f"{option(named.names[0], 'X')} needs the vectors, which {switched_off('store')} does not keep")
        _require_streamable(opened, bootstrap, explain)
    with chosen_engine(workers, engine), progress_bars(progress) as bars:
        data = None
        if named.names:  # a large collection has no room for all layers
            data = open_signal(source, named, replace(options, layers="last") if options.layers == "all" else options, bars)
            opened = data.space or opened
        assert opened is not None
        clouds = partial(Cloud, sample=sample, seed=seed)
        if isinstance(opened, VectorsInput):
            cloud = opened.cloud(bars, sample=sample, seed=seed, cache=cache)
            result = _survey_vectors(source, opened, cloud, names or default_metrics(), bootstrap, findings, explain, bars)
        elif isinstance(opened, EncoderInput) and not store:
            result = _streamed(opened, names or LAYER_METRICS, sample=sample, seed=seed, progress=bars)
        else:
            layers = "last" if data is not None and options.layers == "all" else options.layers
            result = _survey_space(source, opened, names or LAYER_METRICS, layers, clouds, bootstrap, findings, explain, bars)
        return result if data is None else with_queries(result, source, data, clouds(data.vectors), named, options, bars)


def _survey_vectors(
    source: Any,
    opened: VectorsInput,
    cloud: Cloud,
    metrics: Sequence[str],
    bootstrap: int,
    findings: bool,
    explain: bool,
    progress: Progress,
) -> Result:
    """The survey of vectors without layers."""
    from theodolite.metrics.evaluation import deviation_records, measure

    label = short_name(opened.name)
    about = {"model": label}
    steps = progress.steps("half-samples") if bootstrap else None
    measured = measure(cloud, metrics, bootstrap=bootstrap, about=about, progress=steps)
    rows = [row for row, _ in measured]
    judged = NOT_JUDGED
    if findings:
        columns = opened.other_columns
        names = partial(_row_names, opened, columns, cloud.n)
        judged = _judged(cloud, rows, _next_step(source, opened, columns), names, model=label)
    result = Result(
        verb="survey",
        title=label,
        rows=tuple(rows),
        pictures=cloud_picture(cloud, about),
        records=similarities(similarity_lines(cloud, metrics, about), deviation_records(measured), spectrum_lines(cloud, about)),
        conditions=sample_conditions(cloud),
        notes=(*cloud.source.notes, *_cache_note(cloud)),
        provenance=provenance(cloud_facts(cloud, opened.name)),
        **judged,
    )
    return explained(result, cloud, columns_of_vectors(opened, cloud.n), about) if explain else result


def _survey_space(
    source: Any,
    opened: EncoderInput | Space,
    metrics: Sequence[str],
    layers: str | int | Sequence[int],
    clouds: Callable[[Any], Cloud],
    bootstrap: int,
    findings: bool,
    explain: bool,
    progress: Progress,
) -> Result:
    """The survey of every chosen layer of a space; `clouds` makes the cloud of a layer's vectors."""
    from theodolite.metrics.evaluation import deviation_records, measure, metric_rows
    from theodolite.metrics.registry import default_metrics
    from theodolite.spaces.space import choose_layers, picture_columns

    encoder = opened if isinstance(opened, EncoderInput) else None
    space = opened.space(progress) if isinstance(opened, EncoderInput) else opened
    name = short_name(source) if isinstance(source, str) else space.origin.model or "space"
    texts, title = (None, name) if encoder is None else (encoder.texts.texts, encoder.name)
    chosen = choose_layers(layers, space.layers)
    groups = text_groups(space) if bootstrap else None
    pairs: list[tuple[Row, Any]] = []

    def measured(task: tuple[Callable[[], Any], dict[str, Any]]) -> list[tuple[Row, Any]]:
        vectors, about = task
        return measure(clouds(vectors()), metrics, bootstrap=bootstrap, groups=groups, about=about)

    tasks = [(space.opener(layer), space.about(layer)) for layer in chosen]
    for layer_rows in in_parallel(measured, tasks, prefer="processes", progress=progress.steps("measuring layers")):
        pairs += layer_rows
    rows = [row for row, _ in pairs]
    last = clouds(space[chosen[-1]])
    judged = NOT_JUDGED
    if findings:

        def names() -> Sequence[Any] | None:
            pictured = picture_columns(space, texts)
            ids = space.rows["id"] if "id" in space.rows else pictured.get("token")
            return pictured.get("text") if ids is None else ids

        judged = _judged(
            last,
            metric_rows(last, default_metrics()),
            _next_step(source, opened, tuple(space.rows), None if chosen[-1] == space.layers[-1] else chosen[-1]),
            names,
            model=space.origin.model or title,
            layer=chosen[-1],
            positions=space.rows["position"] if space.unit == "tokens" and "position" in space.rows else None,
        )
    lines = similarity_lines(
        last, default_metrics() if findings else metrics, space.about(chosen[-1]), given=given_pairs(space, chosen[-1])
    )
    facts = cloud_facts(last, title) | {"unit": space.origin.pooling, "layers": list(chosen)} | texts_digest(space)
    result = Result(
        verb="survey",
        title=title,
        rows=tuple(rows),
        pictures=space_picture(space, chosen[-1], texts, seed=last.seed),
        records=similarities(lines, deviation_records(pairs), spectrum_lines(last, space.about(chosen[-1]))),
        conditions=sample_conditions(last),
        notes=space_notes(space),
        provenance=provenance(facts | encoder_facts(space.origin)),
        **judged,
    )
    about = space.about(chosen[-1])
    return explained(result, last, columns_of_space(space, encoder), about, groups=text_groups(space)) if explain else result


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
        answer=Answer(verdict="not judged", sentence="The numbers were not judged, because the vectors were not kept."),
        rows=tuple(rows),
        notes=(counts_line(reading.counts.to_dict()),),
        provenance=provenance(facts),
    )


def _require_streamable(opened: Any, bootstrap: int, explain: bool) -> None:
    if not isinstance(opened, EncoderInput):
        raise ValueError(f"{switched_off('store')} is for encoders, whose vectors need not be stored; leave it out")
    for is_given, wish in ((bootstrap, option("bootstrap", "N")), (explain, option("explain"))):
        if is_given:
            raise ValueError(f"{wish} needs the vectors, which {switched_off('store')} does not keep; leave one out")


def _judged(
    cloud: Cloud,
    rows: Sequence[Row],
    step: Command,
    names: Callable[[], Sequence[Any] | None],
    *,
    model: str,
    layer: int | None = None,
    positions: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The findings and the answer of a survey; of tokens, whose positions are known, also on what carries most of their norm.

    `names` returns the ids or texts of all rows, and is called if an example has to be named.
    """
    from theodolite.advice.diagnosis import diagnose
    from theodolite.advice.sinks import sink_findings

    findings, answer = diagnose(cloud, rows, [] if positions is None else sink_findings(cloud, positions))
    known = names() if any(finding.rows for finding in findings) else None
    named = {row: str(known[row]) for finding in findings for row in finding.rows} if known is not None else {}
    return {
        # No repair helps rows that are all alike.
        "answer": replace(answer, next=(step,)) if answer.verdict != "not judged" and cloud.moments.has_spread else answer,
        "findings": tuple(
            replace(finding, model=model, layer=layer, names=tuple(named[row] for row in finding.rows if named))
            for finding in findings
        ),
    }


def _next_step(source: Any, opened: Input, columns: Sequence[str], layer: int | None = None) -> Command:
    """The command, or in Python the call, that measures on the user's own data whether a repair helps.

    It has a placeholder only if neither the input nor its task brings labels or scored pairs, of which the columns tell.
    """
    why = "measure whether a repair helps on your own data"
    chosen = {} if layer is None else {"layers": str(layer)}
    has_signal = "label" in columns or {"side", "score"} <= set(columns)
    if isinstance(opened, EncoderInput):
        reading = replace(opened.reading, layers="all", unit=None if opened.reading.unit == "tokens" else opened.reading.unit)
        of_texts = ("texts", "task", "split", "data", "own", "kind", "column", "score_range", "encoding", "delimiter", "header")
        names = [declared.name for declared in fields(reading) if has_signal or declared.name not in of_texts]
        placeholder = {} if has_signal else {"retrieval": "FOLDER"}
        why += "" if has_signal else "; FOLDER is your queries and judged documents in BEIR format"
        if isinstance(opened.model, (str, os.PathLike)) and isinstance(reading.texts or "", (str, os.PathLike)):
            typed = {**reading.typed([name for name in names if name != "tokenizer"]), **chosen, **placeholder}
            return Command(words=command("repair advise", model=input_name(opened.model), **typed), why=why)
        values = {name: getattr(reading, name) for name in names if getattr(reading, name) != getattr(Reading(), name)}
        return Command(words=_call("model", values | chosen | placeholder), why=why)
    typed = opened.reading.typed(FILE_OPTIONS) if isinstance(opened, VectorsInput) else {}
    is_vectors = isinstance(opened, VectorsInput)
    if is_vectors and "label" in columns:
        chosen["labels"] = "label"
    elif not has_signal:
        chosen["labels"] = "LABELS"
        spelled, dash = ("LABELS", "--") if isinstance(source, (str, os.PathLike)) else ("labels", "")
        why += f"; {spelled} has one label per row"
        why += f", or use {dash}pairs and {dash}scores, or {dash}queries and {dash}judgements" if is_vectors else ""
    if not isinstance(source, (str, os.PathLike)):
        return Command(words=_call("X" if is_vectors else "space", chosen), why=why)
    return Command(words=command("repair advise", os.fspath(source), **typed, **chosen), why=why)


def _call(name: str, options: Mapping[str, Any]) -> str:
    """A call of `advise`; a placeholder is the name of a variable."""
    values = [f"{key}={value.lower() if value in ('LABELS', 'FOLDER') else repr(value)}" for key, value in options.items()]
    return f"th.advise({', '.join([name, *values])})"


def _row_names(opened: VectorsInput, columns: Sequence[str], n: int) -> Sequence[str] | None:
    """The id or text of every row, if the frame or table has a column of them that is complete."""
    column = next((name for name in ID_COLUMNS if name in columns), None)
    try:
        return None if column is None else opened.labels(column, n=n)
    except ValueError:  # a gap or a list in it: row numbers will do
        return None


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
        "inputs": [dict(facts) for facts in inputs],
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
    from theodolite.metrics.cosine_histograms import similarity_records

    return list(similarity_records(cloud, metrics, _record_fields(about), given=given))


def spectrum_lines(cloud: Cloud, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The share of the variance on every principal direction, as the lines of a record; none if no metric looked at them."""
    known = vars(cloud)  # what is computed when it is first asked for
    if not ("eigenvalues" in known or "spectrum" in known or ("moments" in known and cloud.d <= CHEAP)):
        return []
    variances = cloud.eigenvalues.clip(min=0.0)  # rounding makes some of the smallest negative
    total = float(variances.sum())
    fields = {**_record_fields(about), "setting": ""}
    return [{**fields, "k": k, "value": float(value) / total} for k, value in enumerate(variances, 1)] if total > 0 else []


def _record_fields(about: Mapping[str, Any]) -> dict[str, Any]:
    """What the lines of a record say of where they are from."""
    layer = about.get("layer")
    model = str(about.get("model") or "").encode("utf-8", "replace").decode()  # a table of Arrow has no lone surrogates
    return {"model": model, "state": about.get("state") or "", "layer": -1 if layer is None else layer}


def similarities(
    lines: Sequence[Mapping[str, Any]], deviations: Sequence[Mapping[str, Any]] = (), spectra: Sequence[Mapping[str, Any]] = ()
) -> Mapping[str, Any]:
    """The records of a result: these lines for the report's histogram, what is behind its intervals, and spectra."""
    tables = {"similarities": lines, "deviations": deviations, "spectra": spectra}
    return LateTables({name: value for name, value in tables.items() if value})


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

    from theodolite.core.moments import row_cosines

    if not {"side", "text"} <= set(space.rows) or space.unit in ("tokens", "words"):
        return None
    text, side = (np.asarray(space.rows[name]) for name in ("text", "side"))
    first, second = (np.flatnonzero(side == number) for number in (0, 1))
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
