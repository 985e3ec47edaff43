"""Measures of how a space is shaped. Every one is a function of an (n, d) array and an entry of the registry `METRICS`."""

# Importing a module registers its metrics: the order of these imports is the order of a survey.
# ruff: noqa: I001
# fmt: off
from theodolite.metrics.registry import (
    LAYER_METRICS, METRICS, Metric, UndefinedMetricWarning, axis_of, check_metrics, default_metrics, label_of,
)
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.isoscore import iso_score, iso_score_corrected, iso_score_star
from theodolite.metrics.partition import (
    eigen_gap, log_partition_isotropy, log_partition_isotropy_centered, log_partition_isotropy_unit_norm, partition_isotropy,
)
from theodolite.metrics.spectral import (
    condition_number, dimensions_95, effective_rank, effective_rank_singular, ev_1, ev_1_centered, ev_2, ev_2_centered,
    ev_3, ev_3_centered, explained_variance, explained_variance_curve, participation_ratio,
)
from theodolite.metrics.cosine import (
    dimension_contributions, largest_variance_ratio, mean_cosine, mean_cosine_centered, mean_norm, norm_variation,
    rogue_share, pair_cosine_median, pair_cosine_p05, pair_cosine_p95, pair_cosines, similar_pairs, zero_rows,
)
from theodolite.metrics.sphere import alignment, uniformity
from theodolite.metrics.neighbours import (
    density_variation, exact_duplicates, hub_share, hubness, intrinsic_dimension, islands, metric_agreement, near_duplicates,
    never_retrieved, outliers, relative_contrast, retrieval_stability,
)
from theodolite.metrics.populations import second_population
from theodolite.metrics.queries_among_documents import QUERY_MEASURES, QueryMeasure, query_measures
from theodolite.metrics.evaluation import Comparison, compare_clouds, metric_rows

__all__ = [
    "LAYER_METRICS", "METRICS", "QUERY_MEASURES", "Cloud", "Comparison", "Metric", "QueryMeasure", "Undefined",
    "UndefinedMetricWarning", "alignment",
    "axis_of", "check_metrics", "compare_clouds", "condition_number", "default_metrics", "density_variation",
    "dimension_contributions", "dimensions_95", "effective_rank", "effective_rank_singular", "eigen_gap", "ev_1",
    "ev_1_centered", "ev_2", "ev_2_centered", "ev_3", "ev_3_centered", "exact_duplicates", "explained_variance",
    "explained_variance_curve", "hub_share",
    "hubness", "intrinsic_dimension", "islands", "iso_score", "iso_score_corrected", "iso_score_star", "label_of",
    "largest_variance_ratio", "log_partition_isotropy", "log_partition_isotropy_centered", "log_partition_isotropy_unit_norm",
    "mean_cosine", "mean_cosine_centered", "mean_norm", "metric_agreement", "metric_rows", "near_duplicates",
    "never_retrieved", "norm_variation", "outliers", "pair_cosine_median", "pair_cosine_p05", "pair_cosine_p95",
    "pair_cosines", "participation_ratio", "partition_isotropy", "query_measures", "relative_contrast", "retrieval_stability",
    "rogue_share", "second_population", "similar_pairs", "uniformity", "zero_rows",
]
# fmt: on
