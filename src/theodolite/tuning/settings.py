"""What a fine-tuning run is told, and the settings of the papers by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias

from theodolite.tasks.load import find_task
from theodolite.tasks.task import Task
from theodolite.tuning.layer_settings import LayerSettings

Pooling: TypeAlias = Literal["mean", "cls"]
Schedule: TypeAlias = Literal["linear", "constant"]
When: TypeAlias = Literal["epoch"] | int | tuple[int, ...]
Method: TypeAlias = Literal["plain", "isolayer", "isobn", "cosreg", "istar"]

METHODS = {
    "plain": "nothing but the task",
    "isolayer": "a plain run, then an Isotropy Layer between its frozen encoder and head (IL23)",
    "isobn": "isotropic batch normalisation before the head (Zhou et al. 2021)",
    "cosreg": "the batch's mean cosine as a penalty (Gao et al. 2019)",
    "istar": "1 - IsoScore* of the batch as a penalty (I-STAR, Rudman & Eickhoff 2023)",
}
"""What acts on the space while it is fine-tuned, or after."""

LATER = ("method", "strength", "published", "layer", "track_hulls")
"""What runs were not told at first: left out of a run's settings where it is the default, so that older ones go on."""
STRATEGIES = "full, frozen:N (embeddings and the first N layers stay), head (the encoder stays) or lora"


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """One fine-tuning run. `model` is a folder or a hub id, `output` the folder that gets everything the run makes.

    `batch_size` is per device. `warmup` is a share of all steps. `pooling` defaults to the mean for similarity and [CLS] for
    classification; tasks on words take the mean of each word's subwords. `siamese=False` trains a similarity task on both texts
    in one sequence, with one output and squared error. `strategy` is full, frozen:N, head or lora.

    `validation` is the share of the training rows held out (0.3 is the 70/30 split); the epoch with the best main score there
    is kept, and `patience` epochs without a better one end the run. `train_rows` caps the training rows. `save_steps` adds
    checkpoints inside epochs. `track` is when the geometry is measured ("epoch", every n steps, or named steps; step 0 always),
    None for never; `track_texts` on how many texts (None: 256, or fewer where they would cost more than 5 % of the training);
    `track_hulls` adds how far apart the labels' convex hulls are.

    `method` acts on the vectors that the head takes; tasks on words and Siamese runs have none. `strength` is the penalty's
    weight, γ of cosreg or λ of istar (None: 1). `published` is IsoBN as its authors' program behaves. `layer` says how an
    Isotropy Layer is trained (None: as by default).
    """

    task: str | Task
    model: str
    output: str
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 2e-5
    warmup: float = 0.1
    weight_decay: float = 0.0
    schedule: Schedule = "linear"
    pooling: Pooling | None = None
    siamese: bool = True
    strategy: str = "full"
    seed: int = 0
    max_length: int | None = None
    train_rows: int | None = None
    validation: float = 0.0
    patience: int | None = None
    eval_split: str | None = None
    drop_unseen: bool = False
    save_steps: int | None = None
    track: When | None = "epoch"
    track_texts: int | None = None
    stop_on_collapse: bool = False
    report_to: tuple[str, ...] = ()
    device: Literal["auto", "cpu"] = "auto"
    revision: str | None = None
    trust_remote_code: bool = False
    method: Method = "plain"
    strength: float | None = None
    published: bool = False
    layer: LayerSettings | None = None
    track_hulls: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_length", "train_rows", "patience", "save_steps", "track_texts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate={self.learning_rate} must be above 0")
        for name in ("warmup", "validation"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is a share: at least 0 and below 1")
        if self.patience is not None and not self.validation:
            raise ValueError(f"patience={self.patience} needs rows to judge by: set validation, such as 0.3 for a 70/30 split")
        find_task(self.task)
        self._check_strategy()
        self._check_method()
        self._check_hulls()
        for name, known in (("schedule", ("linear", "constant")), ("pooling", (None, "mean", "cls"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r} must be one of {known}")

    def _check_strategy(self) -> None:
        if not re.fullmatch(r"full|head|lora|frozen:\d+", self.strategy):
            raise ValueError(f"strategy={self.strategy!r} must be {STRATEGIES}")
        if self.strategy == "head" and self.is_siamese:
            raise ValueError(
                "strategy='head' trains nothing in a Siamese run, which has no head; use 'full', 'frozen:N' or 'lora'"
            )

    def _check_method(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} must be one of {', '.join(METHODS)}")
        for name, given, methods in (
            ("strength", self.strength is not None, ("cosreg", "istar")),
            ("published", self.published, ("isobn",)),
            ("layer", self.layer is not None, ("isolayer",)),
        ):
            if given and self.method not in methods:
                raise ValueError(f"{name} is for method {' or '.join(methods)}, not {self.method!r}")
        if self.method == "plain":
            return
        if self.is_siamese or self.declared.on_words:
            why = "a Siamese run has no head" if self.is_siamese else "a task on words has many vectors a text"
            way = "; siamese=False (--preset il23) puts both texts in one sequence" if self.is_siamese else ""
            raise ValueError(f"method={self.method!r} needs one vector a text between encoder and head, and {why}{way}")
        if self.method != "isolayer" and self.batch_size < 2:
            raise ValueError(f"batch_size={self.batch_size} must be at least 2: {self.method} compares the rows of a batch")
        if self.method == "isolayer" and not self.validation:
            raise ValueError("method='isolayer' is stopped by rows held out: set validation, such as 0.3 for a 70/30 split")

    def _check_hulls(self) -> None:
        if not self.track_hulls:
            return
        if self.track is None:
            raise ValueError("track_hulls is measured when the geometry is, which is never: set track, such as 'epoch'")
        if self.declared.kind == "similarity":
            raise ValueError(f"track_hulls needs labels, and task {self.declared.name!r} has scores; leave it out")

    @property
    def declared(self) -> Task:
        """The task itself."""
        return find_task(self.task)

    @property
    def is_siamese(self) -> bool:
        return self.siamese and self.declared.kind == "similarity"

    @property
    def pooled(self) -> Pooling:
        """The pooling where whole texts are pooled."""
        return self.pooling or ("mean" if self.is_siamese else "cls")

    @property
    def frozen_layers(self) -> int | None:
        """N of frozen:N, otherwise None."""
        return int(self.strategy.partition(":")[2]) if self.strategy.startswith("frozen") else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: what has to agree for a run to be continued. `output` may move."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("output", *LATER)}
        values |= {name: getattr(self, name) for name in LATER if getattr(self, name) != getattr(type(self), name)}
        if self.method == "isolayer":
            values["layer"] = asdict(self.layer or LayerSettings())
        if isinstance(self.task, Task):
            values["task"] = {**asdict(self.task), "layout": repr(self.task.layout)}
        return values


PRESETS: dict[str, Mapping[str, Any]] = {
    # Rajaee & Pilehvar (2021). Not stated there, so ours: schedule and warm-up, as in sentence-transformers' own example.
    "rp21": {
        "epochs": 3,
        "batch_size": 32,
        "learning_rate": 7e-5,
        "warmup": 0.1,
        "schedule": "linear",
        "pooling": "mean",
    },
    # The isotropy-layer paper (IL23): [CLS], AdamW, early stopping by the task metric on a 70/30 split. Not stated there, so
    # ours: learning rate, batch size, warm-up, decay, the largest number of epochs and the patience.
    "il23": {
        "epochs": 10,
        "batch_size": 16,
        "learning_rate": 2e-5,
        "warmup": 0.1,
        "weight_decay": 0.01,
        "schedule": "linear",
        "pooling": "cls",
        "siamese": False,
        "validation": 0.3,
        "patience": 2,
    },
    # Zhou & Srikumar (2022): Adam, which AdamW without decay is. Ten epochs; three for BERT-base.
    "zs22": {
        "epochs": 10,
        "batch_size": 32,
        "learning_rate": 3e-4,
        "warmup": 0.1,
        "weight_decay": 0.0,
        "schedule": "linear",
        "pooling": "cls",
    },
}
"""The papers' hyper-parameters by name: rp21, il23, zs22."""


def preset(
    name: str, *, task: str | Task, model: str | os.PathLike[str], output: str | os.PathLike[str], **changes: Any
) -> TuneSettings:
    """The settings of a paper for a task and a model, with whatever is to differ from them."""
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    return TuneSettings(task=task, model=os.fspath(model), output=os.fspath(output), **{**PRESETS[name], **changes})
