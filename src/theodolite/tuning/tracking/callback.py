"""A tracker as a callback of transformers' or sentence-transformers' trainer, with its numbers in the trainer's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import TrainerCallback

from theodolite.core.rows import Row
from theodolite.tuning.tracking.label_distances import LABEL_DISTANCE
from theodolite.tuning.tracking.tracker import GeometryTracker


class GeometryCallback(TrainerCallback):
    """A tracker in a trainer.

    `GeometryCallback(tracker).attach(trainer)` logs through the trainer, so that TensorBoard and W&B show each layer's metrics.
    Passed as `callbacks=[...]` instead, it measures and writes the same, but logs to the trainer's own history only.

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

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        """Measure before the first step, or drop what an interrupted run measured later than where it continues."""
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
        places = self.tracker.path, self.tracker.vectors
        if not state.is_world_process_zero:
            self.tracker.path = self.tracker.vectors = None
        rows = self.tracker.measure(model, state.global_step)
        self.tracker.path, self.tracker.vectors = places
        logs = log_values(rows)
        if self._trainer is not None:
            self._trainer.log(logs)
        else:
            state.log_history.append({**logs, "step": state.global_step})
        if self.tracker.stop and self.tracker.collapsed:
            control.should_training_stop = True


def log_values(rows: Sequence[Row]) -> dict[str, float]:
    """What a dashboard shows: each layer's metrics, and the smallest distances between two of its labels.

    Parameters
    ----------
    rows
        What a tracker measured at one step.
    """
    logs: dict[str, float] = {}
    for row in rows:
        name = f"geometry/layer_{row.layer:02d}/{row.metric}"
        if not row.label and np.isfinite(row.value):
            logs[name] = row.value
        elif row.metric in ("label_min_distance", LABEL_DISTANCE):
            logs[name] = min(row.value, logs.get(name, row.value))
    return logs
