"""The verb `gate`: whether what is measured now keeps to the bounds and the baseline that a project has committed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.advice.folds import spearman_influence
from theodolite.advice.gate import CONFIG, DEVIATIONS, GateFile, judge
from theodolite.advice.scorers import JudgedQueries, SentencePairs, as_they_are
from theodolite.core.intervals import replicate_interval
from theodolite.core.result import Answer, Command, Finding, LateTables, Result
from theodolite.core.rows import Row, current_versions
from theodolite.core.spelling import command, option, suggestion
from theodolite.metrics.bounds import RETRIEVAL
from theodolite.metrics.evaluation import REPLICATES, deviation_records
from theodolite.metrics.queries_among_documents import QUERY_MEASURES, query_measures
from theodolite.metrics.registry import METRICS
from theodolite.spaces.space import Space
from theodolite.tasks.scores import spearman
from theodolite.verbs.inputs import EncoderInput, Reading, open_input
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.surveying import provenance, texts_digest

if TYPE_CHECKING:
    from theodolite.core.moments import Doubles

# Options of [retrieval] besides those of reading, and what the signals call them.
RETRIEVAL_OPTIONS = {
    "queries": "queries",
    "judgements": "judgements",
    "folder": "retrieval",
    "query_prompt": "query_prompt",
    "document_prompt": "document_prompt",
}


def gate(
    results: Result | str | os.PathLike[str] | Sequence[Result | str | os.PathLike[str]] = (),
    /,
    *,
    config: str | os.PathLike[str] = CONFIG,
    update: bool = False,
    trust_remote_code: bool = False,
    progress: bool | Progress | None = None,
) -> Result:
    """Check measurements against the bounds of a `theodolite.toml`: one finding per bound, bad if it is broken beyond noise.

    A bound is broken if the 95% interval lies beyond it: that of the change for `drop` and `rise`, that of the value for `min`
    and `max`. A value beyond its bound whose interval is not is shown as within noise, and passes.

    Parameters
    ----------
    results
        What to judge: results, their folders, or files of rows. Without any, what the file's tables `[survey]`, `[probe]`,
        `[score]` and `[retrieval]` describe is measured: each has a `source` and any options of its verb; `score` is the Spearman
        correlation of cosines with the scores of a similarity task, `retrieval` has `queries` with `judgements`, or `folder`.
    config
        The file with the bounds.
    update
        Whether to save what was measured as the new baseline, and judge by it.
    trust_remote_code
        Whether to run code that comes with the model; the file cannot allow it.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.

    Returns
    -------
    Result
        The judged rows, and the findings.

    Raises
    ------
    ValueError
        The file is wrong, a bound's metric was not measured, or the baseline is not comparable: another model, pooling, set of
        texts or number of rows.
    """
    file = GateFile.read(Path(config))
    if update and file.baseline is None:
        raise ValueError(f"{file.path} names no baseline to save to; add baseline = 'baseline', or leave {option('update')} out")
    items: Sequence[Any] = [results] if isinstance(results, (Result, str, os.PathLike)) else results
    loaded = [item if isinstance(item, Result) else Result.load(item) for item in items]
    if not loaded and not file.measuring:
        raise ValueError(f"{file.path} does not say what to measure; name a result, or add [survey] with a source to the file")
    trusted = {"trust_remote_code": True} if trust_remote_code else {}
    with progress_bars(progress) as bars:
        measured = _joined(loaded or [_measured(name, options, file, trusted, bars) for name, options in file.measuring.items()])
    if update:
        assert file.baseline is not None
        measured.save(file.baseline)
    baseline = None
    if file.baseline is not None and any(bound.needs_baseline for bound in file.bounds):
        if not file.baseline.exists():
            raise FileNotFoundError(f"there is no baseline {file.baseline} yet; save one with {option('update')}")
        baseline = Result.load(file.baseline)
    findings = judge(file.bounds, measured, baseline, source=file.path.name)
    notes = (f"baseline saved to {file.baseline}",) if update else ()
    metrics = {bound.metric for bound in file.bounds}
    return replace(
        measured,
        title=f"The bounds of {file.path.name}",
        answer=_answer(findings, file),
        rows=tuple(row for row in measured.rows if row.metric in metrics),
        findings=findings,
        notes=notes,
    )


def _answer(findings: Sequence[Finding], file: GateFile) -> Answer:
    broken, close = ([finding for finding in findings if finding.verdict == verdict] for verdict in ("bad", "watch"))
    noise = f", {len(close)} of {len(findings)} only within noise" if close else ""
    if not broken:
        words = f"All {len(findings)} bounds hold" if len(findings) > 1 else "The bound holds"
        return Answer(verdict="pass", sentence=f"{words}{noise}.")
    count = f"{len(broken)} of {len(findings)} bounds {'is' if len(broken) == 1 else 'are'} broken"
    names = ", ".join(dict.fromkeys(finding.topic for finding in broken))
    update = Command(words=command("gate", config=str(file.path), update=""), why="if the change is wanted, save a new baseline")
    return Answer(verdict="breach", sentence=f"{count}: {names}.", next=(update,) if file.baseline is not None else ())


def _measured(name: str, options: Mapping[str, Any], file: GateFile, trusted: Mapping[str, bool], progress: Progress) -> Result:
    from theodolite.verbs.probing import probe
    from theodolite.verbs.surveying import survey

    settings = dict(options)
    source = settings.pop("source")
    verb: Any = {"survey": survey, "probe": probe, "score": Reading, "retrieval": Reading}[name]
    known = [*inspect.signature(verb).parameters, *(RETRIEVAL_OPTIONS if name == "retrieval" else ())]
    unknown = next((key for key in settings if key not in known), None)
    if unknown is not None:
        raise ValueError(f"{file.path}: [{name}] has no option {unknown!r}; {suggestion(unknown, list(known))}")
    settings |= trusted
    if name == "score":
        return _score(source, Reading(**{"layers": "last", **settings}), progress)
    if name == "retrieval":
        # Queries of a survey have their measures there.
        asked = () if "queries" in file.measuring.get("survey", {}) else QUERY_MEASURES
        bounds = [bound.metric for bound in file.bounds if RETRIEVAL.fullmatch(bound.metric) or bound.metric in asked]
        return _retrieval(source, settings, bounds, progress)
    if name == "survey":
        bounded = [bound.metric for bound in file.bounds if bound.metric in METRICS]
        settings = {"metrics": bounded or None, "findings": False, "bootstrap": REPLICATES, **settings}
    result: Result = verb(source, progress=progress, **settings)
    return result


def _score(source: Any, reading: Reading, progress: Progress) -> Result:
    """The Spearman correlation of cosines with the scores of a similarity task, on the last layer."""
    opened = open_input(source, reading)
    space = opened.space(progress, frequencies=False) if isinstance(opened, EncoderInput) else opened
    if not isinstance(space, Space) or not {"side", "score", "text"} <= set(space.rows):
        raise ValueError(f"[score] needs pairs of texts with scores, such as task = 'stsb'; {source} has none")
    pairs = SentencePairs(space)
    cosines = pairs.cosines(space[-1])
    influence = spearman_influence(pairs.scores, cosines)[1]
    row = Row(
        metric="spearman",
        value=spearman(pairs.scores, cosines),
        n=len(pairs),
        d=space.d,
        versions=current_versions(),
        **space.about(-1),
    )
    measured = _with_interval(row, influence)
    return Result(
        verb="score",
        rows=(measured[0],),
        records=LateTables({DEVIATIONS: deviation_records([measured])}),
        provenance=provenance(texts_digest(space)),
    )


def _retrieval(source: Any, settings: dict[str, Any], metrics: Sequence[str], progress: Progress) -> Result:
    """How well judged queries find their documents, query by query."""
    from theodolite.verbs.signals import Signals, open_signal

    chosen = {name: settings.pop(name) for name in RETRIEVAL_OPTIONS if name in settings}
    named = Signals(**{RETRIEVAL_OPTIONS[name]: value for name, value in chosen.items()})
    data = open_signal(source, named, Reading(**{"layers": "last", **settings}), progress)
    if not isinstance(data.signal, JudgedQueries):
        raise ValueError("[retrieval] needs queries and judgements, or folder with a collection in BEIR's layout")
    items = np.arange(len(data.signal))
    measured = []
    fields = {**data.about, "n": len(items), "d": data.vectors.shape[1], "versions": current_versions()}
    for metric in [name for name in metrics if name not in QUERY_MEASURES] or data.signal.metrics[:1]:
        data.signal.metric = metric
        scores = data.signal.evidence(as_they_are, items, items)
        measured.append(_with_interval(Row(metric=metric, value=float(scores.mean()), **fields), scores - scores.mean()))
    if set(metrics) & set(QUERY_MEASURES):
        for measure in query_measures(data.vectors, data.signal.queries):
            numbers = {name: getattr(measure, name) for name in ("metric", "value", "low", "high", "reason")}
            measured.append((Row(**numbers, **fields), measure.deviations))
    records = LateTables({DEVIATIONS: deviation_records(measured)})
    return Result(
        verb="retrieval", rows=tuple(row for row, _ in measured), records=records, provenance=provenance({"name": data.name})
    )


def _with_interval(row: Row, influence: Doubles) -> tuple[Row, Doubles]:
    """The row with its interval over items, and the items' deviations, scaled so that their variance is that of the value."""
    deviations = np.asarray(influence / np.sqrt(len(influence)), dtype=np.float64)
    low, high = replicate_interval(row.value, deviations)
    return replace(row, low=low, high=high), deviations


def _joined(results: Sequence[Result]) -> Result:
    """The rows of several results, what is behind their intervals, and where they come from, without pictures and texts."""
    rows = tuple(row for result in results for row in result.rows)
    inputs = [item for result in results for item in result.inputs]
    deviations = [line for result in results if DEVIATIONS in result.records for line in result.records[DEVIATIONS].to_pylist()]
    records = LateTables({DEVIATIONS: deviations} if deviations else {})
    return Result(verb="gate", rows=rows, records=records, provenance=provenance(*inputs))
