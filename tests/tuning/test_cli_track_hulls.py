"""`theodolite tune --track-hulls` measures hull distances, and is refused for a task with scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")


def test_the_command_line_passes_it_on(tiny_bert: str, moods: Any, alike: Any, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from theodolite.cli.app import app
    from theodolite.core.rows import read_rows

    def run(task: Any, kind: str, *more: str) -> Any:
        own = [part for split, (file,) in task.splits.items() for part in ("--own", f"{split}={file}")]
        told = ["--kind", kind, "--epochs", "1", "--device", "cpu", "--to", str(tmp_path / kind), "--track-hulls", *more]
        return CliRunner().invoke(app, ["tune", tiny_bert, *own, *told])

    done = run(moods, "classification", "--validation", "0.2")
    assert done.exit_code == 0, done.output
    assert "hulls apart" in done.stdout
    assert {row.step for row in read_rows(tmp_path / "classification" / "rows.parquet") if row.metric == "minimum_distance"} > {0}
    refused = run(alike, "similarity", "--score-range", "0,5")
    assert refused.exit_code == 2 and "track_hulls needs labels" in refused.stderr
