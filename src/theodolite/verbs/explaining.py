"""What `survey(explain=True)` adds: which columns the strongest directions, hubs and outliers of a cloud follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from theodolite.core.spelling import option
from theodolite.verbs.inputs import EncoderInput, VectorsInput

if TYPE_CHECKING:
    from theodolite.core.rows import Row
    from theodolite.core.vectors import Indices
    from theodolite.metrics.cloud import Cloud
    from theodolite.spaces.space import Space

EXPLAINED = "explained"
"""The state of rows that say how closely a target follows a column, and the name of the record with all of it."""
NOTHING_EXPLAINED: tuple[list[Row], list[dict[str, Any]], tuple[str, ...]] = ([], [], ())
# Columns that name rows; and those of a space that number its texts and examples, or belong to pairs of rows.
NAMES = ("id", "_id", "doc_id", "document_id", "key")
NUMBERED = ("text", "example", "side", "score")


def explained(
    cloud: Cloud, columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any], *, name: str, groups: Indices | None = None
) -> tuple[list[Row], list[dict[str, Any]], tuple[str, ...]]:
    """Rows and records of the links of a cloud with the columns of its rows, and notes on columns that were left out."""
    from theodolite.core.rows import Row, current_versions
    from theodolite.metrics.cloud import Undefined
    from theodolite.probes.column_links import NUMBERS, column_links

    if not columns:
        raise ValueError(f"{option('explain')} needs columns that say something about the rows, and {name} has none; leave it out")
    try:
        links, reasons = column_links(cloud, columns, groups=groups, seed=cloud.seed)
    except Undefined as error:
        return [], [], (f"nothing was explained: {error}",)
    notes = tuple(f"column {column} was not looked at: {reason}" for column, reason in reasons.items())
    if not links:
        return [], [], (*notes, "nothing was explained: no column can be compared with the rows")
    shared = {**about, "d": cloud.d, "seed": cloud.seed, "state": EXPLAINED, "versions": current_versions()}
    rows = [
        Row(
            metric="rank_correlation" if link.kind == NUMBERS else "rank_variance_explained",
            value=link.value,
            low=link.low,
            high=link.high,
            n=link.n,
            label=link.target,
            setting=link.column,
            **shared,
        )
        for link in links
    ]
    more = {"by_text": groups is not None}
    return rows, [{**asdict(link), "is_clear": link.is_clear, **more} for link in links], notes


def columns_of_vectors(opened: VectorsInput, n: int) -> dict[str, Sequence[Any]]:
    """What a table or frame holds next to its vectors, by column."""
    from theodolite.core.frames import frame_column, other_frame_columns
    from theodolite.spaces.opening import other_columns

    if opened.frame is not None:
        names = [name for name in other_frame_columns(opened.frame, opened.reading.columns) if name not in NAMES]
        return {name: frame_column(opened.frame, name) for name in names}
    options = {name: value for name, value in opened.reading.of_file().items() if name != "key"}
    others = None if opened.path is None else other_columns(opened.path, **options)
    if others is None or not others.others:
        return {}
    table = others.take(n)
    names = [name for name in others.others if name not in NAMES]
    if isinstance(table, list):
        return {name: [record.get(name) for record in table] for name in names}
    return {name: table.column(name).to_pylist() for name in names}


def columns_of_space(space: Space, encoder: EncoderInput | None) -> dict[str, Sequence[Any]]:
    """What is known of the rows of a space, and how many tokens the text of each has, if its encoder is there to count them."""
    columns: dict[str, Sequence[Any]] = {name: list(values) for name, values in space.rows.items()}
    columns = {name: values for name, values in columns.items() if name not in (*NAMES, *NUMBERED)}
    if encoder is not None and "text" in space.rows:
        from theodolite.models.tokens import text_inputs, tokenize

        unit: Any = encoder.texts.unit
        inputs = text_inputs(encoder.texts.texts, unit)
        lengths = tokenize(encoder.reading.load_encoder(encoder.model), inputs).lengths
        sides = space.rows["side"] if "side" in space.rows else [0] * space.n
        first = len(lengths) // 2 if "side" in space.rows else 0
        columns["number of tokens"] = [int(lengths[text + side * first]) for text, side in zip(space.rows["text"], sides, strict=True)]
        if "sentence" not in columns:
            texts = [inputs.texts[text + side * first] for text, side in zip(space.rows["text"], sides, strict=True)]
            columns["text length"] = [len(text) for text in texts]
    return columns

