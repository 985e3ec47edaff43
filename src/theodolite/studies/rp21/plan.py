"""RP21 and its reproduction PD22: layers, clusters, word frequency and repairs of a space before and after fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.repair_scores import row_cosines
from theodolite.core.kmeans import k_means, nearest_centroids
from theodolite.core.moments import Doubles, Moments
from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_rows
from theodolite.core.spectrum import fixed_signs
from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.core.vectors import Floats
from theodolite.metrics.cloud import Cloud, Undefined, moments_with_spread
from theodolite.metrics.evaluation import metric_rows
from theodolite.metrics.registry import METRICS
from theodolite.repairs import make_repair, scaled_count
from theodolite.spaces.space import Space
from theodolite.studies.item_records import (
    DRAW_SEED,
    Draws,
    Recorder,
    group_draws,
    jackknife_draws,
    pair_numbers,
    partition_draws,
    resample_counts,
    resampled_items,
)
from theodolite.studies.planning import Request, StudyModel
from theodolite.studies.shared_steps import PICTURE, SPECTRUM, open_space, row_fields
from theodolite.studies.steps import Action, Step, Work
from theodolite.tasks.scores import score, spearman

# The option of a repair that gives a number of directions for 768 dimensions, to be scaled to the dimension of the space.
SCALED = "scaled_from_768"
# The setting of tokens of which there are as many as [CLS] vectors.
ONE_TOKEN = "one token per sentence"  # noqa: S105
# Metrics whose draws come from sums over sentences, and whether they are of the cloud at unit mean norm.
PARTITIONS = {"log_partition_isotropy": False, "log_partition_isotropy_unit_norm": True}
PAIRS = "sentence pairs"
STARTS = "k-means starts"


def _measure_layers(work: Work) -> list[Row]:
    """The metrics of every layer, with intervals over sentence pairs (RP21, figure 1).

    Tokens are measured once more with one token per sentence, as many vectors as [CLS] has: some metrics depend on the number.
    """
    space, settings, recorder = open_space(work), work.settings, Recorder()
    unit, rows = pair_numbers(space), []
    counts = resample_counts(int(unit.max()) + 1, settings["bootstrap"])
    settings_rows = {settings["setting"]: np.arange(space.n)}
    if settings["setting"] == "tokens":
        settings_rows[ONE_TOKEN] = _one_per_sentence(space)
    for layer in work.watched(space.layers):
        for setting, chosen in settings_rows.items():
            about = {**row_fields(space, layer), "setting": setting}
            rows += _recorded_shape(np.asarray(space[layer])[chosen], unit[chosen], counts, settings, about, recorder)
    recorder.write(work)
    return rows


def _one_per_sentence(space: Space) -> NDArray[np.intp]:
    """One row of each sentence, drawn at random, the same ones in every state."""
    sentence = 2 * np.asarray(space.rows["text"]) + np.asarray(space.rows["side"])
    order = np.random.default_rng(DRAW_SEED).permutation(space.n)
    return np.sort(order[np.unique(sentence[order], return_index=True)[1]])


def _recorded_shape(
    X: Floats,
    unit: NDArray[np.intp],
    counts: Doubles,
    settings: Mapping[str, Any],
    about: Mapping[str, Any],
    recorder: Recorder,
) -> list[Row]:
    """Rows of the metrics of a cloud, with intervals over units, whose draws are kept."""
    cloud = Cloud(X, sample=settings["sample"], seed=settings["seed"])
    try:
        moments_with_spread(cloud)
    except Undefined as error:  # [CLS] in the embeddings is one point for all texts, of which nothing must be counted
        fields = {**about, "value": float("nan"), "reason": str(error), "n": cloud.n, "d": cloud.d, "seed": settings["seed"]}
        return [Row(metric=metric, versions=current_versions(), **fields) for metric in settings["metrics"]]
    items: dict[str, Doubles] = {}
    for metric in settings["metrics"]:
        if metric in PARTITIONS:
            items[metric] = partition_draws(X, unit, counts, unit_norm=PARTITIONS[metric])[1]
    spectral = {name: METRICS[name].function for name in settings["metrics"] if METRICS[name].needs == "moments"}
    items |= jackknife_draws(X, unit, spectral) if spectral else {}
    n = counts.shape[1]
    return [
        recorder.add(row, Draws(row.value, items[row.metric], n, PAIRS)) if row.metric in items else row
        for row in shape_rows(cloud, settings["metrics"], about)
    ]


def shape_rows(cloud: Cloud, metrics: Sequence[str], about: Mapping[str, Any]) -> list[Row]:
    """Rows of the metrics of a cloud, all with the same setting.

    Parameters
    ----------
    cloud
        The vectors.
    metrics
        Names of metrics; none gives no rows.
    about
        Further fields of the rows. Their setting replaces what a survey writes there about its sample, which the step's settings
        say.
    """
    rows = metric_rows(cloud, metrics, about=about) if metrics else []
    return [replace(row, setting=about["setting"]) for row in rows]


def _cluster_structure(work: Work) -> list[Row]:
    """`between_share`, the share of the variance between k clusters, and the `silhouette` of a sample; both are at most 1 (PD22).

    Both are means over several k-means starts. Their intervals cover the starts, and the sentence pairs with the clusters held.
    """
    from sklearn.metrics import silhouette_samples

    space, settings, recorder = open_space(work), work.settings, Recorder()
    unit = pair_numbers(space)
    X = np.asarray(space[settings["layer"]], dtype=np.float64)
    X -= X.mean(axis=0)  # far from the origin, distances would lose digits
    # A silhouette needs the distances of all pairs of rows, so it is of a sample.
    sample = sample_rows(len(X), settings["sample"], seed=DRAW_SEED)
    shares, silhouettes = [], []
    items: dict[str, Doubles] = {}
    for start in work.watched(range(settings["starts"])):
        labels = nearest_centroids(X, k_means(X, settings["k"], seed=settings["seed"] * 1000 + start).centroids)
        several = len(np.unique(labels[sample])) > 1
        widths = silhouette_samples(X[sample], labels[sample]) if several else np.full(len(sample), np.nan)
        shares.append(_between_share(X, labels))
        silhouettes.append(float(widths.mean()))
        if not items:
            # Bound now: the loop changes the names.
            share = partial(lambda rows, labels: _between_share(X[rows], labels[rows]), labels=labels)
            items["between_share"] = group_draws(unit, share)
            items["silhouette"] = group_draws(
                unit[sample], partial(lambda rows, widths: float(widths[rows].mean()), widths=widths)
            )
    about = {**row_fields(space, settings["layer"]), "setting": f"k={settings['k']}", "d": X.shape[1]}
    rows = []
    for metric, values, n in (("between_share", shares, len(X)), ("silhouette", silhouettes, len(sample))):
        value = float(np.mean(values))
        reason = "" if np.isfinite(value) else "all rows fall into one cluster"
        row = Row(metric=metric, value=value, n=n, reason=reason, seed=settings["seed"], versions=current_versions(), **about)
        rows.append(recorder.add(row, Draws(value, items[metric], int(unit.max()) + 1, PAIRS, values, STARTS)))
    recorder.write(work)
    return rows


def _frequency_bias(work: Work) -> list[Row]:
    """How much of a token's word frequency the top directions explain (`frequency_r2`), and how its norm goes with it (RP21).

    `norm_frequency_correlation` is Spearman's, of the norm with the frequency on the Zipf scale. Tokens without a known frequency
    are left out. Intervals are over sentence pairs, with the directions held.
    """
    space, settings, recorder = open_space(work), work.settings, Recorder()
    zipf = np.asarray(space.rows["frequency"], dtype=np.float64)
    frequent = np.flatnonzero(zipf > 0)  # 0 is how a word that is in no list is marked
    X, zipf, n, unit = np.asarray(space[settings["layer"]])[frequent], zipf[frequent], len(frequent), pair_numbers(space)
    counts, unit = resample_counts(int(unit.max()) + 1, settings["bootstrap"]), unit[frequent]
    moments, norms = Moments.of(X), np.linalg.norm(X.astype(np.float64), axis=1)
    # eigh sorts eigenvalues in ascending order; the top directions are at the end.
    directions = fixed_signs(np.linalg.eigh(moments.covariance())[1][:, ::-1][:, : settings["components"]])
    components = np.asarray((X - moments.mean) @ directions)
    about = {**row_fields(space, settings["layer"]), "setting": f"top {settings['components']}", "d": X.shape[1]}
    numbers = {
        "frequency_r2": (_explained_share(components, zipf), _explained_draws(components, zipf, unit, counts)),
        "norm_frequency_correlation": (
            spearman(norms, zipf),
            group_draws(unit, lambda rows: spearman(norms[rows], zipf[rows])),
        ),
    }
    rows = []
    for metric, (value, items) in numbers.items():
        row = Row(metric=metric, value=value, n=n, seed=settings["seed"], versions=current_versions(), **about)
        rows.append(recorder.add(row, Draws(value, items, counts.shape[1], PAIRS)))
    recorder.write(work)
    return rows


def _explained_draws(components: Doubles, values: Doubles, unit: NDArray[np.intp], counts: Doubles) -> Doubles:
    """R² in every resample of the units, from their sums of products."""
    columns = np.column_stack([np.ones(len(values)), components, values])
    order = np.argsort(unit, kind="stable")
    present, starts = np.unique(unit[order], return_index=True)
    products = (columns[:, :, None] * columns[:, None, :]).reshape(len(values), -1)[order]
    width = columns.shape[1]
    resampled = (counts[:, present] @ np.add.reduceat(products, starts, axis=0)).reshape(-1, width, width)
    shares = []
    for sums in resampled:
        fit = np.linalg.lstsq(sums[:-1, :-1], sums[:-1, -1], rcond=None)[0]
        total = sums[-1, -1] - sums[0, -1] ** 2 / sums[0, 0]
        shares.append(1.0 - (sums[-1, -1] - sums[:-1, -1] @ fit) / total)
    return np.array(shares)


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


def _repair_scores(work: Work) -> list[Row]:
    """Scores and isotropy of one layer as it is and after each repair, and how each repair changes the score.

    Repairs are fitted on the tokens they are applied to, as in RP21; those that cluster are means over several k-means starts.
    Intervals come from resampled sentence pairs, the same for every repair, and from the starts. The setting `baseline` names the
    entry of `repairs` that the others are compared with; `gains` are further changes, by the name of their row, each from one
    entry to another. The cosine of every pair is kept.
    """
    space, settings, recorder = open_space(work), work.settings, Recorder()
    layer, seed, baseline = settings["layer"], settings["seed"], settings["baseline"]
    pooling, fields = Pooling(space), {**row_fields(space, layer), "seed": seed}
    draws = PairDraws(pooling.scores, settings["bootstrap"])
    X, rows = np.asarray(space[layer]), []
    cosines: dict[str, list[Doubles]] = {}
    unit = pair_numbers(space)
    counts = resample_counts(len(pooling.scores), settings["bootstrap"])
    for name in work.watched(list(settings["repairs"])):
        options = settings["repairs"][name]
        starts = settings["starts"] if "n_clusters" in options else 1
        changed: Floats = X
        removed, cosines[name] = None, []
        for start in reversed(range(starts)):  # what is measured of the vectors is of the first start, which comes last
            changed, removed = apply_repair(X, options, seed=seed * 1000 + start)
            cosines[name].insert(0, pooling.cosines(changed))
        about = {**fields, "setting": name}
        rows += [recorder.add(*pair) for pair in draws.correlations(cosines[name], about)]
        if removed is not None:
            sizes = {"n": len(X), "d": X.shape[1], "versions": current_versions()}
            rows.append(Row(metric="removed_directions", value=float(removed), **about, **sizes))
        if name != baseline:
            rows.append(recorder.add(*draws.change(cosines[baseline], cosines[name], {**about, "metric": "spearman_change"})))
        for row in shape_rows(Cloud(changed, seed=seed), settings["metrics"], {**row_fields(space, layer), "setting": name}):
            if row.metric in PARTITIONS:
                items = partition_draws(changed, unit, counts, unit_norm=PARTITIONS[row.metric])[1]
                rows.append(recorder.add(row, Draws(row.value, items, counts.shape[1], PAIRS)))
            else:
                rows.append(row)
    for metric, (before, after) in settings["gains"].items():
        rows.append(recorder.add(*draws.change(cosines[before], cosines[after], {**fields, "metric": metric})))
    if "cls" in work.inputs:
        # One vector per sentence: there is nothing to pool, and nothing is repaired.
        cls = open_space(work, "cls")
        order = np.lexsort((np.asarray(cls.rows["side"]), np.asarray(cls.rows["text"])))  # the two sentences of each pair
        C, name = np.asarray(cls[layer])[order], f"{baseline} [CLS]"
        cosines[name] = [row_cosines(C[0::2], C[1::2])]
        rows += [recorder.add(*pair) for pair in draws.correlations(cosines[name], {**fields, "setting": name})]
    recorder.write(work)
    _keep_cosines(work, cosines, pooling.scores, fields)
    return rows


def _keep_cosines(work: Work, cosines: Mapping[str, list[Doubles]], scores: Doubles, fields: Mapping[str, Any]) -> None:
    """Keep the cosine of every sentence pair after every repair and k-means start, next to its score."""
    import pyarrow

    about = {name: fields[name] for name in ("model", "state", "task", "split", "layer", "seed")}
    records = [
        {**about, "setting": setting, "start": start, "scores": scores.tolist(), "cosines": values.astype(np.float32).tolist()}
        for setting, by_start in cosines.items()
        for start, values in enumerate(by_start)
    ]
    work.write_records("pairs", pyarrow.Table.from_pylist(records))


def _sweep_directions(work: Work) -> list[Row]:
    """Score and isotropy of one layer against the number of removed top directions; 0 is centring alone."""
    space, settings, recorder = open_space(work), work.settings, Recorder()
    pooling, X, seed, rows = Pooling(space), np.asarray(space[settings["layer"]]), settings["seed"], []
    draws, unit = PairDraws(pooling.scores, settings["bootstrap"]), pair_numbers(space)
    counts = resample_counts(len(pooling.scores), settings["bootstrap"])
    for count in work.watched([count for count in settings["directions"] if count < X.shape[1]]):
        changed, _ = apply_repair(X, {"repair": "global", "n_directions": count} if count else {"repair": "zero-mean"}, seed=seed)
        about = {**row_fields(space, settings["layer"]), "setting": settings["setting"], "label": str(count)}
        rows += [recorder.add(*pair) for pair in draws.correlations([pooling.cosines(changed)], {**about, "seed": seed})]
        for row in shape_rows(Cloud(changed, seed=seed), settings["metrics"], about):
            if row.metric in PARTITIONS:
                items = partition_draws(changed, unit, counts, unit_norm=PARTITIONS[row.metric])[1]
                rows.append(recorder.add(row, Draws(row.value, items, counts.shape[1], PAIRS)))
            else:
                rows.append(row)
    recorder.write(work)
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
    """

    def __init__(self, scores: Doubles, count: int) -> None:
        self.scores = scores
        self._draws = resampled_items(len(scores), count)
        self._ranked = _ranks(scores[self._draws])  # once for all repairs: ranking is most of the work

    def change(self, before: Sequence[Doubles], after: Sequence[Doubles], fields: Mapping[str, Any]) -> tuple[Row, Draws]:
        """Spearman's correlation after minus before, means over k-means starts; `fields` has the metric's name."""
        old, new = self._number("spearman", before), self._number("spearman", after)
        # Starts are not paired; those of the side without any add nothing.
        repeats = [value - old[0] for value in new[3]] if len(new[3]) > 1 else [new[0] - value for value in old[3]]
        return self._row(new[0] - old[0], old[1] or new[1], new[2] - old[2], repeats, fields)

    def correlations(self, cosines: Sequence[Doubles], fields: Mapping[str, Any]) -> list[tuple[Row, Draws]]:
        """Spearman's and Pearson's correlation of cosines with the scores, means over k-means starts, each with its draws."""
        return [self._row(*self._number(name, cosines), {**fields, "metric": name}) for name in ("spearman", "pearson")]

    def _number(self, name: str, cosines: Sequence[Doubles]) -> tuple[float, str, Doubles, list[float]]:
        """The mean over starts, why it is not defined, its draws, and the value of every start."""
        values, reasons = zip(*(score(name, self.scores, each) for each in cosines), strict=True)
        draws = np.mean([self._spearmans(each) if name == "spearman" else self._pearsons(each) for each in cosines], axis=0)
        return float(np.mean(values)), next(filter(None, reasons), ""), draws, list(values)

    def _row(
        self, value: float, reason: str, items: Doubles, repeats: Sequence[float], fields: Mapping[str, Any]
    ) -> tuple[Row, Draws]:
        row = Row(value=value, reason=reason, n=len(self.scores), **{"versions": current_versions(), **fields})
        starts = (repeats, STARTS) if len(repeats) > 1 else ((), "")
        return row, Draws(value, items, len(self.scores), PAIRS, *starts)

    def _spearmans(self, cosines: Doubles) -> Doubles:
        return _row_correlations(self._ranked, _ranks(cosines[self._draws]))

    def _pearsons(self, cosines: Doubles) -> Doubles:
        return _row_correlations(self.scores[self._draws], cosines[self._draws])


def _ranks(values: Doubles) -> Doubles:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=1), dtype=np.float64)


def _row_correlations(X: Doubles, Y: Doubles) -> Doubles:
    """Pearson's correlation of row i of X with row i of Y; nan if one of them has no spread."""
    X, Y = X - X.mean(axis=1, keepdims=True), Y - Y.mean(axis=1, keepdims=True)
    sizes = np.sqrt(np.einsum("ij,ij->i", X, X) * np.einsum("ij,ij->i", Y, Y))
    products = np.einsum("ij,ij->i", X, Y)
    return np.asarray(np.divide(products, sizes, out=np.full(len(X), np.nan), where=sizes > 0))


LAYERS = Action("layers", _measure_layers, version=3)
CLUSTERS = Action("clusters", _cluster_structure, version=2)
FREQUENCY = Action("frequency", _frequency_bias, version=2)
REPAIR_SCORES = Action("repairs", _repair_scores, version=2)
SWEEP = Action("sweep", _sweep_directions, version=2)


def steps(request: Request) -> list[Step]:
    """Repairs of a space before and after fine-tuning, its layers, clusters and frequencies (RP21, and its reproduction PD22)."""
    settings = request.settings
    tasks = request.choose_tasks([settings["task"]], kinds=["similarity"])
    if len(tasks) > 1:
        raise ValueError(f"this study measures one task at a time, not {', '.join(tasks)}; give one of them")
    planned: list[Step] = []
    for model in request.models:
        planned += _state_steps(request, model, tasks[0], None, 0)  # has no seed of its own: the one of its samples is 0
        for seed in request.choose_seeds():
            tuned = request.tuning_step(model, tasks[0], seed)
            planned += [tuned, *_state_steps(request, model, tasks[0], tuned, seed)]
    return planned


def _state_steps(request: Request, model: StudyModel, task: str, tuned: Step | None, seed: int) -> list[Step]:
    """All that is measured of one state of a model."""
    settings, last = request.settings, model.last_layer
    split = request.choose_split(task, settings["split"])
    layers = sorted({*request.choose_layers(model), last})  # tables and claims are of the last layer, whatever was asked for
    tokens, cls = (
        request.vectors_step(model, task, split, tuned=tuned, unit=unit, layers=layers, examples=settings["examples"])
        for unit in ("tokens", "cls")
    )
    state = f"{model.name}, {FINE_TUNED if tuned else PRE_TRAINED}"
    pairs = {"seed": seed, "bootstrap": settings["bootstrap"]}
    sampled = {**pairs, "sample": settings["sample"]}
    metrics = settings["metrics"]
    planned = [
        Step(LAYERS, {**sampled, "metrics": metrics["layers"], "setting": unit}, {"vectors": vectors}, f"{state}: layers, {unit}")
        for unit, vectors in (("tokens", tokens), ("cls", cls))
    ]
    for layer in layers:
        # Repairs of every layer are for one figure; all of them, with their isotropy, are of the last layer only.
        names = settings["repairs"] if layer == last else settings["layer_repairs"]
        repairs = {
            **pairs,
            "layer": layer,
            "repairs": {name: settings["repairs"][name] for name in names},
            "baseline": settings["baseline"],
            "gains": {name: pair for name, pair in settings["gains"].items() if set(pair) <= set(names)},
            "metrics": metrics["repairs"] if layer == last else [],
            "starts": settings["starts"] if layer == last else 1,
        }
        planned.append(Step(REPAIR_SCORES, repairs, {"vectors": tokens, "cls": cls}, f"{state}: repairs of layer {layer}"))
    # The texts themselves are not in a space of tokens: a picture reads them from the task again.
    texts = {name: tokens.settings[name] for name in ("model", "task", "split", "examples")}
    picture = {**texts, "seed": seed, "points": settings["points"], "k": settings["clusters"]}
    others = (
        (SWEEP, {**pairs, "directions": settings["sweep"], "metrics": metrics["sweep"], "setting": "sweep global"}, "sweep"),
        (CLUSTERS, {**sampled, "k": settings["clusters"], "starts": settings["starts"]}, "clusters"),
        (FREQUENCY, {**pairs, "components": settings["components"]}, "word frequency"),
        (PICTURE, picture, "picture"),
        (SPECTRUM, {"setting": "tokens"}, "spectrum"),
    )
    planned += [Step(action, {**own, "layer": last}, {"vectors": tokens}, f"{state}: {title}") for action, own, title in others]
    return planned
