"""A study as data: what a paper did, what it prints, what it claims, read from one TOML file and checked as it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.studies.fields import Fields, read_toml
from theodolite.studies.printed import PaperModel, Printed, Table, models_of, printed_of, tables_of
from theodolite.studies.rules import RULES
from theodolite.tasks.errors import DataError, close_to, listed

PAPERS = Path(__file__).parent / "papers"
"""The studies that come with the package."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a source claims, and the rule that decides it. `asks` is the rule in words, `parameters` what it is told.

    `printed` are groups of sources whose rows the rule is run on too; `stated` is what the text says where no number is at hand;
    `decide` is the command that would decide the claim, with {model} for the model.
    """

    id: str
    title: str
    asks: str
    rule: str
    parameters: Mapping[str, Any]
    printed: tuple[tuple[str, ...], ...] = ()
    stated: str = ""
    decide: str = ""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A paper's experiment. `conditions` is what the paper did, `settings` what a run here is told, by the names the plan reads.

    `score` is each task's metric; `scale` turns a printed number into the metric's own unit; `repeats` is how many repetitions
    are behind a metric's standard deviation; `checks` hold the printed numbers against one another.
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
    tables: tuple[Table, ...]
    printed: tuple[Printed, ...]
    claims: tuple[Claim, ...]
    checks: tuple[Claim, ...]
    notes: tuple[str, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the printed numbers come from, in order."""
        return tuple(dict.fromkeys(one.source for one in self.printed))


def study_names() -> list[str]:
    """The names of the studies that come with the package."""
    return sorted(path.stem for path in PAPERS.glob("*.toml"))


def load_study(name: str | os.PathLike[str]) -> Study:
    """A study by its name, or from a TOML file of one's own."""
    given = Path(name)
    if given.suffix == ".toml":
        if not given.is_file():
            raise DataError("there is no such file; give the path of a study's TOML file or a name", file=given)
        return _study(Fields(read_toml(given), file=given))
    if str(name) not in study_names():
        known = study_names()
        raise DataError(
            f"there is no study {str(name)!r}{close_to(str(name), known)}; there are {listed(known)}, or give a .toml file"
        )
    path = PAPERS / f"{name}.toml"
    return _study(Fields(read_toml(path), file=path))


def _study(given: Fields) -> Study:
    name = given.text("name")
    scale = {key: float(given.inside("scale").number(key)) for key in given.inside("scale").values}
    score = given.texts("score")
    models, tables = models_of(given), tables_of(given)
    printed = printed_of(given, tables, scale=scale, score=score, study=name, models=models)
    sources = {one.source for one in printed}
    study = Study(
        name=name,
        title=given.text("title"),
        source=given.text("source"),
        citation=given.text("citation"),
        plan=given.text("plan"),
        path=str(given.file),
        conditions=given.plain("conditions"),
        settings=given.plain("settings"),
        score=score,
        repeats={key: int(value) for key, value in given.plain("repeats").items()},
        scale=scale,
        models=models,
        tables=tables,
        printed=printed,
        claims=tuple(_claim(one, sources) for one in given.each("claims")),
        checks=tuple(_claim(one, sources) for one in given.each("checks", needed=False)),
        notes=tuple(given.strings("notes")),
    )
    given.finish()
    return study


def _claim(given: Fields, sources: set[str]) -> Claim:
    rule, parameters = given.text("rule"), given.plain("parameters")
    if rule not in RULES:
        raise given.fault(
            "rule", f"there is no rule {rule!r}{close_to(rule, list(RULES))}; take one of {listed(list(RULES), most=20)}"
        )
    if faults := RULES[rule].faults(parameters):
        raise given.fault("parameters", f"the rule {rule!r} {faults}")
    groups = given.plain_list("printed")
    for source in (source for group in groups for source in group):
        if source not in sources:
            raise given.fault(
                "printed", f"no table is from {source!r}{close_to(source, sorted(sources))}; there are {listed(sorted(sources))}"
            )
    claim = Claim(
        id=given.text("id"),
        title=given.text("title"),
        asks=given.text("asks"),
        rule=rule,
        parameters=parameters,
        printed=tuple(tuple(group) for group in groups),
        stated=given.text("stated", ""),
        decide=given.text("decide", ""),
    )
    given.finish()
    return claim
