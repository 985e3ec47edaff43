"""IL23: a plain fine-tuning, the Isotropy Layer on top of it, and IsoBN instead of it, for every task and seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theodolite.core.states import ISOLAYER
from theodolite.studies.planning import Request, tuning_step
from theodolite.studies.steps import Step

KINDS = ("classification", "pair_classification", "similarity")


def plan_steps(defaults: Mapping[str, Any], request: Request) -> list[Step]:
    """One fine-tuning per model, task, seed and method; the layer is put into the plain one.

    Parameters
    ----------
    defaults
        The settings of the study's file.
    request
        What the run asks for.
    """
    settings = request.settings(defaults)
    steps: list[Step] = []
    for model in request.models:
        for task in request.choose_tasks(settings["tasks"], kinds=KINDS):
            tuning = {**settings["tuning"], **settings["task_tuning"].get(task, {})}
            for seed in request.choose_seeds(settings["seeds"]):
                # The same step as that of the method "plain": equal keys are done once.
                plain = tuning_step(model, task, seed, tuning, request)
                steps += [
                    tuning_step(model, task, seed, tuning, request, method=method, plain=plain if method == ISOLAYER else None)
                    for method in settings["methods"]
                ]
    return steps
