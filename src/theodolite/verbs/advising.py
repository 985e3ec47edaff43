"""The verb `advise`: which repair helps on the user's own data, or that none does, and what compression costs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

from theodolite.core.result import Result
from theodolite.core.spelling import TypedInput, option
from theodolite.verbs.inputs import (
    EncoderInput,
    Reading,
    ReadingOptions,
    VectorsInput,
    encoder_name,
    encoding_options,
    input_kind,
    open_input,
    reads_input,
    short_name,
    typed_input,
)
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.surveying import provenance

if TYPE_CHECKING:
    from theodolite.advice.changes import Change
    from theodolite.advice.nested_validation import Advice, Scored
    from theodolite.advice.scorers import Signal
    from theodolite.core.rows import Row
    from theodolite.core.vectors import Floats
    from theodolite.spaces.space import Space
    from theodolite.tasks.retrieval import Collection

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
    given = _Given(pairs, scores, labels, queries, judgements, retrieval, metric)
    with progress_bars(progress) as bars:
        data = _opened(source, given, options, bars)
        if data.signal is None:
            return _geometry(data, sample=sample, seed=seed)
        signal = sampled(data.signal, sample, seed=seed)
        if len(signal) < len(data.signal):
            note = f"measured on a sample of {len(signal):,} of {len(data.signal):,} {signal.noun}, seed {seed}"
            data = replace(data, notes=(*data.notes, note))
        advice = search(signal, folds=folds, seed=seed, progress=bars.stages())
    return _result(data, advice, folds=folds, seed=seed)


@dataclass(frozen=True)
class _Given:
    """The signals that a caller named."""

    pairs: Any
    scores: Any
    labels: Any
    queries: Any
    judgements: Any
    retrieval: File | None
    metric: str | None

    def __post_init__(self) -> None:
        for one, other, values in (("pairs", "scores", ("FILE", "FILE")), ("queries", "judgements", ("FILE", "FILE"))):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise ValueError(f"{option(one, values[0])} and {option(other, values[1])} go together; give both, or neither")
        if len(self.names) > 1:
            raise ValueError(f"{' and '.join(option(name, 'X') for name in self.names)} are different signals; give one of them")

    @property
    def names(self) -> list[str]:
        return [name for name in ("pairs", "labels", "queries", "retrieval") if getattr(self, name) is not None]

    def refuse(self, what: str, *but: str) -> None:
        """Raise if a signal was given that does not go with the kind of input."""
        wrong = next((name for name in self.names if name not in but), None)
        if wrong is not None:
            raise ValueError(f"{option(wrong, 'X')} does not go with {what}; {HINTS[wrong]}")


HINTS = {
    "pairs": "the other side of pairs is vectors, and so must the first be",
    "labels": "an encoder's labels come from its task, or from your own files",
    "queries": "vectors of queries are for vectors of documents; for an encoder, give the folder of texts",
    "retrieval": "a folder of texts needs an encoder to read it; for vectors, give queries and judgements",
}


@dataclass(frozen=True, eq=False)
class _Data:
    """Vectors with what is to be measured by, and how a command would name them."""

    name: str
    vectors: Floats
    signal: Signal | None
    typed: TypedInput
    about: dict[str, Any]
    notes: tuple[str, ...] = ()
    pairs: Mapping[str, str] = field(default_factory=dict)
    """The files of pairs and scores, for a repair that learns from them."""
    others: tuple[str, ...] = ()
    """Files of vectors that must go through the same repair."""


def _opened(source: Any, given: _Given, options: Reading, bars: Progress) -> _Data:
    """The vectors of any input, with the signal that was given or that it brings along."""
    if given.retrieval is not None:
        return _collection(source, given, options, bars)
    opened = open_input(source, _with_layers(source, options))
    if isinstance(opened, VectorsInput):
        return _vectors(opened, given, options, typed_input(source, opened))
    if isinstance(opened, EncoderInput):
        given.refuse("an encoder with texts")
        opened = EncoderInput(opened.model, _shipped_unit(opened.reading))
        return _space(opened.space(bars, frequencies=False), opened.name, given, opened.typed())
    given.refuse("a space", "labels")
    name = short_name(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else "space"
    return _space(opened, name, given, typed_input(source, opened), options.layers)


def _with_layers(source: Any, options: Reading) -> Reading:
    # "last" is the default of this verb, and says nothing about vectors, which have no layers.
    kind = input_kind(source, options)
    return replace(options, layers="all") if kind in ("file", "memory") and options.layers == "last" else options


def _shipped_unit(options: Reading) -> Reading:
    """With one vector for every text, pooled as most encoders are shipped, unless the caller or a task on words decides."""
    from theodolite.tasks.task import TEXT_UNIT

    task = options.declared_task()
    if options.unit is None and task is not None and task.kind in ("similarity", "classification"):
        return replace(options, unit=TEXT_UNIT)
    return options


def _vectors(opened: VectorsInput, given: _Given, options: Reading, typed: TypedInput) -> _Data:
    from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs
    from theodolite.core.vectors import array
    from theodolite.spaces.readers.label_files import checked_label, read_scores
    from theodolite.tasks.retrieval import judgements_of

    given.refuse("vectors", "pairs", "labels", "queries")
    X = array(opened.vectors)
    signal: Signal | None = None
    if given.pairs is not None:
        scores = read_scores(given.scores) if isinstance(given.scores, (str, os.PathLike)) else given.scores
        signal = ScoredPairs(X, _array(given.pairs, options), scores, metric=given.metric)
    elif given.labels is not None:
        labels = given.labels
        if isinstance(labels, (str, os.PathLike)):
            labels = opened.labels(os.fspath(labels), n=len(X))
        else:
            labels = [checked_label(f"row {row}", label) for row, label in enumerate(labels)]
        signal = LabelledRows(X, labels, metric=given.metric)
    elif given.queries is not None:
        asked = _array(given.queries, options)
        table = judgements_of(given.judgements, queries=len(asked), documents=len(X))
        signal = JudgedQueries(X, asked, table, metric=given.metric)
    name = short_name(opened.name)
    files = {each: getattr(given, each) for each in ("pairs", "scores")}
    # In memory they have no names; these are what a caller may have called them.
    pairs = {each: os.fspath(value) if isinstance(value, (str, os.PathLike)) else each for each, value in files.items()}
    others = tuple(os.fspath(each) for each in (given.pairs, given.queries) if isinstance(each, (str, os.PathLike)))
    return _Data(name, X, signal, typed, {"model": name}, opened.notes, pairs=pairs, others=others)


def _array(source: Any, options: Reading) -> Floats:
    """A second array or file of vectors, read as the first."""
    from theodolite.core.vectors import array

    opened = open_input(source, _with_layers(source, options))
    assert isinstance(opened, VectorsInput)
    return array(opened.vectors)


def _space(space: Space, name: str, given: _Given, typed: TypedInput, layers: Any = "last") -> _Data:
    """One layer of a space, with the pairs or labels that its rows know of."""
    import numpy as np

    from theodolite.advice.scorers import LabelledRows, ScoredPairs
    from theodolite.core.vectors import array
    from theodolite.spaces.space import choose_layers

    chosen = choose_layers(layers, space.layers)
    if len(chosen) != 1:
        raise ValueError(f"a repair belongs to one layer; {option('layers', str(layers))} names {len(chosen)}")
    X, rows = array(space[chosen[0]]), space.rows
    texts = list(rows["sentence"]) if "sentence" in rows else None
    signal: Signal | None = None
    if given.labels is None and "side" in rows and "score" in rows:
        left, right = (np.flatnonzero(np.asarray(rows["side"]) == side) for side in (0, 1))
        names = None if texts is None else ([texts[i] for i in left], [texts[i] for i in right])
        signal = ScoredPairs(X[left], X[right], np.asarray(rows["score"])[left], names=names, metric=given.metric)
    elif given.labels is not None or "label" in rows:
        labels = space.labels(given.labels or "label") if isinstance(given.labels, str | None) else given.labels
        # Words share a sentence without being the same text.
        signal = LabelledRows(X, labels, names=texts if space.unit not in ("words", "pairs") else None, metric=given.metric)
    if typed.path and not typed.before and chosen[0] != space.layers[-1]:
        typed = replace(typed, options={"layers": str(chosen[0])})
    return _Data(name, X, signal, typed, space.about(chosen[0]))


def _collection(source: Any, given: _Given, options: Reading, bars: Progress) -> _Data:
    """A BEIR folder, read by an encoder."""
    from theodolite.advice.scorers import JudgedQueries
    from theodolite.models.extraction import extract_space
    from theodolite.tasks.retrieval import read_beir

    if options.has_texts():
        raise ValueError(f"{option('retrieval', 'FOLDER')} brings its own texts; leave out the task or the texts")
    if input_kind(source, replace(options, texts=("",))) != "encoder":
        given.refuse("vectors or a space")
    assert given.retrieval is not None
    collection: Collection = read_beir(given.retrieval, options.split)
    encoder = options.load_encoder(source)
    spaces = [
        extract_space(encoder, texts, **encoding_options(options, options.unit or "mean", name, bars))
        for texts, name in ((collection.documents, "documents"), (collection.queries, "queries"))
    ]
    documents, queries = (space[space.layers[-1]] for space in spaces)
    signal = JudgedQueries(documents, queries, collection.judgements, metric=given.metric)
    about = spaces[0].about(spaces[0].layers[-1]) | {"task": collection.name}
    name = f"{encoder_name(source)}, {collection.name}"
    reading = replace(options, texts=os.fspath(given.retrieval), split=None, unit=options.unit or "mean")
    return _Data(name, documents, signal, EncoderInput(source, reading).typed(), about, collection.notes)


def _result(data: _Data, advice: Advice, *, folds: int, seed: int) -> Result:
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
    notes = [_answer(advice)]
    notes += [recommended.commands(data.typed, *data.others, **data.pairs)] if recommended else []
    return Result(
        verb="advise",
        title=data.name,
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


def _geometry(data: _Data, *, sample: int, seed: int) -> Result:
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
