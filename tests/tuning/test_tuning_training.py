"""Runs one after the other; a training ends at the first loss that is not a number and leaves the caller's random state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from theodolite.core.result import Result  # noqa: E402
from theodolite.tuning import TuneSettings, fine_tune, plan_runs, tune_runs  # noqa: E402
from theodolite.tuning.runs import Run  # noqa: E402
from theodolite.tuning.trainers import Diverged  # noqa: E402

Quick = Callable[..., Any]


def test_a_loss_that_is_not_a_number_ends_the_run(quick: Quick, moods: Any) -> None:
    with pytest.raises(Diverged, match=r"the loss is (nan|inf) at step \d+ with learning rate .*lower learning rate"):
        fine_tune(quick(moods, learning_rate=1e30, warmup=0.0, epochs=3))


def test_a_siamese_loss_that_is_not_a_number_ends_the_run(quick: Quick, alike: Any) -> None:
    with pytest.raises(Diverged, match="the training has diverged"):
        fine_tune(quick(alike, learning_rate=1e30, warmup=0.0, epochs=3))


def test_the_callers_random_state_is_its_own(quick: Quick, moods: Any) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fine_tune(quick(moods, epochs=1))
    assert torch.equal(torch.rand(3), expected)


def test_a_diverged_training_is_an_error_of_use() -> None:
    assert issubclass(Diverged, ValueError)


def options_of(settings: TuneSettings) -> dict[str, Any]:
    """The settings that make a quick run, as a request names them."""
    names = ("epochs", "batch_size", "learning_rate", "device", "track")
    return {name: getattr(settings, name) for name in names}


@pytest.mark.slow
def test_several_seeds_are_one_result_with_median_and_spread(quick: Quick, moods: Any, tiny_bert: str, tmp_path: Path) -> None:
    folder = tmp_path / "seeds"
    planned = plan_runs(tiny_bert, task=moods, to=folder, seeds=[0, 1], **options_of(quick(moods, epochs=1)))
    result = tune_runs(planned, to=folder)
    finished = [Run(folder / name).tuned() for name in ("seed-0", "seed-1")]
    score = [row for row in result if row.metric == "accuracy" and row.state == "fine-tuned" and row.split == "dev"]
    assert [row.seed for row in score] == [None, None, 0, 1]
    assert [row.setting for row in score[:2]] == ["median of 2 seeds", "standard deviation of 2 seeds"]
    assert score[0].value == sum(tuned.after for tuned in finished) / 2
    assert Result.load(folder).rows == result.rows
    assert result.title == "Fine-tuning bert on moods, 2 seeds"
    assert result.provenance["settings"]["seed"] == [0, 1]
    assert tune_runs(planned, to=folder).rows == result.rows  # finished runs are only read


def test_a_single_run_is_its_own_result(quick: Quick, moods: Any, tiny_bert: str, tmp_path: Path) -> None:
    planned = plan_runs(tiny_bert, task=moods, to=tmp_path / "one", **options_of(quick(moods, epochs=1)))
    result = tune_runs(planned, to=tmp_path / "one")
    assert result.rows == Result.load(tmp_path / "one").rows and result.title == "Fine-tuning bert on moods"
