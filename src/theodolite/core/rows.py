"""A row: one number, with everything needed to say where it comes from."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, ClassVar

from theodolite.core.declared import as_declared
from theodolite.core.files import atomic_file, parse_json, require_free, require_regular, write_json, write_text

ROW_ENDINGS = (".parquet", ".json", ".jsonl")  # of files that rows can be written to
HASH = "sha256"  # the field, or key of a file's metadata, that has the hash of the rest


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured number and its provenance.

    Parameters
    ----------
    metric, value
        The name of the measure, and the number; nan if it is not defined.
    low, high
        The interval around the value, if there is one.
    n, d
        Rows and dimensions measured.
    seed
        Seed of samples or of training.
    reason
        Why the value is not defined.
    setting
        Options that changed the number, in a few words.
    study, model, revision, state, step, layer, task, split, label, other_label
        What was measured; a number of a pair of labels, such as their distance, has both.
    sample
        How many rows a metric that compares rows with rows looked at, if that was not all of them.
    versions
        Software that made the number, see `current_versions`.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()

    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    d: int | None = None
    seed: int | None = None
    reason: str = ""
    setting: str = ""
    study: str = ""
    model: str = ""
    revision: str = ""
    state: str = ""
    step: int | None = None
    layer: int | None = None
    task: str = ""
    split: str = ""
    label: str = ""
    other_label: str = ""
    sample: int | None = None
    versions: str = ""

    def __post_init__(self) -> None:
        if math.isnan(self.value) and not self.reason:
            raise ValueError(f"metric {self.metric!r} is nan without a reason; say why it is not defined")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: nan and infinity become null, the reason stays."""
        return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Row:
        """The row that `to_dict` came from.

        Parameters
        ----------
        values
            Fields by name; a value of None is nan.
        """
        if not isinstance(values, dict):
            raise ValueError(f"{values!r:.40} is not a row; it must be an object with the fields {', '.join(cls.FIELDS)}")
        known = {name: value for name, value in values.items() if value is not None}
        row: Row = as_declared(cls, {"value": math.nan, **known})
        return row


# Only after the decorator ran does the class know its fields.
Row.FIELDS = tuple(entry.name for entry in fields(Row))


@functools.cache
def today() -> str:
    """The date in UTC, such as 2026-11-16: when a result was measured."""
    from datetime import UTC, datetime

    return datetime.now(UTC).date().isoformat()


def current_versions() -> str:
    """The versions of Python and the main libraries, in one short line."""
    names = ("theodolite", "numpy", "scipy", "scikit-learn")
    return "; ".join([f"python {platform.python_version()}", *(f"{name} {installed_version(name)}" for name in names)])


def write_rows(rows: Iterable[Row], path: str | os.PathLike[str]) -> None:
    """Write rows to `.parquet`, `.json` or `.jsonl`, whole or not at all."""
    path = require_rows_file(path)
    rows = list(rows)
    # JSON has no nan: `to_dict` made them null, and `from_dict` turns null into nan.
    if path.suffix == ".json":
        write_json(path, [hashed_record(row) for row in rows])
    elif path.suffix == ".jsonl":
        write_text(path, "".join(json.dumps(hashed_record(row), ensure_ascii=False) + "\n" for row in rows))
    else:
        import pyarrow
        import pyarrow.parquet as parquet

        # The schema comes from the class, so that columns of None, and files without rows, have their types too.
        kinds = {"str": pyarrow.string(), "float": pyarrow.float64(), "int": pyarrow.int64()}
        columns = [(f.name, kinds[str(f.type).split(" ")[0]]) for f in fields(Row)]
        table = pyarrow.Table.from_pylist([row.to_dict() for row in rows], schema=pyarrow.schema(columns))
        # Of the values as they come back: a column of the file is a float even if a row has a whole number there.
        with atomic_file(path) as partial:
            parquet.write_table(table.replace_schema_metadata({HASH: values_hash(table.to_pylist())}), partial)


def hashed_record(row: Row) -> dict[str, Any]:
    """A row as plain values with a hash of them, for a line of JSON."""
    record = row.to_dict()
    return {**record, HASH: values_hash(record)[:16]}


def row_of_record(record: dict[str, Any]) -> Row:
    """The row that `hashed_record` came from."""
    if not isinstance(record, dict):
        raise ValueError(f"{record!r} is not a row")
    values = {name: value for name, value in record.items() if name != HASH}
    if HASH in record and record[HASH] != values_hash(values)[:16]:
        raise ValueError(f"the row for {values.get('metric')!r} was changed after it was written: its hash differs")
    return Row.from_dict(values if "sample" in values else _from_0_2(values))


def _from_0_2(values: dict[str, Any]) -> dict[str, Any]:
    """A row as version 0.2 wrote it, with the sample and the pair of labels that its `setting` held in fields of their own."""
    setting = values.get("setting")
    if not isinstance(setting, str):
        return values
    sample = re.search(r"(?<!\S)sample=(\d+)", setting)
    fields = {"setting": " ".join(word for word in setting.split() if not re.fullmatch(r"(half-samples|sample)=\d+", word))}
    if values.get("metric") == "label_distance" and setting.count("|") == 1:
        fields = dict(zip(("label", "other_label"), setting.split("|"), strict=True)) | {"setting": ""}
    return values | fields | ({"sample": int(sample[1])} if sample else {})


def values_hash(values: Any) -> str:
    """The SHA-256 of plain values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def require_rows_file(path: str | os.PathLike[str]) -> Path:
    """The path, if rows could be written there; called before long work rather than after it."""
    return require_free(_rows_file(path), overwrite=True)


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """Read what `write_rows` wrote."""
    path = require_regular(_rows_file(path))
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as parquet

            table = parquet.read_table(path)
            records = table.to_pylist()
            digest = (table.schema.metadata or {}).get(HASH.encode())
            if digest is not None and digest.decode(errors="replace") != values_hash(records):
                raise ValueError("the SHA-256 of its rows differs from when it was written")
        elif path.suffix == ".json":
            records = parse_json(path.read_bytes())
        else:  # not splitlines(): a label may contain other line separators of Unicode
            records = [parse_json(line) for line in path.read_bytes().split(b"\n") if line]
        if not isinstance(records, list):
            raise ValueError("it does not hold a list of rows")
        return [row_of_record(record) for record in records]
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path} of rows; check the path") from None
    # Arrow reports damage by errors of several kinds, and damaged text and JSON are ValueErrors.
    except (ValueError, OSError, TypeError, NotImplementedError, LookupError, OverflowError, MemoryError) as error:
        problem = " ".join(str(error).split())
        raise ValueError(f"{path} does not hold complete rows ({problem}); write them again, or copy the file again") from error


@functools.cache
def installed_version(package: str) -> str:
    """The version of an installed package, or "not installed"."""
    try:
        # Its line alone: to parse all that is known of NumPy takes as long as to measure a small array.
        line = re.search(r"^Version: *(\S+)", distribution(package).read_text("METADATA") or "", re.MULTILINE)
        return line[1] if line else distribution(package).version
    except PackageNotFoundError:
        return "not installed"


def _rows_file(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if path.suffix not in ROW_ENDINGS:
        raise ValueError(f"{path.name!r} has no known ending for rows; use .parquet, .json or .jsonl")
    return path
