"""Results as text: readable at 80 columns and less, plain in a pipe, with no number ever cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from theodolite.reports.summary import Block, Paragraph, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

GAP = 2
NARROWEST = 40


def print_blocks(blocks: Sequence[Block], console: Console) -> None:
    """Print paragraphs and tables to a console, in its width and with its colours.

    Parameters
    ----------
    blocks
        What to print.
    console
        Where to; a pipe gets neither colours nor cursor movements.
    """
    from rich.padding import Padding

    width = max(console.width, NARROWEST)
    for i, block in enumerate(blocks):
        if isinstance(block, Table):
            for line in table_lines(block, width):
                console.print(line, markup=False, highlight=False, no_wrap=True, overflow="ignore", crop=False)
            if i + 1 < len(blocks) and not (isinstance(blocks[i + 1], Paragraph) and blocks[i + 1].style == "dim"):  # type: ignore[union-attr]
                console.print()
        else:
            console.print(Padding(_styled(block), (0, 0, 0, block.indent), expand=False))


def text_of_blocks(blocks: Sequence[Block], *, width: int = 100) -> str:
    """Paragraphs and tables as one plain string."""
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=width, no_color=True, force_terminal=False, highlight=False)
    print_blocks(blocks, console)
    return str(console.file.getvalue()).rstrip("\n")  # type: ignore[attr-defined]


def table_lines(table: Table, width: int) -> Iterator[str]:
    """The lines of a table that fits a width: with fewer columns, or in several parts, never with cut cells."""
    kept = list(range(len(table.headings)))
    sizes = _sizes(table)
    for column in table.optional:
        if _total(sizes, kept) <= width:
            break
        kept.remove(column)
    first = True
    for part in _parts(kept, sizes, width) if table.splits else [kept]:
        if not first:
            yield ""
        first = False
        yield from _lines(table, part, sizes)


def _lines(table: Table, columns: Sequence[int], sizes: Sequence[int]) -> Iterator[str]:
    yield _line([table.headings[i] for i in columns], table, columns, sizes)
    yield "─" * _total(sizes, columns)
    for number, row in enumerate(table.rows):
        if number in table.breaks:
            yield ""
        yield _line([row[i] for i in columns], table, columns, sizes)


def _line(cells: Sequence[str], table: Table, columns: Sequence[int], sizes: Sequence[int]) -> str:
    from rich.cells import cell_len

    padded = []
    for cell, column in zip(cells, columns, strict=True):
        text = visible(cell)
        space = " " * (sizes[column] - cell_len(text))
        padded.append(text + space if column in table.left else space + text)
    return (" " * GAP).join(padded).rstrip()


def _parts(columns: Sequence[int], sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Groups of columns that fit the width, each led by the first column."""
    head, rest = columns[0], list(columns[1:])
    part = [head]
    for column in rest:
        if len(part) > 1 and _total(sizes, [*part, column]) > width:
            yield part
            part = [head]
        part.append(column)
    yield part


def _sizes(table: Table) -> list[int]:
    from rich.cells import cell_len

    lines = [table.headings, *table.rows]
    return [max(cell_len(visible(line[i])) for line in lines) for i in range(len(table.headings))]


def _total(sizes: Sequence[int], columns: Sequence[int]) -> int:
    return sum(sizes[i] for i in columns) + GAP * (len(columns) - 1)


def _styled(paragraph: Paragraph) -> Text:
    from rich.text import Text

    if not paragraph.lead:
        return Text(visible(paragraph.text), style=paragraph.style)
    style = paragraph.style if paragraph.style == "bold" else f"bold {paragraph.style}"
    return Text(visible(paragraph.lead), style=style).append(visible(paragraph.text), style="not bold default")


def visible(text: str) -> str:
    """The text with control characters, which could steer the terminal, replaced by a visible sign."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
