"""Results in a notebook: the same paragraphs and tables as in a terminal, as escaped HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from theodolite.reports.summary import Block, Paragraph, Table
from theodolite.reports.terminal import visible

COLOURS = {"red": "#b3261e", "yellow": "#8a6100", "green": "#1b6e3c", "dim": "#6b7280"}


def html_of_blocks(blocks: Sequence[Block]) -> str:
    """Paragraphs and tables as HTML; every string is escaped.

    Parameters
    ----------
    blocks
        What to show.
    """
    return f'<div style="font-family:system-ui,sans-serif;line-height:1.45">{"".join(_parts(blocks))}</div>'


def _parts(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        yield _table(block) if isinstance(block, Table) else _paragraph(block)


def _paragraph(block: Paragraph) -> str:
    colour = f"color:{COLOURS[block.style]};" if block.style in COLOURS else ""
    weight = "font-weight:600;" if block.style == "bold" or block.lead else ""
    text = escape(visible(block.text))
    if block.lead:
        lead = f'<span style="{colour}{weight}">{escape(visible(block.lead))}</span>'
        return f'<div style="margin-left:{block.indent}em">{lead}{text}</div>'
    return f'<div style="margin-left:{block.indent}em;{colour}{weight}">{text}</div>'


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        sides = ("left" if i in table.left else "right" for i in range(len(cells)))
        style = "padding:1px 10px 1px 0;white-space:nowrap;font-variant-numeric:tabular-nums"
        return "".join(
            f'<{tag} style="text-align:{side};{style}">{escape(visible(cell))}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )

    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in table.rows)
    head = f"<thead><tr>{row(table.headings, 'th')}</tr></thead>"
    return f'<table style="border-collapse:collapse">{head}<tbody>{body}</tbody></table>'
