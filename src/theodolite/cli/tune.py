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
from theodolite.cli.tune_seeds import report_seeds, run_seeds, seeds_of, show_states
from theodolite.cli.tune_wish import Wish, layer_of, when

if TYPE_CHECKING:
    from theodolite.tuning.run import Tuned
    from theodolite.tuning.settings import TuneSettings


@guarded
def tune_command(
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Folder for the fine-tuned encoder and all numbers.")],
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Hub id or folder of an encoder; demo for the one of [demo]. Not with --from."),
    ] = None,
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
    method: Annotated[
        str,
        typer.Option(
            help="plain; isolayer (an Isotropy Layer after a plain run); isobn, cosreg or istar (during training).",
            metavar="NAME",
        ),
    ] = "plain",
    strength: Annotated[float | None, typer.Option(help="Weight of the penalty of cosreg or istar; 1 by default.")] = None,
    published: Annotated[bool, typer.Option("--published", help="IsoBN as its authors' program behaves.")] = False,
    layer: Annotated[
        list[str] | None,
        typer.Option(help="Setting of the Isotropy Layer, such as alpha=0.3, depth=2, trains=alternate.", metavar="KEY=VALUE"),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="Finished plain run(s) for isolayer to start from; {seed} stands for the seed.", metavar="FOLDER"
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="full, frozen:N (embeddings and the first N layers stay), head, or lora; full by default.", metavar="NAME"
        ),
    ] = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of the training rows held out for early stopping.", metavar="X")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Epochs without a better score before stopping.", min=1, metavar="N")
    ] = None,
    train_rows: Annotated[int | None, typer.Option(help="At most so many training rows.", min=1, metavar="N")] = None,
    max_length: MaxLength = None,
    seed: Annotated[int, typer.Option(help="Seed of everything that is random.", metavar="N")] = 0,
    seeds: Annotated[
        str | None, typer.Option(help="Several seeds with commas, one run each in FOLDER/seed-N.", metavar="LIST")
    ] = None,
    track: Annotated[
        str | None,
        typer.Option(
            help="When to measure the geometry: epoch (default), every N steps, steps with commas, or never.", metavar="WHEN"
        ),
    ] = None,
    track_hulls: Annotated[
        bool, typer.Option("--track-hulls", help="Measure the distances between the labels' convex hulls too.")
    ] = False,
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

    A run that was cut off goes on from its last whole checkpoint, to the very weights it would have had. Methods against
    anisotropy print the score, IsoScore and EV 1 to 3 of the vectors that the head takes, before and after.

    \b
    Examples:
      theodolite tune bert-base-uncased --task stsb --to tuned-stsb
      theodolite tune ./my-encoder --task cola --data ./data --preset il23 --seed 1 --to tuned-cola
      theodolite tune ./my-encoder --own train=mine.csv --own dev=mine-dev.csv --kind classification --to tuned
      theodolite tune ./my-encoder --task rte --method isolayer --seeds 0,1,2 --to layered
      theodolite tune --method isolayer --from tuned-cola --layer alpha=0.3 --to layered
      theodolite tune ./my-encoder --task rte --method isobn --seeds 0,1,2 --to normed
    """  # noqa: D301  # \b keeps the lines of the example apart
    asked: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "pooling": pooling,
        "strategy": strategy,
        "validation": validation,
        "patience": patience,
        "train_rows": train_rows,
        "max_length": max_length,
        "revision": revision,
        "track_hulls": track_hulls or None,
        "stop_on_collapse": stop_on_collapse or None,
        "report_to": tuple(split(report_to) or ()) or None,
        "trust_remote_code": trust_remote_code or None,
        "device": None if device == "auto" else device,
    }
    wish = Wish(
        declared=chosen_task(task, own, kind, column, score_range, encoding),
        model=model,
        preset=preset,
        asked={name: value for name, value in asked.items() if value is not None}
        | ({} if track is None else {"track": when(track)}),
        method={"method": method, "strength": strength, "published": published, "layer": layer_of(layer)},
        source=source,
    )
    many = None if seeds is None else seeds_of(seeds)

    def run(number: int) -> Tuned:
        folder = to if many is None else f"{to}/seed-{number}"
        settings, plain = wish.settings(number, folder, several=many is not None)
        with progress() as bars:
            return finished(settings, data=data, resume=resume, overwrite=overwrite, plain=plain, progress=bars.steps("training"))

    if many is not None:
        report_seeds(run_seeds(many, run, quiet=as_json), to, as_json=as_json)
        return
    tuned = run(seed)
    if as_json:
        print_json({"folder": str(tuned.folder), "rows": [row.to_dict() for row in tuned.rows]})
    else:
        show_tuned(tuned, to)


def finished(settings: TuneSettings, **how: Any) -> Tuned:
    """The run, with a training that diverged as an error of use: another learning rate is the way out."""
    from theodolite.tuning import tune
    from theodolite.tuning.trainers import Diverged

    try:
        return tune(settings, **how)
    except Diverged as diverged:
        raise ValueError(str(diverged)) from diverged


def show_tuned(tuned: Tuned, folder: str) -> None:
    """Score and geometry, before and after."""
    from theodolite.cli.layers import show_steps
    from theodolite.cli.numbers import number

    console = stdout()
    score = next(row for row in tuned.rows if row.state == "fine-tuned")
    before, after = number(tuned.before), number(tuned.after)
    console.print(f"{score.task} {score.split}: {score.metric} {before} → {after} after {tuned.steps} steps", markup=False)
    show_states(console, [tuned])
    show_steps(console, tuned.rows)
    console.print(f"the fine-tuned encoder: {tuned.folder}; all numbers: {folder}/rows.parquet", markup=False, soft_wrap=True)
