"""Training an Isotropy Layer on kept vectors against training it through the frozen encoder: what embedding once saves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scale import Scale
from table import Result
from timing import seconds, shown
from tracking import WORDS, encoder

NEEDED = ("torch", "transformers", "accelerate")


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    whole = scale.d >= 768
    rows, width = (1024, 384) if whole else (256, 32)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        yield result("one epoch", math.nan, rows, width, note=f"needs {missing[0]}")
        return
    put, items, features, pad = prepared(folder, rows, width)
    from theodolite.tuning.train_layer import Kept, Through

    kept, through = Kept(put, features), Through(put, items, pad)
    epoch(put, kept, features)  # warm
    fast = min(epoch(put, kept, features) for _ in range(max(3, scale.repeats)))
    slow = epoch(put, through, features)  # once: it takes minutes, far more than its noise
    yield result("one epoch", slow / fast, rows, width, ours=shown(fast), theirs=shown(slow), goal=30)
    taken, epochs = training(put, kept, features)
    yield result(
        f"whole training, {epochs} epochs, against one epoch", slow / taken, rows, width, ours=shown(taken), theirs=shown(slow)
    )


def result(what: str, ratio: float, rows: int, width: int, *, goal: float = math.nan, **about: str) -> Result:
    return Result(
        table="isotropy layer",
        case=f"Isotropy Layer on {rows:,} texts, 6 layers of d = {width}: {what} through the frozen encoder",
        value=ratio,
        sense="at least",
        goal=goal,
        **about,
    )


def prepared(folder: Path, rows: int, width: int) -> tuple[Any, list[Any], Any, int]:
    """A random encoder of MiniLM's size with a head and a layer, and pairs of texts as long as MRPC's: 40 to 60 tokens."""
    from theodolite.models.encoder import Encoder
    from theodolite.tuning.batches import text_items
    from theodolite.tuning.frozen_features import embed
    from theodolite.tuning.heads import LinearHead
    from theodolite.tuning.insert import insert
    from theodolite.tuning.isotropy_layer import IsotropyLayer

    rng = np.random.default_rng(0)
    loaded = Encoder.load(encoder(folder / f"encoder-{width}", width), device="cpu")
    texts = [" ".join(f"w{i}" for i in rng.integers(0, WORDS, rng.integers(38, 59))) for _ in range(rows)]
    items = text_items(texts, None, rng.integers(0, 2, rows).tolist(), loaded.tokenizer, unit="cls", max_length=128)
    put = insert(LinearHead(loaded.module, 2), IsotropyLayer(width))
    return put, items, embed(put, items, pad=loaded.pad_id), loaded.pad_id


def epoch(put: Any, source: Any, features: Any) -> float:
    """Seconds of one pass over the training rows, with the validation at its end."""
    return train(put, source, features, epochs=1)[0]


def training(put: Any, source: Any, features: Any) -> tuple[float, int]:
    """Seconds and passes of a whole training as by default, stopped early."""
    return train(put, source, features, epochs=100)


def train(put: Any, source: Any, features: Any, *, epochs: int) -> tuple[float, int]:
    from theodolite.tuning.layer_settings import LayerSettings
    from theodolite.tuning.train_layer import train_layer

    settings, passes = LayerSettings(epochs=epochs), 0

    def accuracy(labels: Any, logits: Any) -> float:
        return float((logits[:, 0].argmax(-1) == labels[:, 0]).float().mean())

    def run() -> None:
        nonlocal passes
        passes = len(train_layer(put, source, features, accuracy, settings).epochs)

    return seconds(run), passes
