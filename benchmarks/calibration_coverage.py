"""Simulate the intervals of `calibrate`: how often they hold the true value, over domains of texts and groups of pairs.

Writes `calibration_coverage.json` next to this file, with rows and pairs taken as independent beside it. Run from the
repository's folder: `python benchmarks/calibration_coverage.py [repetitions]`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path[:0] = ["tests/advice"]

from test_calibration_coverage import DOMAINS, GROUPS, coverage  # type: ignore[import-not-found]  # in the tests  # noqa: E402

OUTPUT = Path(__file__).with_suffix(".json")


def main() -> None:
    """Run every case, and write its shares."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    cases = []
    for case in (*DOMAINS, *GROUPS):
        entry = {"case": type(case).__name__.lower(), **asdict(case), "coverage": coverage(case, repetitions=repetitions, seed=0)}
        entry["independent"] = coverage(case, repetitions=repetitions, seed=0, grouped=False)
        cases.append(entry)
        print(entry, flush=True)
        OUTPUT.write_text(json.dumps({"repetitions": repetitions, "cases": cases}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
