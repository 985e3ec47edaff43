"""Attention sinks and massive activations: a token position, or a dimension, that carries most of the norm of all tokens.

Decoders put them into their first token (Xiao et al. 2024) and into a few dimensions (Sun et al. 2024). They dominate means and
cosines without saying anything about the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from theodolite.advice.diagnosis import EXAMPLES
from theodolite.core.result import Finding, Severity
from theodolite.core.vectors import Floats
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.cosine import mean_cosine
from theodolite.metrics.isoscore import iso_score

# Shares of the squared norm of all tokens from which a position or dimension is worth a look, and bad.
WATCH, BAD = 0.5, 0.9
# How many times its share of the rows a position must carry: of texts with one token, position 0 has everything.
EXCESS = 3


def sink_findings(cloud: Cloud, positions: Sequence[int]) -> list[Finding]:
    """A finding for the position, and one for the dimension, that carries most of the squared norm; nothing if there is none."""
    X = np.asarray(cloud.sample, dtype=np.float64)
    position_of = np.asarray(positions)[cloud.sample_index]
    squares = np.square(X)
    total = squares.sum()
    if not total:
        return []
    findings = []
    by_position = np.bincount(position_of, weights=squares.sum(axis=1)) / total
    position, share = int(by_position.argmax()), float(by_position.max())
    inside = position_of == position
    if share > max(WATCH, EXCESS * inside.mean()):
        carried = f"{share:.0%} of the squared norm with {inside.mean():.0%} of the tokens"
        meaning = f"position {position} of the texts carries {carried}; without it {_effect(X, X[~inside])}"
        action = "means and cosines reflect these tokens more than the text; average and train without them"
        rows = tuple(int(row) for row in cloud.sample_index[inside][:EXAMPLES])
        findings.append(_finding("attention sink", share, meaning, action, cause="one position", rows=rows))
    by_dimension = squares.sum(axis=0) / total
    dimension, share = int(by_dimension.argmax()), float(by_dimension.max())
    if X.shape[1] > 2 and share > max(WATCH, EXCESS / X.shape[1]):
        effect = _effect(X, np.delete(X, dimension, axis=1))
        meaning = f"dimension {dimension} carries {share:.0%} of the squared norm; without it {effect}"
        action = "means and cosines reflect this dimension more than the text"
        findings.append(_finding("massive activation", share, meaning, action, cause="rogue dimensions"))
    return findings


def _finding(topic: str, share: float, meaning: str, action: str, **more: Any) -> Finding:
    verdict: Severity = "bad" if share > BAD else "watch"
    source = "an even share is 1 / number of positions or dimensions; decoders show more than 0.9 (Sun et al. 2024)"
    more |= {"metric": "share of the squared norm", "healthy": f"at most {WATCH:g}", "source": source}
    return Finding(topic=topic, verdict=verdict, value=share, meaning=meaning, action=action, **more)


def _effect(before: Floats, after: Floats) -> str:
    """What leaving something out does to mean cosine and IsoScore."""
    changes = []
    for name, function in (("mean cosine", mean_cosine), ("IsoScore", iso_score)):
        try:
            changes.append(f"{name} goes from {function(before):.2g} to {function(after):.2g}")
        except Undefined as undefined:
            changes.append(f"{name} is not defined ({undefined})")
    return " and ".join(changes)
