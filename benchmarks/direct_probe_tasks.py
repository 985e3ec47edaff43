"""DirectProbe on the five tasks of Zhou & Srikumar (2022), all training rows, every layer of both encoders at hand.

`direct_probe_tasks.py --folder FOLDER [--task NAME ...] [--model NAME ...] [--budget SECONDS]` extracts what is not in the
folder and fits every layer in a process of its own. What a layer took is stored in `direct_probe_tasks.json` as soon as it is
known, and layers that are stored are not run again; `--table` prints the table of what is stored.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from theodolite import Space, extract
from theodolite.probes.direct_probe import DirectProbe, NoSpread
from timing import run

TASKS = ("ps-fxn", "ps-role", "trec-50", "pos", "dep")
MODELS = ("tiny-mlm", "minilm-mlm")
COLUMNS = (
    "model",
    "task",
    "layer",
    "rows × d",
    "labels",
    "clusters",
    "linear",
    "CPU s",
    "elapsed s",
    "peak GB",
)
RECORDS = Path(__file__).with_suffix(".json")


def space_of(folder: Path, model: str, task: str) -> Path:
    """The folder of a task's training vectors in every layer, extracted unless it is there."""
    path = folder / f"{model}-{task}-train"
    if not path.exists():
        models, data = os.environ["THEODOLITE_MODELS"], os.environ["THEODOLITE_DATA"]
        extract(str(Path(models) / model), task=task, split="train", data=data, to=path, progress=False)
    return path


def child(path: Path, layer: int, budget: float | None) -> dict[str, Any]:
    """The fit of one layer."""
    space = Space.open(path, verify=False)
    X, y = space[layer], space.labels("label")
    shape = {"rows": X.shape[0], "d": X.shape[1], "budget": budget}
    try:
        start, cpu = time.perf_counter(), time.process_time()
        probe = DirectProbe(budget=budget).fit(X, y)
    except NoSpread:
        return {**shape, "why": "no spread: all rows are the same point"}
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        **shape,
        "labels": len(probe.classes_),
        "fewest": probe.fewest_clusters_,
        "most": probe.n_clusters_,
        "linear": bool(probe.is_linear_),
        "unmeasured": len(probe.unmeasured_),
        "cpu": round(cpu, 2),
        "elapsed": round(elapsed, 2),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9, 2),
    }


def row(record: dict[str, Any]) -> str:
    shape = f"{record['rows']:,} × {record['d']}"
    if "why" in record:
        cells = [shape, "", record["why"], "", "", "", ""]
    else:
        count = f"{record['fewest']:,} to {record['most']:,}" if record["fewest"] < record["most"] else f"{record['most']:,}"
        late = (
            f", {record['unmeasured']} labels not measured" if record["unmeasured"] and record["fewest"] == record["most"] else ""
        )
        numbers = [f"{record[name]:.1f}" for name in ("cpu", "elapsed")]
        linear = "yes" if record["linear"] else "no"
        cells = [shape, str(record["labels"]), count + late, linear, *numbers, f"{record['gigabytes']:.2f}"]
    return f"| {' | '.join([record['model'], record['task'], str(record['layer']), *cells])} |"


def table(records: list[dict[str, Any]]) -> str:
    order = sorted(records, key=lambda each: (MODELS.index(each["model"]), TASKS.index(each["task"]), each["layer"]))
    return "\n".join([f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}", *map(row, order)])


def store(records: list[dict[str, Any]]) -> None:
    RECORDS.write_text("[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="DirectProbe on five tasks, all rows, every layer.")
    parser.add_argument("--folder", type=Path, help="where the vectors are, or are put")
    parser.add_argument("--task", action="append", choices=TASKS, help="only these tasks; may be repeated")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these encoders; may be repeated")
    parser.add_argument("--budget", type=float, help="seconds of merging and measuring per layer, as in DirectProbe")
    parser.add_argument("--table", action="store_true", help="run nothing, print the table of what is stored")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(Path(asked.child[0]), int(asked.child[1]), asked.budget)))
        return
    records: list[dict[str, Any]] = json.loads(RECORDS.read_text()) if RECORDS.exists() else []
    if asked.table:
        print(table(records))
        return
    if asked.folder is None:
        parser.error("--folder is needed to run")
    stored = {(record["model"], record["task"], record["layer"]) for record in records}
    for model in asked.model or MODELS:
        for task in asked.task or TASKS:
            path = space_of(asked.folder, model, task)
            for layer in Space.open(path, verify=False).layers:
                if (model, task, layer) in stored:
                    continue
                options = ["--budget", str(asked.budget)] if asked.budget else []
                output = run([sys.executable, __file__, "--child", str(path), str(layer), *options])
                records.append({"model": model, "task": task, "layer": layer, **json.loads(output.splitlines()[-1])})
                store(records)
                print(row(records[-1]), flush=True)


if __name__ == "__main__":
    main()
