"""How metrics and states are called where people read them."""

from __future__ import annotations

import re

METRIC_NAMES = {
    "spearman": "Spearman",
    "pearson": "Pearson",
    "spearman_change": "Spearman change",
    "accuracy": "accuracy",
    "matthews": "Matthews",
    "partition_isotropy": "I(W)",
    "log_partition_isotropy": "log I",
    "log_partition_isotropy_unit_norm": "log I, unit norm",
    "log_partition_isotropy_centered": "log I, centred",
    "log_partition_isotropy_centred": "log I, centred",
    "iso_score": "IsoScore",
    "iso_score_corrected": "IsoScore, corrected",
    "mean_cosine": "mean cosine",
    "effective_rank": "effective rank",
    "silhouette": "silhouette",
    "between_share": "variance between clusters",
    "clustering_gain": "gain from clustering",
    "frequency_r2": "R² of log frequency",
    "norm_frequency_correlation": "norm–frequency correlation",
    "removed_directions": "directions removed",
    "train_seconds": "training, s",
    "labels": "labels",
    "clusters": "clusters",
    "is_linear": "linear",
    "mean_minimum_distance": "mean minimum distance",
    "minimum_distance": "minimum distance",
    "label_distance": "label distance",
    "hull_accuracy": "hull accuracy",
    "probe_accuracy": "probe accuracy",
    "probe_accuracy_sd": "probe accuracy, sd",
    "train_test_similarity": "train–test similarity",
    "similarity_to_original": "similarity to the original",
    "cka_to_original": "CKA to the original",
    "centroid_movement": "centroid movement",
    "movement_share_1": "movement on 1 direction",
    "movement_share_2": "movement on 2 directions",
    "mean_change": "mean change",
    "labels_rose": "labels that rose",
    "labels_fell": "labels that fell",
    **{f"ev_{k}": f"EV {k}" for k in range(1, 21)},
}
"""A metric that is not here is called by its own name."""

_SLUGS = re.compile(rf"\b({'|'.join(sorted((name for name in METRIC_NAMES if '_' in name), key=len, reverse=True))})\b")


def worded(text: str) -> str:
    """A sentence in which metrics are called as people call them, and not as rows do."""
    return _SLUGS.sub(lambda found: METRIC_NAMES[found[1]], text)
