"""What a user knows about their data, opened once for every verb: scored pairs, labels, or queries with judged documents."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.core.spelling import TypedInput, option
from theodolite.verbs.inputs import (
    EncoderInput,
    Reading,
    VectorsInput,
    encoder_name,
    encoding_options,
    input_kind,
    open_input,
    short_name,
    typed_input,
)

if TYPE_CHECKING:
    from theodolite.advice.scorers import Signal
    from theodolite.core.vectors import Floats
    from theodolite.spaces.space import Space
    from theodolite.verbs.progress import Progress

Labels: TypeAlias = str | os.PathLike[str] | Sequence[Any]

_HINTS = {
    "pairs": "the other side of pairs is vectors, and so must the first be",
    "labels": "an encoder's labels come from its task, or from your own files",
    "queries": "vectors of queries are for vectors of documents; for an encoder, give the folder of texts",
    "retrieval": "a folder of texts needs an encoder to read it; for vectors, give queries and judgements",
}


@dataclass(frozen=True, kw_only=True)
class Signals:
    """The signals that a caller named, checked to be one at most; `metric` is what to measure by.

    `pairs` and `scores` are the other side of scored pairs and one score per pair; `labels` a sequence, a column or
    FILE[:COLUMN]; `queries` and `judgements` vectors of queries and a table of query, document and grade; `retrieval` a BEIR
    folder.
    """

    pairs: Any = None
    scores: Any = None
    labels: Labels | None = None
    queries: Any = None
    judgements: Any = None
    retrieval: str | os.PathLike[str] | None = None
    metric: str | None = None

    def __post_init__(self) -> None:
        for first, second in (("pairs", "scores"), ("queries", "judgements")):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise ValueError(f"{option(first, 'FILE')} and {option(second, 'FILE')} go together; give both, or neither")
        if len(self.names) > 1:
            raise ValueError(f"{' and '.join(option(name, 'X') for name in self.names)} are different signals; give one of them")

    @property
    def names(self) -> list[str]:
        """The options that name a signal: one, or none."""
        return [name for name in ("pairs", "labels", "queries", "retrieval") if getattr(self, name) is not None]

    def refuse(self, what: str, *but: str) -> None:
        """Raise if a signal was named that does not go with this kind of input."""
        wrong = next((name for name in self.names if name not in but), None)
        if wrong is not None:
            raise ValueError(f"{option(wrong, 'X')} does not go with {what}; {_HINTS[wrong]}")


@dataclass(frozen=True, eq=False)
class SignalInput:
    """The vectors of one layer, with what they are measured by, and how a command would name them.

    `about` has the fields of their rows, `facts` what a result says of the input; `texts` is one per vector, or None.
    `pairs` names the files of pairs and scores, for a repair that learns from them; `others` are files of vectors that must go
    through the same repair.
    """

    name: str
    vectors: Floats
    signal: Signal | None
    typed: TypedInput
    about: dict[str, Any]
    notes: tuple[str, ...] = ()
    texts: Sequence[str] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    pairs: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()


def open_signal(source: Any, named: Signals, reading: Reading, progress: Progress) -> SignalInput:
    """The vectors of one layer of any input, with the signal that was named or that the input brings along.

    Without a name, a space or task of scored pairs or labels is its own signal; plain vectors and texts have none.
    """
    if named.retrieval is not None:
        return _of_folder(source, named, reading, progress)
    opened = open_input(source, _with_layers(source, reading))
    if isinstance(opened, VectorsInput):
        return _of_vectors(opened, named, reading, typed_input(source, opened))
    if isinstance(opened, EncoderInput):
        named.refuse("an encoder with texts")
        opened = EncoderInput(
            opened.model, replace(opened.reading, unit=opened.reading.unit_for(opened.model, one_per_text=True))
        )
        return _of_space(opened.space(progress, frequencies=False), opened.name, named, opened.typed())
    named.refuse("a space", "labels")
    name = short_name(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else "space"
    return _of_space(opened, name, named, typed_input(source, opened), reading.layers)


def row_labels(opened: VectorsInput | Space, labels: Labels | None, *, n: int) -> list[str]:
    """One label for each of n rows: those given, those of a file, or a column of the space (`label` by default) or table."""
    from theodolite.spaces.readers.label_files import checked_label

    if labels is not None and not isinstance(labels, (str, os.PathLike)):
        values = [checked_label(f"row {row}", label) for row, label in enumerate(labels)]
    elif isinstance(opened, VectorsInput):
        if labels is None:
            raise ValueError(f"{opened.name} has vectors but no labels; give {option('labels', 'FILE:COLUMN')}")
        values = opened.labels(os.fspath(labels), n=n)
    else:
        values = list(opened.labels(os.fspath(labels or "label")))
    if len(values) != n:
        title = opened.name if isinstance(opened, VectorsInput) else "the space"
        raise ValueError(f"there are {len(values):,} labels for the {n:,} rows of {title}; row i needs label i")
    return values


def _with_layers(source: Any, reading: Reading) -> Reading:
    # "last" is the default of verbs that look at one layer, and says nothing about vectors, which have no layers.
    kind = input_kind(source, reading)
    return replace(reading, layers="all") if kind in ("file", "memory") and reading.layers == "last" else reading


def _of_vectors(opened: VectorsInput, named: Signals, reading: Reading, typed: TypedInput) -> SignalInput:
    from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs
    from theodolite.core.vectors import array
    from theodolite.spaces.readers.label_files import read_scores
    from theodolite.tasks.retrieval import judgements_of

    named.refuse("vectors", "pairs", "labels", "queries")
    X = array(opened.vectors)
    signal: Signal | None = None
    if named.pairs is not None:
        scores = read_scores(named.scores) if isinstance(named.scores, (str, os.PathLike)) else named.scores
        signal = ScoredPairs(X, _array(named.pairs, reading), scores, metric=named.metric)
    elif named.labels is not None:
        signal = LabelledRows(X, row_labels(opened, named.labels, n=len(X)), metric=named.metric)
    elif named.queries is not None:
        queries = _array(named.queries, reading)
        table = judgements_of(named.judgements, queries=len(queries), documents=len(X))
        signal = JudgedQueries(X, queries, table, metric=named.metric)
    name = short_name(opened.name)
    files = {name: getattr(named, name) for name in ("pairs", "scores")}
    # In memory they have no names; these are what a caller may have called them.
    pairs = {name: os.fspath(value) if isinstance(value, (str, os.PathLike)) else name for name, value in files.items()}
    others = tuple(os.fspath(each) for each in (named.pairs, named.queries) if isinstance(each, (str, os.PathLike)))
    return SignalInput(name, X, signal, typed, {"model": name}, opened.notes, pairs=pairs, others=others)


def _array(source: Any, reading: Reading) -> Floats:
    """A second array or file of vectors, read as the first."""
    from theodolite.core.vectors import array

    opened = open_input(source, _with_layers(source, reading))
    assert isinstance(opened, VectorsInput)
    return array(opened.vectors)


def _of_space(space: Space, name: str, named: Signals, typed: TypedInput, layers: Any = "last") -> SignalInput:
    """One layer of a space, with the pairs or labels that its rows have."""
    import numpy as np

    from theodolite.advice.scorers import LabelledRows, ScoredPairs
    from theodolite.core.vectors import array
    from theodolite.spaces.space import choose_layers

    chosen = choose_layers(layers, space.layers)
    if len(chosen) != 1:
        raise ValueError(f"this looks at one layer; {option('layers', str(layers))} names {len(chosen)}")
    X, rows = array(space[chosen[0]]), space.rows
    texts = list(rows["sentence"]) if "sentence" in rows else None
    signal: Signal | None = None
    if named.labels is None and "side" in rows and "score" in rows:
        left, right = (np.flatnonzero(np.asarray(rows["side"]) == side) for side in (0, 1))
        names = None if texts is None else ([texts[i] for i in left], [texts[i] for i in right])
        signal = ScoredPairs(X[left], X[right], np.asarray(rows["score"])[left], names=names, metric=named.metric)
    elif named.labels is not None or "label" in rows:
        # Words share a sentence without being the same text.
        own = texts if space.unit not in ("words", "pairs") else None
        signal = LabelledRows(X, row_labels(space, named.labels, n=len(X)), names=own, metric=named.metric)
    if typed.path and not typed.before and chosen[0] != space.layers[-1]:
        typed = replace(typed, options={"layers": str(chosen[0])})
    return SignalInput(name, X, signal, typed, space.about(chosen[0]), texts=texts)


def _of_folder(source: Any, named: Signals, reading: Reading, progress: Progress) -> SignalInput:
    """A BEIR folder, read by an encoder."""
    from theodolite.advice.scorers import JudgedQueries
    from theodolite.models.extraction import extract_space
    from theodolite.tasks.retrieval import read_beir

    assert named.retrieval is not None
    if reading.has_texts():
        raise ValueError(f"{option('retrieval', 'FOLDER')} brings its own texts; leave out the task or the texts")
    if input_kind(source, replace(reading, texts=("",))) != "encoder":
        named.refuse("vectors or a space")
    collection = read_beir(named.retrieval, reading.split)
    encoder = reading.load_encoder(source)
    reading = replace(reading, texts=os.fspath(named.retrieval), split=None)
    reading = replace(reading, unit=reading.unit_for(source, one_per_text=True))
    spaces = [
        extract_space(encoder, texts, **encoding_options(reading, str(reading.unit), name, progress))
        for texts, name in ((collection.documents, "documents"), (collection.queries, "queries"))
    ]
    documents, queries = (space[space.layers[-1]] for space in spaces)
    signal = JudgedQueries(documents, queries, collection.judgements, metric=named.metric)
    about = spaces[0].about(spaces[0].layers[-1]) | {"task": collection.name}
    name = f"{encoder_name(source)}, {collection.name}"
    typed = EncoderInput(source, reading).typed()
    return SignalInput(name, documents, signal, typed, about, collection.notes, texts=collection.documents)
