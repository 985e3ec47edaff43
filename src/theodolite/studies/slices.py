"""Exported slices of one run, put together: seeds and tasks that were run at other times or on other machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from theodolite.core.pictures import Picture
from theodolite.core.result import Result
from theodolite.core.rows import Row

if TYPE_CHECKING:
    import pyarrow

# What a slice may have of its own.
_SLICED = ("seeds", "tasks", "layers")
# A row's place: two rows with the same one are two measurements of the same number.
_PLACE = ("metric", "model", "revision", "state", "task", "split", "setting", "layer", "label", "other_label", "step", "seed")


def merge_slices(earlier: Result, later: Result) -> Result:
    """The later result with what only the earlier one has; the caller judges the claims again.

    A number that both have is the later one's, with its item-level records.
    """
    for what, of in (("study", _study), ("encoders", _encoders), ("settings", _settings)):
        if of(earlier.provenance) != of(later.provenance):
            raise ValueError(f"the folder holds records of other {what}, which cannot be merged with these; name another folder")
    facts = dict(later.provenance)
    versions = {**earlier.provenance.get("step_versions", {}), **facts.get("step_versions", {})}
    for kind, version in earlier.provenance.get("step_versions", dict.fromkeys(versions, "an unknown version")).items():
        if version != versions[kind]:
            what = f"its {kind!r} steps are of {_version(version)}, those of this run of {_version(versions[kind])}"
            raise ValueError(f"the folder holds records made another way: {what}; export to a new folder, or run it all again")
    facts["step_versions"] = versions
    facts["step_hashes"] = {**earlier.provenance.get("step_hashes", {}), **facts.get("step_hashes", {})}
    commands = [*str(earlier.provenance.get("command", "")).splitlines(), *str(facts.get("command", "")).splitlines()]
    facts["command"] = "\n".join(dict.fromkeys(commands))
    places = {_place(row) for row in later.rows}
    names = dict.fromkeys([*earlier.records, *later.records])
    return replace(
        later,
        rows=(*(row for row in earlier.rows if _place(row) not in places), *later.rows),
        records={
            name: _merge_tables([each.records[name] for each in (earlier, later) if name in each.records]) for name in names
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


def _study(facts: Mapping[str, Any]) -> Any:
    return facts.get("study")


def _encoders(facts: Mapping[str, Any]) -> Any:
    return facts.get("models")


def _settings(facts: Mapping[str, Any]) -> Any:
    settings = {name: value for name, value in facts.get("settings", {}).items() if name not in _SLICED}
    return settings, bool(facts.get("quick"))


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in _PLACE)


def _merge_tables(tables: Iterable[pyarrow.Table]) -> pyarrow.Table:
    """All records; of those that are of the same thing, the last table's."""
    import pyarrow

    *earlier, last = tables
    if not earlier:
        return last
    (first,) = earlier
    # What a record is of is in its names and numbers; measured values are floats, and lists of them.
    kinds = {field.name: field.type for field in last.schema}
    keys = [
        name for name, kind in kinds.items() if name != "n" and (pyarrow.types.is_integer(kind) or pyarrow.types.is_string(kind))
    ]
    taken = set(zip(*(last[name].to_pylist() for name in keys), strict=True))
    kept = [place not in taken for place in zip(*(first[name].to_pylist() for name in keys), strict=True)]
    return pyarrow.concat_tables([first.filter(pyarrow.array(kept, pyarrow.bool_())), last], promote_options="permissive")
