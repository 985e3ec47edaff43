"""What a run of a study is asked for: models, and what is to differ from the study as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from theodolite.studies.identity import Model, data_hash
from theodolite.tasks.load import load_task


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The models to run with, where the tasks' files are, and what of the study's settings is to differ.

    `tasks`, `seeds` and `layers` are all that the study has where they are empty. `quick` takes the study's own small sizes.
    `changes` are settings of the study by their dotted names, such as {"tuning.epochs": 1}.
    """

    models: tuple[Model, ...]
    data: str | None = None
    tasks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    layers: tuple[int, ...] = ()
    quick: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """The study's settings with quick sizes, then the changes, laid over them."""
        told = _copied(written)
        quick = told.pop("quick", {})
        for name, value in {**(_dotted(quick) if self.quick else {}), **self.changes}.items():
            _put(told, name, value)
        return told

    def chosen_tasks(self, known: list[str]) -> list[str]:
        """The asked tasks, in the study's order."""
        unknown = next((task for task in self.tasks if task not in known), None)
        if unknown is not None:
            raise ValueError(f"the study has no task {unknown!r}; it has {', '.join(known)}")
        return [task for task in known if not self.tasks or task in self.tasks]

    def chosen_seeds(self, known: list[int]) -> list[int]:
        """The asked seeds, or the study's."""
        return list(self.seeds) or list(known)

    def chosen_layers(self, model: Model) -> list[int]:
        """The asked layers of a model, or all of them."""
        unknown = next((layer for layer in self.layers if not 0 <= layer <= model.last), None)
        if unknown is not None:
            raise ValueError(f"{model.name} has no layer {unknown}; it has 0 (embeddings) to {model.last}")
        return list(self.layers) or list(range(model.last + 1))


@cache
def split_hash(task: str, split: str, data: str | None) -> str:
    """The hash of a split's examples, read once."""
    return data_hash(load_task(task, split, data))


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copied(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def _dotted(values: Mapping[str, Any], head: str = "") -> dict[str, Any]:
    """Nested tables as dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _dotted(value, f"{head}{name}.")
        else:
            found[f"{head}{name}"] = value
    return found


def _put(told: dict[str, Any], name: str, value: Any) -> None:
    """Set a dotted name that is there, or that is inside a table of hyper-parameters, which takes any of a fine-tuning's."""
    *path, last = name.split(".")
    table = told
    for part in path:
        inner = table.get(part)
        if not isinstance(inner, dict):
            raise ValueError(f"the study has no setting {name!r}: {part!r} is no table of it; it has {', '.join(told)}")
        table = inner
    if last not in table and not {"tuning", "task_tuning"} & set(path):
        raise ValueError(f"the study has no setting {name!r}; there are {', '.join(_dotted(told))}")
    table[last] = value
