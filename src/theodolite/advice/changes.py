"""Changes to try on vectors: repairs over a small grid, and compression, alone and after a repair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from theodolite.advice.scorers import Transform
from theodolite.core.moments import Doubles, Moments
from theodolite.core.spectrum import eigenpairs
from theodolite.core.spelling import TypedInput, command
from theodolite.core.vectors import Floats, Source, array
from theodolite.repairs import REPAIRS, make_repair, scaled_count

DIRECTIONS = (1, 2, 5, 12)
CLUSTERS = {5: 3, 27: 12}
"""Clusters, and the directions that each loses: few clusters are large; 27 and 12 are RP21's."""
POWERS = (0.25, 0.5, 0.75)
ROGUE = (1, 3)
SHARES = (2, 4)  # dimensions are cut to a half and to a quarter
CODES = {"float16": 0.5, "int8": 0.25, "binary": 1 / 32}
"""Quantisations, with their size as a share of float32."""


@dataclass(frozen=True)
class Change:
    """A repair, a compression, or a compression after a repair; neither leaves the vectors as they are."""

    repair: str = ""
    settings: tuple[tuple[str, Any], ...] = ()
    code: str = ""

    def __str__(self) -> str:
        repair = " ".join([self.repair, *(f"{name}={value}" for name, value in self.settings)]) if self.repair else ""
        return f"{self.code} after {repair}" if repair and self.code else repair or self.code or "leave it alone"

    def size(self, d: int) -> float:
        """Bytes of a vector as a share of float32 with d dimensions."""
        return CODES[self.code] if self.code in CODES else int(self.code.split()[1]) / d if self.code else 1.0

    def commands(self, source: TypedInput, *others: str, **pairs: str) -> str:
        """The command lines, or the call in Python, that fit the repair on the vectors and apply it, to be pasted.

        An affine repair of an encoder's vectors is put inside the encoder.
        """
        learns = pairs if self.repair == "weighted" else {}
        fit = source.fit(self.repair, to="my-repair", **dict(self.settings), **learns)
        if not source.path:
            return f"{fit}.transform(X)"
        if source.model and REPAIRS[self.repair].is_affine:
            return f"{fit} && {command('repair export my-repair', source.model, to='my-model-repaired')}"
        applied = [
            command("repair apply my-repair", path, to=f"repaired{f'-{number}' if number else ''}.npy", **source.options)
            for number, path in enumerate([source.path, *others], start=0 if not others else 1)
        ]
        return " && ".join([fit, *applied])

    @property
    def before(self) -> Change:
        """The repair alone."""
        return Change(self.repair, self.settings)

    def fit(self, data: Source, pairs: tuple[Floats, Floats, Doubles] | None = None, *, seed: int = 0) -> Transform:
        """The change, learned from some rows, as a function of vectors."""
        return fit_all([self], data, pairs, seed=seed)[self]


def fit_all(
    changes: Iterable[Change], data: Source, pairs: tuple[Floats, Floats, Doubles] | None = None, *, seed: int = 0
) -> dict[Change, Transform]:
    """Changes that share one repair, each learned from the same rows: the repair is fitted once."""
    changes = list(changes)
    first = changes[0]
    if not first.repair:
        return {change: fit_code(change.code, data) for change in changes}
    repair = make_repair(first.repair, seed=seed, **dict(first.settings))
    if hasattr(repair, "fit_pairs") and pairs is not None:
        repair.fit_pairs(*pairs, X=data)
    else:
        repair.fit(data)
    if not any(change.code for change in changes):
        return dict.fromkeys(changes, repair.transform)
    rows = repair.transform(data)
    needs_moments = any(change.code.startswith("top") for change in changes)
    repaired = source_of(rows, Moments.of(rows.astype(np.float64)) if needs_moments else None)  # which all such codes share

    def after(code: Transform) -> Transform:
        return lambda X: code(repair.transform(X))

    return {change: after(fit_code(change.code, repaired)) for change in changes}


def repair_grid(n: int, d: int, *, pairs: bool) -> list[Change]:
    """Every repair, over a few settings that the numbers of rows and dimensions allow."""

    def changes() -> Iterator[Change]:
        yield Change("zero-mean")
        yield Change("standardize")
        for count in DIRECTIONS:
            if count < d:
                yield Change("global", (("directions", count),))
        if 0 < scaled_count(100, d) < d:
            yield Change("global", (("directions", scaled_count(100, d)), ("which", "bottom")))
        for clusters, most in CLUSTERS.items():
            count = min(most, d - 1)
            if count and n >= 4 * clusters * (count + 1):  # clusters that lose most of their rank would shrink to points
                yield Change("cluster-based", (("clusters", clusters), ("directions", count)))
        if n >= 4 * max(CLUSTERS):
            yield Change("cluster-zero-mean", (("clusters", max(CLUSTERS)),))
        for power in POWERS:
            yield Change("power-whiten", (("power", power),))
        yield Change("whiten")
        for count in ROGUE:
            if count < d:
                yield Change("drop-rogue", (("dimensions", count),))
        yield Change("unit-length")
        if pairs and d > 1:
            yield Change("weighted")

    return list(changes())


def compression_grid(d: int, best: Change) -> list[Change]:
    """Every compression: alone, after centring, after a rotation, and after the best repair."""
    codes = [f"{kind} {d // share}" for kind in ("first", "top") for share in SHARES if d // share] + list(CODES)
    before = dict.fromkeys([Change(), Change("zero-mean"), Change("rotate"), best])
    changes = (Change(each.repair, each.settings, code) for each in before for code in dict.fromkeys(codes))
    # A rotation turns the principal directions along: what is left after `top` is that of centring.
    return [change for change in changes if not (change.repair == "rotate" and change.code.startswith("top"))]


def fit_code(code: str, data: Source) -> Transform:
    """A compression, learned from some rows, as a function that gives what is left of vectors, as floats.

    `first K` keeps the first dimensions. `top K` keeps the coordinates along the strongest directions of the uncentred rows,
    which change inner products least. `int8` has one scale for all dimensions: the largest magnitude among the rows. `binary`
    keeps signs.
    """
    kind, _, count = code.partition(" ")
    if not kind:
        return lambda X: X
    if kind == "first":
        return lambda X: X[:, : int(count)]
    if kind == "top":
        kernel = eigenpairs(Moments.of(data), centered=False).vectors[:, : int(count)]
        return lambda X: X @ kernel.astype(X.dtype)
    if kind == "float16":
        return lambda X: X.astype(np.float16).astype(X.dtype)
    if kind == "int8":
        largest = max(float(np.abs(block).max()) for block in data.blocks()) or 1.0
        return lambda X: np.clip(np.round(X * (127 / largest)), -127, 127)
    return lambda X: np.where(X > 0, 1, -1).astype(X.dtype)


def source_of(X: Floats, moments: Moments | None = None) -> Source:
    """Rows in memory as a source, with their moments if those are known."""
    X = array(X)
    return Source(lambda: iter([X]), n=len(X), d=X.shape[1], dtype=X.dtype, take=lambda rows: X[rows], moments=moments)
