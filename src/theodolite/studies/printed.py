"""What a paper prints, as rows: its models, the layout of its tables, and their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from theodolite.core.rows import Row
from theodolite.spaces.readers.errors import name_list, suggestion
from theodolite.studies.toml_reading import Digits, TomlTable, half_unit

Standing: TypeAlias = Literal["printed", "reported"]
POOLS = ("mean", "median", "lowest", "none")


@dataclass(frozen=True, kw_only=True)
class PaperModel:
    """A model that a paper names, with the Hub ids that are this same model, its family and its dimension (0 if not known)."""

    name: str
    hub: tuple[str, ...] = ()
    family: str = ""
    d: int = 0


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """How a table or figure of a paper is laid out.

    Parameters
    ----------
    name, title
        What `[[printed]]` blocks and readers call it.
    keys
        The row fields that begin a line.
    metrics
        The numbers of a line, or of a cell if the table goes `across` a field.
    across, columns
        A further row field and its values, one column each; both or neither.
    where
        Row fields that all its numbers share.
    pool
        How several seeds become one number in a comparison; "none" leaves the table out of comparisons.
    pool_by
        Metrics that are taken from the seed whose other metric is the median.
    measured_setting
        The setting of the measured rows, if it is not that of the printed ones.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    metrics: tuple[str, ...]
    across: str = ""
    columns: tuple[str, ...] = ()
    where: Mapping[str, str]
    pool: str = "mean"
    pool_by: Mapping[str, str]
    measured_setting: str | None = None


@dataclass(frozen=True, kw_only=True)
class PrintedValue:
    """A printed number as a row in its metric's own unit, and as it is printed.

    `half` is half a unit of the last printed digit, in the metric's unit; `relation` is "=" or, for a bound, ">" or "<".
    """

    source: str
    standing: Standing
    table: str
    row: Row
    text: str
    half: float
    relation: str = "="


def read_model(table: TomlTable) -> PaperModel:
    """The model of a [[models]] table."""
    d = int(table.number("d")) if "d" in table.values else 0
    return PaperModel(name=table.text("name"), hub=table.strings("hub"), family=table.text("family", ""), d=d)


def read_table(table: TomlTable) -> PrintedTable:
    """The layout of a [[printed_tables]] table."""
    pool, across, columns = table.text("pool", "mean"), table.text("across", ""), table.strings("columns")
    keys = table.strings("keys")
    for key in (*keys, *filter(None, [across])):
        table.check_row_field("keys", key)
    if pool not in POOLS:
        raise table.error("pool", f"{pool!r} must be one of {name_list(POOLS)}")
    if bool(across) != bool(columns):
        raise table.error("columns", "a table with `across` needs `columns`, and one without has none; give both or neither")
    return PrintedTable(
        name=table.text("name"),
        title=table.text("title"),
        keys=keys,
        metrics=table.strings("metrics"),
        across=across,
        columns=columns,
        where=table.row_fields("where"),
        pool=pool,
        pool_by=table.texts("pool_by"),
        measured_setting=table.text("measured_setting") if "measured_setting" in table.values else None,
    )


def read_values(
    block: TomlTable,
    tables: Sequence[PrintedTable],
    models: Sequence[PaperModel],
    *,
    study: str,
    score: Mapping[str, str],
    scale: Mapping[str, float],
) -> Iterator[PrintedValue]:
    """The numbers of a [[printed]] block, in order.

    Parameters
    ----------
    block
        The block.
    tables, models
        The layouts and models that the file declares.
    study
        The name that rows carry.
    score
        Each task's metric, which a column "score" (or "score_sd") stands for.
    scale
        What a printed number is multiplied by to be in its metric's own unit.
    """
    name, names = block.text("table"), [table.name for table in tables]
    if name not in names:
        raise block.error("table", f"there is no table {name!r}{suggestion(name, names)}; choose from {name_list(names)}")
    standing = block.text("standing", "printed")
    if standing not in ("printed", "reported"):
        raise block.error("standing", f"{standing!r} must be printed or reported")
    table, model_names = tables[names.index(name)], sorted(model.name for model in models)
    source, relation = block.text("source"), block.text("relation", "=")
    shared: dict[str, Any] = {**table.where, **block.row_fields("where"), "study": study}
    for number, line in enumerate(block.get("values", list, "a list of lines")):
        key = f"values[{number}]"
        for fields, column, value in _cells(block, key, table, line):
            row = {**shared, **fields}
            if row.get("model") not in model_names:
                model = row.get("model")
                raise block.error(key, f"model {model!r} is not one of {name_list(model_names)}; declare it under [[models]]")
            # "score" and "score_sd" stand for the task's own metric, so that one table can hold tasks with different ones.
            is_score = column.startswith("score") and row.get("task") in score
            metric = column.replace("score", score[row["task"]], 1) if is_score else column
            unit = scale.get(metric, 1.0)
            yield PrintedValue(
                source=source,
                standing=cast("Standing", standing),
                table=name,
                row=Row(metric=metric, value=float(value) * unit, **row),
                text=value.text if isinstance(value, Digits) else str(value),
                half=half_unit(value) * unit,
                relation=relation,
            )


def _cells(block: TomlTable, key: str, table: PrintedTable, line: Any) -> Iterator[tuple[dict[str, str], str, float]]:
    """The row fields, the metric and the number of every printed number of a line."""
    names = [*table.keys, *(table.columns or table.metrics)]
    if not isinstance(line, list) or len(line) != len(names):
        size = len(line) if isinstance(line, list) else repr(line)
        raise block.error(key, f"a line has {len(names)} entries ({', '.join(names)}), not {size}")
    count = len(table.keys)
    fields = dict(zip(table.keys, line[:count], strict=True))
    wrong = next((value for value in fields.values() if not isinstance(value, str)), None)
    if wrong is not None:
        raise block.error(key, f"{wrong!r} must be a text, for one of {', '.join(table.keys)}")
    # Without `across`, all numbers of the line are one cell.
    groups: list[tuple[dict[str, str], Any]] = [(fields, line[count:])]
    if table.across:
        groups = [({**fields, table.across: column}, cell) for column, cell in zip(table.columns, line[count:], strict=True)]
    for cell_fields, cell in groups:
        values: list[Any] = cell if isinstance(cell, list) else [cell]
        if len(values) != len(table.metrics):
            raise block.error(key, f"a cell has {len(table.metrics)} numbers ({', '.join(table.metrics)}), not {values!r}")
        for metric, value in zip(table.metrics, values, strict=True):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise block.error(key, f"{value!r} must be a number, the {metric}")
            yield cell_fields, metric, value
