"""The two sides of a change of model, opened for `migrate` and for a bridge: the same texts as two models embed them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.core.spelling import option
from theodolite.verbs.inputs import (
    Reading,
    VectorsInput,
    encoder_facts,
    input_kind,
    input_name,
    readings_for,
    short_name,
    typed_input,
)
from theodolite.verbs.signals import (
    TIMED,
    CollectionReader,
    SignalInput,
    Signals,
    open_layer,
    open_signal,
    row_ids,
)

if TYPE_CHECKING:
    from theodolite.core.vectors import Floats, Indices
    from theodolite.tasks.retrieval import Judgements
    from theodolite.verbs.progress import Progress


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
        given = [queries is not None for queries in self.queries]
        if self.retrieval is not None and self.judgements is not None:
            raise ValueError(f"{option('retrieval', 'FOLDER')} has its own judgements; leave out {option('judgements', 'FILE')}")
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
                f"{option('judgements', 'FILE')} is for stored vectors, but {word.upper()} is an encoder; give the texts as a "
                f"BEIR folder: {option('retrieval', 'FOLDER')}"
            )
        if is_encoder and queries is not None:
            raise ValueError(
                f"{option(f'queries_{word}', 'FILE')} is for stored vectors, but {word.upper()} is an encoder, which reads the "
                f"queries of {option('retrieval', 'FOLDER')}; leave it out"
            )
        if self.is_given and not is_encoder and queries is None:
            raise ValueError(
                f"{word.upper()} holds stored vectors, so its model's query vectors are needed too: "
                f"{option(f'queries_{word}', 'FILE')}"
            )
        if not is_encoder and self.unit[number] is not None:
            raise ValueError(f"{option(f'unit_{word}', 'UNIT')} is for an encoder, but {word.upper()} has vectors; leave it out")
        prompts: dict[str, Any] = {"query_prompt": self.query_prompt[number], "document_prompt": self.document_prompt[number]}
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
        raise ValueError(f"{option('retrieval', 'FOLDER')} has its own texts; leave out the task or the texts")
    kinds = [input_kind(source, replace(reading, texts=("",)) if is_text else reading) for source in sources]
    signals = [named.of_side(number, kind) for number, kind in enumerate(kinds)]
    collection = None if named.retrieval is None else read_beir(named.retrieval, reading.split)
    readings = readings_for(kinds, reading, also=("layers", "split") if is_text else ("layers",))
    readers: dict[int, CollectionReader] = {}
    stored: dict[int, _StoredSide] = {}
    for number, (source, kind) in enumerate(zip(sources, kinds, strict=True)):
        if kind != "encoder":
            stored[number] = _StoredSide.of(source, named.queries[number], replace(readings[number], split=None))
            continue
        readings[number] = replace(readings[number], unit=named.unit[number] or readings[number].unit)
        if collection is not None:
            of_folder = replace(readings[number], texts=os.fspath(named.retrieval or ""), split=None)
            readers[number] = CollectionReader.of(source, collection, signals[number], of_folder, progress)
    announced = "; ".join(filter(None, (reader.time_to_encode() for reader in readers.values())))
    if announced:
        progress.announce(f"to be encoded: {announced} (measured on {TIMED} texts)")
    sides = {number: reader.encoded() for number, reader in readers.items()}
    if collection is not None:
        ids: dict[str, Sequence[str] | int] = {"documents": collection.document_ids, "queries": collection.query_ids}
        folder = short_name(os.fspath(named.retrieval or ""))
        for number, side in stored.items():
            sides[number] = side.aligned(ids, folder, ("OLD", "NEW")[number], may_have_more=True).judged(collection.judgements)
    elif len(stored) == 2:
        ids = {"documents": stored[0].ids, "queries": stored[0].query_ids}
        stored[1] = stored[1].aligned(ids, "OLD", "NEW")
        sides = {number: side.data for number, side in stored.items()}
        if named.judgements is not None:
            judgements = judgements_of(named.judgements, queries=stored[0].query_ids, documents=stored[0].ids)
            sides = {number: side.judged(judgements) for number, side in stored.items()}
    else:
        opened = [open_signal(source, Signals(), own, progress) for source, own in zip(sources, readings, strict=True)]
        if len(opened[0].vectors) != len(opened[1].vectors):
            counts = " and ".join(f"{len(side.vectors):,}" for side in opened)
            raise ValueError(f"the two sides have {counts} rows; row i of both must be the same text: give both the same texts")
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
        opened, X, layer = open_layer(source, reading)
        name = short_name(input_name(source))
        data = SignalInput(name, X, None, typed_input(source, opened), {"model": name})
        if isinstance(opened, VectorsInput):
            data = replace(data, notes=opened.notes)
        else:
            data = replace(data, about=opened.about(layer), facts=encoder_facts(opened.origin))
        ids = row_ids(opened, len(X))
        if queries is None:
            return cls(data, ids)
        other, Q, _ = open_layer(queries, reading)
        return cls(data, ids, Q, row_ids(other, len(Q)))

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


def shared_rows(source: Any, target: Any, reading: Reading) -> tuple[Floats, Floats]:
    """The rows of the target, and those of the source with the same ids, or all of both if neither has ids."""
    old, new = (_StoredSide.of(side, None, reading) for side in (source, target))
    rows = _matching_rows(new.ids, old.ids, "rows", new.data.name, old.data.name, may_have_more=True)
    return old.data.vectors[rows], new.data.vectors


def _matching_rows(
    wanted: Sequence[str] | int, ids: Sequence[str] | int, what: str, other: str, side: str, may_have_more: bool
) -> Indices:
    """The rows of one side that have the ids of the other, in its order; all rows as they are if neither has ids."""
    if isinstance(wanted, int) and isinstance(ids, int):
        if wanted != ids:
            raise ValueError(
                f"{other} has {wanted:,} {what} and {side} {ids:,}, without ids to match them by; give both the same {what} in "
                "the same order, or a column `id`"
            )
        return np.arange(ids)
    if isinstance(wanted, int) or isinstance(ids, int):
        without = other if isinstance(wanted, int) else side
        raise ValueError(
            f"the {what} of {side if without == other else other} have ids but those of {without} have none, so they cannot be "
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
