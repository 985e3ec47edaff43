"""The geometry of a model while it trains: measured on a fixed sample, logged, written, and never a cause of anything."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from transformers import TrainerCallback

from theodolite.core.rows import Row, write_rows
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.survey import survey
from theodolite.models.encoder import Encoder
from theodolite.tasks.examples import Examples
from theodolite.tuning.alarm import Alarm, CollapseWarning
from theodolite.tuning.batches import Unit
from theodolite.tuning.centroids import centroid_rows
from theodolite.tuning.kept_vectors import keep_vectors
from theodolite.tuning.label_hulls import OF_LABEL, hull_rows, no_hulls
from theodolite.tuning.sample import Floats, Sample, encoder_of
from theodolite.tuning.settings import When
from theodolite.tuning.undisturbed import undisturbed

METRICS = ("iso_score", "mean_cosine", "effective_rank", "ev_1", "log_partition_isotropy")
"""What is measured by default: cheap on a few hundred vectors."""
TEXTS = 256
"""Texts in the sample by default."""


class GeometryTracker:
    """Measures every layer of an encoder on a fixed, seeded sample of texts or examples, at whatever step it is called.

    In any training loop: `tracker.measure(model, step)`, which returns the rows, and leaves weights, gradients, modes and random
    states as they were. Labelled examples give the distances of the labels' centroids too, and with `hulls` those of their
    convex hulls. `path` is a `.jsonl` that gets the rows as they come, `vectors` a folder that gets the measured vectors of
    every step (`kept_vectors`). A collapse is a `CollapseWarning`; with `stop`,
    `collapsed` then tells the loop to end.
    """

    def __init__(
        self,
        sample: Examples | Sequence[str],
        tokenizer: Any,
        *,
        every: When = "epoch",
        unit: Unit = "mean",
        layers: Sequence[int] | None = None,
        metrics: Sequence[str] = METRICS,
        hulls: bool = False,
        texts: int = TEXTS,
        seed: int = 0,
        max_length: int | None = None,
        alarm: Alarm | None = None,
        stop: bool = False,
        path: str | os.PathLike[str] | None = None,
        vectors: str | os.PathLike[str] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.every = every
        self.layers, self.metrics, self.seed = layers, tuple(metrics), seed
        self.hulls = hulls
        self.alarm, self.stop = alarm or Alarm(), stop
        self.path = None if path is None else Path(path)
        self.vectors = None if vectors is None else Path(vectors)
        self.about = dict(about or {})
        self.collapsed = False
        self.rows: list[Row] = []
        self._given, self._tokenizer = sample, tokenizer
        self._cut: dict[str, Any] = {"unit": unit, "size": texts, "seed": seed}
        self._max_length = max_length
        self._sample: Sample | None = None

    def due(self, step: int) -> bool:
        """Whether a step is one to measure at; the ends of epochs are known to the trainer alone."""
        if step == 0:
            return True
        if isinstance(self.every, int):
            return step % self.every == 0
        return self.every != "epoch" and step in self.every

    def measure(self, model: nn.Module, step: int) -> list[Row]:
        """Survey every layer now: rows, kept, written, and judged by the alarm."""
        encoder = encoder_of(model)
        if self._sample is None:  # how long a text may be is the encoder's to say
            read = Encoder(encoder, self._tokenizer, max_length=self._max_length)
            self._sample = Sample.of(self._given, read, **self._cut)
        with undisturbed(encoder):
            vectors = self._sample.vectors(encoder, self.layers)
            rows = [row for layer, X in vectors.items() for row in self._survey(X, self._sample.labels, layer, step)]
        if self.vectors is not None:
            keep_vectors(self.vectors, step, vectors, self._sample.labels, seed=self.seed)
        faults = self.alarm.crossed(self.rows, rows)
        self.rows += rows
        self._append(rows)
        for fault in faults:
            warnings.warn(fault, CollapseWarning, stacklevel=2)
        self.collapsed = self.collapsed or bool(faults)
        return rows

    def resume(self, step: int) -> None:
        """Go back to what was known at a step: rows of a run that was cut off later are dropped, and measured again."""
        if self.path is None:
            return
        self.rows = [row for row in read_whole_lines(self.path) if (row.step or 0) <= step] if step else []
        write_rows(self.rows, self.path)

    def _survey(self, X: Floats, labels: Sequence[str], layer: int, step: int) -> list[Row]:
        about = {"state": "fine-tuning" if step else "pre-trained", **self.about, "layer": layer, "step": step}
        if not np.isfinite(X).all():
            reason = "the vectors are not finite: the training has diverged"
            undefined = [Row(metric=name, value=float("nan"), reason=reason, **about) for name in self.metrics]
            return [*undefined, no_hulls(reason, about)] if self.hulls else undefined
        rows = survey(Cloud(X, seed=self.seed), self.metrics, about=about)
        if labels:
            shape = {"n": X.shape[0], "d": X.shape[1], "seed": self.seed, "versions": rows[0].versions if rows else ""}
            rows += [replace(row, **about, **shape) for row in centroid_rows(X, labels)]
        if self.hulls:
            rows += hull_rows(X, labels, seed=self.seed, about=about)
        return rows

    def _append(self, rows: Sequence[Row]) -> None:
        if self.path is None:
            return
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())


class GeometryCallback(TrainerCallback):
    """A tracker in transformers' or sentence-transformers' trainer.

    `GeometryCallback(tracker).attach(trainer)` logs through the trainer, so TensorBoard and W&B show each layer's metrics.
    Given as `callbacks=[...]` instead it measures and writes the same, and logs to the trainer's own history only.
    """

    def __init__(self, tracker: GeometryTracker) -> None:
        self.tracker = tracker
        self._trainer: Any = None

    def attach(self, trainer: Any) -> GeometryCallback:
        """Add this callback to a trainer, and log through it."""
        self._trainer = trainer
        trainer.add_callback(self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        if state.is_world_process_zero:
            self.tracker.resume(state.global_step)
        if state.global_step == 0:
            self._measure(state, control, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        if self.tracker.due(state.global_step):
            self._measure(state, control, model)

    def on_epoch_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        if self.tracker.every == "epoch":
            self._measure(state, control, model)

    def _measure(self, state: Any, control: Any, model: Any) -> None:
        # Every process measures (the same weights give the same decision to stop); one writes.
        places = self.tracker.path, self.tracker.vectors
        if not state.is_world_process_zero:
            self.tracker.path = self.tracker.vectors = None
        rows = self.tracker.measure(model, state.global_step)
        self.tracker.path, self.tracker.vectors = places
        logs = to_log(rows)
        if self._trainer is not None:
            self._trainer.log(logs)
        else:
            state.log_history.append({**logs, "step": state.global_step})
        if self.tracker.stop and self.tracker.collapsed:
            control.should_training_stop = True


def to_log(rows: Sequence[Row]) -> dict[str, float]:
    """What a dashboard shows: each layer's metrics, and the smallest distances between two of its labels."""
    logs: dict[str, float] = {}
    for row in rows:
        name = f"geometry/layer_{row.layer:02d}/{row.metric}"
        if not row.label and np.isfinite(row.value):
            logs[name] = row.value
        elif row.metric in ("label_min_distance", OF_LABEL):
            logs[name] = min(row.value, logs.get(name, row.value))
    return logs


def read_whole_lines(path: Path) -> list[Row]:
    """The rows of a file that is appended to; a last line that a kill cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [Row.from_dict(json.loads(line)) for line in lines if line]
