"""Which runs a request stands for: with a paper's settings or those of an earlier run, and one per seed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.core.spelling import option, refuse_trust
from theodolite.tasks.declarations import find_task
from theodolite.tasks.task import Kind, Task
from theodolite.tuning.runs import MARKER, read_settings
from theodolite.tuning.settings import LayerSettings, TuneSettings
from theodolite.tuning.tune_options import Method

# What another method may change in the settings of a run.
OF_METHOD = ("method", "strength", "published", "layer")
_SHARED: dict[str, Any] = {"warmup": 0.1, "schedule": "linear", "by_length": False}
# The papers' hyper-parameters by name: rp21, il23, zs22, isobn. Studies use them, and their records were made with `by_length`
# as it is here; a run without a named preset has it on, because it is faster.
PRESETS: dict[str, Mapping[str, Any]] = {
    # Rajaee & Pilehvar (2021). Not stated there, so ours: schedule and warm-up, as in sentence-transformers' own example.
    "rp21": {**_SHARED, "epochs": 3, "batch_size": 32, "learning_rate": 7e-5, "pooling": "mean"},
    # The isotropy-layer paper (IL23): [CLS], AdamW, early stopping by the task metric on a 70/30 split. Not stated there, so
    # ours: learning rate, batch size, warm-up, decay, the largest number of epochs and the patience.
    "il23": {
        **_SHARED,
        "epochs": 10,
        "batch_size": 16,
        "learning_rate": 2e-5,
        "weight_decay": 0.01,
        "pooling": "cls",
        "siamese": False,
        "validation": 0.3,
        "patience": 2,
        "by_length": True,
    },
    # Zhou, Lin & Ren (2021), IsoBN on the pooled [CLS]; without early stopping.
    "isobn": {
        **_SHARED,
        "warmup": 0.06,
        "epochs": 10,
        "batch_size": 16,
        "learning_rate": 5e-5,
        "max_length": 256,
        "pooling": "cls",
        "siamese": False,
        "pooler": True,
    },
    # Zhou & Srikumar (2022): Adam, which is AdamW without decay. Ten epochs; three for BERT-base.
    "zs22": {**_SHARED, "epochs": 10, "batch_size": 32, "learning_rate": 3e-4, "weight_decay": 0.0, "pooling": "cls"},
}


def preset(
    name: str, *, task: str | Task, model: str | os.PathLike[str], output: str | os.PathLike[str], **changes: Any
) -> TuneSettings:
    """The settings of a paper for a task and a model.

    Parameters
    ----------
    name
        A key of `PRESETS`.
    task, model, output
        As in `TuneSettings`.
    changes
        Settings that differ from the paper's.
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    return TuneSettings(task=task, model=os.fspath(model), output=os.fspath(output), **{**PRESETS[name], **changes})


def preset_for(kind: Kind, method: Method = "plain") -> str:
    """The name of the paper whose protocol fits; all methods but "plain" are compared under IL23's."""
    if method != "plain":
        return "il23"
    return {"similarity": "rp21", "classification": "il23", "pair_classification": "il23"}.get(kind, "zs22")


def settings_of_run(
    folder: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str],
    task: str | Task | None = None,
    trust_remote_code: bool = False,
    **changes: Any,
) -> TuneSettings:
    """The settings of the run in a folder, for another run."""
    values = read_settings(folder)
    if not trust_remote_code:
        refuse_trust(values, Path(folder) / MARKER.file)
    values["trust_remote_code"] = trust_remote_code
    if isinstance(values["task"], dict):
        if not isinstance(task, Task):
            raise ValueError(f"{folder} is a run on your own task ({values['task']['name']}); give its files again")
        values["task"] = task
    elif task is not None and find_task(task).name != find_task(values["task"]).name:
        raise ValueError(f"{folder} is a run on the task {values['task']!r}, not {find_task(task).name!r}")
    values["report_to"] = tuple(values["report_to"])
    if values.get("layer") is not None:
        values["layer"] = LayerSettings(**values["layer"])
    return TuneSettings(**{**values, **changes}, output=os.fspath(output))


@dataclass(frozen=True)
class PlannedRun:
    """The settings of a run, and the folder of the plain run that an Isotropy Layer starts from, if one is named."""

    settings: TuneSettings
    plain: Path | None = None


def plan_runs(
    model: str | os.PathLike[str] | None = None,
    *,
    to: str | os.PathLike[str],
    task: str | Task | None = None,
    seed: int = 0,
    seeds: Sequence[int] | None = None,
    plain: str | os.PathLike[str] | None = None,
    preset_name: str | None = None,
    **settings: Any,
) -> tuple[PlannedRun, ...]:
    """The runs that a request stands for: one in `to`, or one per seed in `to`/seed-N; nothing is read or trained yet.

    Parameters
    ----------
    model
        A Hub id, a folder or "demo"; not needed with `plain`.
    to
        The folder for everything.
    task
        Name of a task, or a task; not needed with `plain`, unless it is a task of one's own.
    seed
        Seed of a single run.
    seeds
        Seeds of several runs, each once.
    plain
        For method "isolayer": the finished plain run to start from. "{seed}" in the name stands for the seed; with several
        seeds and without it, `plain`/seed-N. The settings are then those of the plain run.
    preset_name
        A key of `PRESETS`; by default the one that fits task and method, with batches by length.
    settings
        Further settings, as in `TuneSettings`; with `plain`, only those of the method.

    Raises
    ------
    ValueError
        Something is missing, or contradicts the plain run.
    """
    if seeds is not None and (not seeds or len(set(seeds)) != len(seeds)):
        raise ValueError(f"seeds={list(seeds)} must list at least one seed, and each only once")
    method = settings.get("method", "plain")
    if plain is not None:
        trusted = bool(settings.pop("trust_remote_code", False))
        unused = next((name for name in settings if name not in OF_METHOD), "preset" if preset_name else None)
        if method != "isolayer":
            raise ValueError(f"a plain run to start from is for method isolayer, not {method!r}")
        if unused is not None:
            raise ValueError(f"the settings are those of the plain run {plain}; leave out {unused}")
    elif model is None:
        raise ValueError("name a model to fine-tune, or a finished plain run with method isolayer")
    elif task is None:
        raise ValueError(f"name a task to fine-tune on, such as {option('task', 'stsb')}")
    pattern, runs = "" if plain is None else os.fspath(plain), []
    for number in (seed,) if seeds is None else seeds:
        output = Path(to) if seeds is None else Path(to) / f"seed-{number}"
        if plain is None:
            assert model is not None
            assert task is not None
            name, ours = preset_name, {}
            if name is None:
                name = preset_for(find_task(task).kind, method)
                # A run that an earlier release began is continued with its own batches.
                ours["by_length"] = not MARKER.is_in(output) or read_settings(output).get("by_length", False)
            runs.append(PlannedRun(preset(name, task=task, model=model, output=output, seed=number, **{**ours, **settings})))
            continue
        has_seed = "{seed}" in pattern
        folder = Path(pattern.replace("{seed}", str(number)))
        if seeds is not None and not has_seed:
            folder = folder / f"seed-{number}"
        earlier = settings_of_run(folder, output=output, task=task, trust_remote_code=trusted, **settings)
        if (has_seed or seeds is not None) and earlier.seed != number:
            raise ValueError(f"{folder} is a run with seed {earlier.seed}, not {number}")
        if model is not None and os.fspath(model) != earlier.model:
            raise ValueError(f"{folder} is a run of {earlier.model}, not of {model}; leave the model out")
        runs.append(PlannedRun(earlier, folder))
    return tuple(runs)
