"""Which texts a model reads: the options that name a task, a user's own files, or a plain text file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.frame import split as parts_of

if TYPE_CHECKING:
    from theodolite.tasks.examples import Examples
    from theodolite.tasks.task import Task

UNITS = "tokens, cls, mean, max, last, words, pairs"

TaskName = Annotated[str | None, typer.Option("--task", help="A task by name, such as stsb, cola or pos.", metavar="NAME")]
Split = Annotated[str | None, typer.Option(help="Split of the task; dev or test by default.", metavar="NAME")]
Data = Annotated[str | None, typer.Option(help="Folder with the task's own release files; the hub without it.", metavar="FOLDER")]
Texts = Annotated[str | None, typer.Option(help="Instead of a task: a file with one text a line.", metavar="FILE")]
Own = Annotated[
    list[str] | None,
    typer.Option(
        help="Instead of a task: your own file of a split (.csv, .tsv, .jsonl, .conllu, .conll); may be repeated.",
        metavar="SPLIT=FILE",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        help="Kind of your own files: similarity, classification, pair_classification, tagging, word_pairs.", metavar="KIND"
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column", help="Column of your own files for text, text_b, label or score; may be repeated.", metavar="ROLE=NAME"
    ),
]
ScoreRange = Annotated[
    str | None, typer.Option(help="Lowest and highest score of your own pairs, such as 0,5.", metavar="LOW,HIGH")
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of the files, where it is not the usual one.", metavar="NAME")]
Unit = Annotated[str | None, typer.Option(help=f"What gets a vector: {UNITS}; fits the task by default.", metavar="UNIT")]
Layers = Annotated[str, typer.Option(help="all, last, or numbers with commas; 0 is the embeddings.", metavar="LIST")]
Specials = Annotated[bool, typer.Option("--specials", help="Count special tokens among the tokens.")]
BatchSize = Annotated[int | None, typer.Option(help="Texts in a batch; by length without it.", min=1, metavar="N")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.", metavar="NAME")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.", metavar="NAME")]
MaxLength = Annotated[int | None, typer.Option(help="Tokens a text is cut to.", min=1, metavar="N")]
Revision = Annotated[str | None, typer.Option(help="Revision of a model on the hub.", metavar="NAME")]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]


@dataclass(frozen=True)
class Chosen:
    """The texts to read and what gets a vector."""

    texts: Any
    unit: Any
    name: str


def chosen_task(
    task: str | None,
    own: list[str] | None,
    kind: str | None,
    column: list[str] | None,
    score_range: str | None,
    encoding: str | None,
) -> str | Task | None:
    """The task that the options name: declared, or made of the user's own files."""
    if not own:
        for option, value in (("--kind", kind), ("--column", column), ("--score-range", score_range)):
            if value:
                raise ValueError(f"{option} describes your own files; name them with --own train=FILE")
        return task
    if task:
        raise ValueError("--task and --own name two tasks; give one of them")
    from theodolite.tasks.own import own_task

    if not kind:
        raise ValueError("--own needs --kind: similarity, classification, pair_classification, tagging or word_pairs")
    files: dict[str, list[str]] = {}
    for split, file in pairs_of("--own", own):
        files.setdefault(split, []).append(file)
    ends = [float(end) for end in parts_of(score_range) or []]
    if score_range and len(ends) != 2:
        raise ValueError(f"--score-range {score_range!r} must be two numbers, such as 0,5")
    return own_task(
        files,
        kind,  # type: ignore[arg-type]  # own_task checks it, with a message
        columns=dict(pairs_of("--column", column or [])),
        score_range=(ends[0], ends[1]) if ends else None,
        encoding=encoding or "utf-8",
    )


def chosen_texts(
    task: str | Task | None, split: str | None, data: str | None, texts: str | None, encoding: str | None, unit: str | None
) -> Chosen:
    """The texts that the options name."""
    if (task is None) == (texts is None):
        raise ValueError("say which texts to read: --task NAME, --own SPLIT=FILE with --kind, or --texts FILE")
    if texts is not None:
        lines = read_lines(texts, encoding or "utf-8")
        return Chosen(lines, unit or "mean", texts)
    from theodolite.tasks.load import find_task, load_task
    from theodolite.tasks.task import UNIT_OF

    assert task is not None
    declared = find_task(task)
    wanted = split or scored_split(declared)
    examples: Examples = load_task(declared, wanted, data, encoding=encoding)
    return Chosen(examples, unit or UNIT_OF[declared.kind], f"{declared.name} {wanted}")


def scored_split(task: Task) -> str:
    """The split a task is usually scored on, or the first where it has none of the usual names."""
    return task.scored_split or next(iter(task.splits))


def chosen_layers(layers: str) -> Any:
    """'all', 'last', or the numbers."""
    if layers in ("all", "last"):
        return layers
    try:
        return [int(part) for part in parts_of(layers) or []]
    except ValueError:
        raise ValueError(f"--layers {layers!r} must be all, last, or numbers with commas, such as 0,6,12") from None


def read_lines(path: str, encoding: str) -> list[str]:
    """The lines of a text file that are not empty."""
    from pathlib import Path

    try:
        lines = [line for line in Path(path).read_text(encoding=encoding).splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not {encoding} text at byte {error.start}; name its encoding with --encoding") from error
    if not lines:
        raise ValueError(f"{path} holds no text; give one a line")
    return lines


def pairs_of(option: str, given: list[str]) -> list[tuple[str, str]]:
    """(name, value) of every NAME=VALUE that an option was given."""
    found = []
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"{option} {text!r} must read NAME=VALUE")
        found.append((name, value))
    return found
