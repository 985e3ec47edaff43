"""How numbers, intervals and ranges are written in tables."""

from __future__ import annotations

import math


def number(value: float | None) -> str:
    """Four significant digits; a dash for what is not defined."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        text = f"{value:.4g}"
        return f"{value:.0f}" if "e" in text else text
    return f"{value:.2e}"


def interval(low: float | None, high: float | None) -> str:
    """[low, high], or nothing."""
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def size_of(count: int) -> str:
    """Bytes as people write them."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def direction(text: str) -> str:
    """Which way isotropy lies, in one short word."""
    return {"higher is isotropic": "high", "lower is isotropic": "low"}.get(text, "")
