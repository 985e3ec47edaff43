"""The classifier probe against scikit-learn's grid search: 128 cells, five folds, five initialisations; and what a race costs.

Time is processor time on one thread for both sides. Scikit-learn's search takes long, so one of its five folds is run with every
second L2 weight, which counts ten times; the chosen cell's initialisations are run as they are. Both sides start from the same
seeds and folds, so that scores and accuracies can be compared one by one.

As a script, `probe_grid.py NAME --folder FOLDER` prints the results of the full grid on one data set, and with `--race` what a
race's choice costs in accuracy against our own search of the full grid, which is not part of `make bench`.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from scale import Scale
from table import Result
from theodolite.core.sampling import sample_by_label
from theodolite.probes.classifiers.estimators import ClassifierProbe
from theodolite.probes.classifiers.grid_search import stratified_folds
from theodolite.probes.label_codes import labelled
from timing import cpu_seconds, shown

LABELS = 17
TEST_ROWS = 4000
EVERY = 2
"""Of scikit-learn's search, one fold is run, with every second L2 weight."""
TRAINING_ROWS = 600
FULL_GRID_ROWS = 300
"""To train on if the full grid is compared with scikit-learn's, which takes longer."""
MOST_TEST_ROWS = 10_000
SETS = ("pos:tiny-mlm:2", "dep:tiny-mlm:2", "trec-50:tiny-mlm:2", "ps-role:tiny-mlm:2", "ps-fxn:tiny-mlm:2", "digits")
"""Data sets of the comparison with the full grid, which takes long: task, encoder and layer."""
NAMES = {"pos": "POS", "dep": "DEP", "trec-50": "TREC-50", "ps-role": "PS-role", "ps-fxn": "PS-fxn"}
SEEDS = (0,)
"""Draws of training rows, folds and initial weights."""
EPOCHS = 200
"""At most, in that comparison, for both searches."""
GOAL = 0.5
"""Points of accuracy that the race may lose."""


def in_words(name: str) -> str:
    """A data set as a reader calls it: the layer is always the last one."""
    task, _, encoder = name.partition(":")
    return f"{NAMES[task]} with {encoder.partition(':')[0]}" if encoder else task


class Split(NamedTuple):
    X: NDArray[np.float32]
    y: NDArray[Any]
    T: NDArray[np.float32]  # to test on
    t: NDArray[Any]


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    full = scale.d >= 768
    settings: dict[str, Any] = {} if full else {"hidden": ((32, 32), (64, 32)), "alphas": (1e-7, 1e-3, 1e-1), "max_iter": 50}
    n = 2_000 if full else 300
    if find_spec("torch") is None:
        case = f"MLP probe, {n:,} × {scale.d}, {LABELS} labels"
        yield Result(table="grid", case=case, value=float("nan"), sense="at least", goal=10, note="torch is not installed")
        return
    raced = ClassifierProbe(search="race", **settings)
    yield from against_scikit_learn("MLP probe, race", labelled_cloud(n, TEST_ROWS, scale.d), raced, goal=10)
    names, settings = SETS if full else SETS[-1:], {"max_iter": EPOCHS, **settings}
    yield from full_grids(names, folder, settings)


def full_grids(names: Sequence[str], folder: Path, settings: dict[str, Any]) -> Iterator[Result]:
    """The full grid on each data set against scikit-learn's."""
    for name in names:
        try:
            data = data_set(name, folder, n=FULL_GRID_ROWS)
        except LookupError as error:
            yield Result(table="grid", case=f"full grid, {in_words(name)}", value=float("nan"), sense="at least", note=str(error))
            continue
        yield from against_scikit_learn(f"full grid, {in_words(name)}", data, ClassifierProbe(**settings), goal=5)


def against_scikit_learn(name: str, data: Split, probe: ClassifierProbe, *, goal: float) -> Iterator[Result]:
    """Processor time of a probe against scikit-learn's, and the accuracy of the chosen cell trained by both."""
    import_module("torch")  # before the clock starts
    with one_thread():
        mine = cpu_seconds(lambda: probe.fit(data.X, data.y))
        peer = scikit_learn(data, probe)
        floor = products_seconds(data, probe)
    score = probe.evaluate(data.T, data.t)
    case = f"{name}, {len(data.y):,} × {data.X.shape[1]}, {len(probe.classes_)} labels"
    part = f"of its search one fold was run with every {EVERY}nd L2 weight, which counts {EVERY * probe.folds} times"
    yield Result(
        table="grid",
        case=f"{case}, {len(probe.search_.cells)} cells, {probe.folds} folds, {probe.initialisations} initialisations",
        value=peer.seconds / mine,
        sense="at least",
        goal=goal,
        ours=shown(mine),
        theirs=f"GridSearchCV of MLPClassifier, {shown(peer.seconds)}",
        floor=f"the products alone, as fast as one large product: {shown(floor)}, {peer.seconds / floor:.1f} ×",
        note=f"processor time, one thread; {part}",
    )
    ran = ~np.isnan(peer.scores) & ~np.isnan(probe.search_.scores)
    apart = 100 * (probe.search_.scores - peer.scores)[ran]
    ours, theirs = 100 * np.array(score.scores), 100 * np.array(peer.accuracies)
    error = float(np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / len(ours)))
    yield Result(
        table="grid",
        case=f"{case}: accuracy of {score.hidden}, {score.alpha:g} apart from scikit-learn's",
        value=abs(float(ours.mean() - theirs.mean())),
        sense="at most",
        goal=round(2 * error, 2),  # what initialisations leave open
        unit="points",
        ours=f"{ours.mean():.2f} ± {ours.std(ddof=1):.2f}, {np.mean(score.epochs):.0f} epochs",
        theirs=f"MLPClassifier, {theirs.mean():.2f} ± {theirs.std(ddof=1):.2f}, {np.mean(peer.epochs):.0f} epochs",
        note=f"of {apart.size} held-out scores that both have {np.count_nonzero(np.abs(apart) < 1e-6)} are equal; "
        f"mean difference {apart.mean():+.2f} points, standard deviation {apart.std():.2f}",
        measures={"error": error},
    )


def products_seconds(data: Split, probe: ClassifierProbe) -> float:
    """Processor time of all multiplications of the networks that were trained, at the speed of a large matrix product."""
    import torch

    square = torch.rand(2048, 2048)
    speed = 2 * 2048**3 / min(cpu_seconds(lambda: torch.mm(square, square)) for _ in range(4))

    def per_row(hidden: Sequence[int]) -> int:
        products = [a * b for a, b in pairwise((data.X.shape[1], *hidden, len(probe.classes_)))]
        return int(6 * sum(products) - 2 * products[0])  # forward, and two products backward; the input has no gradient

    epochs = np.nansum(probe.search_.epochs, axis=1) * (1 - 1 / probe.folds)
    search = sum(per_row(cell.hidden) * passes for cell, passes in zip(probe.search_.cells, epochs, strict=True))
    return float(search + per_row(probe.hidden_) * sum(probe.epochs_)) * len(data.y) / speed


class Peer(NamedTuple):
    """What scikit-learn took and scored: `scores` are (cells, folds), nan where it did not run."""

    seconds: float
    scores: NDArray[np.float64]
    accuracies: list[float]
    epochs: list[int]


def scikit_learn(data: Split, probe: ClassifierProbe) -> Peer:
    """Its search, scaled from the part that is run, and its initialisations of the cell that the probe has chosen."""
    parts = stratified_folds(labelled(data.X, data.y), probe.folds, seed=probe.seed).splits
    alphas = list(probe.alphas)[1::EVERY]  # with the strongest, which takes the most epochs or the fewest
    values = {"alpha": alphas, "hidden_layer_sizes": [tuple(hidden) for hidden in probe.hidden]}
    model = MLPClassifier(random_state=probe.seed, max_iter=probe.max_iter)
    search = GridSearchCV(model, values, cv=parts[:1], refit=False)
    scores = np.full(probe.search_.scores.shape, np.nan)
    accuracies, epochs = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seconds = cpu_seconds(lambda: search.fit(data.X, data.y)) * len(parts) * len(probe.alphas) / len(alphas)
        scores[[cell.alpha in alphas for cell in probe.search_.cells], 0] = search.cv_results_["mean_test_score"]
        for seed in range(probe.seed, probe.seed + probe.initialisations):
            final = MLPClassifier(probe.hidden_, alpha=probe.alpha_, random_state=seed, max_iter=probe.max_iter)
            seconds += cpu_seconds(partial(final.fit, data.X, data.y))
            accuracies.append(final.score(data.T, data.t))
            epochs.append(final.n_iter_)
    return Peer(seconds, scores, accuracies, epochs)


def accuracies(names: tuple[str, ...], folder: Path, settings: dict[str, Any]) -> Iterator[Result]:
    """Test accuracy of the race's choice against the full grid's, on each data set, and the mean loss."""
    found = []
    for name in names:
        try:
            draws = [compared(data_set(name, folder, seed), settings, seed) for seed in SEEDS]
        except LookupError as error:
            yield Result(
                table="grid",
                case=f"race against full grid, {in_words(name)}",
                value=float("nan"),
                sense="at most",
                note=str(error),
            )
            continue
        found.append(loss(name, draws))
        yield found[-1]
    if found:
        yield mean_loss(found)


class Draw(NamedTuple):
    """Accuracies of both searches, (initialisations,) each in points, after one draw of training rows, folds and weights."""

    raced: NDArray[np.float64]
    whole: NDArray[np.float64]
    told: tuple[str, str]
    size: str


def compared(data: Split, settings: dict[str, Any], seed: int) -> Draw:
    probes = [ClassifierProbe(**settings, search=search, seed=seed) for search in ("race", "full")]
    with one_thread():
        times = [cpu_seconds(partial(probe.fit, data.X, data.y)) for probe in probes]
    raced, whole = (probe.evaluate(data.T, data.t) for probe in probes)
    told = [
        f"{100 * score.mean:.2f} with {score.hidden}, {score.alpha:g}, in {shown(seconds)}"
        for score, seconds in zip((raced, whole), times, strict=True)
    ]
    size = f"{len(data.y):,} × {data.X.shape[1]}, {len(data.t):,} test rows, {len(np.unique(data.y))} labels"
    return Draw(100 * np.array(raced.scores), 100 * np.array(whole.scores), (told[0], told[1]), size)


def loss(name: str, draws: Sequence[Draw]) -> Result:
    """The mean loss over the draws, with the standard error that the initialisations leave."""
    losses = [float(draw.whole.mean() - draw.raced.mean()) for draw in draws]
    variances = [side.var(ddof=1) / len(side) for draw in draws for side in (draw.raced, draw.whole)]
    error = float(np.sqrt(sum(variances))) / len(draws)
    return Result(
        table="grid",
        case=f"accuracy that the race loses to the full grid, {in_words(name)}, {draws[0].size}",
        value=float(np.mean(losses)),
        sense="at most",
        goal=GOAL,
        unit="points",
        ours="; ".join(draw.told[0] for draw in draws),
        theirs="; ".join(draw.told[1] for draw in draws),
        note=f"± {error:.2f}, the standard error over initialisations; draws of training rows and folds: {len(draws)}",
        measures={"error": error},
    )


def mean_loss(found: Sequence[Result]) -> Result:
    losses = np.array([result.value for result in found])
    spread = f"standard error over data sets {losses.std(ddof=1) / np.sqrt(len(losses)):.2f}; " if len(losses) > 1 else ""
    return Result(
        table="grid",
        case=f"accuracy that the race loses to the full grid, mean of {len(losses)} data sets",
        value=float(losses.mean()),
        sense="at most",
        goal=GOAL,
        unit="points",
        note=f"{spread}worst {losses.max():.2f}, best {losses.min():.2f}",
    )


def labelled_cloud(n: int, test: int, d: int, *, seed: int = 0) -> Split:
    """Unequal classes whose means overlap: a probe gets most of them right, not all, as with parts of speech."""
    random = np.random.default_rng(seed)
    deviations = np.arange(1, d + 1, dtype=np.float32) ** np.float32(-0.5)
    rotation = np.linalg.qr(random.standard_normal((d, d)))[0].astype(np.float32)
    y = random.choice(LABELS, n + test, p=random.dirichlet(np.full(LABELS, 3.0)))
    means = 0.2 * random.standard_normal((LABELS, d), dtype=np.float32)
    X = 4 * (means[y] + random.standard_normal((n + test, d), dtype=np.float32)) * deviations @ rotation
    return Split(X[:n], y[:n], X[n:], y[n:])


def data_set(name: str, folder: Path, seed: int = 0, *, n: int = TRAINING_ROWS) -> Split:
    """Digits, or a layer of all vectors of a task; they are extracted to `folder` unless they are there. `n` rows to train on."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return split_rows((X / 16).astype(np.float32), y, seed, n)
    task, model, layer = name.split(":")
    parts = [vectors(model, task, split, int(layer), folder) for split in ("train", "test")]
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return split_rows(X, y, seed, n)


def split_rows(X: NDArray[np.float32], y: NDArray[Any], seed: int, n: int) -> Split:
    """Some rows of each label to train on, and all others to test on, or as many of them as are enough."""
    sample = sample_by_label(y, n, seed=seed)
    rest = np.setdiff1d(np.arange(len(y)), sample)
    if len(rest) > MOST_TEST_ROWS:
        rest = np.random.default_rng(seed).choice(rest, MOST_TEST_ROWS, replace=False)
    return Split(X[sample], y[sample], X[rest], y[rest])


def vectors(model: str, task: str, split: str, layer: int, folder: Path) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Vectors and labels of one split of a task."""
    from theodolite import Space, extract

    models, data = os.environ.get("THEODOLITE_MODELS"), os.environ.get("THEODOLITE_DATA")
    path = folder / f"{model}-{task}-{split}"
    if not path.exists():
        if not models or not data:
            raise LookupError("THEODOLITE_MODELS and THEODOLITE_DATA are not set")
        extract(str(Path(models) / model), task=task, split=split, data=data, to=path, progress=False)
    space = Space.open(path)
    return np.asarray(space[layer]), np.array(space.labels("label"))


class one_thread:  # noqa: N801  # a context, like those of threadpoolctl
    """BLAS and torch on one thread: processor times are compared, and waiting threads would count."""

    def __enter__(self) -> None:
        import torch

        self.threads, self.limits = torch.get_num_threads(), threadpool_limits(1)
        torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        import torch

        torch.set_num_threads(self.threads)
        self.limits.restore_original_limits()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=SETS)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--race", action="store_true")
    asked = parser.parse_args()
    results = accuracies if asked.race else full_grids
    print(*results((asked.name,), asked.folder, {"max_iter": EPOCHS}), sep="\n")
