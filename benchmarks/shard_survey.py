"""A survey of shards on disk against their number: time should grow with the rows, memory should not.

As a script, `shard_survey.py FOLDER` prints what a survey of the folder's shards with all metrics took.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from data import cloud_file
from memory import STATUS, Watch, resident
from scale import Scale
from table import Result
from timing import run, shown

SHARD = 500_000


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    for n in scale.shards:
        cost = surveyed(folder, n, scale.d)
        case = f"survey of {n:,} × {scale.d} in shards, all metrics"
        yield Result(
            table="shards",
            case=case,
            value=cost["cpu"] / n * 1e6,
            sense="at most",
            unit="CPU s per million rows",
            ours=f"{shown(cost['seconds'])}, {shown(cost['cpu'])} of processor time",
            measures={**cost, "n": n, "d": scale.d},
        )
        yield Result(
            table="shards",
            case=f"{case}: memory",
            value=cost["anonymous"],
            sense="at most",
            goal=500,
            unit="MB",
            ours=f"{cost['anonymous']:.0f} MB",
            theirs=f"input of {n * scale.d * 4 / 1e9:,.1f} GB",
            note=f"whole process; and {cost['file']:,.0f} MB of mapped pages, which the system can drop"
            if STATUS.exists()
            else "needs /proc",
            measures={"n": n, "d": scale.d},
        )


def surveyed(folder: Path, n: int, d: int) -> dict[str, float]:
    """What a survey of n rows in shards took, in a process of its own."""
    cost: dict[str, float] = json.loads(run([sys.executable, __file__, shard_folder(folder, n, d)]).splitlines()[-1])
    return cost


def shard_folder(folder: Path, n: int, d: int, *, size: int = SHARD) -> Path:
    """A folder of shards of at most `size` rows, n in all; clouds are shared with other tables, not copied."""
    shards = folder / f"shards-{n}x{d}"
    shards.mkdir(exist_ok=True)
    for number, start in enumerate(range(0, n, size)):
        whole = cloud_file(folder, min(size, n - start), d, seed=number)
        link = shards / f"shard-{number:03d}.npy"
        if not link.exists():
            os.link(whole, link)
    return shards


def child(folder: Path) -> dict[str, float]:
    """Seconds, processor seconds and the peak memory of the whole process, in megabytes."""
    import numpy as np

    import theodolite

    theodolite.survey(np.random.default_rng(0).standard_normal((64, 8), dtype=np.float32), progress=False)  # loads every module
    watch = Watch() if STATUS.exists() else None
    before = resident() if watch else (math.nan, math.nan)
    if watch:
        watch.start()
    start, busy = time.perf_counter(), time.process_time()
    theodolite.survey(str(folder), cache=False, findings=False, progress=False)
    seconds, cpu = time.perf_counter() - start, time.process_time() - busy
    more = watch.end() if watch else (math.nan, math.nan)
    return {"seconds": seconds, "cpu": cpu, "anonymous": before[0] + more[0], "file": before[1] + more[1]}


if __name__ == "__main__":
    print(json.dumps(child(Path(sys.argv[1]))))
