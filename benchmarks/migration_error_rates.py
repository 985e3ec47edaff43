"""How often `migrate` is wrong where the truth is known: `python benchmarks/migration_error_rates.py` writes its JSON.

Scores of queries are drawn with a known mean gain of re-indexing and known mean losses of the bridge and of two stages. Cases at
the boundary count wrong recommendations; the other cases count how often the right one is found.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.advice.migration import BRIDGE, KEEP, MARGIN, REINDEX, TWO_STAGE, TierScores, TierVariant, decide
from theodolite.core.moments import Doubles

RESULTS = Path(__file__).with_suffix(".json")
REPETITIONS = 400
MAPS, COUNTS = ("procrustes", "ridge"), (50, 100, 200)
# For each case: the mean gain, the mean losses of bridge and two-stage, the verdicts that count, and whether these are wrong.
CASES: dict[str, tuple[float, float, float, tuple[str, ...], bool]] = {
    "gain equals the margin": (MARGIN, 0.0, 0.0, (KEEP,), True),
    "no gain": (0.0, 0.0, 0.0, (BRIDGE, TWO_STAGE, REINDEX), True),
    "losses equal the margin": (0.2, MARGIN, MARGIN, (BRIDGE, TWO_STAGE), True),
    "bridge loses nothing": (0.2, 0.0, 0.0, (BRIDGE,), False),
    "two stages lose nothing": (0.2, 0.1, 0.0, (TWO_STAGE,), False),
    "only re-indexing is good": (0.2, 0.1, 0.1, (REINDEX,), False),
    "the new model is worse": (-0.05, 0.0, 0.0, (KEEP,), False),
}
QUERIES = (50, 200)


def drawn(random: np.random.Generator, n: int, gain: float, bridge: float, two_stage: float) -> TierScores:
    """Scores of n queries with these gains and losses on average; the variants of a tier differ by chance alone.

    In pairs of encoders on Cranfield and CISI, differences from re-indexing have standard deviations of 0.16 to 0.23 (keep),
    0.12 to 0.20 (bridge) and 0.04 to 0.10 (two-stage), and 9% to 18% of queries, in two stages 22% to 79%, do not change.
    """
    best = random.beta(1.2, 1.8, n)

    def away(mean: float, changed: float, spread: float) -> Doubles:
        return np.asarray(best - mean - (random.random(n) < changed) * random.standard_normal(n) * spread)

    scores = {TierVariant(KEEP): away(gain, 0.87, 0.2), TierVariant(REINDEX): best}
    scores |= {TierVariant(BRIDGE, name, count): away(bridge, 0.85, 0.17) for name in MAPS for count in COUNTS}
    scores |= {TierVariant(TWO_STAGE, name, count): away(two_stage, 0.5, 0.11) for name, count in (("", 0), ("ridge", 100))}
    return TierScores(scores, None, 1000, 0.01)


def verdicts(name: str, n: int, repetitions: int) -> Counter[str]:
    """How often each verdict is given in one case."""
    truth = CASES[name][:3]
    return Counter(decide(drawn(np.random.default_rng(seed), n, *truth)).verdict for seed in range(repetitions))


def main() -> None:
    results: dict[str, dict[str, Any]] = {}
    for name, (*_, counted, is_wrong) in CASES.items():
        for n in QUERIES:
            counts = verdicts(name, n, REPETITIONS)
            share = sum(counts[verdict] for verdict in counted) / REPETITIONS
            results[f"{name}, {n} queries"] = {"wrong" if is_wrong else "right": share, "verdicts": dict(counts)}
            print(name, n, "wrong" if is_wrong else "right", f"{share:.1%}", dict(counts), flush=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
