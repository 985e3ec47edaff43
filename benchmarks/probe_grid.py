"""The classifier probe against scikit-learn's grid search: 128 cells, five folds, five initialisations, on the same cores.

Scikit-learn's search takes hours, so its time is estimated: the seconds it needs for one epoch of each architecture, measured
here, times the epochs that our networks took. They are its own epochs, since both train alike from one seed; a few cells are
fitted by scikit-learn to the end to show it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from scale import Scale
from table import Result
from theodolite.probes.classifiers.estimators import ClassifierProbe
from theodolite.probes.classifiers.grid_search import Cell, grid, stratified_folds
from theodolite.probes.classifiers.networks import Job, train_one_by_one
from theodolite.probes.labels import Labelled, labelled
from timing import best_in_turns, seconds, shown

LABELS = 17
TEST_ROWS = 4000
EPOCHS = 4  # of scikit-learn's that are timed


def measure(scale: Scale, folder: Path) -> Iterator[Result]:  # noqa: ARG001  # the vectors are made here
    full = scale.d >= 768
    n = 2_000 if full else 300
    settings: dict[str, Any] = {} if full else {"hidden": ((32, 32), (64, 32)), "alphas": (1e-7, 1e-3, 1e-1), "max_iter": 50}
    yield from compared(n, scale.d, settings)


def compared(n: int, d: int, settings: dict[str, Any]) -> Iterator[Result]:
    """Time of the raced probe against scikit-learn's search, and what the race's choice costs in accuracy."""
    case = f"MLP probe, {n:,} × {d}, {LABELS} labels"
    if find_spec("torch") is None:
        yield Result(table="probe", case=case, value=float("nan"), sense="at least", goal=10, note="torch is not installed")
        return
    import_module("torch")  # before the clock starts
    X, y = labelled_cloud(n + TEST_ROWS, d)
    raced = ClassifierProbe(**settings)
    mine = seconds(lambda: raced.fit(X[:n], y[:n]))
    whole = ClassifierProbe(**settings, race=False)
    grid_seconds = seconds(lambda: whole.fit(X[:n], y[:n]))
    data = labelled(X[:n], y[:n])
    plain, split = scikit_learn_seconds(data, whole)
    agreement = same_epochs(data, whole)
    cells = f"{len(whole.search_.cells)} cells, {whole.folds} folds, {whole.initialisations} initialisations"
    for name, theirs, goal in (
        ("one job, its fastest number of threads", plain, 10.0),
        ("one job a core, at best", split, float("nan")),
    ):
        yield Result(
            table="probe",
            case=f"{case}, {cells}",
            value=float(theirs / mine),
            sense="at least",
            goal=goal,
            ours=shown(mine),
            theirs=f"GridSearchCV of MLPClassifier, {name}, estimated {shown(theirs)}",
            note=f"race; our full grid {shown(grid_seconds)}; {agreement}",
        )
    scores = [100 * probe.evaluate(X[n:], y[n:]).mean for probe in (raced, whole)]
    yield Result(
        table="probe",
        case=f"{case}: accuracy of the race's choice against the full grid's",
        value=abs(scores[0] - scores[1]),
        sense="at most",
        goal=0.5,
        unit="points",
        ours=f"{scores[0]:.2f} with {raced.hidden_}, {raced.alpha_:g}",
        theirs=f"{scores[1]:.2f} with {whole.hidden_}, {whole.alpha_:g}",
    )


def labelled_cloud(n: int, d: int, *, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Unequal classes whose means overlap: a probe gets most of them right, not all, as with parts of speech."""
    random = np.random.default_rng(seed)
    deviations = np.arange(1, d + 1, dtype=np.float32) ** np.float32(-0.5)
    rotation = np.linalg.qr(random.standard_normal((d, d)))[0].astype(np.float32)
    y = random.choice(LABELS, n, p=random.dirichlet(np.full(LABELS, 3.0)))
    means = 0.2 * random.standard_normal((LABELS, d), dtype=np.float32)
    return 4 * (means[y] + random.standard_normal((n, d), dtype=np.float32)) * deviations @ rotation, y


def scikit_learn_seconds(data: Labelled, whole: ClassifierProbe) -> tuple[float, float]:
    """Estimated time of its search and initialisations: in one job, and with a job on every core that costs nothing to run."""
    train = stratified_folds(data, whole.folds).parts[0][0]
    plain = split = 0.0
    for hidden in dict.fromkeys(cell.hidden for cell in whole.search_.cells):
        members = [i for i, cell in enumerate(whole.search_.cells) if cell.hidden == hidden]
        epochs = whole.search_.epochs[members].sum()
        if hidden == whole.hidden_:
            # The initialisations see all rows.
            epochs += sum(network.epochs for network in whole.networks_) * len(data.X) / len(train)
        alone, threaded = epoch_seconds(data.X[train], data.codes[train], hidden)
        plain += min(alone, threaded) * epochs
        split += alone / cores() * epochs
    return plain, split


def epoch_seconds(X: NDArray[Any], y: NDArray[np.intp], hidden: Sequence[int]) -> tuple[float, float]:
    """Seconds that scikit-learn needs for an epoch on one thread and on all of them, without its start."""

    def fit(epochs: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            MLPClassifier(hidden, max_iter=epochs, random_state=0).fit(X, y)

    def epoch() -> float:
        short, long = best_in_turns(lambda: fit(1), lambda: fit(1 + EPOCHS), repeats=3)
        return (long - short) / EPOCHS

    with threadpool_limits(1, "blas"):
        alone = epoch()
    return alone, epoch()


def same_epochs(data: Labelled, whole: ClassifierProbe) -> str:
    """How many epochs scikit-learn needs for the first and the chosen cell, told beside ours."""
    cells: tuple[Cell, ...] = grid(whole.hidden, whole.alphas)
    chosen = (0, whole.search_.best)
    rows = stratified_folds(data, whole.folds).parts[0][0]
    jobs = [Job(cells[i].hidden, cells[i].alpha, 0, rows) for i in chosen]
    theirs = train_one_by_one(data, jobs, max_iter=whole.max_iter)
    told = [f"{network.epochs} (ours {whole.search_.epochs[i, 0]:.0f})" for i, network in zip(chosen, theirs, strict=True)]
    return f"its epochs for two cells: {', '.join(told)}"


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
