"""Everything that is measured of the labels of one layer: clusters, distances, held-out accuracy, a classifier, and the rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.options import option
from theodolite.core.rows import Row
from theodolite.core.sampling import sample_by_label
from theodolite.core.vectors import Floats, array
from theodolite.probes.classifiers.scores import BaseClassifierProbe, ProbeScore
from theodolite.probes.direct.direct_probe import Closest, DirectProbe, LabelDistance, NoSpread, Stage
from theodolite.probes.direct.summary import HeldOut, LabelSummary, label_summaries, mean_minimum_distance, probe_rows
from theodolite.probes.labels import require_match
from theodolite.probes.similarity import Similarity, spatial_similarity

Classifier: TypeAlias = Literal["none", "linear", "mlp"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerProbe:
    """What was measured of one layer.

    Parameters
    ----------
    probe
        The fitted probe.
    labels
        The summary of each label, in the order of the probe's classes.
    sentence
        The result in one sentence.
    closest
        The two labels that are closest; None if there is no distance.
    mean_minimum_distance
        The mean over the labels of the distance to the nearest other label; nan if there is none.
    held_out
        How many held-out rows are nearest to a hull of their own label; None without held-out rows.
    score
        The accuracy of the classifier on the held-out rows; None without a classifier.
    train_test
        The spatial similarity of the fitted rows to the held-out rows; None if it was not requested.
    seconds
        How long it took to fit the probe.
    rows
        All numbers as rows.
    """

    probe: DirectProbe
    labels: tuple[LabelSummary, ...]
    sentence: str
    closest: Closest | None
    mean_minimum_distance: float
    held_out: HeldOut | None
    score: ProbeScore | None
    train_test: Similarity | None
    seconds: float
    rows: tuple[Row, ...]


def probe_layer(
    X: ArrayLike,
    y: ArrayLike,
    *,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    test_split: str = "",
    clusters: ArrayLike | None = None,
    max_rows: int | None = None,
    label_distance: LabelDistance = "mean",
    min_cluster_size: int = 1,
    classifier: Classifier = "none",
    max_classifier_rows: int | None = None,
    grid: Mapping[str, Any] | None = None,
    train_test: bool = False,
    n_jobs: int | None = None,
    seed: int = 0,
    device: str = "auto",
    about: Mapping[str, Any] | None = None,
    progress: Stage | None = None,
) -> LayerProbe:
    """Probe one layer: fit a `DirectProbe`, score it and a classifier on held-out rows, and gather everything as rows.

    Parameters
    ----------
    X, y
        (n, d) vectors and the label of each.
    test
        Held-out vectors and their labels, all of which must occur in `y` (see `theodolite.probes.labels.check_label_sets`).
    test_split
        The name of their split, for the rows.
    clusters
        The cluster of each row, if they are not to be found; `y` itself follows the same hulls through a training.
    max_rows
        Fit the hulls on a stratified sample of at most this many rows (0 or None: all).
    label_distance, min_cluster_size, n_jobs
        As in `DirectProbe`.
    classifier
        Which classifier to train too: "linear", "mlp" or "none".
    max_classifier_rows
        Train it on a stratified sample of at most this many rows (0 or None: all).
    grid
        Further options of the classifier "mlp", such as `hidden` and `alphas`, in place of the published grid.
    train_test
        Whether to compare the layout of the labels in the fitted rows with that in the held-out rows.
    seed
        Of the samples and of the classifier.
    device
        Of torch for "mlp"; "auto" is the CPU.
    about
        Further fields of the rows: model, layer, task, split, step, state.
    progress
        Called with (stage, done, total); may raise to cancel.

    Returns
    -------
    LayerProbe
        The fitted probe, the summaries and the rows.

    Raises
    ------
    ValueError
        An option is unknown, or needs held-out rows that are not there; or as `DirectProbe.fit` raises it.
    NoSpread
        All rows are the same point.

    Examples
    --------
    >>> layer = probe_layer([[0.0], [1.0], [4.0], [6.0]], ["low", "low", "high", "high"], test=([[0.5], [9.0]], ["low", "high"]))
    >>> layer.sentence, layer.held_out.accuracy
    ('2 labels, 2 clusters: linearly separable; high and low are closest, 3', 1.0)
    """
    if classifier not in get_args(Classifier):
        raise ValueError(f"classifier={classifier!r} must be one of {', '.join(get_args(Classifier))}")
    if test is None and (classifier != "none" or train_test):
        what = "a classifier is scored on" if classifier != "none" else "train-test similarity compares with"
        raise ValueError(
            f"{what} held-out rows, and there are none; give {option('test', 'PATH')} or {option('hold_out', '0.2')}"
        )
    vectors, names = array(X), np.asarray(y)
    require_match(vectors, names)
    cluster_names = None if clusters is None else np.asarray(clusters)
    if cluster_names is not None and cluster_names.shape != names.shape:
        raise ValueError(f"clusters has shape {cluster_names.shape} for {len(names)} rows; give one cluster for each row")
    sample = _sample(names, max_rows, seed)
    probe = DirectProbe(label_distance=label_distance, min_cluster_size=min_cluster_size, n_jobs=n_jobs, progress=progress)
    start = time.perf_counter()
    probe.fit(vectors[sample], names[sample], clusters=None if cluster_names is None else cluster_names[sample])
    seconds = time.perf_counter() - start
    held_out = score = similarity = None
    if test is not None:
        test_X, test_y = array(test[0]), np.asarray(test[1])
        require_match(test_X, test_y)
        # A point inside hulls of two labels counts for the first one, which is what `predict` returns.
        held_out = HeldOut(float(np.mean(probe.predict(test_X) == test_y)), len(test_y), test_split)
        if classifier != "none":
            training = _sample(names, max_classifier_rows, seed)
            model = _classifier(classifier, grid or {}, seed, device, progress)
            score = model.fit(vectors[training], names[training]).evaluate(test_X, test_y)
        if train_test:
            similarity = _train_test(probe, test_X, test_y, n_jobs)
    labels = label_summaries(probe, names[sample])
    fields = {"d": vectors.shape[1], "seed": seed, **(about or {})}
    rows = probe_rows(probe, labels, about=fields, held_out=held_out, score=score, train_test=similarity, seconds=seconds)
    return LayerProbe(
        probe=probe,
        labels=labels,
        sentence=probe.verdict(),
        closest=probe.closest_pair(),
        mean_minimum_distance=mean_minimum_distance(labels),
        held_out=held_out,
        score=score,
        train_test=similarity,
        seconds=seconds,
        rows=tuple(rows),
    )


def _sample(y: NDArray[Any], size: int | None, seed: int) -> NDArray[np.intp] | slice:
    """A stratified sample of rows; all of them, without a copy, if there are not more."""
    return sample_by_label(y, size, seed=seed) if size and size < len(y) else slice(None)


def _classifier(kind: Classifier, grid: Mapping[str, Any], seed: int, device: str, progress: Stage | None) -> BaseClassifierProbe:
    from theodolite.probes.classifiers.linear_probe import LinearProbe
    from theodolite.probes.classifiers.mlp_probe import ClassifierProbe

    report = None if progress is None else lambda done, total: progress("classifier", done, total)
    if kind == "linear":
        return LinearProbe(seed=seed, progress=report)
    return ClassifierProbe(seed=seed, progress=report, device="cpu" if device == "auto" else device, **grid)


def _train_test(probe: DirectProbe, X: Floats, y: NDArray[Any], n_jobs: int | None) -> Similarity:
    """Whether the labels of the held-out rows are arranged as those of the fitted rows."""
    if len(np.unique(y)) < 2:
        return Similarity(float("nan"), n=1, reason="the test rows have one label")
    try:
        return spatial_similarity(probe, DirectProbe(n_jobs=n_jobs).fit(X, y))
    except NoSpread as error:
        return Similarity(float("nan"), reason=f"test rows: {error}")
