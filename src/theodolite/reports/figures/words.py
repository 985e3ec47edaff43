"""What metrics are called on an axis, and which way they point."""

from __future__ import annotations

from theodolite.reports.plain import clean, plain

AXES = {
    "log_partition_isotropy": "log I (0 is isotropic)",
    "log_partition_isotropy_unit_norm": "log I at unit mean norm (0 is isotropic)",
    "partition_isotropy": "I (1 is isotropic)",
    "iso_score": "IsoScore (1 is isotropic)",
    "iso_score_corrected": "IsoScore, bias-corrected (1 is isotropic)",
    "mean_cosine": "mean cosine (0 is isotropic)",
    "effective_rank": "effective rank (more is isotropic)",
    "ev_1": "EV1 (small is isotropic)",
    "spearman": "Spearman correlation",
    "spearman_change": "change of Spearman",
    "accuracy": "accuracy",
    "matthews": "Matthews correlation",
    "similarity_to_original": "similarity to the original (Pearson)",
    "cka_to_original": "CKA to the original",
    "clusters": "clusters",
    "minimum_distance": "distance to the nearest label",
    "label_min_distance": "distance to the nearest label's centroid",
}

STATES = {"isolayer": "isotropy layer", "isobn": "IsoBN"}


def in_words(name: str) -> str:
    """A name that begins with a state (`isolayer, table 2`) as it is shown; any other as it is."""
    state, sign, rest = name.partition(",")
    return STATES.get(state, state) + sign + rest


def axis(metric: str) -> str:
    """The title of an axis that shows a metric, for Plotly."""
    return AXES.get(metric) or plain(metric.replace("_", " "), 60)


def heading(metric: str) -> str:
    """The metric's name within a heading."""
    return AXES[metric].partition(" (")[0] if metric in AXES else clean(metric.replace("_", " "), 60)
