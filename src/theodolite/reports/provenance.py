"""Where a result comes from, in words: its name, the command that makes it again, and what it was made with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from theodolite.reports.plain_text import clean

if TYPE_CHECKING:
    from theodolite.core.result import Result

FACT = 2_000
"""Characters of one fact."""
COMMAND = 4_000
"""Characters of a command."""
SHOWN_ELSEWHERE = ("name", "command", "tables", "versions")
"""Keys of the provenance that are not listed as facts: the page shows them in places of their own."""


def name_of(result: Result) -> str:
    """What a result is called among others: its name, or else its title or verb; cleaned, not escaped."""
    return clean(result.provenance.get("name") or result.title or result.verb, 60) or "unnamed"


def command_of(result: Result) -> str:
    """The command that makes the result again, in one line; a list of arguments is quoted for a shell."""
    command = result.provenance.get("command") or ""
    return clean(shlex.join(map(str, command)) if isinstance(command, (list, tuple)) else command, COMMAND)


def facts_of(result: Result) -> list[tuple[str, list[tuple[str, str]] | str]]:
    """Name and value of everything else that is known of a result's origin; a value with parts is a list of names and values."""
    provenance = result.provenance
    versions = provenance.get("versions") or next((row.versions for row in result.rows if row.versions), "")
    facts = [("verb", result.verb), *((key, value) for key, value in provenance.items() if key not in SHOWN_ELSEWHERE)]
    return [(clean(key, 60), _words(value)) for key, value in (*facts, ("versions", versions)) if value not in ("", None, [], {})]


def _words(value: Any) -> list[tuple[str, str]] | str:
    if isinstance(value, Mapping):
        return [(clean(key, 60), clean(_flat(inner), FACT)) for key, inner in value.items()]
    return clean(_flat(value), FACT)


def _flat(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_flat, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_flat(inner)}" for key, inner in value.items())
    return "none" if value is None else str(value)
