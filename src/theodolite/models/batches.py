"""A corpus ready to be encoded: its rows planned, its texts in batches, and the vectors of a batch for all layers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.parallel import Progress
from theodolite.core.spelling import option
from theodolite.models.alignment import RowPlan, plan_rows, warn_dropped
from theodolite.models.encoder import Encoder
from theodolite.models.location import EncoderError
from theodolite.models.tokens import Ints, TextInputs, TokenCounts, Tokens, count_tokens, text_inputs
from theodolite.spaces.space import choose_layers
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import TEXT_UNIT, Unit

BatchSize: TypeAlias = int | Literal["auto"]
# Vectors of some rows, by layer.
Blocks: TypeAlias = dict[int, NDArray[np.float32]]

# Tokens of an automatic batch, padding included: enough to keep the device busy, few enough for its memory.
CPU_TOKENS = 1024
GPU_TOKENS = 32768
# Batches after which freed memory is returned to the system; it takes milliseconds, a batch tenths of a second.
TRIM_EVERY = 16


@dataclass(frozen=True, eq=False)
class TokenReading:
    """An encoder about to read texts; `TokenReading.of` makes one."""

    encoder: Encoder
    inputs: TextInputs
    plan: RowPlan
    unit: Unit
    layers: tuple[int, ...]
    batches: list[Ints]
    counts: TokenCounts
    more: tuple[Unit, ...] = ()

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        texts: Sequence[str] | Examples,
        *,
        unit: Unit = TEXT_UNIT,
        layers: str | int | Sequence[int] = "all",
        specials: bool = False,
        batch_size: BatchSize = "auto",
        allow_unknown: bool = False,
        more: tuple[Unit, ...] = (),
    ) -> TokenReading:
        """Tokenize texts and lay out their rows and batches; nothing is encoded yet. What the tokenizer misses is warned of.

        The vectors of `more` units, which pool whole texts as the first must, follow its own in every row.
        """
        inputs = text_inputs(texts, unit)
        # A sentence model has one vector for a text, made of its last layer.
        numbers = choose_layers(layers, range(encoder.n_layers)[-1 if unit == "text" else 0 :])
        plan = plan_rows(encoder, inputs, unit, *more, specials=specials)
        counts = count_tokens(encoder, inputs, plan.tokens)
        counts.check(allow_unknown=allow_unknown)
        warn_dropped([plan], encoder.max_length)
        return cls(encoder, inputs, plan, unit, numbers, _batches(encoder, plan, batch_size), counts, more)

    @property
    def d(self) -> int:
        """The width of a row: the encoder's or its pipeline's, or as many times that as a row has slots."""
        if self.unit == "text" and self.encoder.pipeline is not None:
            return self.encoder.pipeline.d
        return self.encoder.d * self.plan.slots

    @property
    def description(self) -> str:
        """What the vectors are, if the model is a sentence model, whose pipeline goes beyond its transformer."""
        if self.unit == "text" and self.encoder.pipeline is not None:
            return self.encoder.pipeline.description
        rest = ", ".join(name for name in self.encoder.module_names if name != "Transformer")
        return f"hidden states of the transformer, without the model's {rest}" if rest and not self.encoder.is_static else ""

    def encode(self, batch: Ints) -> tuple[Ints, Blocks]:
        """The rows of one batch, and their vectors in each layer; a batch that does not fit in memory is halved until it does."""
        rows, blocks = self.plan.rows_of(batch)[0], _encode(self, batch)
        for layer, block in blocks.items():
            if not np.isfinite(block).all():
                text = self.inputs.number[self.plan.text[rows[int(np.argmin(np.isfinite(block).all(axis=1)))]]]
                raise EncoderError(
                    f"layer {layer} of {self.encoder.name} gives values that are not finite (text {text}); check its "
                    f"weights, or compute in {option('dtype', 'float32')}"
                )
        return rows, blocks

    def encode_all(self, batches: Sequence[Ints]) -> tuple[Ints, Blocks]:
        """The rows of several batches, and their vectors in each layer."""
        encoded = [self.encode(batch) for batch in batches]
        blocks = {layer: np.concatenate([blocks[layer] for _, blocks in encoded]) for layer in self.layers}
        return np.concatenate([rows for rows, _ in encoded]), blocks

    def without_encoder(self, batches: Sequence[Ints]) -> tuple[TokenReading, Ints]:
        """A reading of some batches, small enough to send to a worker, and the numbers that its rows have in this one."""
        texts = np.concatenate(batches)
        rows, owner = self.plan.rows_of(texts)
        tokens = self.plan.tokens
        flat = np.concatenate([np.arange(tokens.starts[text], tokens.starts[text + 1]) for text in texts])
        few = Tokens(
            tokens.ids[flat],
            np.concatenate([[0], np.cumsum(tokens.lengths[texts])]),
            tokens.special[flat],
            None if tokens.types is None else tokens.types[flat],
        )
        bounds = np.searchsorted(owner, np.arange(len(texts) + 1))
        plan = RowPlan(few, owner, self.plan.runs[rows], self.plan.maxima, None, 0, 0, np.arange(len(rows)), bounds)
        inputs = TextInputs(texts=[self.inputs.texts[text] for text in texts], number=self.inputs.number[texts])
        ends = np.cumsum([len(batch) for batch in batches])
        numbers = np.split(np.arange(len(texts)), ends[:-1])
        encoder: Any = None
        return replace(self, encoder=encoder, inputs=inputs, plan=plan, batches=numbers), rows

    def blocks(self, progress: Progress | None = None) -> Iterator[tuple[Ints, Blocks]]:
        """The rows and vectors of one batch after the other."""
        count, total = 0, sum(map(len, self.batches))
        trim = _malloc_trim()
        for number, batch in enumerate(self.batches, start=1):
            yield self.encode(batch)
            if number % TRIM_EVERY == 0:
                trim(0)
            count += len(batch)
            if progress is not None:
                progress(count, total)


def _malloc_trim() -> Callable[[int], object]:
    """glibc's function that returns free memory to the system; one that does nothing with other C libraries.

    glibc keeps the freed buffers of every batch shape, and long corpora have ever new shapes.
    """
    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda _padding: None
    return trim


def _batches(encoder: Encoder, plan: RowPlan, size: BatchSize) -> list[Ints]:
    """Text numbers of each batch, the longest texts first, so that what does not fit shows at once; no texts without rows."""
    if size != "auto" and size < 1:
        raise ValueError(f"{option('batch_size', str(size))} must be at least 1, or 'auto'")
    lengths = plan.tokens.lengths
    # Texts of similar length together need the least padding.
    with_rows = np.flatnonzero(np.diff(plan.bounds))
    order = with_rows[np.argsort(-lengths[with_rows], kind="stable")]
    budget = CPU_TOKENS if encoder.device.type == "cpu" else GPU_TOKENS
    batches, start = [], 0
    while start < len(order):
        count = size if size != "auto" else max(1, budget // max(1, int(lengths[order[start]])))
        batches.append(order[start : start + count])
        start += count
    return batches


def _encode(reading: TokenReading, texts: Ints) -> Blocks:
    encoder = reading.encoder
    try:
        if reading.unit != "text":
            return _encode_at_once(reading, texts)
        assert encoder.pipeline is not None
        return {reading.layers[0]: encoder.pipeline.encode([reading.inputs.texts[text] for text in texts])}
    except IndexError as error:  # a sentence model pads by itself
        problem = "the tokenizer makes tokens for which the encoder has no embedding"
        raise ValueError(f"{problem} ({error}); use the tokenizer that the encoder was trained with") from error
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        if len(texts) == 1:
            tokens = int(reading.plan.tokens.lengths[texts[0]])
            limit = option("max_length", str(encoder.max_length))
            raise MemoryError(
                f"text {texts[0]} with {tokens} tokens does not fit in the memory of {encoder.device}, even alone; lower {limit}"
            ) from None
    # Outside the handler, which would keep the tensors of the failed batch alive.
    first, second = (_encode(reading, half) for half in np.array_split(texts, 2))
    return {layer: np.concatenate([first[layer], second[layer]]) for layer in reading.layers}


def _is_out_of_memory(error: BaseException) -> bool:
    import torch

    # Allocators of different devices raise different classes; some only say it in their message.
    text = str(error).lower()
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "out of memory" in text or "can't allocate memory" in text


def _encode_at_once(reading: TokenReading, texts: Ints) -> Blocks:
    import torch
    from torch.nn.functional import embedding_bag

    encoder, plan, layers = reading.encoder, reading.plan, reading.layers
    ids, mask, types = padded(plan.tokens, texts, pad=encoder.pad_id)
    rows, owner = plan.rows_of(texts)
    # The states of a batch are one long list of tokens: runs are moved to where their text begins in it.
    runs = (plan.runs[rows].astype(np.int64) + (owner * ids.shape[1])[:, None, None]).reshape(-1, 2)
    counts = runs[:, 1] - runs[:, 0]
    ends = np.cumsum(counts)
    index = np.arange(ends[-1]) + np.repeat(runs[:, 0] - (ends - counts), counts)

    def on_device(values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(encoder.device)

    states = encoder.hidden_states(on_device(ids), on_device(mask), None if types is None else on_device(types))
    are_single, tokens, starts = bool((counts == 1).all()), on_device(index), on_device(ends - counts)
    blocks: Blocks = {}
    with torch.inference_mode():
        for layer in layers:
            flat = states[layer].reshape(-1, encoder.d).float()
            if are_single:
                vectors = flat.index_select(0, tokens).reshape(len(rows), plan.slots, -1)
            else:
                modes = ["max" if slot in plan.maxima else "mean" for slot in range(plan.slots)]
                pooled = {mode: embedding_bag(tokens, flat, starts, mode=mode) for mode in modes}
                slots = [pooled[mode].reshape(len(rows), plan.slots, -1)[:, slot] for slot, mode in enumerate(modes)]
                vectors = torch.stack(slots, dim=1)
            blocks[layer] = vectors.reshape(len(rows), -1).cpu().numpy()
    return blocks


def padded(tokens: Tokens, texts: Ints, *, pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
    """Token numbers, mask and, if there are any, token types of some texts: (texts, longest) each, padded on the right."""
    lengths = tokens.lengths[texts]
    inside = np.arange(lengths.max()) < lengths[:, None]
    flat = np.concatenate([np.arange(tokens.starts[text], tokens.starts[text + 1]) for text in texts])

    def filled(values: NDArray[Any], padding: int) -> NDArray[np.int64]:
        table = np.full(inside.shape, padding, np.int64)
        table[inside] = values[flat]
        return table

    types = None if tokens.types is None else filled(tokens.types, 0)
    return filled(tokens.ids, pad), inside.astype(np.int64), types
