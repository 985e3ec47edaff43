"""What a result says, as paragraphs and tables: the one content that a terminal and a notebook both show."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from theodolite.core.numbers import interval_text, number_text, short_number
from theodolite.core.result import Effect, Finding, Result, Verdict
from theodolite.core.rows import Row
from theodolite.core.states import DIFFERENCE, state_title
from theodolite.metrics import LAYER_METRICS, METRICS, label_of
from theodolite.studies.claims.check import Comparison

MARKS = {"bad": ("red", "✗"), "watch": ("yellow", "!"), "good": ("green", "✓")}
OUTCOME_SIGNS = {"holds": "✓", "does not hold": "✗", "not decidable here": "?"}
SHAPE = ("iso_score", "ev_1", "ev_2", "ev_3")
"""What a tuning run measures of the vectors that its head reads."""
LONGEST_LABEL = 24
MOST_ROWS = 60
"""Rows of a plain list; a result of more is better saved or framed."""


@dataclass(frozen=True)
class Paragraph:
    """Some text, wrapped where it is shown; `style` is bold, dim, red, yellow or green."""

    text: str
    style: str = ""
    lead: str = ""
    """Put first, in the style; the text itself is then plain."""
    indent: int = 0


@dataclass(frozen=True)
class Table:
    """Cells under headings. Numbers are never cut: a narrow display leaves out `optional` columns, or splits the table."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)
    """Columns aligned to the left; all others hold numbers."""
    optional: tuple[int, ...] = ()
    """Columns to leave out in a narrow display, the first of these first."""
    breaks: tuple[int, ...] = ()
    """Rows that a blank line comes before."""
    splits: bool = False
    """Whether columns that do not fit may follow in a further table, under a repeated first column."""


Block: TypeAlias = Paragraph | Table


def blocks_of(result: Result) -> list[Block]:
    """The paragraphs and tables that show a result, in reading order.

    Parameters
    ----------
    result
        The result of any verb.
    """
    content: dict[str, Callable[[Result], Iterator[Block]]] = {
        "survey": _survey,
        "compare": _compare,
        "probe": _probe,
        "tune": _tune,
        "study": _study,
        "repair": _repair,
    }
    return list(content.get(result.verb, _any)(result))


def _survey(result: Result) -> Iterator[Block]:
    for facts, rows, findings in _by_input(result):
        unit = f" {facts['unit']}" if facts.get("unit") else f", {facts['dtype']}" if facts.get("dtype") else ""
        yield Paragraph(f"  {facts['n']:,} × {facts['d']}{unit}", lead=str(facts["name"]), style="bold")
        layered = any(row.layer is not None for row in rows)
        yield from (Paragraph(note, "dim") for note in result.notes)
        yield from _layers(rows) if layered else _metrics(rows)
        if layered and findings:
            yield Paragraph(f"layer {findings[0].layer}, the last:")
        yield from _findings(findings)


def _by_input(result: Result) -> Iterator[tuple[dict[str, object], Sequence[Row], Sequence[Finding]]]:
    """A survey of several files is shown file by file; rows and findings name theirs in `model`."""
    inputs = list(result.provenance.get("inputs", ())) or [
        {"name": result.title, "n": result[0].n or 0, "d": result[0].d or 0} if len(result) else {}
    ]
    if len(inputs) == 1:
        yield dict(inputs[0]), result.rows, result.findings
        return
    for facts in inputs:
        name = str(facts["name"]).rstrip("/").rpartition("/")[2]
        yield dict(facts), [r for r in result.rows if r.model == name], [f for f in result.findings if f.model == name]


def _metrics(rows: Sequence[Row]) -> Iterator[Block]:
    """One line per metric, family by family, with its range and direction."""
    lines: list[tuple[str, ...]] = []
    breaks: list[int] = []
    has_interval = any(row.low is not None for row in rows)
    for _, family in groupby(rows, key=lambda row: METRICS[row.metric].function.__module__ if row.metric in METRICS else ""):
        breaks.append(len(lines))
        for row in family:
            entry = METRICS.get(row.metric)
            about = ("", "", "") if entry is None else (_brief(entry.range), _side(entry.direction), entry.summary)
            lines.append(
                (row.metric, number_text(row.value), *([interval_text(row.low, row.high)] if has_interval else []), *about)
            )
    headings = ("metric", "value", *(["95 % interval"] if has_interval else []), "range", "isotropic", "meaning")
    last = len(headings) - 1
    left = (0, *range(2, len(headings)))
    yield Table(headings, tuple(lines), left, optional=(last, last - 2, last - 1), breaks=tuple(breaks[1:]))
    yield from _reasons(rows)


def _layers(rows: Sequence[Row]) -> Iterator[Block]:
    """One line per layer, one column per metric."""
    names = list(dict.fromkeys(row.metric for row in rows))
    cells = {(row.layer, row.metric): row for row in rows}
    layers = list(dict.fromkeys(row.layer for row in rows))

    def cell(layer: int | None, name: str) -> str:
        row = cells.get((layer, name))
        if row is None:
            return ""
        bounds = interval_text(row.low, row.high)
        return f"{number_text(row.value)} {bounds}".rstrip()

    lines = tuple((str(layer), *(cell(layer, name) for name in names)) for layer in layers)
    yield Table(("layer", *map(label_of, names)), lines, left=(), splits=True)
    yield from _reasons(rows)


def _findings(findings: Sequence[Finding]) -> Iterator[Block]:
    """Findings, worst first; what is fine in one closing line."""
    for finding in sorted((each for each in findings if each.severity), key=lambda each: -each.severity):
        colour, mark = MARKS[finding.verdict]
        numbers = f": {finding.metric} {number_text(finding.value)}, healthy {finding.healthy}"
        yield Paragraph(numbers, colour, lead=f"{mark} {finding.topic}")
        yield Paragraph(finding.meaning, indent=2)
        if finding.action:
            yield Paragraph(f"→ {finding.action}", indent=2)
        if finding.rows:
            yield Paragraph(f"rows {', '.join(map(str, finding.rows))}", indent=2)
        if finding.source:
            yield Paragraph(f"range: {finding.source}", "dim", indent=2)
    fine = [finding.topic for finding in findings if not finding.severity]
    if fine:
        yield Paragraph(", ".join(fine), "green", lead="✓ OK: ")


def _compare(result: Result) -> Iterator[Block]:
    sides, footnotes = result.notes[:2], result.notes[2:]
    yield from map(Paragraph, sides)
    triples = [result.rows[start : start + 3] for start in range(0, len(result.rows), 3)]
    if any(before.layer is not None for before, _, _ in triples):
        yield from _changes(triples)
    else:
        lines = tuple(
            (
                before.metric,
                number_text(before.value),
                number_text(after.value),
                f"{number_text(change.value)}{_star(change)}",
                interval_text(change.low, change.high),
            )
            for before, after, change in triples
        )
        has_interval = any(change.low is not None for _, _, change in triples)
        width = 5 if has_interval else 4
        headings = ("metric", "A", "B", "B - A", "95 % interval")[:width]
        yield Table(headings, tuple(line[:width] for line in lines), left=(0, 4), optional=(4,) if has_interval else ())
    yield from _reasons([row for row in result.rows if row.state != DIFFERENCE])
    yield from (Paragraph(note, "dim") for note in footnotes)


def _changes(triples: Sequence[Sequence[Row]]) -> Iterator[Block]:
    """One line per layer; each cell holds A, an arrow, and B."""
    names = list(dict.fromkeys(before.metric for before, _, _ in triples))
    cells = {
        (before.layer, before.metric): f"{short_number(before.value)} → {short_number(after.value)}{_star(change)}"
        for before, after, change in triples
    }
    yield _pivot(names, cells)


def _pivot(names: Sequence[str], cells: dict[tuple[int | None, str], str]) -> Table:
    layers = list(dict.fromkeys(layer for layer, _ in cells))
    lines = tuple((str(layer), *(cells.get((layer, name), "") for name in names)) for layer in layers)
    return Table(("layer", *map(label_of, names)), lines, left=(), splits=True)


def _star(change: Row) -> str:
    clear = change.low is not None and change.high is not None and not change.low <= 0 <= change.high
    return " *" if clear else ""


def _probe(result: Result) -> Iterator[Block]:
    facts = dict(result.provenance.get("inputs", ({},))[0])
    held = f", {facts['held_out']:,} held out" if "held_out" in facts else ""
    yield Paragraph(f"{result.title}: {facts.get('n', 0):,} × {facts.get('d')}{held}")
    yield from map(Paragraph, result.notes)
    layers = list(dict.fromkeys(row.layer for row in result.rows))
    if len(layers) > 1:
        yield from _probed_layers(result, layers)
    else:
        yield from _labels(result.rows)
        yield from _accuracies(result.rows)


def _probed_layers(result: Result, layers: Sequence[int | None]) -> Iterator[Block]:
    """One line per layer: clusters, the closest labels, and accuracy on held-out rows."""
    columns = {"hull_accuracy": "hull", "probe_accuracy": "probe"}
    scored = {name: title for name, title in columns.items() if any(row.metric == name for row in result.rows)}
    lines = []
    for layer in layers:
        rows = [row for row in result.rows if row.layer == layer]
        value = {row.metric: row.value for row in rows if not row.label and row.metric != "label_distance"}
        pair = _closest(rows)
        lines.append(
            (
                str(layer),
                f"{value['clusters']:,.0f}",
                "yes" if value["is_linear"] else "no",
                "–" if pair is None else f"{_clipped(pair[0], 8)} {_clipped(pair[1], 8)} {short_number(pair[2])}",
                short_number(value["mean_minimum_distance"]),
                *(_accuracy(value, name) for name in scored),
                f"{value.get('probe_seconds', math.nan):.1f}",
            )
        )
    headings = ("layer", "clusters", "linear", "closest labels", "min.", *scored.values(), "s")
    yield Table(headings, tuple(lines), left=(2, 3), optional=(len(headings) - 1,))
    explanation = "min.: mean distance of the labels to the nearest other label"
    yield Paragraph(explanation + ("; hull, probe: accuracy on held-out rows" if scored else ""), "dim")


def _labels(rows: Sequence[Row]) -> Iterator[Block]:
    """One line per label: its rows and clusters, the nearest other label, and the distances inside its clusters."""
    by_label = {label: {row.metric: row for row in group} for label, group in _grouped(rows, lambda row: row.label) if label}
    distances = {tuple(row.setting.split("|", 1)): row.value for row in rows if row.metric == "label_distance"}
    lines = []
    for label, values in by_label.items():
        others = {(a if b == label else b): distance for (a, b), distance in distances.items() if label in (a, b)}
        nearest = min(others, key=others.__getitem__) if others else ""
        numbers = [number_text(values[name].value) for name in ("minimum_distance", "inside_mean", "inside_max")]
        head = (_clipped(label), f"{values['label_clusters'].n:,}", f"{values['label_clusters'].value:,.0f}", _clipped(nearest))
        lines.append((*head, *numbers))
    headings = ("label", "rows", "clusters", "nearest", "distance", "inside mean", "max")
    yield Table(headings, tuple(lines), left=(0, 3), optional=(6, 5, 2))
    if any(math.isnan(values["inside_mean"].value) for values in by_label.values()):
        yield Paragraph("– inside: every cluster of the label is a single point", "dim")


def _accuracies(rows: Sequence[Row]) -> Iterator[Block]:
    values = {row.metric: row for row in rows if not row.label}
    if "hull_accuracy" in values:
        row = values["hull_accuracy"]
        yield Paragraph(f"nearest hull on {row.n:,} held-out rows: accuracy {row.value:.3f}")
    if "probe_accuracy" in values:
        row = values["probe_accuracy"]
        text = _accuracy({name: each.value for name, each in values.items()}, "probe_accuracy")
        chosen = f" ({row.setting})" if row.setting else ""
        yield Paragraph(f"classifier on {row.n:,} held-out rows: accuracy {text}{chosen}")


def _accuracy(values: dict[str, float], name: str) -> str:
    if name not in values:
        return "–"
    spread = values.get(f"{name}_sd", 0.0)
    return f"{values[name]:.3f} ± {spread:.3f}" if spread else f"{values[name]:.3f}"


def _closest(rows: Sequence[Row]) -> tuple[str, str, float] | None:
    distances = [row for row in rows if row.metric == "label_distance" and math.isfinite(row.value)]
    if not distances:
        return None
    row = min(distances, key=lambda each: each.value)
    first, _, second = row.setting.partition("|")
    return first, second, row.value


def _tune(result: Result) -> Iterator[Block]:
    scores = [row for row in result.rows if row.layer is None and not row.label and row.split not in ("train", "validation")]
    yield Paragraph(result.title, "bold")
    yield from _states(scores)
    seconds = [row.value for row in result.rows if row.metric == "train_seconds"]
    if seconds:
        yield Paragraph(f"the layer was trained in {number_text(statistics.median(seconds))} s on vectors embedded once")
    yield from _steps(result.rows)
    yield from map(Paragraph, result.notes)


def _states(rows: Sequence[Row]) -> Iterator[Block]:
    """The task's score, IsoScore and EV on the scored split, one column per state: median ± standard deviation over seeds."""
    states = list(dict.fromkeys(row.state for row in rows if row.metric in SHAPE)) or list(
        dict.fromkeys(row.state for row in rows)
    )
    score = next((row for row in rows if row.metric not in METRICS and not row.metric.startswith("ev_") and _is_score(row)), None)
    if score is None:
        return
    seeds = {row.seed for row in rows if row.seed is not None}
    parts = {state: [row for row in rows if row.state == state and row.seed is not None] for state in states}
    lines = [(label_of(name), *(_spread(parts[state], name) for state in states)) for name in (score.metric, "iso_score")]
    middle = {state: _median_seed(parts[state]) for state in states}
    for name in ("ev_1", "ev_2", "ev_3"):
        values = (
            next((row.value for row in parts[state] if row.metric == name and row.seed == middle[state]), None)
            for state in states
        )
        lines.append((label_of(name), *map(number_text, values)))
    if len(seeds) > 1:
        lines.append(("EV of seed", *("–" if seed is None else str(seed) for seed in middle.values())))
    lines = [line for line in lines if any(cell != "–" for cell in line[1:])]
    yield Table((f"{score.task} {score.split}", *map(state_title, states)), tuple(lines))
    if len(seeds) > 1:
        yield Paragraph(f"median ± standard deviation over {len(seeds)} seeds; EV of the seed with the median EV 1", "dim")


def _is_score(row: Row) -> bool:
    return row.metric in ("accuracy", "macro_f1", "matthews", "pearson", "spearman")


def _spread(rows: Sequence[Row], metric: str) -> str:
    values = [row.value for row in rows if row.metric == metric]
    if not values or any(math.isnan(value) for value in values):
        return "–"
    median = number_text(statistics.median(values))
    return median if len(values) == 1 else f"{median} ± {number_text(statistics.stdev(values))}"


def _median_seed(rows: Sequence[Row]) -> int | None:
    """The seed whose EV 1 is the median one, the lower of two in the middle, as IL23's table 3 has it."""
    defined = sorted((row.value, row.seed) for row in rows if row.metric == "ev_1" and not math.isnan(row.value))
    return defined[(len(defined) - 1) // 2][1] if defined else None


def _steps(rows: Sequence[Row]) -> Iterator[Block]:
    """What a tracker measured of every layer at the first and the last step."""
    metrics = (*LAYER_METRICS, "mean_minimum_distance")
    tracked = [row for row in rows if row.layer is not None and not row.label and row.metric in metrics and row.step is not None]
    seeds = {row.seed for row in tracked}
    if not tracked or len(seeds) > 1:
        return
    steps = sorted({row.step for row in tracked if row.step is not None})
    first, last = ({(row.layer, row.metric): row.value for row in tracked if row.step == step} for step in (steps[0], steps[-1]))
    names = list(dict.fromkeys(row.metric for row in tracked))
    cells = {key: f"{short_number(value)} → {short_number(last[key])}" for key, value in first.items() if key in last}
    yield Paragraph(f"geometry of a fixed sample, step {steps[0]} → {steps[-1]}:")
    yield _pivot(names, cells)


def _study(result: Result) -> Iterator[Block]:
    yield Paragraph(result.title, "bold")
    yield from verdict_blocks(result.verdicts)
    yield from map(Paragraph, result.notes)


def verdict_blocks(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    """Each claim with its verdict and why, and what the printed rows say."""
    several = len({verdict.model for verdict in verdicts}) > 1
    for verdict in verdicts:
        model = f" [{verdict.model}]" if several and verdict.model else ""
        outcome = verdict.measured.outcome
        yield Paragraph(f"{OUTCOME_SIGNS[outcome]} {verdict.claim}{model} {verdict.title}: {outcome}")
        yield Paragraph(verdict.measured.why, indent=4)
        yield from (Paragraph(_effect(effect), "dim", indent=4) for effect in verdict.measured.effects[:3])
        yield from (Paragraph(f"on {each.source}: {each.outcome}", "dim", indent=4) for each in verdict.printed)


def comparison_blocks(comparisons: Sequence[Comparison]) -> Iterator[Block]:
    """Printed and measured, side by side: one table for each source and pair of models."""
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for each in comparisons:
        if each.measured is not None:
            groups.setdefault((each.printed.source, each.printed.row.model, each.model), []).append(each)
    for (source, printed, measured), cells in groups.items():
        yield Paragraph(f"{source}: {printed} as printed, {measured} as measured here", "bold")
        several = len({each.printed.row.task for each in cells}) > 1
        lines = []
        for each in cells:
            row = each.printed.row
            name = ", ".join(filter(None, [row.task if several else "", row.state, row.setting, row.metric]))
            lines.append((name, number_text(row.value), number_text(each.measured.value if each.measured else None)))
        yield Table(("cell", "printed", "measured"), tuple(lines))
    missing = sum(each.measured is None for each in comparisons)
    if missing:
        yield Paragraph(f"{missing} printed numbers have nothing measured next to them", "dim")
    for each in comparisons:
        if each.comparable:
            row = each.printed.row
            yield Paragraph(f"{each.printed.source}, {row.state} {row.setting} {row.metric}: {each.words}")
    if not all(each.comparable for each in comparisons):
        yield Paragraph("a number of another model is shown next to the printed one: it is not a reproduction of it", "dim")


def _effect(effect: Effect) -> str:
    return f"{effect.name}: {number_text(effect.value)} {interval_text(effect.low, effect.high)}".rstrip()


def _repair(result: Result) -> Iterator[Block]:
    yield Paragraph(": ".join([result.title, *result.notes]))


def _any(result: Result) -> Iterator[Block]:
    """Rows of any kind: the fields that tell them apart, and their values."""
    fields = [name for name in Row.FIELDS if name not in ("value", "low", "high", "n", "d", "versions", "reason", "revision")]
    varying = [name for name in fields if name == "metric" or len({getattr(row, name) for row in result.rows}) > 1]
    lines = tuple(
        (*(_field(getattr(row, name)) for name in varying), number_text(row.value), interval_text(row.low, row.high))
        for row in result.rows[:MOST_ROWS]
    )
    yield Paragraph(result.title, "bold")
    yield Table((*varying, "value", "95 % interval"), lines, left=tuple(range(len(varying))), optional=(len(varying) + 1,))
    if len(result.rows) > MOST_ROWS:
        yield Paragraph(f"… {len(result.rows) - MOST_ROWS:,} more rows", "dim")


def _field(value: object) -> str:
    return "" if value is None else _clipped(str(value))


def _reasons(rows: Sequence[Row]) -> Iterator[Block]:
    """Why values are missing: each reason once, with the metrics it is given for."""
    metrics: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.reason:
            metrics.setdefault(row.reason, {})[row.metric] = None
    for reason, names in metrics.items():
        yield Paragraph(f"– {', '.join(names)}: {reason}", "dim")


def _grouped(rows: Sequence[Row], key: Callable[[Row], str]) -> Iterator[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    yield from groups.items()


def _clipped(text: str, width: int = LONGEST_LABEL) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _side(direction: str) -> str:
    return {"higher is isotropic": "high", "lower is isotropic": "low"}.get(direction, "")


def _brief(text: str) -> str:
    """The range up to its first comma outside brackets."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            return text[:i]
    return text
