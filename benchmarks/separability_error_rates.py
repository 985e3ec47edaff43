"""How often `probe` concludes wrongly from labels whose truth is known: 200 seeded clouds of each kind.

Writes `separability_error_rates.json` next to this file. Run from the repository's folder:
`python benchmarks/separability_error_rates.py [repetitions]`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, "tests/probes")

from label_truths import TRUTHS, conclusions  # type: ignore[import-not-found]  # in the tests folder

OUTPUT = Path(__file__).with_suffix(".json")
# The seeds below are those of the suite, and those with which the rules were made.
FIRST_SEED = 10_000


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rates = {}
    for name, truth in TRUTHS.items():
        seen = conclusions(truth, range(FIRST_SEED, FIRST_SEED + repetitions))
        rates[name] = {"wrong": {words: seen[words] for words in truth.wrong}, "seen": dict(sorted(seen.items()))}
        print(name, rates[name], flush=True)
    OUTPUT.write_text(json.dumps({"repetitions": repetitions, "clouds": rates}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
