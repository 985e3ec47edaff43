"""A benchmark's result is a ratio with its goal; the table prints it with what it was measured on."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

PACKAGES = ("theodolite", "numpy", "scipy", "scikit-learn", "torch", "IsoScore", "vecscope", "spectralyte")


@dataclass(frozen=True, kw_only=True)
class Result:
    """One comparison. `value` is a ratio of times, or what `unit` says; `goal` is its bound in the sense of `sense`."""

    table: str
    case: str
    value: float
    sense: Literal["at most", "at least"]
    goal: float = math.nan
    """nan where the number is told without a goal."""
    unit: str = "×"
    ours: str = ""
    theirs: str = ""
    floor: str = ""
    """What no program could beat on the same machine, such as the one product that the answer needs."""
    note: str = ""
    measures: dict[str, float] = field(default_factory=dict)
    """Numbers that the page computes with: sizes, seconds, megabytes."""

    @property
    def verdict(self) -> str:
        if math.isnan(self.value):
            return "not run"
        if math.isnan(self.goal):
            return "no goal"
        met = self.value <= self.goal if self.sense == "at most" else self.value >= self.goal
        return "met" if met else "MISSED"

    def to_dict(self) -> dict[str, Any]:
        value = None if math.isnan(self.value) else self.value
        goal = None if math.isnan(self.goal) else self.goal
        return {**asdict(self), "value": value, "goal": goal, "verdict": self.verdict}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Result:
        """What `to_dict` came from; fields of other versions are left out."""
        known = {name: values[name] for name in (each.name for each in fields(cls)) if name in values}
        for name in ("value", "goal"):
            known[name] = math.nan if known.get(name) is None else known[name]
        return cls(**known)


def markdown(results: Iterable[Result]) -> str:
    """The results as one Markdown table."""
    head = ["case", "ours", "compared with", "floor", "value", "goal", "", "note"]
    rows = [head, ["---"] * len(head)]
    for result in results:
        bound = "≤" if result.sense == "at most" else "≥"
        value = "—" if math.isnan(result.value) else f"{result.value:.3g} {result.unit}"
        goal = "—" if math.isnan(result.goal) else f"{bound} {result.goal:g} {result.unit}"
        rows.append([result.case, result.ours, result.theirs, result.floor, value, goal, result.verdict, result.note])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def machine() -> dict[str, str]:
    """What the numbers depend on: processor, cores, memory, versions and threads of every maths library."""
    import numpy as np  # noqa: F401  # its BLAS must be loaded to be seen
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    pools = threadpool_info()
    threads = sorted({f"{pool['internal_api']} {pool.get('version') or ''}: {pool['num_threads']}" for pool in pools})
    return {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "packages": ", ".join(filter(None, map(installed, PACKAGES))),
        "threads": "; ".join(threads),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
    }


def installed(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""


def processor() -> str:
    """The processor's name, where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        if names:
            return names[0]
    return platform.processor() or platform.machine()
