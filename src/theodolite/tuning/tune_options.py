"""The options of `tune`, declared once for Python and the command line, whose help reads them: imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, get_args, get_type_hints

Pooling: TypeAlias = Literal["mean", "cls", "last"]
Method: TypeAlias = Literal["plain", "isolayer", "isobn", "cosreg", "istar"]


@dataclass(frozen=True)
class TypedOption:
    """How an option of `tune` is typed on the command line and described there and in Python."""

    help: str
    metavar: str = ""
    default: Any = None
    at_least: int | None = None
    names: tuple[str, ...] = ()
    repeated: bool = False
    in_python: str = ""  # the description in Python, if it differs


_Folder: TypeAlias = str | os.PathLike[str] | None


class TuneOptions(TypedDict, total=False):
    """The keyword options of `tune`, of which its signature, its documentation and the command line are made.

    A default of None is the preset's own value, or none. Those without a description say how texts are read, as every verb does.
    """

    task: Any  # a name or a `Task`
    data: _Folder
    own: Mapping[str, str | os.PathLike[str] | Sequence[str | os.PathLike[str]]] | None
    kind: str | None
    column: Mapping[str, str] | None
    score_range: tuple[float, float] | None
    delimiter: str | None
    header: bool | None
    encoding: str | None
    to: Annotated[
        _Folder,
        TypedOption(
            "Folder for the encoder and all numbers; theodolite-tuned/... by default.",
            "FOLDER",
            in_python="Folder for the fine-tuned encoder and all numbers; `theodolite-tuned/MODEL-TASK[-METHOD]` by default.",
        ),
    ]
    preset: Annotated[
        Literal["rp21", "il23", "zs22", "isobn"] | None,
        TypedOption("Hyper-parameters of a paper: rp21, il23, zs22 or isobn; by default one that fits the task.", "NAME"),
    ]
    epochs: Annotated[int | None, TypedOption("Passes over the training examples.", "N", at_least=1)]
    batch_size: Annotated[int | None, TypedOption("Examples per batch.", "N", at_least=1)]
    learning_rate: Annotated[float | None, TypedOption("Peak learning rate.", "X", names=("--learning-rate", "--lr"))]
    by_length: Annotated[
        bool | None,
        TypedOption(
            "Fill each batch with texts of similar length, which trains faster; on by default, unless a preset is named."
        ),
    ]
    pooling: Annotated[Pooling | None, TypedOption("mean, cls or last (the last token, for decoders).", "NAME")]
    method: Annotated[
        Method,
        TypedOption(
            "plain; isolayer (an Isotropy Layer after a plain run); isobn, cosreg or istar (during training).", "NAME", "plain"
        ),
    ]
    strength: Annotated[float | None, TypedOption("Weight of the penalty of cosreg or istar; 1 by default.", "X")]
    published: Annotated[bool, TypedOption("Use IsoBN as in its authors' program.", default=False)]
    layer: Annotated[
        Mapping[str, Any] | None,
        TypedOption(
            "Setting of the Isotropy Layer, such as alpha=0.3, depth=2, trains=alternate; may be repeated.",
            "KEY=VALUE",
            repeated=True,
            in_python='Settings of the Isotropy Layer, such as `{"alpha": 0.3, "depth": 2}`; see `LayerSettings`.',
        ),
    ]
    from_run: Annotated[
        _Folder, TypedOption("Finished plain run(s) for isolayer to start from; {seed} is replaced by the seed.", "FOLDER")
    ]
    strategy: Annotated[
        str | None,
        TypedOption("full, frozen:N (embeddings and the first N layers do not train), head, or lora; full by default.", "NAME"),
    ]
    validation: Annotated[float | None, TypedOption("Share of the training examples held out for early stopping.", "X")]
    patience: Annotated[int | None, TypedOption("Epochs without a better score before stopping.", "N", at_least=1)]
    train_rows: Annotated[int | None, TypedOption("Use at most N training examples.", "N", at_least=1)]
    seed: Annotated[int, TypedOption("Random seed.", "N", 0)]
    seeds: Annotated[
        Sequence[int] | None,
        TypedOption(
            "Several seeds separated by commas, one run each in FOLDER/seed-N.",
            "LIST",
            in_python="Several seeds, one run each in TO/seed-N; the result has median and standard deviation too.",
        ),
    ]
    track: Annotated[
        str | int | Sequence[int] | None,
        TypedOption(
            "When to measure the geometry: epoch (default), every N steps, steps separated by commas, or never.",
            "WHEN",
            in_python='When to measure the geometry: "epoch" (default), every N steps, a list of steps, or "never".',
        ),
    ]
    track_hulls: Annotated[bool, TypedOption("Also measure the distances between the labels' convex hulls.", default=False)]
    stop_on_collapse: Annotated[bool, TypedOption("Stop when the space collapses.", default=False)]
    resume: Annotated[bool, TypedOption("Continue an interrupted run.", default=True)]
    report_to: Annotated[Sequence[str], TypedOption("Dashboards: tensorboard, wandb.", "LIST", ())]
    device: Annotated[str, TypedOption("auto or cpu.", "NAME", "auto")]
    max_length: int | None
    revision: str | None
    trust_remote_code: bool
    allow_unknown: bool
    dry_run: Annotated[bool, TypedOption("Print what would be done and downloaded, and stop.", default=False)]
    overwrite: Annotated[bool, TypedOption("Replace what exists already.", default=False)]


# The options with their types and, if they are described above, how they are typed; then their defaults.
TUNE_OPTIONS = {
    name: (get_args(hint)[0], hint.__metadata__[0]) if hasattr(hint, "__metadata__") else (hint, None)
    for name, hint in get_type_hints(TuneOptions, include_extras=True).items()
}
TUNE_DEFAULTS = {
    name: (False if kind is bool else None) if typed is None else typed.default for name, (kind, typed) in TUNE_OPTIONS.items()
}
