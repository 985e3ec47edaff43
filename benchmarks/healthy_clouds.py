"""How often a survey flags healthy clouds, and what it says of clouds with a planted defect; writes healthy_clouds.json.

    python benchmarks/healthy_clouds.py

Healthy clouds have families of four rows, as paraphrases are, the decaying spectrum of a good sentence encoder, and unit length.
Their seeds, and those of the planted defects, were not used while the rules were made.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.diagnosis import diagnose
from theodolite.metrics import Cloud, metric_rows

CLOUDS, PLANTED, FIRST_SEED = 200, 50, 20_000
Rows = NDArray[np.float64]


def healthy(n: int, d: int, rng: np.random.Generator) -> Rows:
    """Rows of a healthy cloud."""
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    scales = (np.arange(1, d + 1) + d / 10) ** -0.9
    X = (rng.standard_normal((-(-n // 4), d)) * scales).repeat(4, axis=0)[:n] + 0.8 * rng.standard_normal((n, d)) * scales
    return np.asarray(X @ turn / np.linalg.norm(X, axis=1, keepdims=True))


def unit(X: Rows) -> Rows:
    """The rows at unit length."""
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def copies(X: Rows, rng: np.random.Generator) -> Rows:
    """The rows with a tenth of them replaced by near-copies of others."""
    m = len(X) // 10
    return np.concatenate([X[:-m], X[:m] + 1e-4 * rng.standard_normal((m, X.shape[1]))])


# What is planted, and the causes that may be named for it.
DEFECTS: dict[str, tuple[Callable[[Rows, np.random.Generator], Rows], set[str]]] = {
    "mean": (lambda X, rng: X + unit(rng.standard_normal((1, X.shape[1]))), {"mean"}),
    "one direction": (
        lambda X, rng: unit(X + 2 * rng.standard_normal((len(X), 1)) * unit(rng.standard_normal((1, X.shape[1])))),
        {"one direction"},
    ),
    "mean and one direction": (
        lambda X, rng: unit(
            X
            + 1.5 * unit(rng.standard_normal((1, X.shape[1])))
            + 2 * rng.standard_normal((len(X), 1)) * unit(rng.standard_normal((1, X.shape[1])))
        ),
        {"mean", "one direction", "mean and one direction"},
    ),
    "near-copies": (copies, {"duplicates"}),
    "scaled rows": (lambda X, rng: X * rng.lognormal(0, 0.7, (len(X), 1)), {"lengths"}),
    "rogue dimension": (
        lambda X, rng: unit(X * np.where(np.arange(X.shape[1]) == rng.integers(X.shape[1]), 30, 1)),
        {"rogue dimensions"},
    ),
}


def diagnosis(X: Rows) -> tuple[str, Counter[str], list[str]]:
    """The verdict, the causes with how many numbers each accounts for, and the unusual topics."""
    cloud = Cloud(X)
    findings, answer = diagnose(cloud, metric_rows(cloud))
    unusual = [finding for finding in findings if finding.severity]
    return answer.verdict, Counter(finding.cause for finding in unusual), [finding.topic for finding in unusual]


def main() -> None:
    """Run all clouds, and write and print the counts."""
    record: dict[str, object] = {"clouds": CLOUDS, "planted": PLANTED, "first_seed": FIRST_SEED}
    sizes = {}
    for n, d in ((300, 48), (1_000, 64), (1_500, 256)):
        verdicts, topics = Counter[str](), Counter[str]()
        for seed in range(FIRST_SEED, FIRST_SEED + CLOUDS):
            verdict, _, unusual = diagnosis(healthy(n, d, np.random.default_rng(seed)))
            verdicts[verdict] += 1
            topics.update(unusual)
        sizes[f"{n} x {d}"] = {"verdicts": dict(verdicts), "topics": dict(topics)}
        print(n, d, sizes[f"{n} x {d}"], flush=True)
    defects = {}
    for name, (plant, expected) in DEFECTS.items():
        outcomes = Counter[str]()
        for seed in range(FIRST_SEED, FIRST_SEED + PLANTED):
            rng = np.random.default_rng(seed)
            _, causes, unusual = diagnosis(plant(healthy(1_000, 64, rng), rng))
            outcomes["flagged"] += bool(unusual)
            outcomes["only the planted cause"] += bool(causes) and set(causes) <= expected
            outcomes["mainly the planted cause"] += bool(causes) and causes.most_common(1)[0][0] in expected
            outcomes["unusual numbers"] += len(unusual)
            outcomes["causes"] += len(causes)
        defects[name] = dict(outcomes)
        print(name, defects[name], flush=True)
    record |= {"healthy": sizes, "defects": defects}
    Path(__file__).with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
