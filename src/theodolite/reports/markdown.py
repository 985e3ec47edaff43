"""A run as Markdown: the verdicts, the tables and where they come from, for a repository or a wiki."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from theodolite.core.rows import Row
from theodolite.reports.layouts import tables_of
from theodolite.reports.plain import clean
from theodolite.reports.tables import Column, Entry, Table, turned
from theodolite.reports.words import worded

if TYPE_CHECKING:
    from theodolite.core.result import Effect, Judged, Verdict
    from theodolite.reports.run_folder import RunData

SIGNS = {"holds": "✓", "does not hold": "✗", "not decidable here": "?"}
LINES = 60
"""Lines of a table that a page holds; the rows' file has them all."""
TEXT = 2000


def markdown_of(run: RunData) -> str:
    """The page of one run: verdicts first, then tables, printed numbers beside measured ones, and the command."""
    parts = [f"# {_text(run.title or run.name)}", *_verdicts(run.verdicts)]
    for table in tables_of([Entry(run.name, row) for row in run.rows]):
        parts += [f"## {_text(table.title)}", *_told(table)]
    parts += _printed(run)
    command = str(run.command or run.facts.get("command", ""))
    if command:
        parts += ["## The command", f"```text\n{clean(command, 2000)}\n```"]
    notes = [f"- {_text(str(note))}" for note in run.facts.get("notes", ())]
    if notes:
        parts += ["## Notes", "\n".join(notes)]
    return "\n\n".join(parts) + "\n"


def _verdicts(verdicts: Sequence[Verdict]) -> Iterable[str]:
    if not verdicts:
        return
    yield "## Verdicts"
    several = len({one.model for one in verdicts}) > 1
    for one in verdicts:
        whose = f", {_text(one.model)}" if several else ""
        yield f"### {SIGNS[one.measured.outcome]} {one.claim}{whose}: {_text(one.title)} – {one.measured.outcome}"
        yield _sentence(one.measured.why)
        if one.measured.effects:
            yield _effects(one.measured.effects)
        if one.printed:
            yield "On the paper's own rows:"
            yield "\n".join(map(_on_printed, one.printed))


def _on_printed(judged: Judged) -> str:
    return f"- {_text(judged.source)}: **{judged.outcome}**. {_sentence(judged.why)}"


def _sentence(why: str) -> str:
    text = _text(worded(why))
    return f"{text[:1].upper()}{text[1:]}."


def _effects(effects: Sequence[Effect]) -> str:
    lines = ["| effect | value | 95 % interval | from |", "|---|---:|---|---|"]
    for one in effects[:LINES]:
        interval = "" if one.low is None or one.high is None else f"{_number(one.low)} … {_number(one.high)}"
        lines.append(f"| {_text(worded(one.name))} | {_number(one.value)} | {interval} | {_text(one.how)} |")
    return "\n".join(lines)


def _printed(run: RunData) -> Iterable[str]:
    """Each printed table with the measured numbers in the same cells."""
    from theodolite.studies.check import check
    from theodolite.studies.spec import load_study, study_names

    name = next((row.study for row in run.rows if row.study), "")
    if name not in study_names():
        return
    study = load_study(name)
    found = check(study, run.rows, quick=bool(run.facts.get("quick")))
    for table in study.tables:
        cells = [one for one in found if one.table == table.name]
        entries = [Entry(one.source, one.row) for one in study.printed if one.table == table.name]
        here: dict[Row, None] = {}
        for one in cells:
            if one.measured is not None:
                fields = {field: getattr(one, field) for field in ("metric", "task", "state", "setting", "low", "high")}
                here[Row(value=one.measured, model=one.measured_model, **fields)] = None
        entries += [Entry("measured here", row) for row in here]
        shown = turned(entries, lines=("run", "model", "task", "state"), across=("setting", "metric"), title=table.title)
        if shown is not None and here:
            yield f"## Beside the printed numbers: {_text(table.title)}"
            yield "A number of another model than the paper's stands beside the printed one; it is no reproduction of it."
            yield from _told(shown)


def _told(table: Table) -> Iterable[str]:
    if table.note:
        yield _text(table.note)
    names = [f"{column.group} · {column.name}" if column.group else column.name for column in table.columns]
    kinds = ["---:" if column.is_number else "---" for column in table.columns]
    shown = min(table.lines, LINES)
    lines = [_line(map(_text, names)), _line(kinds)]
    lines += [_line(_cell(column, i) for column in table.columns) for i in range(shown)]
    yield "\n".join(lines)
    if table.lines > shown:
        yield f"The first {shown} of {table.lines:,} lines."


def _cell(column: Column, i: int) -> str:
    value = column.values[i]
    if not column.is_number:
        return "" if value is None else _text(str(value))
    if value is None or not math.isfinite(value):
        return "–"
    text = _number(value)
    if column.sd and column.sd[i] is not None:
        return f"{text} ± {_number(column.sd[i])}"
    if column.low and column.high and column.low[i] is not None and column.high[i] is not None:
        return f"{text} [{_number(column.low[i])}, {_number(column.high[i])}]"
    return text


def _number(value: Any) -> str:
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.3g}"
    return f"{value:.3g}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(text: str) -> str:
    """Anybody's string on one line, with nothing that Markdown or HTML would take for its own."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", clean(text, TEXT))
