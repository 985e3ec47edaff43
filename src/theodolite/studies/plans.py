"""Plans: how the settings of each study become steps, by the name under which a study's file asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.studies.measures.held_out import HELD_OUT
from theodolite.studies.measures.labels import COMPARE_TASKS, FOLLOW_LABELS, PROBE
from theodolite.studies.measures.layers import CLUSTERS, FREQUENCY, LAYERS, PICTURE, REPAIR_SCORES, SPECTRUM, SWEEP
from theodolite.studies.planning import Request, StudyModel
from theodolite.studies.steps import Step


def _plan_rp21(request: Request) -> list[Step]:
    """Repairs of a space before and after fine-tuning, its layers, clusters and frequencies (RP21, and its reproduction PD22)."""
    settings = request.settings
    tasks = request.choose_tasks([settings["task"]], kinds=["similarity"])
    if len(tasks) > 1:
        raise ValueError(f"this study measures one task at a time, not {', '.join(tasks)}; give one of them")
    steps: list[Step] = []
    for model in request.models:
        steps += _rp21_state(request, model, tasks[0], None, 0)  # has no seed of its own: the one of its samples is 0
        for seed in request.choose_seeds():
            tuned = request.tuning_step(model, tasks[0], seed)
            steps += [tuned, *_rp21_state(request, model, tasks[0], tuned, seed)]
    return steps


def _rp21_state(request: Request, model: StudyModel, task: str, tuned: Step | None, seed: int) -> list[Step]:
    """All that is measured of one state of a model."""
    settings, last = request.settings, model.last_layer
    split = request.choose_split(task, settings["split"])
    layers = sorted({*request.choose_layers(model), last})  # tables and claims are of the last layer, whatever was asked for
    tokens, cls = (
        request.vectors_step(model, task, split, tuned=tuned, unit=unit, layers=layers, examples=settings["examples"])
        for unit in ("tokens", "cls")
    )
    state = f"{model.name}, {FINE_TUNED if tuned else PRE_TRAINED}"
    pairs = {"seed": seed, "bootstrap": settings["bootstrap"]}
    sampled = {**pairs, "sample": settings["sample"]}
    metrics = settings["metrics"]
    steps = [
        Step(LAYERS, {**sampled, "metrics": metrics["layers"], "setting": unit}, {"vectors": vectors}, f"{state}: layers, {unit}")
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
            "starts": settings["starts"] if layer == last else 1,
        }
        steps.append(Step(REPAIR_SCORES, repairs, {"vectors": tokens, "cls": cls}, f"{state}: repairs of layer {layer}"))
    # The texts themselves are not in a space of tokens: a picture reads them from the task again.
    texts = {name: tokens.settings[name] for name in ("model", "task", "split", "examples")}
    picture = {**texts, "seed": seed, "points": settings["points"], "k": settings["clusters"]}
    others = (
        (SWEEP, {**pairs, "directions": settings["sweep"], "metrics": metrics["sweep"], "setting": "sweep global"}, "sweep"),
        (CLUSTERS, {**sampled, "k": settings["clusters"], "starts": settings["starts"]}, "clusters"),
        (FREQUENCY, {**pairs, "components": settings["components"]}, "word frequency"),
        (PICTURE, picture, "picture"),
        (SPECTRUM, {"setting": "tokens"}, "spectrum"),
    )
    steps += [Step(action, {**own, "layer": last}, {"vectors": tokens}, f"{state}: {title}") for action, own, title in others]
    return steps


def _plan_il23(request: Request) -> list[Step]:
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


def _plan_zs22(request: Request) -> list[Step]:
    """Labels before, during and after fine-tuning, on every task, and on tasks that an encoder was not tuned for (ZS22)."""
    kinds = ("classification", "pair_classification", "tagging", "word_pairs")
    tasks = request.choose_tasks(request.settings["tasks"], kinds=kinds)
    steps: list[Step] = []
    for model, seed in ((model, seed) for model in request.models for seed in request.choose_seeds()):
        labels = _Labels(request, model, seed)
        for task in tasks:
            steps += labels.task_steps(task)
        for pair in request.settings["cross"]:
            if pair["probe"] in tasks:
                steps += labels.cross_steps(pair["probe"], pair["tune"])
    return steps


@dataclass(frozen=True)
class _Labels:
    """The steps on labels of one model and seed."""

    request: Request
    model: StudyModel
    seed: int

    def task_steps(self, task: str) -> list[Step]:
        """The probes of both states of a task, and the movement in between."""
        model, tuned = self.model, self._tuned(task)
        about = {"model": model.identity, "task": task, "seed": self.seed}
        points = self.request.settings["points"]
        picture = {**about, "split": "train", "examples": None, "layer": model.last_layer, "points": points, "k": 0}
        steps = [tuned, Step(FOLLOW_LABELS, about, {"tuned": tuned}, f"{model.name}, {task}: labels while it is fine-tuned")]
        for state, run in ((PRE_TRAINED, None), (FINE_TUNED, tuned)):
            vectors = {"vectors": self._vectors(task, "train", run)}
            steps += [self._probe(task, run, layer) for layer in self._layers]
            steps += [Step(PICTURE, picture, vectors, f"{model.name}, {task}, {state}: picture")]
        return steps

    def cross_steps(self, task: str, tuned_on: str) -> list[Step]:
        """A task in an encoder tuned on another one, compared with the encoder as it came."""
        setting = f"tuned on {tuned_on}"
        last = self.model.last_layer
        after = self._probe(task, self._tuned(tuned_on), last, setting=setting)
        needs = {"before": self._probe(task, None, last), "after": after}
        title = f"{self.model.name}, {task}, {setting}: change"
        return [after, Step(COMPARE_TASKS, {"layer": last}, needs, title)]

    def _tuned(self, task: str) -> Step:
        return self.request.tuning_step(self.model, task, self.seed, keep_vectors=True)

    @property
    def _layers(self) -> list[int]:
        """Those that were asked for, and the last one, which tables and claims are of."""
        return sorted({*self.request.choose_layers(self.model, self.request.settings["layers"]), self.model.last_layer})

    def _probe(self, task: str, tuned: Step | None, layer: int, *, setting: str = "") -> Step:
        test = self.request.choose_split(task, "test")
        needs = {"train": self._vectors(task, "train", tuned), "test": self._vectors(task, test, tuned)}
        probe: Mapping[str, Any] = self.request.settings["probe"]
        settings = {
            "seed": self.seed,
            "setting": setting,
            "layer": layer,
            **{name: probe[name] for name in ("rows", "classifier_rows")},
            # A classifier of every layer would take most of a study's time: the last layer gets the only one.
            "classifier": probe["classifier"] if layer == self.model.last_layer else "none",
            # An empty list leaves the grid that the paper searched.
            "grid": {name: probe[name] for name in ("hidden", "alphas") if probe[name]},
        }
        state = setting or (FINE_TUNED if tuned else PRE_TRAINED)
        return Step(PROBE, settings, needs, f"{self.model.name}, {task}, {state}: labels in layer {layer}")

    def _vectors(self, task: str, split: str, tuned: Step | None) -> Step:
        # One extraction serves the probes of every layer.
        return self.request.vectors_step(self.model, task, split, tuned=tuned, layers=self._layers)


def _plan_do_no_harm(request: Request) -> list[Step]:
    """Repairs fitted on one part of a data set and scored on another, before and after fine-tuning."""
    settings = request.settings
    collections = settings["collections"]
    names = request.choose_tasks(settings["tasks"], kinds=["similarity", "classification"], collections=collections)
    parts = {name: request.part_identity(name, collections) for name in names}
    about = {key: settings[key] for key in ("repairs", "bootstrap", "sample", "examples")} | {
        "metrics": settings["metrics"]["space"]
    }
    steps: list[Step] = []
    for model in request.models:
        tunings = [request.tuning_step(model, settings["tuned_on"], seed) for seed in request.choose_seeds()]
        steps += tunings
        for tuned, name in ((tuned, name) for tuned in (None, *tunings) for name in names):
            own = {"model": model.identity, "layer": model.last_layer, "seed": tuned.settings["seed"] if tuned else 0}
            title = f"{model.name}, {FINE_TUNED if tuned else PRE_TRAINED}: repairs on {name}"
            steps.append(Step(HELD_OUT, {**about, **own, **parts[name]}, {"tuned": tuned} if tuned else {}, title))
    return steps


# Returns the steps that a run asks for, in any order: what a step needs is found through it.
Plan = Callable[[Request], list[Step]]
PLANS: Mapping[str, Plan] = {"rp21": _plan_rp21, "il23": _plan_il23, "zs22": _plan_zs22, "do-no-harm": _plan_do_no_harm}
