"""Do no harm: what repairs do to data that they were not fitted on: scored pairs, labelled texts, and judged queries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.advice.changes import Change
from theodolite.advice.nested_validation import effect_elsewhere
from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs, Signal
from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_rows
from theodolite.core.spelling import option
from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.core.vectors import Floats
from theodolite.metrics.registry import METRICS
from theodolite.studies.requests import Request
from theodolite.studies.shared_steps import RUN, first_examples
from theodolite.studies.steps import Action, Step, Work
from theodolite.tasks.examples import Examples
from theodolite.tasks.retrieval import Collection, read_beir

Encode = Callable[[Sequence[str]], Floats]
# The setting of the rows of vectors that nothing was done to.
AS_IT_IS = "as it is"


def _read_collection(data: str | None, name: str) -> Collection:
    """A collection of judged documents from the data folder of a run: these are not read from the Hub."""
    if data is None:
        way = f"give {option('data', 'FOLDER')}, a folder that holds {name}/ in BEIR's layout"
        raise ValueError(f"the collection {name!r} is not on the Hub; {way}")
    return read_beir(Path(data) / name)


def _held_out_gains(work: Work) -> list[Row]:
    """The shape of a space, and the gain of each repair, fitted on the training part and scored on the test part.

    In retrieval, repairs are fitted on the documents and scored on the queries.
    """
    from theodolite.models.encoder import Encoder
    from theodolite.models.extraction import extract_space

    settings, tuned, name = work.settings, work.inputs.get("tuned"), work.settings["model"]["name"]
    location = work.sources.models[name] if tuned is None else str(tuned / RUN / "model")
    revision, trusted = None if tuned else work.sources.revisions.get(name), work.sources.trust_remote_code
    encoder = Encoder.load(location, name=name, revision=revision, trust_remote_code=trusted)

    def encode(texts: Sequence[str]) -> Floats:
        return extract_space(encoder, list(texts), unit="mean", layers="last", progress=work.progress)[-1]

    fitted, scored = _signals(work, encode)
    fields = {
        "model": name, "state": PRE_TRAINED if tuned is None else FINE_TUNED, "task": settings["task"], "split": "test",
        "layer": settings["layer"], "seed": settings["seed"], "d": fitted.rows.shape[1], "versions": current_versions(),
    }  # fmt: skip
    X = fitted.rows[sample_rows(len(fitted.rows), settings["sample"], seed=0)]
    rows = [Row(metric=metric, value=float(METRICS[metric].function(X)), n=len(X), **fields) for metric in settings["metrics"]]
    for title, options in settings["repairs"].items():
        repair, code = options.get("repair", ""), options.get("code", "")
        change = Change(repair, tuple((key, value) for key, value in options.items() if key not in ("repair", "code")), code)
        effect = effect_elsewhere(change, fitted, scored, draws=settings["bootstrap"])
        items = {**fields, "n": len(scored)}
        if title == next(iter(settings["repairs"])):
            rows.append(Row(metric=scored.metric, value=effect.value - effect.gain, setting=AS_IT_IS, **items))
        rows.append(Row(metric=scored.metric, value=effect.value, setting=title, **items))
        rows.append(Row(metric="gain", value=effect.gain, low=effect.low, high=effect.high, setting=title, **items))
    return rows


def _signals(work: Work, encode: Encode) -> tuple[Signal, Signal]:
    """What repairs are fitted on, and what they are scored on."""
    settings, task = work.settings, work.settings["task"]
    if settings["is_collection"]:
        collection = _read_collection(work.sources.data, task)
        judged = JudgedQueries(encode(collection.documents), encode(collection.queries), collection.judgements)
        return judged, judged
    fitted, scored = (
        _examples_signal(first_examples(work.sources.examples(task, split), settings["examples"]), encode)
        for split in settings["splits"]
    )
    return fitted, scored


def _examples_signal(examples: Examples, encode: Encode) -> Signal:
    if examples.second is None:
        return LabelledRows(encode(examples.texts), np.array(examples.labels), names=examples.texts)
    first, second = encode(examples.texts), encode(examples.second)
    return ScoredPairs(first, second, examples.scores, names=(examples.texts, examples.second))


HELD_OUT = Action("held-out", _held_out_gains)


def steps(request: Request) -> list[Step]:
    """Repairs fitted on one part of a data set and scored on another, before and after fine-tuning."""
    settings = request.settings
    collections = settings["collections"]
    names = request.choose_tasks(settings["tasks"], kinds=["similarity", "classification"], collections=collections)
    shared = {key: settings[key] for key in ("repairs", "bootstrap", "sample", "examples")}
    shared["metrics"] = settings["metrics"]["space"]
    data = {name: _data_identity(request, name, collections) for name in names}
    planned: list[Step] = []
    for model in request.models:
        tunings = [request.tuning_step(model, settings["tuned_on"], seed) for seed in request.choose_seeds()]
        planned += tunings
        for tuned, name in ((tuned, name) for tuned in (None, *tunings) for name in names):
            own = {"model": model.identity, "layer": model.last_layer, "seed": tuned.settings["seed"] if tuned else 0}
            title = f"{model.name}, {FINE_TUNED if tuned else PRE_TRAINED}: repairs on {name}"
            planned.append(Step(HELD_OUT, {**shared, **own, **data[name]}, {"tuned": tuned} if tuned else {}, title))
    return planned


def _data_identity(request: Request, name: str, collections: Sequence[str]) -> dict[str, Any]:
    """What decides a result on the training and test part of a task, or on a collection of judged documents."""
    if name not in collections:
        splits = [request.sources.task(name).train_split, request.choose_split(name, "test")]
        return {**request.identity(name, *splits), "splits": splits, "is_collection": False}
    collection = _read_collection(request.sources.data, name)
    digest = hashlib.sha256(repr((collection.documents, collection.queries)).encode())
    for values in (collection.judgements.query, collection.judgements.document, collection.judgements.grade):
        digest.update(values.tobytes())
    return {"task": name, "data": [digest.hexdigest()], "splits": [], "is_collection": True}
