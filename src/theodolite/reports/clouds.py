"""Pictures of clouds, prepared once for the page and for plots: which are side by side, and what their points are coloured by."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.pictures import COMMON, Picture
from theodolite.core.states import state_order, state_title
from theodolite.reports.wording import clean

# Columns of a picture that its points may be coloured by, and what they are called.
COLOURS = {"frequency": "word frequency (Zipf scale)", "label": "label", "pos": "part of speech", "cluster": "cluster"}
# A column with more different values than this is not a colour.
MOST_CLASSES = 256
# Classes that have a colour of their own; the others are grey.
OWN_COLOURS = 12
# Characters that the page keeps of a token and of a sentence.
TOKEN, SENTENCE = 80, 400
# Characters of all sentences of a page together; if they are more, each is cut shorter, so that the page stays small.
TEXT_BUDGET = 1_800_000
# Positions along an axis on the page: far finer than any screen, and two bytes each.
STEPS = 32_767


@dataclass(frozen=True)
class Colouring:
    """What the points of some pictures are coloured by: numbers between two bounds, or one of several classes."""

    column: str
    names: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0

    @classmethod
    def of(cls, pictures: Sequence[Picture], column: str) -> Colouring:
        """The colouring by one column, the same for all of these pictures."""
        if column == "frequency":
            numbers = np.concatenate([cls(column).numbers(picture) for picture in pictures])
            finite = numbers[np.isfinite(numbers)]
            return cls(column, low=float(finite.min()), high=float(finite.max())) if finite.size else cls(column)
        counts = Counter(name for picture in pictures for name in _names(picture, column) if name)
        if all(name.lstrip("-").isdecimal() for name in counts):  # numbers of clusters
            return cls(column, tuple(sorted(counts, key=int)))
        return cls(column, tuple(sorted(counts, key=lambda name: (-counts[name], name))))

    @property
    def title(self) -> str:
        """What the column is called."""
        return COLOURS[self.column]

    @property
    def is_number(self) -> bool:
        """Whether points are coloured by a number."""
        return self.column == "frequency"

    def numbers(self, picture: Picture) -> NDArray[np.float64]:
        """The number of each point; nan if it is not known, or if the column of this picture does not hold numbers."""
        values = picture.columns[self.column] if is_colour(picture, self.column) else [None] * picture.n
        numbers = np.array([None if _is_missing(value) else value for value in values], np.float64)  # None becomes nan
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def classes(self, picture: Picture) -> NDArray[np.int64]:
        """The place of each point's class among the names; -1 if it is not known."""
        numbers = {name: i for i, name in enumerate(self.names)}
        return np.array([numbers.get(name, -1) for name in _names(picture, self.column)], np.int64)


@dataclass(frozen=True, eq=False)
class CloudGroup:
    """Pictures with the same colours: all states of one cloud, earliest first, or two clouds that have no other state."""

    pictures: tuple[Picture, ...]
    runs: tuple[str, ...]
    are_states: bool

    @cached_property
    def colourings(self) -> tuple[Colouring, ...]:
        """Everything that the points can be coloured by, the default first."""
        columns = [name for name in COLOURS if any(is_colour(picture, name) for picture in self.pictures)]
        return tuple(Colouring.of(self.pictures, name) for name in columns)

    @property
    def pairs(self) -> list[tuple[int, ...]]:
        """Places of the pictures that are shown side by side: the first one and each of the others."""
        return [(0, i) for i in range(1, len(self.pictures))] or [(0,)]


def group_clouds(pictures: Iterable[tuple[str, Picture]]) -> list[CloudGroup]:
    """Pictures as groups: the states of a model, layer and task together; clouds without another state, two and two."""
    kinds: dict[tuple[str, ...], list[tuple[str, Picture]]] = {}
    for run, picture in pictures:
        if picture.n:
            origin = (str(picture.about.get(name, "")) for name in ("model", "task", "layer"))
            kinds.setdefault((run, *origin), []).append((run, picture))
    # The same model, task and layer means the same texts in several states.
    single = [members[0] for members in kinds.values() if len(members) == 1]
    several = [members for members in kinds.values() if len(members) > 1]
    together = [(sorted(members, key=lambda member: state_order(_state(member[1]))), True) for members in several]
    together += [(single[i : i + 2], False) for i in range(0, len(single), 2)]
    return [
        CloudGroup(tuple(picture for _, picture in members), tuple(run for run, _ in members), are_states)
        for members, are_states in together
    ]


def words_of(picture: Picture, fields: Iterable[str]) -> list[str]:
    """What a picture is of, in words that are cleaned, not escaped; what is not known is left out."""
    values = {name: picture.about.get(name) for name in fields}
    titles = {name: f"layer {value}" if name == "layer" else state_title(str(value)) for name, value in values.items()}
    return [clean(title, 60) for name, title in titles.items() if values[name] not in ("", None)]


def is_colour(picture: Picture, column: str) -> bool:
    """Whether points can be coloured by a column: numbers as frequencies, and otherwise not too many classes."""
    values = [value for value in picture.columns.get(column, ()) if not _is_missing(value)]
    if column == "frequency":
        return bool(values) and all(isinstance(value, (int, float, np.integer, np.floating)) for value in values)
    return 0 < len(set(values)) <= MOST_CLASSES


def clouds_document(pictures: Iterable[tuple[str, Picture]], *, text: bool = True) -> dict[str, Any]:
    """All pictures as the page's viewer reads them: a few bytes per point, every sentence once."""
    groups = group_clouds((run, picture if text else _without_text(picture)) for run, picture in pictures)
    tokens, sentences = _Strings(TOKEN), _Strings(_sentence_limit(groups))
    several = len({run for group in groups for run in group.runs}) > 1
    packed: list[dict[str, Any]] = []
    pairs = []
    for number, group in enumerate(groups):
        runs = [[clean(run, 60)] if several else [] for run in group.runs]
        members = zip(runs, group.pictures, strict=True)
        names = [" · ".join(run + words_of(picture, ("model", "state", "layer"))) or "cloud" for run, picture in members]
        title = " · ".join(runs[0] + words_of(group.pictures[0], ("model", "task", "layer")))
        for pair in group.pairs:
            name = title if group.are_states else "  and  ".join(names[i] for i in pair)
            at = [len(packed) + i for i in pair]
            pairs.append({"title": name, "at": at, "states": group.are_states, "group": number})
        packed += [_pack(picture, names[i], group, tokens, sentences) for i, picture in enumerate(group.pictures)]
        _share_a_view(packed[-len(group.pictures) :], group.pictures)
    return {
        "pictures": packed,
        "pairs": pairs,
        "groups": [[_describe(colouring) for colouring in group.colourings] for group in groups],
        "tokens": list(tokens.numbers),
        "sentences": list(sentences.numbers),
        "ownColours": OWN_COLOURS,
    }


@dataclass
class _Strings:
    """Strings that are kept once, however many points have them."""

    limit: int
    numbers: dict[str, int] = field(default_factory=dict)

    def codes(self, values: Sequence[Any]) -> NDArray[np.uint32]:
        codes: dict[Any, int] = {}  # cleaning takes longer than looking up
        for value in values:
            if value not in codes:
                codes[value] = self.numbers.setdefault(clean(value, self.limit), len(self.numbers))
        return np.fromiter((codes[value] for value in values), np.uint32, len(values))


def _pack(picture: Picture, name: str, group: CloudGroup, tokens: _Strings, sentences: _Strings) -> dict[str, Any]:
    points = np.nan_to_num(np.asarray(picture.points, np.float64))  # one bad point must not hide all others
    reach = float(np.abs(points).max(initial=0.0)) or 1.0
    packed: dict[str, Any] = {
        "name": name,
        "state": clean(state_title(_state(picture)), 60),
        "n": picture.n,
        "explained": [round(float(share), 4) for share in picture.explained],
        "reach": float(f"{reach:.5g}"),
        "points": _base64(np.rint(points / reach * STEPS).astype("<i2")),
        # Pictures of the same rows can mark in both panels what is pointed at in one.
        "same": hashlib.sha256(np.ascontiguousarray(picture.rows, np.int64).tobytes()).hexdigest()[:12],
        "codes": {by.column: _codes(by, picture) for by in group.colourings if is_colour(picture, by.column)},
    }
    for column, strings in (("token", tokens), ("text", sentences)):
        if column in picture.columns:
            packed[column] = _base64(strings.codes(picture.columns[column]).astype("<u4"))
    return packed


def _share_a_view(packed: Sequence[dict[str, Any]], pictures: Sequence[Picture]) -> None:
    """Give clouds that are drawn in one frame the ends of one view, with the origin in it."""
    if any(picture.about.get("frame") != COMMON for picture in pictures):
        return
    points = np.concatenate([np.nan_to_num(np.asarray(picture.points, np.float64)) for picture in pictures])
    low, high = (np.quantile(points, share, axis=0) for share in (0.005, 0.995))
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    for cloud in packed:  # in the steps of this cloud's own coordinates
        scale = STEPS / cloud["reach"]
        cloud["ends"] = [[round(float(a) * scale), round(float(b) * scale)] for a, b in zip(low, high, strict=True)]


def _codes(colouring: Colouring, picture: Picture) -> str:
    """The points' classes in two bytes each (65535: not known), or their numbers in one (255: not known)."""
    if not colouring.is_number:
        return _base64(colouring.classes(picture).astype("<u2"))  # -1 becomes 65535
    numbers = colouring.numbers(picture)
    share = (numbers - colouring.low) / ((colouring.high - colouring.low) or 1.0)
    return _base64(np.where(np.isfinite(numbers), np.rint(share * 254), 255).astype("u1"))


def _describe(colouring: Colouring) -> dict[str, Any]:
    facts = {"name": colouring.column, "title": colouring.title, "kind": "number" if colouring.is_number else "class"}
    if colouring.is_number:
        return {**facts, "low": colouring.low, "high": colouring.high}
    return {**facts, "names": list(colouring.names)}


def _without_text(picture: Picture) -> Picture:
    """The picture without texts and tokens: only what its points are coloured by is left."""
    columns = {name: values for name, values in picture.columns.items() if name in COLOURS and is_colour(picture, name)}
    return replace(picture, columns=columns)


def _sentence_limit(groups: Iterable[CloudGroup]) -> int:
    texts = {value for group in groups for picture in group.pictures for value in picture.columns.get("text", ())}
    lengths = np.array([min(len(str(text)), SENTENCE) for text in texts if text is not None] or [0])
    limit = SENTENCE
    while limit > 40 and int(np.minimum(lengths, limit).sum()) > TEXT_BUDGET:
        limit = int(limit * 0.8)
    return limit


def _state(picture: Picture) -> str:
    return str(picture.about.get("state") or "")


def _names(picture: Picture, column: str) -> list[str]:
    """The class of each point, cleaned; empty if it is not known."""
    values = picture.columns.get(column, [None] * picture.n)
    # Cleaned once per value, not once per point.
    names = {value: "" if _is_missing(value) else clean(value, TOKEN) for value in set(values)}
    return [names[value] for value in values]


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or value != value  # nan is not equal to itself


def _base64(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
