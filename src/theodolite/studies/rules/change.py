"""Rules on what changes from one state to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from theodolite.core.result import Judged
from theodolite.studies.rules.estimate import Estimate, difference, size
from theodolite.studies.rules.evidence import Evidence
from theodolite.studies.rules.parts import Need, Part, conclude
from theodolite.studies.rules.registry import rule

NO_INTERVAL = "an interval of {name} (several seeds, or an interval in the row)"


@rule("changes")
def changes(
    evidence: Evidence,
    *,
    metrics: Mapping[str, str],
    states: Sequence[str],
    tasks: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
    derived: Mapping[str, Mapping[str, str]] | None = None,
    need: Need = "all",
) -> Judged:
    """From the first state to the second each metric "rises", "falls" or "shrinks" (in size), in all tasks or in most.

    Differences are paired over seeds where there are several. A measured one without any interval is no evidence. `derived`
    tells which difference of two settings is the metric where no row has it.
    """
    parts = [
        _part(evidence, metric, wanted, states, {**(where or {}), **({"task": task} if task else {})}, derived or {})
        for task in tasks or [""]
        for metric, wanted in metrics.items()
    ]
    return conclude(evidence, parts, need=need)


def _part(
    evidence: Evidence,
    metric: str,
    wanted: str,
    states: Sequence[str],
    where: Mapping[str, Any],
    derived: Mapping[str, Mapping[str, str]],
) -> Part:
    name = f"{where['task']} {metric}" if "task" in where else metric
    found = [_number(evidence, metric, {**where, "state": state}, derived) for state in states]
    before, after = found
    if before is None or after is None:
        lacking = [state for state, one in zip(states, found, strict=True) if one is None]
        reasons = [evidence.undefined(metric, **where, state=state) for state in lacking]
        return Part(name=name, undefined="; ".join(filter(None, reasons)), missing=f"{name}, {' and '.join(lacking)}")
    change = difference(size(after), size(before)) if wanted == "shrinks" else difference(after, before)
    if change.bounds is None and not evidence.printed:
        return Part(name=f"{name} {change}", missing=NO_INTERVAL.format(name=f"{name} ({change} without one)"))
    return Part(name=name, estimate=change, rises=wanted == "rises")


def _number(
    evidence: Evidence, metric: str, where: Mapping[str, Any], derived: Mapping[str, Mapping[str, str]]
) -> Estimate | None:
    direct = evidence.estimate(metric, **where)
    if direct is not None or metric not in derived:
        return direct
    made = derived[metric]
    first, second = (evidence.estimate(made["metric"], **where, setting=made[key]) for key in ("setting", "minus"))
    return None if first is None or second is None else difference(first, second)
