"""Which columns of a table hold the vectors: asked for by name, pattern or range, or told from the rest."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

ROW_NAMES = {"", "id", "ids", "idx", "index", "row", "row_id", "rowid", "label", "labels", "unnamed: 0", "__index_level_0__"}
"""Names that number or label a row. Taken for a dimension they would drown all others, so they are refused."""


def choose_columns(name: str, known: Sequence[str], asked: Sequence[str]) -> list[int]:
    """Positions of the asked columns: each a name, a range `first:last` (both included) or a pattern such as `dim_*`."""
    chosen: list[int] = []
    for wanted in asked:
        found = _positions(known, wanted)
        if not found:
            raise ValueError(f"{name} has no column {wanted!r}; it has {shortened(known)}")
        chosen.extend(found)
    repeated = next((known[i] for i in chosen if chosen.count(i) > 1), None)
    if repeated is not None:
        raise ValueError(f"column {repeated!r} is asked for twice; name every column once")
    return chosen


def refuse_row_names(name: str, known: Sequence[str]) -> None:
    """Raise where a column looks like a row number or a label, which nobody asked for by name."""
    for column in known:
        if column.strip().lower() in ROW_NAMES:
            rest = [other for other in known if other.strip().lower() not in ROW_NAMES]
            way_out = f" (--columns {rest[0]}:{rest[-1]})" if rest else " (--columns)"
            raise ValueError(
                f"{name}: column {column!r} looks like a row number or label, not a dimension; "
                f"choose the vector columns with columns={way_out}"
            )


def shortened(known: Sequence[str]) -> str:
    """Names for an error message: all of a few, the ends of many."""
    if len(known) <= 8:
        return ", ".join(known) or "none"
    return f"{', '.join(known[:4])}, …, {known[-1]} ({len(known)} columns)"


def _positions(known: Sequence[str], wanted: str) -> list[int]:
    if wanted in known:
        return [list(known).index(wanted)]
    first, colon, last = wanted.partition(":")
    if colon and first in known and last in known:
        low, high = list(known).index(first), list(known).index(last)
        return list(range(low, high + 1))
    return [i for i, column in enumerate(known) if fnmatchcase(column, wanted)]
