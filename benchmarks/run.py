"""Run the benchmarks: `python benchmarks/run.py [table ...] [--quick]` measures, keeps the records and writes the page.

Every record is kept in `results.json` as soon as it is measured, so a run that was interrupted continues where it stopped. A run
that ends puts its tables into `records.json`, which is committed, and writes `docs/performance.md` and its pictures from all
records there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from scale import QUICK, Scale
from table import Result, machine, markdown
from timing import CLOCK

# The module of each table, and the sizes in `Scale` that it can be measured by one at a time.
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "survey": ("survey_speed", ("survey", "all_metrics")),
    "peers": ("peers", ("isoscore", "audit")),
    "eig": ("eig_loop", ("eig",)),
    "memory": ("memory", ("memory",)),
    "repair": ("cluster_repair", ("repair",)),
    "kmeans": ("kmeans", ("kmeans",)),
    "shards": ("shard_survey", ("shards",)),
    "workers": ("workers", ("workers",)),
    "extraction": ("extraction", ()),
    "tracking": ("tracking", ()),
    "training": ("training", ()),
    "direct": ("direct_probe", ()),
    "direct-scaling": ("direct_scaling", ("direct_rows", "direct_width", "direct_labels")),
    "grid": ("probe_grid", ()),
    "loss": ("isoscore_loss", ()),
    "layer": ("isotropy_layer", ()),
    "advice": ("advice_speed", ()),
}
HERE = Path(__file__).parent
KEPT = HERE / "results.json"
RECORDS = HERE / "records.json"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Theodolite's benchmarks, as ratios measured in one run.")
    parser.add_argument("tables", nargs="*", metavar="table", help=f"which of {', '.join(TABLES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, measures nothing")
    parser.add_argument("--rows", type=int, help="no case larger than this many rows")
    parser.add_argument("--repeats", type=int, help="times each side is run; the best one counts")
    parser.add_argument("--fresh", action="store_true", help="measure everything again, also what an interrupted run has kept")
    parser.add_argument(
        "--busy", action="store_true", help="compare processor time on one thread, for a machine with other work on it"
    )
    parser.add_argument(
        "--page", action="store_true", help="measure nothing: write docs/performance.md and its pictures from records.json"
    )
    parser.add_argument("--folder", type=Path, help="where the clouds are made and kept; by default they are removed again")
    asked = parser.parse_args()
    unknown = [name for name in asked.tables if name not in TABLES]
    if unknown:
        parser.error(f"there is no table {unknown[0]!r}; known: {', '.join(TABLES)}")
    return asked


def scale_of(asked: argparse.Namespace) -> Scale:
    scale = QUICK if asked.quick else Scale()
    if asked.rows:
        scale = scale.capped(asked.rows)
    if asked.repeats:
        scale = Scale(**{**vars(scale), "repeats": asked.repeats})
    return scale


def measured(tables: list[str], scale: Scale, folder: Path, kept: dict[str, Any], path: Path) -> Iterator[Result]:
    """The results of the asked tables, part by part; what `kept` has is not measured again, and the rest is written there."""
    for table in tables:
        module, sizes = TABLES[table]
        for part in scale.parts(sizes):
            chosen = {name: value for name, value in vars(part).items() if name in (*sizes, "d", "repeats")}
            key = json.dumps([table, os.environ.get(CLOCK), chosen])
            if key not in kept:
                results = []
                for result in import_module(module).measure(part, folder):
                    print(f"{result.verdict:8}{result.case}: {result.value:.3g} {result.unit}", file=sys.stderr, flush=True)
                    results.append({**result.to_dict(), "table": table})
                kept[key] = results
                replace_text(path, json.dumps(kept, indent=1) + "\n")
            yield from map(Result.from_dict, kept[key])


def replace_text(path: Path, text: str) -> None:
    """Write a file at once: an interrupted run leaves the old one."""
    path.with_suffix(".part").write_text(text, encoding="utf-8")
    path.with_suffix(".part").replace(path)


def records_with(tables: list[str], results: list[Result]) -> dict[str, Any]:
    """The committed records with the tables that were measured in place of their earlier ones."""
    records: dict[str, Any] = json.loads(RECORDS.read_text(encoding="utf-8")) if RECORDS.exists() else {}
    about = {**machine(), "date": time.strftime("%Y-%m-%d")}
    if CLOCK in os.environ:
        about["clock"] = "processor time on one thread, with other work on the machine"
    for table in tables:
        if found := [each.to_dict() for each in results if each.table == table]:
            records[table] = {"machine": about, "results": found}
    return records


def write_page(records: dict[str, Any]) -> None:
    """The page and its pictures."""
    from performance_page import files  # not before the threads of NumPy are set

    for path, text in files(records).items():
        replace_text(path, text)


def main() -> None:
    asked = arguments()
    if asked.page:
        write_page(json.loads(RECORDS.read_text(encoding="utf-8")))
        return
    tables = asked.tables or list(TABLES)
    if asked.busy:  # before NumPy is imported, and for the processes that are started
        os.environ |= {CLOCK: "processor", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        path = Path(temporary) / "results.json" if asked.quick else KEPT
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not asked.fresh else {}
        results = list(measured(tables, scale_of(asked), folder, kept, path))
    print(markdown(results))
    if asked.quick or asked.rows:
        print("A try at smaller sizes: these verdicts mean nothing, and no record is kept.")
        return
    records = records_with(tables, results)
    replace_text(RECORDS, json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    write_page(records)
    KEPT.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
