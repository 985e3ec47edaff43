"""How large each table's cases are."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Scale:
    d: int = 768
    survey: tuple[int, ...] = (100_000, 1_000_000)
    isoscore: tuple[int, ...] = (100_000, 1_000_000)
    audit: tuple[int, ...] = (10_000, 30_000)
    eig: tuple[int, ...] = (100_000,)
    memory: tuple[int, ...] = (20_000, 1_000_000)
    repair: tuple[int, ...] = (43_605,)
    kmeans: tuple[int, ...] = (1_000_000,)
    repeats: int = 3

    def capped(self, rows: int) -> Scale:
        """The same with no case larger than `rows`."""

        def cap(sizes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(sorted({min(size, rows) for size in sizes}))

        return replace(
            self,
            survey=cap(self.survey),
            isoscore=cap(self.isoscore),
            audit=cap(self.audit),
            eig=cap(self.eig),
            memory=cap(self.memory),
            repair=cap(self.repair),
            kmeans=cap(self.kmeans),
        )


QUICK = Scale(d=128, repeats=1).capped(3_000)
"""Shows that everything runs; its ratios mean nothing."""
