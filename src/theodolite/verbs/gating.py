"""The verb `gate`: whether what is measured now keeps to the bounds and the baseline that a project has committed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.advice.gate import CONFIG, GateFile, judge
from theodolite.core.result import Answer, Result
from theodolite.core.spelling import option, suggestion
from theodolite.verbs.inputs import EncoderInput, Reading, open_input
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.surveying import provenance, texts_digest

if TYPE_CHECKING:
    from theodolite.core.rows import Row


def gate(
    results: Result | str | os.PathLike[str] | Sequence[Result | str | os.PathLike[str]] = (),
    /,
    *,
    config: str | os.PathLike[str] = CONFIG,
    update: bool = False,
    trust_remote_code: bool = False,
    progress: bool | Progress | None = None,
) -> Result:
    """Judge measurements by the bounds of a `theodolite.toml`: one finding per bound, bad where it is broken.

    Parameters
    ----------
    results
        What to judge: results, their folders, or files of rows. Without any, what the file's tables `[survey]`, `[probe]` and
        `[score]` describe is measured: each has a `source` and any options of its verb; `score` is the Spearman correlation of
        cosines with the scores of a similarity task.
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
    broken = sum(finding.verdict == "bad" for finding in findings)
    notes = (f"baseline saved to {file.baseline}",) if update else ()
    metrics = {bound.metric for bound in file.bounds}
    return replace(
        measured,
        title=f"The bounds of {file.path.name}",
        answer=Answer(
            verdict="breach" if broken else "pass",
            sentence=f"{broken} of {len(findings)} bounds {'is' if broken == 1 else 'are'} broken."
            if broken
            else f"All {len(findings)} bounds hold.",
        ),
        rows=tuple(row for row in measured.rows if row.metric in metrics),
        findings=findings,
        notes=notes,
    )


def _measured(name: str, options: Mapping[str, Any], file: GateFile, trusted: Mapping[str, bool], progress: Progress) -> Result:
    from theodolite.metrics.registry import METRICS
    from theodolite.verbs.probing import probe
    from theodolite.verbs.surveying import survey

    settings = dict(options)
    source = settings.pop("source")
    verb: Any = {"survey": survey, "probe": probe, "score": Reading}[name]
    known = inspect.signature(verb).parameters
    unknown = next((key for key in settings if key not in known), None)
    if unknown is not None:
        raise ValueError(f"{file.path}: [{name}] has no option {unknown!r}; {suggestion(unknown, list(known))}")
    settings |= trusted
    if name == "score":
        return _score(source, Reading(**{"layers": "last", **settings}), progress)
    if name == "survey":
        bounded = [bound.metric for bound in file.bounds if bound.metric in METRICS]
        settings = {"metrics": bounded or None, "findings": False, **settings}
    result: Result = verb(source, progress=progress, **settings)
    return result


def _score(source: Any, reading: Reading, progress: Progress) -> Result:
    """The Spearman correlation of cosines with the scores of a similarity task, on the last layer."""
    from theodolite.advice.pair_scores import SentencePairs
    from theodolite.core.rows import Row, current_versions
    from theodolite.spaces.space import Space
    from theodolite.tasks.scores import spearman

    opened = open_input(source, reading)
    space = opened.space(progress, frequencies=False) if isinstance(opened, EncoderInput) else opened
    if not isinstance(space, Space) or not {"side", "score", "text"} <= set(space.rows):
        raise ValueError(f"[score] needs pairs of texts with scores, such as task = 'stsb'; {source} has none")
    pairs = SentencePairs(space)
    value = spearman(pairs.scores, pairs.cosines(space[-1]))
    row = Row(metric="spearman", value=value, n=len(pairs), d=space.d, versions=current_versions(), **space.about(-1))
    return Result(verb="score", rows=(row,), provenance=provenance(texts_digest(space)))


def _joined(results: Sequence[Result]) -> Result:
    """The rows of several results, and where they come from, without pictures and texts: a baseline is committed."""
    rows: list[Row] = [row for result in results for row in result.rows]
    inputs = [item for result in results for item in result.inputs]
    return Result(verb="gate", rows=tuple(rows), provenance=provenance(*inputs))
