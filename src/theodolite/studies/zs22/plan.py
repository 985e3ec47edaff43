"""ZS22: where the labels of a task are, in a layer, after tuning on another task, and while an encoder is fine-tuned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.folds import resample_counts
from theodolite.core.intervals import student_interval
from theodolite.core.result import table_of
from theodolite.core.rows import Row, current_versions, read_rows
from theodolite.core.states import FINE_TUNED, FINE_TUNING, PRE_TRAINED
from theodolite.core.vectors import Floats
from theodolite.probes.direct_probe import DirectProbe, NoSpread
from theodolite.probes.label_codes import check_label_sets
from theodolite.probes.layer_probe import probe_layer
from theodolite.probes.movement import centroid_movement, centroid_paths, closest_labels, movement_directions
from theodolite.probes.similarity import cka_similarity, spatial_similarity
from theodolite.studies.item_records import DRAW_SEED, DRAWS, Draws, Recorder
from theodolite.studies.requests import Request, StudyModel
from theodolite.studies.shared_steps import PICTURE, TRACKED, open_space, row_fields
from theodolite.studies.steps import ROWS, Action, Step, Work

if TYPE_CHECKING:
    from theodolite.probes.classifiers.estimators import ProbeScore
    from theodolite.tuning.tracked_sample import StepVectors

DISTANCE = "minimum_distance"
# What is kept of a probe at every training step; the distances of all pairs of labels, which are many, only at both ends.
TRACKED_METRICS = (DISTANCE, "mean_minimum_distance")
END_METRICS = (*TRACKED_METRICS, "label_distance")


def _probe_labels(work: Work) -> list[Row]:
    """Probe one layer of the input `train`, scored on the input `test`.

    The settings `rows` and `classifier_rows` cap how many rows the clusters and the classifier are made from; 0 is all. Test rows
    whose label is not in training cannot be predicted: accuracies are without them, and with them (`_all_rows`) counted as wrong.
    """
    train, test, settings, recorder = open_space(work, "train"), open_space(work, "test"), work.settings, Recorder()
    labels, test_labels = (np.array(space.labels()) for space in (train, test))
    trained, _ = check_label_sets(labels, test_labels, drop_unseen=True)
    layer = settings["layer"]
    fields = {**row_fields(train, layer), "seed": settings["seed"], "setting": settings["setting"], "d": train.d}
    try:
        probe = probe_layer(
            train[layer],
            labels,
            test=(np.asarray(test[layer])[trained], test_labels[trained]),
            test_split=test.origin.split,
            max_rows=settings["rows"],
            max_classifier_rows=settings["classifier_rows"],
            classifier=settings["classifier"],
            grid=settings["grid"],
            train_test=True,
            seed=settings["seed"],
            about=fields,
            progress=work.stages,
        )
    except NoSpread as error:  # [CLS] in the embeddings is one point for all texts
        return [Row(**{**fields, "metric": "clusters", "value": float("nan"), "reason": str(error)})]
    layouts = [
        layout_record(direct, {**fields, "side": side}, np.asarray(space[layer]))
        for side, direct, space in (("train", probe.probe, train), ("test", probe.test_probe, test))
        if direct is not None
    ]
    rows: list[Row] = []
    for row in probe.rows:
        if row.metric == "probe_accuracy" and probe.score is not None:
            row = recorder.add(row, _accuracy_draws(probe.score))
            _keep_correct(work, row, probe.score.correct)
        # The distances of all pairs, which are many, are drawn for the task's own tuning only; the layouts have the others.
        if not (settings["setting"] and row.metric == "label_distance"):
            rows.append(row)
        if row.metric in ("probe_accuracy", "hull_accuracy"):
            value = row.value * int(trained.sum()) / len(trained)
            rows.append(replace(row, metric=f"{row.metric}_all_rows", value=value, low=None, high=None, n=len(trained)))
    if settings["classifier"] != "none":  # once a state: what a model that ignores the input would score
        share = float(np.unique(test_labels, return_counts=True)[1].max() / len(test_labels))
        of_state = {**fields, "layer": None, "split": test.origin.split, "n": len(test_labels)}
        rows.append(Row(metric="majority_share", value=share, **of_state))
    recorder.write(work)
    _write_layouts(work, layouts)
    return rows


def _accuracy_draws(score: ProbeScore) -> Draws:
    """The accuracy over resampled test rows, the same in every state, and of every initialisation."""
    count = score.correct.shape[1]
    items = resample_counts(np.arange(count), DRAWS, seed=DRAW_SEED) @ score.correct.mean(axis=0) / count
    repeats = (score.scores, "initialisations") if len(score.scores) > 1 else ((), "")
    return Draws(score.mean, items, count, "test rows", *repeats)


def _keep_correct(work: Work, row: Row, correct: NDArray[np.bool_]) -> None:
    """Keep whether each test row was predicted rightly, by initialisation."""
    import pyarrow

    fields = {name: getattr(row, name) for name in ("model", "state", "task", "split", "setting", "layer", "seed")}
    records = [{**fields, "initialisation": number, "correct": answers.tolist()} for number, answers in enumerate(correct)]
    work.write_records("answers", pyarrow.Table.from_pylist(records))


def layout_record(probe: DirectProbe, fields: Mapping[str, Any], X: Floats) -> dict[str, Any]:
    """The layout of labels as one record: each label's clusters and mean distance inside, and the distance of each pair."""
    inside = []
    for label in probe.classes_:
        wide = np.flatnonzero((probe.cluster_labels_ == label) & (probe.cluster_sizes_ > 1))
        inside.append(float(np.mean(probe.inside_mean_[wide])) if len(wide) else float("nan"))
    names = ("model", "state", "task", "setting", "layer", "seed", "step", "side")
    return {
        **{name: fields.get(name, "" if name == "setting" else None) for name in names},
        "norm": float(np.linalg.norm(np.asarray(X, dtype=np.float64), axis=1).mean()),
        "overlaps": probe.n_overlaps_,
        "labels": [str(label) for label in probe.classes_],
        "clusters": [int((probe.cluster_labels_ == label).sum()) for label in probe.classes_],
        "inside": inside,
        "distances": probe.label_distances_[np.triu_indices(len(probe.classes_), 1)].tolist(),  # row by row
    }


def _write_layouts(work: Work, layouts: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow

    if layouts:
        table = pyarrow.Table.from_pylist([dict(layout) for layout in layouts])
        at = table.schema.get_field_index("step")
        # A column of nothing but None has no type, and could not be joined with those of other steps.
        work.write_records("layouts", table.set_column(at, "step", table["step"].cast(pyarrow.int64())))


def _compare_tasks(work: Work) -> list[Row]:
    """What tuning on one task did to the minimum distances of another: their mean change, and how many labels rose and fell."""
    before, after = (
        {
            row.label: row
            for row in read_rows(work.inputs[role] / ROWS)
            if row.metric == DISTANCE and row.layer == work.settings["layer"] and np.isfinite(row.value)
        }
        for role in ("before", "after")
    )
    labels = [label for label in before if label in after]
    if not labels:
        return []
    changes = np.array([after[label].value - before[label].value for label in labels])
    row = replace(after[labels[0]], label="", low=None, high=None, n=len(labels))
    low, high = student_interval(changes)
    return [
        replace(row, metric="mean_change", value=float(changes.mean()), low=low, high=high),
        replace(row, metric="labels_rose", value=float((changes > 0).sum())),
        replace(row, metric="labels_fell", value=float((changes < 0).sum())),
    ]


def _count_largest_label(work: Work) -> list[Row]:
    """The share of the most frequent label among the examples that an encoder tuned on a task is scored on.

    It tells whether the encoder learned a task that is tuned on but not probed.
    """
    task, split = work.settings["task"], work.settings["split"]
    labels = work.sources.examples(task, split).labels or ()
    share = max(Counter(labels).values()) / len(labels)
    about = {"model": work.settings["model"]["name"], "state": PRE_TRAINED, "task": task, "split": split}
    return [Row(metric="majority_share", value=share, n=len(labels), versions=current_versions(), **about)]


def _follow_labels(work: Work) -> list[Row]:
    """Distances, similarity to the start and centroid movement of every layer at every tracked training step.

    The paths of the three closest labels' centroids are kept as records, for a low layer and the last one.
    """
    from theodolite.tuning.tracked_sample import read_steps

    settings, steps = work.settings, read_steps(work.inputs["tuned"] / TRACKED)
    layers = sorted(steps[0].layers)
    layouts: list[dict[str, Any]] = []
    shared = {"model": settings["model"]["name"], "task": settings["task"], "seed": settings["seed"]}
    rows: list[Row] = []
    for layer in work.watched(layers):
        fields = {**shared, "layer": layer, "versions": current_versions(), "d": steps[0].layers[layer].shape[1]}
        rows += _training_rows(steps, layer, fields, layouts)
        rows += _movement_rows(steps, layer, {**fields, "step": steps[-1].step, "state": FINE_TUNED})
    _write_layouts(work, layouts)
    closest = _closest_labels(steps, layers[-1])  # once, so that the paths of all layers are of the same labels
    ends = dict.fromkeys((layers[min(1, len(layers) - 1)], layers[-1]))
    if paths := [point for layer in ends for point in _paths(steps, layer, closest, {**shared, "layer": layer})]:
        work.write_records("paths", table_of(paths))
    return rows


def _training_rows(
    steps: Sequence[StepVectors], layer: int, fields: Mapping[str, Any], layouts: list[dict[str, Any]]
) -> Iterator[Row]:
    """The rows of one layer at every step; the layouts of its labels are added to `layouts`.

    Where labels overlap, ZS22 leaves the case out: there are no distances and no similarity, only the number of overlaps.
    """
    labels, original = steps[0].labels, steps[0].layers[layer]
    first: DirectProbe | None = None
    for tracked in steps:
        X = tracked.layers[layer]
        at_step = {**fields, "step": tracked.step, "state": FINE_TUNING if tracked.step else PRE_TRAINED}
        try:
            probe = probe_layer(X, labels, clusters=labels, about=at_step)
        except NoSpread as error:
            yield Row(**{**at_step, "metric": "mean_minimum_distance", "value": float("nan"), "reason": str(error)})
            continue
        first = probe.probe if first is None else first
        overlaps = probe.probe.n_overlaps_
        layouts.append(layout_record(probe.probe, {**at_step, "side": "tracked"}, X))
        metrics = END_METRICS if tracked.step in (steps[0].step, steps[-1].step) else TRACKED_METRICS
        yield from (row for row in probe.rows if row.metric == "overlaps" or (row.metric in metrics and not overlaps))
        if overlaps:
            reason = f"{overlaps} pairs of labels overlap"
            yield Row(**{**at_step, "metric": "mean_minimum_distance", "value": float("nan"), "reason": reason})
        similarities = {
            "similarity_to_original": spatial_similarity(first, probe.probe),
            "cka_to_original": cka_similarity(original, X, bootstrap=0),
        }
        for metric, similarity in similarities.items():
            numbers = {name: getattr(similarity, name) for name in ("value", "low", "high", "n")}
            reason = similarity.reason if np.isnan(similarity.value) else ""  # not why there is no interval
            yield Row(**{**at_step, "metric": metric, **numbers, "reason": reason})


def _movement_rows(steps: Sequence[StepVectors], layer: int, fields: Mapping[str, Any]) -> Iterator[Row]:
    """How far each centroid moved, divided by the mean norm at the start, and in how few directions."""
    before, after, labels = steps[0].layers[layer], steps[-1].layers[layer], steps[0].labels
    norm = float(np.linalg.norm(before.astype(np.float64), axis=1).mean())
    for movement in centroid_movement(before, after, labels):
        low, high = (None if bound is None else bound / norm for bound in (movement.low, movement.high))
        values = {"value": movement.distance / norm, "low": low, "high": high, "n": movement.n, "label": str(movement.label)}
        yield Row(**{**fields, "metric": "centroid_movement", **values})
    directions = movement_directions(before, after, labels, components=2)
    for label, scores in zip(directions.labels, directions.scores, strict=True):  # ZS22, figures 7 to 10
        for k, score in enumerate(scores, 1):
            yield Row(**{**fields, "metric": f"movement_pca_{k}", "value": float(score) / norm, "label": str(label)})
    for k, share in enumerate(np.cumsum(directions.shares), 1):
        values = {"value": float(share), "n": len(labels), "reason": "" if np.isfinite(share) else "nothing moved"}
        yield Row(**{**fields, "metric": f"movement_share_{k}", **values})


def _closest_labels(steps: Sequence[StepVectors], layer: int) -> tuple[Any, ...]:
    """The three labels that are closest to each other before training; none if all vectors are one point."""
    labels = steps[0].labels
    try:
        probe = probe_layer(steps[0].layers[layer], labels, clusters=labels).probe
    except NoSpread:
        return ()
    # The diagonal, and labels without a distance, count as 0.
    distances = np.where(np.isfinite(probe.label_distances_), probe.label_distances_, 0.0)
    return closest_labels(list(probe.classes_), distances, count=min(3, len(probe.classes_)))


def _paths(
    steps: Sequence[StepVectors], layer: int, closest: Sequence[Any], fields: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Where the centroids of the closest labels are at every step, on the directions of their movement."""
    labels, states = steps[0].labels, [tracked.layers[layer] for tracked in steps]
    if not closest or all((state == states[0][0]).all() for state in states):
        return
    paths = centroid_paths(states, labels, labels=closest, components=3)
    for tracked, points in zip(steps, paths.points, strict=True):
        for label, point in zip(paths.labels, points, strict=True):
            position = dict(zip("xyz", [*map(float, point), 0.0, 0.0], strict=False))
            yield {**fields, "label": str(label), "step": tracked.step, **position}


PROBE = Action("probe", _probe_labels, version=4)
COMPARE_TASKS = Action("cross", _compare_tasks)
LARGEST_LABEL = Action("largest-label", _count_largest_label)
FOLLOW_LABELS = Action("movement", _follow_labels, version=2)


def steps(request: Request) -> list[Step]:
    """Labels before, during and after fine-tuning, on every task, and on tasks that an encoder was not tuned for (ZS22)."""
    kinds = ("classification", "pair_classification", "tagging", "word_pairs")
    tasks = request.choose_tasks(request.settings["tasks"], kinds=kinds)
    planned: list[Step] = []
    for model, seed in ((model, seed) for model in request.models for seed in request.choose_seeds()):
        labels = _Labels(request, model, seed)
        for task in tasks:
            planned += labels.task_steps(task)
        for pair in request.settings["cross"]:
            if pair["probe"] in tasks:
                planned += labels.cross_steps(pair["probe"], pair["tune"])
    return planned


@dataclass(frozen=True)
class _Labels:
    """The steps on labels of one model and seed."""

    request: Request
    model: StudyModel
    seed: int

    def task_steps(self, task: str) -> list[Step]:
        """The probes of both states of a task, and the movement in between."""
        model, tuned = self.model, self._tuned(task)
        shared = {"model": model.identity, "task": task, "seed": self.seed}
        points = self.request.settings["points"]
        picture = {**shared, "split": "train", "examples": None, "layer": model.last_layer, "points": points, "k": 0}
        steps = [tuned, Step(FOLLOW_LABELS, shared, {"tuned": tuned}, f"{model.name}, {task}: labels while it is fine-tuned")]
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
        split = self.request.sources.task(tuned_on).scored_split
        scored = {"model": self.model.identity, "split": split, **self.request.identity(tuned_on, split)}
        share = Step(LARGEST_LABEL, scored, {}, f"{self.model.name}, {tuned_on}: share of the largest label")
        return [after, Step(COMPARE_TASKS, {"layer": last}, needs, title), share]

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
            # An encoder has no seed before it is fine-tuned: all seeds share one probe of it.
            "seed": self.seed if tuned else 0,
            "setting": setting,
            "layer": layer,
            **{name: probe[name] for name in ("rows", "classifier_rows")},
            # A classifier of every layer would take most of a study's time: the last layer gets the only one.
            "classifier": probe["classifier"] if layer == self.model.last_layer else "none",
            # An empty list leaves the grid that the paper searched.
            "grid": {name: probe[name] for name in ("search", "hidden", "alphas") if probe[name]},
        }
        state = setting or (FINE_TUNED if tuned else PRE_TRAINED)
        return Step(PROBE, settings, needs, f"{self.model.name}, {task}, {state}: labels in layer {layer}")

    def _vectors(self, task: str, split: str, tuned: Step | None) -> Step:
        # One extraction serves the probes of every layer.
        return self.request.vectors_step(self.model, task, split, tuned=tuned, layers=self._layers)
