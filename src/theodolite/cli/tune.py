"""`theodolite tune`: fine-tune an encoder on a task, with its geometry tracked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.frame import AsJson, Overwrite, guarded, print_json, progress, split, stdout
from theodolite.cli.texts import (
    Column,
    Data,
    Encoding,
    Kind,
    MaxLength,
    Own,
    Revision,
    ScoreRange,
    TaskName,
    Trust,
    chosen_task,
)

if TYPE_CHECKING:
    from theodolite.tuning.run import Tuned


@guarded
def tune_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Hub id or folder of an encoder; demo for the one of [demo].")],
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Folder for the fine-tuned encoder and all numbers.")],
    task: TaskName = None,
    data: Data = None,
    own: Own = None,
    kind: Kind = None,
    column: Column = None,
    score_range: ScoreRange = None,
    encoding: Encoding = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Hyper-parameters of a paper: rp21, il23 or zs22; fits the task by default.", metavar="NAME"),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training rows.", min=1, metavar="N")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows in a batch.", min=1, metavar="N")] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", "--lr", help="Peak learning rate.", metavar="X")
    ] = None,
    pooling: Annotated[str | None, typer.Option(help="mean or cls.", metavar="NAME")] = None,
    strategy: Annotated[
        str, typer.Option(help="full, frozen:N (embeddings and the first N layers stay), head, or lora.", metavar="NAME")
    ] = "full",
    validation: Annotated[
        float | None, typer.Option(help="Share of the training rows held out for early stopping.", metavar="X")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Epochs without a better score before stopping.", min=1, metavar="N")
    ] = None,
    train_rows: Annotated[int | None, typer.Option(help="At most so many training rows.", min=1, metavar="N")] = None,
    max_length: MaxLength = None,
    seed: Annotated[int, typer.Option(help="Seed of everything that is random.", metavar="N")] = 0,
    track: Annotated[
        str, typer.Option(help="When to measure the geometry: epoch, every N steps, steps with commas, or never.", metavar="WHEN")
    ] = "epoch",
    stop_on_collapse: Annotated[bool, typer.Option("--stop-on-collapse", help="Stop when the space collapses.")] = False,
    resume: Annotated[bool, typer.Option("--resume/--no-resume", help="Go on with a run that was cut off.")] = True,
    report_to: Annotated[str | None, typer.Option(help="Dashboards: tensorboard, wandb.", metavar="LIST")] = None,
    device: Annotated[str, typer.Option(help="auto or cpu.", metavar="NAME")] = "auto",
    revision: Revision = None,
    trust_remote_code: Trust = False,
    as_json: AsJson = False,
    overwrite: Overwrite = False,
) -> None:
    """Fine-tune an encoder on a task, and watch what that does to its space.

    A run that was cut off goes on from its last whole checkpoint, to the very weights it would have had.

    \b
    Examples:
      theodolite tune bert-base-uncased --task stsb --to tuned-stsb
      theodolite tune ./my-encoder --task cola --data ./data --preset il23 --seed 1 --to tuned-cola
      theodolite tune ./my-encoder --own train=mine.csv --own dev=mine-dev.csv --kind classification --to tuned
    """  # noqa: D301  # \b keeps the lines of the example apart
    declared = chosen_task(task, own, kind, column, score_range, encoding)
    if declared is None:
        raise ValueError("say what to tune on: --task NAME, or --own SPLIT=FILE with --kind")
    from theodolite.tasks.load import find_task
    from theodolite.tuning import preset as settings_of
    from theodolite.tuning import tune

    asked = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "pooling": pooling,
        "validation": validation,
        "patience": patience,
        "train_rows": train_rows,
        "max_length": max_length,
        "revision": revision,
    }
    settings = settings_of(
        preset or preset_for(find_task(declared).kind),
        task=declared,
        model=model_place(model),
        output=to,
        strategy=strategy,
        seed=seed,
        track=when(track),
        stop_on_collapse=stop_on_collapse,
        report_to=tuple(split(report_to) or ()),
        device=device,
        trust_remote_code=trust_remote_code,
        **{name: value for name, value in asked.items() if value is not None},
    )
    with progress() as bars:
        tuned = tune(settings, data=data, resume=resume, overwrite=overwrite, progress=bars.steps("training"))
    if as_json:
        print_json({"folder": str(tuned.folder), "rows": [row.to_dict() for row in tuned.rows]})
    else:
        show_tuned(tuned, to)


def show_tuned(tuned: Tuned, folder: str) -> None:
    """Score and geometry, before and after."""
    from theodolite.cli.layers import show_steps
    from theodolite.cli.numbers import number

    console = stdout()
    score = next(row for row in tuned.rows if row.state == "fine-tuned")
    before, after = number(tuned.before), number(tuned.after)
    console.print(f"{score.task} {score.split}: {score.metric} {before} → {after} after {tuned.steps} steps", markup=False)
    show_steps(console, tuned.rows)
    console.print(f"the fine-tuned encoder: {tuned.folder}; all numbers: {folder}/rows.parquet", markup=False, soft_wrap=True)


def preset_for(kind: str) -> str:
    """The paper whose protocol fits a kind of task."""
    return {"similarity": "rp21", "classification": "il23", "pair_classification": "il23"}.get(kind, "zs22")


def model_place(model: str) -> str:
    """The folder of the demo's encoder, or the name as given."""
    if model != "demo":
        return model
    from theodolite.models.demo import demo_folder

    return str(demo_folder())


def when(track: str) -> Any:
    """The steps a tracker measures at, from the option."""
    if track in ("epoch", "never"):
        return None if track == "never" else "epoch"
    try:
        steps = tuple(int(part) for part in split(track) or [])
    except ValueError:
        raise ValueError(f"--track {track!r} must be epoch, never, a number of steps, or steps with commas") from None
    return steps[0] if len(steps) == 1 and "," not in track else steps
