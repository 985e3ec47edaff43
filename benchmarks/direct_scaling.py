"""DirectProbe of separable clouds against the number of rows, of dimensions and of labels; each in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from scale import Scale
from table import Result
from timing import run, shown

ROWS, LABELS = 5_000, 17
SCRIPT = Path(__file__).with_name("direct_probe.py")


def measure(scale: Scale, folder: Path) -> Iterator[Result]:  # noqa: ARG001  # the clouds are made in the child
    for n in scale.direct_rows:
        yield cost("rows", n, scale.d, LABELS)
    for d in scale.direct_width:
        yield cost("dimensions", min(ROWS, scale.most_rows), d, LABELS)
    for labels in scale.direct_labels:
        yield cost("labels", min(ROWS, scale.most_rows), scale.d, labels)


def cost(axis: str, n: int, d: int, labels: int) -> Result:
    found = json.loads(run([sys.executable, SCRIPT, str(n), str(d), str(labels)]).splitlines()[-1])
    seconds, memory = float(found["seconds"]), float(found["gigabytes"])
    return Result(
        table="direct-scaling",
        case=f"DirectProbe against {axis}: {n:,} × {d}, {labels} labels",
        value=seconds,
        sense="at most",
        unit="s",
        ours=f"{shown(seconds)}, {memory:.2f} GB",
        measures={"n": n, "d": d, "labels": labels, "seconds": seconds, "gigabytes": memory},
    )
