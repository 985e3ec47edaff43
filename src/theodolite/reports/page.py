"""Results as one file: an HTML page that loads nothing and sends nothing, or Markdown for a repository or a wiki."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.core.files import require_free
from theodolite.core.pictures import COMMON
from theodolite.core.spelling import option
from theodolite.reports.blocks import Paragraph
from theodolite.reports.cards import interval_head, value_text, verdict_table
from theodolite.reports.first_screen import opening
from theodolite.reports.sections import page_content
from theodolite.reports.summary import opening_blocks
from theodolite.reports.tables import Column, Table, tables_of
from theodolite.reports.wording import (
    COMMAND,
    SEVERITY_LOOKS,
    clean,
    command_of,
    finding_numbers,
    name_of,
    outcome_look,
    standing,
    with_labels,
)

if TYPE_CHECKING:
    from theodolite.core.result import Finding, Result, Verdict

ASSETS = Path(__file__).parent / "assets"
# What the head of every report contains: a file with it may be replaced by a newer report.
MARK = "theodolite-report"
PAGES, MARKDOWN, LATEX = (".html", ".htm"), ".md", ".tex"
# Lines of a table in Markdown, whose whole is in the result's own file; and characters of one string there.
LINES, TEXT = 60, 2_000
# All that could end a <script> element or a line of JavaScript is written as an escape, which JSON reads back as the same letter.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def check_target(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """The path, if a report could be written there; called before long work rather than after it."""
    path = Path(path)
    if path.suffix.lower() not in (*PAGES, MARKDOWN, LATEX):
        raise ValueError(f"{path.name!r} does not end in .html, .md or .tex; name the report report.html, for example")
    require_free(path, overwrite=True)
    if path.exists() and not overwrite:
        with path.open("rb") as file:
            is_report = f'content="{MARK}"'.encode() in file.read(8192)  # the mark is in the head
        if not is_report:
            hint = f"choose another name, or replace it with {option('overwrite')}"
            raise FileExistsError(f"{path} exists and is not an HTML report; {hint}")
    return path


def report_html(results: Sequence[Result], *, text: bool = True) -> str:
    """The report of some results as one HTML page."""
    import jinja2

    if not results:
        raise ValueError("a report needs at least one result; none was given")
    content = page_content(results, text=text)
    data = {name: json_for_page(value) for name, value in content.data.items()}
    early = (ASSETS / "early.js").read_text(encoding="utf-8")
    plotly = plotly_script() if content.has_plots else ""
    script = '"use strict";\n(() => {\n' + _joined_assets("script", "js") + "})();\n"  # in one scope of their own
    style = _joined_assets("style", "css")
    scripts = [early, script, *([plotly] if plotly else [])]
    # From the content, so that the same results give the same bytes.
    nonce = hashlib.sha256("".join([*scripts, style, *data.values()]).encode("utf-8")).hexdigest()[:32]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,  # whatever a result contains is text
        undefined=jinja2.StrictUndefined,  # a name that the template misspells is an error, not nothing
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page: str = environment.get_template("page.html").render(
        **content.context | opening(results, content.context), common=_in_one_frame(results), mark=MARK,
        policy=content_policy(scripts, [style], nonce), nonce=nonce, style=style, early=early,
        plotly=plotly, script=script, data=data,
    )  # fmt: skip
    return page


def _in_one_frame(results: Sequence[Result]) -> bool:
    """Whether all clouds are drawn from the origin, on common directions."""
    frames = [picture.about.get("frame") for result in results for picture in result.pictures]
    return bool(frames) and all(frame == COMMON for frame in frames)


def json_for_page(value: Any) -> str:
    """A value as JSON that is safe inside a `<script>` element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES).encode("utf-8", "replace").decode("utf-8")


def content_policy(scripts: Sequence[str], styles: Sequence[str], nonce: str) -> str:
    """A Content-Security-Policy: nothing is loaded, nothing is sent, and only these scripts and styles are used."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_hash_source, scripts))}",
            f"style-src {' '.join(map(_hash_source, styles))} 'nonce-{nonce}'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


@functools.cache
def plotly_script() -> str:
    """Plotly's own JavaScript, as its package brings it."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    if "</script" in text.lower():
        raise ValueError("this version of Plotly cannot be written into a page: its JavaScript contains an end tag")
    return text


def markdown_of(result: Result) -> str:
    """The Markdown of one result: verdicts and findings, tables, printed numbers next to measured ones, and the command."""
    name = name_of(result)
    is_gate = result.verb == "gate"
    findings = _bounds(result.findings) if is_gate else _findings(result.findings)
    parts = [f"# {_text(result.title or name)}", *map(paragraph_line, opening_blocks(result))]
    parts += [*_verdicts(result.verdicts), *findings]
    for table in () if is_gate else tables_of([(name, result)]):
        parts += [f"## {_text(table.title)}", *table_lines(table)]
    command = command_of(result).replace("```", "` ` `")  # which would end the block
    if command:
        parts += ["## The command", f"```text\n{command}\n```"]
    if result.notes:
        parts += ["## Notes", "\n".join(f"- {_text(note)}" for note in result.notes)]
    return "\n\n".join(parts) + "\n"


def paragraph_line(block: Paragraph) -> str:
    """A paragraph in Markdown; a command is a block of its own."""
    if block.is_code:
        return f"```text\n{clean(block.text, COMMAND).replace('```', '` ` `')}\n```"  # which would end the block
    return f"**{_text(block.lead.strip())}** {_text(block.text)}" if block.lead else _text(block.text)


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[str]:
    if verdicts:
        yield "## Verdicts"
        yield from verdict_lines(verdicts)
    several = len({verdict.model for verdict in verdicts}) > 1
    for verdict in verdicts:
        measured = verdict.measured
        claim = f"{verdict.claim}, {verdict.model}" if several else verdict.claim
        yield f"### {outcome_look(measured.outcome)[0]} {_text(f'{claim}: {verdict.title} – {measured.outcome}')}"
        yield _sentence(measured.why)
        if measured.effects:
            mixed = (head := interval_head(measured.effects)) == "value, interval"
            columns = {
                "effect": [with_labels(effect.name) for effect in measured.effects],
                head: [value_text(effect, with_level=mixed) for effect in measured.effects],
                "from": [effect.how for effect in measured.effects],
            }
            yield from table_lines(Table("", tuple(Column(name, values) for name, values in columns.items())))
        if words := standing(measured).strip():
            yield _text(words)
        if verdict.stated:
            yield f"The paper: {_text(verdict.stated)}"
        if verdict.printed:
            yield "On the paper's own rows:"
            yield "\n".join(
                f"- {_text(judged.source)}: **{_text(judged.outcome)}**. {_sentence(judged.why)}" for judged in verdict.printed
            )


def verdict_lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A Markdown table of claims down and models across; for a single model with the effects that decide each outcome."""
    table = verdict_table([("", verdicts)])
    columns = [Column("claim", [f"{line['claim']}: {line['title']}" for line in table["lines"]])]
    for i, head in enumerate(table["heads"]):
        cells = [line["cells"][i] for line in table["lines"]]
        words = ["" if cell is None else f"{cell['sign']} {cell['outcome']}" for cell in cells]
        columns.append(Column(head or "outcome", words))
        if len(table["heads"]) == 1:
            effects = [[] if cell is None else [f"{name} {value}" for name, value in cell["effects"]] for cell in cells]
            columns.append(Column("what decides it", ["; ".join(each) for each in effects]))
    yield from table_lines(Table("", tuple(columns)))


def _sentence(why: str) -> str:
    text = _text(with_labels(why)).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    unhealthy = sorted((finding for finding in findings if finding.severity), key=lambda finding: -finding.severity)
    if unhealthy:
        yield "## Findings"
        yield "\n".join(
            f"- **{_text(f'{finding.verdict}: {finding.topic}')}** ({_text(finding_numbers(finding))}). "
            f"{_text(finding.meaning)}{f' → {_text(finding.action)}' if finding.action else ''}"
            f"{f' `{clean(finding.command, COMMAND)}`' if finding.command else ''}"
            for finding in unhealthy
        )


def _bounds(findings: Sequence[Finding]) -> Iterator[str]:
    """The bounds of a gate, broken ones first, as a table for a pull request."""
    ordered = sorted(findings, key=lambda finding: -finding.severity)
    columns: dict[str, list[Any]] = {
        "": [SEVERITY_LOOKS[finding.verdict][0] for finding in ordered],
        "bound": [finding.topic for finding in ordered],
        "layer": ["" if finding.layer is None else str(finding.layer) for finding in ordered],
        "value": [finding.value for finding in ordered],
        "allowed": [finding.healthy for finding in ordered],
        "broken because": [finding.meaning if finding.severity else "" for finding in ordered],
    }
    yield from table_lines(Table("", tuple(Column(name, values) for name, values in columns.items() if any(map(str, values)))))


def table_lines(table: Table) -> Iterator[str]:
    """A table in Markdown: its note, its lines, and where the rest is if it is cut."""
    if table.note:
        yield _text(table.note)
    cells = [column.texts()[:LINES] if column.is_number else map(_text, column.texts()[:LINES]) for column in table.columns]
    head = [_line(_text(column.heading) for column in table.columns)]
    head += [_line("---:" if column.is_number else "---" for column in table.columns)]
    yield "\n".join([*head, *map(_line, zip(*cells, strict=True))])
    if table.lines > LINES:
        yield f"The first {LINES} of {table.lines:,} lines; the HTML page of this result has them all."


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: object) -> str:
    """Any string on one line, with nothing in it that Markdown or HTML would take for markup."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", clean(text, TEXT))


@functools.cache
def _joined_assets(folder: str, ending: str) -> str:
    files = sorted((ASSETS / folder).glob(f"*.{ending}"))
    return "\n".join(file.read_text(encoding="utf-8").strip() for file in files) + "\n"


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
