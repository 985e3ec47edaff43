"""The verb `advise`: which repair helps on the user's own data, or that none does, and what compression costs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from theodolite.core.result import Answer, Command, Result
from theodolite.core.spelling import option
from theodolite.verbs.inputs import Reading, ReadingOptions, reads_input
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.signals import SignalInput, Signals, open_signal
from theodolite.verbs.surveying import provenance

if TYPE_CHECKING:
    from theodolite.advice.changes import Change
    from theodolite.advice.nested_validation import Advice, Scored
    from theodolite.core.rows import Row

SAMPLE = 10_000
"""Pairs, texts or queries that are looked at, at most."""
GEOMETRY = ("mean_cosine", "iso_score")
"""What is reported if there is nothing to measure by."""
REPAIR, COMPRESSION, CHOICE, AS_IT_IS = "repair", "compression", "choice", "as it is"
"""The states of rows: what is tried, and the gain of the choice, which has paid for the search."""

File = str | os.PathLike[str]


@reads_input()
def advise(  # type: ignore[misc]  # `layers` is a reading option with a default of its own
    source: Any,
    /,
    *,
    pairs: Any = None,
    scores: Any = None,
    labels: File | Sequence[Any] | None = None,
    queries: Any = None,
    judgements: Any = None,
    retrieval: File | None = None,
    metric: str | None = None,
    folds: int = 5,
    sample: int = SAMPLE,
    seed: int = 0,
    layers: str | int = "last",
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Find the repair that helps on your own data, or learn that none does: measured, with an interval, never guessed.

    Every repair is tried over a small grid, fitted on one part of the data and scored on another, by nested cross-validation:
    an inner part chooses, an outer fold scores the choice. One is recommended only if the lower limit of that gain is above 0.
    Truncation and quantisation are measured too, alone and after a repair. Without a signal, only geometry is reported.

    Parameters
    ----------
    source
        Vectors (array, frame, tensor, file), a `Space` or its folder, or an encoder (id, folder, `demo`, or loaded) together
        with `task`, `own`, `texts` or `retrieval`. A space or a task brings its scored pairs or labels along.
    pairs, scores
        The other side of scored pairs, row by row with `source`, and one score per pair (array or file).
    labels
        The label of every row: a sequence, a column of the space or table, or FILE[:COLUMN].
    queries, judgements
        Vectors of queries, and a table of query, document and grade: an array, a frame, or a file. `source` then holds the
        documents; queries and documents are named by row numbers from 0.
    retrieval
        A BEIR folder (`corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv`), which an encoder reads; `split` names the judgements.
    metric
        `spearman` for pairs; `knn_accuracy` or `linear_accuracy` for labels; `ndcg@K`, `recall@K` or `mrr` for queries. By
        default `spearman`, `knn_accuracy` and `ndcg@10`.
    folds
        Number of folds, at least 3. Pairs that share a sentence, and equal texts, are never on both sides.
    sample
        Most pairs, texts or queries to look at.
    seed
        Seed of folds, samples, k-means and intervals.
    layers
        Which layer of a space or encoder; the last by default.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.
    **reading
        How the input is read: the fields of `theodolite.verbs.inputs.Reading`.

    Returns
    -------
    Result
        Score and gain of every change. The first note is the answer in one sentence, the second the command that applies it;
        `provenance["advice"]` has the recommended repair and its settings, or None.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.standard_normal((90, 4)) + 5
    >>> print(advise(X, labels=list("abc") * 30).notes[0].partition(":")[0])
    Leave it alone
    """
    from theodolite.advice.nested_validation import sampled, search

    if folds < 3:
        raise ValueError(f"{option('folds', str(folds))} must be at least 3: one to score on, one to choose on, one to fit on")
    options = Reading(**{**reading, "layers": layers})
    named = Signals(
        pairs=pairs, scores=scores, labels=labels, queries=queries, judgements=judgements, retrieval=retrieval, metric=metric
    )
    with progress_bars(progress) as bars:
        data = open_signal(source, named, options, bars)
        if data.signal is None:
            return _geometry(data, sample=sample, seed=seed)
        signal = sampled(data.signal, sample, seed=seed)
        advice = search(signal, folds=folds, seed=seed, progress=bars.stages())
    condition = f"measured on a sample of {len(signal):,} of {len(data.signal):,} {signal.noun}, seed {seed}"
    conditions = (condition,) if len(signal) < len(data.signal) else ()
    return replace(_result(data, advice, folds=folds, seed=seed), conditions=conditions)


def _result(data: SignalInput, advice: Advice, *, folds: int, seed: int) -> Result:
    from theodolite.core.rows import Row, current_versions

    about = {**data.about, "n": advice.n, "d": advice.d, "seed": seed, "versions": current_versions()}
    about.pop("setting", None)
    about.pop("state", None)
    gain = f"{advice.metric}_gain"
    rows: list[Row] = []
    for state, entries in ((REPAIR, advice.ranked), (COMPRESSION, advice.compressed)):
        for each in entries:
            where = {**about, "setting": str(each.change), "state": state}
            rows.append(Row(metric=advice.metric, value=each.value, reason=each.reason, **where))
            if not each.reason:
                rows.append(Row(metric=gain, value=each.gain, low=each.low, high=each.high, **where))
    choice = advice.gain
    where = {**about, "setting": str(advice.choice), "state": CHOICE}
    rows.append(Row(metric=gain, value=choice.gain, low=choice.low, high=choice.high, **where))
    recommended = advice.choice if advice.is_recommended else None
    answer = None
    if recommended:
        lines = recommended.commands(data.typed, *data.others, **data.pairs).split(" && ")
        answer = Answer(verdict="apply", sentence=_answer(advice), next=tuple(Command(words=line) for line in lines))
    notes = [] if recommended else [_answer(advice)]
    return Result(
        verb="advise",
        title=data.name,
        answer=answer,
        rows=tuple(rows),
        notes=(*notes, *_explanations(advice, folds), *data.notes),
        provenance=provenance(
            {"name": data.name, "n": advice.n, "d": advice.d, "unit": advice.noun},
            advice={
                "recommended": _plain(recommended),
                "best": _plain(advice.choice),
                "compression": _plain(advice.compression.change if advice.compression else None),
                "chosen_by_fold": [str(change) for change in advice.chosen],
                "sizes": {str(each.change): each.change.size(advice.d) for each in advice.compressed},
            },
        ),
    )


def _answer(advice: Advice) -> str:
    """The one sentence at the top."""
    from theodolite.metrics.registry import label_of

    gain, metric = advice.gain, label_of(advice.metric)
    numbers = f"{gain.gain:+.3f} {_interval(gain)}"
    if advice.is_recommended:
        return f"Recommended: {advice.choice}: {metric} {advice.base:.3f} → {gain.value:.3f}, a gain of {numbers}"
    tried = len(advice.ranked) - 1
    return (
        f"Leave it alone: none of {tried} repairs is shown to help; choosing the best, here {advice.choice}, changes {metric} "
        f"{advice.base:.3f} by {numbers}"
    )


def _explanations(advice: Advice, folds: int) -> list[str]:
    from theodolite.advice.nested_validation import TOLERATED

    counts = {str(change): advice.chosen.count(change) for change in advice.chosen}
    chosen = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
    method = (
        f"that gain is by nested cross-validation on {advice.n:,} {advice.noun}, {folds} folds: each is scored with the repair "
        f"that the others chose ({chosen}); gains in the list are of one repair each, and have not paid for the search"
    )
    small = advice.compression
    if small is None:
        return [method, f"Smaller vectors: each compression may cost more than {TOLERATED:g}"]
    size = f"{small.change.size(advice.d):.0%} of the size"
    cost = f"{small.gain:+.3f} {_interval(small)}"
    return [method, f"Smaller vectors: {small.change}, {size}, changes it by {cost}: at most {TOLERATED:g} lost"]


def _interval(scored: Scored) -> str:
    return "" if scored.low is None or scored.high is None else f"[{scored.low:+.3f}, {scored.high:+.3f}]"


def _plain(change: Change | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {"repair": change.repair, "settings": dict(change.settings), "compression": change.code}


def _geometry(data: SignalInput, *, sample: int, seed: int) -> Result:
    """Mean cosine and IsoScore after every repair, and the refusal to recommend one by them."""
    from theodolite.advice.changes import Change, fit_all, repair_grid, source_of
    from theodolite.core.moments import Moments
    from theodolite.core.rows import Row, current_versions
    from theodolite.core.sampling import sample_rows
    from theodolite.metrics.registry import METRICS

    X = data.vectors[sample_rows(len(data.vectors), sample, seed=seed)]
    rows = []
    whole = source_of(X, Moments.of(X.astype("float64")))
    for change in [Change(), *repair_grid(*X.shape, pairs=False)]:
        moments = Moments.of(fit_all([change], whole, seed=seed)[change](X))
        for name in GEOMETRY:
            value, reason = METRICS[name].value(moments)
            about = {**data.about, "n": len(X), "d": moments.d, "seed": seed, "versions": current_versions()}
            about |= {"setting": str(change), "state": REPAIR}
            rows.append(Row(metric=name, value=value, reason=reason, **about))
    signals = [
        f"scored pairs ({option('pairs', 'FILE')}, {option('scores', 'FILE')})",
        f"labels ({option('labels', 'FILE')})",
        f"or queries with judged documents ({option('queries', 'FILE')}, {option('judgements', 'FILE')})",
    ]
    refusal = (
        "No recommendation: geometry alone does not tell whether a repair helps; repairs that make a space more isotropic lower "
        f"the scores of many fine-tuned ones. Give something to measure by: {', '.join(signals)}"
    )
    notes = (refusal, *data.notes)
    facts = {"name": data.name, "n": len(X), "d": X.shape[1]}
    return Result(
        verb="advise", title=data.name, rows=tuple(rows), notes=notes, provenance=provenance(facts, advice={"recommended": None})
    )
