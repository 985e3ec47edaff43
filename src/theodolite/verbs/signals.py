"""What a user knows about their data, opened once for every verb: scored pairs, labels, or queries with judged documents."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from theodolite.core.numbers import duration_text
from theodolite.core.spelling import TypedInput, command, option
from theodolite.core.vectors import Floats, array
from theodolite.spaces.space import Origin, Space, choose_layers
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
    short_name,
    typed_input,
)

if TYPE_CHECKING:
    from theodolite.advice.scorers import Signal
    from theodolite.models.encoder import Encoder
    from theodolite.tasks.retrieval import Collection
    from theodolite.verbs.progress import Progress

PLURALS = {"document": "documents", "query": "queries"}
TIMED = 32  # texts that the speed of an encoder is measured on
Labels: TypeAlias = str | os.PathLike[str] | Sequence[Any]

_HINTS = {
    "pairs": "the second side of pairs holds vectors, so the first must too: of a space, the file of a layer (layer-NN.npy)",
    "labels": "an encoder's labels come from its task, or from your own files",
    "queries": "query vectors go with document vectors; for an encoder, give the folder of texts",
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
            raise ValueError(f"{' and '.join(option(name, 'X') for name in self.names)} are different signals; give only one")
        for name in ("query_prompt", "document_prompt"):
            if getattr(self, name) is not None and self.queries is None and self.retrieval is None:
                raise ValueError(
                    f"{option(name, 'TEXT')} is for an encoder that reads queries; give {option('retrieval', 'FOLDER')}"
                )

    @property
    def names(self) -> list[str]:
        """The options that name a signal: one, or none."""
        return [name for name in ("pairs", "labels", "queries", "retrieval") if getattr(self, name) is not None]

    def is_collection(self, reading: Reading) -> bool:
        """Whether an encoder is to read both documents and queries."""
        return self.retrieval is not None or (self.queries is not None and reading.has_texts())

    def advise_command(self, source: Any, reading: Reading, names: Sequence[str], *, is_encoder: bool) -> str:
        """The command that measures by them whether a repair helps, for an encoder with the named reading options.

        It is empty if something that it would name is in memory.
        """
        signals = ("pairs", "scores", "queries", "judgements", "retrieval", "query_prompt", "document_prompt")
        files = {name: value for name in signals if (value := getattr(self, name)) is not None}
        if not all(isinstance(value, (str, os.PathLike)) for value in (source, reading.texts or "", *files.values())):
            return ""
        typed: dict[str, Any] = {name: os.fspath(value) for name, value in files.items()}
        if not is_encoder:
            return command("repair advise", os.fspath(source), **typed)
        return command("repair advise", model=input_name(source), **reading.typed(names), **typed)

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
    if named.is_collection(reading):
        collection, reading = read_collection(source, named, reading)
        return CollectionReader.of(source, collection, named, reading, progress).encoded()
    opened = open_input(source, with_all_layers(source, reading))
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
    path = opened.name if isinstance(opened, VectorsInput) else source if isinstance(source, (str, os.PathLike)) else "space"
    return _of_rows(opened, short_name(os.fspath(path)), named, reading, typed_input(source, opened))


def row_labels(opened: VectorsInput | Space, labels: Labels | None, *, n: int) -> list[str]:
    """One label for each of n rows: those given, those of a file, or a column of the space (`label` by default) or table."""
    from theodolite.spaces.readers.label_files import checked_label, is_label_file, labels_for

    if labels is not None and not isinstance(labels, (str, os.PathLike)):
        values = [checked_label(f"row {row}", label) for row, label in enumerate(labels)]
    elif isinstance(opened, VectorsInput):
        if labels is None:
            raise ValueError(f"{opened.name} has vectors but no labels; give {option('labels', 'FILE:COLUMN')}")
        values = opened.labels(os.fspath(labels), n=n)
    elif labels is not None and os.fspath(labels) not in opened.rows and is_label_file(labels):
        values = labels_for("the space", labels, n=n)
    else:
        values = list(opened.labels(os.fspath(labels or "label")))
    if len(values) != n:
        title = opened.name if isinstance(opened, VectorsInput) else "the space"
        raise ValueError(f"there are {len(values):,} labels for the {n:,} rows of {title}; row i needs label i")
    return values


def with_all_layers(source: Any, reading: Reading) -> Reading:
    # "last" is the default of verbs that look at one layer, and says nothing about vectors, which have no layers.
    kind = input_kind(source, reading)
    return replace(reading, layers="all") if kind in ("file", "memory") and reading.layers == "last" else reading


def _of_rows(opened: VectorsInput | Space, name: str, named: Signals, reading: Reading, typed: TypedInput) -> SignalInput:
    """Vectors, or one layer of a space, with the signal that was named or that the rows of the space have."""
    from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs
    from theodolite.spaces.readers.label_files import read_scores
    from theodolite.tasks.retrieval import judgements_of

    kind = "vectors" if isinstance(opened, VectorsInput) else "a space"
    named.refuse(kind, *(["pairs"] if isinstance(opened, VectorsInput) else []), "labels", "queries")
    X, layer = layer_vectors(opened, reading)
    rows = {} if isinstance(opened, VectorsInput) else opened.rows
    texts = list(rows["sentence"]) if "sentence" in rows else None
    signal: Signal | None = None
    queries, query_ids = None, None
    if named.queries is not None:
        other, queries, _ = open_layer(named.queries, reading)
        numbers = {"queries": row_ids(other, len(queries)), "documents": row_ids(opened, len(X))}
        query_ids = None if isinstance(numbers["queries"], int) else numbers["queries"]
        if named.judgements is not None:
            signal = JudgedQueries(X, queries, judgements_of(named.judgements, **numbers), metric=named.metric)
    elif named.pairs is not None:
        scores = read_scores(named.scores) if isinstance(named.scores, (str, os.PathLike)) else named.scores
        signal = ScoredPairs(X, open_layer(named.pairs, reading)[1], scores, metric=named.metric)
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
    others = tuple(os.fspath(path) for path in (named.pairs, named.queries) if isinstance(path, (str, os.PathLike)))
    more: dict[str, Any] = {"pairs": pairs, "others": others, "queries": queries, "query_ids": query_ids}
    data = SignalInput(name, X, signal, typed, {"model": name}, texts=texts, **more)
    if isinstance(opened, VectorsInput):
        return replace(data, notes=opened.notes)
    if typed.path and not typed.before and layer != opened.layers[-1]:
        typed = replace(typed, options={"layers": str(layer)})
    return replace(data, typed=typed, about=opened.about(layer), facts=encoder_facts(opened.origin))


def open_layer(source: Any, reading: Reading) -> tuple[VectorsInput | Space, Floats, int]:
    """Vectors or a space, opened, with the vectors of the one layer that the options choose, and its number."""
    opened = open_input(source, with_all_layers(source, reading))
    assert not isinstance(opened, EncoderInput)
    return opened, *layer_vectors(opened, reading)


def layer_vectors(opened: VectorsInput | Space, reading: Reading) -> tuple[Floats, int]:
    """The vectors and the number of their layer, -1 if they have none."""
    if isinstance(opened, VectorsInput):
        return array(opened.vectors), -1
    chosen = choose_layers(reading.layers, opened.layers)
    if len(chosen) != 1:
        raise ValueError(f"choose one layer; {option('layers', str(reading.layers))} names {len(chosen)}")
    return array(opened[chosen[0]]), chosen[0]


def row_ids(opened: VectorsInput | Space, n: int) -> Sequence[str] | int:
    """The ids of rows, or how many there are if they have none."""
    from theodolite.tasks.retrieval import ID_COLUMNS, unique_ids

    if isinstance(opened, VectorsInput):
        return opened.ids(n=n) or n
    column = next((name for name in ID_COLUMNS if name in opened.rows), None)
    return n if column is None else unique_ids([str(value) for value in opened.rows[column]], "the space")


def read_collection(source: Any, named: Signals, reading: Reading) -> tuple[Collection, Reading]:
    """Documents, queries and judgements for an encoder, and the reading options that name the documents' texts."""
    from theodolite.tasks.retrieval import read_beir

    folder = named.retrieval
    if folder is not None and reading.has_texts():
        raise ValueError(f"{option('retrieval', 'FOLDER')} has its own texts; leave out the task or the texts")
    if input_kind(source, replace(reading, texts=("",))) != "encoder":
        named.refuse("vectors or a space")
    collection = _collection_of_texts(named, reading) if folder is None else read_beir(folder, reading.split)
    return collection, replace(reading, texts=reading.texts if folder is None else os.fspath(folder), split=None)


@dataclass(frozen=True, eq=False)
class CollectionReader:
    """An encoder that is to read the documents and the queries of a collection: `roles` has what extraction takes for each."""

    source: Any
    encoder: Encoder
    reading: Reading
    collection: Collection
    metric: str | None
    roles: tuple[tuple[Encoder, dict[str, Any]], ...]

    @classmethod
    def of(cls, source: Any, collection: Collection, named: Signals, reading: Reading, progress: Progress) -> CollectionReader:
        """Load the encoder, without encoding anything."""
        reading = replace(reading, unit=reading.unit_for(source, one_per_text=True))
        if reading.unit in ("tokens", "words", "pairs"):
            raise ValueError(f"{option('unit', reading.unit)} gives queries no vector of their own; use mean, cls, max or last")
        encoder, roles = reading.load_encoder(source), []
        prompts = {"document": (collection.documents, named.document_prompt), "query": (collection.queries, named.query_prompt)}
        for role, (texts, prompt) in prompts.items():
            reader, read, origin = prompted(encoder, reading, role, texts, prompt)
            options = encoding_options(reading, str(reading.unit), PLURALS[role], progress)
            roles.append((reader, {"texts": read, "origin": origin, **options}))
        return cls(source, encoder, reading, collection, named.metric, tuple(roles))

    def encoded(self) -> SignalInput:
        """The vectors, from the cache if they are there."""
        from theodolite.advice.scorers import JudgedQueries
        from theodolite.models.extraction import extract_space
        from theodolite.spaces.cache import VectorCache

        cache, collection = VectorCache(), self.collection
        spaces = [extract_space(reader, cache=cache, **options) for reader, options in self.roles]
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
        from theodolite.spaces.cache import OnlyCached

        missing: list[tuple[str, Encoder, dict[str, Any]]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come when the texts are encoded
            for name, (reader, options) in zip(PLURALS.values(), self.roles, strict=True):
                try:
                    extract_space(reader, cache=OnlyCached(), **options)
                except KeyError:
                    missing.append((name, reader, options))
            total = sum(len(options["texts"]) for _, _, options in missing)
            if total < 4 * TIMED:
                return ""
            _, reader, options = missing[0]
            some = options["texts"][:: max(1, len(options["texts"]) // TIMED)][:TIMED]
            for texts in (some[:4], some):  # the first call of an encoder is slower than the others
                start = time.perf_counter()
                extract_space(reader, **options | {"texts": texts, "progress": None})
        speed = len(some) / (time.perf_counter() - start)
        counts = " and ".join(f"{len(options['texts']):,} {name}" for name, _, options in missing)
        return f"{counts} with {encoder_name(self.source)}: {duration_text(total / speed)} at {speed:.0f} texts per second"


def prompted(
    encoder: Encoder, reading: Reading, role: str, texts: Sequence[str], prompt: str | None
) -> tuple[Encoder, Sequence[str], Origin]:
    """The encoder as it reads queries or documents, with the texts it is to read, and what to note of the prompt."""
    pipeline = encoder.pipeline if reading.unit == "text" else None
    if pipeline is not None and pipeline.module is not None:
        return encoder.for_role(role, prompt), texts, Origin()
    # Without a pipeline, a prompt is the beginning of the text.
    return encoder, tuple(f"{prompt or ''}{text}" for text in texts), Origin(prompt=prompt or "")


def _collection_of_texts(named: Signals, reading: Reading) -> Collection:
    """The documents that the reading options name, with queries and a table of judgements, by ids if the files have them."""
    from theodolite.tasks.retrieval import QUERIES, Collection, Judgements, TextRecords, judgements_of, read_text_records

    if reading.require_texts() is not None:
        raise ValueError(f"{option('queries', 'FILE')} goes with documents, not with a task: {option('texts', 'FILE')}")
    options = {name: getattr(reading, name) for name in ("encoding", "delimiter", "header")}
    queries = named.queries
    if isinstance(queries, (str, os.PathLike)) and Path(queries).is_dir():
        queries = Path(queries) / QUERIES
    sources: list[Any] = [reading.texts, queries]
    sides = [
        read_text_records(texts, reading.column, **options)
        if isinstance(texts, (str, os.PathLike))
        else TextRecords(tuple(texts))
        for texts in sources
    ]
    documents, asked = (side.ids if side.ids is not None else len(side.texts) for side in sides)
    table = Judgements(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0))
    if named.judgements is not None:
        table = judgements_of(named.judgements, queries=asked, documents=documents)
    name = short_name(os.fspath(reading.texts)) if isinstance(reading.texts, (str, os.PathLike)) else "texts"
    return Collection(name=name, documents=sides[0].texts, queries=sides[1].texts, judgements=table)
