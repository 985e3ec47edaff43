"""A program that runs many cases of the fuzzer, and writes what they came to; `python tests/integration/fuzz_driver.py --help`.

The cases run in processes of their own: a case that ends its process, or takes more than a minute, is a fault, and another
process goes on after it.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUTPUT = HERE / "fuzz_summary.json"
# The shares of cases that damage a file, and a file in the folder of a model or run, which takes a hundred times as long to read.
KINDS = {"files": 0.95, "folders": 0.05}


def run_slice(kind: str, first: int, last: int, seed: int, report: Path) -> None:
    """Run cases in this process; before each, the report says which it is and what was before it."""
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    from test_damaged_files import READERS, Summary, run_cases

    def on_case(case: int, reader: str, summary: Summary) -> None:
        report.write_text(json.dumps({**asdict(summary), "case": case, "reader": reader}))
        signal.alarm(60)  # ends the process

    with tempfile.TemporaryDirectory() as home:
        cases = Path(home) / "cases"
        cases.mkdir()
        readers = READERS
        if kind == "folders":
            from test_damaged_models import build_originals, folder_readers

            (Path(home) / "originals").mkdir()
            readers = folder_readers(build_originals(Path(home) / "originals"))
        summary = run_cases(cases, range(first, last), seed, readers=readers, on_case=on_case)
        signal.alarm(0)
    report.write_text(json.dumps(asdict(summary)))


def run(kind: str, cases: int, seed: int, step: int) -> dict[str, Any]:
    """Run cases in slices, each in a process of its own."""
    counts: dict[str, int] = {}
    faults: list[str] = []
    seconds = most = first = 0
    start = time.monotonic()
    while first < cases:
        last = min(first + step, cases)
        with tempfile.NamedTemporaryFile() as file:
            words = [sys.executable, __file__, "--slice", kind, str(first), str(last), str(seed), file.name]
            done = subprocess.run(words, check=False, capture_output=True)
            content = Path(file.name).read_text()
        if not content:
            raise SystemExit(done.stderr.decode())
        state = json.loads(content)
        for reader, count in state["cases"].items():
            counts[reader] = counts.get(reader, 0) + count
        faults += state["faults"]
        seconds, most = max(seconds, state["seconds"]), max(most, state["bytes"])
        first = last
        if done.returncode != 0:
            counts[state["reader"]] = counts.get(state["reader"], 0) + 1
            faults.append(f"{state['reader']}, case {state['case']}: the process ended with {done.returncode}")
            first = state["case"] + 1
        print(f"{kind}: {first:,} of {cases:,} cases, {len(faults)} faults, {time.monotonic() - start:.0f} s", file=sys.stderr)
    sizes = {"slowest_seconds": round(seconds, 1), "most_megabytes": round(most / 2**20)}
    return {"cases": sum(counts.values()), "faults": faults, **sizes, "cases_by_reader": counts}


def main() -> None:
    """Parse the options, run the cases and write the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other cases")
    parser.add_argument("--step", type=int, default=1_000, help="cases per process")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--slice", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.slice:
        kind, first, last, seed, report = options.slice
        run_slice(kind, int(first), int(last), int(seed), Path(report))
        return
    with ThreadPoolExecutor() as pool:  # which only waits for processes
        runs = {
            kind: pool.submit(run, kind, round(share * options.cases), options.seed, options.step)
            for kind, share in KINDS.items()
        }
        parts = {kind: each.result() for kind, each in runs.items()}
    options.output.write_text(json.dumps({"seed": options.seed, **parts}, indent=1) + "\n")
    faults = [fault for part in parts.values() for fault in part["faults"]]
    print("\n".join(faults) or f"{options.cases:,} cases, no fault")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
