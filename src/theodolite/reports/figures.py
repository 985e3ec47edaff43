"""The figures: which rows of a result each one shows and how it draws them, declared in one table in reading order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from theodolite.core.rows import Row
from theodolite.core.states import BEFORE, FINE_TUNING, PRE_TRAINED, state_order
from theodolite.metrics.registry import LAYER_METRICS, axis_of
from theodolite.reports.cloud_display import cloud_displays
from theodolite.reports.displays import Display, FigureSpec, grouped, has_intervals, of_last_layer, records_of
from theodolite.reports.label_displays import HeatMapSpec, MovementSpec, PlaceMapSpec, path_displays
from theodolite.reports.overviews import overview_displays, similarity_displays
from theodolite.reports.row_plots import DotSpec, LineSpec, XAxis, has_arrows
from theodolite.reports.theme import ALL_PAIRS, CHANCE, chance_pens, growth_pens, ramp_pens, unit_pens
from theodolite.reports.wording import unique_names, with_states_by_origin

if TYPE_CHECKING:
    from theodolite.core.result import Result

# Settings of a study's rows that say what the vectors are of.
UNITS = {"tokens": "tokens", "cls": "[CLS]"}
# How the setting of a row begins whose model was tuned on another task than the one it is probed on.
TUNED_ELSEWHERE = "tuned on "
# Parts of speech that ZS22 says are apart from the others in figures 7 to 10.
APART = ("INTJ", "SYM")
SCORES = ("accuracy", "matthews")
MAJORITY = "majority_accuracy"
# States of the rows of `advise`.
ADVICE_STATES = ("repair", "compression", "layer", "choice")
MEAN_DISTANCE = "mean_minimum_distance"
# Directions that make a curve: EV 1 to 3 are in a table, and the spectrum shows them all.
FEWEST_DIRECTIONS = 4
# How the names of EV of centred vectors end.
CENTRED = "_centered"
SPECTRUM = "eigenvalue_share"
PROBABILITY, MATCH_SHARE = "match_probability", "match_share"
# Shares of the variance below this are rounding error of single precision, and would stretch a logarithmic axis.
LEAST_SHARE = 1e-8
SPECTRUM_COLUMNS = ("model", "state", "layer", "setting", "k", "value")
# What the lines of a probe's layers are called.
PROBED_LINES = {
    "hull_accuracy": "nearest hull",
    "probe_accuracy": "classifier",
    "majority_accuracy": "most frequent label",
    "smallest_gap": "labels",
    "shuffled_gap": "shuffled labels",
}
SHARES = {"movement_share_1": "on one direction", "movement_share_2": "on two directions"}


def displays_of(result: Result) -> list[Display]:
    """All figures that a result has numbers for, in reading order, each with a name of its own.

    Parameters
    ----------
    result
        What a verb returned, or `Result.load` read.

    Examples
    --------
    >>> from theodolite.core.result import Result
    >>> from theodolite.core.rows import Row
    >>> rows = tuple(Row(metric="iso_score", value=0.1 * layer, model="m", layer=layer) for layer in range(3))
    >>> (display,) = displays_of(Result(verb="survey", rows=rows))
    >>> display.name, display.frame()["layer"].tolist()
    ('isotropy-by-layer-iso_score', [0, 1, 2])
    """
    result = with_states_by_origin(result)
    displays = [
        *overview_displays(result),
        *(_training_figure(result).displays(result) if result.verb == "tune" else ()),
        *(display for spec in (PLACES, _gain_figure(result)) for display in spec.displays(result) if result.verb == "advise"),
        *(PROBED.displays(result) if result.verb == "probe" else ()),
        *similarity_displays(result),
        *(display for spec in CALIBRATION for display in spec.displays(result) if result.verb == "calibrate"),
        *(display for spec in MIGRATION for display in spec.displays(result) if result.verb == "migrate"),
        *cloud_displays(result.pictures),
        *(display for figure in FIGURES for display in figure.displays(result)),
        *path_displays(result),
    ]
    names = unique_names(display.name for display in displays)
    return [replace(display, name=name) for display, name in zip(displays, names, strict=True)]


def _layer_lines(rows: Sequence[Row]) -> list[Row]:
    """Lines over two layers or more; of rows over training steps, the first step of a run and its last."""
    rows = [row for row in rows if row.layer is not None and not row.label]
    # If a model has rows of units, its other settings are repairs, which have a figure of their own.
    with_units = {row.model for row in rows if row.setting in UNITS}
    rows = [row for row in rows if row.setting in UNITS or row.model not in with_units]
    ends: list[Row] = []
    for run in grouped(rows, lambda row: (row.model, row.task, row.seed)).values():
        steps = {row.step for row in run if row.step is not None}
        ends += [row for row in run if row.step is None or row.step in (min(steps), max(steps))]
    lines = grouped(ends, lambda row: (row.model, row.task, _state_unit_step(row), row.seed, row.step)).values()
    return sorted((row for line in lines if len({row.layer for row in line}) > 1 for row in line), key=lambda row: row.layer or 0)


def _state_unit_step(row: Row) -> str:
    """The state of a row, what its vectors are of, and whether it is of the first training step or the last."""
    step = "" if row.step is None else "last step" if row.step else "before step 1"
    return ", ".join(filter(None, (row.state, UNITS.get(row.setting, ""), step)))


def _spectrum_rows(result: Result) -> list[Row]:
    """The shares of the variance on every direction as rows whose label is the direction."""
    # As rows, so that the display that draws lines of rows draws these too.
    rows, lines = [], records_of(result, "spectra", SPECTRUM_COLUMNS)
    sizes: dict[tuple[Any, ...], int] = {}
    for line in lines:
        cloud = (line["model"], line["state"], line["setting"], line["layer"])
        sizes[cloud] = max(int(line["k"]), sizes.get(cloud, 0))
    for line in lines:
        if line["value"] is not None and line["value"] < LEAST_SHARE:
            continue
        fields: dict[str, Any] = {name: str(line[name] or "") for name in ("model", "state", "setting")}
        fields |= {"layer": max(0, int(line["layer"] or 0)), "label": str(int(line["k"]))}
        fields["seed"] = None if line.get("seed") is None else int(line["seed"])
        fields["d"] = sizes[line["model"], line["state"], line["setting"], line["layer"]]
        value = math.nan if line["value"] is None else float(line["value"])
        rows.append(Row(metric=SPECTRUM, value=value, reason="not known" if math.isnan(value) else "", **fields))
    return rows


def _probability_rows(result: Result) -> list[Row]:
    """The map from cosine to the probability of a match as rows whose label is the cosine, and how often pairs match at all."""
    rows = [
        Row(metric=PROBABILITY, value=line["probability"], low=line["low"], high=line["high"], label=str(line["cosine"]))
        for line in records_of(result, "probability", ("cosine", "probability", "low", "high"))
    ]
    matches, others = (
        next((row.n for row in result.rows if row.metric == f"{name}_above"), None) for name in ("matches", "non_matches")
    )
    if rows and matches and others:
        share = matches / (matches + others)
        rows += [replace(row, metric=MATCH_SHARE, value=share, low=None, high=None) for row in (rows[0], rows[-1])]
    return rows


def _last_curves(rows: Sequence[Row]) -> list[Row]:
    """The curve of the last training step and layer of each model, task, state and seed, if it has enough directions."""
    curves: list[Row] = []
    kinds = grouped(rows, lambda row: (row.model, row.task, row.state, row.setting, row.seed, row.metric.endswith(CENTRED)))
    for group in kinds.values():
        # A row without a layer is of the model's final vectors: it comes after all layers.
        steps = grouped(group, lambda row: (row.step or 0, row.layer is None, row.layer or 0))
        complete = [step for step, members in steps.items() if len({row.metric for row in members}) >= FEWEST_DIRECTIONS]
        curves += steps[max(complete)] if complete else []
    return sorted(curves, key=_direction_of)


def _direction_of(row: Row) -> int:
    """k of a row of the metric `ev_k`, or `ev_k_centered`."""
    return int(row.metric.removeprefix("ev_").removesuffix(CENTRED))


def _state_and_setting(row: Row) -> str:
    """The state of a row and its setting."""
    return ", ".join(filter(None, (row.state, row.setting)))


def _repairs_of_last_layer(rows: Sequence[Row]) -> list[Row]:
    """Scores after each repair in the last layer, if there is more than one and `advise` has not said what they gain."""
    scores = of_last_layer([row for row in _repaired(rows) if row.state not in ADVICE_STATES])
    return scores if len({row.setting for row in scores}) > 1 else []


def _gains(result: Result) -> list[Row]:
    """What `advise` found each repair to gain, and each smaller form of the vectors, whatever the score is."""
    return [replace(row, metric="gain") for row in result.rows if row.metric.endswith("_gain") and row.state != "layer"]


def _scores_of_places(result: Result) -> list[Row]:
    """The score of every layer and pooling that `advise` tried, whatever the score is."""
    return [replace(row, metric="score") for row in result.rows if row.state == "layer" and not row.metric.endswith("_gain")]


def _training_figure(result: Result) -> FigureSpec:
    """The figure of a training run, with what always answering the most frequent label would score."""
    share = (result.provenance.get("outcome") or {}).get("baseline")
    level = (lambda row: (share, CHANCE[0]) if row.metric == "accuracy" else None) if share else None
    return replace(TRAINING, level=level)


def _gain_figure(result: Result) -> FigureSpec:
    """The figure of the gains, which says what the repairs were fitted on."""
    is_search = any(row.metric.endswith("_gain") and row.metric.startswith(("ndcg", "recall", "mrr")) for row in result.rows)
    fitted = "Repairs are fitted on all documents, without the judgements." if is_search else FITTED_ON_OTHERS
    return replace(GAINS, note=f"{GAINS.note} {fitted}")


def _repairs_by_layer(rows: Sequence[Row]) -> list[Row]:
    """Scores after each repair that was scored at two layers or more."""
    layered = [row for row in _repaired(rows) if row.layer is not None and row.state not in ADVICE_STATES]
    lines = grouped(sorted(layered, key=lambda row: row.layer or 0), lambda row: (row.state, row.setting))
    scores = [row for line in lines.values() if len({row.layer for row in line}) > 1 for row in line]
    return sorted(scores, key=lambda row: state_order(row.state))


def _sweep_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows of the sweep over the number of removed directions, which is their label."""
    sweep = [row for row in rows if row.setting == "sweep global" and row.label.isdecimal()]
    return sorted(sweep, key=lambda row: int(row.label))


def _final_scores(rows: Sequence[Row]) -> list[Row]:
    """The last score and shape of each seed, of tasks that were scored in two states or more."""
    # Scores of an epoch and shapes of a step are what led to a state; its last ones are the state's own.
    seeds = [row for row in rows if row.seed is not None and not row.setting and row.state != FINE_TUNING]
    tested = [row for row in seeds if row.split not in ("train", "validation")]
    # The head of a classifier is random before it is trained.
    classified = {row.task for row in tested if row.metric in SCORES}
    tested = [row for row in tested if row.task not in classified or row.state not in (PRE_TRAINED, BEFORE)]
    cells = grouped(tested, lambda row: (row.task, row.state, row.seed, row.metric))
    final = [max(cell, key=lambda row: (row.layer is None, row.step or 0, row.layer or 0)) for cell in cells.values()]
    scored = grouped({(row.task, row.state): row for row in final if row.metric in SCORES}, lambda key: key[0])
    compared = [row for row in final if len(scored.get(row.task, ())) > 1 and (row.task, row.state) in scored[row.task]]
    return sorted(compared, key=lambda row: (state_order(row.state), row.seed or 0))


def _cluster_counts(rows: Sequence[Row]) -> list[Row]:
    """Numbers of clusters and labels, if anything was clustered."""
    # Labels alone are known of any probe, and are not a result; a single count is said in words.
    counts = _own_task(rows)
    return counts if sum(row.metric == "clusters" for row in counts) > 1 else []


def _probe_scores(rows: Sequence[Row]) -> list[Row]:
    """The last layer's scores; the probe's accuracy has its deviation over initialisations as bounds."""
    spreads = [row for row in rows if row.metric == "probe_accuracy_sd" and not row.setting]
    deviations = {("probe_accuracy", row.task, row.state, row.layer, row.seed): row.value for row in spreads}
    majorities = [replace(row, metric=MAJORITY) for row in _own_task(rows) if row.metric in (MAJORITY, "majority_share")]
    left_out = ("probe_accuracy_sd", MAJORITY, "majority_share")
    scores = [row for row in _own_task(rows) if row.metric not in left_out]
    bounded = list({row.task: row for row in majorities}.values()) if scores else []
    for group in grouped(scores, lambda row: row.task).values():
        for row in of_last_layer(group):
            deviation = deviations.get((row.metric, row.task, row.state, row.layer, row.seed))
            bounded.append(row if deviation is None else replace(row, low=row.value - deviation, high=row.value + deviation))
    return bounded


def _of_several_layers(rows: Sequence[Row]) -> list[Row]:
    """The rows by layer if there are several layers."""
    layers = sorted((row for row in rows if row.layer is not None), key=lambda row: row.layer or 0)
    return layers if len({row.layer for row in layers}) > 1 else []


def _label_pairs(rows: Sequence[Row]) -> list[Row]:
    """Distances of two labels in the last layer."""
    distances = [row for row in rows if row.metric == "label_distance" and row.other_label]
    # If no state was probed by itself, the first step of a tracked run and its last stand for before and after.
    steps = [row.step for row in distances if row.step is not None]
    ends = [row for row in distances if row.step is None] or [row for row in distances if row.step in (min(steps), max(steps))]
    return of_last_layer(ends)


def _distances_over_steps(rows: Sequence[Row]) -> list[Row]:
    """Distances of hulls, or of centroids if there are none, over two steps or more, in the last layer."""
    tracked = [row for row in rows if row.step is not None]
    for metric in ("minimum_distance", "label_min_distance"):
        labelled = [row for row in tracked if row.metric == metric and row.label]
        if len({row.step for row in labelled}) > 1:
            means = [row for row in tracked if row.metric == MEAN_DISTANCE and metric == "minimum_distance"]
            last = of_last_layer(labelled)[0].layer
            # Tracked while it trained and measured again afterwards, a step has two rows: the later one counts.
            latest = {(row.metric, row.label, row.step): row for row in labelled + means if row.layer == last}
            return sorted(latest.values(), key=lambda row: row.step or 0)
    return []


def _over_training(rows: Sequence[Row]) -> list[Row]:
    """Scores of the whole and shapes of the last layer at two training steps or more, of runs that were tracked."""
    steps = [row for row in rows if row.step is not None and not row.label and row.split != "train"]
    tracked = of_last_layer([row for row in steps if row.layer is not None])
    # The vectors that a head reads are measured at the ends only, and on other texts: not a point of the tracked curve.
    shapes = {row.metric for row in tracked}
    curves = [*(row for row in steps if row.layer is None and row.metric not in shapes), *tracked]
    # Tracked while it trained and measured again afterwards, a step has two rows: the later one counts.
    latest = {(row.metric, row.seed, row.split, row.step): row for row in curves}
    lines = grouped(latest.values(), lambda row: (row.metric, row.seed, row.split))
    return sorted((row for line in lines.values() if len(line) > 1 for row in line), key=lambda row: row.step or 0)


def _ordered_by(*fields: str) -> Callable[[Sequence[Row]], list[Row]]:
    """A rule that takes the rows that have all of these fields, in the order of their values."""

    def select(rows: Sequence[Row]) -> list[Row]:
        filled = [row for row in rows if all(getattr(row, name) is not None for name in fields)]
        return sorted(filled, key=lambda row: [getattr(row, name) for name in fields])

    return select


def _has_shuffled_range(rows: Sequence[Row]) -> bool:
    return has_intervals([row for row in rows if row.metric == "shuffled_gap"])


def _several(field: str) -> Callable[[Sequence[Row]], bool]:
    """Whether rows differ in a field."""
    return lambda rows: len({getattr(row, field) for row in rows}) > 1


def _similarities(rows: Sequence[Row]) -> list[Row]:
    """Similarities by layer and step, of tasks that have any."""
    tasks = {row.task for row in rows if math.isfinite(row.value) and row.step}
    return sorted((row for row in _ordered_by("layer", "step")(rows) if row.task in tasks), key=lambda row: row.task)


def _of_first_seed(rows: Sequence[Row]) -> list[Row]:
    """Rows by layer, of the first seed: principal directions of two seeds are not comparable."""
    first = min((row.seed or 0 for row in rows), default=0)
    return _ordered_by("layer")([row for row in rows if (row.seed or 0) == first and math.isfinite(row.value)])


def _repaired(rows: Sequence[Row]) -> list[Row]:
    """Rows after a repair, in the order in which they were measured: not those of a sweep or of a training step."""
    return [row for row in rows if row.setting and row.step is None and not row.setting.startswith("sweep ")]


def _own_task(rows: Sequence[Row]) -> list[Row]:
    """Rows of states, not of training steps, of models that were tuned on the task they are probed on, or not at all."""
    return [row for row in rows if row.step is None and not row.setting.startswith(TUNED_ELSEWHERE)]


LAYER = XAxis(title="layer", position=lambda row: row.layer, hover="layer ", integers=True)
STEP = XAxis(title="training step", position=lambda row: row.step, hover="step ")
DIRECTION = XAxis(title="principal direction k", position=lambda row: int(row.label), hover="direction ", column="k")
DIRECTIONS = XAxis(title="number of directions k", position=_direction_of, hover="first ", integers=True)
REMOVED = XAxis(title="removed directions D", position=lambda row: int(row.label), hover="D = ")
FROM_ZERO = {"rangemode": "tozero"}

# What the curve of a score is called that is measured on training examples held out for early stopping.
HELD_OUT = {"validation": "validation examples"}

# What a page of a fine-tuning run opens with.
TRAINING = LineSpec(
    name="training",
    heading="Score and geometry over training",
    note="The score on texts that were not used in training, and the shape of the last layer on a fixed sample of texts.",
    metrics=(*SCORES, "spearman", "pearson", "macro_f1", "iso_score_corrected", "mean_cosine"),
    select=_over_training,
    x=STEP,
    line=lambda row: ", ".join(filter(None, ("" if row.seed is None else f"seed {row.seed}", HELD_OUT.get(row.split, "")))),
)
# What a page of `calibrate` has besides its histograms.
CALIBRATION: tuple[FigureSpec, ...] = (
    LineSpec(
        name="match-probability",
        heading="How probable a match is at each cosine",
        note="This assumes that pairs match as often as the labelled ones do. Bars are 95% intervals.",
        metrics=(PROBABILITY, MATCH_SHARE),
        split=(),
        source=_probability_rows,
        x=XAxis(title="cosine", position=lambda row: float(row.label), hover="cosine ", column="cosine"),
        y=lambda _: "probability of a match",
        line=lambda row: "labelled pairs" if row.metric == PROBABILITY else ALL_PAIRS,
        pens=chance_pens,
        y_axis={"range": [-0.02, 1.02]},
    ),
)
FITTED_ON_OTHERS = "Each pair or text is scored with repairs that were fitted on others."
ARROWS = "An arrow marks a loss, or the end of an interval, that is beyond the axis."
# What a page of `migrate` opens with.
MIGRATION: tuple[FigureSpec, ...] = (
    DotSpec(
        name="tiers",
        heading="What each way to change the model scores",
        note="nDCG@10 of the same queries, with 95% intervals. The intervals of two tiers may overlap although one is shown to "
        "score higher: the answer compares them query by query.",
        metrics=("ndcg@10",),
        split=(),
        select=lambda rows: [replace(row, state="") for row in rows if row.state in ("tier", "shown") and not row.reason],
        category="setting",
        category_title="",
    ),
    LineSpec(
        name="bridge-curve",
        heading="The bridge, by the number of re-embedded documents",
        note="nDCG@10 of new queries on old documents, mapped by a map that was fitted on that many documents. Bars are 95% "
        "intervals over queries.",
        metrics=("ndcg@10",),
        split=(),
        select=lambda rows: [replace(row, state="") for row in rows if row.state == "curve"],
        x=XAxis(title="documents embedded again", position=lambda row: float(row.label), hover="documents ", column="documents"),
        line=lambda row: row.setting,
    ),
)
# What a page of `advise` opens with: the choice of a layer, or what repairs gain.
PLACES = PlaceMapSpec(
    name="layer-scores",
    heading="Score by layer and pooling",
    note="Each is scored on the same items; what is in use is compared with the others in the table. Layer 0 is the embeddings. "
    "The best cell of a map is partly the best by chance; the answer uses the nested choice.",
    metrics=("score",),
    source=_scores_of_places,
)
GAINS = DotSpec(
    name="gains",
    heading="What each change gains",
    note="The score with each change minus the score without. Bars are 95% intervals; if one crosses 0, the gain may be chance.",
    asides=((lambda rows: has_arrows(rows, "gain"), ARROWS),),
    metrics=("gain",),
    split=("model", "task", "state"),
    select=lambda rows: rows if len(rows) > 1 else (),
    source=_gains,
    category="setting",
    category_title="",
    row_height=26,
    zero="gain",
)
# What a page of `probe` opens with, if it has several layers.
PROBED = LineSpec(
    name="probe-by-layer",
    heading="Accuracy and smallest gap by layer",
    note="Accuracy is on held-out rows. The smallest gap is 0 if two labels overlap, and each layer has its own scale.",
    asides=((_has_shuffled_range, "Bars on shuffled labels are the range of their gaps."),),
    pens=chance_pens,
    metrics=("hull_accuracy", "probe_accuracy", "majority_accuracy", "smallest_gap", "shuffled_gap"),
    select=_of_several_layers,
    x=LAYER,
    y=lambda row: "accuracy" if row.metric.endswith("accuracy") else axis_of("smallest_gap"),
    line=lambda row: PROBED_LINES[row.metric],
    y_axis=FROM_ZERO,
    panels_across=2,
)
# Every figure of rows that a result may have, in reading order: what it is called and shows, which rows, and how they are drawn.
# fmt: off
FIGURES: tuple[FigureSpec, ...] = (
    LineSpec(
        name="isotropy-by-layer", heading="Isotropy by layer",
        note="",
        asides=(
            (lambda rows: any(row.layer == 0 for row in rows), "Layer 0 is the embeddings."),
            (has_intervals, "Bars are intervals."),
            (lambda rows: any(row.setting == "cls" for row in rows), "[CLS] gives one vector per text, and tokens give many."),
        ),
        metrics=(*LAYER_METRICS, "iso_score_corrected"), split=("metric",), select=_layer_lines,
        x=LAYER, line=_state_unit_step, panel=("model", "task"), pens=unit_pens, merge=True,
    ),
    LineSpec(
        name="spectra", heading="Spectrum of the cloud",
        note="Share of the centred variance on each principal direction. An isotropic cloud has the same share, 1/d, on each; a "
        "steep start means that a few directions dominate.",
        asides=((_several("seed"), "Thin lines are seeds, thick ones their medians."),),
        metrics=(SPECTRUM,), split=(), source=_spectrum_rows, select=lambda rows: sorted(rows, key=lambda row: int(row.label)),
        x=DIRECTION, y=lambda _: "share of the variance", line=_state_and_setting, panel=("model",), mode="lines",
        hover="%{y:.3%}", slider="layer", axes={"type": "log", "dtick": 1}, y_axis={"exponentformat": "power"}, merge=True,
        level=lambda row: (1 / row.d, f"isotropic: 1/{row.d}") if row.d else None, median_of_seeds=True,
    ),
    LineSpec(
        name="ev-curves", heading="Explained variance of the first directions",
        note="Share of the cloud on its first k directions; the lower the curve, the more isotropic.",
        asides=(
            (_several("seed"), "Thin lines are seeds, thick ones their medians."),
            (
                lambda rows: len({row.metric.endswith(CENTRED) for row in rows}) > 1,
                "The uncentred version, as in IL23, includes the mean vector; the centred one leaves it out.",
            ),
        ),
        metrics=tuple(f"ev_{k}{ending}" for ending in ("", CENTRED) for k in range(1, 21)), split=(), select=_last_curves,
        x=DIRECTIONS, y=lambda row: f"EV<sub>k</sub>, {'' if row.metric.endswith(CENTRED) else 'un'}centred",
        line=_state_and_setting, panel=("model", "task"), merge=True, median_of_seeds=True, y_axis=FROM_ZERO,
    ),
    DotSpec(
        name="repair-scores", heading="Scores after each repair",
        note="",
        asides=(
            (_several("metric"), "Left: the score. Right: its change from the same state without a repair."),
            (has_intervals, "Bars are intervals of a bootstrap over sentence pairs; if one crosses 0, the change may be chance."),
            (lambda rows: has_arrows(rows, "spearman_change"), ARROWS),
        ),
        metrics=("spearman", "spearman_change"), select=_repairs_of_last_layer,
        category="setting", category_title="repair", dodge=0.28, row_height=34, zero="spearman_change",
    ),
    DotSpec(
        name="repair-gains", heading="What each repair gains",
        note="The score with each repair minus the score without, on data that it was not fitted on. Bars are 95% intervals; if "
        "one crosses 0, the gain may be chance.",
        asides=((lambda rows: has_arrows(rows, "gain"), ARROWS),),
        metrics=("gain",), split=("model",), select=lambda rows: of_last_layer(rows) if len(rows) > 1 else (),
        category="setting", category_title="repair", facet="task", dodge=0.28, row_height=30, zero="gain",
    ),
    LineSpec(
        name="score-by-layer", heading="Scores by layer after each repair",
        note="Each layer is repaired and scored by itself.",
        asides=((has_intervals, "Bars are intervals of a bootstrap over sentence pairs."),),
        metrics=("spearman",), select=_repairs_by_layer,
        x=LAYER, line=lambda row: row.setting, panel=("state",), panels_across=2,
    ),
    LineSpec(
        name="sweep", heading="Removing more and more top directions",
        note="D = 0 is the centred cloud.",
        asides=((
            _several("state"),
            "If the fine-tuned line of isotropy is below the other one at the same D, it has more long directions left.",
        ),),
        metrics=("spearman", "log_partition_isotropy", "iso_score"), select=_sweep_rows,
        x=REMOVED, line=lambda row: row.state,
    ),
    DotSpec(
        name="scores-by-seed", heading="Scores and isotropy over seeds",
        note="One point per seed, joined by a line between states; the bar is the median over seeds.",
        metrics=(*SCORES, "iso_score", "ev_1"), split=("model",), select=_final_scores,
        category="state", category_title="trained with", facet="task", one_panel={"matthews": "accuracy"}, vertical=True,
        row_height=110, join=lambda row: row.seed, hover=lambda row: f"seed {row.seed}", medians=True,
        options={"horizontal_spacing": 0.12, "vertical_spacing": 0.07},
    ),
    DotSpec(
        name="clusters", heading="Clusters", of_states=" before and after",
        note="The number of convex clusters that DirectProbe finds; none overlaps one of another label. At the grey mark, "
        "each label is one cluster, and a plane separates any two.",
        metrics=("clusters", "labels"), split=("model",), select=_cluster_counts,
        category="task", category_title="task", least_height=300, join=lambda row: row.task, reference="labels", by_layer=True,
        options={"horizontal_spacing": 0.18, "vertical_spacing": 0.2},
    ),
    DotSpec(
        name="probe-scores", heading="What probes score", of_states=" before and after",
        note="Accuracy on held-out rows of the last layer.",
        asides=(
            (lambda rows: any(row.metric == MAJORITY for row in rows), "Grey: always answering the most frequent label."),
            (has_intervals, "Bars are the standard deviation over initialisations, or an interval over labels."),
        ),
        reference=MAJORITY, reference_of=("probe_accuracy", "hull_accuracy"),
        metrics=("probe_accuracy", "hull_accuracy", "train_test_similarity", "probe_accuracy_sd", MAJORITY, "majority_share"),
        split=("model",),
        select=_probe_scores, category="task", category_title="task", dodge=0.28, least_height=260,
    ),
    HeatMapSpec(
        name="label-distances", heading="Distances between labels",
        note="Brighter is further apart. Labels that are close are side by side.",
        asides=((_several("state"), "All maps share one order and one colour scale."),),
        metrics=("label_distance", "minimum_distance", "label_min_distance", "centroid_movement"), select=_label_pairs,
    ),
    LineSpec(
        name="minimum-distances", heading="Distance of each label to its nearest other",
        note="On the held-out rows that were tracked. The labels whose distance grows most and least are named; the others are "
        "grey. The slider moves through training.",
        metrics=("minimum_distance", "label_min_distance", MEAN_DISTANCE), select=_distances_over_steps,
        x=STEP, y=lambda row: axis_of("minimum_distance" if row.metric == MEAN_DISTANCE else row.metric),
        line=lambda row: row.label or "mean of all labels", pens=growth_pens, mode="lines", slider="step", y_axis=FROM_ZERO,
    ),
    LineSpec(
        name="similarity-by-layer", heading="Similarity of each layer to its original",
        note="Pearson of the distances between labels with those before training, on the tracked rows; 1 is unchanged, and bars "
        "are intervals over labels. Low layers are blue, high ones orange. It is not defined if labels overlap; a task "
        "whose labels overlap in every layer has no panel.",
        metrics=("similarity_to_original",), split=("model",), select=_similarities,
        x=STEP, line=lambda row: f"layer {row.layer}", panel=("task",), panels_across=5, pens=ramp_pens,
    ),
    LineSpec(
        name="cka-by-layer", heading="CKA of each layer with its original",
        note="The same by CKA, which needs no labels and is always defined.",
        metrics=("cka_to_original",), split=("model",), select=_similarities,
        x=STEP, line=lambda row: f"layer {row.layer}", panel=("task",), panels_across=5, pens=ramp_pens,
    ),
    LineSpec(
        name="centroid-movement", heading="Movement of the labels' centroids by layer",
        note="Each dot is a label: how far its centroid moved in fine-tuning, on the held-out rows that were tracked, divided by "
        "the mean norm before. A share near 1 means that all labels moved along one direction (or two).",
        metrics=("centroid_movement", *SHARES), select=_ordered_by("layer"),
        x=LAYER, y=lambda row: "share of the movement" if row.metric in SHARES else "distance moved / mean norm",
        line=lambda row: SHARES.get(row.metric, "labels"), boxes="centroid_movement", y_axis=FROM_ZERO,
    ),
    MovementSpec(
        name="movement-directions", heading="Directions in which the labels' centroids moved, by layer",
        note="Each dot is a label: the movement of its centroid over fine-tuning, on the tracked rows, along the two directions "
        "in which the labels of that layer moved most, divided by the mean norm before. All layers share one scale. The "
        "outermost labels are named, and those that the paper names (INTJ and SYM). Of several seeds, the first is drawn.",
        metrics=("movement_pca_1", "movement_pca_2"), select=_of_first_seed, named=APART,
    ),
)
# fmt: on
