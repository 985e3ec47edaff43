"""Options that several verbs share, and how what was typed becomes the arguments of a verb.

A verb gets only what the user typed, so that every default is the verb's own; a test compares the defaults that the help shows.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from types import NoneType
from typing import Annotated, Any, TypeAlias, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from theodolite.core.spelling import with_options

# A command as a function, which gets what was typed from its context.
Command: TypeAlias = Callable[..., None]
UNITS = "text, tokens, cls, mean, max, last, words, pairs"

Metrics = Annotated[
    str | None, typer.Option(help="Metrics to measure, separated by commas; see survey --list-metrics.", metavar="LIST")
]
Sample = Annotated[int, typer.Option(help="Number of rows for metrics that compare rows with rows.", min=2, metavar="N")]
Seed = Annotated[int, typer.Option(help="Random seed.", metavar="N")]
Cache = Annotated[bool, typer.Option("--cache/--no-cache", help="Read and store a file's moments in the cache.")]
Workers = Annotated[
    int | None,
    typer.Option(help="Number of workers on this machine; see docs/engines.md.", min=1, metavar="N", show_default=False),
]
Engine = Annotated[
    str | None, typer.Option(help="Run on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786.", metavar="ADDRESS")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print what would be done and downloaded, and stop."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file or folder.")]

Model = Annotated[
    str | None, typer.Option("--model", "-m", help="An encoder, by Hub id or folder, instead of files.", metavar="MODEL")
]

QueryPrompt = Annotated[
    str | None,
    typer.Option(help="Prompt before each query; the model's own by default.", metavar="TEXT"),
]
DocumentPrompt = Annotated[
    str | None,
    typer.Option(help="Prompt before each document; the model's own by default.", metavar="TEXT"),
]

Pairs = Annotated[str | None, typer.Option(help="Second side of scored pairs: row i belongs to row i of PATH.", metavar="FILE")]
Scores = Annotated[str | None, typer.Option(help="One score per pair, one per line or .npy.", metavar="FILE")]
Queries = Annotated[
    str | None, typer.Option(help="Queries: vectors if PATH holds documents, texts with --texts.", metavar="FILE")
]
QueriesOfBoth = Annotated[
    list[str] | None,
    typer.Option(help="Queries: vectors, or texts with --texts; give it twice if A and B have their own.", metavar="FILE"),
]
Judgements = Annotated[str | None, typer.Option(help="Table of query, document and grade, by id or row number.", metavar="FILE")]
Retrieval = Annotated[
    str | None, typer.Option(help="BEIR folder for --model: corpus.jsonl, queries.jsonl, qrels/*.tsv.", metavar="FOLDER")
]
Layer = Annotated[str, typer.Option(help="Which layer: last, or a number.", metavar="LAYER")]


def _option(kind: Any, metavar: str, text: str, *names: str, **limits: Any) -> Any:
    return Annotated[kind, typer.Option(*names, help=text, metavar=metavar or None, **limits)]


# The options that say how vectors and texts are read, by the verbs' names for them; their defaults are the verbs' own.
READING: dict[str, Any] = {
    "key": _option(str | None, "NAME", "Array to read from an .npz or .safetensors file that holds several."),
    "columns": _option(
        str | None,
        "LIST",
        "Vector columns of a table, separated by commas: names, first:last, patterns (dim_*), or one list column.",
    ),
    "delimiter": _option(str | None, "TEXT", "Cell separator of a .csv, .tsv or .txt table; detected by default."),
    "header": _option(
        bool | None,
        "",
        "Whether the table's first line names the columns; if not, they are 0, 1, 2, ...",
        "--header/--no-header",
        show_default=False,
    ),
    "decimal": _option(str | None, "TEXT", "Decimal mark in a table's numbers: a point (default) or a comma."),
    "task": _option(str | None, "NAME", "A task by name, such as stsb, cola or pos."),
    "split": _option(str | None, "NAME", "Split of the task; the scored one (dev or test) by default."),
    "data": _option(str | None, "FOLDER", "Folder with the task's release files; by default, the Hugging Face Hub is used."),
    "texts": _option(
        str | None, "FILE", "Texts instead of a task: one per line, a table column (.jsonl, .csv, .parquet), or a BEIR folder."
    ),
    "own": _option(
        list[str] | None,
        "SPLIT=FILE",
        "Your own file for a split (.csv, .tsv, .jsonl, .conllu, .conll), instead of a task; may be repeated.",
    ),
    "kind": _option(
        str | None, "KIND", "Kind of your own files: similarity, classification, pair_classification, tagging or word_pairs."
    ),
    "column": _option(
        list[str] | None,
        "ROLE=NAME",
        "Column of your own files for text, text_b, label or score; of --texts for text or id.",
    ),
    "score_range": _option(str | None, "LOW,HIGH", "Lowest and highest score of your own pairs, such as 0,5."),
    "encoding": _option(str | None, "NAME", "Character encoding of the files; by default UTF-8, or the task's own."),
    "unit": _option(
        str | None, "UNIT", f"Embedding unit: {UNITS}; by default text for sentence models, otherwise the task's own."
    ),
    "layers": _option(str, "LIST", "all, last, or numbers separated by commas; 0 is the embeddings."),
    "specials": _option(bool, "", "Include special tokens.", "--specials"),
    "batch_size": _option(int | None, "N", "Texts per batch; chosen by length by default.", min=1),
    "device": _option(str, "NAME", "auto, cpu, cuda, cuda:1, mps."),
    "dtype": _option(str, "NAME", "Precision of the encoder: float32, bfloat16 or float16."),
    "max_length": _option(int | None, "N", "Cut texts to this number of tokens.", min=1),
    "revision": _option(str | None, "NAME", "Revision of the model on the Hub."),
    "trust_remote_code": _option(bool, "", "Run Python code from the model's folder or repository.", "--trust-remote-code"),
    "allow_unknown": _option(
        bool, "", "Continue even if 20% of the tokens or more are unknown to the tokenizer.", "--allow-unknown"
    ),
}
# Those of a command that reads files of vectors and nothing else.
VECTOR_FILES = ("key", "columns", "delimiter", "header", "decimal")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="Also write the rows to this .parquet, .json or .jsonl file.", metavar="FILE")
]
Report = Annotated[str | None, typer.Option(help="Also write a report to this .html, .md or .tex file.", metavar="FILE")]
Text = Annotated[bool, typer.Option("--text/--no-text", help="Show sentences and tokens in the report.")]
Everything = Annotated[bool, typer.Option("--all", help="Print every number, not only the first screen.")]

# Options that say what happens to a result, with their defaults; no verb takes them.
PRINTING: dict[str, tuple[Any, Any]] = {
    "as_json": (AsJson, False),
    "output": (Output, None),
    "report": (Report, None),
    "text": (Text, True),
    "everything": (Everything, False),
}

# The sections of a command's help. An option in none of them is the verb's own, and is listed first.
SECTIONS = {
    "Signal": (
        *("labels", "test", "test_labels", "hold_out", "drop_unseen", "pairs", "scores", "queries", "judgements", "retrieval"),
        *("query_prompt", "document_prompt", "metric", "match", "canonical", "target"),
        *(f"{name}_{side}" for name in ("queries", "query_prompt", "document_prompt") for side in ("old", "new")),
    ),
    "Input": (
        *("key", "columns", "delimiter", "header", "decimal", "texts", "task", "tasks", "split", "data", "own", "kind"),
        *("column", "score_range", "encoding"),
    ),
    "Encoder": (
        *(
            "model",
            "models",
            "unit",
            "units",
            "unit_old",
            "unit_new",
            "layers",
            "specials",
            "batch_size",
            "device",
            "dtype",
            "max_length",
            "revision",
        ),
        *("trust_remote_code", "allow_unknown", "prompt"),
    ),
    "Output": (*PRINTING, "to", "figures", "overwrite", "strict", "dry_run", "help"),
}
OWN_SECTION = "Options"


def section_of(name: str) -> str:
    """The section of a command's help that lists an option."""
    return next((section for section, names in SECTIONS.items() if name in names), OWN_SECTION)


class _TakesPlainValues:
    """A command that takes defaults and texts as they are: Typer imports pydantic to convert them, which delays every start."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if "process_value" not in vars(parameter):
                parameter.process_value = partial(_process_value, parameter, parameter.process_value)
        return parameters


class CommandGroup(_TakesPlainValues, TyperGroup):
    """All commands."""


class SectionedCommand(_TakesPlainValues, TyperCommand):
    """A command whose help lists its options by what they are about."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one list for each section that has an option."""
        lists: dict[str, list[tuple[str, str]]] = {section: [] for section in ("Arguments", OWN_SECTION, *SECTIONS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                lists["Arguments" if is_argument else section_of(str(parameter.name))].append(record)
        for section, records in lists.items():
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)


def _process_value(parameter: Any, convert: Callable[..., Any], context: Any, value: Any) -> Any:
    is_default = getattr(context.get_parameter_source(parameter.name), "name", "") == "DEFAULT" and not parameter.required
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if not (is_default or (kind in (str, list[str]) and value is not None)):
        return convert(context, value)
    if kind == list[str] and value is not None:
        value = list(value)  # parsed as a tuple
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def reading_options(*names: str, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Give a command the options of `READING`, before those that say what happens to the result."""

    def decorate(command: Command) -> Command:
        from theodolite.verbs.inputs import Reading

        taken = inspect.signature(command).parameters
        options = {
            field.name: (READING[field.name], field.default)
            for field in fields(Reading)
            if field.name in (names or READING) and field.name not in (*without, *taken)
        }
        return _with_options(command, options)

    return decorate


def measuring_options(*, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Give a command the options of `READING`, and after them those of `PRINTING`."""
    return lambda command: reading_options(without=without)(_with_options(command, PRINTING))


def tune_options(command: Command) -> Command:
    """Give the command `tune` the options that `TuneOptions` declares; those without a description are of `READING`."""
    from theodolite.tuning.tune_options import TUNE_DEFAULTS, TUNE_OPTIONS

    options = {}
    for name, (kind, typed) in TUNE_OPTIONS.items():
        if typed is None:
            options[name] = READING[name], TUNE_DEFAULTS[name]
            continue
        kinds = {*(get_args(kind) or (kind,))} - {NoneType}
        # What is neither a number nor a switch is typed as text, which the verb or `PARSERS` reads.
        simple: Any = list[str] if typed.repeated else next((number for number in (bool, int, float) if kinds == {number}), str)
        names = typed.names or ((f"--{name.replace('_', '-')}",) if typed.default is False else ())
        limits = {} if typed.at_least is None else {"min": typed.at_least}
        default = typed.default if isinstance(typed.default, (bool, int, str)) else None
        optional = simple | None if default is None else simple
        options[name] = _option(optional, typed.metavar, typed.help, *names, **limits), default
    return _with_options(command, options)


def _with_options(command: Command, options: Mapping[str, tuple[Any, Any]]) -> Command:
    """The command with further options (annotation and default by name), before those that say what happens to its result."""
    signature = inspect.signature(command, eval_str=True)
    own = [known for known in signature.parameters.values() if known.kind is not known.VAR_KEYWORD]
    signature = signature.replace(parameters=[known.replace(kind=known.KEYWORD_ONLY) for known in own])
    shown = with_options(signature, options, before=("overwrite", "strict", *PRINTING))
    command.__signature__ = shown  # type: ignore[attr-defined]
    return command


def typed_options(context: typer.Context, *without: str) -> dict[str, Any]:
    """The options that the user typed, by the names that the verb gives them; lists and pairs are taken apart."""
    options = {parameter.name for parameter in context.command.params if parameter.param_type_name == "option"}
    typed = {
        name: value
        for name, value in context.params.items()
        if name in options.difference(without) and getattr(context.get_parameter_source(name), "name", "") != "DEFAULT"
    }
    return {name: PARSERS[name](value) if name in PARSERS else value for name, value in typed.items()}


def comma_list(text: str) -> list[str]:
    """The parts of a text that commas separate."""
    return [item.strip() for item in text.split(",") if item.strip()]


def named_values(option: str, texts: list[str]) -> list[tuple[str, str]]:
    """Name and value of each NAME=VALUE."""
    pairs = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value:
            raise ValueError(f"{option} {text!r} must be NAME=VALUE")
        pairs.append((name.strip(), value.strip()))
    return pairs


def settings_dict(option: str, texts: list[str]) -> dict[str, Any]:
    """Values by name, from NAME=VALUE; a value is read as JSON (numbers, true, null, lists), or else as text."""
    return {name: _value(text) for name, text in named_values(option, texts)}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _own_files(texts: list[str]) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for split, file in named_values("--own", texts):
        files.setdefault(split, []).append(file)
    return files


def _seeds(text: str) -> list[int]:
    try:
        numbers = [int(item) for item in comma_list(text)]
    except ValueError:
        raise ValueError(f"--seeds {text!r} must be whole numbers separated by commas, such as 0,1,2") from None
    if not numbers or len(set(numbers)) != len(numbers):
        raise ValueError(f"--seeds {text!r} must list at least one number, and each only once")
    return numbers


def _score_range(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, comma_list(text))
    except ValueError:
        raise ValueError(f"--score-range {text!r} must be two numbers, such as 0,5") from None
    return low, high


def _of_each_side(values: str | list[str]) -> str | tuple[str, ...]:
    """A file for both sides of a comparison, or one for each."""
    return values if isinstance(values, str) else values[0] if len(values) == 1 else tuple(values)


# How the text of an option becomes what the verb takes, by the verb's name for it.
PARSERS: dict[str, Callable[[Any], Any]] = {
    "metrics": comma_list,
    "pairs": _of_each_side,
    "queries": _of_each_side,
    "columns": comma_list,
    "own": _own_files,
    "column": lambda texts: dict(named_values("--column", texts)),
    "score_range": _score_range,
    "seeds": _seeds,
    "report_to": lambda text: tuple(comma_list(text)),
    "layer": partial(settings_dict, "--layer"),
    "settings": partial(settings_dict, "--set"),
}
