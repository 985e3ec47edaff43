"""A tracker in a trainer logs through it, and stops it after a collapse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from transformers import TrainerCallback  # noqa: E402

from theodolite.core.rows import Row  # noqa: E402
from theodolite.tuning import CollapseWarning, GeometryCallback, GeometryTracker  # noqa: E402
from theodolite.tuning.classifier import ClassifierJob  # noqa: E402
from theodolite.tuning.runs import load_splits  # noqa: E402
from theodolite.tuning.tracking.callback import log_values  # noqa: E402
from theodolite.tuning.tracking.label_distances import LABEL_DISTANCE, MEAN_DISTANCE  # noqa: E402

Quick = Callable[..., Any]


def collapse(module: Any) -> None:
    """Make the last layer give the same vector for everything."""
    with torch.no_grad():
        norm = module.encoder.layer[-1].output.LayerNorm
        norm.weight.mul_(1e-3)
        norm.bias.fill_(1.0)


def test_it_logs_through_the_trainer(quick: Quick, moods: Any) -> None:
    logged: list[dict[str, float]] = []

    class Dashboard(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            logged.append(dict(logs))

    settings = quick(moods, epochs=1)
    splits = load_splits(settings, None)
    job = ClassifierJob(settings, splits, Path(settings.output))
    job.trainer.add_callback(Dashboard())
    GeometryCallback(GeometryTracker(splits.dev, job.encoder.tokenizer)).attach(job.trainer)
    job.trainer.train()
    geometry = [logs for logs in logged if "geometry/layer_02/mean_cosine" in logs]
    assert len(geometry) == 2
    assert {"geometry/layer_00/iso_score", "geometry/layer_02/label_min_distance"} <= set(geometry[0])


def test_a_collapse_stops_the_trainer_cleanly(quick: Quick, moods: Any) -> None:
    settings = quick(moods, epochs=3)
    splits = load_splits(settings, None)
    job = ClassifierJob(settings, splits, Path(settings.output))
    tracker = GeometryTracker(splits.dev, job.encoder.tokenizer, every=2, stop=True)
    callback = GeometryCallback(tracker).attach(job.trainer)

    class Collapse(type(callback).__base__):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 3:
                collapse(job.encoder.module)

    job.trainer.add_callback(Collapse())
    with pytest.warns(CollapseWarning, match="at step 4"):
        job.trainer.train()
    assert job.trainer.state.global_step == 4


def test_a_dashboard_gets_the_mean_and_the_smallest() -> None:
    fields = {"layer": 3, "metric": LABEL_DISTANCE}
    rows = [
        Row(**fields, label="a", value=2.0),
        Row(**fields, label="b", value=0.5),
        Row(layer=3, metric=MEAN_DISTANCE, value=1.25),
    ]
    assert log_values(rows) == {"geometry/layer_03/minimum_distance": 0.5, "geometry/layer_03/mean_minimum_distance": 1.25}
