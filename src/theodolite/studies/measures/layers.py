"""The shape of layers: metrics of every layer, clusters and word frequency in one, and what the report draws of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.intervals import deviation_interval, half_samples
from theodolite.core.kmeans import k_means, nearest_centroids
from theodolite.core.moments import Doubles, Moments
from theodolite.core.pictures import draw_picture
from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_rows
from theodolite.core.spectrum import fixed_signs
from theodolite.core.vectors import Floats
from theodolite.metrics.cloud import SAMPLE, Cloud
from theodolite.metrics.evaluation import metric_rows
from theodolite.spaces.pictures import picture_columns
from theodolite.studies.measures.vectors import open_space, read_examples, row_fields
from theodolite.studies.steps import Action, Work


def _measure_layers(work: Work) -> list[Row]:
    """The metrics of every layer, with intervals from as many half-samples as the setting `bootstrap` says (RP21, figure 1)."""
    space, settings = open_space(work), work.settings
    sizes = {name: settings[name] for name in ("seed", "bootstrap", "sample")}
    rows: list[Row] = []
    for number, layer in enumerate(space.layers, start=1):
        rows += shape_rows(space[layer], settings["metrics"], row_fields(space, layer), settings["setting"], **sizes)
        work.report(number, len(space.layers))
    return rows


def shape_rows(
    X: Floats,
    metrics: Sequence[str],
    fields: Mapping[str, Any],
    setting: str,
    *,
    seed: int,
    bootstrap: int = 0,
    sample: int = SAMPLE,
) -> list[Row]:
    """Rows of the metrics of a cloud, all with the same setting.

    Parameters
    ----------
    X
        The vectors, (n, d).
    metrics
        Names of metrics; none gives no rows.
    fields
        Further fields of the rows.
    setting
        The setting of the rows. It replaces what a survey writes there about its half-samples, which the step's settings say.
    seed
        Seed of the samples.
    bootstrap
        How many half-samples the intervals come from; 0 gives none.
    sample
        How many vectors to use at most for metrics that need pairs of them.
    """
    if not metrics:
        return []
    rows = metric_rows(Cloud(X, sample=sample, seed=seed), metrics, bootstrap=bootstrap, about=fields)
    return [replace(row, setting=setting) for row in rows]


def _cluster_structure(work: Work) -> list[Row]:
    """`between_share`, the share of the variance between k clusters, and the `silhouette` of a sample; both are at most 1 (PD22).

    Intervals come from half-samples of the rows, with the clusters of all rows.
    """
    from sklearn.metrics import silhouette_samples

    space, settings = open_space(work), work.settings
    X = np.asarray(space[settings["layer"]], dtype=np.float64)
    X -= X.mean(axis=0)
    labels = nearest_centroids(X, k_means(X, settings["k"], seed=settings["seed"]).centroids)
    # A silhouette needs the distances of all pairs, so it is of a sample.
    sample = sample_rows(len(X), settings["sample"], seed=settings["seed"])
    several = len(np.unique(labels[sample])) > 1
    silhouettes = silhouette_samples(X[sample], labels[sample]) if several else np.full(len(sample), np.nan)
    statistics: dict[str, tuple[int, Callable[[Any], float]]] = {
        "between_share": (len(X), lambda rows: _between_share(X[rows], labels[rows])),
        "silhouette": (len(sample), lambda rows: float(silhouettes[rows].mean())),
    }
    fields = {**row_fields(space, settings["layer"]), "setting": f"k={settings['k']}", "d": X.shape[1]}
    return [_half_sampled(name, n, of, settings, fields) for name, (n, of) in statistics.items()]


def _frequency_bias(work: Work) -> list[Row]:
    """How much of a token's word frequency the top directions explain (`frequency_r2`), and how its norm goes with it (RP21).

    `norm_frequency_correlation` is Spearman's, of the norm with the frequency on the Zipf scale. Tokens without a known frequency
    are left out.
    """
    from theodolite.tasks.scores import spearman

    space, settings = open_space(work), work.settings
    zipf = np.asarray(space.rows["frequency"], dtype=np.float64)
    frequent = np.flatnonzero(zipf > 0)  # 0 is how a word that is in no list is marked
    X, zipf = np.asarray(space[settings["layer"]])[frequent], zipf[frequent]
    components, norms = _top_components(X, settings["components"]), np.linalg.norm(X.astype(np.float64), axis=1)
    statistics: dict[str, Callable[[Any], float]] = {
        "frequency_r2": lambda rows: _explained_share(components[rows], zipf[rows]),
        "norm_frequency_correlation": lambda rows: spearman(norms[rows], zipf[rows]),
    }
    fields = {**row_fields(space, settings["layer"]), "setting": f"top {settings['components']}", "d": X.shape[1]}
    return [_half_sampled(name, len(X), of, settings, fields) for name, of in statistics.items()]


def _draw_layer(work: Work) -> list[Row]:
    """The layer on its first three directions: a sample of its rows, the same ones in every state."""
    space, settings = open_space(work), work.settings
    X = np.asarray(space[settings["layer"]])
    columns = picture_columns(space, read_examples(work))
    if settings["k"]:
        clusters = nearest_centroids(X, k_means(X, settings["k"], seed=settings["seed"]).centroids)
        columns["cluster"] = [str(cluster) for cluster in clusters]
    about = row_fields(space, settings["layer"])
    work.write_picture(draw_picture(X, columns=columns, about=about, points=settings["points"], seed=settings["seed"]))
    return []


def _keep_spectrum(work: Work) -> list[Row]:
    """The share of the variance on every principal direction, largest first, as records."""
    import pyarrow

    space, layer = open_space(work), work.settings["layer"]
    # Rounding makes some of the smallest eigenvalues negative.
    variances = np.linalg.eigvalsh(Moments.of(space[layer]).covariance())[::-1].clip(min=0.0)
    shares = variances / max(float(variances.sum()), np.finfo(float).tiny)  # all 0 if the vectors are one point
    fields = {**row_fields(space, layer), "setting": work.settings["setting"]}
    columns = {name: [fields[name]] * len(shares) for name in ("model", "state", "layer", "setting")}
    work.write_records("spectra", pyarrow.table({**columns, "k": np.arange(1, len(shares) + 1), "value": shares}))
    return []


def _half_sampled(
    metric: str, n: int, statistic: Callable[[Any], float], settings: Mapping[str, Any], fields: Mapping[str, Any]
) -> Row:
    """A statistic of all n rows, with an interval from seeded half-samples of them."""
    value = statistic(slice(None))
    halves = np.array([statistic(half) for half in half_samples(n, settings["bootstrap"], seed=settings["seed"])])
    low, high = deviation_interval(value, halves - halves.mean() if len(halves) else None)
    reason = "" if np.isfinite(value) else "all rows fall into one cluster"
    about = {"versions": current_versions(), "seed": settings["seed"], **fields}
    return Row(metric=metric, value=value, low=low, high=high, n=n, reason=reason, **about)


def _between_share(X: Doubles, labels: NDArray[np.intp]) -> float:
    """1 minus the share of the squared deviations that is left inside the clusters."""
    counts = np.bincount(labels)
    sums = np.zeros((len(counts), X.shape[1]))
    np.add.at(sums, labels, X)
    inside = counts > 0
    means = sums[inside] / counts[inside, None]
    mean = X.mean(axis=0)
    total = float(np.square(X - mean).sum())
    return float((counts[inside] * np.square(means - mean).sum(axis=1)).sum()) / total if total > 0 else float("nan")


def _top_components(X: Floats, count: int) -> Doubles:
    """Coordinates of the rows on the top principal directions."""
    moments = Moments.of(X)
    _, directions = np.linalg.eigh(moments.covariance())
    return np.asarray((X - moments.mean) @ fixed_signs(directions[:, ::-1][:, :count]))


def _explained_share(components: Doubles, values: Doubles) -> float:
    """R² of a linear fit of the values on the components."""
    design = np.column_stack([np.ones(len(components)), components])
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return 1.0 - float(np.square(values - fitted).sum() / np.square(values - values.mean()).sum())


LAYERS = Action("layers", _measure_layers, version=2)
CLUSTERS = Action("clusters", _cluster_structure)
FREQUENCY = Action("frequency", _frequency_bias)
PICTURE = Action("picture", _draw_layer)
SPECTRUM = Action("spectrum", _keep_spectrum)
