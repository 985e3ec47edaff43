"""Several metrics of one cloud, in the fewest passes over its rows."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Sequence

from theodolite.metrics import partition
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.registry import METRICS


def metric_names(asked: Sequence[str] | None = None) -> list[str]:
    """The metrics asked for, checked, or those a survey takes by default."""
    if asked is None:
        return [name for name, entry in METRICS.items() if entry.default]
    for name in asked:
        if name not in METRICS:
            close = difflib.get_close_matches(name, METRICS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(METRICS)}"
            raise ValueError(f"there is no metric {name!r}; {hint}")
        if METRICS[name].needs in ("pairs", "reference"):
            raise ValueError(f"metric {name!r} needs a second input; call theodolite.metrics.{name} with it")
    return list(dict.fromkeys(asked))


def measure(cloud: Cloud, names: Sequence[str]) -> dict[str, tuple[float, str]]:
    """(value, "") or (nan, reason) of each metric: one pass for all moments, one more for all partition functions."""
    variants = {partition.VARIANTS[name] for name in names if name in partition.VARIANTS}
    if variants:
        with contextlib.suppress(Undefined):  # each metric meets it again below, and gives its reason
            partition.log_partitions(cloud, variants)
    return {name: METRICS[name].value(cloud) for name in names}
