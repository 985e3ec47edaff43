"""Do what is missing of a plan: needs first, in parallel if asked, and a step that fails stops only what depends on it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from theodolite.studies.steps import Progress, Sources, Step, in_order
from theodolite.studies.store import Store


class Watcher(Protocol):
    """Is called as a run proceeds. `remaining` is the number of steps still to do."""

    def begins(self, step: Step, remaining: int, /) -> Progress | None:
        """A step begins; what is returned is called inside it with (done, total). Not called if steps run in parallel."""

    def ends(self, step: Step, remaining: int, seconds: float, /) -> None:
        """A step is done."""

    def fails(self, step: Step, remaining: int, error: Exception, /) -> None:
        """A step has failed."""


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


def run_steps(steps: Sequence[Step], store: Store, sources: Sources, *, jobs: int = 1, watcher: Watcher | None = None) -> Outcome:
    """Do every step of a plan that the store lacks.

    Parameters
    ----------
    steps
        The plan; the steps that these need are done too.
    store
        Where finished steps are kept.
    sources
        Where models and data are.
    jobs
        How many steps run at the same time, each in a process of its own.
    watcher
        Called when steps begin, end and fail.
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs} must be at least 1")
    ordered = in_order(steps)
    outcome = Outcome(reused=[step for step in ordered if store.has(step)])
    missing = [step for step in ordered if not store.has(step)]
    run = _Run(store, sources, watcher, outcome, len(missing))
    lost: set[str] = set()
    while missing:
        # Needs come before what needs them, so that one pass finds also what depends on a failed step through others.
        for step in list(missing):
            if any(need.key in lost for need in step.needs.values()):
                lost.add(step.key)
                outcome.blocked.append(step)
                missing.remove(step)
        run.remaining = len(missing)
        waiting = {step.key for step in missing}
        ready = [step for step in missing if not any(need.key in waiting for need in step.needs.values())]
        if jobs == 1:
            ready = ready[:1]
            for step in ready:
                run.here(step)
        elif ready:
            run.in_processes(ready, jobs)
        lost |= {step.key for step in outcome.failed}
        missing = [step for step in missing if step not in ready]
    return outcome


@dataclass
class _Run:
    """The state of a run."""

    store: Store
    sources: Sources
    watcher: Watcher | None
    outcome: Outcome
    remaining: int

    def here(self, step: Step) -> None:
        """Do a step in this process."""
        progress = None if self.watcher is None else self.watcher.begins(step, self.remaining)
        try:
            self.store.do(step, self.sources, progress)
        except Exception as error:  # one cell of a study is not worth the others
            self._finish(step, error)
        else:
            self._finish(step)

    def in_processes(self, steps: Sequence[Step], jobs: int) -> None:
        """Do steps that do not need each other, several at a time."""
        from joblib import Parallel, delayed

        work = (delayed(_do_apart)(number, step, self.store, self.sources, jobs) for number, step in enumerate(steps))
        with warnings.catch_warnings():
            # joblib takes a process that has loaded a model for one that leaks memory, replaces it and warns; nothing is lost.
            # If warnings are errors, the warning would end the thread that hands out the work, and this loop would never end.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
            for number, message in Parallel(n_jobs=jobs, return_as="generator_unordered")(work):
                self._finish(steps[number], RuntimeError(message) if message else None)

    def _finish(self, step: Step, error: Exception | None = None) -> None:
        self.remaining -= 1
        if error is not None:
            self.outcome.failed[step] = error
        else:
            self.outcome.done.append(step)
        if self.watcher is not None and error is not None:
            self.watcher.fails(step, self.remaining, error)
        elif self.watcher is not None:
            self.watcher.ends(step, self.remaining, self.store.seconds(step))


def _do_apart(number: int, step: Step, store: Store, sources: Sources, jobs: int) -> tuple[int, str]:
    """In a process of its own, with its share of the cores; what failed as text, because not every error can be pickled."""
    from threadpoolctl import threadpool_limits

    from theodolite.core.parallel import available_cores
    from theodolite.models.encoder import limit_threads

    threads = max(1, available_cores() // jobs)
    limit_threads(threads)
    try:
        with threadpool_limits(threads):
            store.do(step, sources)
    except Exception as error:
        return number, f"{type(error).__name__}: {error}"
    return number, ""
