"""`theodolite extract`."""

from __future__ import annotations

from typing import Annotated

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import guarded, say


@guarded
def extract_command(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Hub id or folder of an encoder; demo for the one of [demo].")],
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Folder that gets the space.")],
    task: opt.TaskName = None,
    split: opt.Split = None,
    data: opt.Data = None,
    texts: opt.Texts = None,
    own: opt.Own = None,
    kind: opt.Kind = None,
    column: opt.Column = None,
    score_range: opt.ScoreRange = None,
    delimiter: opt.Delimiter = None,
    header: opt.Header = None,
    encoding: opt.Encoding = None,
    unit: opt.Unit = None,
    layers: opt.Layers = "all",
    specials: opt.Specials = False,
    frequencies: Annotated[bool, typer.Option("--frequencies", help="Keep each token's or word's frequency in English.")] = False,
    batch_size: opt.BatchSize = None,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "float32",
    max_length: opt.MaxLength = None,
    revision: opt.Revision = None,
    trust_remote_code: opt.Trust = False,
    overwrite: opt.Overwrite = False,
) -> None:
    """Write the vectors of every layer of an encoder to a folder, from one pass over the texts.

    A run that was cut off continues where it stopped when it is called again.

    \b
    Examples:
      theodolite extract bert-base-uncased --task stsb --unit tokens --to bert-tokens
      theodolite extract ./my-encoder --texts sentences.txt --to sentences
      theodolite extract ./my-encoder --own train=tags.conllu --kind tagging --split train --to words
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs.extracting import extract

    space = extract(model, **opt.typed_options(context, "model"))
    say(f"{space!r}\nwritten to {to}; measure it with: theodolite survey {to}")
