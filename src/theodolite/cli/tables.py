"""Results on the terminal: readable at 80 columns, plain in a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from theodolite.cli.numbers import direction, interval, number

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from theodolite.core.rows import Row
    from theodolite.metrics.cloud import Cloud
    from theodolite.metrics.compare import Comparison

MARKS = {"bad": ("red", "✗"), "watch": ("yellow", "!"), "good": ("green", "✓")}
WIDE = 118


def show_header(console: Console, path: str, cloud: Cloud) -> None:
    """What was read, and on how many rows pairs and neighbours were looked at."""
    from rich.text import Text

    console.print(Text(path, style="bold").append(f"  {cloud.n:,} × {cloud.d}, {cloud.source.dtype}", style="not bold"))
    if cloud.is_sampled:
        console.print(f"pairs and neighbours: on a sample of {cloud.sample_size:,} rows, seed {cloud.seed}", style="dim")


def show_rows(console: Console, rows: Sequence[Row]) -> None:
    """The metrics, family by family; undefined ones with the reason below."""
    from theodolite.metrics.registry import METRICS

    has_interval = any(row.low is not None for row in rows)
    wide = console.width >= WIDE
    headings = [
        "metric",
        "value",
        *(["95 % interval"] if has_interval else []),
        "range",
        "isotropic",
        *(["meaning"] if wide else []),
    ]
    table = plain_table(headings, right={"value"})
    for _, family in groupby(rows, key=lambda row: METRICS[row.metric].function.__module__):
        for row in family:
            entry = METRICS[row.metric]
            cells = [row.metric, number(row.value), *([interval(row.low, row.high)] if has_interval else [])]
            table.add_row(*cells, _brief(entry.range), direction(entry.direction), *([entry.summary] if wide else []))
        table.add_section()
    console.print(table)
    show_reasons(console, [(row.metric, row.reason) for row in rows])


def show_findings(console: Console, found: Sequence[Any]) -> None:
    """Findings, worst first; what is well in one closing line."""
    from rich.padding import Padding
    from rich.text import Text

    order = ("bad", "watch")
    for finding in sorted((f for f in found if f.verdict in order), key=lambda f: order.index(f.verdict)):
        colour, mark = MARKS[finding.verdict]
        head = Text(f"{mark} {finding.topic}", style=f"bold {colour}")
        console.print(
            head.append(f": {finding.metric} {number(finding.value)}, healthy {finding.healthy}", style="not bold default")
        )
        lines = [Text(finding.meaning), Text(f"→ {finding.action}") if finding.action else None]
        lines += [Text(f"rows {', '.join(map(str, finding.rows))}") if finding.rows else None]
        lines += [Text(f"range: {finding.source}", style="dim") if finding.source else None]
        for line in filter(None, lines):
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
    well = [finding.topic for finding in found if finding.verdict == "good"]
    if well:
        console.print(Text("✓ well: ", style="green").append(", ".join(well), style="default"))


def show_comparisons(console: Console, compared: Sequence[Comparison]) -> None:
    """Metric, both values, the difference and its interval; a star where the interval leaves out zero."""
    table = plain_table(["metric", "A", "B", "B - A", "95 % interval", ""], right={"A", "B", "B - A"})
    for one in compared:
        values = [number(one.before.value), number(one.after.value), number(one.difference)]
        table.add_row(one.metric, *values, interval(one.low, one.high), "*" if one.is_clear else "")
    console.print(table)
    show_reasons(console, [(f"{one.metric} of A", one.before.reason) for one in compared])
    show_reasons(console, [(f"{one.metric} of B", one.after.reason) for one in compared])
    if any(one.low is not None for one in compared):
        rows = "paired rows" if compared[0].paired else "independent rows"
        console.print(f"* the interval of the difference leaves out 0 ({rows})", style="dim", markup=False)


def show_metrics(console: Console) -> None:
    """All metrics of the registry: name, default or not, and what they measure."""
    from rich.padding import Padding
    from rich.text import Text

    for title, entries in _families():
        console.print(Text(title, style="bold"))
        for entry in entries:
            second = entry.needs in ("pairs", "reference")
            note = "  (needs a second input: from Python)" if second else "" if entry.default else "  (when asked for by name)"
            console.print(Text(f"  {entry.name}").append(note, style="dim"))
            console.print(Padding(Text(entry.summary, style="dim"), (0, 0, 0, 6), expand=False))


def short_name(path: str) -> str:
    """The last part of a path, which is how a table calls a file."""
    return os.path.basename(path.rstrip("/")) or path  # noqa: PTH119  # a URL is no path


def show_reasons(console: Console, named: Sequence[tuple[str, str]]) -> None:
    """Why values are missing: each reason once, with the metrics it holds for."""
    from rich.text import Text

    metrics: dict[str, list[str]] = {}
    for name, reason in named:
        if reason:
            metrics.setdefault(reason, []).append(name)
    for reason, names in metrics.items():
        console.print(Text(f"– {', '.join(names)}: {reason}", style="dim"))


def _families() -> Iterator[tuple[str, list[Any]]]:
    import sys

    import theodolite.metrics.values  # noqa: F401  # fills the registry
    from theodolite.metrics.registry import METRICS

    for module, entries in groupby(METRICS.values(), key=lambda entry: entry.function.__module__):
        title = (sys.modules[module].__doc__ or module).strip().partition("\n")[0]
        yield title, list(entries)


def plain_table(headings: Sequence[str], *, right: set[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for heading in headings:
        ragged = heading in ("meaning", "range")
        table.add_column(heading, justify="right" if heading in right else "left", no_wrap=not ragged, overflow="fold")
    return table


def _brief(text: str) -> str:
    """The range up to its first comma outside brackets."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            return text[:i]
    return text
