"""A run as the report takes it: what was run, its rows and verdicts, and the pictures of its clouds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.core.pictures import Picture, read_picture
from theodolite.core.result import Verdict
from theodolite.core.rows import Row, read_rows

if TYPE_CHECKING:
    import pyarrow

KINDS = ("study", "survey", "compare", "tune", "rows")
ROWS_FILES = (".parquet", ".json", ".jsonl")
PATHS_COLUMNS = frozenset({"task", "layer", "label", "step", "x", "y", "z"})
SPECTRA_COLUMNS = frozenset({"model", "state", "layer", "setting", "k", "value"})


@dataclass(frozen=True, eq=False, kw_only=True)
class RunData:
    """One run. `facts` holds what else is known of it: study, models, settings, versions and notes, as `run.json` has them."""

    name: str
    title: str = ""
    kind: str = "rows"
    command: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    pictures: tuple[Picture, ...] = ()
    paths: pyarrow.Table | None = None
    spectra: pyarrow.Table | None = None


def read_run(path: str | os.PathLike[str]) -> RunData:
    """The run in a folder that `study run` or `tune` left, or the rows of one file.

    Nothing outside the folder is read: a file in it that is a link to elsewhere is refused.
    """
    path = Path(path)
    if path.is_file():
        return _rows_file(path)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no run {path}; name the folder of a run, or a file of rows (.parquet, .json, .jsonl)")
    if (path / "run.json").is_file():
        return _study_run(path)
    if (path / "settings.json").is_file():
        return _tune_run(path)
    raise ValueError(f"{path} is no run: it holds neither run.json nor settings.json; name the folder given as --to")


def _rows_file(path: Path) -> RunData:
    if path.suffix not in ROWS_FILES:
        raise ValueError(f"{path.name!r} has no known ending for rows; name the folder of a run, or a .parquet, .json or .jsonl")
    return RunData(name=path.stem, title=f"Rows of {path.name}", rows=_rows(path))


def _study_run(folder: Path) -> RunData:
    told = _json(_inside(folder, "run.json"), dict)
    verdicts, pictures = folder / "verdicts.json", folder / "pictures"
    shown = sorted(pictures.glob("*.parquet")) if pictures.is_dir() else []
    return RunData(
        name=str(told.pop("name", "") or folder.resolve().name),
        title=str(told.pop("title", "")),
        kind=str(told.pop("kind", "study")),
        command=_command(told.pop("command", "")),
        facts=told,
        rows=_rows(_inside(folder, "rows.parquet")) if (folder / "rows.parquet").exists() else (),
        verdicts=_verdicts(_inside(folder, "verdicts.json")) if verdicts.exists() else (),
        pictures=tuple(read_picture(_inside(folder, "pictures", each.name)) for each in shown),
        paths=_table(folder, "paths.parquet", PATHS_COLUMNS),
        spectra=_table(folder, "spectra.parquet", SPECTRA_COLUMNS),
    )


def _tune_run(folder: Path) -> RunData:
    if not (folder / "rows.parquet").exists():
        raise ValueError(f"{folder} holds a run that has not finished: it has no rows.parquet; go on with it by theodolite tune")
    settings = _json(_inside(folder, "settings.json"), dict)
    task = settings.get("task", "")
    task = str(task.get("name", "")) if isinstance(task, dict) else str(task)
    model = str(settings.get("model", ""))
    rows = _rows(_inside(folder, "rows.parquet"))
    versions = next((row.versions for row in rows if row.versions), "")
    done = _json(_inside(folder, "done.json"), dict) if (folder / "done.json").exists() else {}
    return RunData(
        name=folder.resolve().name,
        title=f"Fine-tuning {Path(model).name or model} on {task}" if task else f"Fine-tuning {model}",
        kind="tune",
        facts={"models": [model], "settings": {**settings, **done}, "versions": versions, "notes": []},
        rows=rows,
    )


def _inside(folder: Path, *parts: str) -> Path:
    """A file of the run's folder, refused where it is a link that leads out of it."""
    path = folder.joinpath(*parts)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} leads out of the run's folder, to {path.resolve()}; a run holds its own files")
    return path


def _json(path: Path, kind: type) -> Any:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); make the run again") from error
    if not isinstance(told, kind):
        raise ValueError(f"{path} must hold a JSON {'object' if kind is dict else 'list'}, and holds {type(told).__name__}")
    return told


def _rows(path: Path) -> tuple[Row, ...]:
    try:
        return tuple(read_rows(path))
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path} does not hold rows of results ({error})") from error


def _verdicts(path: Path) -> tuple[Verdict, ...]:
    try:
        return tuple(Verdict.from_dict(one) for one in _json(path, list))
    except (TypeError, KeyError) as error:
        raise ValueError(f"{path} does not hold verdicts ({error}); make them again with theodolite study check") from error


def _table(folder: Path, name: str, columns: frozenset[str]) -> Any:
    if not (folder / name).exists():
        return None
    import pyarrow.parquet as parquet

    table = parquet.read_table(_inside(folder, name))
    missing = sorted(columns - set(table.column_names))
    if missing:
        raise ValueError(f"{folder / name} lacks the column {missing[0]!r}; it must have {', '.join(sorted(columns))}")
    return table


def _command(told: Any) -> str:
    """A command is one line: a list of arguments is quoted as a shell wants it."""
    import shlex

    return shlex.join(map(str, told)) if isinstance(told, list) else str(told)
