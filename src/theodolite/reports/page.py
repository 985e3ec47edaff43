"""Results as one file: an HTML page that loads nothing and sends nothing, Markdown for a wiki, or LaTeX tables for a paper."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.core.files import require_free
from theodolite.core.pictures import COMMON
from theodolite.core.spelling import option
from theodolite.reports.blocks import Paragraph
from theodolite.reports.sections import page_content
from theodolite.reports.summary import TABLES_IN_BODY, body_blocks, opening_blocks
from theodolite.reports.tables import Column, Table, tables_of
from theodolite.reports.wording import COMMAND, clean, command_of, name_of

if TYPE_CHECKING:
    from theodolite.core.result import Result

ASSETS = Path(__file__).parent / "assets"
# What the head of every report contains: a file with it may be replaced by a newer report.
MARK = "theodolite-report"
PAGES, MARKDOWN, LATEX = (".html", ".htm"), ".md", ".tex"
# Lines of a table in Markdown or LaTeX, whose whole is in the result's own file; and characters of one string there.
LINES, TEXT = 60, 2_000
# All that could end a <script> element or a line of JavaScript is written as an escape, which JSON reads back as the same letter.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


# What LaTeX would take for a command, or has no letter for.
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--",
    "−": "$-$", "±": r"$\pm$", "→": r"$\rightarrow$", "²": "$^2$", "×": r"$\times$", "·": r"$\cdot$", "…": r"\dots{}",
}  # fmt: skip


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
        **content.context, common=_in_one_frame(results), mark=MARK,
        policy=content_policy(scripts, [style], nonce), nonce=nonce, style=style, early=early,
        plotly=packed_plotly() if plotly else "", script=script, data=data,
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
    """Plotly's JavaScript for flat figures, in the version that the Python package of the constraints ships whole."""
    return (ASSETS / "plotly" / "plotly-cartesian.min.js").read_text(encoding="utf-8")


@functools.cache
def packed_plotly() -> str:
    """The same compressed, as text: a third of its size. The page unpacks it, and its policy allows only what was packed."""
    return base64.b64encode(gzip.compress(plotly_script().encode("utf-8"), mtime=0)).decode("ascii")


def markdown_of(result: Result) -> str:
    """The Markdown of one result: what a terminal shows with every number, its declared tables, and the command."""
    paragraphs = [f"# {_text(result.title or name_of(result))}"]
    for block in [*opening_blocks(result), *body_blocks(result)]:
        paragraphs += [paragraph_line(block)] if isinstance(block, Paragraph) else table_lines(block)
    for table in tables_of([(name_of(result), result)]) if result.verb not in TABLES_IN_BODY else ():
        paragraphs += [f"## {_text(table.title)}", *table_lines(table)]
    command = command_of(result)
    if command:
        paragraphs += ["## The command", paragraph_line(Paragraph(command, is_code=True))]
    if result.notes:
        paragraphs += ["## Notes", "\n".join(f"- {_text(note)}" for note in result.notes)]
    return "\n\n".join(paragraphs) + "\n"


def paragraph_line(block: Paragraph) -> str:
    """A paragraph in Markdown; a command is a block of its own."""
    if block.is_code:
        lines = "\n".join(clean(line, COMMAND) for line in block.text.splitlines())
        return f"```text\n{lines.replace('```', '` ` `')}\n```"  # three backticks would end the block
    return f"**{_text(block.lead.strip())}** {_text(block.text)}".strip() if block.lead else _text(block.text)


def table_lines(table: Table) -> Iterator[str]:
    """A table in Markdown: its note, its lines, and where the rest is if it is cut."""
    if table.note:
        yield _text(table.note)
    cells = [
        [_with_minus(text) if column.is_number else _text(text) for text in column.texts()[:LINES]] for column in table.columns
    ]
    head = [_line(_text(column.heading) for column in table.columns)]
    head += [_line("---:" if column.is_number else "---" for column in table.columns)]
    yield "\n".join([*head, *map(_line, zip(*cells, strict=True))])
    if table.lines > LINES:
        yield f"The first {LINES} of {table.lines:,} lines; the HTML page of this result has them all."


def latex_of(result: Result) -> str:
    r"""Every table of a result as a `table` with a caption, for `\input` in a document that loads booktabs."""
    name = name_of(result)
    lines = [r"% needs \usepackage{booktabs}", f"% {clean(command_of(result) or name)}"]
    lines += [f"% {clean(block.lead + block.text, COMMAND)}" for block in opening_blocks(result)]
    for table in tables_of([(name, result)]):
        lines += ["", *_latex_table(table)]
    return "\n".join(lines) + "\n"


def _latex_table(table: Table) -> Iterator[str]:
    cut = f" The first {LINES} of {table.lines:,} lines." if table.lines > LINES else ""
    yield r"\begin{table}"
    yield r"\centering"
    yield rf"\caption{{{_latex(f'{table.title}. {table.note}{cut}'.strip())}}}"
    yield rf"\begin{{tabular}}{{{''.join('r' if column.is_number else 'l' for column in table.columns)}}}"
    yield r"\toprule"
    yield from _latex_heads(table.columns)
    yield r"\midrule"
    cells = [[_latex_cell(cell, column) for cell in column.texts()[:LINES]] for column in table.columns]
    # After a line's end, LaTeX reads what is in brackets as a distance: a first cell such as [CLS] must not begin with one.
    lines = (" & ".join(line) for line in zip(*cells, strict=True))
    yield from (rf"{'{}' if line.startswith('[') else ''}{line} \\" for line in lines)
    yield from (r"\bottomrule", r"\end{tabular}", r"\end{table}")


def _latex_heads(columns: tuple[Column, ...]) -> Iterator[str]:
    """The heads, with those that several columns share in a line above them."""
    if any(column.group for column in columns):
        heads, rules, first = [], [], 1
        for group, members in groupby(columns, key=lambda column: column.group):
            width = len(list(members))
            heads.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex(group)}}}" if group else " & ".join([""] * width))
            rules += [rf"\cmidrule(lr){{{first}-{first + width - 1}}}"] if group else []
            first += width
        yield rf"{' & '.join(heads)} \\"
        yield " ".join(rules)
    yield rf"{' & '.join(_latex(column.name) for column in columns)} \\"


def _latex_cell(text: str, column: Column) -> str:
    return _latex(_with_minus(text) if column.is_number else text)


def _with_minus(text: str) -> str:
    """Numbers with a minus sign for the hyphen before them; the one of an exponent (1e-05) stays."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)


def _latex(text: str) -> str:
    """Any string with nothing in it that LaTeX would take for a command."""
    signs = "|".join(map(re.escape, _SPECIAL))
    return re.sub(signs, lambda match: _SPECIAL[match[0]], clean(text, 2_000))


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
