"""The rules by name. A rule is a function of rows and of the parameters that a study's file gives it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from theodolite.core.result import Judged
from theodolite.studies.rules.evidence import Evidence

Judge: TypeAlias = Callable[..., Judged]
Scope: TypeAlias = Literal["model", "models"]


@dataclass(frozen=True)
class Rule:
    """A registered rule: its function, and whether it sees the rows of one model or of all."""

    name: str
    judge: Judge
    scope: Scope

    def __call__(self, evidence: Evidence, parameters: Mapping[str, Any]) -> Judged:
        return self.judge(evidence, **parameters)

    def faults(self, parameters: Mapping[str, Any]) -> str:
        """What is wrong with the names of parameters, or nothing."""
        known = dict(list(inspect.signature(self.judge).parameters.items())[1:])
        lacking = [name for name, one in known.items() if one.default is inspect.Parameter.empty and name not in parameters]
        if strange := [name for name in parameters if name not in known]:
            return f"takes no parameter {strange[0]!r}; it takes {', '.join(known)}"
        return f"needs the parameter {lacking[0]!r}; it takes {', '.join(known)}" if lacking else ""


RULES: dict[str, Rule] = {}
"""All rules by name."""


def rule(name: str, *, scope: Scope = "model") -> Callable[[Judge], Judge]:
    """Register a rule. Its first argument is the evidence, its options are the parameters that a study's file sets."""

    def register(judge: Judge) -> Judge:
        if name in RULES:
            raise ValueError(f"there is a rule {name!r} already; give this one another name")
        RULES[name] = Rule(name, judge, scope)
        return judge

    return register
