"""Training an Isotropy Layer on kept vectors against training it through the frozen encoder: what embedding once saves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module
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
    inserted, items, features, pad = prepared(folder, rows, width)
    train(inserted, features, epochs=1)  # warm
    fast = min(train(inserted, features, epochs=1)[0] for _ in range(max(3, scale.repeats)))
    slow = seconds(lambda: epoch_through_encoder(inserted, items, pad))  # once: it takes minutes, far more than its noise
    yield result("one epoch", slow / fast, rows, width, ours=shown(fast), theirs=shown(slow), goal=30)
    time, epochs = train(inserted, features, epochs=100)  # as by default, stopped early
    yield result(
        f"whole training, {epochs} epochs, against one epoch", slow / time, rows, width, ours=shown(time), theirs=shown(slow)
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
    from theodolite.models.tokens import text_inputs
    from theodolite.tuning.batches import make_items
    from theodolite.tuning.heads import LinearHead
    from theodolite.tuning.isolayer.features import embed
    from theodolite.tuning.isolayer.insertion import insert_layer
    from theodolite.tuning.isolayer.layer import IsotropyLayer

    rng = np.random.default_rng(0)
    loaded = Encoder.load(encoder(folder / f"encoder-{width}", width), device="cpu", max_length=128)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, WORDS, rng.integers(38, 59))) for _ in range(rows)]
    items = make_items(loaded, text_inputs(texts, "cls"), "cls", targets=rng.integers(0, 2, rows).tolist())
    inserted = insert_layer(LinearHead(loaded.module, 2), IsotropyLayer(width))
    return inserted, items, embed(inserted, items, pad=loaded.pad_id), loaded.pad_id


def train(inserted: Any, features: Any, *, epochs: int) -> tuple[float, int]:
    """Seconds and number of epochs of a training on stored vectors, validated after every epoch."""
    from theodolite.tuning.isolayer.settings import LayerSettings
    from theodolite.tuning.isolayer.training import train_layer

    settings, passes = LayerSettings(epochs=epochs), 0

    def accuracy(labels: Any, logits: Any) -> float:
        return float((logits[:, 0].argmax(-1) == labels[:, 0]).float().mean())

    def run() -> None:
        nonlocal passes
        passes = len(train_layer(inserted, features, features, accuracy, settings).epochs)

    return seconds(run), passes


def epoch_through_encoder(inserted: Any, items: list[Any], pad: int) -> None:
    """The same epoch with every text sent through the frozen encoder."""
    torch: Any = import_module("torch")
    from theodolite.tuning.batches import collate
    from theodolite.tuning.isolayer.loss import JointLoss
    from theodolite.tuning.isolayer.settings import LayerSettings
    from theodolite.tuning.isolayer.training import random_batches

    settings, loss = LayerSettings(), JointLoss(corrected=True)
    optimizer = torch.optim.AdamW(inserted.layer.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    for rows in random_batches(len(items), settings.batch_size, torch.Generator().manual_seed(0)):
        batch = collate([items[row] for row in rows.tolist()], pad=pad)
        with inserted.outputs() as outputs:
            task = inserted.model(**batch)["loss"]
        optimizer.zero_grad(set_to_none=True)
        loss(task, outputs[-1]).backward()
        optimizer.step()
