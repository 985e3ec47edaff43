"""The points of clouds in few bytes, for a page that draws, links and recolours them itself."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.report.figures.cloud_colours import COLOURS, category, named, numbers
from theodolite.report.look import NAME, PALETTE, scale
from theodolite.report.plain import LIMIT, plain
from theodolite.spaces.picture import AXES, Picture

TEXT_BUDGET = 700_000
"""Characters that all different sentences may take together; of longer ones less is shown, the same of each."""
SHORTEST = 32
TOKEN = 60


def cloud_payload(pictures: Sequence[Picture], titles: Sequence[str], *, text: bool) -> dict[str, Any]:
    """Plain values for JSON. Arrays are `{"dtype", "bdata"}`, little-endian bytes in base64, which Plotly reads as they are.

    `panels`: for each picture `title`, `n`, `explained`, `x`, `y`, `z` (f4), and where there is text `token` and `sentence`,
    indices into the tables `tokens` and `sentences` (the table's length where a point has none). `colors` by name: `kind`
    "number" with `values` a panel (f4, nan unknown), `min`, `max`, or "category" with `names` and `codes` a panel (the number of
    names where unknown). `palette` and `scale` are the look's. Every string has been through `plain`: ready for
    Plotly's texts, and escaped once too often for textContent.
    """
    payload: dict[str, Any] = {
        "panels": [_panel(one, title) for one, title in zip(pictures, titles, strict=True)],
        "colors": {name: known for name in COLOURS if (known := _colour(pictures, name))},
        "palette": list(PALETTE),
        "scale": scale(),
        "tokens": [],
        "sentences": [],
    }
    if text:
        _add_text(payload, pictures)
    return payload


def packed(values: NDArray[Any]) -> dict[str, str]:
    """An array as Plotly takes it in JSON: its type and its bytes in base64."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return {"dtype": values.dtype.str[1:], "bdata": base64.b64encode(little.tobytes()).decode("ascii")}


def _panel(one: Picture, title: str) -> dict[str, Any]:
    places = {name: packed(np.ascontiguousarray(one.points[:, i], np.float32)) for i, name in enumerate(AXES)}
    return {"title": plain(title, NAME), "n": one.n, "explained": [float(share) for share in one.explained], **places}


def _colour(pictures: Sequence[Picture], name: str) -> dict[str, Any] | None:
    if not any(named(value) for one in pictures for value in one.columns.get(name, ())):
        return None
    if name == "frequency":
        columns = [numbers(one.columns.get(name, [None] * one.n)) for one in pictures]
        known = np.concatenate(columns)
        known = known[np.isfinite(known)]
        ends = {"min": float(known.min()), "max": float(known.max())} if known.size else {"min": 0.0, "max": 1.0}
        return {"kind": "number", "values": [packed(each) for each in columns], **ends}
    names = category(pictures, name)
    codes = [packed(_codes(names.codes(one), len(names.names))) for one in pictures]
    return {"kind": "category", "names": [plain(each, TOKEN) for each in names.names], "codes": codes}


def _add_text(payload: dict[str, Any], pictures: Sequence[Picture]) -> None:
    tokens = _table(pictures, "token")
    sentences = _table(pictures, "text")
    payload["tokens"] = [plain(token, TOKEN) for token in tokens]
    limit = max(SHORTEST, min(LIMIT, _limit([len(one) for one in sentences])))
    payload["sentences"] = [plain(one, limit) for one in sentences]
    for panel, one in zip(payload["panels"], pictures, strict=True):
        for name, column, table in (("token", "token", tokens), ("sentence", "text", sentences)):
            if table:
                indices = [table.get(named(value)) for value in one.columns.get(column, [None] * one.n)]
                panel[name] = packed(_codes(indices, len(table)))


def _table(pictures: Sequence[Picture], column: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in pictures:
        for value in one.columns.get(column, ()):
            if name := named(value):
                found.setdefault(name, len(found))
    return found


def _limit(lengths: Sequence[int]) -> int:
    """The largest number of characters that can be kept of each so that all fit the budget."""
    left, limit = TEXT_BUDGET, LIMIT
    for i, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - i)
        if length > share:
            return min(limit, share)
        left -= length
    return limit


def _codes(codes: Sequence[int | None], unknown: int) -> NDArray[Any]:
    kind = np.uint8 if unknown < 2**8 else np.uint16 if unknown < 2**16 else np.uint32
    return np.array([unknown if code is None else code for code in codes], kind)
