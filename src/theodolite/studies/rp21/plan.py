"""RP21 and its reproduction PD22: layers, clusters, word frequency and repairs of a space before and after fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.folds import resample_counts, spearman_influence
from theodolite.advice.scorers import SentencePairs
from theodolite.core.kmeans import k_means, nearest_centroids
from theodolite.core.moments import Doubles, Moments
from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_rows
from theodolite.core.spectrum import fixed_signs
from theodolite.core.states import FINE_TUNED, PRE_TRAINED
from theodolite.core.vectors import Floats, Indices
from theodolite.metrics.cloud import Cloud, Undefined, moments_with_spread
from theodolite.repairs import make_repair, scaled_count
from theodolite.spaces.space import Space
from theodolite.studies.item_records import DRAW_SEED, Draws, Recorder, half_draws
from theodolite.studies.requests import Request, StudyModel
from theodolite.studies.shared_steps import PICTURE, SPECTRUM, open_space, row_fields
from theodolite.studies.steps import Action, Step, Work
from theodolite.tasks.scores import score, spearman

# The option of a repair that gives a number of directions for 768 dimensions, to be scaled to the dimension of the space.
SCALED = "scaled_from_768"
# The setting of tokens of which there are as many as [CLS] vectors.
ONE_TOKEN = "one token per sentence"  # noqa: S105
PAIRS = "sentence pairs"
STARTS = "k-means starts"


def steps(request: Request) -> list[Step]:
    """Both states of every model: before fine-tuning, and after it for every seed."""
    settings = request.settings
    tasks = request.choose_tasks([settings["task"]], kinds=["similarity"])
    if len(tasks) > 1:
        raise ValueError(f"this study measures one task at a time, not {', '.join(tasks)}; give only one")
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
    metrics, draws = settings["metrics"], {"seed": seed, "bootstrap": settings["bootstrap"]}
    planned = [
        Step(
            LAYERS, {"seed": seed, "metrics": metrics["layers"], "setting": unit, "layer": layer}, {"vectors": vectors},
            f"{state}: layer {layer}, {unit}",
        )
        for unit, vectors in (("tokens", tokens), ("cls", cls))
        for layer in layers
    ]  # fmt: skip
    for layer in layers:
        # Repairs of every layer are for one figure; all of them, with their isotropy, are of the last layer only.
        names = settings["repairs"] if layer == last else settings["layer_repairs"]
        repairs = {
            **draws,
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
    clusters = {"seed": seed, "sample": settings["sample"], "k": settings["clusters"], "starts": settings["starts"]}
    others = (
        (SWEEP, {**draws, "directions": settings["sweep"], "metrics": metrics["sweep"], "setting": "sweep global"}, "sweep"),
        (CLUSTERS, clusters, "clusters"),
        (FREQUENCY, {"seed": seed, "components": settings["components"]}, "word frequency"),
        (PICTURE, picture, "picture"),
        (SPECTRUM, {"seed": seed, "setting": "tokens"}, "spectrum"),
    )
    planned += [Step(action, {**own, "layer": last}, {"vectors": tokens}, f"{state}: {title}") for action, own, title in others]
    return planned


def _measure_layer(work: Work) -> list[Row]:
    """The metrics of a layer, with intervals over sentence pairs (figure 1).

    Tokens are measured once more with one token per sentence, as many vectors as [CLS] has: some metrics depend on the number.
    """
    space, settings, recorder = open_space(work), work.settings, Recorder()
    pair, X = SentencePairs(space).pair, np.asarray(space[settings["layer"]])
    clouds = {settings["setting"]: np.arange(space.n)}
    if settings["setting"] == "tokens":
        clouds[ONE_TOKEN] = _one_per_sentence(space)
    rows: list[Row] = []
    for setting, chosen in clouds.items():
        fields = {**row_fields(space, settings["layer"]), "setting": setting, "seed": settings["seed"]}
        try:
            moments_with_spread(Cloud(X[chosen]))
        except Undefined as error:  # [CLS] in the embeddings is one point for all texts, of which nothing must be counted
            undefined: dict[str, Any] = {"value": float("nan"), "reason": str(error), "n": len(chosen), "d": space.d}
            rows += [Row(metric=metric, versions=current_versions(), **fields, **undefined) for metric in settings["metrics"]]
            continue
        rows += recorder.shape(X[chosen], settings["metrics"], pair[chosen], PAIRS, fields)
    recorder.write(work)
    return rows


def _one_per_sentence(space: Space) -> Indices:
    """One row of each sentence, drawn at random, the same ones in every state."""
    sentence = 2 * np.asarray(space.rows["text"]) + np.asarray(space.rows["side"])
    order = np.random.default_rng(DRAW_SEED).permutation(space.n)
    return np.sort(order[np.unique(sentence[order], return_index=True)[1]])


def _cluster_structure(work: Work) -> list[Row]:
    """`between_share`, the share of the variance between k clusters, and the `silhouette` of a sample; both are at most 1 (PD22).

    Both are means over several k-means starts. Their intervals cover the starts, and the sentence pairs with the clusters held.
    """
    from sklearn.metrics import silhouette_samples

    space, settings, recorder = open_space(work), work.settings, Recorder()
    pairs = SentencePairs(space)
    X = np.asarray(space[settings["layer"]], dtype=np.float64)
    X -= X.mean(axis=0)  # far from the origin, distances would lose digits
    # A silhouette needs the distances of all pairs of rows, so it is of a sample.
    sample = sample_rows(len(X), settings["sample"], seed=DRAW_SEED)
    values: dict[str, list[float]] = {"between_share": [], "silhouette": []}
    items: dict[str, Doubles] = {}
    for start in work.watched(range(settings["starts"])):
        labels = nearest_centroids(X, k_means(X, settings["k"], seed=settings["seed"] * 1000 + start).centroids)
        several = len(np.unique(labels[sample])) > 1
        widths = silhouette_samples(X[sample], labels[sample]) if several else np.full(len(sample), np.nan)
        values["between_share"].append(_between_share(X, labels))
        values["silhouette"].append(float(widths.mean()))
        if start == 0:
            items = half_draws(pairs.pair, lambda rows, labels=labels: {"between_share": _between_share(X[rows], labels[rows])})  # type: ignore[misc]
            items |= half_draws(pairs.pair[sample], lambda rows, widths=widths: {"silhouette": float(widths[rows].mean())})  # type: ignore[misc]
    fields = {**row_fields(space, settings["layer"]), "setting": f"k={settings['k']}", "d": X.shape[1], "seed": settings["seed"]}
    rows = []
    for metric, by_start in values.items():
        value = float(np.mean(by_start))
        reason = "" if np.isfinite(value) else "all rows fall into one cluster"
        n = len(X) if metric == "between_share" else len(sample)
        row = Row(metric=metric, value=value, n=n, reason=reason, versions=current_versions(), **fields)
        rows.append(recorder.add(row, Draws(value, items[metric], len(pairs), PAIRS, by_start, STARTS)))
    recorder.write(work)
    return rows


def _frequency_bias(work: Work) -> list[Row]:
    """How much of a token's word frequency the top directions explain (`frequency_r2`), and how its norm goes with it.

    `norm_frequency_correlation` is Spearman's, of the norm with the frequency on the Zipf scale. Tokens without a known frequency
    are left out. Intervals are over sentence pairs; the directions are fitted again in every half of them.
    """
    space, settings, recorder = open_space(work), work.settings, Recorder()
    zipf, pairs = np.asarray(space.rows["frequency"], dtype=np.float64), SentencePairs(space)
    frequent = np.flatnonzero(zipf > 0)  # 0 is how a word that is in no list is marked
    X, zipf, pair = np.asarray(space[settings["layer"]])[frequent], zipf[frequent], pairs.pair[frequent]

    def numbers(rows: Indices | slice) -> dict[str, float]:
        norms = np.linalg.norm(X[rows].astype(np.float64), axis=1)
        explained = _explained_share(_top_components(X[rows], settings["components"]), zipf[rows])
        return {"frequency_r2": explained, "norm_frequency_correlation": spearman(norms, zipf[rows])}

    items = half_draws(pair, numbers)
    fields = {**row_fields(space, settings["layer"]), "setting": f"top {settings['components']}", "n": len(X), "d": X.shape[1]}
    rows = []
    for metric, value in numbers(slice(None)).items():
        row = Row(metric=metric, value=value, seed=settings["seed"], versions=current_versions(), **fields)
        rows.append(recorder.add(row, Draws(value, items[metric], len(pairs), PAIRS)))
    recorder.write(work)
    return rows


def _top_components(X: Floats, count: int) -> Doubles:
    """The rows on their first principal directions."""
    moments = Moments.of(X)
    # eigh sorts eigenvalues in ascending order; the top directions are at the end.
    directions = fixed_signs(np.linalg.eigh(moments.covariance())[1][:, ::-1][:, :count])
    return np.asarray((X - moments.mean) @ directions)


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
    layer, seed, baseline, pairs = settings["layer"], settings["seed"], settings["baseline"], SentencePairs(space)
    scores = PairScores(pairs, settings["bootstrap"])
    X, fields, rows = np.asarray(space[layer]), {**row_fields(space, layer), "seed": seed}, []
    cosines: dict[str, list[Doubles]] = {}
    for name in work.watched(list(settings["repairs"])):
        options = settings["repairs"][name]
        starts = settings["starts"] if "n_clusters" in options else 1
        changed, removed = X, None
        cosines[name] = []
        for start in reversed(range(starts)):  # what is measured of the vectors is of the first start, which comes last
            changed, removed = apply_repair(X, options, seed=seed * 1000 + start)
            cosines[name].insert(0, pairs.cosines(changed))
        repaired = {**fields, "setting": name}
        rows += scores.correlations(cosines[name], repaired, recorder)
        if removed is not None:
            sizes = {"n": len(X), "d": X.shape[1], "versions": current_versions()}
            rows.append(Row(metric="removed_directions", value=float(removed), **repaired, **sizes))
        if name != baseline:
            rows.append(scores.change(cosines[baseline], cosines[name], {**repaired, "metric": "spearman_change"}, recorder))
        rows += recorder.shape(changed, settings["metrics"], pairs.pair, PAIRS, repaired)
    for metric, (before, after) in settings["gains"].items():
        rows.append(scores.change(cosines[before], cosines[after], {**fields, "metric": metric}, recorder))
    cls = open_space(work, "cls")  # one vector per sentence: there is nothing to pool, and nothing is repaired
    name = f"{baseline} [CLS]"
    cosines[name] = [SentencePairs(cls).cosines(np.asarray(cls[layer]))]
    rows += scores.correlations(cosines[name], {**fields, "setting": name}, recorder)
    recorder.write(work)
    _keep_cosines(work, cosines, pairs.scores, fields)
    return rows


def _keep_cosines(work: Work, cosines: Mapping[str, list[Doubles]], scores: Doubles, fields: Mapping[str, Any]) -> None:
    """Keep the cosine of every sentence pair after every repair and k-means start, next to its score."""
    import pyarrow

    shared = {name: fields[name] for name in ("model", "state", "task", "split", "layer", "seed")}
    records = [
        {**shared, "setting": setting, "start": start, "scores": scores.tolist(), "cosines": values.astype(np.float32).tolist()}
        for setting, by_start in cosines.items()
        for start, values in enumerate(by_start)
    ]
    work.write_records("pairs", pyarrow.Table.from_pylist(records))


def _sweep_directions(work: Work) -> list[Row]:
    """Score and isotropy of one layer against the number of removed top directions; 0 is centring alone."""
    space, settings, recorder = open_space(work), work.settings, Recorder()
    pairs, X, rows = SentencePairs(space), np.asarray(space[settings["layer"]]), []
    scores = PairScores(pairs, settings["bootstrap"])
    fields = {**row_fields(space, settings["layer"]), "setting": settings["setting"], "seed": settings["seed"]}
    for count in work.watched([count for count in settings["directions"] if count < X.shape[1]]):
        changed, _ = apply_repair(X, {"repair": "global", "n_directions": count} if count else {"repair": "zero-mean"}, seed=0)
        at = {**fields, "label": str(count)}
        rows += scores.correlations([pairs.cosines(changed)], at, recorder)
        rows += recorder.shape(changed, settings["metrics"], pairs.pair, PAIRS, at)
    recorder.write(work)
    return rows


def apply_repair(X: Floats, options: Mapping[str, Any], *, seed: int) -> tuple[Floats, int | None]:
    """The rows after a repair that was fitted on them, and how many directions it removed; no options leave them as they are."""
    if not options:
        return X, None
    settings = {name: value for name, value in options.items() if name not in ("repair", SCALED)}
    if SCALED in options:
        settings["n_directions"] = scaled_count(options[SCALED], X.shape[1])
    return make_repair(options["repair"], seed=seed, **settings).fit(X).transform(X), settings.get("n_directions")


class PairScores:
    """Correlations of cosines with the scores of pairs; the same resamples of the pairs, `draws` of them, for all cosines."""

    def __init__(self, pairs: SentencePairs, draws: int) -> None:
        self._scores = pairs.scores
        self._counts = resample_counts(np.arange(len(pairs)), draws, seed=DRAW_SEED) if draws else np.empty((0, len(pairs)))

    def correlations(self, cosines: Sequence[Doubles], fields: Mapping[str, Any], recorder: Recorder) -> list[Row]:
        """Spearman's correlation with its interval, and Pearson's, both means over k-means starts."""
        shared = {"n": len(self._scores), "versions": current_versions(), **fields}
        value, reason, items, by_start = self._spearman(cosines)
        row = Row(metric="spearman", value=value, reason=reason, **shared)
        numbers = [score("pearson", self._scores, values) for values in cosines]
        pearson = Row(metric="pearson", value=float(np.mean([n for n, _ in numbers])), reason=numbers[0][1], **shared)
        return [recorder.add(row, self._draws(value, items, by_start)), pearson]

    def change(self, before: Sequence[Doubles], after: Sequence[Doubles], fields: Mapping[str, Any], recorder: Recorder) -> Row:
        """Spearman's correlation after minus before, means over k-means starts; `fields` has the metric's name."""
        (old, why, old_items, old_starts), (new, why_not, new_items, new_starts) = map(self._spearman, (before, after))
        # Starts are not paired; those of the side without any add nothing.
        by_start = [value - old for value in new_starts] if len(new_starts) > 1 else [new - value for value in old_starts]
        row = Row(value=new - old, reason=why or why_not, n=len(self._scores), versions=current_versions(), **fields)
        return recorder.add(row, self._draws(row.value, new_items - old_items, by_start))

    def _draws(self, value: float, items: Doubles, by_start: Sequence[float]) -> Draws:
        return Draws(value, items, len(self._scores), PAIRS, *((by_start, STARTS) if len(by_start) > 1 else ((), "")))

    def _spearman(self, cosines: Sequence[Doubles]) -> tuple[float, str, Doubles, list[float]]:
        """The mean over starts, why it is not defined, its resamples, and the value of every start."""
        values, reasons = zip(*(score("spearman", self._scores, by_start) for by_start in cosines), strict=True)
        resampled = []
        for by_start in cosines:
            correlation, influence = spearman_influence(self._scores, by_start)
            resampled.append(correlation + self._counts @ influence / len(self._scores))
        return float(np.mean(values)), next(filter(None, reasons), ""), np.mean(resampled, axis=0), list(values)


LAYERS = Action("layers", _measure_layer, version=4)
CLUSTERS = Action("clusters", _cluster_structure, version=3)
FREQUENCY = Action("frequency", _frequency_bias, version=3)
REPAIR_SCORES = Action("repairs", _repair_scores, version=3)
SWEEP = Action("sweep", _sweep_directions, version=3)
