"""A result as Markdown: verdicts, findings, tables and the command, for a repository or a wiki."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from theodolite.core.rows import Row
from theodolite.metrics.registry import label_of
from theodolite.reports.displays.base import grouped, records_of
from theodolite.reports.pivot import Column, Entry, Table, pivot
from theodolite.reports.plain_text import clean
from theodolite.reports.provenance import command_of, name_of
from theodolite.reports.tables import tables_of
from theodolite.reports.verdict_cards import number_text, sign_of, with_labels

if TYPE_CHECKING:
    from theodolite.core.result import Effect, Finding, Result, Verdict

LINES = 60
"""Lines of a table that a page has; the result's own file has all of them."""
TEXT = 2000
"""Characters of one string."""
PRINTED_COLUMNS = ("table", "source", "model", "task", "state", "setting", "metric", "value", "low", "high")


def markdown_of(result: Result) -> str:
    """The page of one result: verdicts and findings first, then tables, printed numbers next to measured ones, and the command.

    Parameters
    ----------
    result
        The result. Its `provenance["tables"]` declares the tables, and its record `printed` has the cells of a paper's tables
        with what was measured in them.
    """
    name = name_of(result)
    parts = [f"# {_text(result.title or name)}", *_verdicts(result.verdicts), *_findings(result.findings)]
    for table in tables_of([(name, result)]):
        parts += [f"## {_text(table.title)}", *_table(table)]
    parts += _printed(result)
    command = command_of(result).replace("```", "` ` `")  # which would end the block
    if command:
        parts += ["## The command", f"```text\n{command}\n```"]
    if result.notes:
        parts += ["## Notes", "\n".join(f"- {_text(note)}" for note in result.notes)]
    return "\n\n".join(parts) + "\n"


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[str]:
    if verdicts:
        yield "## Verdicts"
    several = len({verdict.model for verdict in verdicts}) > 1
    for verdict in verdicts:
        measured = verdict.measured
        claim = f"{_text(verdict.claim)}, {_text(verdict.model)}" if several else _text(verdict.claim)
        yield f"### {sign_of(measured.outcome)} {claim}: {_text(verdict.title)} – {_text(measured.outcome)}"
        yield _sentence(measured.why)
        if measured.effects:
            yield _effects(measured.effects)
        if verdict.printed:
            yield "On the paper's own rows:"
            lines = [
                f"- {_text(judged.source)}: **{_text(judged.outcome)}**. {_sentence(judged.why)}" for judged in verdict.printed
            ]
            yield "\n".join(lines)


def _sentence(why: str) -> str:
    text = _text(with_labels(why)).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def _effects(effects: Sequence[Effect]) -> str:
    lines = ["| effect | value | 95 % interval | from |", "|---|---:|---|---|"]
    for effect in effects[:LINES]:
        interval = "" if effect.low is None or effect.high is None else f"{_number(effect.low)} … {_number(effect.high)}"
        lines.append(_line([_text(with_labels(effect.name)), _number(effect.value), interval, _text(effect.how)]))
    return "\n".join(lines)


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    unhealthy = [finding for finding in findings if finding.severity]
    if unhealthy:
        yield "## Findings"
        yield "\n".join(
            f"- **{_text(finding.verdict)}: {_text(finding.topic)}** ({_text(label_of(finding.metric))} "
            f"{number_text(finding.value)}, healthy {_text(finding.healthy)}). {_text(finding.meaning)} {_text(finding.action)}"
            for finding in sorted(unhealthy, key=lambda finding: -finding.severity)
        )


def _printed(result: Result) -> Iterator[str]:
    """Each table of the paper, with what was measured in the same cells."""
    cells = records_of(result, "printed", PRINTED_COLUMNS)
    for title, group in grouped(cells, lambda cell: str(cell["table"])).items():
        entries = [Entry(str(cell["source"]), _row(cell)) for cell in group]
        table = pivot(entries, rows=("run", "model", "task", "state"), columns=("setting", "metric"), title=title)
        if table is not None:
            yield f"## Next to the printed numbers: {_text(title)}"
            yield "The number of another model than the paper's is there for orientation; it does not reproduce the printed one."
            yield from _table(table)


def _row(cell: Mapping[str, Any]) -> Row:
    value = math.nan if cell["value"] is None else float(cell["value"])
    texts: dict[str, Any] = {name: str(cell[name] or "") for name in ("metric", "model", "task", "state", "setting")}
    return Row(value=value, low=cell["low"], high=cell["high"], reason="not known" if math.isnan(value) else "", **texts)


def _table(table: Table) -> Iterator[str]:
    if table.note:
        yield _text(table.note)
    names = [f"{column.group} · {column.name}" if column.group else column.name for column in table.columns]
    count = min(table.lines, LINES)
    lines = [_line(map(_text, names)), _line("---:" if column.is_number else "---" for column in table.columns)]
    lines += [_line(_cell(column, i) for column in table.columns) for i in range(count)]
    yield "\n".join(lines)
    if table.lines > count:
        yield f"The first {count} of {table.lines:,} lines."


def _cell(column: Column, line: int) -> str:
    value = column.values[line]
    if not column.is_number:
        return "" if value is None else _text(value)
    if value is None or not math.isfinite(value):
        return "–"
    sd, low, high = (part[line] if part else None for part in (column.sd, column.low, column.high))
    if sd is not None:
        return f"{_number(value)} ± {_number(sd)}"
    return f"{_number(value)} [{_number(low)}, {_number(high)}]" if low is not None and high is not None else _number(value)


def _number(value: float) -> str:
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.3g}"
    return f"{value:.3g}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: object) -> str:
    """Any string on one line, with nothing in it that Markdown or HTML would take for markup."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", clean(text, TEXT))
