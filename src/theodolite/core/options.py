"""How options and commands are spelled in a message: `--max-length 128` on the command line, `max_length=128` in Python."""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Collection
from contextvars import ContextVar

# Whether the caller is the command line, which sets it before it calls a verb.
ON_COMMAND_LINE = ContextVar("ON_COMMAND_LINE", default=False)


def option(name: str, value: str = "") -> str:
    """An option as the caller would type it, so that a hint in a message can be pasted.

    Parameters
    ----------
    name
        The name of the parameter in Python, such as `max_length`.
    value
        Its value, as typed on the command line; empty for a switch.

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


def switched_off(name: str) -> str:
    """A switch that is turned off, as the caller would type it.

    Parameters
    ----------
    name
        The name of the parameter in Python, such as `header`.

    Examples
    --------
    >>> switched_off("header")
    'header=False'
    """
    return _flag(f"no_{name}", "") if ON_COMMAND_LINE.get() else f"{name}=False"


def command(words: str, **options: str) -> str:
    """A command line of theodolite that can be pasted into a shell, whoever the caller is.

    Parameters
    ----------
    words
        The verb and its arguments.
    options
        Names of options as in Python, and their values; an empty value is a switch.

    Examples
    --------
    >>> command("repair fit global vectors.npy", to="repair", directions="1")
    'theodolite repair fit global vectors.npy --to repair --directions 1'
    """
    return " ".join(["theodolite", words, *(_flag(name, value) for name, value in options.items())])


def command_line() -> str:
    """The command that is running, to run it again; empty if a verb was called from Python."""
    return shlex.join(["theodolite", *sys.argv[1:]]) if ON_COMMAND_LINE.get() else ""


def suggestion(name: str, names: Collection[str]) -> str:
    """What a message about an unknown name ends with: the known name closest to it, or all of them.

    Parameters
    ----------
    name
        The unknown name.
    names
        The known ones.

    Examples
    --------
    >>> suggestion("isoscore", ["iso_score", "hubness"]), suggestion("x", ["iso_score", "hubness"])
    ("did you mean 'iso_score'?", 'known: iso_score, hubness')
    """
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


def _flag(name: str, value: str) -> str:
    return f"--{name.replace('_', '-')} {value}".rstrip()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return any(letter.isdigit() for letter in text)  # nan and inf are floats, but not literals of Python
