"""Seconds of a call or of a command: the best of a few, taken in turns so that a slow moment hits both sides."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

Call = Callable[[], object]

CLOCK = "BENCH_CLOCK"
"""The variable that chooses processor time of all threads and of child processes together, if it says "processor"."""


def seconds(call: Call) -> float:
    if os.environ.get(CLOCK) == "processor":
        return cpu_seconds(call)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cpu_seconds(call: Call) -> float:
    """Processor seconds of all threads and of the child processes that ended meanwhile, on any machine."""
    start = processor_time()
    call()
    return processor_time() - start


def processor_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def best_in_turns(first: Call, second: Call, *, repeats: int) -> tuple[float, float]:
    """The shortest time of each of two calls, run alternately."""
    pairs = [(seconds(first), seconds(second)) for _ in range(repeats)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def shown(duration: float) -> str:
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.1f} s"


def command(name: str) -> Path | None:
    """A command installed beside this Python, or None."""
    path = Path(sys.executable).parent / name
    return path if path.exists() else None


def run(parts: Sequence[str | Path], *, fine: tuple[int, ...] = (0,)) -> str:
    """The output of a child process; an exit code not in `fine` is an error with what it said."""
    done = subprocess.run([str(part) for part in parts], capture_output=True, text=True, check=False)
    if done.returncode not in fine:
        raise RuntimeError(f"{' '.join(map(str, parts))} ended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout
