"""RP21 and its reproduction PD22: repairs of a space before and after fine-tuning, its layers, clusters and frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theodolite.studies.identity import Model
from theodolite.studies.plans.parts import tuned, vectors
from theodolite.studies.step import Step
from theodolite.studies.wish import Wish


def plan_rp21(written: Mapping[str, Any], wish: Wish) -> list[Step]:
    """The steps for every model: both states, each with its tables, figures and sweeps."""
    told = wish.settings(written)
    wish.chosen_tasks([told["task"]])
    steps: list[Step] = []
    for model in wish.models:
        steps += _of_state(model, told, wish, None, 0)
        for seed in wish.chosen_seeds(told["seeds"]):
            run = tuned(model, told["task"], seed, told["tuning"], wish)
            steps += [run, *_of_state(model, told, wish, run, seed)]
    return steps


def _of_state(model: Model, told: Mapping[str, Any], wish: Wish, run: Step | None, seed: int) -> list[Step]:
    task, split, most = told["task"], told["split"], told.get("examples")
    layers = sorted({*wish.chosen_layers(model), model.last})
    tokens = vectors(model, task, split, wish, run=run, unit="tokens", layers=layers, examples=most)
    cls = vectors(model, task, split, wish, run=run, unit="cls", layers=layers, examples=most)
    state = f"{model.name}, {'fine-tuned' if run else 'pre-trained'}"
    same = {"seed": seed, "bootstrap": told["bootstrap"]}
    halves = {"seed": seed, "bootstrap": told["halves"], "sample": told["sample"]}
    last = {"layer": model.last}
    steps = [
        Step(
            "layers",
            {**halves, "metrics": told["metrics"]["layers"], "setting": unit},
            {"vectors": of},
            f"{state}: layers, {unit}",
        )
        for unit, of in (("tokens", tokens), ("cls", cls))
    ]
    for layer in layers:
        chosen = told["repairs"] if layer == model.last else {name: told["repairs"][name] for name in told["layer_repairs"]}
        metrics = told["metrics"]["repairs"] if layer == model.last else []
        settings = {**same, "layer": layer, "repairs": chosen, "metrics": metrics}
        steps.append(Step("repairs", settings, {"vectors": tokens, "cls": cls}, f"{state}: repairs of layer {layer}"))
    sweep = {**same, **last, "directions": told["sweep"], "metrics": told["metrics"]["sweep"]}
    steps.append(Step("sweep", sweep, {"vectors": tokens}, f"{state}: removed directions"))
    steps.append(Step("clusters", {**halves, **last, "k": told["clusters"]}, {"vectors": tokens}, f"{state}: clusters"))
    bias = {"seed": seed, "bootstrap": told["halves"], **last, "components": told["components"]}
    steps.append(Step("frequency", bias, {"vectors": tokens}, f"{state}: word frequency"))
    drawn = {"seed": seed, **last, "points": told["points"], "k": told["clusters"]}
    texts = {name: tokens.settings[name] for name in ("model", "task", "split", "examples")}
    steps.append(Step("picture", {**drawn, **texts}, {"vectors": tokens}, f"{state}: picture"))
    steps.append(Step("spectrum", {**last, "setting": "tokens"}, {"vectors": tokens}, f"{state}: spectrum"))
    return steps
