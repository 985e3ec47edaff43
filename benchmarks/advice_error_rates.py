"""How often `advise` says what, on data where the right answer is known: `python benchmarks/advice_error_rates.py`.

Writes advice_error_rates.json next to this file: noise is drawn 200 times, other cases often enough to tell, with seeds that
nothing was tuned on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.advice.nested_validation import Advice, search
from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs, Signal
from theodolite.core.parallel import one_blas_thread
from theodolite.tasks.retrieval import Judgements

OUT = Path(__file__).with_suffix(".json")
FIRST_SEED = 10_000
D = 16


def pairs(n: int, seed: int, *, cone: float = 0.0, noise: bool = False) -> ScoredPairs:
    """Pairs whose cosine the scores measure, in a space without any preferred direction; `cone` adds an offset that hides it."""
    random = np.random.default_rng(seed)
    cosine = random.uniform(-0.5, 1.0, n)
    first, other = (random.standard_normal((n, D)) for _ in range(2))
    second = cosine[:, None] * first + np.sqrt(1 - cosine**2)[:, None] * other
    first, second = (side * random.uniform(0.2, 3.0, (n, 1)) + cone * np.eye(D)[0] for side in (first, second))
    return ScoredPairs(first, second, random.random(n) if noise else cosine + 0.1 * random.standard_normal(n))


def labels(n: int, seed: int, *, wide: float = 0.0, noise: bool = False) -> LabelledRows:
    """Three labels, one to a direction; `wide` adds three directions of noise that hide them."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(n) % 3)
    X = 0.4 * random.standard_normal((n, D)) + (0 if noise else np.eye(D)[y])
    return LabelledRows(X + wide * random.standard_normal((n, 3)) @ np.eye(D)[-3:], y)


def queries(n: int, seed: int, *, cone: float = 0.0, noise: bool = False) -> JudgedQueries:
    """Queries next to their document, among 400; `cone` adds an offset to rows of different length."""
    random = np.random.default_rng(seed)
    documents = random.standard_normal((400, D))
    answers = random.integers(0, 400, n)
    asked = random.standard_normal((n, D)) + (0 if noise else 1.2 * documents[answers])
    lengths, offset = 1 + random.random((400, 1)), cone * np.eye(D)[0]
    return JudgedQueries(documents * lengths + offset, asked + offset, Judgements(np.arange(n), answers, np.ones(n)))


# What is drawn, the verdict that would be wrong, and how often it is drawn.
CASES: dict[str, tuple[Callable[[int], Signal], str, int]] = {
    "noise, 100 queries": (lambda seed: queries(100, seed, noise=True), "apply", 200),
    "noise, 200 pairs": (lambda seed: pairs(200, seed, noise=True), "apply", 200),
    "noise, 200 labelled texts": (lambda seed: labels(200, seed, noise=True), "apply", 200),
    "offset that hides the documents, 100 queries": (lambda seed: queries(100, seed, cone=20.0), "leave it alone", 50),
    "wide noise that hides the labels, 300 texts": (lambda seed: labels(300, seed, wide=3.0), "leave it alone", 25),
    "sound space, 60 pairs": (lambda seed: pairs(60, seed), "apply", 50),
    "sound space, 1,500 pairs": (lambda seed: pairs(1500, seed), "apply", 25),
    "offset that hides the pairs, 200 pairs": (lambda seed: pairs(200, seed, cone=20.0), "leave it alone", 25),
}


def counted(advices: list[Advice], wrong: str) -> dict[str, Any]:
    """How often each verdict was given, and which compression was named."""
    verdicts = Counter(advice.verdict for advice in advices)
    smallest = Counter(str(advice.compression.change) if advice.compression else "none" for advice in advices)
    quarter = [
        next((str(form.change) for form in advice.smaller if form.change.size(advice.d) == 0.25), "none") for advice in advices
    ]
    return {
        "repetitions": len(advices),
        "verdicts": dict(verdicts),
        "wrong": verdicts[wrong],
        "wrong verdict": wrong,
        "smallest form": dict(smallest.most_common(5)),
        "form of a quarter of the size": dict(Counter(quarter).most_common(5)),
    }


def main() -> None:
    results: dict[str, Any] = {}
    with one_blas_thread():
        for name, (draw, wrong, repetitions) in CASES.items():
            advices = [search(draw(FIRST_SEED + seed)) for seed in range(repetitions)]
            results[name] = counted(advices, wrong)
            print(name, json.dumps(results[name]), flush=True)
            OUT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
