"""Everything that is measured of the labels of one layer: clusters, distances, held-out accuracy, a classifier, and the rows."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_by_label
from theodolite.core.spelling import option
from theodolite.core.vectors import Floats, array
from theodolite.probes.direct_probe import DirectProbe, LabelDistance, NoSpread
from theodolite.probes.label_codes import require_match
from theodolite.probes.similarity import Similarity, spatial_similarity

if TYPE_CHECKING:
    from theodolite.core.parallel import Stage
    from theodolite.probes.classifiers.estimators import BaseClassifierProbe, ProbeScore

Classifier: TypeAlias = Literal["none", "linear", "mlp"]

_ONE_LABEL = "there is no other label with a cluster"
_ONE_POINT = "every cluster of the label is a single point"
_STOPPED = "the budget ran out before its clusters were merged"
_UNMEASURED = "the budget ran out before all distances were measured"


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerProbe:
    """What was measured of one layer.

    Parameters
    ----------
    probe
        The fitted probe.
    sentence
        The result in one sentence.
    score
        The accuracy of the classifier on the held-out rows; None without a classifier.
    train_test, test_probe
        The spatial similarity of the fitted rows to the held-out rows, and the probe of the held-out rows that it compares with;
        None if it was not requested.
    rows
        All numbers as rows: `labels`, `clusters`, `overlaps` (pairs of clusters that overlap), `is_linear` (1 or 0) and
        `mean_minimum_distance`; for each label `label_clusters`, `minimum_distance`, `inside_mean` and `inside_max`; for each
        pair of labels `label_distance`, with the certified bounds as its interval; if there are held-out rows, `hull_accuracy`:
        the share whose nearest hull is one of their own label; with a classifier `probe_accuracy`, `probe_accuracy_sd` over
        initialisations, `probe_hidden_1` and `_2` (the chosen sizes), `probe_alpha` (the chosen L2 weight) and
        `classifier_seconds`, and with types of words `control_accuracy` and `selectivity`; if requested
        `train_test_similarity`, with its interval; and `probe_seconds`, the time of the fit.
    """

    probe: DirectProbe
    sentence: str
    score: ProbeScore | None
    train_test: Similarity | None
    rows: tuple[Row, ...]
    test_probe: DirectProbe | None = None


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
    types: tuple[ArrayLike, ArrayLike] | None = None,
    grid: Mapping[str, Any] | None = None,
    train_test: bool = False,
    n_jobs: int | None = None,
    budget: float | None = None,
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
    label_distance, min_cluster_size, n_jobs, budget
        As in `DirectProbe`.
    classifier
        Which classifier to train too: "linear", "mlp" or "none".
    max_classifier_rows
        Train it on a stratified sample of at most this many rows (0 or None: all).
    types
        The word types of the rows and of the held-out rows, for a control task with random labels of types.
    grid
        Further options of the classifier "mlp": `hidden` and `alphas` in place of the published grid, or `search`: "full" by
        default, or "race", which is faster at a loss that the score's note states.
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
    >>> layer.sentence, [row.value for row in layer.rows if row.metric == "hull_accuracy"]
    ('2 labels, 2 clusters: linearly separable; high and low are closest, 3', [1.0])
    """
    if classifier not in get_args(Classifier):
        raise ValueError(f"classifier={classifier!r} must be one of {', '.join(get_args(Classifier))}")
    if test is None and (classifier != "none" or train_test):
        what = "a classifier is scored on" if classifier != "none" else "train-test similarity compares with"
        raise ValueError(
            f"{what} held-out rows, but there are none; give {option('test', 'PATH')} or {option('hold_out', '0.2')}"
        )
    vectors, names = array(X), np.asarray(y)
    require_match(vectors, names)
    cluster_names = None if clusters is None else np.asarray(clusters)
    if cluster_names is not None and cluster_names.shape != names.shape:
        raise ValueError(f"clusters has shape {cluster_names.shape} for {len(names)} rows; give one cluster for each row")
    sample = _sample(names, max_rows, seed)
    probe = DirectProbe(
        label_distance=label_distance, min_cluster_size=min_cluster_size, n_jobs=n_jobs, progress=progress, budget=budget
    )
    start = time.perf_counter()
    probe.fit(vectors[sample], names[sample], clusters=None if cluster_names is None else cluster_names[sample])
    seconds = time.perf_counter() - start
    metrics = [*_layout_metrics(probe, names[sample])]
    score = similarity = test_probe = None
    if test is not None:
        test_X, test_y = array(test[0]), np.asarray(test[1])
        require_match(test_X, test_y)
        split = {"split": test_split} if test_split else {}
        # A point inside hulls of two labels counts for the first one, which is what `predict` returns.
        accuracy = float(np.mean(probe.predict(test_X) == test_y)) if not len(probe.unfinished_) else math.nan
        metrics.append({"metric": "hull_accuracy", "value": accuracy, "n": len(test_y), "reason": _STOPPED, **split})
        if classifier != "none":
            from theodolite.probes.classifiers.control_task import Words, control_score

            training = _sample(names, max_classifier_rows, seed)
            model = _classifier(classifier, grid or {}, seed, device, progress)
            score = model.fit(vectors[training], names[training]).evaluate(test_X, test_y)
            values = {"probe_accuracy": score.mean, "probe_accuracy_sd": score.sd, "classifier_seconds": score.seconds}
            values |= {f"probe_hidden_{number}": float(size) for number, size in enumerate(score.hidden, 1)}
            values["probe_alpha"] = score.alpha
            if types is not None:
                words, test_words = (np.asarray(side) for side in types)
                fitted = Words(vectors[training], names[training], words[training].tolist())
                held_out = Words(test_X, test_y, test_words.tolist())
                values["control_accuracy"] = control_score(model, fitted, held_out, seed=seed).mean
                values["selectivity"] = score.mean - values["control_accuracy"]
            metrics += [{"metric": metric, "value": value, "n": score.n, **split} for metric, value in values.items()]
        if train_test:
            similarity, test_probe = _train_test(probe, test_X, test_y, n_jobs)
            fields = {"value": similarity.value, "low": similarity.low, "high": similarity.high, "n": similarity.n}
            metrics.append({"metric": "train_test_similarity", **fields, "reason": similarity.reason})
    metrics.append({"metric": "probe_seconds", "value": seconds})
    common = {"n": len(probe.clusters_), "versions": current_versions(), "d": vectors.shape[1], "seed": seed, **(about or {})}
    for metric in metrics:
        if not math.isnan(metric["value"]):
            metric["reason"] = ""  # a reason is why there is no value
    rows = tuple(Row(**{**common, **metric}) for metric in metrics)
    return LayerProbe(probe=probe, sentence=probe.verdict(), score=score, train_test=similarity, rows=rows, test_probe=test_probe)


def _layout_metrics(probe: DirectProbe, y: NDArray[Any]) -> Iterator[dict[str, Any]]:
    """What a probe fitted on the labels `y` says, as fields of rows: of all labels, of each label, and of each pair of them."""
    minimum = probe.minimum_distances_[np.isfinite(probe.minimum_distances_)]
    yield {"metric": "labels", "value": float(len(probe.classes_))}
    bounds = {"low": float(probe.fewest_clusters_), "high": float(probe.n_clusters_)} if len(probe.unfinished_) else {}
    yield {"metric": "clusters", "value": float(probe.n_clusters_), **bounds}
    yield {"metric": "overlaps", "value": float(probe.n_overlaps_)}
    yield {"metric": "is_linear", "value": float(probe.is_linear_)}
    mean = float(minimum.mean()) if len(minimum) and not len(probe.unmeasured_) else math.nan
    yield {"metric": "mean_minimum_distance", "value": mean, "reason": _UNMEASURED if len(probe.unmeasured_) else _ONE_LABEL}
    sizes = [int(np.count_nonzero(y == label)) for label in probe.classes_]
    for label, size, distance in zip(probe.classes_, sizes, probe.minimum_distances_, strict=True):
        own = np.flatnonzero(probe.cluster_labels_ == label)
        wide = own[probe.cluster_sizes_[own] > 1]  # a single point has no distance inside
        if label in probe.unfinished_:
            for metric in ("label_clusters", "minimum_distance", "inside_mean", "inside_max"):
                yield {"metric": metric, "value": math.nan, "label": str(label), "n": size, "reason": _STOPPED}
            continue
        for metric, value, reason in (
            ("label_clusters", len(own), ""),
            ("minimum_distance", distance, _UNMEASURED if label in probe.unmeasured_ else _ONE_LABEL),
            ("inside_mean", np.mean(probe.inside_mean_[wide]) if len(wide) else math.nan, _ONE_POINT),
            ("inside_max", np.max(probe.inside_max_[wide]) if len(wide) else math.nan, _ONE_POINT),
        ):
            yield {"metric": metric, "value": float(value), "label": str(label), "n": size, "reason": reason}
    for i, j in combinations(range(len(sizes)), 2):
        low, value, high = (float(table[i, j]) for table in (probe.label_lower_, probe.label_distances_, probe.label_upper_))
        if math.isfinite(value):
            labels = {"label": str(probe.classes_[i]), "other_label": str(probe.classes_[j])}
            n = sizes[i] + sizes[j]
            yield {"metric": "label_distance", "value": value, "low": low, "high": high, "n": n, **labels}


def _sample(y: NDArray[Any], size: int | None, seed: int) -> NDArray[np.intp] | slice:
    """A stratified sample of rows; all of them, without a copy, if there are not more."""
    return sample_by_label(y, size, seed=seed) if size and size < len(y) else slice(None)


def _classifier(kind: Classifier, grid: Mapping[str, Any], seed: int, device: str, progress: Stage | None) -> BaseClassifierProbe:
    from theodolite.probes.classifiers.estimators import ClassifierProbe, LinearProbe

    report = None if progress is None else partial(progress, "classifier")
    if kind == "linear":
        return LinearProbe(seed=seed, progress=report)
    return ClassifierProbe(seed=seed, progress=report, device="cpu" if device == "auto" else device, **grid)


def _train_test(probe: DirectProbe, X: Floats, y: NDArray[Any], n_jobs: int | None) -> tuple[Similarity, DirectProbe | None]:
    """Whether the labels of the held-out rows are arranged as those of the fitted rows, and the probe of the held-out rows."""
    if len(np.unique(y)) < 2:
        return Similarity(float("nan"), n=1, reason="the test rows have one label"), None
    try:
        other = DirectProbe(n_jobs=n_jobs).fit(X, y)
    except NoSpread as error:
        return Similarity(float("nan"), reason=f"test rows: {error}"), None
    return spatial_similarity(probe, other), other
