"""Every writer, ended wherever it touches the disk, leaves the old content or the new; two at once leave one of them whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("crash_driver.py")
WRITERS = ["rows", "jsonl", "result", "report", "repair", "space", "whole-space", "cache", "study"]
MODES = ["kill", "power", "full", "interrupt"]
# Each mode takes every fourth point, from one further than the mode before; a study and a fine-tuning have hundreds.
STRIDE = {"study": 11, "tune": 47}
# Points of the shortest writers: fewer would mean that the harness does not see what it is there for.
FEWEST = {"rows": 7, "jsonl": 7, "report": 7, "cache": 7, "study": 60, "tune": 60}


@pytest.fixture
def place() -> Iterator[str]:
    # In memory if possible: thousands of syncs take minutes on a disk, and prove no more there.
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield folder


def drive(writer: str, modes: list[str], place: str, *numbers: int) -> dict[str, Any]:
    command = [sys.executable, str(DRIVER), writer, ",".join(modes), f"{place}/cases", *map(str, numbers)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    answer: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return answer


@pytest.mark.slow
def test_a_repair_outlives_a_kill_at_any_point(place: str) -> None:
    answer = drive("repair", ["kill"], place, 1)
    assert answer["faults"] == [] and answer["cases"]["kill"] == answer["points"] >= 13


@pytest.mark.slow
@pytest.mark.parametrize("writer", [*WRITERS, "tune"])
def test_the_old_or_the_new_content_is_there_whole(writer: str, place: str) -> None:
    """Ended anywhere, a writer leaves the old or the new content; of two at once, one does, or says why not."""
    if writer == "tune":
        pytest.importorskip("accelerate", reason="the extra models is not installed")
    modes = ["kill", "power"] if writer == "tune" else MODES
    answer = drive(writer, [*modes, "both"], place, STRIDE.get(writer, 4), 1 if writer == "tune" else 4)
    assert answer["faults"] == [] and answer["points"] >= FEWEST.get(writer, 13)
    assert set(answer["cases"]) == {*modes, "both"} and all(answer["cases"].values())
    assert all(" is writing to " in sentence and "wait until it ends" in sentence for sentence in answer["said"])
