"""IL23: a plain fine-tuning, the Isotropy Layer on top of it, and IsoBN instead of it, for every task and seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theodolite.studies.plans.parts import tuned
from theodolite.studies.step import Step
from theodolite.studies.wish import Wish


def plan_il23(written: Mapping[str, Any], wish: Wish) -> list[Step]:
    """Three fine-tunings a model, task and seed; the layer takes the plain one."""
    told = wish.settings(written)
    steps: list[Step] = []
    for model in wish.models:
        for task in wish.chosen_tasks(told["tasks"]):
            tuning = {**told["tuning"], **told.get("task_tuning", {}).get(task, {})}
            for seed in wish.chosen_seeds(told["seeds"]):
                plain = tuned(model, task, seed, tuning, wish)
                others = [method for method in told["methods"] if method not in ("plain", "isolayer")]
                steps += [plain, tuned(model, task, seed, tuning, wish, method="isolayer", plain=plain)]
                steps += [tuned(model, task, seed, tuning, wish, method=method) for method in others]
    return steps
