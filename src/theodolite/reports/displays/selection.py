"""Which rows each figure shows, and in which order: rules that take the rows of one figure's metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNING, state_order
from theodolite.reports.displays.base import grouped, last_layer, records_of, setting_of

if TYPE_CHECKING:
    from theodolite.core.result import Result

UNITS = {"tokens": "tokens", "cls": "[CLS]"}
"""Settings of a study's rows that say what the vectors are of."""
REPAIRS = (
    "baseline", "baseline [CLS]", "zero-mean", "clustering+zero-mean", "global", "global scaled", "cluster-based",
    "cluster-based scaled", "least global 100", "least global 700", "least cluster-based 100", "least cluster-based 700",
)  # fmt: skip
"""Settings that are repairs, in reading order; others come after them."""
TUNED_ELSEWHERE = "tuned on "
"""How the setting of a row begins whose model was tuned on another task than the one it is probed on."""
SCORES = ("accuracy", "matthews")
MEAN_DISTANCE = "mean_minimum_distance"
FEWEST_DIRECTIONS = 3
"""Directions that make a curve."""
SPECTRUM = "eigenvalue_share"
SPECTRUM_COLUMNS = ("model", "state", "layer", "setting", "k", "value")


def layer_lines(rows: Sequence[Row]) -> list[Row]:
    """Lines over two layers or more; of rows over training steps, the first step of a run and its last."""
    rows = [row for row in rows if row.layer is not None and not row.label]
    if any(setting_of(row) in UNITS for row in rows):  # then other settings are repairs, which have a figure of their own
        rows = [row for row in rows if setting_of(row) in UNITS]
    ends: list[Row] = []
    for run in grouped(rows, lambda row: (row.model, row.task, row.seed)).values():
        steps = {row.step for row in run if row.step is not None}
        ends += [row for row in run if row.step is None or row.step in (min(steps), max(steps))]
    lines = grouped(ends, lambda row: (row.model, row.task, state_unit_step(row), row.seed, row.step)).values()
    return sorted((row for line in lines if len({row.layer for row in line}) > 1 for row in line), key=lambda row: row.layer or 0)


def state_unit_step(row: Row) -> str:
    """The state of a row, what its vectors are of, and whether it is of the first training step or the last."""
    step = "" if row.step is None else "last step" if row.step else "before step 1"
    return ", ".join(filter(None, (row.state, UNITS.get(setting_of(row), ""), step)))


def spectrum_rows(result: Result) -> list[Row]:
    """The shares of the variance on every direction as rows whose label is the direction."""
    # As rows, so that the display that draws lines of rows draws these too.
    return [
        Row(
            metric=SPECTRUM,
            value=math.nan if line["value"] is None else float(line["value"]),
            reason="not known",
            model=str(line["model"] or ""),
            state=str(line["state"] or ""),
            layer=int(line["layer"] or 0),
            setting=str(line["setting"] or ""),
            label=str(int(line["k"])),
        )
        for line in records_of(result, "spectra", SPECTRUM_COLUMNS)
    ]


def last_curves(rows: Sequence[Row]) -> list[Row]:
    """The curve of the last training step and layer of each model, task, state and seed, if it has enough directions."""
    curves: list[Row] = []
    for group in grouped(rows, lambda row: (row.model, row.task, row.state, setting_of(row), row.seed)).values():
        # A row without a layer is of the model's final vectors: it comes after all layers.
        steps = grouped(group, lambda row: (row.step or 0, row.layer is None, row.layer or 0))
        whole = [step for step, members in steps.items() if len({row.metric for row in members}) >= FEWEST_DIRECTIONS]
        curves += steps[max(whole)] if whole else []
    return sorted(curves, key=direction_of)


def direction_of(row: Row) -> int:
    """k of a row of the metric `ev_k`."""
    return int(row.metric.removeprefix("ev_"))


def state_and_setting(row: Row) -> str:
    """The state of a row and its setting."""
    return ", ".join(filter(None, (row.state, setting_of(row))))


def repairs_of_last_layer(rows: Sequence[Row]) -> list[Row]:
    """Scores after each repair in the last layer, if there is more than one."""
    repaired = _repaired(rows)
    last = last_layer(repaired)
    scores = [row for row in repaired if row.layer == last]
    return scores if len({row.setting for row in scores}) > 1 else []


def repairs_by_layer(rows: Sequence[Row]) -> list[Row]:
    """Scores after each repair that was scored at two layers or more."""
    layered = [row for row in _repaired(rows) if row.layer is not None]
    lines = grouped(sorted(layered, key=lambda row: row.layer or 0), lambda row: (row.state, row.setting))
    scores = [row for line in lines.values() if len({row.layer for row in line}) > 1 for row in line]
    return sorted(scores, key=lambda row: (state_order(row.state), _repair_order(row)))


def sweep_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows of the sweep over the number of removed directions, which is their label."""
    sweep = [row for row in rows if setting_of(row) == "sweep global" and row.label.isdecimal()]
    return sorted(sweep, key=lambda row: int(row.label))


def final_scores(rows: Sequence[Row]) -> list[Row]:
    """The last score and shape of each seed, of tasks that were scored in two states or more."""
    # Scores of an epoch and shapes of a step are what led to a state; its last ones are the state's own.
    seeds = [row for row in rows if row.seed is not None and not setting_of(row) and row.state != FINE_TUNING]
    tested = [row for row in seeds if row.split not in ("train", "validation")]
    cells = grouped(tested, lambda row: (row.task, row.state, row.seed, row.metric))
    final = [max(cell, key=lambda row: (row.layer is None, row.step or 0, row.layer or 0)) for cell in cells.values()]
    scored = grouped({(row.task, row.state): row for row in final if row.metric in SCORES}, lambda key: key[0])
    compared = [row for row in final if len(scored.get(row.task, ())) > 1 and (row.task, row.state) in scored[row.task]]
    return sorted(compared, key=lambda row: (state_order(row.state), row.seed or 0))


def cluster_counts(rows: Sequence[Row]) -> list[Row]:
    """Numbers of clusters and labels, if anything was clustered."""
    # Labels alone are known of any probe, and are not a result.
    counts = _own_task(rows)
    return counts if any(row.metric == "clusters" for row in counts) else []


def probe_scores(rows: Sequence[Row]) -> list[Row]:
    """The last layer's scores; the probe's accuracy has its deviation over initialisations as bounds."""
    deviations = {
        (row.task, row.state, row.layer, row.seed): row.value
        for row in rows
        if row.metric == "probe_accuracy_sd" and not row.setting
    }
    scores = [row for row in _own_task(rows) if row.metric != "probe_accuracy_sd"]
    bounded = []
    for group in grouped(scores, lambda row: row.task).values():
        last = last_layer(group)
        for row in (row for row in group if row.layer == last):
            deviation = deviations.get((row.task, row.state, row.layer, row.seed)) if row.metric == "probe_accuracy" else None
            bounded.append(row if deviation is None else replace(row, low=row.value - deviation, high=row.value + deviation))
    return bounded


def label_pairs(rows: Sequence[Row]) -> list[Row]:
    """Distances of two labels in the last layer, one as `label` and the other as `setting`."""
    labels = {row.label for row in rows if row.label}
    distances = [row for row in rows if row.metric == "label_distance" and "|" in row.setting]
    # If no state was probed by itself, the first step of a tracked run and its last stand for before and after.
    steps = [row.step for row in distances if row.step is not None]
    ends = [row for row in distances if row.step is None] or [row for row in distances if row.step in (min(steps), max(steps))]
    last = last_layer(ends)
    pairs = [(row, *_two_labels(row.setting, labels)) for row in ends if row.layer == last]
    return [replace(row, label=first, setting=second) for row, first, second in pairs]


def distances_over_steps(rows: Sequence[Row]) -> list[Row]:
    """Distances of hulls, or of centroids if there are none, over two steps or more, in the last layer."""
    tracked = [row for row in rows if row.step is not None]
    for metric in ("minimum_distance", "label_min_distance"):
        labelled = [row for row in tracked if row.metric == metric and row.label]
        if len({row.step for row in labelled}) > 1:
            means = [row for row in tracked if row.metric == MEAN_DISTANCE and metric == "minimum_distance"]
            last = last_layer(labelled)
            # Tracked while it trained and measured again afterwards, a step has two rows: the later one counts.
            latest = {(row.metric, row.label, row.step): row for row in labelled + means if row.layer == last}
            return sorted(latest.values(), key=lambda row: row.step or 0)
    return []


def by_layer_and_step(rows: Sequence[Row]) -> list[Row]:
    """Rows of a layer and a training step, in this order."""
    tracked = [row for row in rows if row.step is not None and row.layer is not None]
    return sorted(tracked, key=lambda row: (row.layer or 0, row.step or 0))


def by_layer(rows: Sequence[Row]) -> list[Row]:
    """Rows of a layer, in order."""
    return sorted((row for row in rows if row.layer is not None), key=lambda row: row.layer or 0)


def _repaired(rows: Sequence[Row]) -> list[Row]:
    """Rows after a repair, in the order of the repairs: not those of a sweep or of a training step."""
    repaired = [row for row in rows if row.setting and row.step is None and not row.setting.startswith("sweep ")]
    return sorted(repaired, key=_repair_order)


def _repair_order(row: Row) -> int:
    return REPAIRS.index(row.setting) if row.setting in REPAIRS else len(REPAIRS)


def _own_task(rows: Sequence[Row]) -> list[Row]:
    """Rows of states, not of training steps, of models that were tuned on the task they are probed on, or not at all."""
    return [row for row in rows if row.step is None and not row.setting.startswith(TUNED_ELSEWHERE)]


def _two_labels(setting: str, labels: set[str]) -> tuple[str, str]:
    # A label may contain the sign that separates two: the right cut is the one with a known label on both sides.
    cuts = [(setting[:i], setting[i + 1 :]) for i, sign in enumerate(setting) if sign == "|"]
    return next((cut for cut in cuts if labels >= set(cut)), cuts[0])
