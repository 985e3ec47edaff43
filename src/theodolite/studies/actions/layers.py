"""The shape of every layer: of all tokens, and of [CLS] (RP21, figure 1)."""

from __future__ import annotations

from dataclasses import replace

from theodolite.core.rows import Row
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.survey import survey
from theodolite.studies.actions.vectors import about, opened
from theodolite.studies.step import Work


def measure_layers(work: Work) -> list[Row]:
    """The metrics of every layer, with 95 % intervals from half-samples where `bootstrap` says how many."""
    space = opened(work)
    rows: list[Row] = []
    for number, layer in enumerate(space.layers):
        fields = about(space, layer)
        cloud = Cloud(space[layer], sample=work.settings["sample"], seed=work.settings["seed"])
        found = survey(cloud, work.settings["metrics"], bootstrap=work.settings["bootstrap"], about=fields)
        # What a survey says there of its half-samples, the step's own settings say.
        rows += [replace(row, setting=work.settings["setting"]) for row in found]
        if work.tick is not None:
            work.tick(number + 1, len(space.layers))
    return rows
