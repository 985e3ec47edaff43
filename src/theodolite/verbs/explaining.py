"""What `survey(explain=True)` adds: which columns the strongest directions, hubs and outliers of a cloud follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.core.frames import frame_column, other_frame_columns
from theodolite.core.numbers import interval_text
from theodolite.core.result import Result, table_of
from theodolite.core.rows import Row, current_versions
from theodolite.core.spelling import option
from theodolite.core.states import EXPLAINED
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.verbs.inputs import EncoderInput, VectorsInput

if TYPE_CHECKING:
    from theodolite.core.vectors import Indices
    from theodolite.probes.explained_directions import ColumnLink
    from theodolite.spaces.space import Space

# Columns that name rows; and those of a space that number its texts and examples, or belong to pairs of rows.
NAMES = ("id", "_id", "doc_id", "document_id", "key")
NUMBERED = ("text", "example", "side", "score")


def explained(
    result: Result, cloud: Cloud, columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any], *, groups: Indices | None = None
) -> Result:
    """The result with the links of its cloud and the columns of the rows: as reasons of the answer, rows, and a record."""
    from theodolite.probes.explained_directions import NUMBERS, column_links

    if not columns:
        what = "needs columns that describe the rows"
        raise ValueError(f"{option('explain')} {what}, but {result.title} has none; leave it out")
    try:
        links, reasons = column_links(cloud, columns, groups=groups, seed=cloud.seed)
    except Undefined as error:
        return replace(result, notes=(*result.notes, f"nothing was explained: {error}"))
    notes = tuple(f"column {column} was skipped: {reason}" for column, reason in reasons.items())
    if not links:
        return replace(result, notes=(*result.notes, *notes, "nothing was explained: no column can be compared with the rows"))
    shared = {**about, "d": cloud.d, "seed": cloud.seed, "state": EXPLAINED, "versions": current_versions()}
    rows = []
    for link in links:
        metric = "rank_correlation" if link.kind == NUMBERS else "rank_variance_explained"
        numbers = {"value": link.value, "low": link.low, "high": link.high, "n": link.n}
        rows.append(Row(metric=metric, **{**shared, **numbers, "label": link.target, "setting": link.column}))
    record = [{**asdict(link), "is_clear": link.is_clear, "by_text": groups is not None} for link in links]
    assert result.answer is not None
    return replace(
        result,
        answer=replace(result.answer, reasons=(*result.answer.reasons, *_sentences(links))[:3]),
        rows=(*result.rows, *rows),
        records={**result.records, EXPLAINED: table_of(record)},
        notes=(*result.notes, *notes),
    )


def _sentences(links: Sequence[ColumnLink]) -> Iterator[str]:
    """What follows which column, and what follows none, each in one sentence."""
    closest: dict[str, ColumnLink] = {}
    for link in links:
        closest.setdefault(link.target, link)
    clear = [f"{_target(link)} {_follows(link)}" for link in closest.values() if link.is_clear]
    if clear:
        yield f"{clear[0][:1].upper()}{'; '.join(clear)[1:]}."
    unclear = [_target(link) for link in closest.values() if not link.is_clear]
    if unclear:
        count = len({link.column for link in links})
        none = f"None of the {count} columns explains" if count > 1 else f"The column {links[0].column} does not explain"
        yield f"{none} {' or '.join(filter(None, (', '.join(unclear[:-1]), unclear[-1])))}."


def _target(link: ColumnLink) -> str:
    share = "" if link.share is None else f" ({link.share:.0%} of the variance)"
    return {"hubs": "hubness", "outliers": "outlyingness"}.get(link.target, f"{link.target}{share}")


def _follows(link: ColumnLink) -> str:
    from theodolite.probes.explained_directions import NUMBERS

    interval = interval_text(link.low, link.high, form=".2f")
    if link.kind == NUMBERS:
        return f"follows {link.column}: r = {link.value:.2f} {interval}"
    return f"differs by {link.column}, which explains {link.value:.0%} of it {interval}"


def columns_of_vectors(opened: VectorsInput, n: int) -> dict[str, Sequence[Any]]:
    """What a table or frame holds next to its vectors, by column."""
    if opened.frame is not None:
        names = [name for name in other_frame_columns(opened.frame, opened.reading.columns) if name not in NAMES]
        return {name: frame_column(opened.frame, name) for name in names}
    others = None if opened.path is None else opened.reading.columns_beside(opened.path)
    if others is None or not others.others:
        return {}
    table = others.take(n)
    names = [name for name in others.others if name not in NAMES]
    if isinstance(table, list):
        return {name: [record.get(name) for record in table] for name in names}
    return {name: table.column(name).to_pylist() for name in names}


def columns_of_space(space: Space, encoder: EncoderInput | None) -> dict[str, Sequence[Any]]:
    """What is known about the rows of a space, with the number of tokens of each text if its encoder can count them."""
    columns: dict[str, Sequence[Any]] = {name: list(values) for name, values in space.rows.items()}
    columns = {name: values for name, values in columns.items() if name not in (*NAMES, *NUMBERED)}
    if encoder is not None and "text" in space.rows:
        from theodolite.models.tokens import text_inputs, tokenize

        unit: Any = encoder.texts.unit
        inputs = text_inputs(encoder.texts.texts, unit)
        lengths = tokenize(encoder.reading.load_encoder(encoder.model), inputs).lengths
        sides = np.asarray(space.rows.get("side", 0))
        numbers = np.asarray(space.rows["text"]) + sides * (len(lengths) // 2)  # second sides follow all first ones
        columns["number of tokens"] = [int(lengths[number]) for number in numbers]
        if "sentence" not in columns:
            columns["text length"] = [len(inputs.texts[number]) for number in numbers]
    return columns
