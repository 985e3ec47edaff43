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
    model, dataset, features = prepared(folder, rows, width)
    train(model, features, epochs=1)  # warm
    fast = min(train(model, features, epochs=1)[0] for _ in range(max(3, scale.repeats)))
    slow = seconds(lambda: epoch_through_encoder(model, dataset))  # once: it takes minutes, far more than its noise
    yield result("one epoch", slow / fast, rows, width, ours=shown(fast), theirs=shown(slow), goal=30)
    time, epochs = train(model, features, epochs=100)  # as by default, stopped early
    yield result(
        f"whole training, {epochs} epochs, against one epoch", slow / time, rows, width, ours=shown(time), theirs=shown(slow)
    )


def result(what: str, ratio: float, rows: int, width: int, *, goal: float = math.nan, **about: Any) -> Result:
    return Result(
        table="isotropy layer",
        case=f"Isotropy Layer on {rows:,} texts, 6 layers of d = {width}: {what} through the frozen encoder",
        value=ratio,
        sense="at least",
        goal=goal,
        **about,
    )


def prepared(folder: Path, rows: int, width: int) -> tuple[Any, Any, Any]:
    """A random encoder of MiniLM's size with a head and a layer, and pairs of texts as long as MRPC's: 40 to 60 tokens."""
    from theodolite.models.encoder import Encoder
    from theodolite.models.tokens import text_inputs
    from theodolite.tuning.heads import LinearHead, TextDataset, embed
    from theodolite.tuning.isotropy_layer import IsotropyLayer

    rng = np.random.default_rng(0)
    loaded = Encoder.load(encoder(folder / f"encoder-{width}", width), device="cpu", max_length=128)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, WORDS, rng.integers(38, 59))) for _ in range(rows)]
    dataset = TextDataset.of(loaded, text_inputs(texts, "cls"), "cls", targets=rng.integers(0, 2, rows))
    model = LinearHead(loaded.module, 2)
    model.layer = IsotropyLayer(width)
    return model, dataset, embed(model, dataset)


def train(model: Any, features: Any, *, epochs: int) -> tuple[float, int]:
    """Seconds and number of epochs of a training on stored vectors, validated after every epoch."""
    from theodolite.tuning.isotropy_layer import train_layer
    from theodolite.tuning.settings import LayerSettings

    settings, passes = LayerSettings(epochs=epochs), 0

    def accuracy(labels: Any, logits: Any) -> float:
        return float((logits[:, 0].argmax(-1) == labels[:, 0]).float().mean())

    def run() -> None:
        nonlocal passes
        passes = len(train_layer(model, features, features, accuracy, settings).epochs)

    return seconds(run), passes


def epoch_through_encoder(model: Any, dataset: Any) -> None:
    """The same epoch with every text sent through the frozen encoder."""
    torch: Any = import_module("torch")
    from theodolite.tuning.isotropy_layer import random_batches
    from theodolite.tuning.regularisers import JointLoss
    from theodolite.tuning.settings import LayerSettings

    settings, loss = LayerSettings(), JointLoss(corrected=True)
    optimizer = torch.optim.AdamW(model.layer.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    for rows in random_batches(len(dataset), settings.batch_size, torch.Generator().manual_seed(0)):
        batch = dataset.__getitems__(rows.tolist())
        labels = batch.pop("labels")
        vectors = model.layer(model.encode(**batch)[:, 0])
        task = model.answer(vectors.unsqueeze(1), labels)["loss"]
        optimizer.zero_grad(set_to_none=True)
        loss(task, vectors).backward()
        optimizer.step()
