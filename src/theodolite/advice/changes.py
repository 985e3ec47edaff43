"""Changes to try on vectors: repairs over a small grid, and compression, alone and after a repair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from theodolite.advice.scorers import Transform
from theodolite.core.moments import Doubles, Moments
from theodolite.core.spelling import TypedInput, command, option
from theodolite.core.vectors import Floats, Source, array
from theodolite.repairs import REPAIRS, make_repair, scaled_count

DIRECTIONS = (1, 2, 5, 12)
CLUSTERS = {5: 3, 27: 12}
"""Clusters, and the directions that each loses: few clusters are large; 27 and 12 are RP21's."""
POWERS = (0.25, 0.5, 0.75)
ROGUE = (1, 3)
DIMENSIONS = (64, 128, 256)
"""Dimensions that `pca` and `truncate` keep; a half and a quarter of those there are, if there are not as many."""
SHORTER = {"pca": "principal directions", "truncate": "first dimensions"}
"""Repairs that keep fewer dimensions, and what they keep."""
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

    @property
    def before(self) -> Change:
        """The repair alone."""
        return replace(self, code="")

    @property
    def row_fields(self) -> dict[str, Any]:
        """The fields that distinguish its rows from those of other changes."""
        return {"setting": str(self)}

    def plain(self) -> dict[str, Any]:
        """Its content for the provenance of a result."""
        return {"repair": self.repair, "settings": dict(self.settings), "compression": self.code}

    @property
    def complexity(self) -> tuple[int, bool]:
        """What is simpler comes first: one step before two, and of single steps the one that nothing has to be fitted for."""
        return bool(self.repair) + bool(self.code), bool(self.repair)

    def size(self, d: int) -> float:
        """Bytes of a vector as a share of float32 with d dimensions."""
        kept = dict(self.settings)["components"] if self.repair in SHORTER else d
        return float(kept / d * CODES.get(self.code, 1.0))

    def commands(self, source: TypedInput, *others: str, name: str = "repair", **pairs: str) -> list[str]:
        """What to paste: command lines that fit the repair on the vectors, apply it and compress, or one call in Python.

        An affine repair of an encoder's vectors is put inside the encoder. The folder is called my-NAME, the files NAMEed.
        """
        learns = pairs if self.repair == "weighted" else {}
        fit = replace(source, before="").fit(self.repair, to=f"my-{name}", **dict(self.settings), **learns) if self.repair else ""
        if not source.path:
            repaired = f"{fit}.transform(X)" if fit else "X"
            return [f"th.repair.quantize({repaired}, code={self.code!r})" if self.code else repaired]
        lines = [line for line in (source.before, fit) if line]
        paths, typed = [source.path, *others], source.options
        endings = [f"-{number}.npy" if others else ".npy" for number in range(1, len(paths) + 1)]
        if fit and source.model and not self.code and REPAIRS[self.repair].is_affine:
            return [*lines, command(f"repair export my-{name}", source.model, to="my-model-repaired")]
        if fit:
            files = [f"{name}ed{ending}" for ending in endings]
            lines += [command(f"repair apply my-{name}", path, to=to, **typed) for path, to in zip(paths, files, strict=True)]
            paths, typed = files, {}
        if self.code:
            files = [f"{self.code}{ending}" for ending in endings]
            quantized = zip(paths, files, strict=True)
            lines += [command("repair quantize", path, to=to, code=self.code, **typed) for path, to in quantized]
        return lines

    def fit(self, data: Source, pairs: tuple[Floats, Floats, Doubles] | None = None, *, seed: int = 0) -> Transform:
        """The change, learned from some rows, as a function of vectors."""
        return fit_all([self], data, pairs, seed=seed)[self]


@dataclass(frozen=True)
class Place(Change):
    """A layer and how its tokens are pooled: vectors taken elsewhere, which are not changed otherwise."""

    layer: int = 0
    unit: str = ""

    def __str__(self) -> str:
        return f"layer {self.layer} ({self.unit})" if self.unit else f"layer {self.layer}"

    @property
    def row_fields(self) -> dict[str, Any]:
        return {"layer": self.layer, "setting": self.unit}

    def plain(self) -> dict[str, Any]:
        return {"layer": self.layer, "unit": self.unit}


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
    repaired = source_of(repair.transform(data))

    def after(code: Transform) -> Transform:
        return lambda X: code(repair.transform(X))

    return {change: after(fit_code(change.code, repaired)) for change in changes}


def dimensions_to_try(asked: str | Sequence[int] | None, d: int) -> tuple[int, ...]:
    """The numbers of dimensions that `pca` and `truncate` keep: those asked for ("64,128"), or the usual ones below d."""
    if asked is None:
        return tuple(k for k in DIMENSIONS if k < d) or tuple(dict.fromkeys(k for k in (d // 2, d // 4) if k))
    try:
        counts = tuple(int(k) for k in (asked.split(",") if isinstance(asked, str) else asked))
    except ValueError:
        raise ValueError(f"{option('dimensions', str(asked))} must be whole numbers, such as 64,128,256") from None
    wrong = next((k for k in counts if not 1 <= k < d), None)
    if wrong is not None:
        raise ValueError(f"{option('dimensions', str(wrong))} must be at least 1 and below d={d}, the dimensions there are")
    return counts


def repair_grid(n: int, d: int, *, pairs: bool, dimensions: Sequence[int] = ()) -> list[Change]:
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
        yield from _shorter(n, dimensions)
        yield Change("unit-length")
        if pairs and d > 1:
            yield Change("weighted")

    return list(changes())


def compression_grid(n: int, d: int, *, dimensions: Sequence[int], repairs: Iterable[Change] = ()) -> list[Change]:
    """Every compression, the simplest first: fewer dimensions, quantisation, and quantisation after a repair."""
    shorter = _shorter(n, dimensions)
    milder = [Change("zero-mean"), Change("rotate")]  # which even out what int8 and binary codes cut off
    after = {code: [Change(), *repairs, *([] if code == "float16" else milder), *shorter] for code in CODES}
    changes = [*shorter, *(replace(repair, code=code) for code, before in after.items() for repair in before)]
    return sorted((change for change in dict.fromkeys(changes) if change.size(d) < 1), key=lambda change: change.complexity)


def _shorter(n: int, dimensions: Sequence[int]) -> list[Change]:
    """The repairs that keep fewer dimensions; n rows have at most n - 1 principal directions."""
    return [Change(name, (("components", k),)) for name in SHORTER for k in dimensions if name != "pca" or k < n]


def fit_code(code: str, data: Source) -> Transform:
    """A quantisation, learned from some rows, as a function that gives what is left of vectors, as floats.

    `int8` has one scale for all dimensions: the largest magnitude among the rows. `binary` keeps signs.
    """
    if not code:
        return lambda X: X
    if code == "float16":
        return lambda X: X.astype(np.float16).astype(X.dtype)
    if code == "int8":
        largest = max(float(np.abs(block).max()) for block in data.blocks()) or 1.0
        return lambda X: np.clip(np.round(X * (127 / largest)), -127, 127)
    return lambda X: np.where(X > 0, 1, -1).astype(X.dtype)


def source_of(X: Floats, moments: Moments | None = None) -> Source:
    """Rows in memory as a source, with their moments if those are known."""
    X = array(X)
    return Source(lambda: iter([X]), n=len(X), d=X.shape[1], dtype=X.dtype, take=lambda rows: X[rows], moments=moments)
