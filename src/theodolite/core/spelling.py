"""How options, commands and text from outside are written in a message: `--max-length 128`, or `max_length=128` in Python."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

# Whether the caller is the command line, which sets it before it calls a verb.
ON_COMMAND_LINE = ContextVar("ON_COMMAND_LINE", default=False)
# What `repair fit` has an option for, besides `pairs` and `scores` of weighted removal; all other settings go through `--set`.
FIT_OPTIONS = ("directions", "clusters", "components", "pairs", "scores")


def option(name: str, value: str = "") -> str:
    """An option as the caller would type it, so that a hint in a message can be pasted.

    Examples
    --------
    >>> option("max_length", "128"), option("overwrite")
    ('max_length=128', 'overwrite=True')
    >>> token = ON_COMMAND_LINE.set(True)
    >>> option("max_length", "128"), option("overwrite")
    ('--max-length 128', '--overwrite')
    >>> ON_COMMAND_LINE.reset(token)
    """
    if ON_COMMAND_LINE.get():
        return _flag(name, value)
    if not value:
        return f"{name}=True"
    # Placeholders such as N, and lists and tables, are written as they are; any other text is a string.
    is_expression = _is_number(value) or value.isupper() or value.startswith(("[", "{"))
    return f"{name}={value if is_expression else repr(value)}"


def refuse_trust(values: Any, file: str | os.PathLike[str]) -> None:
    """Raise an error if what a file holds has the key `trust_remote_code` at any depth.

    A file travels with a repository: only whoever runs the command may say that a model's code runs.
    """
    if isinstance(values, Mapping) and values.get("trust_remote_code", False) is not False:
        way = f"remove it, read that code, and allow it with {option('trust_remote_code')}"
        raise ValueError(f"{os.fspath(file)} has the key trust_remote_code, but a file cannot allow a model's code to run; {way}")
    if isinstance(values, (Mapping, list)):
        for value in values.values() if isinstance(values, Mapping) else values:
            refuse_trust(value, file)


def switched_off(name: str) -> str:
    """A switch that is turned off, as the caller would type it.

    Examples
    --------
    >>> switched_off("header")
    'header=False'
    """
    return _flag(f"no_{name}", "") if ON_COMMAND_LINE.get() else f"{name}=False"


def command(words: str, *paths: str, **options: str | Sequence[str]) -> str:
    """A command line of theodolite that can be pasted into a shell, whoever the caller is.

    Examples
    --------
    >>> command("repair fit global", "my docs.npy", to="repair", directions="1")
    "theodolite repair fit global 'my docs.npy' --to repair --directions 1"
    """
    flags = [
        _flag(name, value and shlex.quote(value))
        for name, values in options.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return " ".join(["theodolite", words, *map(shlex.quote, paths), *flags])


@dataclass(frozen=True)
class TypedInput:
    """How a caller would name again what a verb was given, so that the hints of its result can be pasted."""

    path: str = "vectors.npy"
    options: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    before: str = ""
    model: str = ""

    def fit(self, repair: str, *, to: str = "repair", **settings: Any) -> str:
        """The command, or in Python the call, that fits a repair on it.

        Examples
        --------
        >>> TypedInput("docs.csv", {"columns": "x:z"}).fit("global", directions=3, which="bottom")
        'theodolite repair fit global docs.csv --to repair --directions 3 --columns x:z --set which=bottom'
        >>> TypedInput("").fit("global", directions=3)
        "th.repair.fit('global', X, directions=3)"
        """
        own = {name: value for name, value in settings.items() if name in FIT_OPTIONS}
        others = {name: value for name, value in settings.items() if name not in FIT_OPTIONS}
        if not self.path:
            given = [f"{name}={value!r}" for name, value in own.items()] + ([f"settings={others!r}"] if others else [])
            return f"th.repair.fit({', '.join([repr(repair), 'X', *given])})"
        typed: dict[str, str | Sequence[str]] = {name: str(value) for name, value in own.items()}
        more = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in others.items()]
        line = command(f"repair fit {repair}", self.path, to=to, **typed, **self.options, **({"set": more} if more else {}))
        return f"{self.before} && {line}" if self.before else line


def shell_word(text: str) -> str:
    """The text as one word of a command to paste; an environment variable in it ($NAME) is still expanded.

    >>> shell_word("$HOME/my models"), shell_word("a$(b)")
    ('"$HOME/my models"', "'a$(b)'")
    """
    if not re.search(r"\$\w", text) or re.search(r"[`\\\"!]|\$(?![A-Za-z_])", text):
        return shlex.quote(text)
    return f'"{text}"'


def command_line() -> str:
    """The command that is running, to run it again; empty if a verb was called from Python."""
    return shlex.join(["theodolite", *sys.argv[1:]]) if ON_COMMAND_LINE.get() else ""


def suggestion(name: str, names: Collection[str]) -> str:
    """What a message about an unknown name ends with: the known name closest to it, or all of them.

    Examples
    --------
    >>> suggestion("isoscore", ["iso_score", "hubness"]), suggestion("x", ["iso_score", "hubness"])
    ("did you mean 'iso_score'?", 'known: iso_score, hubness')
    """
    close = _closest(name, names)
    return f"did you mean {close!r}?" if close else f"known: {', '.join(names)}"


def name_list(names: Sequence[str], *, most: int = 12, near: str = "") -> str:
    """Names for a message: all of a few, or the first of many with their number, and the one that `near` may stand for.

    Examples
    --------
    >>> name_list(["a", "b", "c"], most=2), name_list(["text", "label"], near="lable")
    ('a, b, … (3 in all)', "text, label (did you mean 'label'?)")
    """
    listed = ", ".join(names[:most]) or "nothing"
    listed += f", … ({len(names)} in all)" if len(names) > most else ""
    close = _closest(near, names)
    return f"{listed} (did you mean {close!r}?)" if close else listed


def _closest(name: str, names: Collection[str]) -> str:
    """The name that differs least from another, whatever the case of letters; empty if none is close."""
    by_lower_case = {other.strip().lower(): other for other in names}
    matches = difflib.get_close_matches(name.strip().lower(), list(by_lower_case), n=1)
    return by_lower_case[matches[0]] if matches else ""


def _flag(name: str, value: str) -> str:
    return f"--{name.replace('_', '-')} {value}".rstrip()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return any(letter.isdigit() for letter in text)  # nan and inf are floats, but not literals of Python


def visible(text: str) -> str:
    r"""The text on one line, with everything that could steer a terminal replaced by a visible sign.

    Examples
    --------
    >>> visible("a\x1b[31mb [tag]")
    'a�[31mb [tag]'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def plain_json(document: str) -> str:
    """A JSON document with control characters, and halves of surrogates, written as escapes."""
    return re.sub("[\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", document)


def with_options(
    signature: inspect.Signature, options: Mapping[str, tuple[Any, Any]], *, before: Collection[str] = ()
) -> inspect.Signature:
    """A signature with options (annotation and default by name) in place of `**options`: before the first of some, or last."""
    parameters = [known for known in signature.parameters.values() if known.kind is not known.VAR_KEYWORD]
    start = next((i for i, known in enumerate(parameters) if known.name in before), len(parameters))
    parameters[start:start] = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    return signature.replace(parameters=parameters)
