"""What is said of a claim: a verdict, how large the effect is, how sure that is, and what the paper's own rows say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Outcome: TypeAlias = Literal["holds", "does not hold", "not decidable here"]
OUTCOMES: tuple[Outcome, ...] = ("holds", "does not hold", "not decidable here")


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One quantity that a verdict rests on. `low` and `high` are its 95 % interval, if it has one; `how` says of what."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    how: str = ""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim's rule on one set of rows: ours, or those that one table prints. `why` is one sentence with the figures."""

    source: str
    outcome: Outcome
    why: str
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim, judged on one model's measured rows, and beside that on the rows that its sources print."""

    claim: str
    title: str
    rule: str
    model: str
    measured: Judged
    printed: tuple[Judged, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verdict:
        """The verdict `to_dict` came from."""
        known = dict(values)
        known["measured"] = _judged(known["measured"])
        known["printed"] = tuple(_judged(one) for one in known["printed"])
        return cls(**known)


def _judged(values: Mapping[str, Any]) -> Judged:
    return Judged(**{**values, "effects": tuple(Effect(**one) for one in values["effects"])})
