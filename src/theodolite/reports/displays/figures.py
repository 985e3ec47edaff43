"""The figures: what each one shows of a result, declared in one table in reading order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from theodolite.metrics.registry import axis_of
from theodolite.reports.displays import selection
from theodolite.reports.displays.base import Display, FigureSpec
from theodolite.reports.displays.clouds import cloud_displays
from theodolite.reports.displays.dots import DotSpec
from theodolite.reports.displays.heat_maps import HeatMapSpec
from theodolite.reports.displays.lines import LineSpec, XAxis
from theodolite.reports.displays.paths import PathSpec
from theodolite.reports.displays.pens import growth_pens, ramp_pens, unit_pens
from theodolite.reports.displays.selection import MEAN_DISTANCE, SCORES, SPECTRUM, SPECTRUM_COLUMNS
from theodolite.reports.plain_text import unique_names

if TYPE_CHECKING:
    from theodolite.core.result import Result

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
    displays = [*cloud_displays(result.pictures), *(display for figure in FIGURES for display in figure.displays(result))]
    names = unique_names(display.name for display in displays)
    return [replace(display, name=name) for display, name in zip(displays, names, strict=True)]


LAYER = XAxis(title="layer", place=lambda row: row.layer, hover="layer ", whole=True)
STEP = XAxis(title="training step", place=lambda row: row.step, hover="step ")
SCORED = ("model", "state", "task", "layer", "setting", "metric", "value", "low", "high", "n", "reason")

FIGURES: tuple[FigureSpec | PathSpec, ...] = (
    LineSpec(
        name="isotropy-by-layer",
        heading="Isotropy by layer",
        note="Layer 0 is the embeddings. Bars are intervals, if the run took any; [CLS] has one vector per text, tokens many.",
        metrics=(
            "log_partition_isotropy",
            "log_partition_isotropy_unit_norm",
            "iso_score_corrected",
            "iso_score",
            "mean_cosine",
            "effective_rank",
            "ev_1",
        ),
        fields=("model", "state", "setting", "step", "layer", "metric", "value", "low", "high", "n", "d", "reason"),
        split=("metric",),
        about=("metric",),
        select=selection.layer_lines,
        x=LAYER,
        line=selection.state_unit_step,
        panel=("model", "task"),
        pens=unit_pens,
        merge=True,
        height=340,
    ),
    LineSpec(
        name="spectra",
        heading="Spectrum of the cloud",
        note="Share of the centred variance on each principal direction. A flat line is isotropic; a steep start means that a "
        "few directions dominate.",
        metrics=(SPECTRUM,),
        fields=SPECTRUM_COLUMNS,
        source=selection.spectrum_rows,
        select=lambda rows: sorted(rows, key=lambda row: int(row.label)),
        x=XAxis(title="principal direction k", place=lambda row: int(row.label), hover="direction ", column="k"),
        y=lambda _: "share of the variance",
        line=selection.state_and_setting,
        panel=("model",),
        height=380,
        mode="lines",
        hover="%{y:.3%}",
        slider="layer",
        axes={"type": "log", "dtick": 1},
        y_axis={"exponentformat": "power"},
    ),
    LineSpec(
        name="ev-curves",
        heading="Explained variance of the first directions",
        note="Share of the uncentred cloud on its first k directions; the lower the curve, the more isotropic. Thin lines are "
        "seeds, thick ones their medians.",
        metrics=tuple(f"ev_{k}" for k in range(1, 21)),
        fields=("model", "task", "state", "layer", "setting", "seed", "metric", "value", "n", "d", "reason"),
        select=selection.last_curves,
        x=XAxis(title="number of directions k", place=selection.direction_of, hover="first "),
        y=lambda _: "EV<sub>k</sub> (small is isotropic)",
        line=selection.state_and_setting,
        panel=("model", "task"),
        height=340,
        median_of_seeds=True,
        y_axis={"rangemode": "tozero"},
    ),
    DotSpec(
        name="repair-scores",
        heading="Scores after each repair",
        note="Left the score, right its change against the same state without a repair. Bars are intervals of a bootstrap over "
        "sentence pairs; if one crosses 0, the change could be in either direction.",
        metrics=("spearman", "spearman_change"),
        fields=SCORED,
        split=("model", "task"),
        about=("model",),
        select=selection.repairs_of_last_layer,
        category="setting",
        category_title="repair",
        dodge=0.28,
        row_height=34,
        zero="spearman_change",
    ),
    LineSpec(
        name="score-by-layer",
        heading="Scores by layer after each repair",
        note="Each layer is repaired and scored by itself. Bars are intervals of a bootstrap over sentence pairs.",
        metrics=("spearman",),
        fields=SCORED,
        split=("model", "task"),
        about=("model",),
        select=selection.repairs_by_layer,
        x=LAYER,
        line=lambda row: row.setting,
        panel=("state",),
        columns=2,
        height=380,
    ),
    LineSpec(
        name="sweep",
        heading="Removing more and more top directions",
        note="D = 0 is the centred cloud. If the fine-tuned line of isotropy is below the other one at the same D, it has more "
        "long directions left.",
        metrics=("spearman", "log_partition_isotropy", "iso_score"),
        fields=(*SCORED, "label"),
        split=("model", "task"),
        about=("model",),
        select=selection.sweep_rows,
        x=XAxis(title="removed directions D", place=lambda row: int(row.label), hover="D = "),
        line=lambda row: row.state,
        height=320,
    ),
    DotSpec(
        name="scores-by-seed",
        heading="Scores and isotropy over seeds",
        note="One point per seed, joined by a line between states; the bar is the median over seeds.",
        metrics=(*SCORES, "iso_score", "ev_1"),
        fields=("model", "task", "state", "seed", "metric", "value", "n", "reason"),
        split=("model",),
        about=("model",),
        select=selection.final_scores,
        category="state",
        category_title="trained with",
        facet="task",
        one_panel={"matthews": "accuracy"},
        vertical=True,
        row_height=110,
        join=lambda row: row.seed,
        hover=lambda row: f"seed {row.seed}",
        medians=True,
        options={"horizontal_spacing": 0.12, "vertical_spacing": 0.07},
    ),
    DotSpec(
        name="clusters",
        heading="Clusters before and after",
        note="The convex clusters that DirectProbe ends with, none of which overlaps one of another label. At the grey mark "
        "there is one per label: a plane separates any two.",
        metrics=("clusters", "labels"),
        fields=("model", "task", "state", "layer", "metric", "value", "n", "reason"),
        split=("model",),
        about=("model",),
        select=selection.cluster_counts,
        category="task",
        category_title="task",
        least_height=300,
        join=lambda row: row.task,
        reference="labels",
        by_layer=True,
        options={"horizontal_spacing": 0.18, "vertical_spacing": 0.2},
    ),
    DotSpec(
        name="probe-scores",
        heading="What probes score before and after",
        note="On held-out rows of the last layer. Bars are the standard deviation over initialisations, or an interval over "
        "labels.",
        metrics=("probe_accuracy", "hull_accuracy", "train_test_similarity", "probe_accuracy_sd"),
        fields=("model", "task", "state", "layer", "metric", "value", "low", "high", "n", "reason"),
        split=("model",),
        about=("model",),
        select=selection.probe_scores,
        category="task",
        category_title="task",
        dodge=0.28,
        least_height=260,
    ),
    HeatMapSpec(
        name="label-distances",
        heading="Distances between labels",
        note="All maps have one colour scale: brighter is further apart. Labels that are close before are side by side.",
        metrics=("label_distance", "minimum_distance", "label_min_distance", "centroid_movement"),
        fields=("model", "task", "state", "layer", "value", "low", "high", "n"),
        split=("model", "task"),
        about=("model", "task"),
        select=selection.label_pairs,
        bar_title="distance",
    ),
    LineSpec(
        name="minimum-distances",
        heading="Distance of each label to its nearest other",
        note="The labels whose distance grows most and least are named; the others are grey. The slider goes through training.",
        metrics=("minimum_distance", "label_min_distance", MEAN_DISTANCE),
        fields=("model", "task", "layer", "label", "step", "metric", "value", "n", "reason"),
        split=("model", "task"),
        about=("model", "task"),
        select=selection.distances_over_steps,
        x=STEP,
        y=lambda row: axis_of("minimum_distance" if row.metric == MEAN_DISTANCE else row.metric),
        line=lambda row: row.label or "mean of all labels",
        pens=growth_pens,
        height=380,
        mode="lines",
        slider="step",
        y_axis={"rangemode": "tozero"},
    ),
    LineSpec(
        name="similarity-by-layer",
        heading="Similarity of each layer to its original",
        note="1 is unchanged. Low layers are blue, high ones orange: the further a line falls, the more its layer changed.",
        metrics=("similarity_to_original", "cka_to_original"),
        fields=("model", "task", "layer", "step", "metric", "value", "low", "high", "n", "reason"),
        split=("model", "task"),
        about=("model", "task"),
        select=selection.by_layer_and_step,
        x=STEP,
        line=lambda row: f"layer {row.layer}",
        pens=ramp_pens,
        height=380,
    ),
    LineSpec(
        name="centroid-movement",
        heading="Movement of the labels' centroids by layer",
        note="A dot is a label: how far its centroid moved in fine-tuning, divided by the mean norm before. A share near 1 means "
        "that all labels moved along one direction (or two).",
        metrics=("centroid_movement", "movement_share_1", "movement_share_2"),
        fields=("model", "task", "layer", "label", "metric", "value", "low", "high", "n", "reason"),
        split=("model", "task"),
        about=("model", "task"),
        select=selection.by_layer,
        x=LAYER,
        y=lambda row: "distance moved / mean norm" if row.metric == "centroid_movement" else "share of the movement",
        line=lambda row: SHARES.get(row.metric, "labels"),
        boxes="centroid_movement",
        y_axis={"rangemode": "tozero"},
    ),
    PathSpec(
        name="centroid-paths",
        heading="Paths of the labels' centroids",
        note="A hollow mark is where a label starts, a full one where it is at the step. Of many labels, the three that are "
        "closest before training have colours. The slider goes through training.",
        record="paths",
    ),
)
"""Every figure of rows or records that a result may have, in reading order."""
