"""How large each table's cases are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Scale:
    d: int = 768
    survey: tuple[int, ...] = (100_000, 1_000_000)
    isoscore: tuple[int, ...] = (100_000, 1_000_000)
    audit: tuple[int, ...] = (10_000,)
    eig: tuple[int, ...] = (100_000,)
    memory: tuple[int, ...] = (20_000, 1_000_000)
    repair: tuple[int, ...] = (43_605,)
    kmeans: tuple[int, ...] = (100_000, 1_000_000)
    all_metrics: tuple[int, ...] = (200_000,)
    shards: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    texts: tuple[int, ...] = (2_000, 8_000)
    workers: tuple[int, ...] = (1_000_000,)
    direct_rows: tuple[int, ...] = (1_000, 5_000, 20_000)
    direct_width: tuple[int, ...] = (128, 384, 768)
    direct_labels: tuple[int, ...] = (5, 17, 50)
    most_rows: int = 10**9
    repeats: int = 3

    def capped(self, rows: int) -> Scale:
        """The same with no case larger than `rows`."""

        def cap(sizes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(sorted({min(size, rows) for size in sizes}))

        capped: dict[str, Any] = {name: cap(sizes) for name, sizes in vars(self).items() if isinstance(sizes, tuple)}
        return replace(self, **capped, most_rows=rows)

    def parts(self, names: tuple[str, ...]) -> list[Scale]:
        """The same, once for each size of the named cases, so that each can be measured and kept by itself."""
        sizes = [(name, size) for name in names for size in getattr(self, name)]
        none: dict[str, Any] = dict.fromkeys(names, ())
        chosen: list[dict[str, Any]] = [none | {name: (size,)} for name, size in sizes]
        return [replace(self, **choice) for choice in chosen] or [self]


QUICK = Scale(d=128, repeats=1, texts=(100, 200)).capped(3_000)
"""Shows that everything runs; its ratios mean nothing."""
