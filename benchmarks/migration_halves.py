"""What `migrate` says on one half of the queries, and what that does to the other: `python benchmarks/migration_halves.py`.

Writes migration_halves.json and the table in docs/migrate.md. THEODOLITE_DATA and THEODOLITE_MODELS name the folders of data sets
and encoders; vectors are kept in --folder. The package wordllama is optional: without it its pairs are left out. `--repeat`
draws that many further halves, of which only the verdicts are counted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import theodolite as th
from theodolite.advice.folds import grouped_folds
from theodolite.advice.migration import (
    BRIDGE,
    KEEP,
    MARGIN,
    NOT_SHOWN,
    REINDEX,
    TIERS,
    TierScores,
    TierVariant,
    decide,
    tier_scores,
)
from theodolite.advice.scorers import JudgedQueries
from theodolite.core.intervals import student_interval
from theodolite.probes import kept_structure
from theodolite.tasks import read_beir
from theodolite.tasks.retrieval import Collection

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "migration_halves.json", HERE.parent / "docs" / "migrate.md"
START, END = "<!-- benchmarks/migration_halves.py writes from here -->\n", "<!-- to here -->\n"
DATA, MODELS = Path(os.environ["THEODOLITE_DATA"]), Path(os.environ["THEODOLITE_MODELS"])
COLLECTIONS = {"Cranfield": "cranfield", "CISI": "cisi"}


def static_vectors() -> Any:
    """The static vectors in the wheel of wordllama, which otherwise looks for its tokenizer on the Hub."""
    import wordllama

    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent)


# How each encoder is loaded, and what gets a vector.
ENCODERS: dict[str, tuple[Callable[[], Any], str]] = {
    "all-minilm": (lambda: "demo", "text"),
    "granite-30m": (lambda: str(MODELS / "granite-30m"), "cls"),
    "wordllama": (static_vectors, "text"),
    "minilm-mlm": (lambda: str(MODELS / "minilm-mlm"), "mean"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("migration-vectors"), help="where vectors are kept")
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS), choices=ENCODERS, help="which encoders to pair")
    parser.add_argument("--repeat", type=int, default=100, help="further random halves")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    cells = []
    for title, name in COLLECTIONS.items():
        collection = read_beir(DATA / name)
        signals = {}
        for encoder in asked.encoders:
            try:
                signals[encoder] = judged(encoder, name, collection, asked.folder)
            except ImportError as error:
                print(f"{encoder}: {error}")
        for old, new in itertools.permutations(signals, 2):
            cells.append({"data": title, "old": old, "new": new, **measured(signals[old], signals[new], asked.repeat)})
            print(line(cells[-1]), flush=True)
    RESULTS.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    PAGE.write_text(f"{before}{START}\n{table(cells)}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def judged(encoder: str, name: str, collection: Collection, folder: Path) -> JudgedQueries:
    """The documents and queries as an encoder embeds them, encoded once and kept."""
    load, unit = ENCODERS[encoder]
    parts = []
    for role in ("documents", "queries"):
        path = folder / f"{encoder}-{name}-{role}.npy"
        if not path.exists():
            space = th.extract(load(), texts=getattr(collection, role), unit=unit, layers="last")
            np.save(path, space[space.layers[-1]])
        parts.append(np.load(path))
    return JudgedQueries(parts[0], parts[1], collection.judgements)


def measured(old: JudgedQueries, new: JudgedQueries, repeat: int) -> dict[str, Any]:
    """The verdict on one half and what it does on the other; the verdicts of further halves; and numbers on all queries."""
    scores = tier_scores(old, new)
    everything = decide(scores)
    keep, best = everything.tier(KEEP).value, everything.tier(REINDEX).value
    naive = everything.naive
    counts: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for seed in range(1, repeat + 1):
        half = judged_half(scores, seed)
        counts[half["verdict"]] += 1
        wrong[half["verdict"]] += half["outcome"] == "wrong"
    maps = {name: max(point.value for point in everything.curve if point.map == name) for name in ("procrustes", "ridge")}
    return {
        "queries": everything.queries,
        "documents": everything.documents,
        **judged_half(scores, 0),
        "whole": everything.verdict,
        "scores": {tier.name: tier.value for tier in everything.tiers},
        "naive": naive,
        # Shares of what re-indexing gains, where it gains beyond doubt.
        "bridge_keeps": (everything.tier(BRIDGE).value - keep) / (best - keep) if everything.gain_low > 0 else None,
        "naive_keeps": (naive / best) if naive is not None and everything.gain_low > 0 else None,
        "maps": maps,
        "neighbours_kept": kept_structure(old.rows, new.rows).neighbours,
        "repeated": dict(counts),
        "repeated_wrong": dict(wrong),
    }


def judged_half(scores: TierScores, seed: int) -> dict[str, Any]:
    """The verdict on one half of the queries, and its effect on the other: *wrong* if that shows a loss beyond the margin."""
    n = len(scores.scores[TierVariant(KEEP)])
    half = grouped_folds(np.arange(n), 2, seed=seed)
    here, there = (np.flatnonzero(half == side) for side in (0, 1))
    found = decide(scores, here)
    best = scores.scores[TierVariant(REINDEX)][there]
    variant = TierVariant(REINDEX) if found.verdict == NOT_SHOWN else found.tier(found.verdict).variant
    # Re-indexing loses nothing against itself, so it is compared with the old model: wrong if it is shown to be worse.
    losses = best - scores.scores[variant][there] if found.verdict != REINDEX else scores.scores[TierVariant(KEEP)][there] - best
    low, high = student_interval(losses)
    assert low is not None
    assert high is not None
    if found.verdict == NOT_SHOWN:
        outcome = "open"
    elif found.verdict == REINDEX:
        outcome = "wrong" if low > 0 else "right" if high < 0 else "open"
    else:
        outcome = "wrong" if low > MARGIN else "right" if high < MARGIN else "open"
    return {
        "verdict": found.verdict,
        "map": variant.map,
        "embedded": found.documents if variant.tier == REINDEX else variant.documents,
        "gain": [found.gain, found.gain_low, found.gain_high],
        "elsewhere": None if found.verdict == NOT_SHOWN else [float(losses.mean()), low, high],
        "outcome": outcome,
        "more": found.more if found.verdict == NOT_SHOWN else None,
    }


def line(cell: dict[str, Any]) -> str:
    gain, low, high = cell["gain"]
    there = cell["elsewhere"]
    verdict = cell["verdict"] + (f" ({cell['map']}, {cell['embedded']})" if cell["map"] else "")
    effect = "" if there is None else f"{there[0]:+.3f} [{there[1]:+.3f}, {there[2]:+.3f}]"
    scores = cell["scores"]
    numbers = " | ".join(f"{scores[name]:.3f}" for name in TIERS)
    naive = "–" if cell["naive"] is None else f"{cell['naive']:.3f}"
    return (
        f"| {cell['data']} | {cell['old']} → {cell['new']} | {numbers} | {naive} | {gain:+.3f} [{low:+.3f}, {high:+.3f}] | "
        f"{verdict} | {effect} | {cell['outcome']} |"
    )


def table(cells: list[dict[str, Any]]) -> str:
    """The table of the page and the counts below it."""
    names = ["data", "change", *TIERS, "naive", "gain on one half", "verdict there", "on the other", "outcome"]
    head = f"| {' | '.join(names)} |\n"
    counts = Counter(cell["outcome"] for cell in cells)
    verdicts: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for cell in cells:
        verdicts.update(cell["repeated"])
        wrong.update(cell["repeated_wrong"])
    total = sum(verdicts.values())
    words = ", ".join(f"{name} {verdicts[name]:,} ({wrong[name]:,} wrong)" for name in (*TIERS, NOT_SHOWN) if verdicts[name])
    faults = [f"{cell['old']} → {cell['new']} on {cell['data']}" for cell in cells if cell["outcome"] == "wrong"]
    bridges = [cell["bridge_keeps"] for cell in cells if cell["bridge_keeps"] is not None]
    swaps = [cell["naive_keeps"] for cell in cells if cell["naive_keeps"] is not None]
    better = [cell for cell in cells if cell["maps"]["ridge"] > cell["maps"]["procrustes"]]
    answers = (
        f"Of {len(cells)} answers, {counts['wrong']} are wrong{' (' + '; '.join(faults) + ')' if faults else ''}, "
        f"{counts['right']} are right, and {counts['open']} are open: the answer was *not shown*, or the other half is too small "
        "to tell."
    )
    repeated = f"Over {total:,} further random halves: {words}. In all, {sum(wrong.values()) / max(total, 1):.1%} are wrong."
    kept = (
        f"In the {len(bridges)} changes in which re-indexing clearly gains, the bridge keeps between {min(bridges):.0%} and "
        f"{max(bridges):.0%} of that gain (median {np.median(bridges):.0%}). If the dimensions match, new queries on the "
        f"unmapped old index reach {min(swaps):.0%} to {max(swaps):.0%} of the new model's score. The ridge is the better map in "
        f"{len(better)} of {len(cells)} changes."
    )
    whole = Counter(cell["whole"] for cell in cells)
    all_queries = f"With all queries the verdicts are {', '.join(f'{name} {whole[name]}' for name in (*TIERS, NOT_SHOWN))}."
    lines = [head + "|---" * len(names) + "|", *map(line, cells), "", answers, all_queries, "", repeated, "", kept]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
