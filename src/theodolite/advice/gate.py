"""A gate: bounds and a baseline that a project commits, and whether new measurements keep to them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.core.intervals import NO_INTERVAL, Interval, replicate_interval
from theodolite.core.numbers import interval_text, number_text
from theodolite.core.result import Finding, Result
from theodolite.core.rows import Row
from theodolite.core.spelling import option, refuse_trust, suggestion
from theodolite.core.states import AFTER, BEFORE, DIFFERENCE
from theodolite.metrics.bounds import RETRIEVAL, Bound
from theodolite.metrics.registry import HIGHER, LOWER, METRICS, label_of

CONFIG = "theodolite.toml"
# The records of a result that have what is behind its intervals.
DEVIATIONS = "deviations"
# Tables of the configuration that say what is measured.
MEASURING = ("survey", "probe", "score", "retrieval")
# A metric got worse if it is certain, at 95%, that it did by more than this share of what it was, or this much.
TOLERANCE, SMALLEST_TOLERANCE = 0.05, 0.01
# Scores on a user's own items, besides those of judged queries.
SCORES = ("spearman", "knn_accuracy", "linear_accuracy")
# What two rows must share to be compared, in the order in which a mismatch is reported.
_SHARED = ("model", "task", "split", "setting", "sample", "layer", "label", "d", "n")


@dataclass(frozen=True, kw_only=True)
class GateFile:
    """What a `theodolite.toml` states."""

    path: Path
    bounds: tuple[Bound, ...]
    measuring: Mapping[str, Mapping[str, Any]]
    baseline: Path | None

    @classmethod
    def read(cls, path: str | Path) -> GateFile:
        """The content of a configuration file, checked."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"there is no file {path} with the bounds of the gate; name one with {option('config', 'FILE')}"
            )
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:  # numbers of too many digits are plain ValueErrors
            raise ValueError(f"{path} is not valid TOML: {error}") from None
        refuse_trust(values, path)
        known = ("baseline", "bounds", *MEASURING)
        unknown = next((name for name in values if name not in known), None)
        if unknown is not None:
            raise ValueError(f"{path} has the unknown key {unknown!r}; {suggestion(unknown, known)}")
        tables = {name: values[name] for name in ("bounds", *MEASURING) if name in values}
        # A bound on judged queries may stand where they are described.
        if isinstance(table := tables.get("retrieval"), dict):
            of_queries = {name: table.pop(name) for name in list(table) if RETRIEVAL.fullmatch(name)}
            tables |= {"bounds": {**tables.get("bounds", {}), **of_queries}} if of_queries else {}
        wrong = next((name for name, table in tables.items() if not isinstance(table, dict)), None)
        if wrong is not None or not tables.get("bounds"):
            raise ValueError(f"{path} needs a table [{wrong or 'bounds'}]" + ("" if wrong else " with at least one bound"))
        try:
            bounds = tuple(Bound.parse(name, bound) for name, bound in tables.pop("bounds").items())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        for name, table in tables.items():
            if "source" not in table:
                raise ValueError(f"{path}: [{name}] must name what to measure: source = 'vectors.npy', or a model")
        baseline = values.get("baseline")
        if baseline is None and any(bound.needs_baseline for bound in bounds):
            raise ValueError(f"{path} has bounds relative to a baseline (drop, rise) but names none; add baseline = 'baseline'")
        located = {name: {key: _located(path.parent, value) for key, value in table.items()} for name, table in tables.items()}
        return cls(
            path=path, bounds=bounds, measuring=located, baseline=None if baseline is None else path.parent / str(baseline)
        )


def judge(bounds: Sequence[Bound], result: Result, baseline: Result | None, *, source: str = CONFIG) -> tuple[Finding, ...]:
    """One finding per bound and measured value: bad if the bound is broken beyond sampling error, watch if it is within it."""
    if baseline is not None:
        _require_same_texts(result, baseline)
    findings = []
    now, before = _deviations(result), _deviations(baseline)
    for bound in bounds:
        for row in _judged_rows(bound, result.rows):
            old = _counterpart(row, baseline) if baseline is not None and bound.needs_baseline else None
            then = None if old is None else old.value
            breach = bound.breach(row, then)
            change = _change_interval(row, old, now, before) if breach and old is not None else NO_INTERVAL
            is_certain = math.isnan(row.value) or bound.is_certain(row, then, change)
            held = f"{label_of(bound.metric)} {number_text(row.value)} is {bound.range_text(then)}"
            findings.append(
                Finding(
                    topic=" ".join(filter(None, (label_of(bound.metric), row.label))),
                    verdict="good" if not breach else "bad" if is_certain else "watch",
                    value=row.value,
                    metric=bound.metric,
                    healthy=bound.range_text(then),
                    source=source,
                    meaning=f"{breach}{_sampling_error(row, then, change, is_certain)}" if breach else held,
                    action="",
                    model=row.model,
                    layer=row.layer,
                )
            )
    return tuple(findings)


def _sampling_error(row: Row, then: float | None, change: Interval, is_certain: bool) -> str:
    """What follows a broken bound: the interval that decides, and whether the breach is within noise."""
    noise = "" if is_certain else ", within noise"
    if change[0] is not None and then is not None:
        return f"{noise}: it changed by {number_text(row.value - then)} {interval_text(*change)}"
    return f"{noise}: its 95% interval is {interval_text(row.low, row.high)}" if row.low is not None else ""


def _deviations(result: Result | None) -> dict[tuple[str, int], dict[int, float]]:
    """What is behind the intervals of a result, by metric and layer; items are numbered from 0, half-samples too."""
    deviations: dict[tuple[str, int], dict[int, float]] = {}
    for record in result.records[DEVIATIONS].to_pylist() if result is not None and DEVIATIONS in result.records else ():
        deviations.setdefault((record["metric"], record["layer"]), {})[record["number"]] = record["deviation"]
    return deviations


def _change_interval(row: Row, old: Row, now: Mapping[Any, Mapping[int, float]], before: Mapping[Any, Any]) -> Interval:
    """The 95% interval of a change from the baseline; none for numbers that have no sampling error of their own.

    Deviations of the same half-samples or items are subtracted one by one: if the rows correspond, what both share cancels, and
    if they do not, the variances add.
    """
    key = (row.metric, -1 if row.layer is None else row.layer)
    difference = row.value - old.value
    if key in now and key in before:
        if set(now[key]) != set(before[key]):
            raise ValueError(
                f"the baseline is not comparable: its {row.metric} is from {len(before[key])} items or half-samples, the new one "
                f"from {len(now[key])}; measure the same, or {_new_baseline()}"
            )
        return replicate_interval(difference, [now[key][number] - before[key][number] for number in sorted(now[key])])
    errors = [(side.high - side.low) / 2 for side in (row, old) if side.low is not None and side.high is not None]
    if len(errors) == 2:
        half = math.hypot(*errors)
        return difference - half, difference + half
    if row.low is not None or key in now:
        raise ValueError(
            f"the baseline's {row.metric} has no data for an interval (older releases did not save it), so a change "
            f"cannot be told from noise; {_new_baseline()}"
        )
    entry = METRICS.get(row.metric)
    if entry is not None and entry.resample:
        raise ValueError(
            f"{row.metric} was measured without an interval, so a change cannot be told from noise; measure it with "
            f"{option('bootstrap', '40')}"
        )
    return NO_INTERVAL


def worse_metrics(result: Result) -> list[str]:
    """One sentence for every metric, or score, of a comparison that got worse beyond doubt and beyond its tolerance.

    A metric is worse if the whole 95% interval of its change lies on the side away from isotropy, and a score if it lies below
    0, by more than 5% of what it was and more than 0.01. Metrics that have no better side, or no interval, are not judged.
    """
    changes = [row for row in result.rows if row.state == DIFFERENCE]
    if not any(row.low is not None for row in changes):
        raise ValueError(f"without intervals, no metric can be shown to be worse; add {option('bootstrap', '200')}")
    sentences = []
    for number, change in enumerate(result.rows):
        entry = METRICS.get(change.metric)
        is_score = change.metric in SCORES or RETRIEVAL.fullmatch(change.metric) is not None
        direction = HIGHER if is_score else None if entry is None else entry.direction
        if change.state != DIFFERENCE or change.low is None or change.high is None or direction is None:
            continue
        before, after = result.rows[number - 2].value, result.rows[number - 1].value
        tolerance = max(TOLERANCE * abs(before), SMALLEST_TOLERANCE)
        loss = {HIGHER: -change.high, LOWER: change.low}.get(direction, -math.inf)
        if loss > tolerance:
            layer = f" in layer {change.layer}" if change.layer is not None else ""
            interval = f"{number_text(change.low)} to {number_text(change.high)}"
            sentences.append(
                f"{label_of(change.metric)}{layer} got worse: {number_text(before)} → {number_text(after)}, a change of "
                f"{interval} (95%), beyond the tolerance {number_text(tolerance)}"
            )
    return sentences


def _judged_rows(bound: Bound, rows: Sequence[Row]) -> list[Row]:
    """The rows that a bound is about: those of its layer, or of the last one."""
    matching = [row for row in rows if row.metric == bound.metric and row.state not in (BEFORE, AFTER, DIFFERENCE)]
    if not matching:
        measured = list(dict.fromkeys(row.metric for row in rows))
        raise ValueError(f"{bound.metric} has a bound but was not measured; {suggestion(bound.metric, measured)}")
    layers = {row.layer for row in matching if row.layer is not None}
    layer = bound.layer if bound.layer is not None else max(layers, default=None)
    judged = [row for row in matching if row.layer == layer]
    if not judged:
        raise ValueError(f"{bound.metric} has a bound for layer {layer}, but was measured for {sorted(layers) or 'no layer'}")
    return judged


def _counterpart(row: Row, baseline: Result) -> Row:
    """The row of the baseline that a measured one may be compared with."""
    candidates = [other for other in baseline.rows if other.metric == row.metric]
    if not candidates:
        raise ValueError(f"the baseline has no {row.metric}; {_new_baseline()}")
    # Another index may find the same documents in fewer dimensions.
    for name in _SHARED if not RETRIEVAL.fullmatch(row.metric) else [name for name in _SHARED if name != "d"]:
        remaining = [other for other in candidates if getattr(other, name) == getattr(row, name)]
        if not remaining:
            now, then = getattr(row, name), getattr(candidates[0], name)
            title = {"setting": "pooling or setting", "n": "number of rows", "d": "dimension"}.get(name, name)
            raise ValueError(
                f"the baseline is not comparable: the {title} of its {row.metric} is {then!r}, the new one's is {now!r}; "
                f"measure the same, or {_new_baseline()}"
            )
        candidates = remaining
    return candidates[0]


def _require_same_texts(result: Result, baseline: Result) -> None:
    now, then = ({facts["texts"] for facts in side.inputs if facts.get("texts")} for side in (result, baseline))
    if now and then and now != then:
        raise ValueError(f"the baseline is not comparable: it was measured on other texts; use the same, or {_new_baseline()}")


def _new_baseline() -> str:
    return f"save a new baseline with {option('update')}"


def _located(folder: Path, value: Any) -> Any:
    """A path of the configuration as seen from the working folder; anything else as it is."""
    return str(folder / value) if isinstance(value, str) and value and (folder / value).exists() else value
