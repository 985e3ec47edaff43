"""The verb `advise`: which repair helps on the user's own data, or that none does, and what compression costs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from theodolite.advice.changes import Change, Place, dimensions_to_try, repair_grid, source_of
from theodolite.advice.nested_validation import MOST_ITEMS, TOLERATED, Advice, sampled, search, search_places
from theodolite.core.moments import Moments
from theodolite.core.numbers import interval_text
from theodolite.core.result import Answer, Command, Result, table_of
from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_rows
from theodolite.core.spelling import command, option
from theodolite.metrics.registry import METRICS, label_of
from theodolite.verbs.inputs import Reading, ReadingOptions, reads_input
from theodolite.verbs.layer_choice import PlacedSignals, names_several, open_places
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.signals import SignalInput, Signals, open_signal
from theodolite.verbs.surveying import provenance

if TYPE_CHECKING:
    from theodolite.advice.scorers import Signal

SAMPLE = 10_000
"""Pairs, texts or queries that are looked at, at most."""
GEOMETRY = ("mean_cosine", "iso_score")
"""What is reported if there is nothing to measure by."""
REPAIR, COMPRESSION, LAYER, CHOICE = "repair", "compression", "layer", "choice"
"""The states of rows: what is tried, and the gain of choosing inside the folds."""

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
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    metric: str | None = None,
    worth: float = 0.02,
    dimensions: str | Sequence[int] | None = None,
    folds: int = 5,
    sample: int = SAMPLE,
    seed: int = 0,
    layers: str | int | Sequence[int] = "last",
    units: str | Sequence[str] | None = None,
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Find the repair that helps on your own data, or learn that none does: measured, with an interval, never guessed.

    Every repair is tried over a small grid, fitted on one part of the data and scored on another, by nested cross-validation:
    an inner part chooses, an outer fold scores the choice. The verdict is *apply* if the lower limit of that gain is above 0,
    *leave it alone* if no repair's upper limit reaches a gain worth having, and otherwise *not shown*, with the number of items
    that would settle it. Fewer dimensions and quantisation are measured too, alone and after a repair. Without a signal, only
    geometry is reported.

    With several `layers` or `units`, the candidates are layers and poolings instead of repairs, by the same rule: *leave it
    alone* means that what the model returns now is fine.

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
        Queries, and a table of query, document and grade: an array, a frame, or a file. `source` holds the documents: vectors or
        a space as the queries are, or an encoder with `texts`, which reads both. They are named by their ids, or by row numbers
        from 0 if they have none.
    retrieval
        A BEIR folder (`corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv`), which an encoder reads; `split` names the judgements.
    query_prompt, document_prompt
        What an encoder puts before queries and documents; the model's own prompts of these names by default.
    metric
        `spearman` for pairs; `knn_accuracy` or `linear_accuracy` for labels; `ndcg@K`, `recall@K` or `mrr` for queries. By
        default `spearman`, `knn_accuracy` and `ndcg@10`.
    worth
        The least gain that is worth having, in units of the metric.
    dimensions
        How many dimensions `pca` (the principal directions of most variance) and `truncate` (the first dimensions) keep: a
        sequence, or "64,128,256", which is also the default, as far as they are fewer than there are.
    folds
        Number of folds, at least 3. Pairs that share a sentence, and equal texts, are never on both sides.
    sample
        Most pairs, texts or queries to look at.
    seed
        Seed of folds, samples, k-means and intervals.
    layers
        Which layer of a space or encoder; the last by default. "all", "0,6,12" or a sequence: candidates to choose among.
    units
        Ways to pool an encoder's tokens to choose among, from the same pass: "mean,cls,max,last", or some of them. By default
        only the model's own.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.
    **reading
        How the input is read: the fields of `theodolite.verbs.inputs.Reading`.

    Returns
    -------
    Result
        The answer with the commands that apply it; score and gain of every change as rows; `provenance["advice"]` has the
        recommended repair and its settings (or layer and unit), or None; `records["smaller"]` the tolerable compressions with
        their commands.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.standard_normal((90, 4)) + 5
    >>> advise(X, labels=list("abc") * 30).answer.verdict
    'not shown'
    """
    if folds < 3:
        raise ValueError(f"{option('folds', str(folds))} must be at least 3: one to score on, one to choose on, one to fit on")
    if not worth > 0:
        raise ValueError(f"{option('worth', str(worth))} must be above 0: it is the least gain that is worth having")
    options = Reading(**{**reading, "layers": layers})
    named = Signals(
        pairs=pairs,
        scores=scores,
        labels=labels,
        queries=queries,
        judgements=judgements,
        retrieval=retrieval,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        metric=metric,
    )
    with progress_bars(progress) as bars:
        placed = open_places(source, named, options, units, bars) if names_several(layers, units) else None
        if placed is not None:
            return _of_places(placed, sample=sample, folds=folds, seed=seed, worth=worth, progress=bars)
        data = open_signal(source, named, options, bars)
        if data.signal is None:
            return _geometry(data, sample=sample, seed=seed)
        signal = sampled(data.signal, sample, seed=seed)
        advice = search(signal, folds=folds, seed=seed, worth=worth, dimensions=dimensions, progress=bars.stages())
    return _result(data, advice, _answer(data, advice, folds), seed=seed)


def _of_places(placed: PlacedSignals, *, sample: int, folds: int, seed: int, worth: float, progress: Progress) -> Result:
    """The choice of a layer and a pooling."""

    def signal_at(place: Place) -> Signal:
        return sampled(placed.signal_at(place), sample, seed=seed)

    advice = search_places(placed.places, signal_at, folds=folds, seed=seed, worth=worth, progress=progress.stages())
    return _result(placed.data, advice, _place_answer(placed, advice, folds), seed=seed, reference=placed.places[0])


def _result(data: SignalInput, advice: Advice, answer: Answer, *, seed: int, reference: Place | None = None) -> Result:
    assert data.signal is not None
    condition = f"measured on a sample of {advice.n:,} of {len(data.signal):,} {advice.noun}, seed {seed}"
    shared = {**data.about, "n": advice.n, "d": advice.d, "seed": seed, "versions": current_versions()}
    gain = f"{advice.metric}_gain"
    rows: list[Row] = []
    for state, entries in ((REPAIR if reference is None else LAYER, advice.ranked), (COMPRESSION, advice.compressed)):
        for scored in entries:
            where = {**shared, **scored.change.row_fields, "state": state}
            rows.append(Row(metric=advice.metric, value=scored.value, reason=scored.reason, **where))
            if not scored.reason and scored.change != reference:
                rows.append(Row(metric=gain, value=scored.gain, low=scored.low, high=scored.high, **where))
    where = {**shared, **advice.choice.row_fields, "state": CHOICE}
    rows.append(Row(metric=gain, value=advice.gain.gain, low=advice.gain.low, high=advice.gain.high, **where))
    return Result(
        verb="advise",
        title=data.name,
        answer=answer,
        rows=tuple(rows),
        records={"smaller": table_of(_smaller(data, advice))} if advice.smaller else {},
        conditions=(condition,) if advice.n < len(data.signal) else (),
        notes=data.notes,
        provenance=provenance(
            {**data.facts, "name": data.name, "n": advice.n, "d": advice.d, "unit": advice.noun},
            advice={
                "recommended": advice.choice.plain() if advice.is_recommended else None,
                "best": advice.choice.plain(),
                **({} if reference is None else {"in_use": reference.plain()}),
                "compression": advice.compression.change.plain() if advice.compression else None,
                "chosen_by_fold": [str(change) for change in advice.chosen],
                "sizes": {str(scored.change): scored.change.size(advice.d) for scored in advice.compressed},
            },
        ),
    )


def _answer(data: SignalInput, advice: Advice, folds: int) -> Answer:
    reasons = [_method(data, advice, folds)]
    lines = _lines(data, advice.choice) if advice.is_recommended else []
    commands = [Command(words=" && ".join(lines), why="fit the repair and apply it")] if lines else []
    reasons += _small_gain(advice)
    if advice.smaller:
        small = advice.smaller[-1]
        after = f" after {advice.choice}" if advice.is_recommended and small.change.before != advice.choice else ""
        size = f"{small.change.size(advice.d):.0%} of the size"
        change = f"{small.gain:+.3f} {interval_text(small.low, small.high, form='+.3f')}"
        reasons.append(
            f"Storing {small.change} takes {size} and changes the score{after} by {change}: less than {TOLERATED:.0%} is lost."
        )
        name = "repair" if small.change.before == advice.choice else "shorten"
        more = [line for line in _lines(data, small.change, name=name) if line not in lines]
        commands.append(Command(words=" && ".join(more), why=f"store vectors as {small.change}"))
    elif advice.is_above_chance:
        reasons.append(f"No smaller form of the vectors is shown to cost less than {TOLERATED:.0%} of the score.")
    return Answer(verdict=advice.verdict, sentence=_sentence(advice), reasons=tuple(reasons), next=tuple(commands))


def _place_answer(placed: PlacedSignals, advice: Advice, folds: int) -> Answer:
    """Which layer and pooling to use, and how; or that the one in use is fine."""
    in_use, place = placed.places[0], advice.choice
    assert isinstance(place, Place)
    method = f"In each of {folds} rounds, {folds - 1} folds chose the best of the others and the last one scored it"
    reasons = [f"You now use {in_use}. {method} ({_chosen(advice)}). The intervals in the list do not correct for the search."]
    commands = []
    if advice.is_recommended:
        typed = placed.typed_at(place)
        reasons += _small_gain(advice)
        if place.layer != in_use.layer:
            reasons.append(
                f"No model folder can be written that returns layer {place.layer}: sentence-transformers and repair export use "
                f"the last one. Extract the vectors, or take hidden state {place.layer} in your own code and pool it."
            )
        else:
            reasons.append(f"A sentence-transformers folder returns these vectors if its Pooling is set to {place.unit}.")
        words = typed.before or f"th.extract(model, texts, layers={place.layer}, unit={place.unit!r})"
        why = f"encode with {place}"
        if placed.data.encoder is None:
            words, why = f"th.advise(space, layers={place.layer})", f"measure whether a repair helps at {place}"
            if typed.path:
                words = command("repair advise", typed.path, **typed.options)
        commands.append(Command(words=words, why=why))
    sentence = _sentence(advice, "other layers and poolings")
    if advice.verdict == "leave it alone":
        sentence = f"Keep {in_use}: {sentence[:1].lower()}{sentence[1:]}"
    return Answer(verdict=advice.verdict, sentence=sentence, reasons=tuple(reasons), next=tuple(commands))


def _small_gain(advice: Advice) -> Iterator[str]:
    """A remark on a gain that is certain and less than what is worth having."""
    if advice.is_recommended and advice.gain.high is not None and advice.gain.high < advice.worth:
        yield f"The gain is real but smaller than the {advice.worth:g} that counts as worth having."


def _chosen(advice: Advice) -> str:
    """What the folds chose, the most frequent first."""
    counts = Counter(map(str, advice.chosen))
    return ", ".join(f"{name} {count}×" if count > 1 else name for name, count in counts.most_common())


def _sentence(advice: Advice, tried_nouns: str = "repairs") -> str:
    """The conclusion, with its numbers."""
    gain, metric, tried = advice.gain, label_of(advice.metric), f"{len(advice.candidates)} {tried_nouns}"
    change = f"{metric} {advice.base:.3f} → {gain.value:.3f}, {gain.gain:+.3f} {interval_text(gain.low, gain.high, form='+.3f')}"
    if not advice.is_above_chance:
        return (
            f"Neither the vectors as they are ({metric} {advice.base:.3f}) nor the best of {tried} ({gain.value:.3f}) scores "
            f"above chance ({advice.chance:.3f}) on {advice.n:,} {advice.noun}, so they cannot be compared."
        )
    # The nested score is that of the search: of one candidate only if every round chose it.
    is_unanimous = set(advice.chosen) == {advice.choice}
    subject = f"Using {advice.choice}" if is_unanimous else f"Choosing among {tried} on other {advice.noun}"
    best_of_all = "" if is_unanimous else f"; on all of them {advice.choice} scores best"
    if advice.verdict == "apply":
        return f"{subject} raises {change}{best_of_all}."
    best, limit = advice.most_promising
    if advice.verdict == "leave it alone":
        return (
            f"None of {tried} can be expected to raise {metric} {advice.base:.3f} by {advice.worth:g}; {best.change} "
            f"comes closest with {best.gain:+.3f}, at most {limit:+.3f}."
        )
    settle = f"it would take more than {MOST_ITEMS * advice.n:,} {advice.noun} to settle it"
    if (items := advice.items_to_settle) is not None:
        settle = f"about {items:,} {advice.noun} would settle it"
    if gain.low is not None and gain.gain + gain.low > 0:  # more than half of the way to the lower limit: one standard error
        return f"{subject} probably raises {change}{best_of_all}; {settle}."
    return (
        f"None of {tried} is shown to help ({subject[:1].lower()}{subject[1:]} gives {change}), but {best.change} may gain up to "
        f"{limit:+.3f}; {settle}."
    )


def _method(data: SignalInput, advice: Advice, folds: int) -> str:
    """What was fitted on what, and what chose."""
    rows = f"on {advice.noun} other than those it was scored on"
    if data.signal is not None and not data.signal.refits:
        rows = f"on all {len(data.vectors):,} documents, without the queries and their judgements"
    return (
        f"Each repair was fitted {rows}. In each of {folds} rounds, {folds - 1} folds chose the best and the last one "
        f"scored it ({_chosen(advice)}). The intervals in the list do not correct for the search."
    )


def _lines(data: SignalInput, change: Change, *, name: str = "repair") -> list[str]:
    return change.commands(data.typed, *data.others, name=name, **data.pairs)


def _smaller(data: SignalInput, advice: Advice) -> Iterator[dict[str, Any]]:
    """The tolerable compressions, the largest first, with their cost and the commands that build them."""
    for scored in advice.smaller:
        change, cost = scored.change, {"gain": scored.gain, "low": scored.low, "high": scored.high}
        size = {"form": str(change), "size": change.size(advice.d), "score": scored.value}
        yield size | cost | {"commands": _lines(data, change)}


def _geometry(data: SignalInput, *, sample: int, seed: int) -> Result:
    """Mean cosine and IsoScore after every repair, and the refusal to recommend one by them."""
    X = data.vectors[sample_rows(len(data.vectors), sample, seed=seed)]
    rows, source = [], source_of(X, Moments.of(X.astype("float64")))
    shared = {**data.about, "n": len(X), "seed": seed, "versions": current_versions(), "state": REPAIR}
    for change in [Change(), *repair_grid(*X.shape, pairs=False, dimensions=dimensions_to_try(None, X.shape[1]))]:
        moments = Moments.of(change.fit(source, seed=seed)(X))
        for name in GEOMETRY:
            value, reason = METRICS[name].value(moments)
            rows.append(Row(metric=name, value=value, reason=reason, **shared | {"d": moments.d, "setting": str(change)}))
    ways = [
        f"scored pairs ({option('pairs', 'FILE')}, {option('scores', 'FILE')})",
        f"labels ({option('labels', 'FILE')})",
        f"or queries with judged documents ({option('queries', 'FILE')}, {option('judgements', 'FILE')})",
    ]
    answer = Answer(
        verdict="not shown",
        sentence="Geometry alone does not show whether a repair helps, so none is recommended.",
        reasons=(
            "Repairs that make a space more isotropic lower the scores of many fine-tuned encoders.",
            f"Give data to measure on: {', '.join(ways)}.",
        ),
    )
    origin = provenance({**data.facts, "name": data.name, "n": len(X), "d": X.shape[1]}, advice={"recommended": None})
    return Result(verb="advise", title=data.name, answer=answer, rows=tuple(rows), notes=data.notes, provenance=origin)
