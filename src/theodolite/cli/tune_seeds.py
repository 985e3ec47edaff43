"""Runs of `tune` with one seed or several, and the table of what they gave: score, IsoScore and explained variance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from theodolite.cli.frame import print_json, split, stdout
from theodolite.cli.numbers import number

if TYPE_CHECKING:
    from rich.console import Console

    from theodolite.core.rows import Row
    from theodolite.tuning.run import Tuned

SHAPE = {"iso_score": "IsoScore", "ev_1": "EV 1", "ev_2": "EV 2", "ev_3": "EV 3"}


def seeds_of(text: str) -> list[int]:
    """The seeds of the option, each once."""
    try:
        seeds = [int(part) for part in split(text) or []]
    except ValueError:
        raise ValueError(f"--seeds {text!r} must be whole numbers with commas, such as 0,1,2") from None
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"--seeds {text!r} must name at least one seed, and each once")
    return seeds


def source_of(pattern: str, seed: int, *, several: bool) -> str:
    """The plain run of a seed: {seed} in the name stands for it; without, FOLDER/seed-N where there are several."""
    if "{seed}" in pattern:
        return pattern.replace("{seed}", str(seed))
    return str(Path(pattern) / f"seed-{seed}") if several else pattern


def report_seeds(runs: Sequence[Tuned], to: str, *, as_json: bool) -> None:
    """The table over all seeds, or JSON; all rows, with median and standard deviation over seeds, go to the common folder."""
    from theodolite.core.rows import write_rows
    from theodolite.tuning.seeds import over_seeds

    every = [row for run in runs for row in run.rows]
    summary = over_seeds(every)
    write_rows([*summary, *every], Path(to) / "rows.parquet")
    if as_json:
        print_json({"folders": [str(run.folder) for run in runs], "rows": [row.to_dict() for row in (*summary, *every)]})
        return
    console = stdout()
    show_states(console, runs)
    console.print(f"the models: {to}/seed-*/model; all numbers: {to}/rows.parquet", markup=False, soft_wrap=True)


def show_states(console: Console, runs: Sequence[Tuned]) -> None:
    """The task's score, IsoScore and EV 1 to 3 on the scored split, one column a state: median ± standard deviation over seeds.

    EV is of the seed whose EV 1 is the median, as IL23's table 3 has it.
    """
    from theodolite.cli.tables import plain_table
    from theodolite.tuning.seeds import median_seed

    rows = [row for run in runs for row in run.rows if row.split not in ("train", "validation") and row.layer is None]
    states = list(dict.fromkeys((row.state, row.setting) for row in rows if row.metric in SHAPE))
    if not states:
        return
    score = next(row for row in rows if row.metric not in SHAPE)
    heads = [_head(*state) for state in states]
    table = plain_table([f"{score.task} {score.split}", *heads], right=set(heads))
    # Before training, the score has a note that the head knows nothing; the vectors do not care.
    of_state = [[row for row in rows if row.state == state] for state, _ in states]
    table.add_row(score.metric, *(_spread(part, score.metric) for part in of_state))
    table.add_row("IsoScore", *(_spread(part, "iso_score") for part in of_state))
    chosen = [median_seed(part, "ev_1") for part in of_state]
    for name in ("ev_1", "ev_2", "ev_3"):
        cells = [_one(part, name, seed) for part, seed in zip(of_state, chosen, strict=True)]
        table.add_row(SHAPE[name], *cells)
    if len(runs) > 1:
        table.add_row("EV of seed", *("–" if seed is None else str(seed) for seed in chosen))
    console.print(table)
    _show_seconds(console, runs)
    if len(runs) > 1:
        console.print(
            f"median ± standard deviation over {len(runs)} seeds; EV of the seed with the median EV 1", style="dim", markup=False
        )


def run_seeds(seeds: Sequence[int], run: Callable[[int], Tuned], *, quiet: bool) -> list[Tuned]:
    """One run after the other; what is finished already is only read."""
    found = []
    for seed in seeds:
        found.append(run(seed))
        if not quiet:
            print(f"seed {seed}: {number(found[-1].before)} → {number(found[-1].after)}", flush=True)
    return found


def _head(state: str, setting: str) -> str:
    return f"{state}, {setting}" if setting and state == "fine-tuned" else state


def _spread(rows: Sequence[Row], metric: str) -> str:
    values = [row.value for row in rows if row.metric == metric]
    if not values or any(math.isnan(value) for value in values):
        return "–"
    median = number(statistics.median(values))
    return median if len(values) == 1 else f"{median} ± {number(statistics.stdev(values))}"


def _one(rows: Sequence[Row], metric: str, seed: int | None) -> str:
    return number(next((row.value for row in rows if row.metric == metric and row.seed == seed), None))


def _show_seconds(console: Console, runs: Sequence[Tuned]) -> None:
    seconds = [row.value for run in runs for row in run.rows if row.metric == "train_seconds"]
    if seconds:
        console.print(f"the layer trained in {number(statistics.median(seconds))} s on vectors embedded once", markup=False)
