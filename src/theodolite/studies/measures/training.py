"""Fine-tuning as a step: one run of `tune` in the step's folder, which continues after a kill."""

from __future__ import annotations

from dataclasses import replace

from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, ISOLAYER, PRE_TRAINED
from theodolite.studies.steps import Action, Work

RUN = "run"
"""The folder of the fine-tuning inside the step's folder."""
TRACKED = "vectors"
"""The folder of the tracked vectors inside the step's folder."""


def _fine_tune(work: Work) -> list[Row]:
    """Train, or continue, or read what is finished; the rows of the scored split, with the method as their state.

    The input `plain` is the run that an Isotropy Layer is put into. With the setting `keep_vectors`, the tracked vectors of every
    measured training step stay in the folder.
    """
    from theodolite.tuning import fine_tune, preset

    settings, name = work.settings, work.settings["model"]["name"]
    changes = {key: tuple(value) if isinstance(value, list) else value for key, value in settings["changes"].items()}
    task = settings["task"]
    tuning = preset(
        settings["preset"],
        task=work.sources.tasks.get(task, task),
        model=work.sources.models[name],
        output=work.folder / RUN,
        seed=settings["seed"],
        method=settings["method"],
        **changes,
    )
    plain = work.inputs["plain"] / RUN if "plain" in work.inputs else None
    vectors = work.folder / TRACKED if settings["keep_vectors"] else None
    data = work.sources.data_for(task)
    try:
        run = fine_tune(tuning, data=data, plain=plain, vectors=vectors, progress=work.progress)
    except FileExistsError:  # begun with the same weights in another folder: to the run these are other settings
        run = fine_tune(tuning, data=data, plain=plain, vectors=vectors, progress=work.progress, overwrite=True)
    return [_renamed(row, settings["method"], name) for row in run.rows if _belongs(row, settings["method"])]


def _belongs(row: Row, method: str) -> bool:
    """Whether a row says something of the scored split that another step does not say already."""
    if row.split in ("train", "validation"):
        return row.metric == "train_seconds"
    if row.layer is not None and method != "plain":  # the same sample is tracked in the plain run, whose rows have the layers
        return False
    return not (method == ISOLAYER and row.state == FINE_TUNED)  # the plain run that the layer is put into


def _renamed(row: Row, method: str, name: str) -> Row:
    """The row with the model's name instead of its folder, and the method as its state."""
    if method == "plain":
        return replace(row, model=name)
    return replace(row, model=name, state=row.state if row.state == PRE_TRAINED else method, setting="")


TUNE = Action("tune", _fine_tune, resumable=True)
