"""How often two populations in one file are found where the truth is known: in pure spaces, and in mixtures of two encoders.

    python benchmarks/mixture_error_rates.py --data FOLDER --models FOLDER     # writes mixture_error_rates.json

Needs the data sets and encoders that the tests know as THEODOLITE_DATA and THEODOLITE_MODELS. Vectors are kept in --cache.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import theodolite as th
from theodolite.metrics import Cloud
from theodolite.metrics.nearest_rows import neighbours_of
from theodolite.metrics.populations import CROSSING, LOOKED_AT, WIDE, Populations, cut_scores, is_cut, two_populations
from theodolite.tasks import load_task
from theodolite.tasks.retrieval import read_beir

Array = NDArray[Any]
OUTPUT = Path(__file__).with_suffix(".json")
TEXTS = 1_000  # of each data set
LENGTH = 64  # tokens of a text
SETS = ("cranfield", "cisi", "stsb", "trec-6", "rte", "mrpc")
# All have 384 dimensions. The masked language model was trained from the weights of the first one, so the two are related.
ENCODERS = {"all-MiniLM": ("demo", "text"), "masked MiniLM": ("minilm-mlm", "mean"), "granite": ("granite-30m", "cls")}


def texts_of(name: str, data: Path) -> list[str]:
    """Different texts of a data set, in its order."""
    if name in ("cranfield", "cisi"):
        return list(dict.fromkeys(read_beir(data / name).documents))[:TEXTS]
    examples = load_task(name, "train", data)
    return list(dict.fromkeys([*examples.texts[:TEXTS], *(examples.second or ())[:TEXTS]]))[:TEXTS]


def encoded(data: Path, models: Path, cache: Path) -> Mapping[tuple[str, str], Array]:
    """The vectors of every data set in every encoder, by both names; row i of a set is the same text in each."""
    spaces = {}
    for encoder, (model, unit) in ENCODERS.items():
        for name in SETS:
            path = cache / f"{model}-{name}-{TEXTS}.npy"
            if not path.exists():
                source = model if model == "demo" else models / model
                space = th.extract(source, texts_of(name, data), unit=unit, layers="last", max_length=LENGTH)
                np.save(path, np.array(space[-1]))
            spaces[encoder, name] = np.load(path)
    return spaces


def looked_at(X: Array) -> tuple[Populations | None, float]:
    """The two populations that vectors look like, and the lowest alignment of a cut that is one by its neighbours and spread."""
    cuts = sorted(cut_scores(Cloud(X, sample=LOOKED_AT)), key=lambda cut: cut.crossing)
    alignments = [cut.alignment for cut in cuts if cut.crossing <= CROSSING and cut.spread >= WIDE]
    return next(filter(is_cut, cuts), None), min(alignments, default=float("nan"))


def pure_spaces(spaces: Mapping[tuple[str, str], Array]) -> Iterator[tuple[str, Array]]:
    """Every data set, every two together, and all together, in one encoder each."""
    for encoder in ENCODERS:
        for count in (1, 2, len(SETS)):
            for names in combinations(SETS, count):
                yield f"{encoder}: {' + '.join(names)}", np.vstack([spaces[encoder, name] for name in names])


def pure_rates(spaces: Mapping[tuple[str, str], Array]) -> dict[str, Any]:
    """In how many spaces of one encoder two populations are found, and how close the others come."""
    flagged, closest = [], {}
    for name, X in pure_spaces(spaces):
        found, alignment = looked_at(X)
        flagged += [name] if found is not None else []
        closest[name] = round(alignment, 4)
    lowest = sorted((value, name) for name, value in closest.items() if value == value)[:5]
    return {"spaces": len(closest), "flagged": flagged, "lowest_alignments": {name: value for value, name in lowest}}


def mixture_rates(spaces: Mapping[tuple[str, str], Array], share: float) -> dict[str, Any]:
    """In how many files with a share of rows from another encoder these are found; the two MiniLM encoders are related."""
    rates: dict[str, Any] = {}
    pairs = combinations(ENCODERS, 2) if share == 0.5 else permutations(ENCODERS, 2)
    for first, second in pairs:
        kind = "unrelated" if "granite" in (first, second) else "related"
        counted = rates.setdefault(kind, {"files": 0, "found": 0, "rows_named_rightly": [], "missed": []})
        for name in (*SETS, "all"):
            names = SETS if name == "all" else (name,)
            X, other = (np.vstack([_unit(spaces[encoder, each]) for each in names]) for encoder in (first, second))
            is_other = np.zeros(len(X), bool)
            is_other[np.random.default_rng(len(name)).choice(len(X), round(share * len(X)), replace=False)] = True
            found, _ = looked_at(np.where(is_other[:, None], other, X))
            counted["files"] += 1
            if found is None:
                counted["missed"].append(f"{name}: {second} in {first}")
                continue
            counted["found"] += 1
            agreement = is_other[found.minority].mean()
            counted["rows_named_rightly"].append(round(float(max(agreement, 1 - agreement)), 3))
    for counted in rates.values():
        named = counted.pop("rows_named_rightly")
        counted["least_share_of_rows_named_rightly"] = min(named, default=None)
    return rates


def _unit(X: Array) -> Array:
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def seconds(spaces: Mapping[tuple[str, str], Array]) -> dict[str, float]:
    """CPU seconds of the search in 1,000 rows whose neighbours a survey has found already, and in a sample of 3,000."""
    X = np.vstack([spaces["granite", name] for name in SETS])
    clouds = {"1,000 rows, neighbours known": Cloud(X[:1000]), "3,000 of 6,000 rows": Cloud(X, sample=10_000)}
    times = {}
    for name, cloud in clouds.items():
        neighbours_of(cloud)
        start = time.process_time()
        two_populations(cloud)
        times[name] = round(time.process_time() - start, 2)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "theodolite-mixtures")
    options = parser.parse_args()
    options.cache.mkdir(exist_ok=True)
    spaces = encoded(options.data, options.models, options.cache)
    results: dict[str, Any] = {"texts": TEXTS, "tokens": LENGTH, "cpu_seconds": seconds(spaces)}
    for share in (0.02, 0.05, 0.1, 0.5):
        results[f"mixture_{share:g}"] = mixture_rates(spaces, share)
        print(share, json.dumps(results[f"mixture_{share:g}"]), flush=True)
    results["one_encoder"] = pure_rates(spaces)
    print(json.dumps(results["one_encoder"]))
    OUTPUT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
