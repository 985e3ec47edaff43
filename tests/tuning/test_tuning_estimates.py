"""The dry run of a fine-tuning: steps of all epochs and seeds, nothing written, and the random state left as it was."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

import theodolite as th  # noqa: E402
from theodolite.tuning import estimating  # noqa: E402
from theodolite.tuning.estimating import training_cost  # noqa: E402


@pytest.mark.parametrize("kind", ["moods", "alike", "tags"])
def test_time_grows_with_epochs_and_nothing_is_written(
    kind: str, quick: Any, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = quick(request.getfixturevalue(kind))
    ticks = iter(range(10**6))
    monkeypatch.setattr(estimating.time, "perf_counter", lambda: float(next(ticks)))  # each look at the clock takes a second
    before = torch.get_rng_state()
    cost, longer = training_cost(settings, None), training_cost(replace(settings, epochs=5), None)
    assert torch.equal(torch.get_rng_state(), before)
    assert not (tmp_path / "run").exists()
    texts = {"moods": 96, "alike": 96, "tags": 40}[kind]
    steps = math.ceil(texts / 16)
    assert longer.seconds - cost.seconds == pytest.approx(3 * steps)
    assert cost.memory > 10**7
    assert cost.disk > 7 * 4 * 32 * 32


def test_tune_with_dry_run(quick: Any, moods: Any, tiny_bert: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"task": moods, "epochs": 1, "validation": 0, "device": "cpu", "seeds": [0, 1], "track": "never"}
    result = th.tune(tiny_bert, to=tmp_path / "runs", dry_run=True, **options)
    text = " ".join(repr(result).split())
    assert "Dry run: fine-tuning bert on moods" in text and "2 of 2 runs are still to do" in text
    assert "nothing would be downloaded" in text
    assert not (tmp_path / "runs").exists()
    th.tune(tiny_bert, to=tmp_path / "runs", **options)
    done = th.tune(tiny_bert, to=tmp_path / "runs", dry_run=True, **options)
    assert done.value("estimated_seconds") == 0
    assert "0 of 2 runs are still to do" in " ".join(repr(done).split())


def test_a_layer_for_a_finished_run_only_encodes(plain_run: Path, moods: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"task": moods, "method": "isolayer", "from_run": plain_run, "to": tmp_path / "layer"}
    result = th.tune(dry_run=True, **options)
    assert "the Isotropy Layer itself" in " ".join(repr(result).split())
    assert not list(tmp_path.iterdir())
