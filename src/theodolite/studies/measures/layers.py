"""Measures of layers: their shape, clusters and word frequency, what the report draws, and what repairs do to scores (RP21)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.repair_scores import row_cosines
from theodolite.core.intervals import NO_INTERVAL, deviation_interval, half_samples, percentile_interval
from theodolite.core.kmeans import k_means, nearest_centroids
from theodolite.core.moments import Doubles, Moments
from theodolite.core.pictures import draw_picture
from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_rows
from theodolite.core.spectrum import fixed_signs
from theodolite.core.vectors import Floats
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from theodolite.repairs import make_repair, scaled_count
from theodolite.spaces.space import Space, picture_columns
from theodolite.studies.measures.encoders import open_space, read_examples, row_fields
from theodolite.studies.steps import Action, Work
from theodolite.tasks.scores import score, spearman

# The option of a repair that gives a number of directions for 768 dimensions, to be scaled to the dimension of the space.
SCALED = "scaled_from_768"


def _measure_layers(work: Work) -> list[Row]:
    """The metrics of every layer, with intervals from as many half-samples as the setting `bootstrap` says (RP21, figure 1)."""
    space, settings = open_space(work), work.settings
    rows: list[Row] = []
    for layer in work.watched(space.layers):
        cloud = Cloud(space[layer], sample=settings["sample"], seed=settings["seed"])
        about = {**row_fields(space, layer), "setting": settings["setting"]}
        rows += shape_rows(cloud, settings["metrics"], about, bootstrap=settings["bootstrap"])
    return rows


def shape_rows(cloud: Cloud, metrics: Sequence[str], about: Mapping[str, Any], *, bootstrap: int = 0) -> list[Row]:
    """Rows of the metrics of a cloud, all with the same setting.

    Parameters
    ----------
    cloud
        The vectors.
    metrics
        Names of metrics; none gives no rows.
    about
        Further fields of the rows. Their setting replaces what a survey writes there about its half-samples, which the step's
        settings say.
    bootstrap
        How many half-samples the intervals come from; 0 gives none.
    """
    rows = metric_rows(cloud, metrics, bootstrap=bootstrap, about=about) if metrics else []
    return [replace(row, setting=about["setting"]) for row in rows]


def _cluster_structure(work: Work) -> list[Row]:
    """`between_share`, the share of the variance between k clusters, and the `silhouette` of a sample; both are at most 1 (PD22).

    Intervals come from half-samples of the rows, with the clusters of all rows.
    """
    from sklearn.metrics import silhouette_samples

    space, settings = open_space(work), work.settings
    X = np.asarray(space[settings["layer"]], dtype=np.float64)
    X -= X.mean(axis=0)  # far from the origin, distances would lose digits
    labels = nearest_centroids(X, k_means(X, settings["k"], seed=settings["seed"]).centroids)
    # A silhouette needs the distances of all pairs, so it is of a sample.
    sample = sample_rows(len(X), settings["sample"], seed=settings["seed"])
    several = len(np.unique(labels[sample])) > 1
    silhouettes = silhouette_samples(X[sample], labels[sample]) if several else np.full(len(sample), np.nan)
    about = {**row_fields(space, settings["layer"]), "setting": f"k={settings['k']}", "d": X.shape[1]}
    return [
        _half_sampled(work, "between_share", len(X), lambda rows: _between_share(X[rows], labels[rows]), about),
        _half_sampled(work, "silhouette", len(sample), lambda rows: float(silhouettes[rows].mean()), about),
    ]


def _frequency_bias(work: Work) -> list[Row]:
    """How much of a token's word frequency the top directions explain (`frequency_r2`), and how its norm goes with it (RP21).

    `norm_frequency_correlation` is Spearman's, of the norm with the frequency on the Zipf scale. Tokens without a known frequency
    are left out.
    """
    space, settings = open_space(work), work.settings
    zipf = np.asarray(space.rows["frequency"], dtype=np.float64)
    frequent = np.flatnonzero(zipf > 0)  # 0 is how a word that is in no list is marked
    X, zipf, n = np.asarray(space[settings["layer"]])[frequent], zipf[frequent], len(frequent)
    moments, norms = Moments.of(X), np.linalg.norm(X.astype(np.float64), axis=1)
    # eigh sorts eigenvalues in ascending order; the top directions are at the end.
    directions = fixed_signs(np.linalg.eigh(moments.covariance())[1][:, ::-1][:, : settings["components"]])
    components = np.asarray((X - moments.mean) @ directions)
    about = {**row_fields(space, settings["layer"]), "setting": f"top {settings['components']}", "d": X.shape[1]}
    return [
        _half_sampled(work, "frequency_r2", n, lambda rows: _explained_share(components[rows], zipf[rows]), about),
        _half_sampled(work, "norm_frequency_correlation", n, lambda rows: spearman(norms[rows], zipf[rows]), about),
    ]


def _half_sampled(work: Work, metric: str, n: int, statistic: Callable[[Any], float], about: Mapping[str, Any]) -> Row:
    """A statistic of all n rows, with an interval from seeded half-samples of them."""
    value, seed = statistic(slice(None)), work.settings["seed"]
    halves = np.array([statistic(half) for half in half_samples(n, work.settings["bootstrap"], seed=seed)])
    low, high = deviation_interval(value, halves - halves.mean() if len(halves) else None)
    reason = "" if np.isfinite(value) else "all rows fall into one cluster"
    fields = {"versions": current_versions(), "seed": seed, **about}
    return Row(metric=metric, value=value, low=low, high=high, n=n, reason=reason, **fields)


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


def _explained_share(components: Doubles, values: Doubles) -> float:
    """R² of a linear fit of the values on the components."""
    design = np.column_stack([np.ones(len(components)), components])
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return 1.0 - float(np.square(values - fitted).sum() / np.square(values - values.mean()).sum())


def _draw_layer(work: Work) -> list[Row]:
    """The layer on its first three directions: a sample of its rows, the same ones in every state."""
    space, settings = open_space(work), work.settings
    X, about = np.asarray(space[settings["layer"]]), row_fields(space, settings["layer"])
    columns = picture_columns(space, read_examples(work))
    if settings["k"]:
        clusters = nearest_centroids(X, k_means(X, settings["k"], seed=settings["seed"]).centroids)
        columns["cluster"] = [str(cluster) for cluster in clusters]
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


def _repair_scores(work: Work) -> list[Row]:
    """Scores and isotropy of one layer as it is and after each repair, and how each repair changes the score.

    Repairs are fitted on the tokens they are applied to, as in RP21. Intervals come from resampled sentence pairs, the same for
    every repair, so that the interval of a change is a paired one. The setting `baseline` names the entry of `repairs` that the
    others are compared with; `gains` are further changes, by the name of their row, each from one entry to another.
    """
    space, settings = open_space(work), work.settings
    layer, seed, baseline = settings["layer"], settings["seed"], settings["baseline"]
    pooling, fields = Pooling(space), {**row_fields(space, layer), "seed": seed}
    draws = PairDraws(pooling.scores, settings["bootstrap"], seed=seed)
    X, cosines, rows = np.asarray(space[layer]), {}, []
    for name in work.watched(list(settings["repairs"])):
        changed, removed = apply_repair(X, settings["repairs"][name], seed=seed)
        about = {**fields, "setting": name}
        cosines[name] = pooling.cosines(changed)
        rows += draws.correlations(cosines[name], about)
        if removed is not None:
            sizes = {"n": len(X), "d": X.shape[1], "versions": current_versions()}
            rows.append(Row(metric="removed_directions", value=float(removed), **about, **sizes))
        if name != baseline:
            rows.append(draws.change(cosines[baseline], cosines[name], {**about, "metric": "spearman_change"}))
        rows += shape_rows(Cloud(changed, seed=seed), settings["metrics"], {**row_fields(space, layer), "setting": name})
    for metric, (before, after) in settings["gains"].items():
        rows.append(draws.change(cosines[before], cosines[after], {**fields, "metric": metric}))
    if "cls" in work.inputs:
        # One vector per sentence: there is nothing to pool, and nothing is repaired.
        cls = open_space(work, "cls")
        order = np.lexsort((np.asarray(cls.rows["side"]), np.asarray(cls.rows["text"])))  # the two sentences of each pair
        C, scores = np.asarray(cls[layer])[order], np.asarray(cls.rows["score"], dtype=np.float64)[order]
        cls_draws = PairDraws(scores[0::2], settings["bootstrap"], seed=seed)
        rows += cls_draws.correlations(row_cosines(C[0::2], C[1::2]), {**fields, "setting": f"{baseline} [CLS]"})
    return rows


def _sweep_directions(work: Work) -> list[Row]:
    """Score and isotropy of one layer against the number of removed top directions; 0 is centring alone."""
    space, settings = open_space(work), work.settings
    pooling, X, seed, rows = Pooling(space), np.asarray(space[settings["layer"]]), settings["seed"], []
    draws = PairDraws(pooling.scores, settings["bootstrap"], seed=seed)
    for count in work.watched([count for count in settings["directions"] if count < X.shape[1]]):
        changed, _ = apply_repair(X, {"repair": "global", "n_directions": count} if count else {"repair": "zero-mean"}, seed=seed)
        about = {**row_fields(space, settings["layer"]), "setting": settings["setting"], "label": str(count)}
        rows += draws.correlations(pooling.cosines(changed), {**about, "seed": seed})
        rows += shape_rows(Cloud(changed, seed=seed), settings["metrics"], about)
    return rows


def apply_repair(X: Floats, options: Mapping[str, Any], *, seed: int) -> tuple[Floats, int | None]:
    """The rows after a repair that was fitted on them, and how many directions it removed.

    Parameters
    ----------
    X
        The vectors, (n, d).
    options
        The name of the repair under `repair`, and its options; nothing leaves the rows as they are.
    seed
        Seed of repairs that cluster.
    """
    if not options:
        return X, None
    settings = {name: value for name, value in options.items() if name not in ("repair", SCALED)}
    if SCALED in options:
        settings["n_directions"] = scaled_count(options[SCALED], X.shape[1])
    return make_repair(options["repair"], seed=seed, **settings).fit(X).transform(X), settings.get("n_directions")


class Pooling:
    """Sentences of scored pairs as the means of their tokens.

    Parameters
    ----------
    space
        Token vectors whose rows say the pair (`text`), the sentence of the pair (`side`) and the pair's `score`.
    """

    def __init__(self, space: Space) -> None:
        text, side = (np.asarray(space.rows[name]) for name in ("text", "side"))
        pairs, pair = np.unique(text, return_inverse=True)  # the numbers of texts need not be consecutive
        sentence = 2 * pair + side
        self._order = np.argsort(sentence, kind="stable")
        _, self._starts, self._counts = np.unique(sentence[self._order], return_index=True, return_counts=True)
        if len(self._starts) != 2 * len(pairs):
            raise ValueError("a sentence of a pair has no token, so that it cannot be pooled; use longer texts")
        self.scores: Doubles = np.empty(len(pairs))
        self.scores[pair] = np.asarray(space.rows["score"], dtype=np.float64)

    def cosines(self, X: Floats) -> Doubles:
        """The cosine of the two pooled sentences of each pair, for token vectors (n, d) in the order of the space."""
        # Sums over runs of sorted rows: much faster than adding each token to its sentence.
        sums = np.add.reduceat(X[self._order].astype(np.float64), self._starts, axis=0)
        means = sums / self._counts[:, None]
        return row_cosines(means[0::2], means[1::2])


class PairDraws:
    """Pairs drawn with replacement, the same draws for all that is compared with the scores of these pairs.

    Parameters
    ----------
    scores
        The score of each pair.
    count
        How many draws; 0 gives rows without intervals.
    seed
        Seed of the draws.
    """

    def __init__(self, scores: Doubles, count: int, *, seed: int) -> None:
        self.scores = scores
        self._draws: NDArray[np.intp] = np.random.default_rng(seed).integers(0, len(scores), (count, len(scores)))
        self._ranked = _ranks(scores[self._draws])  # once for all repairs: ranking is most of the work

    def change(self, before: Doubles, after: Doubles, fields: Mapping[str, Any]) -> Row:
        """Spearman's correlation after minus before, with a paired interval; `fields` has the metric's name."""
        (old, why_old), (new, why_new) = (score("spearman", self.scores, cosines) for cosines in (before, after))
        return self._row(new - old, why_old or why_new, self._spearmans(after) - self._spearmans(before), fields)

    def correlations(self, cosines: Doubles, fields: Mapping[str, Any]) -> list[Row]:
        """Spearman's and Pearson's correlation of cosines with the scores, each with its interval."""
        pearsons = _row_correlations(self.scores[self._draws], cosines[self._draws])
        draws = {"spearman": self._spearmans(cosines), "pearson": pearsons}
        return [self._row(*score(name, self.scores, cosines), draws[name], {**fields, "metric": name}) for name in draws]

    def _row(self, value: float, reason: str, draws: Doubles, fields: Mapping[str, Any]) -> Row:
        low, high = percentile_interval(draws) if np.isfinite(value) else NO_INTERVAL
        about = {"versions": current_versions(), **fields}
        return Row(value=value, reason=reason, n=len(self.scores), low=low, high=high, **about)

    def _spearmans(self, cosines: Doubles) -> Doubles:
        return _row_correlations(self._ranked, _ranks(cosines[self._draws]))


def _ranks(values: Doubles) -> Doubles:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=1), dtype=np.float64)


def _row_correlations(X: Doubles, Y: Doubles) -> Doubles:
    """Pearson's correlation of row i of X with row i of Y; nan if one of them has no spread."""
    X, Y = X - X.mean(axis=1, keepdims=True), Y - Y.mean(axis=1, keepdims=True)
    sizes = np.sqrt(np.einsum("ij,ij->i", X, X) * np.einsum("ij,ij->i", Y, Y))
    products = np.einsum("ij,ij->i", X, Y)
    return np.asarray(np.divide(products, sizes, out=np.full(len(X), np.nan), where=sizes > 0))


LAYERS = Action("layers", _measure_layers, version=2)
CLUSTERS = Action("clusters", _cluster_structure)
FREQUENCY = Action("frequency", _frequency_bias)
PICTURE = Action("picture", _draw_layer)
SPECTRUM = Action("spectrum", _keep_spectrum)
REPAIR_SCORES = Action("repairs", _repair_scores)
SWEEP = Action("sweep", _sweep_directions)
