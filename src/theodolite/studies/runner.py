"""Do what is missing of a plan, needs first, in parallel if asked; a step that fails stops only what depends on it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from theodolite.core.engines import configured_workers, in_parallel
from theodolite.core.numbers import duration_text
from theodolite.core.parallel import Progress
from theodolite.core.spelling import visible
from theodolite.studies.steps import Sources, Step, Store, in_order
from theodolite.verbs.progress import LogDisplay

# Finished steps, each with the seconds it took, or with what went wrong.
Results: TypeAlias = Iterator[tuple[Step, float | Exception]]


class Watcher(Protocol):
    """Is called as a run proceeds. `remaining` is the number of steps still to do."""

    def begins(self, step: Step, remaining: int, /) -> Progress | None:
        """A step begins; what is returned is called inside it with (done, total). Not called if steps run in parallel."""

    def ends(self, step: Step, remaining: int, seconds: float, /) -> None:
        """A step is done."""

    def fails(self, step: Step, remaining: int, error: Exception, /) -> None:
        """A step has failed."""


class StepReport(AbstractContextManager["StepReport"]):
    """Reports on stderr: a line per finished or failed step and, in a terminal, bars for all steps and for the running one."""

    def __init__(self, total: int, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._total, console, terminal = total, Console(file=sys.stderr), sys.stderr.isatty()
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Bars(*columns, console=console, transient=True, disable=not terminal)
        self._all = self._bars.add_task("steps", total=total, completed=done)
        self._step = self._bars.add_task("", total=None, visible=False)
        self._log = None if terminal else LogDisplay()
        if done:
            self._print(f"{done} of {total} steps are there already")

    def __enter__(self) -> StepReport:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begins(self, step: Step, remaining: int, /) -> Progress:  # noqa: ARG002
        if self._log is not None:
            log, task = self._log, self._log.add_task(step.title, total=None)
            return lambda done, total: log.update(task, completed=done, total=total)
        self._bars.reset(self._step, description=visible(step.title), total=None, visible=True)
        return lambda done, total: self._bars.update(self._step, completed=done, total=total)

    def ends(self, step: Step, remaining: int, seconds: float, /) -> None:
        self._finish(step, remaining, duration_text(seconds), "dim")

    def fails(self, step: Step, remaining: int, error: Exception, /) -> None:
        self._finish(step, remaining, f"FAILED: {error}", "red")

    def _finish(self, step: Step, remaining: int, outcome: str, style: str) -> None:
        number = self._total - remaining
        self._bars.update(self._all, completed=number, description=f"{remaining} steps remain")
        self._bars.update(self._step, visible=False)  # until the next step begins, or all the time if steps run in parallel
        self._print(f"[{number}/{self._total}] {step.title}: {outcome}", style)

    def _print(self, line: str, style: str = "") -> None:
        # Without soft_wrap, lines of a log would be broken at 80 characters.
        self._bars.console.print(visible(line), style=style, markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run did with each step.

    Parameters
    ----------
    done
        Steps done in this run.
    reused
        Steps that were done already.
    failed
        Steps that failed, with the error.
    blocked
        Steps that were not begun because a step they need, directly or not, has failed.
    """

    done: list[Step] = field(default_factory=list)
    reused: list[Step] = field(default_factory=list)
    failed: dict[Step, Exception] = field(default_factory=dict)
    blocked: list[Step] = field(default_factory=list)


def run_steps(steps: Sequence[Step], store: Store, sources: Sources, *, watcher: Watcher | None = None) -> Outcome:
    """Do every step of a plan that the store lacks, one after the other, or on the workers that joblib is configured for."""
    outcome = Outcome()
    missing: list[Step] = []
    needed: set[str] = set()
    # From the last step to the first: what a missing step reads must be sound, or it is missing too.
    for step in reversed(in_order(steps)):
        is_done = store.has(step)
        damaged = store.damaged(step, measured=step.key not in needed) if is_done else None
        if damaged is not None:
            warnings.warn(f"{damaged} was changed after it was written; the step will be run again", UserWarning, stacklevel=2)
            store.discard(step)
        if is_done and damaged is None:
            outcome.reused.insert(0, step)
        else:
            missing.insert(0, step)
            needed |= {need.key for need in step.needs.values()}
    lost: set[str] = set()
    workers = configured_workers("processes")
    while missing:
        # Needs come before what needs them, so that one pass finds also what depends on a failed step through others.
        for step in list(missing):
            if any(need.key in lost for need in step.needs.values()):
                lost.add(step.key)
                outcome.blocked.append(step)
                missing.remove(step)
        waiting = {step.key for step in missing}
        ready = [step for step in missing if not any(need.key in waiting for need in step.needs.values())]
        if workers == 1:
            # None is ready if all that was missing needs a step that failed.
            results: Results = iter([(step, _do_here(step, store, sources, watcher, len(missing))) for step in ready[:1]])
        else:  # all steps that are ready are done before the next ones are chosen
            results = _do_on_workers(ready, store, sources)
        for step, result in results:
            missing.remove(step)
            if isinstance(result, Exception):
                lost.add(step.key)
                outcome.failed[step] = result
                if watcher is not None:
                    watcher.fails(step, len(missing), result)
            else:
                outcome.done.append(step)
                if watcher is not None:
                    watcher.ends(step, len(missing), result)
    return outcome


def _do_here(step: Step, store: Store, sources: Sources, watcher: Watcher | None, remaining: int) -> float | Exception:
    """Do a step in this process."""
    progress = None if watcher is None else watcher.begins(step, remaining)
    try:
        return store.do(step, sources, progress)
    except Exception as error:  # one cell of a study is not worth the others
        return error


def _do_on_workers(steps: Sequence[Step], store: Store, sources: Sources) -> Results:
    """Do steps that do not need each other, several at a time."""
    # A worker has a working directory of its own.
    elsewhere, found = Store(store.folder.absolute()), sources.from_anywhere()

    def do(number: int) -> tuple[int, float | str]:
        return _do_apart(number, steps[number], elsewhere, found)

    for number, result in in_parallel(do, range(len(steps)), prefer="processes", ordered=False):
        yield steps[number], RuntimeError(result) if isinstance(result, str) else result


def _do_apart(number: int, step: Step, store: Store, sources: Sources) -> tuple[int, float | str]:
    """On a worker, with its share of the cores; what failed as text, because not every error can be pickled."""
    from threadpoolctl import threadpool_limits

    from theodolite.core.parallel import available_cores
    from theodolite.models.encoder import limit_threads

    limit_threads(available_cores())
    try:
        with threadpool_limits(available_cores()):
            return number, store.do(step, sources)
    except Exception as error:
        return number, f"{type(error).__name__}: {error}"
