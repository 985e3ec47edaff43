"""How often `compare` and `gate` are wrong where the truth is known: stars, breaches, drift, and the relations between rows.

    python benchmarks/comparison_error_rates.py            # writes comparison_error_rates.json

Every number is a count over seeded repetitions. `tests/integration/test_comparison_error_rates.py` repeats a few of them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.gate import judge
from theodolite.core.result import LateTables, Result
from theodolite.metrics import Cloud, compare_clouds, default_metrics
from theodolite.metrics.bounds import Bound
from theodolite.metrics.evaluation import deviation_records, measure
from theodolite.probes import correspondence, two_sample_shift

Array = NDArray[Any]
OUTPUT = Path(__file__).with_suffix(".json")
D = 32
LEVEL = 0.05


def population(random: np.random.Generator, n: int, d: int = D) -> Array:
    """Rows with a mean, a falling spectrum, and tails heavier than a normal distribution's."""
    return (random.standard_t(8, (n, d)) * np.linspace(2, 0.3, d) + 0.4).astype(np.float32)


def tokens(random: np.random.Generator, texts: int, d: int = D) -> tuple[Array, Array]:
    """Tokens of whole texts of different length, alike within a text."""
    groups = np.repeat(np.arange(texts), random.integers(4, 16, texts))
    rows = population(random, texts, d)[groups] + 0.7 * population(random, len(groups), d)
    return rows.astype(np.float32), groups


def star_rates(repetitions: int, *, n: int = 300, whole_texts: bool = False) -> dict[str, Any]:
    """Share of comparisons of two samples of one population in which each metric is starred."""
    names = default_metrics()
    stars: Counter[str] = Counter()
    tested: Counter[str] = Counter()
    for seed in range(repetitions):
        random = np.random.default_rng([seed, n, whole_texts])
        if whole_texts:
            (A, a), (B, b) = tokens(random, n), tokens(random, n)
            groups: Any = (a, b)
        else:
            A, B, groups = population(random, n), population(random, n), (None, None)
        for each in compare_clouds(Cloud(A, seed=seed), Cloud(B, seed=seed), names, groups=groups):
            tested[each.metric] += each.low is not None
            stars[each.metric] += each.is_clear
    rates = {name: round(stars[name] / repetitions, 4) for name in names if tested[name]}
    return {"n": n, "repetitions": repetitions, "mean": round(float(np.mean(list(rates.values()))), 4), "by_metric": rates}


BOUNDS = {
    "iso_score": {"drop": "5%"},
    "mean_cosine": {"rise": 0.02},
    "effective_rank": {"drop": "5%"},
    "uniformity": {"rise": 0.02},
}


def gate_rates(repetitions: int, n: int) -> dict[str, Any]:
    """Share of gates that breach for a second sample of the same population, and share in which a point would have."""
    bounds = [Bound.parse(name, value) for name, value in BOUNDS.items()]
    breaches: Counter[str] = Counter()
    beyond: Counter[str] = Counter()
    for seed in range(repetitions):
        random = np.random.default_rng([seed, n, 7])
        results = []
        for _ in range(2):
            measured = measure(Cloud(population(random, n)), list(BOUNDS), bootstrap=40)
            records = LateTables({"deviations": deviation_records(measured)})
            results.append(Result(verb="gate", rows=tuple(row for row, _ in measured), records=records))
        findings = judge(bounds, results[1], results[0])
        for finding in findings:
            breaches[finding.metric] += finding.verdict == "bad"
            beyond[finding.metric] += finding.verdict != "good"
        breaches["any"] += any(finding.verdict == "bad" for finding in findings)
    rates = {name: {"breach": breaches[name] / repetitions, "beyond_the_bound": beyond[name] / repetitions} for name in BOUNDS}
    return {"n": n, "repetitions": repetitions, "any": breaches["any"] / repetitions, "by_metric": rates}


def drift_rates(repetitions: int, *, n: int = 200, whole_texts: bool = False) -> dict[str, Any]:
    """Quantiles of p of the test of two samples if nothing shifted; uniform ones are their own levels."""
    ps = []
    for seed in range(repetitions):
        random = np.random.default_rng([seed, n, whole_texts, 3])
        if whole_texts:
            (A, a), (B, b) = tokens(random, n // 4), tokens(random, n // 4)
            ps.append(two_sample_shift(A, B, groups=(a, b), seed=seed).p)
        else:
            ps.append(two_sample_shift(population(random, n), population(random, n), seed=seed).p)
    levels = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
    return {"n": n, "repetitions": repetitions, "share_at_most": {str(x): float(np.mean(np.array(ps) <= x)) for x in levels}}


def made_pairs(random: np.random.Generator, n: int, d: int) -> Mapping[str, tuple[Array, str]]:
    """A copy of the first entry for every relation, with the verdict that is true of it."""
    X, other = population(random, n, d), population(random, n, d) @ random.standard_normal((d, d)).astype(np.float32)
    turn = np.linalg.qr(random.standard_normal((d, d)))[0].astype(np.float32)
    steps = {unit: np.abs(X).max(axis=axis, keepdims=True) / 127 for unit, axis in (("row", 1), ("column", 0), ("file", None))}
    mixed = X.copy()
    rows = random.choice(n, n // 10, replace=False)
    mixed[rows] = other[rows]
    precise = "same up to precision"
    return {
        "itself": (X, "identical"),
        "float16": (X.astype(np.float16), precise),
        "bfloat16": ((X.view(np.uint32) & 0xFFFF0000).view(np.float32), precise),
        "three decimals": (X.round(3), precise),
        **{f"int8 by {unit}": ((np.round(X / step) * step).astype(np.float32), precise) for unit, step in steps.items()},
        **{f"int8 codes by {unit}": (np.round(X / step).astype(np.int8), precise) for unit, step in steps.items()},
        "int4 by column": (np.round(X / steps["column"] / 127 * 7), precise),
        "binary": (np.sign(X), precise),
        "scaled": (3 * X, "same up to length"),
        "another runtime": (X + 0.02 * random.standard_normal(X.shape), "nearly the same"),
        "truncated": (X[:, : d // 2], "first dimensions"),
        "rotated": (X @ turn, "turned"),
        "rotated and shifted": (X @ turn + 1, "turned"),
        "linear map": (X @ random.standard_normal((d, d)), "linear map"),
        "10 % re-embedded": (mixed, "partly re-embedded"),
        "shuffled": (X[random.permutation(n)], "different"),
        "other model": (other, "different"),
        "same population twice": (population(random, n, d), "different"),
    }


def relation_rates(repetitions: int) -> dict[str, Any]:
    """Share of copies that are called what they are, by relation, over sizes from 200 × 16 to 600 × 64."""
    right: Counter[str] = Counter()
    for seed in range(repetitions):
        random = np.random.default_rng([seed, 11])
        n, d = (200, 16) if seed % 2 else (600, 64)
        pairs = made_pairs(random, n, d)
        X = pairs["itself"][0]
        for name, (B, verdict) in pairs.items():
            right[name] += correspondence(X, B, seed=seed).verdict == verdict
    return {"repetitions": repetitions, "right": {name: right[name] / repetitions for name in pairs}}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args(arguments)
    parts: dict[str, Callable[[int], Any]] = {
        "drift_rows": drift_rates,
        "drift_tokens": lambda count: drift_rates(count, whole_texts=True),
        **{f"gate_{n}": lambda count, n=n: gate_rates(count, n) for n in (200, 500, 1500)},  # type: ignore[misc]
        "stars_rows": star_rates,
        "stars_tokens": lambda count: star_rates(count, n=80, whole_texts=True),
        # Which relation is found depends on chance so little that fewer repetitions tell.
        "relations": lambda count: relation_rates(max(1, count // 5)),
    }
    results = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    for name, part in parts.items():
        if not options.only or name in options.only:
            results[name] = part(options.repetitions)
            print(name, json.dumps(results[name])[:300], flush=True)
            OUTPUT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
