"""ZS22: labels before, during and after fine-tuning, on every task, and on tasks that an encoder was not tuned for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.studies.measures.labels import COMPARE_TASKS, FOLLOW_LABELS, PROBE
from theodolite.studies.measures.layers import PICTURE
from theodolite.studies.planning import Request, StudyModel, tuning_step, vectors_step
from theodolite.studies.steps import Step

KINDS = ("classification", "pair_classification", "tagging", "word_pairs")


def plan_steps(defaults: Mapping[str, Any], request: Request) -> list[Step]:
    """For every model and task the probes of both states and the movement in between; then the pairs of the cross-task table.

    Parameters
    ----------
    defaults
        The settings of the study's file.
    request
        What the run asks for.
    """
    settings = request.settings(defaults)
    tasks = request.choose_tasks(settings["tasks"], kinds=KINDS)
    steps: list[Step] = []
    for model in request.models:
        for seed in request.choose_seeds(settings["seeds"]):
            planner = _Planner(settings, request, model, seed)
            for task in tasks:
                steps += planner.task_steps(task)
            for pair in settings["cross"]:
                if pair["probe"] in tasks:
                    steps += planner.cross_steps(pair["probe"], pair["tune"])
    return steps


@dataclass(frozen=True)
class _Planner:
    """The steps of one model and seed."""

    settings: Mapping[str, Any]
    request: Request
    model: StudyModel
    seed: int

    def task_steps(self, task: str) -> list[Step]:
        """Both states of a task, and what happens in between."""
        model, tuned = self.model, self._tuned(task)
        about = {"model": model.identity, "task": task, "seed": self.seed}
        steps = [tuned, Step(FOLLOW_LABELS, about, {"tuned": tuned}, f"{model.name}, {task}: labels while it is fine-tuned")]
        for state, run in ((PRE_TRAINED, None), (FINE_TUNED, tuned)):
            picture = {"split": "train", "examples": None, "layer": model.last_layer, "points": self.settings["points"], "k": 0}
            vectors = {"vectors": self._vectors(task, "train", run)}
            steps.append(self._probe(task, run))
            steps.append(Step(PICTURE, {**about, **picture}, vectors, f"{model.name}, {task}, {state}: picture"))
        return steps

    def cross_steps(self, task: str, tuned_on: str) -> list[Step]:
        """A task in an encoder tuned on another one, compared with the encoder as it came."""
        setting = f"tuned on {tuned_on}"
        after = self._probe(task, self._tuned(tuned_on), setting=setting)
        needs = {"before": self._probe(task, None), "after": after}
        title = f"{self.model.name}, {task}, {setting}: change"
        return [after, Step(COMPARE_TASKS, {"layer": self.model.last_layer}, needs, title)]

    def _tuned(self, task: str) -> Step:
        tuning = {**self.settings["tuning"], **self.settings["task_tuning"].get(task, {})}
        return tuning_step(self.model, task, self.seed, tuning, self.request, keep_vectors=True)

    def _probe(self, task: str, tuned: Step | None, *, setting: str = "") -> Step:
        test = self.request.choose_split(task, "test")
        needs = {"train": self._vectors(task, "train", tuned), "test": self._vectors(task, test, tuned)}
        probe = self.settings["probe"]
        default = "last" if setting else self.settings["all_layers"].get(task, "last")
        settings = {
            "seed": self.seed,
            "setting": setting,
            "layers": self.request.choose_layers(self.model, default),
            **{name: probe[name] for name in ("rows", "classifier", "classifier_rows")},
            "grid": {name: probe[name] for name in ("hidden", "alphas") if probe[name]},
        }
        state = setting or (FINE_TUNED if tuned else PRE_TRAINED)
        return Step(PROBE, settings, needs, f"{self.model.name}, {task}, {state}: labels")

    def _vectors(self, task: str, split: str, tuned: Step | None) -> Step:
        # One extraction serves every probe of the task, so it has all layers as soon as one of them needs more than the last.
        all_layers = self.request.layers is not None or self.settings["all_layers"].get(task) == "all"
        layers = None if all_layers else [self.model.last_layer]
        return vectors_step(self.model, task, split, self.request, tuned=tuned, layers=layers)
