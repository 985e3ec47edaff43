"""The names that rows give to measured numbers, and how people read them: the label in a table, the title of an axis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """How a number in rows is called in tables and legends, and on an axis that shows it."""

    label: str
    axis: str = ""


# Measures whose label is their own name in words.
# fmt: off
_PLAIN = (
    "accuracy", "linear_accuracy", "documents_to_embed", "gain", "silhouette", "examples", "best_epoch", "labels", "clusters",
    "overlaps", "selectivity", "hull_accuracy", "label_distance", "mean_minimum_distance", "probe_accuracy",
    "centroid_movement", "mean_change",
)
# fmt: on
# All numbers that rows carry, by name: scores of tasks, what probes, training runs and studies measure; metrics add their own.
MEASURES: dict[str, Measure] = {
    "macro_f1": Measure("macro F1"),
    "matthews": Measure("Matthews", "Matthews correlation"),
    "pearson": Measure("Pearson", "Pearson correlation"),
    "spearman": Measure("Spearman", "Spearman correlation"),
    "spearman_change": Measure("Spearman change", "change of Spearman"),
    "knn_accuracy": Measure("k-NN accuracy"),
    "ndcg@10": Measure("nDCG@10"),
    "ndcg@10_gain": Measure("gain of nDCG@10"),
    "ndcg@10_loss": Measure("loss of nDCG@10"),
    "ndcg@10_largest_loss": Measure("largest loss of nDCG@10"),
    "documents_per_query": Measure("documents to embed per query"),
    "neighbours_kept": Measure("nearest neighbours kept"),
    "mrr": Measure("MRR", "mean reciprocal rank"),
    "query_gap": Measure("gap between the means", "distance of the mean query from the mean document, in spreads"),
    "query_hubness": Measure("hubness among queries"),
    "unreached_documents": Measure("documents no query finds", "share of documents in no query's 10 nearest"),
    "far_queries": Measure("far queries", "share of queries far from every document"),
    "layer_cka": Measure("CKA above chance", "debiased CKA above chance"),
    "between_share": Measure("variance between clusters"),
    "clustering_gain": Measure("gain from clustering"),
    "frequency_r2": Measure("R² of log frequency"),
    "norm_frequency_correlation": Measure("norm–frequency correlation"),
    "effective_rank_share": Measure("effective rank over the largest possible"),
    "removed_directions": Measure("directions removed"),
    "train_seconds": Measure("training, s"),
    "majority_share": Measure("share of the most frequent label"),
    "validation_score": Measure("score on the validation rows"),
    "chosen_learning_rate": Measure("learning rate chosen"),
    "chosen_epochs": Measure("epochs chosen"),
    "chosen_layer_learning_rate": Measure("learning rate chosen for the layer"),
    "is_linear": Measure("linear"),
    "overlapping_pairs": Measure("pairs of labels that overlap"),
    "guaranteed_pairs": Measure("pairs separable whatever the labels"),
    "smallest_gap": Measure("smallest gap", "smallest gap between two labels"),
    "shuffled_gap": Measure("smallest gap, shuffled labels"),
    "gap_ratio": Measure("gap over that of shuffled labels"),
    "shuffled_separable": Measure("share of shuffles that are separable"),
    "control_accuracy": Measure("accuracy on the control task"),
    "majority_accuracy": Measure("accuracy of the most frequent label"),
    "hull_accuracy_all_rows": Measure("hull accuracy, all rows"),
    "probe_accuracy_all_rows": Measure("probe accuracy, all rows"),
    "probe_hidden_1": Measure("units, first layer"),
    "probe_hidden_2": Measure("units, second layer"),
    "probe_alpha": Measure("L2 weight"),
    "movement_pca_1": Measure("movement, first direction"),
    "movement_pca_2": Measure("movement, second direction"),
    "inside_mean": Measure("mean distance inside"),
    "inside_max": Measure("largest distance inside"),
    "label_min_distance": Measure("minimum centroid distance", "distance to the nearest label's centroid"),
    "minimum_distance": Measure("minimum distance", "distance to the nearest label"),
    "probe_accuracy_sd": Measure("probe accuracy, sd"),
    "train_test_similarity": Measure("train–test similarity"),
    "cka_to_original": Measure("CKA to the original"),
    "similarity_to_original": Measure("similarity to the original", "similarity to the original (Pearson)"),
    "movement_share_1": Measure("movement on 1 direction"),
    "movement_share_2": Measure("movement on 2 directions"),
    "labels_rose": Measure("labels that rose"),
    "labels_fell": Measure("labels that fell"),
    "nearly_zero_rows": Measure("rows of (nearly) zero length"),
    "self_test_difference": Measure("difference in the self-test"),
    **{name: Measure(name.replace("_", " ")) for name in _PLAIN},
    **{f"ev_{k}": Measure(f"EV {k}", f"EV {k} (small is isotropic)") for k in range(1, 21)},
}


def label_of(name: str) -> str:
    """The name of a metric or measure in tables and legends; of one that is not registered, its own name in words.

    Parameters
    ----------
    name
        The `metric` of a row.
    """
    entry = MEASURES.get(name)
    return entry.label if entry is not None else name.replace("_", " ")


def axis_of(name: str) -> str:
    """The title of an axis that shows a metric or measure.

    Parameters
    ----------
    name
        The `metric` of a row.
    """
    entry = MEASURES.get(name)
    return (entry.axis or entry.label) if entry is not None else name.replace("_", " ")
