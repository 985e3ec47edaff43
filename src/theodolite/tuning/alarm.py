"""A warning in words when fine-tuning makes a space collapse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.core.rows import Row

LEFT = 0.1
"""Of what a layer had before training, where that was beyond a bound already: with less left, it has collapsed further."""
NOTHING = 1e-4
"""A mean cosine this near to 1 has nothing to lose: [CLS] in the embeddings is the same vector in every text."""


class CollapseWarning(UserWarning):
    """A layer's vectors have come to point one way, or to vary along few directions only."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """The bounds whose crossing is called a collapse; None judges nothing.

    `mean_cosine` is the largest mean cosine, `rank_share` the smallest effective rank as a share of what it could be (the
    dimension d, or n - 1 for fewer vectors). A layer that was beyond a bound before training, as [CLS] in low layers and many
    encoders' pooled texts are, is judged by a tenth of its own distance from 1, or of its own share, instead.
    """

    mean_cosine: float | None = 0.95
    rank_share: float | None = 0.01

    def crossed(self, before: Sequence[Row], now: Sequence[Row]) -> list[str]:
        """One sentence for every bound that a layer is beyond now and was not when it was last measured."""
        first: dict[tuple[int | None, str], Row] = {}
        last: dict[tuple[int | None, str], Row] = {}
        for row in before:
            first.setdefault((row.layer, row.metric), row)
            last[row.layer, row.metric] = row
        found = []
        for row in now:
            start, previous = (rows.get((row.layer, row.metric)) for rows in (first, last))
            fault = self._fault(row, start)
            # At step 0 nothing has been done to the encoder yet.
            if fault and row.step and not (previous and self._fault(previous, start)):
                found.append(f"layer {row.layer} has collapsed at step {row.step}: {fault}")
        return found

    def _fault(self, row: Row, start: Row | None) -> str:
        if row.metric == "mean_cosine" and self.mean_cosine is not None:
            return _one_way(row.value, self.mean_cosine, None if start is None else start.value)
        if row.metric == "effective_rank" and self.rank_share is not None and row.n is not None and row.d is not None:
            return _few_directions(row.value, min(row.d, row.n - 1), self.rank_share, None if start is None else start.value)
        return ""


def _one_way(value: float, bound: float, start: float | None) -> str:
    if start is not None and 1 - start < NOTHING:
        return ""
    if start is not None and start > bound:
        bound = 1 - LEFT * (1 - start)
    return f"its mean cosine is {value:.4f}, above the bound {bound:.4g}; its vectors point one way" if value > bound else ""


def _few_directions(value: float, possible: int, bound: float, start: float | None) -> str:
    if start is not None and start / possible < bound:
        bound = LEFT * start / possible
    share = value / possible
    if not share < bound:
        return ""
    return (
        f"its effective rank is {value:.1f} of {possible} possible, a share of {share:.4f}, below the bound {bound:.4g}; "
        "its vectors vary along few directions"
    )
