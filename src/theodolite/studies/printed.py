"""What a paper prints, as rows: tables declared once, filled by one source or by several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from theodolite.core.rows import Row
from theodolite.studies.fields import Digits, Fields, half_unit
from theodolite.tasks.errors import close_to, listed

Standing: TypeAlias = Literal["printed", "reported"]
POOLS = ("mean", "median", "lowest", "none")


@dataclass(frozen=True, kw_only=True)
class PaperModel:
    """A model that a paper names, the hub ids that are this very model, its family and its dimension."""

    name: str
    hub: tuple[str, ...] = ()
    family: str = ""
    d: int = 0


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table or figure: `keys` are the fields that begin a line; then come `metrics`, or `columns` of the field `across` with
    `metrics` in each cell. `where` holds for all numbers.

    For comparing: measured rows have `measured_setting` where it is given; several seeds are pooled as `pool` says, or are those
    of the seed whose `pool_by` is the median.
    """  # noqa: D205

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

    @property
    def width(self) -> int:
        """Entries of a line."""
        return len(self.keys) + (len(self.columns) if self.across else len(self.metrics))


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A printed number as a row in its metric's own unit, and as it is printed. `relation` is "=" or, of a bound, ">" or "<"."""

    source: str
    standing: Standing
    table: str
    row: Row
    text: str
    half: float
    relation: str = "="


def models_of(given: Fields) -> tuple[PaperModel, ...]:
    """The models that the tables name."""
    found = []
    for one in given.each("models"):
        d = int(one.number("d")) if "d" in one.values else 0
        found.append(PaperModel(name=one.text("name"), hub=tuple(one.strings("hub")), family=one.text("family", ""), d=d))
        one.finish()
    return tuple(found)


def tables_of(given: Fields) -> tuple[Table, ...]:
    """The tables' layouts."""
    found = []
    for one in given.each("tables"):
        table = Table(
            name=one.text("name"),
            title=one.text("title"),
            keys=tuple(one.strings("keys")),
            metrics=tuple(one.strings("metrics")),
            across=one.text("across", ""),
            columns=tuple(one.strings("columns")),
            where=one.row_fields("where"),
            pool=one.text("pool", "mean"),
            pool_by=one.texts("pool_by"),
            measured_setting=one.text("measured_setting", "\0").replace("\0", "") if "measured_setting" in one.values else None,
        )
        for key in (*table.keys, *filter(None, [table.across])):
            one.check_row_field("keys", key)
        if table.pool not in POOLS:
            raise one.fault("pool", f"{table.pool!r} must be one of {listed(POOLS)}")
        if bool(table.across) != bool(table.columns):
            raise one.fault("columns", "a table with `across` needs `columns`, and one without has none; give both or neither")
        one.seen.add("measured_setting")
        one.finish()
        found.append(table)
    return tuple(found)


def printed_of(
    given: Fields,
    tables: Sequence[Table],
    *,
    scale: Mapping[str, float],
    score: Mapping[str, str],
    study: str,
    models: Sequence[PaperModel],
) -> tuple[Printed, ...]:
    """All printed numbers, in order."""
    by_name = {table.name: table for table in tables}
    known = {model.name for model in models}
    found: list[Printed] = []
    for one in given.each("printed"):
        name = one.text("table")
        if name not in by_name:
            raise one.fault(
                "table", f"there is no table {name!r}{close_to(name, list(by_name))}; there are {listed(list(by_name))}"
            )
        standing = one.text("standing", "printed")
        if standing not in ("printed", "reported"):
            raise one.fault("standing", f"{standing!r} must be printed or reported")
        relation = one.text("relation", "=")
        about = {**by_name[name].where, **one.row_fields("where"), "study": study}
        source, table = one.text("source"), by_name[name]
        for number, line in enumerate(one.get("values", list, "a list of lines")):
            place = f"values[{number}]"
            for fields, metric, value in _cells(one, place, table, line):
                row: dict[str, Any] = {**about, **fields}
                if row.get("model") not in known:
                    raise one.fault(
                        place, f"model {row.get('model')!r} is none of {listed(sorted(known))}; declare it under [[models]]"
                    )
                named = _named(metric, score, row.get("task", ""))
                unit = scale.get(named, 1.0)
                cell = Row(metric=named, value=float(value) * unit, **row)
                text = value.text if isinstance(value, Digits) else str(value)
                kind: Standing = "reported" if standing == "reported" else "printed"
                found.append(
                    Printed(
                        source=source,
                        standing=kind,
                        table=name,
                        row=cell,
                        text=text,
                        half=half_unit(value) * unit,
                        relation=relation,
                    )
                )
        one.finish()
    return tuple(found)


def _named(metric: str, score: Mapping[str, str], task: str) -> str:
    """A column "score" is the task's own metric; "score_sd" its deviation."""
    return metric.replace("score", score[task], 1) if metric.startswith("score") and task in score else metric


def _cells(given: Fields, place: str, table: Table, line: Any) -> Iterator[tuple[dict[str, str], str, Any]]:
    if not isinstance(line, list) or len(line) != table.width:
        wanted = [*table.keys, *(table.columns if table.across else table.metrics)]
        raise given.fault(
            place,
            f"a line has {table.width} entries ({', '.join(wanted)}), not {len(line) if isinstance(line, list) else line!r}",
        )
    keys = len(table.keys)
    fields = dict(zip(table.keys, line[:keys], strict=True))
    if strange := [value for value in fields.values() if not isinstance(value, str)]:
        raise given.fault(place, f"{strange[0]!r} must be a text, for one of {', '.join(table.keys)}")
    if not table.across:
        groups: list[tuple[dict[str, str], Any]] = [(fields, line[keys:])]
    else:
        groups = [({**fields, table.across: column}, cell) for column, cell in zip(table.columns, line[keys:], strict=True)]
    for about, cell in groups:
        values: list[Any] = cell if isinstance(cell, list) else [cell]
        if len(values) != len(table.metrics):
            raise given.fault(place, f"a cell has {len(table.metrics)} numbers ({', '.join(table.metrics)}), not {values!r}")
        for metric, value in zip(table.metrics, values, strict=True):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise given.fault(place, f"{value!r} must be a number, the {metric}")
            yield about, metric, value
