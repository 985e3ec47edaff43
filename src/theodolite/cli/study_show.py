"""Studies on the terminal: what there is, how a run goes on, and what it found."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.cli.numbers import interval, number
from theodolite.cli.tables import plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from theodolite.core.result import Verdict
    from theodolite.studies.check import Checked
    from theodolite.studies.runner import Outcome
    from theodolite.studies.spec import Study
    from theodolite.studies.step import Step, Tick
    from theodolite.studies.store import Store

SIGNS = {"holds": "✓", "does not hold": "✗", "not decidable here": "?"}


class Lines:
    """A line on stderr for every step, where nobody watches."""

    def __init__(self, store: Store, plan: Sequence[Step]) -> None:
        self.total, self.known = _counted(store, plan)

    def __enter__(self) -> Lines:
        if self.known:
            print(f"{self.known} of {self.total} steps are done already", file=sys.stderr, flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begins(self, step: Step, left: int) -> Tick | None:  # noqa: ARG002
        return None

    def ends(self, step: Step, left: int, seconds: float) -> None:
        print(f"[{self.total - left}/{self.total}] {step.title}: {_duration(seconds)}", file=sys.stderr, flush=True)

    def fails(self, step: Step, left: int, error: Exception) -> None:
        print(f"[{self.total - left}/{self.total}] {step.title}: FAILED: {error}", file=sys.stderr, flush=True)


class Shown:
    """One display: all steps, the one at work, and what is left."""

    def __init__(self, store: Store, plan: Sequence[Step]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.total, self.known = _counted(store, plan)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=Console(file=sys.stderr), transient=True)
        self._all = self._bars.add_task("steps", total=self.total, completed=self.known)
        self._one = self._bars.add_task("", total=None, visible=False)
        self._began = time.monotonic()

    def __enter__(self) -> Shown:
        self._bars.__enter__()
        return self

    def __exit__(self, *exit: Any) -> None:
        self._bars.__exit__(*exit)

    def begins(self, step: Step, left: int) -> Tick | None:
        self._bars.update(self._all, completed=self.total - left, description=f"{left} steps left")
        self._bars.reset(self._one, description=step.title, total=None, visible=True)
        return lambda done, total: self._bars.update(self._one, completed=done, total=total)

    def ends(self, step: Step, left: int, seconds: float) -> None:
        self._bars.update(self._all, completed=self.total - left, description=f"{left} steps left")
        self._bars.update(self._one, visible=False)
        self._bars.console.print(f"{step.title}: {_duration(seconds)}", style="dim", markup=False, highlight=False)

    def fails(self, step: Step, left: int, error: Exception) -> None:
        self._bars.update(self._all, completed=self.total - left, description=f"{left} steps left")
        self._bars.console.print(f"{step.title}: FAILED: {error}", style="red", markup=False, highlight=False)


def show_studies(console: Console, studies: Sequence[Study]) -> None:
    """A line for each."""
    for one in studies:
        counts = f"{len(one.claims)} claims, {len(one.printed)} printed numbers"
        console.print(f"{one.name}  {one.title} ({counts})", markup=False)
        console.print(f"      {one.citation}", style="dim", markup=False)
    console.print("run one with: theodolite study run NAME --model MODEL --data FOLDER", style="dim", markup=False)


def show_plan(console: Console, plan: Sequence[Step], store: Store) -> None:
    """Every step, and whether it is done."""
    from theodolite.studies.step import in_order

    steps = in_order(plan)
    for step in steps:
        console.print(f"{'done   ' if store.has(step) else 'missing'}  {step.title}", markup=False, soft_wrap=True)
    missing = sum(not store.has(step) for step in steps)
    console.print(f"{len(steps)} steps, {missing} missing", markup=False)


def show_result(console: Console, study: Study, verdicts: Sequence[Verdict], folder: Path, outcome: Outcome) -> None:
    """What was done, the verdicts, and where everything is."""
    console.print(f"{study.title}\n{len(outcome.done)} steps done, {len(outcome.known)} known", markup=False)
    show_verdicts(console, verdicts)
    for step, error in outcome.failed.items():
        console.print(f"failed: {step.title}: {error}", style="red", markup=False, soft_wrap=True)
    if outcome.blocked:
        console.print(f"{len(outcome.blocked)} steps wait for a failed one; the same command tries again", markup=False)
    console.print(f"report: {folder}/report.html; rows: {folder}/rows.parquet", markup=False, soft_wrap=True)


def show_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Each claim with its verdict and why, and what the printed rows say."""
    several = len({one.model for one in verdicts}) > 1
    for one in verdicts:
        whose = f" [{one.model}]" if several and one.model else ""
        console.print(f"{SIGNS[one.measured.outcome]} {one.claim}{whose} {one.title}: {one.measured.outcome}", markup=False)
        console.print(f"    {one.measured.why}", markup=False)
        for effect in one.measured.effects[:3]:
            console.print(f"    {effect.name}: {number(effect.value)} {interval(effect.low, effect.high)}".rstrip(), style="dim")
        for printed in one.printed:
            console.print(f"    on {printed.source}: {printed.outcome}", style="dim", markup=False)


def show_checked(console: Console, found: Sequence[Checked]) -> None:
    """Printed and measured, side by side: a table for each source and pair of models."""
    groups: dict[tuple[str, str, str], list[Checked]] = {}
    for one in found:
        if one.measured is not None:
            groups.setdefault((one.source, one.printed_model, one.measured_model), []).append(one)
    for (source, printed, measured), cells in groups.items():
        console.print(f"{source}: {printed} as printed, {measured} as measured here", markup=False, style="bold")
        table = plain_table(["cell", "printed", "measured"], right={"printed", "measured"})
        for one in cells:
            task = one.task if len({each.task for each in cells}) > 1 else ""
            cell = ", ".join(filter(None, [task, one.state, one.setting, one.metric]))
            table.add_row(cell, number(one.printed), number(one.measured))
        console.print(table)
    missing = sum(one.measured is None for one in found)
    if missing:
        console.print(f"{missing} printed numbers have nothing measured beside them", style="dim", markup=False)
    same = [one for one in found if one.comparable]
    for one in same:
        console.print(f"{one.source}, {one.state} {one.setting} {one.metric}: {one.words}", markup=False, soft_wrap=True)
    if len(same) < len(found):
        console.print("a number of another model stands beside the printed one: it is no reproduction of it", style="dim")


def _counted(store: Store, plan: Sequence[Step]) -> tuple[int, int]:
    from theodolite.studies.step import in_order

    steps = in_order(plan)
    return len(steps), sum(map(store.has, steps))


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
