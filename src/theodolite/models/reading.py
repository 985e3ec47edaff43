"""A corpus ready to be encoded: its rows laid out, its batches cut; every pass gives the vectors of all asked layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from theodolite.models.batches import BatchSize, Blocks, batches, encode
from theodolite.models.encoder import Encoder
from theodolite.models.inputs import Given, Ints, Unit, given
from theodolite.models.plan import Plan, make_plan
from theodolite.tasks.examples import Examples

Progress = Callable[[int, int], None]


class DroppedWordsWarning(UserWarning):
    """Some words have no vector; the message says how many and why."""


@dataclass(frozen=True, eq=False)
class Reading:
    """An encoder about to read texts. `d` is the width of a row, twice the encoder's for pairs of words."""

    encoder: Encoder
    given: Given
    plan: Plan
    unit: Unit
    layers: tuple[int, ...]
    batches: list[Ints]

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        texts: Sequence[str] | Examples,
        *,
        unit: Unit = "mean",
        layers: str | int | Sequence[int] = "all",
        specials: bool = False,
        batch_size: BatchSize = "auto",
    ) -> Reading:
        found = given(texts, unit)
        chosen = encoder.layers(layers if isinstance(layers, (str, int)) else tuple(layers))
        plan = make_plan(encoder, found, unit, specials=specials)
        if plan.dropped:
            warnings.warn(_dropped(encoder, plan), DroppedWordsWarning, stacklevel=3)
        return cls(encoder, found, plan, unit, chosen, batches(encoder, plan, batch_size))

    @property
    def n(self) -> int:
        return self.plan.n

    @property
    def d(self) -> int:
        return self.encoder.d * self.plan.parts

    def encode(self, batch: Ints) -> tuple[Ints, Blocks]:
        """(rows, vectors of each layer) of one batch."""
        return self.plan.rows_of(batch)[0], encode(self.encoder, self.plan, batch, self.layers)

    def blocks(self, progress: Progress | None = None) -> Iterator[tuple[Ints, Blocks]]:
        """(rows, vectors of each layer) of one batch after the other; `progress` hears of the texts that are done."""
        done = 0
        total = sum(map(len, self.batches))
        for batch in self.batches:
            yield self.encode(batch)
            done += len(batch)
            if progress is not None:
                progress(done, total)


def _dropped(encoder: Encoder, plan: Plan) -> str:
    return (
        f"{plan.dropped} of {plan.dropped + plan.n} words or pairs have no vector and are left out: they lie beyond "
        f"max_length={encoder.max_length} tokens, or the tokenizer makes nothing of them; column `example` says which are there"
    )
