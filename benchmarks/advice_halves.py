"""What `advise` says on one half of the data, and what that does to the other half: `python benchmarks/advice_halves.py`.

Writes docs/advice-results.md. THEODOLITE_DATA and THEODOLITE_MODELS name the folders of data sets and encoders; vectors are
kept in --folder, and so is the encoder that it tunes first, unless --tuned names one.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import theodolite as th
from theodolite.advice.changes import Change
from theodolite.advice.folds import grouped_folds
from theodolite.advice.nested_validation import TOLERATED, Scored, effect_elsewhere, search
from theodolite.advice.scorers import JudgedQueries, LabelledRows, ScoredPairs, Signal
from theodolite.core.vectors import Floats
from theodolite.metrics.registry import label_of
from theodolite.tasks import load_task, read_beir

PAGE = Path(__file__).parents[1] / "docs" / "advice-results.md"
DATA = Path(os.environ["THEODOLITE_DATA"])
MODELS = Path(os.environ["THEODOLITE_MODELS"])
HEAD = """# What the advice is worth

Read this page to see how far you can trust `theodolite repair advise`. Each data set was cut into two halves, with pairs that
share a sentence in the same half. `advise` was given one half, on which it searched, chose and fitted. The last columns show
what its answer did to the other half. `benchmarks/advice_halves.py` writes the tables; intervals are 95%, paired by item.

There are three encoders. `demo` is all-MiniLM-L6-v2, which is contrastively fine-tuned. `minilm-mlm` is the same encoder
re-trained as a masked language model: its space has the shape of a pre-trained one, although it has seen contrastive
training. `tuned` is `minilm-mlm` after Siamese tuning on STS-B's training split, with RP21's settings. Vectors are means of
the last layer's tokens. For retrieval, repairs were fitted on all documents, and the queries were split into halves.
"""
REPAIRS = """
## Repairs

An answer is *right* if it recommends a repair and the interval of its gain on the other half is above 0, or if it says "leave
it alone" and the best repair's gain there is not shown to reach 0.02. *Not shown* is neither right nor wrong.

| encoder | data | metric | as it is | advice on one half | gain expected there | on the other half | verdict |
|---|---|---|---|---|---|---|---|
"""
COMPRESSION = f"""
## Compression

The advice is the smallest form that loses at most {TOLERATED:.0%} of the score (after the recommended repair, if there is
one) at the lower limit of the interval on one half. It is *right* if the other half does not show a larger loss, so its
interval reaches above that.

| encoder | data | metric | advice on one half | size | expected there | on the other half | verdict |
|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("advice-halves"), help="where vectors and the tuned encoder are kept")
    parser.add_argument("--tuned", type=Path, help="an encoder tuned from minilm-mlm on STS-B, instead of tuning one here")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    tuned = asked.tuned or tune(asked.folder / "tuned")
    encoders = {"minilm-mlm": str(MODELS / "minilm-mlm"), "tuned": str(tuned), "demo": "demo"}
    cells = []
    for name, model in encoders.items():
        for data, signal in signals(Vectors(name, model, asked.folder)):
            kept = asked.folder / f"{name}-{data}.json"  # a run that was stopped goes on with the next cell
            if not kept.exists():
                kept.write_text(json.dumps({"encoder": name, "data": data, **measured(signal)}), encoding="utf-8")
            cells.append(json.loads(kept.read_text(encoding="utf-8")))
            print(repair_line(cells[-1]), compression_line(cells[-1]), sep="\n", flush=True)
    repairs, compressions = ("\n".join(map(line, cells)) for line in (repair_line, compression_line))
    PAGE.write_text(f"{HEAD}{REPAIRS}{repairs}\n{COMPRESSION}{compressions}\n", encoding="utf-8")


def tune(folder: Path) -> Path:
    if not (folder / "model").is_dir():
        th.tune(str(MODELS / "minilm-mlm"), task="stsb", data=DATA, to=folder)
    return folder / "model"


class Vectors:
    """Mean-pooled vectors of one encoder, encoded once and kept."""

    def __init__(self, name: str, model: str, folder: Path) -> None:
        self.name, self.model, self.folder = name, model, folder

    def __call__(self, key: str, texts: Callable[[], tuple[str, ...]]) -> Floats:
        path = self.folder / f"{self.name}-{key}.npy"
        if not path.exists():
            np.save(path, th.extract(self.model, texts=texts(), unit="mean", layers="last")[-1])
        rows: Floats = np.load(path)
        return rows


def signals(vectors: Vectors) -> Iterator[tuple[str, Signal]]:
    pairs = [load_task("stsb", split, DATA) for split in ("dev", "test")]
    sides = [tuple(text for part in pairs for text in getattr(part, side)) for side in ("texts", "second")]
    both = vectors("stsb", lambda: (*sides[0], *sides[1]))
    n = len(sides[0])
    scores = np.concatenate([part.scores for part in pairs if part.scores is not None])
    yield "STS-B", ScoredPairs(both[:n], both[n:], scores, names=(sides[0], sides[1]))
    questions = [load_task("trec-50", split, DATA) for split in ("train", "test")]
    texts = tuple(text for part in questions for text in part.texts)
    labels = [label for part in questions for label in part.labels or ()]
    yield "TREC-50", LabelledRows(vectors("trec", lambda: texts), labels, names=texts)
    for data in ("Cranfield", "CISI"):
        collection = read_beir(DATA / data.lower())
        documents = vectors(f"{data}-documents", lambda collection=collection: collection.documents)  # type: ignore[misc]
        queries = vectors(f"{data}-queries", lambda collection=collection: collection.queries)  # type: ignore[misc]
        yield data, JudgedQueries(documents, queries, collection.judgements)


def measured(signal: Signal) -> dict[str, Any]:
    """What the advice on one half is, and what it does to the other."""
    half = grouped_folds(signal.groups, 2, strata=signal.strata, seed=0)
    here, there = (signal.take(np.flatnonzero(half == side)) for side in (0, 1))
    advice = search(here)
    small = advice.compression
    reference = advice.choice if advice.is_recommended else Change()
    return {
        "metric": advice.metric,
        "items": f"{advice.n:,} {advice.noun}",
        "base": advice.base,
        "verdict": advice.verdict,
        "settle": advice.items_to_settle,
        "worth": advice.worth,
        "choice": str(advice.choice),
        "gain": numbers(advice.gain),
        "elsewhere": numbers(effect_elsewhere(advice.choice, here, there)),
        "compression": None if small is None else str(small.change),
        "size": None if small is None else small.change.size(advice.d),
        "cost": None if small is None else numbers(small),
        "cost_elsewhere": None if small is None else numbers(effect_elsewhere(small.change, here, there, reference=reference)),
        "reference": advice.gain.value if advice.is_recommended else advice.base,
    }


def numbers(scored: Scored) -> list[float]:
    assert scored.low is not None
    assert scored.high is not None
    return [scored.gain, scored.low, scored.high]


def repair_line(cell: dict[str, Any]) -> str:
    gain, low, _ = cell["elsewhere"]
    if cell["verdict"] == "apply":
        says = f"**{cell['choice']}**"
        few = f"right in sign; {cell['items']} are too few to show a gain of {gain:.3f}"
        verdict = "right" if low > 0 else few if gain > 0 else "wrong"
    elif cell["verdict"] == "leave it alone":
        says, verdict = f"leave it alone (best: {cell['choice']})", "right" if low < cell["worth"] else "wrong"
    else:
        says = f"not shown (best: {cell['choice']}; {cell['settle'] or 'more than ten times as many'} items would settle it)"
        verdict = "—" if low <= 0 else f"missed: {cell['items']} were too few to be sure of it"
    cells = [f"{cell['base']:.3f}", says, text(cell["gain"]), text(cell["elsewhere"]), verdict]
    return f"| {' | '.join([cell['encoder'], cell['data'], label_of(cell['metric']), *cells])} |"


def compression_line(cell: dict[str, Any]) -> str:
    if cell["compression"] is None:
        cells = ["none", "—", "—", "—", f"{cell['items']} are too few to be sure of one"]
    else:
        verdict = "right" if cell["cost_elsewhere"][2] > -TOLERATED * abs(cell["reference"]) else "wrong"
        cells = [cell["compression"], f"{cell['size']:.0%}", text(cell["cost"]), text(cell["cost_elsewhere"]), verdict]
    return f"| {' | '.join([cell['encoder'], cell['data'], label_of(cell['metric']), *cells])} |"


def text(values: list[float]) -> str:
    return "{:+.3f} [{:+.3f}, {:+.3f}]".format(*values)


if __name__ == "__main__":
    main()
