"""Pictures of clouds as the page holds them: a few bytes a point, every sentence once."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.pictures import Picture
from theodolite.reports.plain import clean

COLOURS = {"frequency": "word frequency", "label": "label", "pos": "part of speech", "cluster": "cluster"}
"""Columns that points may be coloured by, and how they are called."""
CLASSES = 256
"""A column with more different values tells points apart by nothing that a colour could show."""
TOKEN, SENTENCE = 80, 400
"""Characters kept of a token and of a sentence."""
TEXT_BUDGET = 1_800_000
"""Bytes of all sentences together; where they are more, each is cut shorter, so that a page stays small enough to send."""
STEPS = 32_767
"""Places along an axis: far finer than any screen."""
STATES = ("pre-trained", "before", "fine-tuned", "after")


@dataclass
class Pool:
    """Strings that are kept once, however many points have them."""

    limit: int
    places: dict[str, int] = field(default_factory=dict)

    def codes(self, values: Sequence[Any]) -> NDArray[np.uint32]:
        kept: dict[Any, int] = {}  # cleaning is dearer than looking up
        for value in values:
            if value not in kept:
                text = clean(value, self.limit)
                kept[value] = self.places.setdefault(text, len(self.places))
        return np.fromiter((kept[value] for value in values), np.uint32, len(values))

    @property
    def strings(self) -> list[str]:
        return list(self.places)


@dataclass(frozen=True)
class Shown:
    """A picture of one run, to be shown."""

    run: str
    picture: Picture

    @property
    def kind(self) -> tuple[str, ...]:
        """What two pictures share that are the same texts seen by two states of a model."""
        about = self.picture.about
        return (self.run, *(str(about.get(name, "")) for name in ("model", "task", "layer")))


def clouds_document(shown: Sequence[Shown], *, text: bool = True) -> dict[str, Any]:
    """All pictures, and which of them stand side by side.

    Without `text` neither tokens nor sentences are in it.
    """
    tokens = Pool(TOKEN)
    sentences = Pool(_sentence_limit(shown) if text else 1)
    order = sorted(range(len(shown)), key=lambda i: (_first_of_kind(shown, i), _state(shown[i])))
    several = len({one.run for one in shown}) > 1
    pictures = [_picture(shown[i], tokens, sentences, text=text, several=several) for i in order]
    return {
        "pictures": pictures,
        "pairs": [
            {"title": " · ".join(part for part in titles if part), "at": at, "states": states}
            for titles, at, states in _pairs([shown[i] for i in order], several)
        ],
        "tokens": tokens.strings,
        "sentences": sentences.strings,
    }


def without_text(picture: Picture) -> Picture:
    """The picture without anything that its user wrote: only what points are coloured by is left."""
    kept = {name: values for name, values in picture.columns.items() if name in COLOURS and _is_shown(name, values)}
    return Picture(picture.points, picture.explained, picture.rows, picture.about, kept)


def _pairs(shown: Sequence[Shown], several: bool) -> list[tuple[list[str], list[int], bool]]:
    """(title, pictures, whether they are states of one model); pictures without a partner are paired with the next of those."""
    kinds: dict[tuple[str, ...], list[int]] = {}
    for i, one in enumerate(shown):
        kinds.setdefault(one.kind, []).append(i)
    pairs: list[tuple[list[str], list[int], bool]] = []
    single: list[int] = []
    for (run, model, task, layer), members in kinds.items():
        if len(members) == 1:
            single += members
            continue
        title = [
            clean(run, 60) if several else "",
            clean(model, 60),
            clean(task, 60),
            f"layer {clean(layer, 10)}" if layer else "",
        ]
        pairs += [(title, [members[0], other], True) for other in members[1:]]
    for start in range(0, len(single), 2):
        at = single[start : start + 2]
        pairs.append((["  and  ".join(_name(shown[i], several=several) for i in at)], at, False))
    return pairs


def _first_of_kind(shown: Sequence[Shown], place: int) -> int:
    return next(i for i, one in enumerate(shown) if one.kind == shown[place].kind)


def _state(one: Shown) -> int:
    state = str(one.picture.about.get("state", ""))
    return STATES.index(state) if state in STATES else len(STATES)


def _name(one: Shown, *, several: bool) -> str:
    about = one.picture.about
    layer = about.get("layer")
    parts = [
        one.run if several else "",
        about.get("model", ""),
        about.get("state", ""),
        "" if layer is None else f"layer {layer}",
    ]
    return " · ".join(clean(part, 60) for part in parts if part not in ("", None)) or "cloud"


def _picture(one: Shown, tokens: Pool, sentences: Pool, *, text: bool, several: bool) -> dict[str, Any]:
    picture = one.picture if text else without_text(one.picture)
    points = np.nan_to_num(np.asarray(picture.points, np.float64))
    reach = float(np.abs(points).max(initial=0.0)) or 1.0
    told: dict[str, Any] = {
        "name": _name(one, several=several),
        "state": clean(picture.about.get("state", ""), 60),
        "n": picture.n,
        "explained": [round(float(share), 4) for share in picture.explained],
        "reach": float(f"{reach:.5g}"),
        "points": _packed(np.rint(points / reach * STEPS).astype("<i2")),
        # Pictures of the same rows can be told point by point what became of each.
        "same": hashlib.sha256(np.ascontiguousarray(picture.rows, np.int64).tobytes()).hexdigest()[:12],
        "colours": [_colour(name, picture.columns[name]) for name in COLOURS if _is_shown(name, picture.columns.get(name, ()))],
    }
    for name, pool, column in (("token", tokens, "token"), ("text", sentences, "text")):
        if text and column in picture.columns:
            told[name] = _packed(pool.codes(picture.columns[column]).astype("<u4"))
    return told


def _is_shown(name: str, values: Sequence[Any]) -> bool:
    """Whether a column can colour points: numbers for frequencies, not too many classes otherwise."""
    known = [value for value in values if value is not None]
    if not known:
        return False
    if name == "frequency":
        return all(isinstance(value, (int, float, np.integer, np.floating)) for value in known)
    return len(set(known)) <= CLASSES


def _colour(name: str, values: Sequence[Any]) -> dict[str, Any]:
    if name == "frequency":
        numbers = np.array([math.nan if value is None else float(value) for value in values])
        numbers[~np.isfinite(numbers)] = math.nan
        low, high = (float(np.nanmin(numbers)), float(np.nanmax(numbers))) if not np.isnan(numbers).all() else (0.0, 1.0)
        codes = np.where(np.isnan(numbers), 255, np.rint((numbers - low) / ((high - low) or 1.0) * 254))
        return {
            "name": name,
            "title": COLOURS[name],
            "kind": "number",
            "low": low,
            "high": high,
            "codes": _packed(codes.astype("u1")),
        }
    counts: dict[Any, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    known = sorted((value for value in counts if value is not None), key=lambda value: _class_order(name, value, counts))
    places: dict[Any, int] = {value: i for i, value in enumerate(known)} | {None: 65_535}
    codes = np.fromiter((places[value] for value in values), "<u2", len(values))
    return {
        "name": name,
        "title": COLOURS[name],
        "kind": "class",
        "names": [clean(v, TOKEN) for v in known],
        "codes": _packed(codes),
    }


def _class_order(name: str, value: Any, counts: Mapping[Any, int]) -> tuple[Any, ...]:
    """The most frequent first, so that they get the clearest colours; clusters by number."""
    return (value,) if name == "cluster" and isinstance(value, (int, np.integer)) else (-counts[value], str(value))


def _sentence_limit(shown: Iterable[Shown]) -> int:
    different = {str(value) for one in shown for value in one.picture.columns.get("text", ()) if value is not None}
    lengths = np.array([min(len(text), SENTENCE) for text in different] or [0])
    limit = SENTENCE
    while limit > 40 and int(np.minimum(lengths, limit).sum()) > TEXT_BUDGET:
        limit = int(limit * 0.8)
    return limit


def _packed(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
