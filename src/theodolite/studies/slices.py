"""Slices of one run, put together: seeds and tasks that were run at other times or on other machines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.core.declared import as_declared
from theodolite.core.files import read_json, reading, write_json
from theodolite.core.pictures import Picture
from theodolite.core.result import Result
from theodolite.studies.requests import Request
from theodolite.studies.steps import Step

if TYPE_CHECKING:
    import pyarrow

# Ends the key of the commands of slices in their file.
_COMMANDS = " commands"
# What a slice may have of its own.
_SLICED = ("seeds", "tasks", "layers")
# What says which number a row is: two rows that agree in it are two measurements of the same one.
_IDENTITY = ("metric", "model", "revision", "state", "task", "split", "setting", "layer", "label", "other_label", "step", "seed")


class Slices:
    """The steps of earlier runs into the same folder that differ in nothing but seeds, tasks and layers."""

    def __init__(self, path: Path, request: Request) -> None:
        settings = {name: value for name, value in request.settings.items() if name != "seeds"}
        identity = {"settings": settings, "models": [model.identity for model in request.models], "quick": request.quick}
        self._path = path
        self._key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:20]

    def _read(self) -> dict[str, list[str]]:
        """All slices; read when they are needed, because a run takes hours and others may end meanwhile."""
        if not self._path.is_file():
            return {}
        with reading(self._path, "a list of slices", again="remove it, and run the other slices again (their steps are done)"):
            stored: dict[str, list[str]] = as_declared(dict[str, list[str]], read_json(self._path))
            folders = (names for key, names in stored.items() if not key.endswith(_COMMANDS))
            if any(Path(name).name != name for names in folders for name in names):
                raise ValueError("a step has the name of another folder")
            return stored

    def merged(self, steps: Sequence[Step]) -> list[str]:
        """The folders of these steps and of the earlier ones, each once."""
        return list(dict.fromkeys([*self._read().get(self._key, ()), *(step.folder for step in steps)]))

    def keep(self, steps: Sequence[Step], command: str) -> tuple[list[str], str]:
        """The same and the commands of all slices, one per line, both listed for later runs; the caller holds a lock."""
        stored, key = self._read(), self._key + _COMMANDS
        folders, commands = self.merged(steps), list(dict.fromkeys([*stored.get(key, ()), command]))
        write_json(self._path, {**stored, self._key: folders, key: commands})
        return folders, "\n".join(commands)


def merge_slices(earlier: Result, later: Result) -> Result:
    """The later result with what only the earlier one has; the caller judges the claims again.

    A number that both have is the later one's, with its item-level records.
    """
    for what, key in (("study", "study"), ("encoders", "models"), ("settings", "settings")):
        if _fixed(earlier.provenance, key) != _fixed(later.provenance, key):
            raise ValueError(f"the folder holds records for other {what}, which cannot be merged with these; name another folder")
    facts = dict(later.provenance)
    versions = {**earlier.provenance.get("step_versions", {}), **facts.get("step_versions", {})}
    for kind, version in earlier.provenance.get("step_versions", dict.fromkeys(versions, "an unknown version")).items():
        if version != versions[kind]:
            what = f"its {kind!r} steps are from {_version(version)}, and those of this run from {_version(versions[kind])}"
            raise ValueError(f"the folder holds records made another way: {what}; export to a new folder, or run all steps again")
    facts["step_versions"] = versions
    facts["step_hashes"] = {**earlier.provenance.get("step_hashes", {}), **facts.get("step_hashes", {})}
    commands = [*str(earlier.provenance.get("command", "")).splitlines(), *str(facts.get("command", "")).splitlines()]
    facts["command"] = "\n".join(dict.fromkeys(commands))
    identity = attrgetter(*_IDENTITY)
    measured = {identity(row) for row in later.rows}
    names = dict.fromkeys([*earlier.records, *later.records])
    return replace(
        later,
        rows=(*(row for row in earlier.rows if identity(row) not in measured), *later.rows),
        records={
            name: _merge_tables([result.records[name] for result in (earlier, later) if name in result.records]) for name in names
        },
        pictures=first_pictures((*earlier.pictures, *later.pictures)),
        provenance=facts,
    )


def _version(version: Any) -> str:
    return f"version {version}" if isinstance(version, int) else str(version)


def first_pictures(pictures: Iterable[Picture]) -> tuple[Picture, ...]:
    """The first picture of each model, state, task and layer: those of further seeds look alike."""
    first: dict[tuple[Any, ...], Picture] = {}
    for picture in pictures:
        first.setdefault(tuple(picture.about.get(name) for name in ("model", "state", "task", "layer")), picture)
    return tuple(first.values())


def _fixed(facts: Mapping[str, Any], key: str) -> Any:
    """A fact of a run that all of its slices share."""
    if key != "settings":
        return facts.get(key)
    return {name: value for name, value in facts.get(key, {}).items() if name not in _SLICED}, bool(facts.get("quick"))


def _merge_tables(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """All records; of those that are of the same thing, the last table's."""
    import pyarrow

    first, last = tables[0], tables[-1]
    if len(tables) == 1:
        return last
    # What a record is of is in its names and numbers; measured values are floats, and lists of them.
    types = pyarrow.types
    shared = [field for field in last.schema if field.name in first.column_names and field.name != "n"]
    keys = [field.name for field in shared if types.is_integer(field.type) or types.is_string(field.type)]
    taken = set(zip(*(last[name].to_pylist() for name in keys), strict=True))
    kept = [record not in taken for record in zip(*(first[name].to_pylist() for name in keys), strict=True)]
    return pyarrow.concat_tables([first.filter(pyarrow.array(kept, pyarrow.bool_())), last], promote_options="permissive")
