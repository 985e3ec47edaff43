"""How the labels of a task lie in a layer: clusters, distances, train against test, and what probes score (ZS22)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.rows import Row, current_versions
from theodolite.probes.direct import DirectProbe, NoSpread
from theodolite.probes.rows import HeldOut, probe_rows
from theodolite.probes.sample import sample_by_label
from theodolite.probes.similarity import spatial_similarity
from theodolite.studies.actions.vectors import about, opened
from theodolite.studies.step import Work

Labels = NDArray[Any]


def probe_labels(work: Work) -> list[Row]:
    """All asked layers of `train`, scored on `test`; `rows` and `classifier_rows` cap what clusters and probes are made of."""
    train, test = opened(work, "train"), opened(work, "test")
    told, rows = work.settings, []
    layers = train.layers if told["layers"] == "all" else [train.layers[-1]] if told["layers"] == "last" else told["layers"]
    y, held = (np.array([str(label) for label in space.rows["label"]]) for space in (train, test))
    known = np.isin(held, y)
    for number, layer in enumerate(layers):
        X, T = np.asarray(train[layer]), np.asarray(test[layer])[known]
        fields = {**about(train, layer), "seed": told["seed"], "d": X.shape[1], "setting": told.get("setting", "")}
        # A classifier of every layer would take most of a study's time: the last one stands for the model.
        asked = told if layer == layers[-1] else {**told, "classifier": "none"}
        rows += _probed(X, y, T, held[known], asked, fields, str(test.about(layer)["split"]))
        if work.tick is not None:
            work.tick(number + 1, len(layers))
    return rows


def _probed(X: Any, y: Labels, T: Any, held: Labels, told: Any, fields: dict[str, Any], split: str) -> list[Row]:
    chosen = sample_by_label(y, told["rows"] or len(y), seed=told["seed"])
    began = time.perf_counter()
    try:
        probe = DirectProbe().fit(X[chosen], y[chosen])
    except NoSpread as error:  # [CLS] in the embeddings is one point for all texts
        return [Row(**{**fields, "metric": "clusters", "value": float("nan"), "reason": str(error)})]
    seconds = time.perf_counter() - began
    accuracy = HeldOut(float(np.mean(probe.predict(T) == held)), len(held), split)
    score = _classified(X, y, T, held, told)
    rows = probe_rows(probe, y[chosen], about=fields, held_out=accuracy, score=score, seconds=seconds)
    if fields["setting"]:  # the setting of a pair's row names the pair: there is no room for another one
        rows = [row for row in rows if row.metric != "label_distance"]
    rows.append(Row(**{**fields, "metric": "labels", "value": float(len(probe.classes_)), "versions": current_versions()}))
    return [*rows, _train_test(probe, T, held, fields)]


def _train_test(probe: DirectProbe, T: Any, held: Labels, fields: dict[str, Any]) -> Row:
    """Spatial similarity of the training rows' labels to the test rows'."""
    told = {**fields, "metric": "train_test_similarity", "versions": current_versions()}
    if len(np.unique(held)) < 2:
        return Row(**{**told, "value": float("nan"), "reason": "the test rows have one label"})
    found = spatial_similarity(probe, DirectProbe().fit(T, held))
    undefined = found.reason if np.isnan(found.value) else ""
    return Row(**{**told, "value": found.value, "low": found.low, "high": found.high, "n": found.n, "reason": undefined})


def _classified(X: Any, y: Labels, T: Any, held: Labels, told: Any) -> Any:
    from theodolite.probes.classifier import ClassifierProbe
    from theodolite.probes.linear import LinearProbe

    if told["classifier"] == "none":
        return None
    chosen = sample_by_label(y, told["classifier_rows"] or len(y), seed=told["seed"])
    if told["classifier"] == "linear":
        return LinearProbe(seed=told["seed"]).fit(X[chosen], y[chosen]).evaluate(T, held)
    grid: dict[str, Any] = told["grid"]
    made = ClassifierProbe(seed=told["seed"], **grid)
    return made.fit(X[chosen], y[chosen]).evaluate(T, held)
