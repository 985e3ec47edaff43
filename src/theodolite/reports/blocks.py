"""Paragraphs and tables, shown in a terminal, as plain text or in a notebook; no number is ever cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.core.spelling import visible
from theodolite.reports.tables import Table

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2
# A terminal that says it is narrower is not believed: nothing could be read in it.
NARROWEST = 40
COLOURS = {"red": "#b3261e", "yellow": "#8a6100", "green": "#1b6e3c", "dim": "#6b7280"}


@dataclass(frozen=True)
class Paragraph:
    """Some text, wrapped where it is shown; with a lead in its style, the text is plain; a detail is shown on request."""

    text: str
    style: str = ""
    lead: str = ""
    indent: int = 0
    is_code: bool = False
    detail: bool = False


Block: TypeAlias = Paragraph | Table


def print_blocks(blocks: Sequence[Block], console: Console) -> None:
    """Print paragraphs and tables to a console, in its width and with its colours."""
    from rich.text import Text

    width = max(console.width, NARROWEST)
    # As `Text`, so that nothing in the data is read as markup, as the code of an emoji or as something to highlight.
    options: dict[str, Any] = {"no_wrap": True, "overflow": "ignore", "crop": False}
    after_table = False

    def write(text: Text, indent: int, wraps: bool = True) -> None:
        for line in text.wrap(console, width - indent) if wraps else [text]:
            line.rstrip()
            console.print(Text(" " * indent).append_text(line), **options)

    for block in blocks:
        if isinstance(block, Paragraph):
            # Notes on a table follow it at once, anything else after a blank line.
            if after_table and block.style != "dim":
                console.print()
                after_table = False
            style = f"{block.style} bold".strip() if block.lead else block.style
            text = Text(visible(block.lead), style).append(visible(block.text), "not bold default" if block.lead else "")
            write(text, block.indent, wraps=not block.is_code)
            continue
        if after_table:
            console.print()
        after_table = True
        lines, omitted = table_lines(block, width)
        console.print(Text("\n".join(lines)), **options)
        if omitted:
            write(Text(f"a wider display also shows: {', '.join(omitted)}", "dim"), 0)


def text_of_blocks(blocks: Sequence[Block], *, width: int = 100) -> str:
    """Paragraphs and tables as one plain string."""
    from rich.console import Console

    file = StringIO()
    # In a notebook a console would also display what it prints, next to the string.
    plain = Console(file=file, width=width, no_color=True, force_terminal=False, force_jupyter=False, highlight=False)
    print_blocks(blocks, plain)
    return file.getvalue().rstrip("\n")


def html_of_blocks(blocks: Sequence[Block]) -> str:
    """Paragraphs and tables as HTML for a notebook; every string is escaped."""
    pieces = [_html_table(block) if isinstance(block, Table) else _html_paragraph(block) for block in blocks]
    return f'<div style="font-family:system-ui,sans-serif;line-height:1.45">{"".join(pieces)}</div>'


def table_lines(table: Table, width: int) -> tuple[list[str], list[str]]:
    """The lines of a table that fits a width, and the names of the columns that were left out for it.

    If the table is still too wide without its optional columns, it comes in several parts, each with the first column.
    """
    from rich.cells import cell_len

    cells = [[visible(cell) for cell in (column.heading, *column.texts())] for column in table.columns]
    sizes = [max(map(cell_len, column)) for column in cells]
    are_numbers = [column.is_number for column in table.columns]
    shown = list(range(len(cells)))
    omitted: list[str] = []
    for i in reversed(range(len(cells))):
        if table.columns[i].optional and _total(sizes, shown) > width:
            shown.remove(i)
            omitted.insert(0, cells[i][0])
    lines: list[str] = []
    for group in _column_groups(shown, sizes, width):
        lines += [""] if lines else []
        for number in range(table.lines + 1):
            padded = []
            for i in group:
                space = " " * (sizes[i] - cell_len(cells[i][number]))
                padded.append(space + cells[i][number] if are_numbers[i] else cells[i][number] + space)
            lines += [""] if number - 1 in table.breaks else []
            lines.append((" " * GAP).join(padded).rstrip())
            lines += ["─" * _total(sizes, group)] if number == 0 else []
    return lines, omitted


def _column_groups(columns: Sequence[int], sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Groups of columns that fit the width, each led by the first column."""
    group = [columns[0]]
    for column in columns[1:]:
        if len(group) > 1 and _total(sizes, [*group, column]) > width:
            yield group
            group = [columns[0]]
        group.append(column)
    yield group


def _total(sizes: Sequence[int], columns: Sequence[int]) -> int:
    return sum(sizes[i] for i in columns) + GAP * (len(columns) - 1)


def _html_paragraph(block: Paragraph) -> str:
    colour = f"color:{COLOURS[block.style]};" if block.style in COLOURS else ""
    weight = "font-weight:600;" if block.style == "bold" or block.lead else ""
    text = f"<code>{escape(visible(block.text))}</code>" if block.is_code else escape(visible(block.text))
    if block.lead:
        text = f'<span style="{colour}{weight}">{escape(visible(block.lead))}</span>{text}'
        colour = weight = ""
    return f'<div style="margin-left:{block.indent}em;{colour}{weight}">{text}</div>'


def _html_table(table: Table) -> str:
    style = "padding:1px 10px 1px 0;white-space:nowrap;font-variant-numeric:tabular-nums"
    sides = ["right" if column.is_number else "left" for column in table.columns]
    columns = [[column.heading, *column.texts()] for column in table.columns]
    lines = []
    for number, cells in enumerate(zip(*columns, strict=True)):
        tag = "td" if number else "th"
        aligned = zip(cells, sides, strict=True)
        line = "".join(f'<{tag} style="text-align:{side};{style}">{escape(visible(cell))}</{tag}>' for cell, side in aligned)
        lines.append(f"<tr>{line}</tr>" if number else f"<thead><tr>{line}</tr></thead>")
    return f'<table style="border-collapse:collapse">{lines[0]}<tbody>{"".join(lines[1:])}</tbody></table>'
