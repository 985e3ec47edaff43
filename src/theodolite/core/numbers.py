"""How numbers, intervals and sizes are written for people, in a terminal, in a notebook and on the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

LISTED = 5  # row numbers in a sentence


def number_text(value: float | None) -> str:
    """Four significant digits; a dash for what is not defined.

    >>> [number_text(value) for value in (0.46731, 12345.6, 0.000667, None)]
    ['0.4673', '12346', '6.67e-04', '–']
    """
    if value is None or math.isnan(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        text = f"{value:.4g}"
        return f"{value:.0f}" if "e" in text else text
    return f"{value:.2e}"


def short_number(value: float | None) -> str:
    """Two or three significant digits, for cells that hold two numbers; a dash for what is not defined."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"


def interval_text(low: float | None, high: float | None, *, form: str = "") -> str:
    """[low, high], with four significant digits or in a format, or nothing if there is no interval.

    >>> interval_text(0.25, 1.0), interval_text(0.25, 1.0, form="+.3f"), interval_text(None, None)
    ('[0.25, 1]', '[+0.250, +1.000]', '')
    """
    if low is None or high is None:
        return ""
    return f"[{low:{form}}, {high:{form}}]" if form else f"[{number_text(low)}, {number_text(high)}]"


def share_text(value: float) -> str:
    """A share in per cent, with a digit more near both ends.

    >>> [share_text(value) for value in (0, 0.012, 0.5, 0.999)]
    ['0%', '1.2%', '50%', '99.9%']
    """
    return f"{value:.1%}" if 0 < value < 0.0995 or 0.99 < value < 1 else f"{value:.0%}"


def listed_rows(rows: Sequence[int], n: int = 0) -> str:
    """A few row numbers, and how many there are of how many.

    >>> listed_rows([3, 8], 1200)
    '2 of 1,200: rows 3, 8'
    """
    first = ", ".join(map(str, rows[:LISTED])) + (", …" if len(rows) > LISTED else "")
    return f"{len(rows):,} of {n:,}: rows {first}" if n else f"rows {first}"


def bytes_text(count: int) -> str:
    """A number of bytes with its unit.

    >>> bytes_text(2_500_000)
    '2.5 MB'
    """
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def duration_text(seconds: float) -> str:
    """Seconds, or minutes from one minute on, or hours from two hours on."""
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
