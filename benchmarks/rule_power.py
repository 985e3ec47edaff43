"""Write the table of error rates and power of every claim's rules into docs/studies.md, from simulated records.

Run from the repository's folder: `python benchmarks/rule_power.py [repetitions]`.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path[:0] = ["tests", "tests/contract"]

from rule_simulation import simulate  # type: ignore[import-not-found]  # in the tests folder  # noqa: E402
from test_rules_contract import SPECS, small  # type: ignore[import-not-found]  # noqa: E402

from theodolite.studies.claims.rules import judge  # noqa: E402

PAGE = Path("docs/studies.md")
BEGIN, END = "<!-- rule power: begin -->", "<!-- rule power: end -->"
# Seeds of the one paper that says how many it had (IL23), and the fewest that give an interval worth having.
SEEDS = (5, 3)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    lines = [
        "| claim | at the boundary: supported | contradicted | true effect, 5 seeds: supported | 3 seeds | contradicted |",
        "|---|---|---|---|---|---|",
    ]
    for spec in SPECS:
        for claim in map(small, spec.claims):
            shares = {}
            for scenario, seeds in (("boundary", 5), ("true", 5), ("true", 3)):
                rng = np.random.default_rng(0)
                seen = Counter(
                    judge(simulate(spec, claim, scenario, rng, seeds=seeds), claim.primary).outcome for _ in range(count)
                )
                shares[scenario, seeds] = {name: seen[name] / count for name in ("supported", "contradicted")}
            cells = [
                shares["boundary", 5]["supported"], shares["boundary", 5]["contradicted"],
                shares["true", 5]["supported"], shares["true", 3]["supported"], shares["true", 5]["contradicted"],
            ]  # fmt: skip
            lines.append(f"| {claim.id} | {' | '.join(f'{100 * cell:.1f} %' for cell in cells)} |")
            print(lines[-1], flush=True)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    table = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
