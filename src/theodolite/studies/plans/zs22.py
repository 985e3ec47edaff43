"""ZS22: labels before, during and after fine-tuning, on every task, and on tasks that an encoder was not tuned for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theodolite.studies.identity import Model
from theodolite.studies.plans.parts import tuned, vectors
from theodolite.studies.step import Step
from theodolite.studies.wish import Wish


def plan_zs22(written: Mapping[str, Any], wish: Wish) -> list[Step]:
    """For every model and task: probes of both states, and the movement in between; then the pairs of the cross-task table."""
    told = wish.settings(written)
    tasks = wish.chosen_tasks(told["tasks"])
    steps: list[Step] = []
    for model in wish.models:
        for seed in wish.chosen_seeds(told["seeds"]):
            for task in tasks:
                steps += _of_task(model, task, _run(model, task, seed, told, wish), seed, told, wish)
            for pair in told["cross"]:
                if pair["probe"] in tasks:
                    steps += _crossed(model, pair["probe"], _run(model, pair["tune"], seed, told, wish), seed, told, wish)
    return steps


def _run(model: Model, task: str, seed: int, told: Mapping[str, Any], wish: Wish) -> Step:
    tuning = {**told["tuning"], **told.get("task_tuning", {}).get(task, {})}
    return tuned(model, task, seed, tuning, wish, keep_vectors=True)


def _of_task(model: Model, task: str, run: Step, seed: int, told: Mapping[str, Any], wish: Wish) -> list[Step]:
    movement = {"model": model.key, "task": task, "seed": seed}
    steps = [run, Step("movement", movement, {"tuned": run}, f"{model.name}, {task}: while it is fine-tuned")]
    for state in (None, run):
        steps.append(_probe(model, task, state, seed, told, wish))
        texts = {"model": model.key, "task": task, "split": "train", "examples": None}
        drawn = {**texts, "seed": seed, "layer": model.last, "points": told["points"], "k": 0}
        named = f"{model.name}, {task}, {'fine-tuned' if state else 'pre-trained'}: picture"
        steps.append(Step("picture", drawn, {"vectors": _vectors(model, task, "train", state, told, wish)}, named))
    return steps


def _crossed(model: Model, task: str, run: Step, seed: int, told: Mapping[str, Any], wish: Wish) -> list[Step]:
    """A task in an encoder tuned on another, against the encoder as it came."""
    setting = f"tuned on {run.settings['task']}"
    before, after = _probe(model, task, None, seed, told, wish), _probe(model, task, run, seed, told, wish, setting=setting)
    needs = {"before": before, "after": after}
    return [after, Step("cross", {"layer": model.last}, needs, f"{model.name}, {task}, {setting}: change")]


def _probe(
    model: Model, task: str, run: Step | None, seed: int, told: Mapping[str, Any], wish: Wish, *, setting: str = ""
) -> Step:
    needs = {split: _vectors(model, task, split, run, told, wish) for split in ("train", "test")}
    layers: Any = told["all_layers"].get(task, "last")
    settings = {
        "seed": seed,
        "setting": setting,
        "layers": list(wish.layers) or ("last" if setting else layers),
        "rows": told["probe"]["rows"],
        "classifier": told["probe"]["classifier"],
        "classifier_rows": told["probe"]["classifier_rows"],
        "grid": {name: told["probe"][name] for name in ("hidden", "alphas") if told["probe"][name]},
    }
    state = setting or ("fine-tuned" if run else "pre-trained")
    return Step("probe", settings, needs, f"{model.name}, {task}, {state}: labels")


def _vectors(model: Model, task: str, split: str, run: Step | None, told: Mapping[str, Any], wish: Wish) -> Step:
    all_layers = bool(wish.layers) or told["all_layers"].get(task) == "all"
    return vectors(model, task, split, wish, run=run, layers=None if all_layers else [model.last])
