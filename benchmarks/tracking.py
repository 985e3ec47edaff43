"""Fine-tuning with its geometry tracked against the same without: what watching costs."""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scale import Scale
from table import Result
from timing import seconds, shown

NEEDED = ("torch", "transformers", "sentence_transformers", "accelerate", "datasets")
WORDS = 200


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    whole = scale.d >= 768
    pairs, width = (640, 384) if whole else (64, 32)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        yield result(math.nan, pairs, width, note=f"needs {missing[0]}")
        return
    model = encoder(folder / f"encoder-{width}", width)
    task = similarity(folder / f"pairs-{pairs}", pairs)
    # Neighbours in time are compared, so that a machine that slows down hits both sides of a ratio.
    turns = [(train(model, task, folder, tracked=True), train(model, task, folder, tracked=False)) for _ in range(scale.repeats)]
    ratio = statistics.median(with_it / without for with_it, without in turns)
    with_it, without = (min(side) for side in zip(*turns, strict=True))
    yield result(ratio, pairs, width, ours=f"tracked {shown(with_it)}", theirs=f"untracked {shown(without)}")


def result(ratio: float, pairs: int, width: int, **about: Any) -> Result:
    return Result(
        table="tracking",
        case=f"Siamese training on {pairs:,} pairs, 3 epochs, 6 layers of d = {width}, tracked as by default",
        value=ratio,
        sense="at most",
        goal=1.05,
        **about,
    )


def train(model: Path, task: Any, folder: Path, *, tracked: bool) -> float:
    """Seconds of the training alone: loading, scoring and saving are the same with and without."""
    from theodolite.tuning import GeometryCallback, preset
    from theodolite.tuning.runs import Run, load_splits
    from theodolite.tuning.trainers import prepare_trainer
    from theodolite.tuning.training import make_job, make_tracker

    output = folder / "run"
    shutil.rmtree(output, ignore_errors=True)
    settings = preset("rp21", task=task, model=model, output=output)
    run, splits = Run(output), load_splits(settings, None)
    run.begin(settings)
    job = make_job(settings, splits, run)
    prepare_trainer(job.trainer, settings, None)
    if tracked:
        GeometryCallback(make_tracker(settings, job, run)).attach(job.trainer)
    taken = seconds(job.trainer.train)
    shutil.rmtree(output)
    return taken


def encoder(folder: Path, width: int) -> Path:
    """A random encoder of MiniLM's size: what it has learnt does not change how long it takes."""
    transformers: Any = import_module("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(WORDS))]
    tokenizer = transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, model_max_length=128)
    config = transformers.BertConfig(
        vocab_size=30_522, hidden_size=width, num_hidden_layers=6, num_attention_heads=width // 32, intermediate_size=4 * width
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def similarity(folder: Path, pairs: int) -> Any:
    """Pairs of random words, as long as the sentences of STS-B: 8 to 20."""
    from theodolite.tasks import own_task

    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev"):
        lines = ["text\ttext_b\tscore"]
        for _ in range(pairs):
            texts = [" ".join(f"w{i}" for i in rng.integers(0, WORDS, rng.integers(8, 21))) for _ in range(2)]
            lines.append("\t".join([*texts, f"{rng.uniform(0, 5):.2f}"]))
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return own_task({split: folder / f"{split}.tsv" for split in ("train", "dev")}, "similarity", score_range=(0, 5))
