"""What a plan is made from: models by the hashes of their files, what a run asks for, the steps that studies share; and plans."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.core.files import sha256_of
from theodolite.core.spelling import option
from theodolite.core.states import ISOLAYER, PRE_TRAINED, base_state
from theodolite.spaces.readers.data_files import DataError
from theodolite.spaces.space import choose_layers
from theodolite.studies.claims.evidence import ORIGINS, TUNED, ModelOrigin
from theodolite.studies.shared_steps import TUNE, VECTORS
from theodolite.studies.spec import StudySpec, study_names
from theodolite.studies.steps import Sources, Step
from theodolite.tasks.declarations import TASKS
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import Task
from theodolite.tuning.settings import check_hyper_parameters
from theodolite.verbs.inputs import Reading

if TYPE_CHECKING:
    from theodolite.models.location import Location

ModelNames: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Tasks: TypeAlias = str | Task | Iterable[str | Task]
Layers: TypeAlias = str | int | Iterable[int]

# Endings of the files that make an encoder what it is.
ENCODER_FILES = (".json", ".safetensors", ".bin", ".txt", ".model", ".h5", ".msgpack")
# Tables of settings that take any hyper-parameter of a fine-tuning, also one that the study does not set itself.
FREE_TABLES = frozenset({"tuning", "task_tuning", "method_tuning"})


@dataclass(frozen=True)
class StudyModel:
    """An encoder of a run."""

    name: str
    location: str
    weights: str
    last_layer: int
    id: str = ""
    origin: ModelOrigin = field(default_factory=ModelOrigin)
    revision: str = ""

    @property
    def caveat(self) -> str:
        """A sentence that readers of its numbers must know; empty if it is one of the paper's models."""
        if self.origin.about.startswith("the paper's "):
            return ""
        if self.origin.kind == PRE_TRAINED:
            return f"{self.name} is {self.origin.about}." if self.origin.about else ""
        what = self.origin.about or ("a tuned encoder" if self.origin.kind == TUNED else "an encoder of undeclared origin")
        return f"{self.name} is {what}: its state called pre-trained is the encoder as it was before this fine-tuning."

    @property
    def identity(self) -> dict[str, str]:
        """What decides results: the files, and the name in the rows."""
        return {"name": self.name, "weights": self.weights}


def identify_models(
    models: ModelNames, spec: StudySpec | None = None, *, origin: str | None = None, trust_remote_code: bool = False
) -> tuple[StudyModel, ...]:
    """The encoders of a run, each once."""
    if origin is not None and origin not in ORIGINS:
        raise ValueError(f"origin={origin!r} must be {' or '.join(ORIGINS)}")
    ids = [models] if isinstance(models, (str, os.PathLike)) else models
    pinned = {hub: commit for model in (spec.models if spec else ()) for hub, commit in model.revisions.items()}
    names_given = dict.fromkeys(os.fspath(id) for id in ids)
    identified = tuple(_identify_model(id, pinned, spec, origin, trust_remote_code) for id in names_given)
    if not identified:
        raise ValueError("no model is given; give at least one Hub id or folder")
    names = [model.name for model in identified]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        way = "give one revision of it, or rename one of the folders"
        raise ValueError(f"two models are called {twice!r}, so their rows would be mixed; {way}")
    return identified


def _identify_model(
    id: str, pinned: Mapping[str, str], spec: StudySpec | None, declared: str | None, trusted: bool
) -> StudyModel:
    from theodolite.models.location import find_encoder, last_layer

    name, at, revision = (id, "", "") if Path(id).expanduser().exists() else id.partition("@")
    if at and not revision:
        raise ValueError(f"{id!r} has no revision after the @; write ID@REVISION, or the id alone")
    location = find_encoder(name, revision=revision or pinned.get(name))
    weights = location.revision or ""  # a commit of the Hub is a hash of its files already
    if location.is_folder:
        folder, digest = Path(location.place), hashlib.sha256()
        # Only what is loaded: a README or a log in the folder must not make it another encoder.
        for path in sorted(path for path in folder.rglob("*") if path.suffix in ENCODER_FILES and path.is_file()):
            digest.update(f"{path.relative_to(folder).as_posix()} {sha256_of(path)}\n".encode())
        weights = digest.hexdigest()
    origin = _origin(location, weights, name, spec, declared)
    last = last_layer(location, trust_remote_code=trusted)
    return StudyModel(location.name, location.place, weights, last, id, origin, location.revision or "")


def _origin(location: Location, weights: str, name: str, spec: StudySpec | None, declared: str | None) -> ModelOrigin:
    """What an encoder is: by the study's list, because it is a pipeline of sentence-transformers, or as the user declared it."""
    known = spec.known_origin(weights, name, location.name) if spec else None
    # Of a folder nothing but its files counts: it may be called like any model.
    if known is not None and location.is_folder and spec and spec.known_origin(weights) is None:
        known = None
    if known is None and location.listed and location.modules:
        known = ModelOrigin(TUNED, "a sentence-transformers model", "pipeline")
    if known is None:
        return ModelOrigin() if declared is None else ModelOrigin(declared, "", "declared")
    if declared is not None and declared != known.kind:
        way = f"leave out {option('origin', declared)}, or run the other encoders without this one"
        raise ValueError(f"{location.name} is {known.kind} ({known.about}), not {declared}; {way}")
    return known


def examples_hash(examples: Examples) -> str:
    """SHA-256 of the examples themselves, whatever file they came from."""
    digest = hashlib.sha256()
    scores, positions = (None if values is None else values.tolist() for values in (examples.scores, examples.places))
    # Not the file's bytes: the same examples in another format, or from the Hub, give the same result.
    for column in (examples.texts, examples.second, examples.words, examples.labels, scores, positions):
        digest.update(repr(column).encode() + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True)
class Request:
    """What a run asks for, and what follows from it for a plan."""

    spec: StudySpec
    models: tuple[StudyModel, ...]
    data: str | os.PathLike[str] | None = None
    tasks: Tasks | None = None
    seeds: Iterable[int] | None = None
    layers: Layers | None = None
    quick: bool = False
    changes: Mapping[str, Any] | None = None
    own_files: Reading = field(default_factory=Reading)
    trust_remote_code: bool = False
    # Kept per request and not for the whole process, because the user may change a file between two runs.
    _hashes: dict[tuple[str, str], str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("tasks", "seeds", "layers"):  # a generator could be read only once
            value = getattr(self, name)
            if isinstance(value, Iterable) and not isinstance(value, str):
                object.__setattr__(self, name, tuple(value))

    @cached_property
    def requested_tasks(self) -> tuple[str | Task, ...]:
        """The tasks that were asked for: names of the study's tasks, and tasks of the user's own."""
        tasks = (self.tasks,) if isinstance(self.tasks, (str, Task)) else tuple(self.tasks or ())
        own = self.own_files.declared_task()
        return tasks if own is None else (*tasks, own)

    @cached_property
    def own_tasks(self) -> dict[str, Task]:
        """Tasks that the run was given and the study does not have, by name: the user's own, and declared ones."""
        names = {self.spec.settings.get("task"), *self.spec.settings.get("tasks", ())}
        given = [task for task in self.requested_tasks if isinstance(task, Task)]
        own = {task.name: task for task in given if TASKS.get(task.name) != task or task.name not in names}
        clash = next((name for name in own if TASKS.get(name, own[name]) != own[name] or name in self.spec.tasks), None)
        if clash is not None:
            raise ValueError(f"another task is called {clash!r}; give your own task a different name")
        return own

    @cached_property
    def sources(self) -> Sources:
        """Where models and data are."""
        data = None if self.data is None else os.fspath(self.data)
        # The claims of a file may name the tasks of that file; a task given at run time is in no claim.
        revisions = {model.name: model.revision for model in self.models if model.revision}
        models = {model.name: model.location for model in self.models}
        return Sources(models, data, {**self.spec.tasks, **self.own_tasks}, revisions, self.trust_remote_code)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The study's settings, with the quick sizes if asked for, and then the changes, laid over them."""
        settings = deepcopy(dict(self.spec.settings))  # the study itself must stay as its file has it
        quick = settings.pop("quick", {})
        for name, value in {**(_dotted(quick) if self.quick else {}), **_dotted(self.changes or {})}.items():
            _put(settings, name, value, own_tasks=self.sources.tasks)
        return settings

    def choose_tasks(self, tasks: Sequence[str], *, kinds: Sequence[str], collections: Sequence[str] = ()) -> list[str]:
        """The tasks to run: those of the study that were asked for, in its order, then the user's own."""
        names = [*tasks, *collections]
        requested = [task.name if isinstance(task, Task) else task for task in self.requested_tasks]
        unknown = next((task for task in requested if task not in names and task not in self.sources.tasks), None)
        if unknown is not None:
            raise ValueError(f"the study has no task {unknown!r}; it has {', '.join(names)}")
        chosen = [name for name in names if not requested or name in requested]
        chosen += [name for name in requested if name not in names]
        for name in (name for name in chosen if name not in collections):
            kind = self.sources.task(name).kind
            if kind not in kinds:
                raise ValueError(f"task {name!r} is a {kind} task, but this study measures {' or '.join(kinds)} tasks")
        return chosen

    def choose_seeds(self) -> list[int]:
        """The seeds asked for, or the study's."""
        return list(self.seeds or self.settings["seeds"])

    def choose_layers(self, model: StudyModel, default: str = "all") -> list[int]:
        """The layers of a model that were asked for, or the default: "all" or "last"."""
        layers: Any = default if self.layers is None else self.layers
        return list(choose_layers(layers, range(model.last_layer + 1)))

    def choose_split(self, task: str, preferred: str) -> str:
        """The preferred split if the task has it, otherwise the one that it is scored on."""
        declared = self.sources.task(task)
        return preferred if preferred in declared.splits else declared.scored_split

    def tuning_step(self, model: StudyModel, task: str, seed: int, *, method: str = "plain", keep_vectors: bool = False) -> Step:
        """A fine-tuning, as the settings `tuning`, `task_tuning` and `method_tuning` say: a preset, and what differs from it."""
        tuning = {**self.settings["tuning"], **self._paper_tuning(model)}
        for table, name in (("task_tuning", task), ("method_tuning", method)):
            tuning |= self.settings.get(table, {}).get(name, {})
        check_hyper_parameters(tuning)
        declared = self.sources.task(task)
        settings = {
            "model": model.identity,
            **self.identity(task, declared.train_split, declared.scored_split),
            "preset": tuning.pop("preset"),
            "changes": tuning,
            "method": method,
            "seed": seed,
            "keep_vectors": keep_vectors,
        }
        needs = {"plain": self.tuning_step(model, task, seed)} if base_state(method) == ISOLAYER else {}
        suffix = "" if method == "plain" else f", {method}"
        return Step(TUNE, settings, needs, f"fine-tune {model.name} on {task}, seed {seed}{suffix}")

    def vectors_step(
        self,
        model: StudyModel,
        task: str,
        split: str,
        *,
        tuned: Step | None = None,
        unit: str = "",
        layers: Sequence[int] | None = None,
        examples: int | None = None,
    ) -> Step:
        """The vectors of a split, from the model as it came or as a fine-tuning left it."""
        settings = {
            "model": model.identity,
            **self.identity(task, split),
            "split": split,
            "unit": unit or self.sources.task(task).unit,
            "layers": None if layers is None else list(layers),
            "examples": examples,
        }
        state = f" tuned on {tuned.settings['task']}" if tuned else ""
        return Step(VECTORS, settings, {"tuned": tuned} if tuned else {}, f"encode {task} {split} with {model.name}{state}")

    def _paper_tuning(self, model: StudyModel) -> dict[str, Any]:
        """What the paper did differently for this model, but not what the run itself sets."""
        names = {model.name.rsplit("/", 1)[-1], model.id.partition("@")[0].rstrip("/").rsplit("/", 1)[-1]}
        paper = next((m for m in self.spec.models if names & {hub.rsplit("/", 1)[-1] for hub in m.hub}), None)
        quick = self.spec.settings.get("quick", {}).get("tuning", {}) if self.quick else {}
        own = {*quick, *(name.removeprefix("tuning.") for name in self.changes or ())}
        return {} if paper is None else {name: value for name, value in paper.tuning.items() if name not in own}

    def identity(self, task: str, *splits: str) -> dict[str, Any]:
        """What decides a result of a task: its name, the hashes of its splits, and how the user declared it if it is theirs."""
        for split in splits:
            if (task, split) not in self._hashes:
                self._hashes[task, split] = examples_hash(self.sources.examples(task, split))
        identity: dict[str, Any] = {"task": task, "data": [self._hashes[task, split] for split in splits]}
        # Where an own task's files are decides nothing; how it was declared does.
        if own := self.sources.tasks.get(task):
            identity["declared"] = [own.kind, own.score, own.labels, own.score_range]
        return identity


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
    for key in tables:
        # A task of the user's own has no table in the file; a misspelt name must not make one.
        if table is settings.get("task_tuning") and key in own_tasks:
            table.setdefault(key, {})
        if not isinstance(table.get(key), dict):
            raise ValueError(f"the study has no setting {name!r}: {key!r} is not a table of it; it has {', '.join(settings)}")
        table = table[key]
    if last not in table and not FREE_TABLES & set(tables):
        raise ValueError(f"the study has no setting {name!r}; its settings are {', '.join(_dotted(settings))}")
    table[last] = value


# Returns the steps in any order: what a step needs is found through it.
Plan: TypeAlias = Callable[[Request], list[Step]]


def load_plan(spec: StudySpec, *, trust: bool = False) -> Plan:
    """The plan that a study names: one of the package, or a Python file next to the study's own, which runs only if trusted."""
    if spec.plan in study_names():
        # Only now: what plans measure with imports scikit-learn, for which reading a study must not wait.
        module = importlib.import_module(f"theodolite.studies.{spec.plan.replace('-', '_')}.plan")
    else:
        path = Path(spec.path).parent / spec.plan
        if not path.is_file():
            raise DataError(f"there is no file {path}, which the study names as its plan; correct the key `plan`", file=spec.path)
        if not trust:
            raise ValueError(f"the plan {path} is Python code; read it, then allow it to run with {option('trust_plan')}")
        module = _import_file(path)
    plan = getattr(module, "steps", None)
    if not callable(plan):
        raise DataError("the plan has no function steps(request); write one that returns the steps of a run", file=spec.plan)
    return plan  # type: ignore[no-any-return]


def _import_file(path: Path) -> ModuleType:
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:  # older releases of joblib bring their own copy
        from joblib.externals import cloudpickle

    name = f"theodolite_plan_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # a worker cannot import it by its name
    return module
