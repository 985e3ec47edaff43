"""A study as data: what a paper did, what it prints and what it claims, read from one TOML file and checked while it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from theodolite.spaces.readers.errors import DataError, name_list, suggestion
from theodolite.studies.claims import RULES
from theodolite.studies.printed import PaperModel, PrintedTable, PrintedValue, read_model, read_table, read_values
from theodolite.studies.toml_reading import TomlTable, plain_values, read_toml
from theodolite.tasks.declarations import TASKS
from theodolite.tasks.own import own_task
from theodolite.tasks.task import Task

HOME = Path(__file__).parent
"""Holds one folder per study that comes with the package."""
FILE = "study.toml"

TASK_OPTIONS = ("columns", "score", "labels", "score_range", "format", "delimiter", "quoting", "encoding")
"""Keys of [task] next to name, kind and files: the options of `own_task`."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a source claims, and the rule that decides it.

    Parameters
    ----------
    id, title
        Its short name and the claim in a few words.
    criterion
        The rule in words.
    rule, parameters
        The registered rule and its parameters.
    printed
        Groups of sources whose printed rows the rule is also applied to.
    stated
        What the text says, if it prints no numbers.
    decide
        The command that would decide the claim; {study} and {model} stand for the study and the model.
    """

    id: str
    title: str
    criterion: str
    rule: str
    parameters: Mapping[str, Any]
    printed: tuple[tuple[str, ...], ...] = ()
    stated: str = ""
    decide: str = ""


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """A paper's experiment, as its TOML file has it.

    Parameters
    ----------
    name, title, source, citation
        Its plain name, the paper's title, the short name of the paper in tables, and whom to cite.
    plan
        The study whose `plan.py` turns the settings into steps.
    path
        The TOML file.
    conditions
        What the paper did, for readers.
    settings
        What a run does, by the names that the plan reads; `settings["quick"]` holds the small sizes.
    score
        The metric of each task.
    repeats
        How many repetitions are behind a metric's standard deviation.
    scale
        What turns a printed number into its metric's own unit, by metric.
    models
        The models that the printed tables name.
    printed_tables, printed
        The paper's tables and all their numbers.
    claims
        What the paper claims.
    audits
        Checks of the printed numbers against one another.
    notes
        Sentences for the reader of a run.
    tables
        The tables that a report shows of a run, as plain values.
    tasks
        Tasks of the user's own by name, from `[task]`.
    """

    name: str
    title: str
    source: str
    citation: str
    plan: str
    path: str
    conditions: Mapping[str, Any]
    settings: Mapping[str, Any]
    score: Mapping[str, str]
    repeats: Mapping[str, int]
    scale: Mapping[str, float]
    models: tuple[PaperModel, ...]
    printed_tables: tuple[PrintedTable, ...]
    printed: tuple[PrintedValue, ...]
    claims: tuple[Claim, ...]
    audits: tuple[Claim, ...]
    notes: tuple[str, ...]
    tables: tuple[Mapping[str, Any], ...] = ()
    tasks: Mapping[str, Task] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """What the study is called in a command: its name, or the path of a file of the user's own."""
        return self.name if Path(self.path).is_relative_to(HOME) else self.path


def study_names() -> list[str]:
    """The names of the studies that come with the package, in alphabetical order."""
    return sorted(path.parent.name for path in HOME.glob(f"*/{FILE}"))


def load_spec(name: str | os.PathLike[str]) -> StudySpec:
    """Read a study by its name, or from a TOML file of the user's own.

    Parameters
    ----------
    name
        One of `study_names()`, or the path of a `.toml` file.

    Raises
    ------
    DataError
        There is no such study or file, or something in the file is wrong; the message names the key, the rule and the way out.
    """
    path, names = Path(name), study_names()
    if path.suffix == ".toml":
        if not path.is_file():
            raise DataError("there is no such file; give the path of a study's TOML file, or a name", file=path)
    elif str(name) in names:
        path = HOME / str(name) / FILE
    else:
        hint = suggestion(str(name), names)
        raise DataError(
            f"there is no study {str(name)!r}{hint}; choose from {name_list(names)}, or give the path of a .toml file"
        )
    return _read_spec(TomlTable(read_toml(path), file=path))


def _read_spec(root: TomlTable) -> StudySpec:
    name, plan = root.text("name"), root.text("plan")
    # The name becomes that of a folder, and a field of every row.
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise root.error(
            "name", f"{name!r} must be a plain name: letters, digits, dots, dashes and underscores, such as my-study"
        )
    if plan not in study_names():
        raise root.error(
            "plan", f"there is no plan {plan!r}{suggestion(plan, study_names())}; choose from {name_list(study_names())}"
        )
    tasks = {task.name: task for task in _read_tasks(root)}
    score, scale = {**{task: declared.score for task, declared in tasks.items()}, **root.texts("score")}, root.numbers("scale")
    models, tables = tuple(map(read_model, root.tables("models"))), tuple(map(read_table, root.tables("printed_tables")))
    printed = tuple(
        value
        for block in root.tables("printed")
        for value in read_values(block, tables, models, study=name, score=score, scale=scale)
    )
    sources = sorted({value.source for value in printed})
    spec = StudySpec(
        name=name,
        title=root.text("title"),
        source=root.text("source"),
        citation=root.text("citation"),
        plan=plan,
        path=str(root.file),
        conditions=root.plain("conditions"),
        settings=root.plain("settings"),
        score=score,
        repeats={key: int(value) for key, value in root.numbers("repeats").items()},
        scale=scale,
        models=models,
        printed_tables=tables,
        printed=printed,
        claims=tuple(_read_claim(table, sources) for table in root.tables("claims")),
        audits=tuple(_read_claim(table, sources) for table in root.tables("audits")),
        notes=root.strings("notes"),
        tables=tuple(_read_shown_tables(root)),
        tasks=tasks,
    )
    root.finish()
    return spec


def _read_shown_tables(root: TomlTable) -> Iterator[dict[str, Any]]:
    """The tables of a report as plain values: what draws them checks their fields."""
    for table in root.tables("tables"):
        table.read_keys.update(table.values)
        yield plain_values(dict(table.values))


def _read_claim(table: TomlTable, sources: list[str]) -> Claim:
    rule, parameters = table.text("rule"), table.plain("parameters")
    if rule not in RULES:
        raise table.error(
            "rule", f"there is no rule {rule!r}{suggestion(rule, list(RULES))}; choose from {name_list(list(RULES), most=20)}"
        )
    if fault := RULES[rule].fault(parameters):
        raise table.error("parameters", f"the rule {rule!r} {fault}")
    groups = table.get("printed", list, 'a list of lists of sources, such as [["table 1"]]', [])
    for group in groups:
        if not isinstance(group, list) or not all(isinstance(source, str) for source in group):
            raise table.error("printed", f'{groups!r} must be a list of lists of sources, such as [["table 1"]]')
        for source in group:
            if source not in sources:
                hint = suggestion(source, sources)
                raise table.error("printed", f"no table is from {source!r}{hint}; choose from {name_list(sources)}")
    return Claim(
        id=table.text("id"),
        title=table.text("title"),
        criterion=table.text("criterion"),
        rule=rule,
        parameters=parameters,
        printed=tuple(tuple(group) for group in groups),
        stated=table.text("stated", ""),
        decide=table.text("decide", ""),
    )


def _read_tasks(root: TomlTable) -> Iterator[Task]:
    """The tasks of [task], or of several [[task]]; their files are relative to the folder of the TOML file."""
    several = isinstance(root.values.get("task"), list)
    tables = root.tables("task") if several else [root.subtable("task")] if "task" in root.values else []
    root.read_keys.add("task")
    for table in tables:
        name, kind = table.text("name"), table.text("kind")
        if name in TASKS:
            raise table.error("name", f"{name!r} is a task that comes with the package; choose another name")
        files = table.get(
            "files", (str, list, dict), 'a table of files by split, such as { train = "train.csv", test = "test.csv" }'
        )
        options = {key: plain_values(table.values[key]) for key in TASK_OPTIONS if key in table.values}
        table.read_keys.update(TASK_OPTIONS)
        table.finish()
        if "score_range" in options:
            options["score_range"] = tuple(options["score_range"])  # TOML has lists only
        try:
            yield own_task(_located(files, root.file.resolve().parent), kind=cast("Any", kind), name=name, **options)
        except (DataError, TypeError) as error:
            raise root.error("task", str(error)) from error


def _located(files: Any, folder: Path) -> Any:
    if isinstance(files, dict):
        return {split: _located(paths, folder) for split, paths in files.items()}
    return [str(folder / path) for path in ([files] if isinstance(files, str) else files)]
