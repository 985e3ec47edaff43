"""Texts of like length together, and the vectors of one batch for all layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from theodolite.models.encoder import Encoder
from theodolite.models.inputs import Ints
from theodolite.models.plan import Plan

if TYPE_CHECKING:
    import torch

BatchSize = int | Literal["auto"]
Blocks = dict[int, NDArray[np.float32]]

CPU_TOKENS = 1024
GPU_TOKENS = 32768
"""Tokens of an automatic batch, padding counted: enough to keep the device busy, few enough for its memory."""


def batches(encoder: Encoder, plan: Plan, size: BatchSize = "auto") -> list[Ints]:
    """Text numbers of each batch, the longest first, so that what does not fit shows at once; texts without rows are left out."""
    if size != "auto" and size < 1:
        raise ValueError(f"batch_size={size} must be at least 1, or 'auto'")
    lengths = plan.tokens.lengths
    needed = np.flatnonzero(np.diff(plan.bounds))
    order = needed[np.argsort(-lengths[needed], kind="stable")]
    budget = CPU_TOKENS if encoder.device.type == "cpu" else GPU_TOKENS
    made, start = [], 0
    while start < len(order):
        count = size if size != "auto" else max(1, budget // int(lengths[order[start]]))
        made.append(order[start : start + count])
        start += count
    return made


def encode(encoder: Encoder, plan: Plan, texts: Ints, layers: tuple[int, ...]) -> Blocks:
    """(rows, d) of each layer for the rows of these texts; a batch that does not fit in memory is halved until it does."""
    try:
        return _encode(encoder, plan, texts, layers)
    except (RuntimeError, MemoryError) as error:
        if not _out_of_memory(error):
            raise
        if len(texts) == 1:
            tokens = int(plan.tokens.lengths[texts[0]])
            raise MemoryError(
                f"text {texts[0]} with {tokens} tokens alone does not fit in the memory of {encoder.device}; lower max_length"
            ) from None
    # Outside the handler, which would keep the failed batch alive.
    halves = np.array_split(texts, 2)
    first, second = (encode(encoder, plan, half, layers) for half in halves)
    return {layer: np.concatenate([first[layer], second[layer]]) for layer in layers}


def _out_of_memory(error: BaseException) -> bool:
    import torch

    text = str(error).lower()
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "out of memory" in text or "can't allocate memory" in text


def _encode(encoder: Encoder, plan: Plan, texts: Ints, layers: tuple[int, ...]) -> Blocks:
    import torch

    ids, mask, types = _padded(encoder, plan, texts)
    width = ids.shape[1]
    rows, owner = plan.rows_of(texts)
    runs = (plan.runs[rows].astype(np.int64) + (owner * width)[:, None, None]).reshape(-1, 2)
    counts = runs[:, 1] - runs[:, 0]
    ends = np.cumsum(counts)
    index = np.arange(ends[-1]) + np.repeat(runs[:, 0] - (ends - counts), counts)

    def sent(values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(encoder.device)

    states = encoder.hidden_states(sent(ids), sent(mask), None if types is None else sent(types))
    single, pieces, begins = bool((counts == 1).all()), sent(index), sent(ends - counts)
    made: Blocks = {}
    with torch.inference_mode():
        for layer in layers:
            flat = states[layer].reshape(-1, encoder.d).float()
            picked = flat.index_select(0, pieces) if single else _reduced(flat, pieces, begins, plan.maximum)
            made[layer] = picked.reshape(len(rows), -1).cpu().numpy()
    return made


def _reduced(flat: torch.Tensor, pieces: torch.Tensor, begins: torch.Tensor, maximum: bool) -> torch.Tensor:
    """Mean or maximum over runs of rows."""
    from torch.nn.functional import embedding_bag

    return embedding_bag(pieces, flat, begins, mode="max" if maximum else "mean")


def _padded(encoder: Encoder, plan: Plan, texts: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
    """(texts, longest) token numbers, mask and token types; padding stands on the right and is masked out."""
    tokens = plan.tokens
    lengths = tokens.lengths[texts]
    inside = np.arange(lengths.max()) < lengths[:, None]
    flat = np.concatenate([np.arange(tokens.starts[text], tokens.starts[text + 1]) for text in texts])
    ids = np.full(inside.shape, encoder.pad_id, np.int64)
    ids[inside] = tokens.ids[flat]
    types: NDArray[np.int64] | None = None
    if tokens.types is not None:
        types = np.zeros(inside.shape, np.int64)
        types[inside] = tokens.types[flat]
    return ids, inside.astype(np.int64), types
