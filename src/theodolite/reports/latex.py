r"""A result's tables in LaTeX, as papers set them: booktabs' rules, heads over several columns, intervals after the values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from theodolite.reports.summary import opening_blocks
from theodolite.reports.tables import Column, Table, tables_of
from theodolite.reports.wording import COMMAND, clean, command_of, name_of

if TYPE_CHECKING:
    from theodolite.core.result import Result

# Lines of a table, as on a Markdown page.
LINES = 60
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--",
    "−": "$-$", "±": r"$\pm$", "→": r"$\rightarrow$", "²": "$^2$", "×": r"$\times$", "·": r"$\cdot$", "…": r"\dots{}",
}  # fmt: skip


def latex_of(result: Result) -> str:
    r"""Every table of a result as a `table` with a caption, for `\input` in a document that loads booktabs."""
    name = name_of(result)
    lines = [r"% needs \usepackage{booktabs}", f"% {clean(command_of(result) or name)}"]
    lines += [f"% {clean(block.lead + block.text, COMMAND)}" for block in opening_blocks(result)]
    for table in tables_of([(name, result)]):
        lines += ["", *_table(table)]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> Iterator[str]:
    cut = f" The first {LINES} of {table.lines:,} lines." if table.lines > LINES else ""
    yield r"\begin{table}"
    yield r"\centering"
    yield rf"\caption{{{_text(f'{table.title}. {table.note}{cut}'.strip())}}}"
    yield rf"\begin{{tabular}}{{{''.join('r' if column.is_number else 'l' for column in table.columns)}}}"
    yield r"\toprule"
    yield from _heads(table.columns)
    yield r"\midrule"
    cells = [[_cell(cell, column) for cell in column.texts()[:LINES]] for column in table.columns]
    # After a line's end, LaTeX reads what is in brackets as a distance: a first cell such as [CLS] must not begin with one.
    lines = (" & ".join(line) for line in zip(*cells, strict=True))
    yield from (rf"{'{}' if line.startswith('[') else ''}{line} \\" for line in lines)
    yield from (r"\bottomrule", r"\end{tabular}", r"\end{table}")


def _heads(columns: tuple[Column, ...]) -> Iterator[str]:
    """The heads, with those that several columns share in a line above them."""
    if any(column.group for column in columns):
        heads, rules, place = [], [], 1
        for group, members in groupby(columns, key=lambda column: column.group):
            width = len(list(members))
            heads.append(rf"\multicolumn{{{width}}}{{c}}{{{_text(group)}}}" if group else " & ".join([""] * width))
            rules += [rf"\cmidrule(lr){{{place}-{place + width - 1}}}"] if group else []
            place += width
        yield rf"{' & '.join(heads)} \\"
        yield " ".join(rules)
    yield rf"{' & '.join(_text(column.name) for column in columns)} \\"


def _cell(text: str, column: Column) -> str:
    # A hyphen before a number is a minus sign; the one of an exponent (1e-05) stays.
    return _text(re.sub(r"(?<![\w.])-(?=[\d.])", "−", text) if column.is_number else text)


def _text(text: str) -> str:
    """Any string with nothing in it that LaTeX would take for a command."""
    signs = "|".join(map(re.escape, _SPECIAL))
    return re.sub(signs, lambda match: _SPECIAL[match[0]], clean(text, 2_000))
