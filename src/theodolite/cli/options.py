"""Options that several verbs share, and how what was typed becomes the arguments of a verb.

A verb gets only what the user typed, so that every default is the verb's own; a test compares the defaults that the help shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

UNITS = "tokens, cls, mean, max, last, words, pairs"

Key = Annotated[
    str | None, typer.Option(help="Array to read from an .npz or .safetensors file that holds several.", metavar="NAME")
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Vector columns of a table, separated by commas: names, first:last, patterns (dim_*), or one list column.",
        metavar="LIST",
    ),
]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates the cells of a .csv, .tsv or .txt table; found by default.", metavar="TEXT")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether its first line names the columns; without, they are 0, 1, 2, ...",
        show_default=False,
    ),
]
Metrics = Annotated[
    str | None, typer.Option(help="Metrics to measure, separated by commas; see survey --list-metrics.", metavar="LIST")
]
Sample = Annotated[int, typer.Option(help="Number of rows for metrics that compare rows with rows.", min=2, metavar="N")]
Seed = Annotated[int, typer.Option(help="Seed of everything that is random.", metavar="N")]
Cache = Annotated[bool, typer.Option("--cache/--no-cache", help="Keep a file's moments in the cache, and use them.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what exists already.")]

Model = Annotated[
    str | None, typer.Option("--model", "-m", help="An encoder, by Hub id or folder, instead of files.", metavar="MODEL")
]
TaskName = Annotated[str | None, typer.Option("--task", help="A task by name, such as stsb, cola or pos.", metavar="NAME")]
Split = Annotated[str | None, typer.Option(help="Split of the task; the scored one (dev or test) by default.", metavar="NAME")]
Data = Annotated[
    str | None, typer.Option(help="Folder with the task's own release files; the Hugging Face Hub without it.", metavar="FOLDER")
]
Texts = Annotated[str | None, typer.Option(help="A file with one text per line, instead of a task.", metavar="FILE")]
Own = Annotated[
    list[str] | None,
    typer.Option(
        help="Your own file of a split (.csv, .tsv, .jsonl, .conllu, .conll), instead of a task; may be repeated.",
        metavar="SPLIT=FILE",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        help="Kind of your own files: similarity, classification, pair_classification, tagging or word_pairs.", metavar="KIND"
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(help="Column of your own files for text, text_b, label or score; may be repeated.", metavar="ROLE=NAME"),
]
ScoreRange = Annotated[
    str | None, typer.Option(help="Lowest and highest score of your own pairs, such as 0,5.", metavar="LOW,HIGH")
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of the files, if it is not the usual one.", metavar="NAME")]
Unit = Annotated[str | None, typer.Option(help=f"What gets a vector: {UNITS}; the task's own by default.", metavar="UNIT")]
Layers = Annotated[str, typer.Option(help="all, last, or numbers separated by commas; 0 is the embeddings.", metavar="LIST")]
Specials = Annotated[bool, typer.Option("--specials", help="Count special tokens among the tokens.")]
BatchSize = Annotated[int | None, typer.Option(help="Texts per batch; chosen by length by default.", min=1, metavar="N")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.", metavar="NAME")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.", metavar="NAME")]
MaxLength = Annotated[int | None, typer.Option(help="Number of tokens that a text is cut to.", min=1, metavar="N")]
Revision = Annotated[str | None, typer.Option(help="Revision of the model on the Hub.", metavar="NAME")]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="Also write the rows to this .parquet, .json or .jsonl file.", metavar="FILE")
]
Report = Annotated[str | None, typer.Option(help="Also write a report to this .html file.", metavar="FILE")]
Text = Annotated[bool, typer.Option("--text/--no-text", help="Show sentences and tokens in the report.")]

# Options that say what happens to a result; no verb takes them.
PRINTING = ("as_json", "output", "report", "text")


def typed_options(context: typer.Context, *without: str) -> dict[str, Any]:
    """The options that the user typed, by the names that the verb gives them; lists and pairs are taken apart.

    Parameters
    ----------
    context
        The command's context.
    without
        Parameters that are not for the verb, such as its positional arguments.
    """
    typed = {
        name: value
        for name, value in context.params.items()
        if name not in without and getattr(context.get_parameter_source(name), "name", "") != "DEFAULT"
    }
    return {name: PARSERS[name](value) if name in PARSERS else value for name, value in typed.items()}


def comma_list(text: str) -> list[str]:
    """The parts of a text that commas separate."""
    return [part.strip() for part in text.split(",") if part.strip()]


def whole_numbers(option: str) -> Callable[[str], list[int]]:
    """A parser of whole numbers that commas separate, each once."""

    def parse(text: str) -> list[int]:
        try:
            numbers = [int(part) for part in comma_list(text)]
        except ValueError:
            raise ValueError(f"{option} {text!r} must be whole numbers separated by commas, such as 0,1,2") from None
        if not numbers or len(set(numbers)) != len(numbers):
            raise ValueError(f"{option} {text!r} must name at least one number, and each once")
        return numbers

    return parse


def named_values(option: str) -> Callable[[list[str]], list[tuple[str, str]]]:
    """A parser of repeated NAME=VALUE."""

    def parse(texts: list[str]) -> list[tuple[str, str]]:
        pairs = []
        for text in texts:
            name, sign, value = text.partition("=")
            if not sign or not name.strip() or not value:
                raise ValueError(f"{option} {text!r} must be NAME=VALUE")
            pairs.append((name.strip(), value.strip()))
        return pairs

    return parse


def settings_dict(option: str) -> Callable[[list[str]], dict[str, Any]]:
    """A parser of repeated NAME=VALUE whose values are read as JSON (numbers, true, null, lists), or else as text."""

    def parse(texts: list[str]) -> dict[str, Any]:
        return {name: _value(text) for name, text in named_values(option)(texts)}

    return parse


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _own_files(texts: list[str]) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for split, file in named_values("--own")(texts):
        files.setdefault(split, []).append(file)
    return files


def _score_range(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, comma_list(text))
    except ValueError:
        raise ValueError(f"--score-range {text!r} must be two numbers, such as 0,5") from None
    return low, high


# How the text of an option becomes what the verb takes, by the verb's name for it.
PARSERS: dict[str, Callable[[Any], Any]] = {
    "metrics": comma_list,
    "columns": comma_list,
    "own": _own_files,
    "column": lambda texts: dict(named_values("--column")(texts)),
    "score_range": _score_range,
    "seeds": whole_numbers("--seeds"),
    "report_to": lambda text: tuple(comma_list(text)),
    "layer": settings_dict("--layer"),
    "settings": settings_dict("--set"),
}
