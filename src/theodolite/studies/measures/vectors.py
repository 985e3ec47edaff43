"""Vectors of a state of a model on the texts of a task, kept for all steps that measure them."""

from __future__ import annotations

from typing import Any

from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.spaces.space import Origin, Space
from theodolite.studies.measures.training import RUN
from theodolite.studies.steps import Action, Work
from theodolite.tasks.examples import Examples

SPACE = "space"
"""The folder of the vectors inside the step's folder."""


def _extract_vectors(work: Work) -> list[Row]:
    """Write the space; the input `tuned` is the run whose encoder is used. A killed extraction continues."""
    from theodolite.models.encoder import Encoder
    from theodolite.models.extraction import extract_space

    settings, name, tuned = work.settings, work.settings["model"]["name"], work.inputs.get("tuned")
    location = work.sources.models[name] if tuned is None else str(tuned / RUN / "model")
    state = PRE_TRAINED if tuned is None else FINE_TUNED
    extract_space(
        Encoder.load(location, name=name),
        read_examples(work),
        unit=settings["unit"],
        layers=settings["layers"] or "all",
        frequencies=settings["unit"] in ("tokens", "words"),  # a whole text has no word frequency
        to=work.folder / SPACE,
        origin=Origin(model=name, state=state, task=settings["task"], split=settings["split"]),
        progress=work.progress,
    )
    return []


def read_examples(work: Work) -> Examples:
    """The examples of the split, or the first of them if the settings cap their number."""
    examples, most = work.sources.examples(work.settings["task"], work.settings["split"]), work.settings["examples"]
    return examples if most is None or most >= len(examples) else examples.take(range(most))


def open_space(work: Work, role: str = "vectors") -> Space:
    """The space that a step of vectors wrote. Its hashes were checked when it was written: they are not computed again."""
    return Space.open(work.inputs[role] / SPACE, verify=False)


def row_fields(space: Space, layer: int) -> dict[str, Any]:
    """What rows say of a layer of a space: model, revision, state, task, split and layer."""
    about = space.about(layer)
    return {name: about[name] for name in ("model", "revision", "state", "task", "split", "layer")}


VECTORS = Action("vectors", _extract_vectors, resumable=True)
