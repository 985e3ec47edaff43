"""`theodolite extract`: vectors of every layer of an encoder, to a folder."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli.frame import Overwrite, guarded, progress
from theodolite.cli.texts import (
    BatchSize,
    Column,
    Data,
    Device,
    Dtype,
    Encoding,
    Kind,
    Layers,
    MaxLength,
    Own,
    Revision,
    ScoreRange,
    Specials,
    Split,
    TaskName,
    Texts,
    Trust,
    Unit,
    chosen_layers,
    chosen_task,
    chosen_texts,
)


@guarded
def extract_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Hub id or folder of an encoder; demo for the one of [demo].")],
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Folder that gets the space.")],
    task: TaskName = None,
    split: Split = None,
    data: Data = None,
    texts: Texts = None,
    own: Own = None,
    kind: Kind = None,
    column: Column = None,
    score_range: ScoreRange = None,
    encoding: Encoding = None,
    unit: Unit = None,
    layers: Layers = "all",
    specials: Specials = False,
    frequencies: Annotated[bool, typer.Option("--frequencies", help="Keep each token's or word's frequency in English.")] = False,
    batch_size: BatchSize = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    max_length: MaxLength = None,
    revision: Revision = None,
    trust_remote_code: Trust = False,
    overwrite: Overwrite = False,
) -> None:
    """Write the vectors of every layer of an encoder to a folder, from one pass over the texts.

    A run that was cut off goes on where it stopped when it is called again.

    \b
    Examples:
      theodolite extract bert-base-uncased --task stsb --unit tokens --to bert-tokens
      theodolite extract ./my-encoder --texts sentences.txt --to sentences
      theodolite extract ./my-encoder --own train=tags.conllu --kind tagging --split train --to words
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.models.extract import extract

    declared = chosen_task(task, own, kind, column, score_range, encoding)
    chosen = chosen_texts(declared, split, data, texts, encoding, unit)
    encoder = load_encoder(
        model, device=device, dtype=dtype, max_length=max_length, revision=revision, trust_remote_code=trust_remote_code
    )
    with progress() as bars:
        space = extract(
            encoder,
            chosen.texts,
            unit=chosen.unit,
            layers=chosen_layers(layers),
            specials=specials,
            batch_size=batch_size or "auto",
            to=to,
            overwrite=overwrite,
            frequencies=frequencies,
            progress=bars.steps(f"encoding {chosen.name}"),
        )
    print(f"{space.n:,} × {space.d} vectors ({chosen.unit}) of {len(space.layers)} layers written to {to}")
    print(f"measure them with: theodolite survey {to}")


def load_encoder(model: str, **options: Any) -> Any:
    """The encoder of a hub id or folder, or the demo's own."""
    if model == "demo":
        from theodolite.models.demo import demo_encoder

        return demo_encoder()
    from theodolite.models.encoder import Encoder

    return Encoder.load(model, **options)
