"""A step of a study: one piece of work with a content address, so that what is done already is never done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from theodolite.core.rows import Row

Tick = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Step:
    """Work of a `kind` with `settings`, on what other steps made (`needs`, by the role they play). Equal keys, equal results.

    `settings` are plain values that say everything that decides the result: weights and data by hashes, never by their place.
    `title` is for people and decides nothing.
    """

    kind: str
    settings: Mapping[str, Any]
    needs: Mapping[str, Step] = field(default_factory=dict)
    title: str = ""

    @cached_property
    def key(self) -> str:
        """SHA-256 of all that decides the result."""
        from theodolite.studies.actions import ACTIONS

        about = {
            "kind": self.kind,
            "version": ACTIONS[self.kind].version,
            "settings": self.settings,
            "needs": {role: step.key for role, step in self.needs.items()},
        }
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()

    @property
    def folder(self) -> str:
        """The name of its folder: the kind to be read, the key to be certain."""
        return f"{self.kind}-{self.key[:20]}"


@dataclass(frozen=True, eq=False)
class Work:
    """What an action is given: its settings, the folders of what it needs, one to write in, and where models and data lie."""

    settings: Mapping[str, Any]
    inputs: Mapping[str, Path]
    folder: Path
    models: Mapping[str, str]
    """The place of each model by its name."""
    data: str | None
    tick: Tick | None = None


@dataclass(frozen=True)
class Action:
    """How a kind of step is done. `version` is raised when its results change; `resumable` work goes on after a kill."""

    run: Callable[[Work], list[Row]]
    version: int = 1
    resumable: bool = False


def in_order(steps: Iterable[Step]) -> list[Step]:
    """All steps and what they need, each once, needs first."""
    found: dict[str, Step] = {}

    def visit(step: Step) -> Iterator[Step]:
        for need in step.needs.values():
            yield from visit(need)
        yield step

    for wanted in steps:
        for step in visit(wanted):
            found.setdefault(step.key, step)
    return list(found.values())
