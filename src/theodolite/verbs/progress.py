"""Progress on stderr while something long runs: bars for who watches, a line every half minute in a log."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from theodolite.core.numbers import duration_text
from theodolite.core.parallel import Progress as Steps
from theodolite.core.spelling import ON_COMMAND_LINE, visible

# Seconds between two lines of a log.
LOG_EVERY = 30.0


class Progress:
    """Bars for the parts of one piece of work; does nothing without a display.

    Parameters
    ----------
    display
        A `rich.progress.Progress`, or None.
    """

    def __init__(self, display: Any = None) -> None:
        self._display = display

    def announce(self, text: str) -> None:
        """Print a line that stays, if there is a display.

        Parameters
        ----------
        text
            What is about to be done.
        """
        if self._display is not None:
            sys.stderr.write(f"{visible(text)}\n")

    def rows(self, label: str, total: int | None) -> Callable[[int], None]:
        """A function that takes the number of rows just read; the bar starts over when a further pass begins.

        Parameters
        ----------
        label, total
            What the bar says, and the number of rows of a pass if it is known.
        """
        if self._display is None:
            return lambda _: None
        task = self._display.add_task(visible(label), total=total)
        count = 0

        def advance(rows: int) -> None:
            nonlocal count
            count = rows if total is not None and count >= total else count + rows
            self._display.update(task, completed=count)

        return advance

    def steps(self, label: str) -> Steps:
        """A function that takes (done, total).

        Parameters
        ----------
        label
            What the bar says.
        """
        if self._display is None:
            return lambda _, __: None
        task = self._display.add_task(visible(label), total=None, visible=False)
        return lambda done, total: self._display.update(task, completed=done, total=total, visible=True)

    def stages(self, suffix: str = "") -> Callable[[str, int, int], None]:
        """A function that takes (stage, done, total), with one bar per stage.

        Parameters
        ----------
        suffix
            What every bar's label ends with.
        """
        bar = functools.cache(lambda stage: self.steps(f"{stage}{suffix}"))
        return lambda stage, done, total: bar(stage)(done, total)


@contextmanager
def progress_bars(progress: bool | Progress | None = None) -> Iterator[Progress]:
    """Progress bars that vanish when the work is done."""
    if isinstance(progress, Progress):
        yield progress
        return
    if progress is None:
        progress = sys.stderr.isatty() or _in_notebook() or ON_COMMAND_LINE.get()
    if not progress:
        yield Progress()
        return
    if not (sys.stderr.isatty() or _in_notebook()):
        yield Progress(LogDisplay())
        return
    with _notebook_display() if _in_notebook() else _terminal_display() as display:
        yield Progress(display)


class LogDisplay:
    """Reports progress as lines on stderr, every half minute at most; work that takes less than that reports nothing."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._tasks: list[tuple[str, int | None, float]] = []
        self._rounds: dict[int, tuple[int, float, float]] = {}

    def add_task(self, label: str, *, total: int | None, **_: Any) -> int:
        """A number for a further piece of work."""
        self._tasks.append((label, total, time.monotonic()))
        return len(self._tasks) - 1

    def update(self, task: int, *, completed: int, total: int | None = None, **_: Any) -> None:
        """Print how far the work is, unless a line was printed a moment ago."""
        now, (label, first_total, start) = time.monotonic(), self._tasks[task]
        # Work in several rounds counts from the beginning in each, which alone says how fast this one is.
        before, at, round_start = self._rounds.get(task, (0, start, start))
        round_start = at if completed < before else round_start
        self._rounds[task] = completed, now, round_start
        if now - self._last < LOG_EVERY:
            return
        self._last, total = now, total if total is not None else first_total
        line = f"{label}: {completed:,}" + (f" of {total:,} ({completed / total:.0%})" if total else "")
        line += f", {duration_text(now - start)} so far"
        if total and 0 < completed < total:
            line += f", about {duration_text((now - round_start) * (total - completed) / completed)} to go"
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _terminal_display() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as ProgressDisplay

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return ProgressDisplay(*columns, console=Console(file=sys.stderr), transient=True)


@contextmanager
def _notebook_display() -> Iterator[Any]:
    """Text bars of tqdm, which a notebook shows without widgets; nothing if tqdm is not installed."""
    try:
        from tqdm.std import tqdm
    except ImportError:
        yield None
        return
    bars: list[Any] = []

    class ProgressDisplay:
        def add_task(self, label: str, *, total: int | None, **_: Any) -> int:
            bars.append(tqdm(desc=label, total=total, leave=False, delay=0.5))
            return len(bars) - 1

        def update(self, task: int, *, completed: int, total: int | None = None, **_: Any) -> None:
            bar = bars[task]
            bar.total = total if total is not None else bar.total
            bar.update(completed - bar.n)

    try:
        yield ProgressDisplay()
    finally:
        for bar in bars:
            bar.close()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
