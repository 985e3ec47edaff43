"""What a running study shows on stderr: a display in a terminal, one line per finished step in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from theodolite.core.numbers import duration_text

if TYPE_CHECKING:
    from theodolite.studies.steps import Step


class StepLines(AbstractContextManager["StepLines"]):
    """One line for every finished or failed step.

    Parameters
    ----------
    total, done
        Number of steps, and how many of them are there already.
    """

    def __init__(self, total: int, done: int) -> None:
        self.total, self.done = total, done

    def __enter__(self) -> StepLines:
        if self.done:
            self._print(f"{self.done} of {self.total} steps are there already")
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def begins(self, step: Step, remaining: int, /) -> Callable[[int, int], None] | None:  # noqa: ARG002
        return None

    def ends(self, step: Step, remaining: int, seconds: float, /) -> None:
        self._print(f"[{self.total - remaining}/{self.total}] {step.title}: {duration_text(seconds)}")

    def fails(self, step: Step, remaining: int, error: Exception, /) -> None:
        self._print(f"[{self.total - remaining}/{self.total}] {step.title}: FAILED: {error}")

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201  # the log of a long run


class StepDisplay(AbstractContextManager["StepDisplay"]):
    """One display: all steps, the running one, and what remains.

    Parameters
    ----------
    total, done
        Number of steps, and how many of them are there already.
    """

    def __init__(self, total: int, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.total = total
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._display = Progress(*columns, console=Console(file=sys.stderr), transient=True)
        self._all = self._display.add_task("steps", total=total, completed=done)
        self._step = self._display.add_task("", total=None, visible=False)

    def __enter__(self) -> StepDisplay:
        self._display.__enter__()
        return self

    def __exit__(self, *exit: Any) -> None:
        self._display.__exit__(*exit)

    def begins(self, step: Step, remaining: int, /) -> Callable[[int, int], None]:
        self._update(remaining)
        self._display.reset(self._step, description=step.title, total=None, visible=True)
        return lambda done, total: self._display.update(self._step, completed=done, total=total)

    def ends(self, step: Step, remaining: int, seconds: float, /) -> None:
        self._update(remaining)
        self._display.update(self._step, visible=False)
        self._print(f"{step.title}: {duration_text(seconds)}", "dim")

    def fails(self, step: Step, remaining: int, error: Exception, /) -> None:
        self._update(remaining)
        self._print(f"{step.title}: FAILED: {error}", "red")

    def _update(self, remaining: int) -> None:
        self._display.update(self._all, completed=self.total - remaining, description=f"{remaining} steps remain")

    def _print(self, line: str, style: str) -> None:
        self._display.console.print(line, style=style, markup=False, highlight=False)


def step_progress(total: int, done: int) -> StepLines | StepDisplay:
    """The display for a terminal, lines for anything else."""
    return (StepDisplay if sys.stderr.isatty() else StepLines)(total, done)
