"""Run the benchmarks and print one table of ratios: `python benchmarks/run.py [table ...] [--quick] [--write]`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from scale import QUICK, Scale
from table import Result, machine, markdown

TABLES = {
    "survey": "survey_speed",
    "peers": "peers",
    "eig": "eig_loop",
    "memory": "memory",
    "repair": "cluster_repair",
    "kmeans": "kmeans",
    "extraction": "extraction",
    "tracking": "tracking",
    "direct": "direct_probe",
    "grid": "probe_grid",
    "loss": "isoscore_loss",
    "layer": "isotropy_layer",
}
HERE = Path(__file__).parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Theodolite's benchmarks, as ratios measured in one run.")
    parser.add_argument("tables", nargs="*", metavar="table", help=f"which of {', '.join(TABLES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, measures nothing")
    parser.add_argument("--rows", type=int, help="no case larger than this many rows")
    parser.add_argument("--repeats", type=int, help="times each side is run; the best one counts")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    parser.add_argument("--write", action="store_true", help="write benchmarks/RESULTS.md")
    parser.add_argument("--folder", type=Path, help="where the clouds are made and kept; by default they are removed again")
    asked = parser.parse_args()
    unknown = [name for name in asked.tables if name not in TABLES]
    if unknown:
        parser.error(f"there is no table {unknown[0]!r}; known: {', '.join(TABLES)}")
    if asked.write and asked.quick:
        parser.error("--quick measures nothing worth writing; leave out --write")
    return asked


def scale_of(asked: argparse.Namespace) -> Scale:
    scale = QUICK if asked.quick else Scale()
    if asked.rows:
        scale = scale.capped(asked.rows)
    if asked.repeats:
        scale = Scale(**{**vars(scale), "repeats": asked.repeats})
    return scale


def measured(tables: list[str], scale: Scale, folder: Path) -> list[Result]:
    """The results of the asked tables; each is told as soon as it is there."""
    results = []
    for table in tables:
        for result in import_module(TABLES[table]).measure(scale, folder):
            print(f"{result.verdict:8}{result.case}: {result.value:.3g} {result.unit}", file=sys.stderr, flush=True)
            results.append(result)
    return results


def page(results: list[Result], about: dict[str, str], *, quick: bool) -> str:
    missed = sum(result.verdict == "MISSED" for result in results)
    warning = "**A try at tiny sizes: these verdicts mean nothing.**\n\n" if quick else ""
    facts = "\n".join(f"- {name}: {value}" for name, value in about.items())
    return (
        "# Benchmark results\n\n"
        f"{len(results)} comparisons, {missed} missed. Ratios of times measured in one run on one machine; "
        "each time is the best of a few.\n\n"
        f"{warning}{markdown(results)}\n\n{facts}\n"
    )


def main() -> None:
    asked = arguments()
    scale = scale_of(asked)
    tables = asked.tables or list(TABLES)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = measured(tables, scale, folder)
    about = {**machine(), "date": time.strftime("%Y-%m-%d")}
    text = page(results, about, quick=asked.quick)
    print(text)
    if asked.output:
        asked.output.write_text(json.dumps({"machine": about, "results": [each.to_dict() for each in results]}, indent=1) + "\n")
    if asked.write:
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
