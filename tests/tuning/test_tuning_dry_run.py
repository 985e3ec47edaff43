"""The dry run of a fine-tuning: which runs are to do, with how many steps, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

import theodolite as th


@pytest.mark.slow
def test_the_runs_that_are_left_are_listed(moods: Any, tiny_bert: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"task": moods, "epochs": 1, "validation": 0, "device": "cpu", "seeds": [0, 1], "track": "never"}
    options["batch_size"] = 16
    planned = th.tune(tiny_bert, to=tmp_path / "runs", dry_run=True, **options)
    assert not (tmp_path / "runs").exists()
    assert "Dry run: fine-tuning bert on moods" in repr(planned) and planned.notes[-1].startswith("nothing would be downloaded")
    assert [note.partition(";")[0] for note in planned.notes[:2]] == [
        f"seed {seed}: trains for at most 6 steps on 96 examples" for seed in (0, 1)
    ]
    th.tune(tiny_bert, to=tmp_path / "runs", **options)
    done = th.tune(tiny_bert, to=tmp_path / "runs", dry_run=True, **options)
    assert [note.partition(";")[0] for note in done.notes[:2]] == [f"seed {seed}: is done already" for seed in (0, 1)]


def test_a_layer_goes_into_a_finished_run(plain_run: Path, moods: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"task": moods, "method": "isolayer", "from_run": plain_run, "to": tmp_path / "layer"}
    assert "puts an Isotropy Layer into a finished run" in " ".join(th.tune(dry_run=True, **options).notes)
    assert not list(tmp_path.iterdir())
