"""Fine-tuning as a step: a run of `tune` in the step's folder, which a kill does not undo."""

from __future__ import annotations

from dataclasses import replace

from theodolite.core.rows import Row
from theodolite.studies.step import Work

ISOLAYER = "isolayer"
FINE_TUNED = "fine-tuned"


def fine_tune(work: Work) -> list[Row]:
    """Train, or go on, or read what is finished; the rows of the scored split, with the method as the state.

    `plain`, where it is needed, is the run that an Isotropy Layer is put into. With `keep_vectors`, the tracked vectors of every
    measured step stay in the folder.
    """
    from theodolite.tuning import preset, tune

    told = work.settings
    name = told["model"]["name"]
    changes = {key: tuple(value) if isinstance(value, list) else value for key, value in told["changes"].items()}
    settings = preset(
        told["preset"],
        task=told["task"],
        model=work.models[name],
        output=work.folder / "run",
        seed=told["seed"],
        method=told["method"],
        **changes,
    )
    plain = work.inputs["plain"] / "run" if "plain" in work.inputs else None
    vectors = work.folder / "vectors" if told.get("keep_vectors") else None
    try:
        tuned = tune(settings, data=work.data, plain=plain, vectors=vectors, progress=work.tick)
    except FileExistsError:  # begun with the same weights at another place, which the run cannot know
        tuned = tune(settings, data=work.data, plain=plain, vectors=vectors, progress=work.tick, overwrite=True)
    return [_told(row, told["method"], name) for row in tuned.rows if _wanted(row, told["method"])]


def _wanted(row: Row, method: str) -> bool:
    """What is scored or tracked after a start; the plain run before a layer has rows of its own."""
    if row.split in ("train", "validation"):
        return row.metric == "train_seconds"
    if row.layer is not None and method != "plain":  # the same sample tracked: the plain run's rows tell of layers
        return False
    return not (method == ISOLAYER and row.state == FINE_TUNED)


def _told(row: Row, method: str, name: str) -> Row:
    """The row with the model's name instead of its place, and the method as the state."""
    state = row.state
    if method != "plain" and state != "pre-trained":
        state = method
    return replace(row, model=name, state=state, setting="" if method != "plain" else row.setting)
