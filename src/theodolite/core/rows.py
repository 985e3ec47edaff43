"""A result is a row: one number, with everything needed to say where it comes from."""

from __future__ import annotations

import functools
import json
import math
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

from theodolite.core.files import require_free, whole_file

ROW_ENDINGS = (".parquet", ".json", ".jsonl")
"""Files that rows can be written to."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured number and its provenance. A value that is not defined is nan, and `reason` says why."""

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
    versions: str = ""

    def __post_init__(self) -> None:
        if math.isnan(self.value) and not self.reason:
            raise ValueError(f"metric {self.metric!r} is nan without a reason; say why it is not defined")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: nan and infinity become null, the reason stays."""
        return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Row:
        """The row `to_dict` came from."""
        unknown = set(values) - set(cls.FIELDS)
        if unknown:
            raise ValueError(f"a row has no field {min(unknown)!r}; known: {list(cls.FIELDS)}")
        return cls(**{**values, "value": math.nan if values.get("value") is None else values["value"]})


Row.FIELDS = tuple(each.name for each in fields(Row))


@functools.cache
def current_versions() -> str:
    """The versions a number was made with, in one short line."""
    names = ("theodolite", "numpy", "scipy", "scikit-learn")
    return "; ".join([f"python {platform.python_version()}", *(f"{name} {_version(name)}" for name in names)])


def write_rows(rows: Iterable[Row], path: str | os.PathLike[str]) -> None:
    """Write rows to `.parquet`, `.json` or `.jsonl`, whole or not at all.

    Parameters
    ----------
    rows
        The rows, in order.
    path
        The file; its ending chooses the format.
    """
    path = require_rows_file(path)
    records = [row.to_dict() for row in rows]
    with whole_file(path) as partial:
        if path.suffix == ".parquet":
            _write_parquet(records, partial)
        elif path.suffix == ".json":
            partial.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        else:
            partial.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")


def require_rows_file(path: str | os.PathLike[str]) -> Path:
    """The path, if rows could be written there; called before long work rather than after it."""
    path = Path(path)
    if path.suffix not in ROW_ENDINGS:
        raise ValueError(f"{path.name!r} has no known ending for rows; use .parquet, .json or .jsonl")
    return require_free(path, overwrite=True)


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """Read what `write_rows` wrote."""
    path = Path(path)
    if path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        records = parquet.read_table(path).to_pylist()
    elif path.suffix == ".json":
        records = json.loads(path.read_text(encoding="utf-8"))
    elif path.suffix == ".jsonl":
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    else:
        raise ValueError(f"{path.name!r} has no known ending for rows; use .parquet, .json or .jsonl")
    return [Row.from_dict(record) for record in records]


def _write_parquet(records: list[dict[str, Any]], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    kinds = {"str": pyarrow.string(), "float": pyarrow.float64(), "int": pyarrow.int64()}
    schema = pyarrow.schema([(f.name, kinds[str(f.type).split(" ")[0]]) for f in fields(Row)])
    parquet.write_table(pyarrow.Table.from_pylist(records, schema=schema), path)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
