"""`theodolite tune`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import print_json, show


@opt.tune_options
def tune_command(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="Hub id or folder of an encoder, or demo (needs the extra [demo]). Not with --from-run."
        ),
    ] = None,
    as_json: opt.AsJson = False,
    **_options: Any,
) -> None:
    """Fine-tune an encoder on a task, and measure what that does to its space.

    If a run is interrupted, run the same command again: it resumes from its last complete checkpoint and ends with the same
    weights. Methods against
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

    result = tune(model, **opt.typed_options(context, "as_json"))
    from theodolite.tuning.runs import is_first_process  # imports torch, which is loaded by now

    if not is_first_process():
        return
    if as_json:
        print_json(result.to_dict())
    else:
        show(result)
