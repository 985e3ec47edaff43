"""RP21 and its reproduction PD22: repairs of a space before and after fine-tuning, its layers, clusters and frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.studies.measures.layers import CLUSTERS, FREQUENCY, LAYERS, PICTURE, SPECTRUM
from theodolite.studies.measures.repairs import REPAIR_SCORES, SWEEP
from theodolite.studies.planning import Request, StudyModel, tuning_step, vectors_step
from theodolite.studies.steps import Step


def plan_steps(defaults: Mapping[str, Any], request: Request) -> list[Step]:
    """The steps for every model: the pre-trained state, and the fine-tuned one of every seed.

    Parameters
    ----------
    defaults
        The settings of the study's file.
    request
        What the run asks for.
    """
    settings = request.settings(defaults)
    tasks = request.choose_tasks([settings["task"]], kinds=["similarity"])
    if len(tasks) > 1:
        raise ValueError(f"this study measures one task at a time, not {', '.join(tasks)}; give one of them")
    settings["task"] = tasks[0]
    steps: list[Step] = []
    for model in request.models:
        steps += _state_steps(model, settings, request, None, 0)  # has no seed of its own: the one of its samples is 0
        for seed in request.choose_seeds(settings["seeds"]):
            tuned = tuning_step(model, tasks[0], seed, settings["tuning"], request)
            steps += [tuned, *_state_steps(model, settings, request, tuned, seed)]
    return steps


def _state_steps(model: StudyModel, settings: Mapping[str, Any], request: Request, tuned: Step | None, seed: int) -> list[Step]:
    """All that is measured of one state of a model."""
    task, last = settings["task"], model.last_layer
    split = request.choose_split(task, settings["split"])
    layers = sorted({*request.choose_layers(model), last})  # tables and claims are of the last layer, whatever was asked for
    tokens, cls = (
        vectors_step(model, task, split, request, tuned=tuned, unit=unit, layers=layers, examples=settings["examples"])
        for unit in ("tokens", "cls")
    )
    state = f"{model.name}, {FINE_TUNED if tuned else PRE_TRAINED}"
    pairs = {"seed": seed, "bootstrap": settings["bootstrap"]}
    halves = {"seed": seed, "bootstrap": settings["halves"], "sample": settings["sample"]}
    metrics = settings["metrics"]
    steps = [
        Step(LAYERS, {**halves, "metrics": metrics["layers"], "setting": unit}, {"vectors": vectors}, f"{state}: layers, {unit}")
        for unit, vectors in (("tokens", tokens), ("cls", cls))
    ]
    for layer in layers:
        # Repairs of every layer are for one figure; all of them, with their isotropy, are of the last layer only.
        names = settings["repairs"] if layer == last else settings["layer_repairs"]
        repairs = {
            **pairs,
            "layer": layer,
            "repairs": {name: settings["repairs"][name] for name in names},
            "baseline": settings["baseline"],
            "gains": {name: pair for name, pair in settings["gains"].items() if set(pair) <= set(names)},
            "metrics": metrics["repairs"] if layer == last else [],
        }
        steps.append(Step(REPAIR_SCORES, repairs, {"vectors": tokens, "cls": cls}, f"{state}: repairs of layer {layer}"))
    texts = {name: tokens.settings[name] for name in ("model", "task", "split", "examples")}
    picture = {**texts, "seed": seed, "points": settings["points"], "k": settings["clusters"]}
    others = (
        (SWEEP, {**pairs, "directions": settings["sweep"], "metrics": metrics["sweep"], "setting": "sweep global"}, "sweep"),
        (CLUSTERS, {**halves, "k": settings["clusters"]}, "clusters"),
        (FREQUENCY, {"seed": seed, "bootstrap": settings["halves"], "components": settings["components"]}, "word frequency"),
        (PICTURE, picture, "picture"),
        (SPECTRUM, {"setting": "tokens"}, "spectrum"),
    )
    steps += [Step(action, {**own, "layer": last}, {"vectors": tokens}, f"{state}: {title}") for action, own, title in others]
    return steps
