"""IL23: a plain fine-tuning, the Isotropy Layer put into it, and IsoBN instead of it, with learning rates chosen beforehand.

Learning rate and number of epochs are chosen once per encoder and task, on the validation rows of seed 0, and serve every seed
and method; so is the learning rate of the layer. A choice reads no split besides the training one.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from theodolite.core.files import read_json, write_json
from theodolite.core.rows import Row, current_versions
from theodolite.core.states import FINE_TUNED, ISOLAYER, base_state
from theodolite.studies.requests import Request, StudyModel
from theodolite.studies.shared_steps import RUN, train_or_read, tuned_rows, tuning_settings
from theodolite.studies.steps import Action, Step, Work

if TYPE_CHECKING:
    from theodolite.tuning.runs import Splits, Tuned
    from theodolite.tuning.settings import TuneSettings

# The seed that hyper-parameters are chosen with.
SEED = 0
# What a choice is written to, in the folder of its step.
CHOICE = "choice.json"


def steps(request: Request) -> list[Step]:
    """A plain fine-tuning, the Isotropy Layer put into it, and IsoBN instead of it, for every model, task and seed (IL23).

    The setting `more_methods` has what else is tried on single tasks.
    """
    kinds = ("classification", "pair_classification", "similarity")
    tasks = request.choose_tasks(request.settings["tasks"], kinds=kinds)
    return [
        _tuning(request, model, task, seed, method)
        for model in request.models
        for task in tasks
        for seed in request.choose_seeds()
        for method in (*request.settings["methods"], *request.settings["more_methods"].get(task, ()))
    ]


def _tuning(request: Request, model: StudyModel, task: str, seed: int, method: str) -> Step:
    """A fine-tuning with what was chosen, unless the settings of the method say otherwise."""
    step, own = request.tuning_step(model, task, seed, method=method), request.settings["method_tuning"].get(method, {})
    # A preset of the method's own is another paper's protocol, with that paper's learning rate.
    names = [] if "preset" in own else [name for name in ("learning_rate", "epochs") if name not in own]
    needs = {"choice": _choice(request, model, task)} if names else {}
    if base_state(method) == ISOLAYER:
        needs["plain"] = _tuning(request, model, task, seed, "plain")
        if "learning_rate" not in own.get("layer", {}):
            needs["layer_choice"] = _layer_choice(request, model, task)
    return Step(TUNE_CHOSEN, {**step.settings, "chosen": names}, needs, step.title)


def _choice(request: Request, model: StudyModel, task: str) -> Step:
    """The choice of learning rate and number of epochs; a rate that the settings name is the only candidate."""
    settings = request.tuning_step(model, task, SEED).settings
    rate = settings["changes"].get("learning_rate")
    candidates = list(request.settings["choose"]["learning_rate"]) if rate is None else [rate]
    return Step(CHOOSE, {**settings, "candidates": candidates}, {}, f"choose the learning rate of {model.name} on {task}")


def _layer_choice(request: Request, model: StudyModel, task: str) -> Step:
    """The choice of the layer's learning rate."""
    plain = _tuning(request, model, task, SEED, "plain")
    settings = {
        **request.tuning_step(model, task, SEED, method=ISOLAYER).settings,
        "chosen": plain.settings["chosen"],
        "candidates": list(request.settings["choose"]["layer_learning_rate"]),
    }
    title = f"choose the layer's learning rate for {model.name} on {task}"
    return Step(CHOOSE, settings, {"plain": plain, **plain.needs}, title)


def _choose(work: Work) -> list[Row]:
    """Train with every candidate, one after the other, and choose the best on the validation rows; only scores are kept.

    Of candidates with equal scores a layer's is the more isotropic one, otherwise the first.
    """
    is_layer = base_state(work.settings["method"]) == ISOLAYER
    trials = [_trial(work, number, rate) for number, rate in enumerate(work.settings["candidates"])]
    best = max(trials, key=lambda trial: (-math.inf, 0.0) if trial["score"] is None else (trial["score"], trial["iso_score"]))
    if best["score"] is None:
        raise ValueError(f"no candidate has a score on the validation rows: {best['reason']}; name other learning rates")
    write_json(work.folder / CHOICE, {"trials": trials, "learning_rate": best["learning_rate"], "epochs": best["epochs"]})
    fields = {**_fields(work), "split": "validation"}
    rows = []
    for trial in trials:
        setting = f"{'layer.' * is_layer}learning_rate={trial['learning_rate']:g}"
        of_trial = {**fields, "setting": setting, "n": trial["n"], "reason": trial["reason"]}
        rows.append(Row(metric="validation_score", value=math.nan if trial["score"] is None else trial["score"], **of_trial))
        if trial["score"] is not None:
            rows.append(Row(metric="best_epoch", value=trial["epochs"], **of_trial))
    rows.append(Row(metric=f"chosen{'_layer' * is_layer}_learning_rate", value=best["learning_rate"], n=best["n"], **fields))
    return rows if is_layer else [*rows, Row(metric="chosen_epochs", value=best["epochs"], n=best["n"], **fields)]


def _trial(work: Work, number: int, rate: float) -> dict[str, Any]:
    """What a candidate reached, read if it is known; the weights are removed."""
    from theodolite.tuning.runs import load_splits
    from theodolite.tuning.settings import HELD_OUT
    from theodolite.tuning.trainers import Diverged

    path, folder = work.folder / f"trial-{number}.json", work.folder / f"trial-{number}"
    if not path.exists():
        changes = _with_choices(work)
        if base_state(work.settings["method"]) == ISOLAYER:
            changes["layer"] = {**changes.get("layer", {}), "learning_rate": rate}
        else:
            changes["learning_rate"] = rate
        tuning = tuning_settings({**work.settings, "changes": {**changes, "eval_split": HELD_OUT}}, work.sources, folder)
        trial = {"learning_rate": rate, "score": None, "iso_score": 0.0, "epochs": 0, "reason": ""}
        trial["n"] = len(load_splits(tuning, work.sources.data_for(work.settings["task"])).dev)
        try:
            trial |= _reached(train_or_read(work, tuning))
        except Diverged as diverged:
            trial["reason"] = str(diverged)
        write_json(path, trial)
    shutil.rmtree(folder, ignore_errors=True)
    return dict(read_json(path))


def _reached(run: Tuned) -> dict[str, Any]:
    """The score on the validation rows, and the best epoch; a layer's IsoScore decides between equal scores."""
    if math.isnan(run.after):
        return {"reason": next(row.reason for row in run.rows if row.reason)}
    iso_scores = [row.value for row in run.rows if row.state == ISOLAYER and row.metric == "iso_score"]
    return {"score": run.after, "iso_score": iso_scores[0] if iso_scores else 0.0, "epochs": round(run.best_epoch)}


def _with_choices(work: Work) -> dict[str, Any]:
    """The changes of the step's settings, and over them what was chosen."""
    changes = dict(work.settings["changes"])
    if "choice" in work.inputs:
        choice = read_json(work.inputs["choice"] / CHOICE)
        changes |= {name: choice[name] for name in work.settings["chosen"]}
        if "epochs" in work.settings["chosen"]:
            changes["patience"] = None  # every seed and method trains as many epochs
    if "layer_choice" in work.inputs:
        rate = read_json(work.inputs["layer_choice"] / CHOICE)["learning_rate"]
        changes["layer"] = {**changes.get("layer", {}), "learning_rate": rate}
    return changes


def _tune_chosen(work: Work) -> list[Row]:
    """A fine-tuning with what was chosen. A plain one also counts the examples, one with a layer says what the layer gained."""
    from theodolite.tuning.runs import load_splits

    tuning = tuning_settings({**work.settings, "changes": _with_choices(work)}, work.sources, work.folder / RUN)
    run = train_or_read(work, tuning)
    rows = tuned_rows(work, tuning, run)
    if work.settings["method"] == "plain":
        rows += _data_rows(load_splits(tuning, work.sources.data_for(work.settings["task"])), _fields(work))
    if base_state(work.settings["method"]) == ISOLAYER:
        rows += _gain_rows(run, tuning, {**_fields(work), "state": work.settings["method"]})
    return rows


def _fields(work: Work) -> dict[str, Any]:
    """What rows of a step say of where they come from."""
    settings, name = work.settings, work.settings["model"]["name"]
    origin = {"model": name, "revision": work.sources.revisions.get(name, ""), "task": settings["task"]}
    return {**origin, "seed": settings["seed"], "versions": current_versions()}


def _data_rows(splits: Splits, fields: Mapping[str, Any]) -> Iterator[Row]:
    """How many examples each split has, and the share of its most frequent label (table 1 of the paper)."""
    for name, examples in (("train", splits.train), ("validation", splits.validation), (splits.dev.split, splits.dev)):
        if examples is None:
            continue
        of_split = {**fields, "split": name, "n": len(examples)}
        yield Row(metric="examples", value=len(examples), **of_split)
        if examples.labels is not None:
            most = max(map(examples.labels.count, set(examples.labels)))
            yield Row(metric="majority_share", value=most / len(examples), **of_split)


def _gain_rows(run: Tuned, tuning: TuneSettings, fields: Mapping[str, Any]) -> Iterator[Row]:
    """The gains of score and IsoScore as shares of their values without the layer (the improvements of table 2)."""
    for metric in (tuning.declared.score, "iso_score"):
        before, after = (
            next(row for row in run.rows if row.metric == metric and row.state == state) for state in (FINE_TUNED, ISOLAYER)
        )
        has_gain = before.value > 0 and math.isfinite(after.value)
        value = after.value / before.value - 1 if has_gain else math.nan
        reason = "" if has_gain else f"a relative gain needs a positive value before; it is {before.value:.4g}"
        shared = {**fields, "split": after.split, "n": after.n, "step": after.step}
        yield Row(metric=f"{metric}_gain", value=value, reason=reason, **shared)


CHOOSE = Action("choose", _choose, resumable=True)
TUNE_CHOSEN = Action("tune-chosen", _tune_chosen, resumable=True)
