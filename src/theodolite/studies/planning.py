"""What a plan is made from: the models by the hashes of their files, what a run asks for, and the steps that studies share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from theodolite.core.files import sha256_of
from theodolite.spaces.space import choose_layers
from theodolite.studies.measures.training import TUNE
from theodolite.studies.measures.vectors import VECTORS
from theodolite.studies.steps import Sources, Step
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import Task

Layers: TypeAlias = str | int | Sequence[int]

ENCODER_FILES = (".json", ".safetensors", ".bin", ".txt", ".model", ".h5", ".msgpack")
"""Endings of the files that make an encoder what it is."""
DEMO_CAVEAT = "{} is a contrastively fine-tuned sentence encoder: its state called pre-trained is the encoder as it comes."
FREE_TABLES = frozenset({"tuning", "task_tuning"})
"""Tables of settings that take any hyper-parameter of a fine-tuning, also one that the study does not set itself."""


@dataclass(frozen=True)
class StudyModel:
    """An encoder of a run.

    Parameters
    ----------
    name
        What rows call it.
    location
        The folder or Hub id that it is loaded from.
    weights
        The hash of its files, or the revision on the Hub.
    last_layer
        The number of its last layer; the embeddings are layer 0.
    id
        What the run was given: a Hub id, a folder, or "demo".
    caveat
        A sentence that readers of its numbers must know.
    """

    name: str
    location: str
    weights: str
    last_layer: int
    id: str = ""
    caveat: str = ""

    @property
    def identity(self) -> dict[str, str]:
        """What decides results: the files, and the name in the rows."""
        return {"name": self.name, "weights": self.weights}


def identify_model(model: str) -> StudyModel:
    """The encoder of a Hub id or a folder; "demo" is the one that comes with the extra of that name."""
    from theodolite.models.location import DEMO_NAME, find_encoder, last_layer

    location = find_encoder(model)
    weights = _hash_of_folder(Path(location.place)) if location.is_folder else location.revision or ""
    caveat = DEMO_CAVEAT.format(DEMO_NAME) if location.name == DEMO_NAME else ""
    return StudyModel(location.name, location.place, weights, last_layer(location), model, caveat)


def examples_hash(examples: Examples) -> str:
    """SHA-256 of the examples themselves, whatever file they came from."""
    digest = hashlib.sha256()
    scores, places = (None if values is None else values.tolist() for values in (examples.scores, examples.places))
    # Not the file's bytes: the same examples in another format, or from the Hub, give the same result.
    for part in (examples.texts, examples.second, examples.words, examples.labels, scores, places):
        digest.update(repr(part).encode() + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a run asks for, in the form that a plan reads.

    Parameters
    ----------
    models
        The encoders to run with.
    data
        The folder with the releases of the tasks; None reads them from the Hub.
    tasks
        The tasks to run, by name; all of the study's own if empty.
    own_tasks
        Tasks of the user's own by name.
    seeds
        The seeds to run; the study's own if empty.
    layers
        The layers to run: "all", "last", a number or several, or text such as "0,6,12"; None for those that the study uses.
    quick
        Whether to use the study's small sizes.
    changes
        Settings to change, by dotted name, such as {"tuning.epochs": 1}.
    """

    models: tuple[StudyModel, ...]
    data: str | None = None
    tasks: tuple[str, ...] = ()
    own_tasks: Mapping[str, Task] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    layers: Layers | None = None
    quick: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    # Kept per request and not for the whole process, because the user may change a file between two runs.
    _hashes: dict[tuple[str, str], str] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def sources(self) -> Sources:
        """Where models and data are."""
        return Sources({model.name: model.location for model in self.models}, self.data, self.own_tasks)

    def settings(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """The study's settings, with the quick sizes if asked for, and then the changes, laid over them."""
        settings = _copied(defaults)
        quick = settings.pop("quick", {})
        for name, value in {**(_dotted(quick) if self.quick else {}), **_dotted(self.changes)}.items():
            _put(settings, name, value, own_tasks=self.own_tasks)
        return settings

    def choose_tasks(self, names: Sequence[str], *, kinds: Sequence[str]) -> list[str]:
        """The tasks to run: those of the study that were asked for, in its order, then the user's own.

        Parameters
        ----------
        names
            The tasks of the study.
        kinds
            The kinds of task that the study can measure.
        """
        unknown = next((task for task in self.tasks if task not in names and task not in self.own_tasks), None)
        if unknown is not None:
            raise ValueError(f"the study has no task {unknown!r}; it has {', '.join(names)}")
        tasks = [name for name in names if not self.tasks or name in self.tasks]
        tasks += [name for name in self.tasks if name not in names]
        for name in tasks:
            kind = self.sources.task(name).kind
            if kind not in kinds:
                raise ValueError(f"task {name!r} is a {kind} task; this study measures {' or '.join(kinds)} tasks")
        return tasks

    def choose_seeds(self, seeds: Sequence[int]) -> list[int]:
        """The seeds asked for, or the study's."""
        return list(self.seeds or seeds)

    def choose_layers(self, model: StudyModel, default: str = "all") -> list[int]:
        """The layers of a model that were asked for, or the default: "all" or "last"."""
        return list(choose_layers(default if self.layers is None else self.layers, range(model.last_layer + 1)))

    def choose_split(self, task: str, preferred: str) -> str:
        """The preferred split if the task has it, otherwise the one that it is scored on."""
        return preferred if preferred in self.sources.task(task).splits else self.scored_split(task)

    def scored_split(self, task: str) -> str:
        """The split that a task is scored on."""
        return self.sources.task(task).scored_split

    def identity_of(self, task: str, *splits: str) -> dict[str, Any]:
        """What decides a result of a task: its name, the hashes of its splits, and how the user declared it if it is theirs."""
        for split in splits:
            if (task, split) not in self._hashes:
                self._hashes[task, split] = examples_hash(self.sources.examples(task, split))
        # Where an own task's files are decides nothing; how it was declared does.
        identity: dict[str, Any] = {"task": task, "data": [self._hashes[task, split] for split in splits]}
        if own := self.own_tasks.get(task):
            identity["declared"] = [own.kind, own.score, own.labels, own.score_range]
        return identity


def tuning_step(
    model: StudyModel,
    task: str,
    seed: int,
    tuning: Mapping[str, Any],
    request: Request,
    *,
    method: str = "plain",
    plain: Step | None = None,
    keep_vectors: bool = False,
) -> Step:
    """A fine-tuning.

    Parameters
    ----------
    model, task, seed
        What is fine-tuned, on what, with which seed.
    tuning
        The name of a preset under `preset`, and the hyper-parameters that differ from it.
    request
        What the run asks for.
    method
        A method of `tuning`, such as "isolayer".
    plain
        The plain fine-tuning that an Isotropy Layer is put into.
    keep_vectors
        Whether to keep the tracked vectors of every measured training step.
    """
    settings = {
        "model": model.identity,
        **request.identity_of(task, request.sources.task(task).train_split, request.scored_split(task)),
        "preset": tuning["preset"],
        "changes": {name: value for name, value in tuning.items() if name != "preset"},
        "method": method,
        "seed": seed,
        "keep_vectors": keep_vectors,
    }
    suffix = "" if method == "plain" else f", {method}"
    return Step(TUNE, settings, {"plain": plain} if plain else {}, f"fine-tune {model.name} on {task}, seed {seed}{suffix}")


def vectors_step(
    model: StudyModel,
    task: str,
    split: str,
    request: Request,
    *,
    tuned: Step | None = None,
    unit: str = "",
    layers: Sequence[int] | None = None,
    examples: int | None = None,
) -> Step:
    """The vectors of a split, from the model as it came or as a fine-tuning left it.

    Parameters
    ----------
    model, task, split
        What encodes which texts.
    request
        What the run asks for.
    tuned
        The fine-tuning whose encoder is used.
    unit
        What gets a vector: "tokens", "cls", ...; by default what fits the task.
    layers
        Which layers; all by default.
    examples
        How many examples at most; all by default.
    """
    settings = {
        "model": model.identity,
        **request.identity_of(task, split),
        "split": split,
        "unit": unit or request.sources.task(task).unit,
        "layers": None if layers is None else list(layers),
        "examples": examples,
    }
    state = f" tuned on {tuned.settings['task']}" if tuned else ""
    return Step(VECTORS, settings, {"tuned": tuned} if tuned else {}, f"encode {task} {split} with {model.name}{state}")


def _hash_of_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    # Only what is loaded: a README or a log in the folder must not make it another encoder.
    for path in sorted(path for path in folder.rglob("*") if path.suffix in ENCODER_FILES and path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()} {sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copied(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def _dotted(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _dotted(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def _put(settings: dict[str, Any], name: str, value: Any, *, own_tasks: Mapping[str, Task]) -> None:
    """Change a setting, which must exist unless it is in a table that takes any hyper-parameter of a fine-tuning."""
    *tables, last = name.split(".")
    table = settings
    for part in tables:
        # A task of the user's own has no table in the file; a misspelt name must not make one.
        if table is settings.get("task_tuning") and part in own_tasks:
            table.setdefault(part, {})
        if not isinstance(table.get(part), dict):
            raise ValueError(f"the study has no setting {name!r}: {part!r} is not a table of it; it has {', '.join(settings)}")
        table = table[part]
    if last not in table and not FREE_TABLES & set(tables):
        raise ValueError(f"the study has no setting {name!r}; its settings are {', '.join(_dotted(settings))}")
    table[last] = value
