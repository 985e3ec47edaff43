"""DirectProbe on the five tasks of Zhou & Srikumar (2022), all training rows, every layer of both encoders at hand.

`direct_probe_tasks.py --folder FOLDER [--task NAME ...] [--model NAME ...] [--budget SECONDS]` extracts what is not in the
folder, fits every layer in a process of its own, and prints one row of a table per layer as soon as it is there: clusters,
processor seconds, peak memory, and what `estimate_cost` had said before.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

from theodolite import Space, extract
from theodolite.probes.direct_probe import DirectProbe, estimate_cost
from timing import run

TASKS = ("pos", "dep", "trec-50", "ps-role", "ps-fxn")
MODELS = ("tiny-mlm", "minilm-mlm")
COLUMNS = ("model", "task", "layer", "rows × d", "labels", "clusters", "CPU s", "estimated s", "ratio", "peak GB")


def space_of(folder: Path, model: str, task: str) -> Path:
    """The folder of a task's training vectors in every layer, extracted unless it is there."""
    path = folder / f"{model}-{task}-train"
    if not path.exists():
        models, data = os.environ["THEODOLITE_MODELS"], os.environ["THEODOLITE_DATA"]
        extract(str(Path(models) / model), task=task, split="train", data=data, to=path, progress=False)
    return path


def child(path: Path, layer: int, budget: float | None) -> dict[str, float | str]:
    """One layer: the estimate, then the fit."""
    space = Space.open(path, verify=False)
    X, y = space[layer], space.labels("label")
    expected = estimate_cost(X, y)
    start = time.process_time()
    try:
        probe = DirectProbe(budget=budget).fit(X, y)
    except ValueError as error:
        return {"clusters": str(error)}
    seconds = time.process_time() - start
    unit = 1 if sys.platform == "darwin" else 1024
    count = f"{probe.n_clusters_}" if not len(probe.unfinished_) else f"{probe.fewest_clusters_} to {probe.n_clusters_}"
    return {
        "shape": f"{X.shape[0]:,} × {X.shape[1]}",
        "labels": len(probe.classes_),
        "clusters": count + (", linear" if probe.is_linear_ else ""),
        "seconds": seconds,
        "estimate": expected.seconds,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9,
    }


def row(model: str, task: str, layer: int, seen: dict[str, float | str]) -> str:
    if "seconds" not in seen:
        return f"| {model} | {task} | {layer} | | | {seen['clusters']} | | | | |"
    seconds, estimate = float(seen["seconds"]), float(seen["estimate"])
    numbers = f"{seconds:.1f} | {estimate:.1f} | {estimate / seconds:.2f} | {float(seen['gigabytes']):.2f}"
    return f"| {model} | {task} | {layer} | {seen['shape']} | {seen['labels']} | {seen['clusters']} | {numbers} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="DirectProbe on five tasks, all rows, every layer.")
    parser.add_argument("--folder", type=Path, required=True, help="where the vectors are, or are put")
    parser.add_argument("--task", action="append", choices=TASKS, help="only these tasks; may be repeated")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these encoders; may be repeated")
    parser.add_argument("--budget", type=float, help="seconds of merging per layer, as in DirectProbe")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(Path(asked.child[0]), int(asked.child[1]), asked.budget)))
        return
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for model in asked.model or MODELS:
        for task in asked.task or TASKS:
            path = space_of(asked.folder, model, task)
            for layer in Space.open(path, verify=False).layers:
                options = ["--budget", str(asked.budget)] if asked.budget else []
                command = [sys.executable, __file__, "--folder", asked.folder, "--child", path, str(layer), *options]
                print(row(model, task, layer, json.loads(run(command).splitlines()[-1])), flush=True)


if __name__ == "__main__":
    main()
