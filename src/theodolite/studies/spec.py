"""A study as data: what a paper did, what it prints and what it claims, read from one TOML file and checked while it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from theodolite.core.rows import Row
from theodolite.core.spelling import name_list
from theodolite.spaces.readers.data_files import DataError
from theodolite.studies.claims import RULES
from theodolite.studies.claims.evidence import ORIGINS, ModelOrigin
from theodolite.studies.claims.premises import Premises
from theodolite.studies.claims.rules import SIDES, ClaimedEffect
from theodolite.studies.toml_reading import TomlTable, plain_values, read_toml
from theodolite.tasks.declarations import TASKS
from theodolite.tasks.own import own_task
from theodolite.tasks.task import Task

# Holds one folder per study that comes with the package.
HOME = Path(__file__).parent
FILE = "study.toml"

POOLS = ("mean", "median", "lowest", "none")
# The fields of a row that a printed table may set.
ROW_FIELDS = ("model", "state", "task", "split", "setting", "label")
# Keys of [task] next to name, kind and files: the options of `own_task`.
TASK_OPTIONS = ("columns", "score", "labels", "score_range", "format", "delimiter", "quoting", "encoding")


@dataclass(frozen=True, kw_only=True)
class PaperModel:
    """A model that a paper names."""

    name: str
    hub: tuple[str, ...] = ()
    revisions: Mapping[str, str] = field(default_factory=dict)
    family: str = ""
    d: int = 0
    tuning: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KnownEncoder:
    """An encoder that the study knows besides the paper's."""

    name: str
    about: str
    origin: str
    hub: tuple[str, ...] = ()
    sha256: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """How a table or figure of a paper is laid out."""

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
    lines: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    cells: Mapping[str, str]
    places: Mapping[str, str]
    part_of: str = ""


@dataclass(frozen=True, kw_only=True)
class PrintedValue:
    """A printed number as a row in its metric's own unit, and as it is printed.

    `standing` is "printed" or, for a number of which the source shows no origin, "reported". `relation` is "=" or, for a bound,
    ">" or "<".
    """

    source: str
    standing: str
    table: str
    row: Row
    text: str
    relation: str = "="


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a source claims, and the effects that decide it."""

    id: str
    title: str
    criterion: str
    primary: tuple[ClaimedEffect, ...]
    secondary: tuple[ClaimedEffect, ...] = ()
    tasks: tuple[str, ...] = ()
    premises: Premises = field(default_factory=Premises)
    note: str = ""
    scope: str = "model"
    printed: tuple[tuple[str, ...], ...] = ()
    stated: str = ""
    decide: str = ""


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """A paper's experiment, as its TOML file has it."""

    name: str
    title: str
    source: str
    citation: str
    link: str
    plan: str
    path: str
    conditions: Mapping[str, Any]
    settings: Mapping[str, Any]
    score: Mapping[str, str]
    scale: Mapping[str, float]
    models: tuple[PaperModel, ...]
    printed_tables: tuple[PrintedTable, ...]
    printed: tuple[PrintedValue, ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    tables: tuple[Mapping[str, Any], ...] = ()
    tasks: Mapping[str, Task] = field(default_factory=dict)
    encoders: tuple[KnownEncoder, ...] = ()

    def known_origin(self, *names: str) -> ModelOrigin | None:
        """What the study's list says of an encoder, by a Hub id or the hash of its files; None if it is not there."""
        for encoder in self.encoders:
            if {*encoder.hub, *encoder.sha256} & set(names):
                return ModelOrigin(encoder.origin, encoder.about, "list")
        paper = next((model for model in self.models if set(model.hub) & set(names)), None)
        return None if paper is None else ModelOrigin(ORIGINS[0], f"the paper's {paper.name}", "list")

    @property
    def reference(self) -> str:
        """What the study is called in a command: its name, or the path of a file of the user's own."""
        return self.name if Path(self.path).is_relative_to(HOME) else self.path


def study_names() -> list[str]:
    """The names of the studies that come with the package, in alphabetical order."""
    return sorted(path.parent.name.replace("_", "-") for path in HOME.glob(f"*/{FILE}"))


def load_spec(name: str | os.PathLike[str]) -> StudySpec:
    """Read a study by its name, or from a TOML file of the user's own."""
    path, names = Path(name), study_names()
    if path.suffix == ".toml":
        if not path.is_file():
            raise DataError("there is no such file; give the path of a study's TOML file, or a name", file=path)
    elif str(name) in names:
        path = HOME / str(name).replace("-", "_") / FILE
    else:
        choices = name_list(names, near=str(name))
        raise DataError(f"there is no study {str(name)!r}; choose from {choices}, or give the path of a .toml file")
    return _read_spec(read_toml(path))


def _read_spec(root: TomlTable) -> StudySpec:
    name, plan = root.text("name"), root.text("plan")
    # The name becomes that of a folder, and a field of every row.
    if not re.fullmatch(r"\w[\w.-]*", name):
        rule = "must be a plain name: letters, digits, dots, dashes and underscores, such as my-study"
        raise root.error("name", f"{name!r} {rule}")
    if plan not in study_names() and not plan.endswith(".py"):
        raise root.choice_error("plan", "plan", plan, [*study_names(), "a .py file next to this one"])
    tasks = {task.name: task for task in _read_tasks(root)}
    spec = root.record(
        StudySpec,
        path=str(root.file),
        score={**{task: own.score for task, own in tasks.items()}, **root.texts("score")},
        models=tuple(table.record(PaperModel) for table in root.tables("models")),
        printed_tables=tuple(map(_read_table, root.tables("printed_tables"))),
        encoders=tuple(map(_read_encoder, root.tables("encoders"))),
        **dict.fromkeys(("printed", "claims"), ()),  # read below, because they refer to what is read here
        tables=tuple(_plain_tables(root, "tables")),
        tasks=tasks,
    )
    printed = tuple(value for block in root.tables("printed") for value in _read_values(block, spec))
    # Claims name the sources of printed rows, so these are known only now.
    sources = sorted({value.source for value in printed})
    claims = tuple(_read_claim(table, sources) for table in root.tables("claims"))
    root.finish()
    return replace(spec, printed=printed, claims=claims)


def _read_encoder(table: TomlTable) -> KnownEncoder:
    encoder = table.record(KnownEncoder)
    if encoder.origin not in ORIGINS:
        raise table.error("origin", f"{encoder.origin!r} must be one of {name_list(ORIGINS)}")
    return encoder


def _plain_tables(root: TomlTable, key: str) -> Iterator[dict[str, Any]]:
    """The tables of a report as plain values: what draws them checks their fields."""
    for table in root.tables(key):
        table.read_keys.update(table.values)
        yield plain_values(table.values)


def _read_table(table: TomlTable) -> PrintedTable:
    layout = table.record(PrintedTable)
    _check_row_fields(table, "where", layout.where)
    _check_row_fields(table, "keys", [*layout.keys, *filter(None, [layout.across])])
    for key, names in (("lines", layout.lines), ("heads", layout.heads)):
        _check_row_fields(table, key, [name for name in names if name != "source"])
    if layout.pool not in POOLS:
        raise table.error("pool", f"{layout.pool!r} must be one of {name_list(POOLS)}")
    if bool(layout.across) != bool(layout.columns):
        raise table.error("columns", "`across` and `columns` of a table go together; give both or neither")
    return layout


def _check_row_fields(table: TomlTable, key: str, names: Iterable[str]) -> None:
    for name in names:
        if name not in ROW_FIELDS:
            choices = name_list(ROW_FIELDS, near=name)
            raise table.error(key, f"{name!r} is not a field of a row that a table can set; choose from {choices}")


def _read_values(block: TomlTable, spec: StudySpec) -> Iterator[PrintedValue]:
    """The numbers of a [[printed]] block, in order."""
    tables, models = {table.name: table for table in spec.printed_tables}, sorted(model.name for model in spec.models)
    name, standing = block.text("table"), block.text("standing", "printed")
    if name not in tables:
        raise block.choice_error("table", "table", name, list(tables))
    if standing not in ("printed", "reported"):
        raise block.error("standing", f"{standing!r} must be printed or reported")
    source, relation = block.text("source"), block.text("relation", "=")
    shared = {**tables[name].where, **block.texts("where"), "study": spec.name}
    _check_row_fields(block, "where", block.texts("where"))
    for number, line in enumerate(block.get("values", list, "a list of lines")):
        key = f"values[{number}]"
        for fields, column, value in _cells(block, key, tables[name], line):
            row: dict[str, Any] = {**shared, **fields}
            if (model := row.get("model")) not in models:
                raise block.error(key, f"model {model!r} is not one of {name_list(models)}; declare it under [[models]]")
            # "score" and "score_sd" stand for the task's own metric, so that one table can hold tasks with different ones.
            is_score = column.startswith("score") and row.get("task") in spec.score
            metric = column.replace("score", spec.score[row["task"]], 1) if is_score else column
            unit = spec.scale.get(metric, 1.0)
            yield PrintedValue(
                source=source,
                standing=standing,
                table=name,
                row=Row(metric=metric, value=float(value) * unit, **row),
                text=str(value),
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
    columns = [{**fields, table.across: column} for column in table.columns] or [fields]
    for cell_fields, cell in zip(columns, line[count:] if table.across else [line[count:]], strict=True):
        values: list[Any] = cell if isinstance(cell, list) else [cell]
        if len(values) != len(table.metrics):
            raise block.error(key, f"a cell has {len(table.metrics)} numbers ({', '.join(table.metrics)}), not {values!r}")
        for metric, value in zip(table.metrics, values, strict=True):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise block.error(key, f"{value!r} must be a number, the {metric}")
            yield cell_fields, metric, value


def _read_claim(table: TomlTable, sources: Sequence[str]) -> Claim:
    printed = _read_sources(table, sources)
    effects = {key: tuple(map(_read_effect, table.tables(key))) for key in ("primary", "secondary")}
    if not 1 <= len(effects["primary"]) <= 3:
        rule = "a claim needs one to three primary effects, each headed [[claims.primary]]; they alone decide it"
        raise table.error("primary", f"there are {len(effects['primary'])}; {rule}")
    premises = table.subtable("premises")
    declared = premises.record(Premises)
    if declared.learned and "metric" not in declared.learned:
        raise premises.error("learned", 'must name the metric of the tuned model\'s score, such as { metric = "accuracy" }')
    if declared.origin not in ("", ORIGINS[0]):
        raise premises.error("origin", f"{declared.origin!r} must be {ORIGINS[0]}")
    premises.finish()
    claim = table.record(Claim, printed=printed, premises=declared, **effects)
    if claim.scope not in ("model", "models"):
        raise table.error("scope", f"{claim.scope!r} must be model or models")
    return claim


def _read_effect(table: TomlTable) -> ClaimedEffect:
    effect = table.record(ClaimedEffect)
    if effect.rule not in RULES:
        raise table.choice_error("rule", "rule", effect.rule, list(RULES))
    if misuse := RULES[effect.rule].misuse(effect.parameters):
        raise table.error("parameters", f"the rule {effect.rule!r} {misuse}")
    if effect.side not in SIDES:
        raise table.error("side", f"{effect.side!r} must be one of {name_list(SIDES)}")
    if effect.side == "inside" and effect.boundary <= 0:
        raise table.error("boundary", f"{effect.boundary} is a margin and must be above 0")
    if effect.scale and "metric" not in effect.scale:
        raise table.error("scale", 'must name the metric at unit scale, such as { metric = "log_partition_isotropy_unit_norm" }')
    return effect


def _read_sources(table: TomlTable, sources: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    rule = 'a list of lists of sources, such as [["table 1"]]'
    groups = table.get("printed", list, rule, [])
    if not all(isinstance(group, list) and all(isinstance(source, str) for source in group) for group in groups):
        raise table.error("printed", f"{groups!r} must be {rule}")
    for source in (source for group in groups for source in group if source not in sources):
        raise table.error("printed", f"no table is from {source!r}; choose from {name_list(sources, near=source)}")
    return tuple(map(tuple, groups))


def _read_tasks(root: TomlTable) -> Iterator[Task]:
    """The tasks of [task], or of several [[task]]; their files are relative to the folder of the TOML file."""
    several = isinstance(root.values.get("task"), list)
    tables = root.tables("task") if several else [root.subtable("task")] if "task" in root.values else []
    root.read_keys.add("task")
    for table in tables:
        name, kind = table.text("name"), table.text("kind")
        if name in TASKS:
            raise table.error("name", f"{name!r} is a task of the package; choose another name")
        rule = 'a table of files by split, such as { train = "train.csv", test = "test.csv" }'
        files = _located(table.get("files", (str, list, dict), rule), root.file.resolve().parent)
        options = {key: plain_values(table.values[key]) for key in TASK_OPTIONS if key in table.values}
        table.read_keys.update(TASK_OPTIONS)
        table.finish()
        if "score_range" in options:
            options["score_range"] = tuple(options["score_range"])  # TOML has lists only
        try:
            yield own_task(files, kind=kind, name=name, **options)  # type: ignore[arg-type]  # checked there, with a message
        except (DataError, TypeError) as error:
            raise root.error("task", str(error)) from error


def _located(files: Any, folder: Path) -> Any:
    if isinstance(files, dict):
        return {split: _located(paths, folder) for split, paths in files.items()}
    return [str(folder / path) for path in ([files] if isinstance(files, str) else files)]
