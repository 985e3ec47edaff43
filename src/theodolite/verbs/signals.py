"""What a user knows about their data, opened once for every verb: scored pairs, labels, or queries with judged documents."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.core.numbers import duration_text
from theodolite.core.spelling import TypedInput, option
from theodolite.verbs.inputs import (
    EncoderInput,
    Reading,
    VectorsInput,
    encoder_facts,
    encoder_name,
    encoding_options,
    input_kind,
    input_name,
    open_input,
    readings_for,
    short_name,
    typed_input,
)

if TYPE_CHECKING:
    from theodolite.advice.scorers import Signal
    from theodolite.core.vectors import Floats, Indices
    from theodolite.models.encoder import Encoder
    from theodolite.spaces.space import Origin, Space
    from theodolite.tasks.retrieval import Collection, Judgements
    from theodolite.verbs.progress import Progress

PLURALS = {"document": "documents", "query": "queries"}
TIMED = 32  # texts that the speed of an encoder is measured on
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
    FILE[:COLUMN]; `queries` and `judgements` vectors or texts of queries and a table of query, document and grade; `retrieval` a
    BEIR folder. `query_prompt` and `document_prompt` are put before texts, instead of the model's own prompts of these names.
    Queries without judgements are a signal of nothing, and are allowed if `needs_judgements` is False.
    """

    pairs: Any = None
    scores: Any = None
    labels: Labels | None = None
    queries: Any = None
    judgements: Any = None
    retrieval: str | os.PathLike[str] | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    metric: str | None = None
    needs_judgements: bool = True

    def __post_init__(self) -> None:
        for first, second in (("pairs", "scores"), ("queries", "judgements")):
            is_enough = first == "queries" and self.judgements is None and not self.needs_judgements
            if (getattr(self, first) is None) != (getattr(self, second) is None) and not is_enough:
                raise ValueError(f"{option(first, 'FILE')} and {option(second, 'FILE')} go together; give both, or neither")
        if len(self.names) > 1:
            raise ValueError(f"{' and '.join(option(name, 'X') for name in self.names)} are different signals; give one of them")
        for name in ("query_prompt", "document_prompt"):
            if getattr(self, name) is not None and self.queries is None and self.retrieval is None:
                raise ValueError(
                    f"{option(name, 'TEXT')} is for an encoder that reads queries; give {option('retrieval', 'FOLDER')}"
                )

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

    `about` has the fields of their rows, `facts` what a result says of the input; `texts` is one per vector, or None;
    `encoder` is the one that encoded them just now.
    `pairs` names the files of pairs and scores, for a repair that learns from them; `others` are files of vectors that must go
    through the same repair. `queries` are the vectors of queries, with their ids and texts as far as they are known, and `space`
    has the documents that the encoder read.
    """

    name: str
    vectors: Floats
    signal: Signal | None
    typed: TypedInput
    about: dict[str, Any]
    notes: tuple[str, ...] = ()
    texts: Sequence[str] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    encoder: Encoder | None = None
    pairs: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    queries: Floats | None = None
    query_ids: Sequence[str] | None = None
    query_texts: Sequence[str] = ()
    space: Space | None = None


def open_signal(source: Any, named: Signals, reading: Reading, progress: Progress) -> SignalInput:
    """The vectors of one layer of any input, with the signal that was named or that the input brings along.

    Without a name, a space or task of scored pairs or labels is its own signal; plain vectors and texts have none.
    """
    if named.retrieval is not None or (named.queries is not None and reading.has_texts()):
        return _of_collection(source, named, reading, progress)
    opened = open_input(source, _with_layers(source, reading))
    if isinstance(opened, EncoderInput):
        from theodolite.spaces.cache import VectorCache

        named.refuse("an encoder with texts")
        own = opened.reading
        opened = EncoderInput(opened.model, replace(own, unit=own.unit_for(opened.model, one_per_text=True)))
        name, typed, cache = opened.name, opened.typed(), VectorCache()  # reads the texts, before an encoder is loaded for them
        encoder = own.load_encoder(opened.model)
        space = EncoderInput(encoder, opened.reading).space(progress, frequencies=False, cache=cache)
        data = _of_rows(space, name, named, own, typed)
        return replace(data, notes=(*data.notes, cache.note), encoder=encoder)
    for name in ("query_prompt", "document_prompt"):
        if getattr(named, name) is not None:
            raise ValueError(f"{option(name, 'TEXT')} is for texts, and these vectors are encoded already; leave it out")
    typed = typed_input(source, opened)
    if isinstance(opened, VectorsInput):
        return _of_rows(opened, short_name(opened.name), named, reading, typed)
    name = short_name(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else "space"
    return _of_rows(opened, name, named, reading, typed)


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


def _of_rows(opened: VectorsInput | Space, name: str, named: Signals, reading: Reading, typed: TypedInput) -> SignalInput:
    """Vectors, or one layer of a space, with the signal that was named or that the rows of the space have."""
    import numpy as np

    from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs
    from theodolite.spaces.readers.label_files import read_scores
    from theodolite.tasks.retrieval import judgements_of

    kind = "vectors" if isinstance(opened, VectorsInput) else "a space"
    named.refuse(kind, *(["pairs"] if isinstance(opened, VectorsInput) else []), "labels", "queries")
    X, layer = _vectors(opened, reading)
    rows = {} if isinstance(opened, VectorsInput) else opened.rows
    texts = list(rows["sentence"]) if "sentence" in rows else None
    signal: Signal | None = None
    queries, query_ids = None, None
    if named.queries is not None:
        other = open_input(named.queries, _with_layers(named.queries, reading))
        assert not isinstance(other, EncoderInput)
        queries = _vectors(other, reading)[0]
        numbers = {"queries": _ids(other, len(queries)), "documents": _ids(opened, len(X))}
        query_ids = None if isinstance(numbers["queries"], int) else numbers["queries"]
        if named.judgements is not None:
            signal = JudgedQueries(X, queries, judgements_of(named.judgements, **numbers), metric=named.metric)
    elif named.pairs is not None:
        scores = read_scores(named.scores) if isinstance(named.scores, (str, os.PathLike)) else named.scores
        other = open_input(named.pairs, _with_layers(named.pairs, reading))
        assert isinstance(other, VectorsInput)
        signal = ScoredPairs(X, _vectors(other, reading)[0], scores, metric=named.metric)
    elif named.labels is None and "side" in rows and "score" in rows:
        left, right = (np.flatnonzero(np.asarray(rows["side"]) == side) for side in (0, 1))
        names = None if texts is None else ([texts[i] for i in left], [texts[i] for i in right])
        signal = ScoredPairs(X[left], X[right], np.asarray(rows["score"])[left], names=names, metric=named.metric)
    elif named.labels is not None or "label" in rows:
        # Words share a sentence without being the same text.
        own = None if isinstance(opened, VectorsInput) or opened.unit in ("words", "pairs") else texts
        signal = LabelledRows(X, row_labels(opened, named.labels, n=len(X)), names=own, metric=named.metric)
    files = {name: getattr(named, name) for name in ("pairs", "scores")}
    # In memory they have no names; these are what a caller may have called them.
    pairs = {name: os.fspath(value) if isinstance(value, (str, os.PathLike)) else name for name, value in files.items()}
    others = tuple(os.fspath(each) for each in (named.pairs, named.queries) if isinstance(each, (str, os.PathLike)))
    data = SignalInput(name, X, signal, typed, {"model": name}, texts=texts, pairs=pairs, others=others)
    data = replace(data, queries=queries, query_ids=query_ids)
    if isinstance(opened, VectorsInput):
        return replace(data, notes=opened.notes)
    if typed.path and not typed.before and layer != opened.layers[-1]:
        typed = replace(typed, options={"layers": str(layer)})
    return replace(data, typed=typed, about=opened.about(layer), facts=encoder_facts(opened.origin))


def _vectors(opened: VectorsInput | Space, reading: Reading) -> tuple[Floats, int]:
    """The vectors and the number of their layer, -1 if they have none."""
    from theodolite.core.vectors import array
    from theodolite.spaces.space import choose_layers

    if isinstance(opened, VectorsInput):
        return array(opened.vectors), -1
    chosen = choose_layers(reading.layers, opened.layers)
    if len(chosen) != 1:
        raise ValueError(f"choose one layer; {option('layers', str(reading.layers))} names {len(chosen)}")
    return array(opened[chosen[0]]), chosen[0]


def _ids(opened: VectorsInput | Space, n: int) -> Sequence[str] | int:
    """The ids of rows, or how many there are if they have none."""
    from theodolite.tasks.retrieval import ID_COLUMNS, unique_ids

    if isinstance(opened, VectorsInput):
        return opened.ids(n=n) or n
    column = next((name for name in ID_COLUMNS if name in opened.rows), None)
    return n if column is None else unique_ids([str(value) for value in opened.rows[column]], "the space")


def _of_collection(source: Any, named: Signals, reading: Reading, progress: Progress) -> SignalInput:
    """Documents and queries, read by an encoder: a BEIR folder, or texts, queries and a table of judgements."""
    collection, reading = read_collection(source, named, reading)
    return _CollectionReader.of(source, collection, named, reading, progress).encoded()


def read_collection(source: Any, named: Signals, reading: Reading) -> tuple[Collection, Reading]:
    """Documents, queries and judgements for an encoder, and the reading options that name the documents' texts."""
    from theodolite.tasks.retrieval import read_beir

    folder = named.retrieval
    if folder is not None and reading.has_texts():
        raise ValueError(f"{option('retrieval', 'FOLDER')} brings its own texts; leave out the task or the texts")
    if input_kind(source, replace(reading, texts=("",))) != "encoder":
        named.refuse("vectors or a space")
    collection = _collection_of_texts(named, reading) if folder is None else read_beir(folder, reading.split)
    return collection, _of_texts(named, reading)


def _of_texts(named: Signals, reading: Reading) -> Reading:
    """The reading options that name the texts of a collection's documents."""
    folder = named.retrieval
    return replace(reading, texts=reading.texts if folder is None else os.fspath(folder), split=None)


@dataclass(frozen=True, eq=False)
class _CollectionReader:
    """An encoder that is to read the documents and the queries of a collection: `roles` has what extraction takes for each."""

    source: Any
    encoder: Encoder
    reading: Reading
    collection: Collection
    metric: str | None
    roles: tuple[dict[str, Any], dict[str, Any]]

    @classmethod
    def of(cls, source: Any, collection: Collection, named: Signals, reading: Reading, progress: Progress) -> _CollectionReader:
        """Load the encoder, without encoding anything."""
        reading = replace(_of_texts(named, reading), unit=reading.unit_for(source, one_per_text=True))
        if reading.unit in ("tokens", "words", "pairs"):
            raise ValueError(f"{option('unit', reading.unit)} gives queries no vector of their own; use mean, cls, max or last")
        encoder, roles = reading.load_encoder(source), []
        prompts = {"document": (collection.documents, named.document_prompt), "query": (collection.queries, named.query_prompt)}
        for role, (texts, prompt) in prompts.items():
            reader, texts, origin = prompted(encoder, reading, role, texts, prompt)
            options = encoding_options(reading, str(reading.unit), PLURALS[role], progress)
            roles.append({"encoder": reader, "texts": texts, "origin": origin, **options})
        return cls(source, encoder, reading, collection, named.metric, (roles[0], roles[1]))

    def encoded(self) -> SignalInput:
        """The vectors, from the cache if they are there."""
        from theodolite.advice.scorers import JudgedQueries
        from theodolite.models.extraction import extract_space
        from theodolite.spaces.cache import VectorCache

        cache, collection = VectorCache(), self.collection
        spaces = [extract_space(role["encoder"], cache=cache, **_without_encoder(role)) for role in self.roles]
        documents, queries = (space[space.layers[-1]] for space in spaces)
        facts = encoder_facts(spaces[0].origin)
        facts["encoder"] |= {"texts": len(documents) + len(queries), "query_prompt": spaces[1].origin.prompt}
        is_judged = len(collection.judgements.query) > 0
        return SignalInput(
            f"{encoder_name(self.source)}, {collection.name}",
            documents,
            JudgedQueries(documents, queries, collection.judgements, metric=self.metric) if is_judged else None,
            EncoderInput(self.source, self.reading).typed(),
            spaces[0].about(spaces[0].layers[-1]) | {"task": collection.name},
            (*collection.notes, cache.note),
            texts=collection.documents,
            facts=facts,
            encoder=self.encoder,
            queries=queries,
            query_texts=collection.queries,
            space=spaces[0],
        )

    def time_to_encode(self) -> str:
        """What is not in the cache, and how long it takes at the speed of a small batch; empty if that is nothing, or little."""
        from theodolite.models.extraction import extract_space
        from theodolite.spaces.cache import StoredVectors

        missing: list[tuple[str, dict[str, Any]]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come when the texts are encoded
            for name, role in zip(PLURALS.values(), self.roles, strict=True):
                try:
                    extract_space(role["encoder"], cache=StoredVectors(), **_without_encoder(role))
                except KeyError:
                    missing.append((name, role))
            total = sum(len(role["texts"]) for _, role in missing)
            if total < 4 * TIMED:
                return ""
            role = missing[0][1]
            some = role["texts"][:: max(1, len(role["texts"]) // TIMED)][:TIMED]
            for texts in (some[:4], some):  # the first call of an encoder is slower than the others
                start = time.perf_counter()
                extract_space(role["encoder"], **_without_encoder(role) | {"texts": texts, "progress": None})
        speed = len(some) / (time.perf_counter() - start)
        counts = " and ".join(f"{len(role['texts']):,} {name}" for name, role in missing)
        return f"{counts} with {encoder_name(self.source)}: {duration_text(total / speed)} at {speed:.0f} texts per second"


def _without_encoder(role: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in role.items() if name != "encoder"}


@dataclass(frozen=True, kw_only=True)
class ChangeSignals:
    """What a change of model is measured by, each pair for the old and the new side; all None if there is nothing.

    `queries` are vectors, for sides that are vectors; `retrieval` is a BEIR folder, whose texts encoders read and whose ids
    vectors must have; without it `judgements` is a table of query, document and grade.
    """

    queries: tuple[Any, Any] = (None, None)
    judgements: Any = None
    retrieval: str | os.PathLike[str] | None = None
    unit: tuple[str | None, str | None] = (None, None)
    query_prompt: tuple[str | None, str | None] = (None, None)
    document_prompt: tuple[str | None, str | None] = (None, None)

    def __post_init__(self) -> None:
        given = [each is not None for each in self.queries]
        if self.retrieval is not None and self.judgements is not None:
            raise ValueError(
                f"{option('retrieval', 'FOLDER')} brings its own judgements; leave out {option('judgements', 'FILE')}"
            )
        if self.retrieval is None and len({*given, self.judgements is not None}) > 1:
            names = [option(name, "FILE") for name in ("queries_old", "queries_new", "judgements")]
            raise ValueError(f"{names[0]}, {names[1]} and {names[2]} go together; give all three, or none")

    @property
    def is_given(self) -> bool:
        """Whether there are judged queries."""
        return self.retrieval is not None or self.judgements is not None

    def of_side(self, number: int, kind: str) -> Signals:
        """The signals of one side, checked against what the side is."""
        word = ("old", "new")[number]
        is_encoder, queries = kind == "encoder", self.queries[number]
        if is_encoder and self.judgements is not None:
            raise ValueError(
                f"{option('judgements', 'FILE')} goes with stored vectors, and {word.upper()} is an encoder; give the texts as a "
                f"BEIR folder: {option('retrieval', 'FOLDER')}"
            )
        if is_encoder and queries is not None:
            raise ValueError(
                f"{option(f'queries_{word}', 'FILE')} is for stored vectors, and {word.upper()} is an encoder, which reads the "
                f"queries of {option('retrieval', 'FOLDER')}; leave it out"
            )
        if self.is_given and not is_encoder and queries is None:
            raise ValueError(
                f"{word.upper()} is stored vectors, so its model's vectors of the queries are needed too: "
                f"{option(f'queries_{word}', 'FILE')}"
            )
        if not is_encoder and self.unit[number] is not None:
            raise ValueError(f"{option(f'unit_{word}', 'UNIT')} is for an encoder, and {word.upper()} is vectors; leave it out")
        prompts = {"query_prompt": self.query_prompt[number], "document_prompt": self.document_prompt[number]}
        given = next((name for name, prompt in prompts.items() if prompt is not None), None)
        if given is not None and (not is_encoder or self.retrieval is None):
            name = option(f"{given}_{word}", "TEXT")
            raise ValueError(f"{name} is for an encoder that reads queries; give {option('retrieval', 'FOLDER')}")
        return Signals(retrieval=self.retrieval, **prompts) if is_encoder else Signals()


def open_change(
    sources: tuple[Any, Any], named: ChangeSignals, reading: Reading, progress: Progress
) -> tuple[SignalInput, SignalInput]:
    """The same documents, and queries if there are any, as two models embed them: row i of both sides is the same text.

    What encoders have to read, and how long that will take, is announced before they do.
    """
    from theodolite.tasks.retrieval import judgements_of, read_beir

    is_text = named.retrieval is not None
    if is_text and reading.has_texts():
        raise ValueError(f"{option('retrieval', 'FOLDER')} brings its own texts; leave out the task or the texts")
    kinds = [input_kind(source, replace(reading, texts=("",)) if is_text else reading) for source in sources]
    signals = [named.of_side(number, kind) for number, kind in enumerate(kinds)]
    collection = None if named.retrieval is None else read_beir(named.retrieval, reading.split)
    readings = readings_for(kinds, reading, also=("layers", "split") if is_text else ("layers",))
    readers: dict[int, _CollectionReader] = {}
    stored: dict[int, _StoredSide] = {}
    for number, (source, kind) in enumerate(zip(sources, kinds, strict=True)):
        if kind != "encoder":
            stored[number] = _StoredSide.of(source, named.queries[number], replace(readings[number], split=None))
            continue
        readings[number] = replace(readings[number], unit=named.unit[number] or readings[number].unit)
        if collection is not None:
            readers[number] = _CollectionReader.of(source, collection, signals[number], readings[number], progress)
    announced = "; ".join(filter(None, (reader.time_to_encode() for reader in readers.values())))
    if announced:
        progress.announce(f"to be encoded: {announced} (measured on {TIMED} texts)")
    sides: dict[int, SignalInput] = {number: reader.encoded() for number, reader in readers.items()}
    if collection is not None:
        ids: dict[str, Sequence[str] | int] = {"documents": collection.document_ids, "queries": collection.query_ids}
        folder = short_name(os.fspath(named.retrieval or ""))
        for number, side in stored.items():
            sides[number] = side.aligned(ids, folder, ("OLD", "NEW")[number], may_have_more=True).judged(collection.judgements)
    elif len(stored) == 2:
        ids = {"documents": stored[0].ids, "queries": stored[0].query_ids}
        stored[1] = stored[1].aligned(ids, "OLD", "NEW")
        if named.judgements is not None:
            judgements = judgements_of(named.judgements, queries=stored[0].query_ids, documents=stored[0].ids)
            sides = {number: side.judged(judgements) for number, side in stored.items()}
        else:
            sides = {number: side.data for number, side in stored.items()}
    else:
        opened = [open_signal(source, Signals(), each, progress) for source, each in zip(sources, readings, strict=True)]
        if len(opened[0].vectors) != len(opened[1].vectors):
            counts = " and ".join(f"{len(side.vectors):,}" for side in opened)
            raise ValueError(
                f"the two sides have {counts} rows; row i of both must be the same text, so give both the same texts"
            )
        sides = dict(enumerate(opened))
    notes = (*sides[1].notes, f"encoded: {announced}, as expected from {TIMED} texts") if announced else sides[1].notes
    return sides[0], replace(sides[1], notes=notes)


@dataclass(frozen=True, eq=False)
class _StoredSide:
    """Documents that are vectors already, and queries of the same model if there are any; ids, or how many rows there are."""

    data: SignalInput
    ids: Sequence[str] | int
    queries: Floats | None = None
    query_ids: Sequence[str] | int = 0

    @classmethod
    def of(cls, source: Any, queries: Any, reading: Reading) -> _StoredSide:
        opened = open_input(source, _with_layers(source, reading))
        assert not isinstance(opened, EncoderInput)
        X, layer = _vectors(opened, reading)
        name = short_name(input_name(source))
        data = SignalInput(name, X, None, typed_input(source, opened), {"model": name})
        if isinstance(opened, VectorsInput):
            data = replace(data, notes=opened.notes)
        else:
            data = replace(data, about=opened.about(layer), facts=encoder_facts(opened.origin))
        ids = _ids(opened, len(X))
        if queries is None:
            return cls(data, ids)
        other = open_input(queries, _with_layers(queries, reading))
        assert not isinstance(other, EncoderInput)
        Q = _vectors(other, reading)[0]
        return cls(data, ids, Q, _ids(other, len(Q)))

    def aligned(
        self, ids: Mapping[str, Sequence[str] | int], other: str, side: str, *, may_have_more: bool = False
    ) -> _StoredSide:
        """The same with documents and queries in the order of these ids."""
        rows = _matching_rows(ids["documents"], self.ids, "documents", other, side, may_have_more)
        data = replace(self.data, vectors=self.data.vectors[rows])
        if self.queries is None:
            return replace(self, data=data, ids=ids["documents"])
        queries = _matching_rows(ids["queries"], self.query_ids, "queries", other, side, may_have_more)
        return replace(self, data=data, ids=ids["documents"], queries=self.queries[queries], query_ids=ids["queries"])

    def judged(self, judgements: Judgements) -> SignalInput:
        from theodolite.advice.scorers import JudgedQueries

        assert self.queries is not None
        return replace(self.data, signal=JudgedQueries(self.data.vectors, self.queries, judgements))


def common_rows(source: Any, target: Any, reading: Reading) -> tuple[Floats, Floats]:
    """The rows of the target, and those of the source with the same ids, or all of both if neither has ids."""
    whole, part = (_StoredSide.of(each, None, reading) for each in (source, target))
    names = (short_name(whole.data.name), short_name(part.data.name))
    rows = _matching_rows(part.ids, whole.ids, "rows", names[1], names[0], may_have_more=True)
    return whole.data.vectors[rows], part.data.vectors


def _matching_rows(
    wanted: Sequence[str] | int, ids: Sequence[str] | int, what: str, other: str, side: str, may_have_more: bool
) -> Indices:
    """The rows of one side that have the ids of the other, in its order; all rows as they are if neither has ids."""
    import numpy as np

    if isinstance(wanted, int) and isinstance(ids, int):
        if wanted != ids:
            raise ValueError(
                f"{other} has {wanted:,} {what} and {side} {ids:,}, and they have no ids to match them by; row i of both must "
                f"be the same {what}, or both need a column `id`"
            )
        return np.arange(ids)
    if isinstance(wanted, int) or isinstance(ids, int):
        without = other if isinstance(wanted, int) else side
        raise ValueError(
            f"the {what} of {side if without == other else other} have ids and those of {without} have none, so they cannot be "
            f"matched; give {without} a table with a column `id`"
        )
    position = {name: row for row, name in enumerate(ids)}
    checks = [(other, side, [name for name in wanted if name not in position], len(wanted))]
    if not may_have_more:
        known = set(wanted)
        checks.append((side, other, [name for name in ids if name not in known], len(ids)))
    for there, here, missing, count in checks:
        if missing:
            raise ValueError(
                f"{len(missing):,} of {count:,} {what} of {there} are not in {here}, such as {missing[0]!r}; both sides need the "
                f"same {what}, so embed these with both models, or leave them out of {there}"
            )
    return np.array([position[name] for name in wanted], dtype=np.intp)


def prompted(
    encoder: Encoder, reading: Reading, role: str, texts: Sequence[str], prompt: str | None
) -> tuple[Encoder, Sequence[str], Origin]:
    """The encoder as it reads queries or documents, with the texts it is to read, and what to note of the prompt."""
    from theodolite.spaces.space import Origin

    pipeline = encoder.pipeline if reading.unit == "text" else None
    if pipeline is not None and pipeline.module is not None:
        return encoder.for_role(role, prompt), texts, Origin()
    # Without a pipeline, a prompt is the beginning of the text.
    return encoder, tuple(f"{prompt or ''}{text}" for text in texts), Origin(prompt=prompt or "")


def _collection_of_texts(named: Signals, reading: Reading) -> Collection:
    """The documents that the reading options name, with queries and a table of judgements, by ids if the files have them."""
    import numpy as np

    from theodolite.tasks.retrieval import QUERIES, Collection, Judgements, TextRecords, judgements_of, read_text_records

    if reading.require_texts() is not None:
        raise ValueError(f"{option('queries', 'FILE')} goes with documents, not with a task: {option('texts', 'FILE')}")
    options = {name: getattr(reading, name) for name in ("encoding", "delimiter", "header")}
    queries = named.queries
    if isinstance(queries, (str, os.PathLike)) and Path(queries).is_dir():
        queries = Path(queries) / QUERIES
    sources: list[Any] = [reading.texts, queries]
    sides = [
        read_text_records(each, reading.column, **options) if isinstance(each, (str, os.PathLike)) else TextRecords(tuple(each))
        for each in sources
    ]
    documents, asked = (side.ids if side.ids is not None else len(side.texts) for side in sides)
    table = Judgements(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0))
    if named.judgements is not None:
        table = judgements_of(named.judgements, queries=asked, documents=documents)
    name = short_name(os.fspath(reading.texts)) if isinstance(reading.texts, (str, os.PathLike)) else "texts"
    return Collection(name=name, documents=sides[0].texts, queries=sides[1].texts, judgements=table)
