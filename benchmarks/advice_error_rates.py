"""How often `advise` says what, on data where the right answer is known: `python benchmarks/advice_error_rates.py [WORD]`.

Writes advice_error_rates.json next to this file: noise is drawn 200 times, other cases often enough to tell, with seeds that
nothing was tuned on. With a word, only the cases whose name has it are drawn again.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.advice.changes import Place
from theodolite.advice.nested_validation import Advice, search, search_places
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


def layers(kind: str, n: int, seed: int, *, best: int | None = None) -> dict[Place, Signal]:
    """The same items at 12 places, all under the same amount of noise; `best` is a layer that has less of it."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(n) % 3)
    first, second = random.standard_normal((2, n, D))
    second += first * random.uniform(0, 3, (n, 1))
    cosine = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    documents, answers = random.standard_normal((400, D)), random.integers(0, 400, n)
    names = ([f"a{i}" for i in range(n)], [f"b{i}" for i in range(n)])

    def signal(noise: float) -> Signal:
        def hidden(X: Any) -> Any:
            return X + noise * random.standard_normal(X.shape)

        if kind == "pairs":
            return ScoredPairs(hidden(first), hidden(second), cosine, names=names)
        if kind == "labels":
            return LabelledRows(hidden(np.eye(D)[y]), y, names=names[0])
        return JudgedQueries(hidden(documents), hidden(documents[answers]), Judgements(np.arange(n), answers, np.ones(n)))

    noise = {"pairs": 1.0, "labels": 0.6, "queries": 0.7}[kind]
    places = [Place(layer=layer, unit=unit) for layer in (5, 4, 3, 2, 1, 0) for unit in ("mean", "cls")]
    return {place: signal(noise / 2 if (place.layer, place.unit) == (best, "mean") else noise) for place in places}


def advice_on(drawn: Signal | dict[Place, Signal]) -> Advice:
    """The search that fits what was drawn."""
    return search_places(tuple(drawn), drawn.__getitem__) if isinstance(drawn, dict) else search(drawn)


# What is drawn, the verdict that would be wrong, and how often it is drawn.
CASES: dict[str, tuple[Callable[[int], Signal | dict[Place, Signal]], str, int]] = {
    "noise, 100 queries": (lambda seed: queries(100, seed, noise=True), "apply", 200),
    "noise, 200 pairs": (lambda seed: pairs(200, seed, noise=True), "apply", 200),
    "noise, 200 labelled texts": (lambda seed: labels(200, seed, noise=True), "apply", 200),
    "offset that hides the documents, 100 queries": (lambda seed: queries(100, seed, cone=20.0), "leave it alone", 50),
    "wide noise that hides the labels, 300 texts": (lambda seed: labels(300, seed, wide=3.0), "leave it alone", 25),
    "sound space, 60 pairs": (lambda seed: pairs(60, seed), "apply", 50),
    "sound space, 1,500 pairs": (lambda seed: pairs(1500, seed), "apply", 25),
    "offset that hides the pairs, 200 pairs": (lambda seed: pairs(200, seed, cone=20.0), "leave it alone", 25),
    "12 layers all equal, 200 pairs": (lambda seed: layers("pairs", 200, seed), "apply", 200),
    "12 layers all equal, 200 labelled texts": (lambda seed: layers("labels", 200, seed), "apply", 200),
    "12 layers all equal, 100 queries": (lambda seed: layers("queries", 100, seed), "apply", 200),
    "one of 12 layers is best, 200 pairs": (lambda seed: layers("pairs", 200, seed, best=2), "leave it alone", 25),
    "one of 12 layers is best, 200 labelled texts": (lambda seed: layers("labels", 200, seed, best=2), "leave it alone", 25),
    "one of 12 layers is best, 100 queries": (lambda seed: layers("queries", 100, seed, best=2), "leave it alone", 25),
}


def counted(advices: list[Advice], wrong: str) -> dict[str, Any]:
    """How often each verdict was given, and which choice and compression were named."""
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
        "choice": dict(Counter(str(advice.choice) for advice in advices).most_common(3)),
        "smallest form": dict(smallest.most_common(5)),
        "form of a quarter of the size": dict(Counter(quarter).most_common(5)),
    }


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    results: dict[str, Any] = json.loads(OUT.read_text(encoding="utf-8")) if word else {}
    with one_blas_thread():
        for name, (draw, wrong, repetitions) in CASES.items():
            if word not in name:
                continue
            advices = [advice_on(draw(FIRST_SEED + seed)) for seed in range(repetitions)]
            results[name] = counted(advices, wrong)
            print(name, json.dumps(results[name]), flush=True)
            OUT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
