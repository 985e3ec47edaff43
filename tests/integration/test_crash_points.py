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
# Each mode takes every fourth point, but starts one further than the mode before; a study and a fine-tuning have hundreds.
STRIDE = {"study": 11, "tune": 47}
# Points of the shortest writers: fewer would mean that the harness does not see what it is there for.
FEWEST = {"rows": 7, "jsonl": 7, "report": 7, "cache": 7, "study": 60}


@pytest.fixture
def place() -> Iterator[str]:
    # In memory if possible: thousands of syncs take minutes on a disk, and prove no more there.
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield folder


def drive(writer: str, mode: str, place: str, *numbers: int) -> dict[str, Any]:
    command = [sys.executable, str(DRIVER), writer, mode, f"{place}/cases", *map(str, numbers)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    answer: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return answer


@pytest.mark.slow
def test_a_repair_outlives_a_kill_at_any_point(place: str) -> None:
    answer = drive("repair", "kill", place, 1, 1)
    assert answer["faults"] == [] and answer["cases"]["kill"] >= 13


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_the_old_or_the_new_content_is_there_whole(writer: str, place: str) -> None:
    stride = STRIDE.get(writer, 4)
    answer = drive(writer, ",".join(MODES), place, stride, 1)
    assert answer["faults"] == [] and set(answer["cases"]) == set(MODES)
    assert all(cases >= FEWEST.get(writer, 13) // stride for cases in answer["cases"].values())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "power"])
def test_a_tuning_run_ends_with_the_same_weights_wherever_it_was_ended(mode: str, place: str) -> None:
    pytest.importorskip("accelerate", reason="the extra models is not installed")
    answer = drive("tune", mode, place, STRIDE["tune"], 1 + 23 * MODES.index(mode))
    assert answer["faults"] == [] and answer["cases"][mode] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("writer", [*WRITERS, "tune"])
def test_two_processes_at_once_end_with_one_whole_result_or_a_clear_sentence(writer: str, place: str) -> None:
    if writer == "tune":
        pytest.importorskip("accelerate", reason="the extra models is not installed")
    answer = drive(writer, "both", place, 1 if writer == "tune" else 4)
    assert answer["faults"] == []
    assert all(" is writing to " in sentence and "wait until it ends" in sentence for sentence in answer["said"])
