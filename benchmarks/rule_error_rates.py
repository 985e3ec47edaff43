"""Simulate every claim's rules: error rates at the boundary and power with a true effect, by number of fine-tuning seeds.

Adds to the counts in `rule_error_rates.json` next to this file until there are so many repetitions, and writes the table in
docs/studies.md from it. Remove that file after a change of the rules. Run from the repository's folder:
`python benchmarks/rule_error_rates.py [repetitions]`; with 0, only the table is written again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = ["tests", "tests/contract"]

from test_rules_contract import SPECS, outcomes, small  # type: ignore[import-not-found]  # in the tests folder  # noqa: E402

OUTPUT = Path(__file__).with_suffix(".json")
PAGE = Path("docs/studies.md")
BEGIN, END = "<!-- rule error rates: begin -->", "<!-- rule error rates: end -->"
# One seed never decides, which a few repetitions show; the others are where the error rates are.
BOUNDARY_SEEDS, POWER_SEEDS = (1, 2, 3, 5), (3, 5)
# Repetitions of a round; a third of them for claims that take ten times as long as the others.
ROUND, SLOW, SLOW_CLAIMS = 20, 3, ("ZS22-f",)
# The share of true effects that were found before verdicts had premises, one run was never enough, and each of several effects
# could contradict at 5% (3 and 5 seeds, normal noise). Claims that are new, or on other effects than before, have none.
BEFORE = {
    "IL23-a": (0.965, 0.998), "IL23-b": (0.998, 1.0), "IL23-c": (0.0, 0.0), "IL23-d": (0.898, 0.925), "RP21-a": (0.540, 0.625),
    "RP21-b": (0.992, 1.0), "RP21-c": (0.928, 0.940), "PD22-1": (0.780, 0.768), "PD22-2": (0.915, 0.978),
    "PD22-3": (0.248, 0.360), "PD22-4": (0.972, 0.955), "RP21-d": (0.705, 0.760), "RP21-e": (0.512, 0.580),
    "RP21-f": (0.335, 0.422), "ZS22-a": (1.0, 1.0), "ZS22-b": (0.845, 0.918), "ZS22-c": (0.910, 0.995), "ZS22-d": (1.0, 1.0),
    "ZS22-e": (1.0, 0.985), "ZS22-f": (0.998, 1.0),
}  # fmt: skip


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    output: dict[str, Any] = {"repetitions": 0, "claims": {}}
    if OUTPUT.is_file():
        output = json.loads(OUTPUT.read_text(encoding="utf-8"))
    while output["repetitions"] < count:
        add_repetitions(output)
        OUTPUT.write_text(json.dumps(output, indent=1) + "\n", encoding="utf-8")
        print(output["repetitions"], flush=True)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(table(output)) + f"\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def add_repetitions(output: dict[str, Any]) -> None:
    """One more round: how often each verdict came, by claim, scenario, noise and number of seeds."""
    begin = output["repetitions"]
    for spec, claim in [(study, small(each)) for study in SPECS for each in study.claims]:
        for scenario, seeds in [("boundary", n) for n in BOUNDARY_SEEDS] + [("true", n) for n in POWER_SEEDS]:
            size = ROUND // (SLOW if claim.id in SLOW_CLAIMS or seeds == 1 else 1)
            for noise in ("normal", "t3"):
                numbers = range(begin, begin + size)
                seen = outcomes(spec, claim, scenario, numbers, seeds=seeds, heavy=noise == "t3")
                cell = output["claims"].setdefault(claim.id, {}).setdefault(f"{scenario}, {noise}, {seeds} seeds", {})
                for verdict in ("repetitions", "supported", "contradicted"):
                    cell[verdict] = cell.get(verdict, 0) + (size if verdict == "repetitions" else seen[verdict])
    output["repetitions"] = begin + ROUND


def table(output: dict[str, Any]) -> list[str]:
    """Lines of a Markdown table; of normal and heavy-tailed noise the larger error rate, and the power with each."""
    lines = [
        "| claim | 1 seed | 2 seeds | 3 seeds | 5 seeds | power, 3 seeds (before) | 5 seeds (before) |",
        "|---|---|---|---|---|---|---|",
    ]
    for claim, cells in output["claims"].items():

        def share(verdict: str, scenario: str, noise: str, seeds: int, cells: dict[str, Any] = cells) -> float:
            cell = cells[f"{scenario}, {noise}, {seeds} seeds"]
            return 100 * float(cell[verdict]) / float(cell["repetitions"])

        columns = []
        for seeds in BOUNDARY_SEEDS:
            verdicts = ("supported", "contradicted")
            worst = [max(share(verdict, "boundary", noise, seeds) for noise in ("normal", "t3")) for verdict in verdicts]
            columns.append(" / ".join(f"{each:.1f}" for each in worst))
        for place, seeds in enumerate(POWER_SEEDS):
            earlier = f" ({100 * BEFORE[claim][place]:.0f})" if claim in BEFORE else ""
            found = [f"{share('supported', 'true', noise, seeds):.0f}" for noise in ("normal", "t3")]
            columns.append(f"{' / '.join(found)}{earlier}")
        lines.append(f"| {claim} | {' | '.join(columns)} |")
    return lines


if __name__ == "__main__":
    main()
