"""Simulate every claim's rules: error rates at the boundary and power with a true effect, by number of fine-tuning seeds.

Writes `rule_error_rates.json` next to this file, and the table in docs/studies.md from it.
Run from the repository's folder: `python benchmarks/rule_error_rates.py [repetitions]`; with 0, only the table is written again.
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
# Claims on the course of all layers take ten times as long as the others.
SLOW = {"ZS22-f": 3}
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
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 250
    if count:
        OUTPUT.write_text(json.dumps(simulated(count), indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    lines = "\n".join(table(json.loads(OUTPUT.read_text(encoding="utf-8"))))
    PAGE.write_text(f"{before}{BEGIN}\n{lines}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def simulated(count: int) -> dict[str, Any]:
    """The share of each verdict, by claim, scenario, noise and number of seeds."""
    claims: dict[str, Any] = {}
    for spec, claim in ((spec, small(claim)) for spec in SPECS for claim in spec.claims):
        shares: dict[str, Any] = {"repetitions": count // SLOW.get(claim.id, 1)}
        for scenario, seeds in [("boundary", n) for n in BOUNDARY_SEEDS] + [("true", n) for n in POWER_SEEDS]:
            repetitions = max(1, shares["repetitions"] // (10 if seeds == 1 else 1))
            for noise in ("normal", "t3"):
                seen = outcomes(spec, claim, scenario, repetitions, seeds=seeds, heavy=noise == "t3")
                found = {name: round(seen[name] / repetitions, 4) for name in ("supported", "contradicted")}
                shares.setdefault(scenario, {}).setdefault(noise, {})[str(seeds)] = found
        claims[claim.id] = shares
        print(claim.id, json.dumps(shares), flush=True)
    return {"repetitions": count, "claims": claims}


def table(output: dict[str, Any]) -> list[str]:
    """Lines of a Markdown table; of normal and heavy-tailed noise the larger error rate, and the power with normal noise."""
    lines = [
        "| claim | false verdicts, 1 seed | 2 seeds | 3 seeds | 5 seeds | power, 3 seeds (before) | 5 seeds (before) |",
        "|---|---|---|---|---|---|---|",
    ]
    for claim, shares in output["claims"].items():
        cells = []
        for seeds in map(str, BOUNDARY_SEEDS):
            worst = [max(by[seeds][verdict] for by in shares["boundary"].values()) for verdict in ("supported", "contradicted")]
            cells.append(" / ".join(f"{100 * share:.1f}" for share in worst))
        for place, seeds in enumerate(map(str, POWER_SEEDS)):
            earlier = f" ({100 * BEFORE[claim][place]:.0f})" if claim in BEFORE else ""
            cells.append(f"{100 * shares['true']['normal'][seeds]['supported']:.0f}{earlier}")
        lines.append(f"| {claim} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
