"""Measure every layer of a model in training on a fixed sample, in any loop or in a trainer, without effect on the training."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from transformers import TrainerCallback

from theodolite.core.rows import Row, hashed_record, row_of_record, write_rows
from theodolite.core.states import FINE_TUNING, PRE_TRAINED
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from theodolite.models.encoder import Encoder
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import TEXT_UNIT, Unit
from theodolite.tuning.heads import encoder_of
from theodolite.tuning.results import DIVERGED
from theodolite.tuning.settings import When, steps_to_track
from theodolite.tuning.tracked_sample import (
    LABEL_DISTANCE,
    MOST_ROWS,
    Floats,
    Sample,
    centroid_rows,
    hull_rows,
    save_step,
    undisturbed,
)

# What is measured by default: cheap on a few hundred vectors.
METRICS = ("iso_score", "iso_score_corrected", "mean_cosine", "effective_rank", "ev_1", "log_partition_isotropy")
# Texts in the sample by default.
TEXTS = 256
# A layer that was beyond a bound before training has collapsed if less than this share of what it had then is left.
REMAINDER = 0.1
# A mean cosine this close to 1 has nothing to lose: [CLS] in the embeddings is the same vector in every text.
NEGLIGIBLE = 1e-4


class CollapseWarning(UserWarning):
    """A layer's vectors all point one way, or vary along few directions only."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """The bounds beyond which a layer has collapsed.

    A layer that was beyond a bound before training, as [CLS] in low layers and many encoders' pooled texts are, is judged by a
    tenth of its own distance from 1, or of its own share, instead.

    Parameters
    ----------
    mean_cosine
        The largest mean cosine; None to judge none.
    rank_share
        The smallest effective rank, as a share of the largest possible one (the dimension d, or n - 1 for fewer vectors); None
        to judge none.
    """

    mean_cosine: float | None = 0.95
    rank_share: float | None = 0.01

    def crossings(self, before: Sequence[Row], now: Sequence[Row]) -> list[str]:
        """One sentence for every bound that a layer is beyond now and was not when it was last measured.

        Parameters
        ----------
        before
            All earlier rows, in the order they were measured.
        now
            The rows measured now; at step 0 nothing is judged.
        """
        first = {(row.layer, row.metric): row for row in reversed(before)}
        last = {(row.layer, row.metric): row for row in before}
        sentences = []
        for row in now:
            start, previous = (rows.get((row.layer, row.metric)) for rows in (first, last))
            breach = self._breach(row, start)
            if breach and row.step and not (previous and self._breach(previous, start)):
                sentences.append(f"layer {row.layer} has collapsed at step {row.step}: {breach}")
        return sentences

    def _breach(self, row: Row, start: Row | None) -> str:
        """What is wrong with a value, given the layer's first one; nothing if it is within the bound."""
        first = math.nan if start is None else start.value  # no comparison with nan holds
        if row.metric == "mean_cosine" and self.mean_cosine is not None:
            bound = 1 - REMAINDER * (1 - first) if first > self.mean_cosine else self.mean_cosine
            if row.value > bound and not 1 - first < NEGLIGIBLE:
                return f"its mean cosine is {row.value:.4f}, above the bound {bound:.4g}; its vectors point one way"
        elif row.metric == "effective_rank" and self.rank_share is not None and row.n is not None and row.d is not None:
            possible = min(row.d, row.n - 1)
            bound = REMAINDER * first / possible if first / possible < self.rank_share else self.rank_share
            if row.value / possible < bound:
                return (
                    f"its effective rank is {row.value:.1f} of {possible} possible, a share of {row.value / possible:.4f}, below "
                    f"the bound {bound:.4g}; its vectors vary along few directions"
                )
        return ""


@dataclass(eq=False)
class GeometryTracker:
    """Measures every layer of an encoder on a fixed, seeded sample of texts or examples.

    In any training loop: `tracker.measure(model, step)`, which returns the rows and leaves weights, gradients, modes and random
    states as they were. A collapse is a `CollapseWarning`.

    Parameters
    ----------
    texts
        The texts, or examples of a task, to draw the sample from. Labels give the distances of their centroids too.
    tokenizer
        The encoder's tokenizer.
    every
        When `due` says yes: "epoch", every N steps, or at these steps; step 0 always.
    unit
        What gets a vector; words for tasks on words.
    layers
        "all", "last", a number or several.
    metrics
        Names of metrics.
    hulls
        Whether to measure the distances of the labels' convex hulls too.
    size
        Number of texts in the sample.
    seed
        Seed of the sample.
    max_length
        Texts are cut to this number of tokens; by default as many as the encoder takes.
    alarm
        The bounds of a collapse.
    stop
        Whether a collapse should end the training: `collapsed` is then True.
    path
        A `.jsonl` file that gets the rows as they are measured.
    vectors
        A folder that gets the measured vectors of every step, to be read with `read_steps`.
    most_rows
        Of more labelled vectors than this, hulls are measured and vectors kept of a stratified sample.
    about
        Further fields of every row.
    """

    texts: Examples | Sequence[str]
    tokenizer: Any
    _: KW_ONLY
    every: When | str | None = "epoch"
    unit: Unit = TEXT_UNIT
    layers: str | int | Sequence[int] = "all"
    metrics: Sequence[str] = METRICS
    hulls: bool = False
    size: int = TEXTS
    seed: int = 0
    max_length: int | None = None
    alarm: Alarm = field(default_factory=Alarm)
    stop: bool = False
    path: str | os.PathLike[str] | None = None
    vectors: str | os.PathLike[str] | None = None
    most_rows: int = MOST_ROWS
    about: Mapping[str, Any] = field(default_factory=dict)
    collapsed: bool = field(default=False, init=False)
    rows: list[Row] = field(default_factory=list, init=False)
    _sample: Sample | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.every = steps_to_track(self.every)

    def due(self, step: int) -> bool:
        """Whether to measure at a step; only a trainer knows where its epochs end.

        Parameters
        ----------
        step
            Steps of training so far.
        """
        if step == 0:
            return True
        if isinstance(self.every, int):
            return step % self.every == 0
        return isinstance(self.every, tuple) and step in self.every

    def measure(self, model: nn.Module, step: int, *, write: bool = True) -> list[Row]:
        """Measure every layer now; the rows are returned, added to `rows`, written and judged by the alarm.

        Parameters
        ----------
        model
            The model that trains: an encoder, alone or with a head, or a SentenceTransformer.
        step
            Steps of training so far.
        write
            Whether `path` and `vectors`, if there are any, are written: by one of several processes that train together.
        """
        encoder = encoder_of(model)
        if self._sample is None:  # only the encoder knows how long a text may be
            reader = Encoder(encoder, self.tokenizer, max_length=self.max_length)
            self._sample = Sample.of(self.texts, reader, unit=self.unit, size=self.size, seed=self.seed)
        with undisturbed(encoder):
            vectors = self._sample.vectors(encoder, self.layers)
            rows = [row for layer, X in vectors.items() for row in self._layer_rows(X, self._sample.labels, layer, step)]
        if self.vectors is not None and write:
            save_step(Path(self.vectors), step, vectors, self._sample.labels, seed=self.seed, most=self.most_rows)
        crossings = self.alarm.crossings(self.rows, rows)
        self.rows += rows
        if self.path is not None and write:
            # Line by line, so that a kill costs at most the last one.
            with open(self.path, "a", encoding="utf-8") as file:
                file.write("".join(json.dumps(hashed_record(row), ensure_ascii=False) + "\n" for row in rows))
                file.flush()
                os.fsync(file.fileno())
        for sentence in crossings:
            warnings.warn(sentence, CollapseWarning, stacklevel=2)
        self.collapsed = self.collapsed or bool(crossings)
        return rows

    def resume(self, step: int) -> None:
        """Go back to what was known at a step: later rows, of a run that was interrupted, are dropped and measured again.

        Parameters
        ----------
        step
            The step that the training continues from.
        """
        if self.path is None:
            return
        self.rows = [row for row in read_complete_lines(Path(self.path)) if (row.step or 0) <= step] if step else []
        write_rows(self.rows, self.path)

    def _layer_rows(self, X: Floats, labels: Sequence[str], layer: int, step: int) -> list[Row]:
        fields = {"state": FINE_TUNING if step else PRE_TRAINED, **self.about, "layer": layer, "step": step}
        if np.isfinite(X).all():
            rows = metric_rows(Cloud(X, seed=self.seed), self.metrics, about=fields)
            if labels:
                shape = {"n": X.shape[0], "d": X.shape[1], "seed": self.seed, "versions": rows[0].versions if rows else ""}
                rows += centroid_rows(X, labels, about={**fields, **shape})
        else:
            rows = [Row(metric=name, value=math.nan, reason=DIVERGED, **fields) for name in self.metrics]
        return [*rows, *hull_rows(X, labels, seed=self.seed, about=fields, most=self.most_rows)] if self.hulls else rows


def read_complete_lines(path: Path) -> list[Row]:
    """The rows of a file that is appended to; a last line that a kill cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [row_of_record(json.loads(line)) for line in lines if line]


class GeometryCallback(TrainerCallback):
    """A tracker in a trainer.

    `GeometryCallback(tracker).attach(trainer)` logs through the trainer, so that all of its `report_to`, such as TensorBoard and
    W&B, show each layer's metrics. Passed as `callbacks=[...]` instead, it measures and writes the same, but reaches the
    trainer's own history only, and warns if there is a `report_to`: a callback does not know its trainer.

    Parameters
    ----------
    tracker
        The tracker.
    """

    def __init__(self, tracker: GeometryTracker) -> None:
        self.tracker = tracker
        self._trainer: Any = None

    def attach(self, trainer: Any) -> GeometryCallback:
        """Add this callback to a trainer, and log through it.

        Parameters
        ----------
        trainer
            A trainer of either library.
        """
        self._trainer = trainer
        trainer.add_callback(self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure before the first step, or drop what an interrupted run measured later than where it continues."""
        if self._trainer is None and args.report_to not in ([], "none", ["none"]):
            where = args.report_to if isinstance(args.report_to, str) else ", ".join(args.report_to)
            warnings.warn(
                f"GeometryCallback cannot log to {where} from callbacks=[...]; use GeometryCallback(tracker).attach(trainer)",
                stacklevel=2,
            )
        if state.is_world_process_zero:
            self.tracker.resume(state.global_step)
        if state.global_step == 0:
            self._measure(state, control, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        """Measure if the step is due."""
        if self.tracker.due(state.global_step):
            self._measure(state, control, model)

    def on_epoch_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        """Measure if every epoch is."""
        if self.tracker.every == "epoch":
            self._measure(state, control, model)

    def _measure(self, state: Any, control: Any, model: Any) -> None:
        # Every process measures (the same weights lead to the same decision to stop); one writes.
        logs = log_values(self.tracker.measure(model, state.global_step, write=state.is_world_process_zero))
        if self._trainer is not None:
            self._trainer.log(logs)
        else:
            state.log_history.append({**logs, "step": state.global_step})
        if self.tracker.stop and self.tracker.collapsed:
            control.should_training_stop = True


def log_values(rows: Sequence[Row]) -> dict[str, float]:
    """What a dashboard shows: each layer's metrics, and the smallest distances between two of its labels."""
    logs: dict[str, float] = {}
    for row in rows:
        name = f"geometry/layer_{row.layer:02d}/{row.metric}"
        if not row.label and np.isfinite(row.value):
            logs[name] = row.value
        elif row.metric in ("label_min_distance", LABEL_DISTANCE):
            logs[name] = min(row.value, logs.get(name, row.value))
    return logs
