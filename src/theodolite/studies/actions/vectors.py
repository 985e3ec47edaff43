"""Vectors of a state of a model on the texts of a task, kept for all steps that measure them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theodolite.core.rows import Row
from theodolite.spaces.space import Origin, Space
from theodolite.studies.step import Work
from theodolite.tasks.examples import Examples
from theodolite.tasks.load import load_task

if TYPE_CHECKING:
    from theodolite.models.encoder import Encoder

PRE_TRAINED = "pre-trained"
FINE_TUNED = "fine-tuned"


def extract_vectors(work: Work) -> list[Row]:
    """Write the space; `tuned`, where it is needed, is the run whose encoder reads. A killed extraction goes on."""
    from theodolite.models.extract import extract

    told = work.settings
    unit = told["unit"]
    extract(
        encoder(work),
        examples(work),
        unit=unit,
        layers=told.get("layers") or "all",
        frequencies=unit in ("tokens", "words"),
        to=work.folder / "space",
        origin=Origin(model=told["model"]["name"], state=state(work), task=told["task"], split=told["split"]),
        progress=work.tick,
    )
    return []


def encoder(work: Work) -> Encoder:
    """The encoder as it came, or as a run left it."""
    from theodolite.models.encoder import Encoder

    name = work.settings["model"]["name"]
    place = work.inputs["tuned"] / "run" / "model" if "tuned" in work.inputs else work.models[name]
    return Encoder.load(str(place), name=name, max_length=work.settings.get("max_length"))


def examples(work: Work) -> Examples:
    """The examples of the split, or the first of them where there is a cap."""
    found = load_task(work.settings["task"], work.settings["split"], work.data)
    most = work.settings.get("examples")
    return found if most is None or most >= len(found) else found.take(range(most))


def state(work: Work) -> str:
    """Whether the encoder had been fine-tuned."""
    return FINE_TUNED if "tuned" in work.inputs else PRE_TRAINED


def opened(work: Work, role: str = "vectors") -> Space:
    """The space that a step of vectors wrote. Its hashes were checked as it was written: they are not read again."""
    return Space.open(work.inputs[role] / "space", verify=False)


def about(space: Space, layer: int | None = None) -> dict[str, Any]:
    """What rows say of a space: model, state, task and split, and the layer where it is one."""
    known = space.about(-1 if layer is None else layer)
    kept: dict[str, Any] = {
        name: known[name] for name in ("model", "revision", "state", "task", "split", "versions") if name in known
    }
    return kept if layer is None else {**kept, "layer": layer}
