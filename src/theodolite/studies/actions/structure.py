"""Whether tokens lie in clusters, and whether word frequency lies on the top directions (PD22's third claim, RP21's figure 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from theodolite.core.kmeans import kmeans, nearest
from theodolite.core.moments import Doubles, Moments
from theodolite.core.rows import Row, current_versions
from theodolite.core.sample import sample_rows
from theodolite.core.spectrum import fixed_signs
from theodolite.core.vectors import Floats
from theodolite.metrics.resample import interval
from theodolite.studies.actions.vectors import about, opened
from theodolite.studies.step import Work

LEVEL = 0.95


def cluster_structure(work: Work) -> list[Row]:
    """`between_share`, the share of the variance that lies between k clusters, and `silhouette`, of a sample; both at most 1.

    Intervals come from halves of the rows, with the clusters of all rows.
    """
    from sklearn.metrics import silhouette_samples

    told = work.settings
    space, layer = opened(work), int(told["layer"])
    X = np.asarray(space[layer], dtype=np.float64)
    X -= X.mean(axis=0)
    labels = nearest(X, kmeans(X, told["k"], seed=told["seed"]).centroids)
    chosen = sample_rows(len(X), told["sample"], seed=told["seed"])
    several = len(np.unique(labels[chosen])) > 1
    each = silhouette_samples(X[chosen], labels[chosen]) if several else np.full(len(chosen), np.nan)
    fields = {**about(space, layer), "setting": f"k={told['k']}", "seed": told["seed"], "d": X.shape[1]}
    found = {
        "between_share": (len(X), lambda rows: _between(X[rows], labels[rows])),
        "silhouette": (len(chosen), lambda rows: float(each[rows].mean())),
    }
    return [_halved(name, n, of, told, fields) for name, (n, of) in found.items()]


def frequency_bias(work: Work) -> list[Row]:
    """How much of a token's log frequency the top directions tell (`frequency_r2`), and how its norm goes with it.

    `norm_frequency_correlation` is Spearman's, of the norm with the log frequency. Tokens without a known frequency are left out.
    """
    from theodolite.tasks.scores import spearman

    told = work.settings
    space, layer = opened(work), int(told["layer"])
    frequency = np.asarray(space.rows["frequency"], dtype=np.float64)
    known = np.flatnonzero(frequency > 0)
    X, logs = np.asarray(space[layer])[known], frequency[known]
    scores, norms = _components(X, told["components"]), np.linalg.norm(X.astype(np.float64), axis=1)
    fields = {**about(space, layer), "setting": f"top {told['components']}", "seed": told["seed"], "d": X.shape[1]}
    found: dict[str, Callable[[Any], float]] = {
        "frequency_r2": lambda rows: _explained(scores[rows], logs[rows]),
        "norm_frequency_correlation": lambda rows: spearman(norms[rows], logs[rows]),
    }
    return [_halved(name, len(X), of, told, fields) for name, of in found.items()]


def _halved(metric: str, n: int, of: Callable[[Any], float], told: Any, fields: dict[str, Any]) -> Row:
    """A value on all rows, with an interval from seeded halves of them."""
    value = of(slice(None))
    rng = np.random.default_rng(told["seed"])
    halves = np.array([of(rng.permutation(n)[: n // 2]) for _ in range(told["bootstrap"])])
    usable = len(halves) > 0 and np.isfinite(halves).all()
    low, high = interval(value, halves - halves.mean() if usable else None, level=LEVEL)
    reason = "" if np.isfinite(value) else "all rows fall into one cluster"
    return Row(**{"versions": current_versions(), **fields}, metric=metric, value=value, low=low, high=high, n=n, reason=reason)


def _between(X: Doubles, labels: Any) -> float:
    """1 less the share of the squared deviations that is left inside clusters."""
    counts = np.bincount(labels)
    sums = np.zeros((len(counts), X.shape[1]))
    np.add.at(sums, labels, X)
    inside = counts > 0
    means = sums[inside] / counts[inside, None]
    mean = X.mean(axis=0)
    total = float(np.square(X - mean).sum())
    return float((counts[inside] * np.square(means - mean).sum(axis=1)).sum()) / total if total > 0 else float("nan")


def _components(X: Floats, count: int) -> Doubles:
    """Scores of the rows on the top principal directions."""
    moments = Moments.of(X)
    _, directions = np.linalg.eigh(moments.covariance())
    return np.asarray((X - moments.mean) @ fixed_signs(directions[:, ::-1][:, :count]))


def _explained(scores: Doubles, logs: Doubles) -> float:
    """R² of a linear fit."""
    design = np.column_stack([np.ones(len(scores)), scores])
    fitted = design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    return 1.0 - float(np.square(logs - fitted).sum() / np.square(logs - logs.mean()).sum())
