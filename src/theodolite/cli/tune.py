"""`theodolite tune`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import guarded, print_json, show


@guarded
@opt.reading_options(
    "task",
    "data",
    "own",
    "kind",
    "column",
    "score_range",
    "delimiter",
    "header",
    "encoding",
    "max_length",
    "revision",
    "trust_remote_code",
    "allow_unknown",
)
def tune_command(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="Hub id or folder of an encoder; demo for the one of the extra [demo]. Not with --from-run."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FOLDER", help="Folder for the encoder and all numbers; theodolite-tuned/... by default."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Hyper-parameters of a paper: rp21, il23, zs22 or isobn; one that fits the task by default.", metavar="NAME"
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training examples.", min=1, metavar="N")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Examples per batch.", min=1, metavar="N")] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", "--lr", help="Peak learning rate.", metavar="X")
    ] = None,
    pooling: Annotated[str | None, typer.Option(help="mean, cls or last (the last token, for decoders).", metavar="NAME")] = None,
    method: Annotated[
        str,
        typer.Option(
            help="plain; isolayer (an Isotropy Layer after a plain run); isobn, cosreg or istar (during training).",
            metavar="NAME",
        ),
    ] = "plain",
    strength: Annotated[
        float | None, typer.Option(help="Weight of the penalty of cosreg or istar; 1 by default.", metavar="X")
    ] = None,
    published: Annotated[bool, typer.Option("--published", help="IsoBN as its authors' program behaves.")] = False,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            help="Setting of the Isotropy Layer, such as alpha=0.3, depth=2, trains=alternate; may be repeated.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    from_run: Annotated[
        str | None,
        typer.Option(help="Finished plain run(s) for isolayer to start from; {seed} becomes the seed.", metavar="FOLDER"),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="full, frozen:N (embeddings and the first N layers stay as they are), head, or lora; full by default.",
            metavar="NAME",
        ),
    ] = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of the training examples held out for early stopping.", metavar="X")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Epochs without a better score before stopping.", min=1, metavar="N")
    ] = None,
    train_rows: Annotated[int | None, typer.Option(help="Use at most N training examples.", min=1, metavar="N")] = None,
    seed: opt.Seed = 0,
    seeds: Annotated[
        str | None, typer.Option(help="Several seeds separated by commas, one run each in FOLDER/seed-N.", metavar="LIST")
    ] = None,
    track: Annotated[
        str | None,
        typer.Option(
            help="When to measure the geometry: epoch (default), every N steps, steps separated by commas, or never.",
            metavar="WHEN",
        ),
    ] = None,
    track_hulls: Annotated[
        bool, typer.Option("--track-hulls", help="Also measure the distances between the labels' convex hulls.")
    ] = False,
    stop_on_collapse: Annotated[bool, typer.Option("--stop-on-collapse", help="Stop when the space collapses.")] = False,
    resume: Annotated[bool, typer.Option("--resume/--no-resume", help="Continue an interrupted run.")] = True,
    report_to: Annotated[str | None, typer.Option(help="Dashboards: tensorboard, wandb.", metavar="LIST")] = None,
    device: Annotated[str, typer.Option(help="auto or cpu.", metavar="NAME")] = "auto",
    dry_run: opt.DryRun = False,
    overwrite: opt.Overwrite = False,
    as_json: opt.AsJson = False,
    **_reading: Any,
) -> None:
    """Fine-tune an encoder on a task, and measure what that does to its space.

    An interrupted run continues from its last complete checkpoint, and ends with the same weights. Methods against
    anisotropy also print the score, IsoScore and EV 1 to 3 of the vectors that the head reads, before and after.

    \b
    Examples:
      theodolite tune bert-base-uncased --task stsb --to tuned-stsb
      theodolite tune ./my-encoder --task cola --data ./data --preset il23 --seed 1 --to tuned-cola
      theodolite tune ./my-encoder --own train=mine.csv --own dev=mine-dev.csv --kind classification --to tuned
      theodolite tune ./my-encoder --task rte --method isolayer --seeds 0,1,2 --to layered
      theodolite tune --method isolayer --from-run tuned-cola --layer alpha=0.3 --to layered
      theodolite tune ./my-encoder --task rte --method isobn --seeds 0,1,2 --to normed
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs.fine_tuning import tune

    result = tune(model, **opt.typed_options(context, "model", "as_json"))
    from theodolite.tuning.runs import is_first_process  # imports torch, which is loaded by now

    if not is_first_process():
        return
    if as_json:
        print_json(result.to_dict())
    else:
        show(result)
