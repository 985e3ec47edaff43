"""The settings of a fine-tuning run and of the Isotropy Layer. Nothing here needs torch."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias, get_type_hints

from theodolite.core.declared import as_declared
from theodolite.core.spelling import option, suggestion
from theodolite.tasks.declarations import find_task
from theodolite.tasks.task import Task
from theodolite.tuning.tune_options import Method, Pooling

Schedule: TypeAlias = Literal["linear", "constant"]
# When the geometry is measured: at the end of every epoch, every N steps, or at these steps; step 0 always.
When: TypeAlias = Literal["epoch"] | int | tuple[int, ...]
Trains: TypeAlias = Literal["layer", "alternate", "joint"]
# What a study decides itself for every run.
FIXED_BY_STUDY = ("task", "model", "output", "seed", "method", "revision", "trust_remote_code")
Activation: TypeAlias = Literal["identity", "relu", "tanh", "gelu"]
# The name of the held-out training examples as a split.
HELD_OUT = "held-out"

# What acts on the space while it is fine-tuned, or after.
METHODS: dict[Method, str] = {
    "plain": "nothing but the task",
    "isolayer": "a plain run, then an Isotropy Layer between its frozen encoder and head (IL23)",
    "isobn": "isotropic batch normalisation before the head (Zhou et al. 2021)",
    "cosreg": "the batch's mean cosine as a penalty (Gao et al. 2019)",
    "istar": "1 - IsoScore* of the batch as a penalty (I-STAR, Rudman & Eickhoff 2023)",
}


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """The Isotropy Layer and its training (IL23).

    The paper gives the loss and its balance. It gives no value for the layer itself, `learning_rate`, `batch_size`, `epochs`
    and `patience`, so these are ours: AdamW with a constant learning rate and no decay, which would pull the map to zero and
    not to the identity. The epoch with the best score on the validation rows is kept; of equal ones, that with the higher
    IsoScore. The untrained layer is not a candidate: it would often win by a hair.

    Parameters
    ----------
    trains
        "layer" (alone, encoder and head stay frozen), "alternate" (layer, then head, as long as the validation score rises) or
        "joint" (layer and head at once).
    depth, activation, bias, orthogonal
        The layer's form; see `IsotropyLayer`.
    alpha
        Weight of the task's loss, in [0, 1]; 1 - alpha is that of log(1/IsoScore).
    balanced
        Whether each loss is scaled by its moving average (eq. 3); otherwise they are added as they are (eq. 2).
    corrected
        Whether the IsoScore of a batch is bias-corrected; the plain one has a ceiling of (B - 2)/(d - 1) in batches of B rows.
    smoothing, initial, detach, update
        The moving averages; see `Balance`.
    learning_rate
        Of AdamW, constant.
    batch_size
        Rows per batch, at least 3 (2 if not `corrected`).
    epochs
        Passes over the training rows at most.
    patience
        Passes without a better validation score before the training ends.
    """

    trains: Trains = "layer"
    depth: int = 1
    activation: Activation = "identity"
    bias: bool = True
    orthogonal: bool = False
    alpha: float = 0.5
    balanced: bool = True
    corrected: bool = True
    smoothing: float = 0.15
    initial: Literal["first", "ones"] = "first"
    detach: bool = True
    update: Literal["after", "before"] = "after"
    learning_rate: float = 1e-4
    batch_size: int = 128
    epochs: int = 100
    patience: int = 10

    def __post_init__(self) -> None:
        check_settings(LayerSettings, self.__dict__)
        for name in ("depth", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        fewest = 3 if self.corrected else 2
        if self.batch_size < fewest:
            raise ValueError(f"batch_size={self.batch_size} must be at least {fewest}: fewer rows have no IsoScore")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate={self.learning_rate} must be above 0")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha={self.alpha} must be in [0, 1]: 1 is the task's loss alone, 0 isotropy alone")

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> LayerSettings:
        """Settings from names and values, such as a user types them.

        Parameters
        ----------
        options
            Values by the name of their setting; what is not named has its default.

        Raises
        ------
        ValueError
            A name is not a setting of the layer; the message lists those there are.
        """
        names = [field.name for field in fields(cls)]
        unknown = next((name for name in options if name not in names), None)
        if unknown is not None:
            raise ValueError(f"the Isotropy Layer has no setting {unknown!r}; it has {', '.join(names)}")
        return cls(**options)

    @property
    def of_layer(self) -> dict[str, Any]:
        """The arguments of `IsotropyLayer`."""
        return {name: getattr(self, name) for name in ("depth", "bias", "activation", "orthogonal")}

    @property
    def of_balance(self) -> dict[str, Any]:
        """The arguments of `Balance`."""
        return {name: getattr(self, name) for name in ("alpha", "smoothing", "balanced", "initial", "detach", "update")}

    def summary(self) -> str:
        """The method as rows name it: "isolayer" and the settings that differ from their defaults."""
        changed = [field for field in fields(self) if getattr(self, field.name) != field.default]
        return " ".join(["isolayer", *(f"{field.name}={getattr(self, field.name)}" for field in changed)])


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """The settings of one fine-tuning run.

    Parameters
    ----------
    task
        Name of a task, or a task.
    model
        A Hub id, a folder, or "demo".
    output
        The folder that gets everything the run makes.
    epochs
        Passes over the training rows.
    batch_size
        Examples per batch and device.
    learning_rate
        Peak learning rate of AdamW.
    warmup
        Share of all steps in which the learning rate rises, in [0, 1). With `patience` nobody knows how many steps there will be:
        the share is then of the 1 + `patience` epochs that the run trains at least.
    weight_decay
        Of AdamW.
    schedule
        "linear" (the learning rate falls to 0) or "constant", after the warm-up.
    pooling
        "mean", "cls" or "last" (the last token, for decoders); by default the mean for Siamese runs and [CLS] for others. Tasks
        on words always take the mean of each word's subwords.
    siamese
        Whether the two texts of a similarity task are encoded apart and compared by their cosine; otherwise both are one
        sequence, with one output and squared error.
    strategy
        "full", "frozen:N" (embeddings and the first N layers stay as they are), "head" (the encoder stays) or "lora".
    seed
        Random seed.
    max_length
        Texts are cut to this number of tokens.
    train_rows
        Use at most this number of training examples.
    validation
        Share of the training examples held out, in [0, 1); 0.3 is a 70/30 split. The epoch with the best main score there is
        kept.
    patience
        Epochs with a lower validation score than the best before the run ends; needs `validation`. An epoch with the very same
        score is not better, but is not counted either, unless it is a perfect 1: a model that still answers one label to every
        text is not finished.
    by_length
        Whether the texts of a batch have similar lengths, which takes less padding.
    eval_split
        The split that is scored before and after; by default the task's scored split. "held-out" scores the validation rows, and
        reads no split besides the training one.
    drop_unseen
        Whether scored examples with a label that training does not have are left out; otherwise they are an error.
    save_steps
        Write a checkpoint every N steps, besides those at the ends of epochs.
    track
        When the geometry is measured: "epoch", a number of steps, several steps, "never" (or None), or any of these as text,
        such as "0,10,50".
    track_texts
        On how many texts; by default 256, or fewer if they would cost more than 5% of the training.
    track_rows
        Of more labelled vectors than this, hulls are measured and vectors kept of a stratified sample.
    track_hulls
        Whether to measure the distances between the labels' convex hulls too.
    stop_on_collapse
        Whether the run ends when the space collapses.
    report_to
        Dashboards, such as "tensorboard".
    device
        "auto" or "cpu".
    revision, trust_remote_code
        As in `Encoder.load`.
    allow_unknown
        Whether any share of the texts' tokens may be unknown to the tokenizer; a fifth is an error otherwise.
    method
        A key of `METHODS`. It acts on the vectors that the head takes; tasks on words and Siamese runs have none.
    strength
        Weight of the penalty of cosreg (γ) or istar (λ); 1 by default.
    published
        IsoBN as its authors' program behaves.
    pooler
        Whether the head takes [CLS] after a dense layer with tanh, and dropout: the place that IsoBN was published for.
    layer
        How an Isotropy Layer is trained; `LayerSettings()` by default if that is the method.
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
    by_length: bool = False
    eval_split: str | None = None
    drop_unseen: bool = False
    save_steps: int | None = None
    track: When | str | None = "epoch"
    track_texts: int | None = None
    track_rows: int = 1024
    track_hulls: bool = False
    stop_on_collapse: bool = False
    report_to: tuple[str, ...] = ()
    device: Literal["auto", "cpu"] = "auto"
    revision: str | None = None
    trust_remote_code: bool = False
    allow_unknown: bool = False
    method: Method = "plain"
    strength: float | None = None
    published: bool = False
    pooler: bool = False
    layer: LayerSettings | None = None

    def __post_init__(self) -> None:
        check_settings(TuneSettings, self.__dict__)
        task = self.declared  # raises if there is no such task
        object.__setattr__(self, "track", steps_to_track(self.track))
        if self.method == "isolayer" and self.layer is None:
            object.__setattr__(self, "layer", LayerSettings())
        for name in ("epochs", "batch_size", "max_length", "train_rows", "patience", "save_steps", "track_texts", "track_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{option(name, str(value))} must be at least 1")
        if not self.learning_rate > 0:
            raise ValueError(f"{option('learning_rate', str(self.learning_rate))} must be above 0")
        for name in ("warmup", "validation"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{option(name, str(getattr(self, name)))} must be a share, at least 0 and below 1")
        if self.patience is not None and not self.validation:
            raise ValueError(f"{option('patience', str(self.patience))} needs held-out rows: set {option('validation', '0.3')}")
        if self.eval_split == HELD_OUT and not self.validation:
            raise ValueError(f"eval_split={HELD_OUT!r} needs held-out rows: set {option('validation', '0.3')}")
        if not re.fullmatch(r"full|head|lora|frozen:\d+", self.strategy):
            raise ValueError(f"{option('strategy', self.strategy)} must be full, frozen:N, head or lora")
        if self.strategy == "head" and self.is_siamese:
            raise ValueError(f"{option('strategy', 'head')}: a Siamese run has no head; use full, frozen:N or lora")
        self._check_method()
        if self.track_hulls and self.track is None:
            raise ValueError(f"track_hulls needs the geometry to be measured: set {option('track', 'epoch')}")
        if self.track_hulls and task.kind == "similarity":
            raise ValueError(f"track_hulls needs labels, but task {task.name!r} has scores; leave it out")

    def _check_method(self) -> None:
        for name, is_set, methods in (
            ("strength", self.strength is not None, ("cosreg", "istar")),
            ("published", self.published, ("isobn",)),
            ("layer", self.layer is not None, ("isolayer",)),
        ):
            if is_set and self.method not in methods:
                raise ValueError(f"{name} is for method {' or '.join(methods)}, not {self.method!r}")
        if self.pooler and (self.is_siamese or self.declared.on_words or self.pooled != "cls" or self.method == "isolayer"):
            raise ValueError("pooler is for [CLS] of whole texts, but not for method isolayer; leave it out")
        if self.method == "plain":
            return
        if self.is_siamese or self.declared.on_words:
            reason = "a Siamese run has no head" if self.is_siamese else "a task on words has many vectors per text"
            way_out = f"; {option('preset', 'il23')} puts both texts into one sequence" if self.is_siamese else ""
            raise ValueError(
                f"{option('method', self.method)} needs one vector per text between encoder and head, but {reason}{way_out}"
            )
        if self.method != "isolayer" and self.batch_size < 2:
            raise ValueError(f"{option('batch_size', str(self.batch_size))} must be at least 2: {self.method} compares rows")
        if self.method == "isolayer" and not self.validation:
            raise ValueError(f"{option('method', 'isolayer')} needs held-out rows to stop by: set {option('validation', '0.3')}")

    @property
    def declared(self) -> Task:
        """The task itself."""
        return find_task(self.task)

    @property
    def is_siamese(self) -> bool:
        """Whether two texts are encoded apart and compared."""
        return self.siamese and self.declared.kind == "similarity"

    @property
    def pooled(self) -> Pooling:
        """How whole texts are pooled."""
        return self.pooling or ("mean" if self.is_siamese else "cls")

    def method_summary(self) -> str:
        """The method and what was chosen for it, as rows name it; empty for a plain run."""
        if self.method == "plain":
            return ""
        if self.layer is not None:
            return self.layer.summary()
        options = {"strength": self.strength, "published": self.published or None}
        return " ".join([self.method, *(f"{name}={value}" for name, value in options.items() if value is not None)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: all that has to agree for a run to be continued, so not `output`, which may move."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "output"}
        if self.layer is not None:
            values["layer"] = asdict(self.layer)
        if isinstance(self.task, Task):  # a task of one's own is known by what it declares
            values["task"] = {**asdict(self.task), "layout": repr(self.task.layout)}
        return values


def check_settings(kind: type[TuneSettings | LayerSettings], values: Mapping[str, Any]) -> None:
    """Raise an error if a setting is not of the type that its class declares, or is not a number that can be computed with."""
    hints = get_type_hints(kind)
    for name, value in values.items():
        number = as_declared(hints[name], value, name)
        # Not a number is what null becomes; whole numbers beyond 2**53 are counts of nothing.
        if isinstance(number, (int, float)) and not abs(number) <= (2**53 if isinstance(number, int) else sys.float_info.max):
            raise ValueError(f"{name} is {value!r:.40}; it must be a finite number")


def check_hyper_parameters(values: Mapping[str, Any]) -> None:
    """Raise an error unless every name is a hyper-parameter that a study may set, or `preset`, with a value of its type."""
    names = [field.name for field in fields(TuneSettings) if field.name not in FIXED_BY_STUDY]
    unknown = next((name for name in values if name not in (*names, "preset")), None)
    if unknown == "trust_remote_code":
        raise ValueError(f"a setting cannot allow a model's code to run; allow it with {option('trust_remote_code')}")
    if unknown is not None:
        raise ValueError(f"a study has no hyper-parameter {unknown!r} to set; {suggestion(unknown, names)}")
    as_declared(str, values.get("preset", ""), "preset")
    check_settings(TuneSettings, {name: value for name, value in values.items() if name != "preset"})


def steps_to_track(track: When | str | Sequence[int] | None) -> When | None:
    """When the geometry is measured, from any of its spellings; None for never.

    Examples
    --------
    >>> steps_to_track("never"), steps_to_track("50"), steps_to_track("0,10,50"), steps_to_track([3])
    (None, 50, (0, 10, 50), (3,))
    """
    if track is None or track == "never":
        return None
    if track == "epoch":
        return "epoch"
    numbers = track.split(",") if isinstance(track, str) else [track] if isinstance(track, int) else track
    try:
        steps = tuple(int(number) for number in numbers if str(number).strip())
    except ValueError:
        steps = ()
    is_every = isinstance(track, int) or (isinstance(track, str) and "," not in track)
    if not steps or min(steps) < (1 if is_every else 0):
        raise ValueError(f"{option('track', str(track))} must be epoch, never, a number of steps, or steps with commas (0,10)")
    return steps[0] if is_every else steps
