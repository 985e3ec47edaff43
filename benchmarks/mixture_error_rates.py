"""How often two populations in one file are found where the truth is known: in pure spaces, and in mixtures of two encoders.

    python benchmarks/mixture_error_rates.py --data FOLDER --models FOLDER     # writes mixture_error_rates.json

Needs the data sets and encoders that the tests know as THEODOLITE_DATA and THEODOLITE_MODELS. Vectors are kept in --cache.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import theodolite as th
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "theodolite-mixtures")
    options = parser.parse_args()
    options.cache.mkdir(exist_ok=True)
    print({key: value.shape for key, value in encoded(options.data, options.models, options.cache).items()})
