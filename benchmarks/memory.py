"""Memory that a survey needs beyond its input, watched in a child process while it runs.

As a script, `memory.py array|map four|all FILE` prints what one survey took. Counted is anonymous memory (RssAnon) above what
the process had with its input in place and all modules loaded. Pages of a memory-mapped input that stay resident are the
system's cache, which it takes back when it needs to; they are reported apart, never hidden in the first number.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data import cloud_file
from scale import Scale
from table import Result
from timing import run

STATUS = Path("/proc/self/status")
MEGABYTE = 1e6


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    for n in scale.memory:
        path = cloud_file(folder, n, scale.d)
        for held, where in (("array", "in memory"), ("map", "memory-mapped")):
            for asked, what in (("four", "four measures"), ("all", "whole survey")):
                yield extra(path, held, asked, f"{what} of {n:,} × {scale.d} {where}")


def extra(path: Path, held: str, asked: str, case: str) -> Result:
    if not STATUS.exists():
        return Result(table="memory", case=case, value=math.nan, sense="at most", goal=100, unit="MB", note="needs /proc")
    seen = json.loads(run([sys.executable, __file__, held, asked, path]).splitlines()[-1])
    mapped = f"and {seen['file']:.0f} MB of the file's own pages, which the system can drop" if held == "map" else ""
    return Result(
        table="memory",
        case=case,
        value=seen["anonymous"],
        sense="at most",
        goal=100 if asked == "four" else math.nan,
        unit="MB",
        ours=f"{seen['anonymous']:.0f} MB",
        theirs=f"input of {path.stat().st_size / MEGABYTE:,.0f} MB",
        note=mapped,
    )


class Watch(threading.Thread):
    """Reads the process's resident memory every few milliseconds and keeps the peaks."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = self.peak = resident()
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            anonymous, file = resident()
            self.peak = max(self.peak[0], anonymous), max(self.peak[1], file)
            time.sleep(0.002)

    def end(self) -> tuple[float, float]:
        """Peak (anonymous, file-backed) megabytes above the start."""
        self._ended.set()
        self.join()
        return self.peak[0] - self.before[0], self.peak[1] - self.before[1]


def resident() -> tuple[float, float]:
    """(anonymous, file-backed) resident megabytes of this process."""
    fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    anonymous, file = (int(fields[name].split()[0]) * 1024 / MEGABYTE for name in ("RssAnon", "RssFile"))
    return anonymous, file


def child(held: str, asked: str, path: Path) -> dict[str, float]:
    """What one survey of the file took above its input."""
    from survey_speed import FOUR
    from theodolite.metrics.cloud import Cloud
    from theodolite.metrics.evaluation import metric_rows

    metrics = FOUR if asked == "four" else None
    X: NDArray[Any] = np.load(path, mmap_mode=None if held == "array" else "r")
    metric_rows(Cloud(np.random.default_rng(0).standard_normal((64, 8), dtype=np.float32)), metrics)  # loads every module
    watch = Watch()
    watch.start()
    metric_rows(Cloud(X), metrics)
    anonymous, file = watch.end()
    return {"anonymous": anonymous, "file": file}


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
