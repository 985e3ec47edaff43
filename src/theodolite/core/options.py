"""How an option is spelled in a message: `--max-length` on the command line, `max_length=` in Python."""

from __future__ import annotations

import shlex
import sys
from contextvars import ContextVar

ON_COMMAND_LINE = ContextVar("ON_COMMAND_LINE", default=False)
"""Whether the caller is the command line, which sets it before it calls a verb."""


def option(name: str, value: str = "") -> str:
    """An option as the caller would type it, so that a hint in a message can be pasted.

    Parameters
    ----------
    name
        The name of the parameter in Python, such as `max_length`.
    value
        What to give it, as it is typed on the command line; left out, the option stands alone.

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
        return f"--{name.replace('_', '-')} {value}".rstrip()
    if not value:
        return f"{name}=True"
    is_number = value.replace(".", "", 1).lstrip("-").isdigit()
    return f"{name}={value}" if is_number or value.isupper() or value.startswith(("[", "{")) else f"{name}={value!r}"


def command_line() -> str:
    """The command that is running, to run it again; empty if a verb was called from Python."""
    return shlex.join(["theodolite", *sys.argv[1:]]) if ON_COMMAND_LINE.get() else ""
