"""IL23: a plain fine-tuning, the Isotropy Layer put into it, and IsoBN instead of it."""

from __future__ import annotations

from theodolite.studies.planning import Request
from theodolite.studies.steps import Step


def steps(request: Request) -> list[Step]:
    """A plain fine-tuning, the Isotropy Layer put into it, and IsoBN instead of it, for every model, task and seed (IL23).

    The setting `more_methods` has what else is tried on single tasks.
    """
    kinds = ("classification", "pair_classification", "similarity")
    tasks = request.choose_tasks(request.settings["tasks"], kinds=kinds)
    return [
        request.tuning_step(model, task, seed, method=method)
        for model in request.models
        for task in tasks
        for seed in request.choose_seeds()
        for method in (*request.settings["methods"], *request.settings["more_methods"].get(task, ()))
    ]
