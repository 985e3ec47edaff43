"""Does what is missing of a plan: needs first, in parallel where asked, and what fails stops only what depends on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from theodolite.studies.step import Step, Tick, in_order
from theodolite.studies.store import Store


class Watcher(Protocol):
    """Who is told how a run goes on. `left` is how many steps are still to do."""

    def begins(self, step: Step, left: int) -> Tick | None:
        """A step begins; what is returned is called with (done, total) inside it."""

    def ends(self, step: Step, left: int, seconds: float) -> None:
        """A step is done."""

    def fails(self, step: Step, left: int, error: Exception) -> None:
        """A step has failed."""


class Unseen:
    """Tells nobody."""

    def begins(self, step: Step, left: int) -> Tick | None:  # noqa: ARG002
        return None

    def ends(self, step: Step, left: int, seconds: float) -> None:
        pass

    def fails(self, step: Step, left: int, error: Exception) -> None:
        pass


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run did: the steps done now, those that were there, those that failed and why, those that wait for a failed one."""

    done: list[Step] = field(default_factory=list)
    known: list[Step] = field(default_factory=list)
    failed: dict[Step, Exception] = field(default_factory=dict)
    blocked: list[Step] = field(default_factory=list)


def run_plan(
    plan: Sequence[Step],
    store: Store,
    *,
    models: Mapping[str, str],
    data: str | None = None,
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Outcome:
    """Do every step of a plan that the store lacks. With `jobs` > 1, steps that wait for nothing run in as many processes.

    A step that fails is named in the outcome, and all that do not need it go on.
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs} must be at least 1")
    seen: Watcher = watcher or Unseen()
    steps = in_order(plan)
    outcome = Outcome(known=[step for step in steps if store.has(step)])
    missing = [step for step in steps if not store.has(step)]
    lost: set[str] = set()
    while missing:
        for step in [step for step in missing if any(need.key in lost for need in step.needs.values())]:
            lost.add(step.key)
            outcome.blocked.append(step)
            missing.remove(step)
        waiting = {step.key for step in missing}
        ready = [step for step in missing if not any(need.key in waiting for need in step.needs.values())]
        if not ready:
            continue  # only blocked ones were left
        if jobs == 1:
            ready = ready[:1]
            _one(ready[0], store, models, data, seen, len(missing), outcome)
        else:
            _several(ready, store, models, data, jobs, seen, len(missing), outcome)
        lost |= {step.key for step in outcome.failed}
        missing = [step for step in missing if step not in ready]
    return outcome


def _one(
    step: Step, store: Store, models: Mapping[str, str], data: str | None, seen: Watcher, left: int, outcome: Outcome
) -> None:
    tick = seen.begins(step, left)
    try:
        store.do(step, models=models, data=data, tick=tick)
    except Exception as error:  # one cell of a study is not worth the others
        outcome.failed[step] = error
        seen.fails(step, left - 1, error)
    else:
        outcome.done.append(step)
        seen.ends(step, left - 1, store.seconds(step))


def _several(
    ready: Sequence[Step],
    store: Store,
    models: Mapping[str, str],
    data: str | None,
    jobs: int,
    seen: Watcher,
    left: int,
    outcome: Outcome,
) -> None:
    from joblib import Parallel, delayed

    work = (delayed(_apart)(number, step, store, models, data, jobs) for number, step in enumerate(ready))
    for number, error in Parallel(n_jobs=jobs, return_as="generator_unordered")(work):
        step, left = ready[number], left - 1
        if error is not None:
            outcome.failed[step] = error
            seen.fails(step, left, error)
        else:
            outcome.done.append(step)
            seen.ends(step, left, store.seconds(step))


def _apart(
    number: int, step: Step, store: Store, models: Mapping[str, str], data: str | None, jobs: int
) -> tuple[int, Exception | None]:
    """In a process of its own, with its share of the cores."""
    from threadpoolctl import threadpool_limits

    from theodolite.core.blocks import available_cores
    from theodolite.models.extra import limit_threads

    share = max(1, available_cores() // jobs)
    limit_threads(share)
    try:
        with threadpool_limits(share):
            store.do(step, models=models, data=data)
    except Exception as error:
        return number, _plain(error)
    return number, None


def _plain(error: Exception) -> Exception:
    """The error as one that every process can unpickle."""
    return RuntimeError(f"{type(error).__name__}: {error}")
