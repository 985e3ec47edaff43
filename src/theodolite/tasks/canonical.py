"""Sentences of many domains that come with the package: pairs of different domains are unrelated, whatever a user's texts are."""

from __future__ import annotations

from theodolite.spaces.readers.data_files import locate
from theodolite.spaces.readers.delimited import DelimitedTable
from theodolite.tasks.formats import EMBEDDED


def canonical_sentences() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """250 English sentences, and the domain of each: 25 domains of 10.

    Returns
    -------
    tuple[tuple[str, ...], tuple[str, ...]]
        The sentences in their order, and the name of each one's domain.
    """
    table = DelimitedTable(locate(EMBEDDED / "domains.tsv"), delimiter="\t", quoting=False, has_header=True)
    rows = [cells for _, cells in table.select({"text": "text", "domain": "domain"})]
    return tuple(cells["text"] for cells in rows), tuple(cells["domain"] for cells in rows)
