"""The four measures of a survey, and all of them, against one product of all rows with a (d, d) matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from data import Singles, cloud_file, load
from scale import Scale
from table import Result
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from timing import best_in_turns, shown

FOUR = ("iso_score", "log_partition_isotropy", "ev_1", "ev_2", "ev_3", "mean_cosine")


def four(X: Singles) -> object:
    """IsoScore, I(W), EV and mean cosine, from nothing cached."""
    return metric_rows(Cloud(X), FOUR)


def everything(X: Singles) -> object:
    """All metrics of a survey, from nothing cached."""
    return metric_rows(Cloud(X))


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    cases = [("survey", n, four, 1.8 if n >= 200_000 else math.nan) for n in scale.survey]
    cases += [("survey with all metrics", n, everything, 3.0 if n >= 200_000 else math.nan) for n in scale.all_metrics]
    for name, n, call, goal in cases:
        X = load(cloud_file(folder, n, scale.d))
        U = np.random.default_rng(1).standard_normal((scale.d, scale.d), dtype=np.float32)
        # Written before it is timed, so that the product is not charged for the system's first touch of its memory.
        product = np.ones((n, scale.d), np.float32)

        def gemm(X: Singles = X, U: Singles = U, product: Singles = product) -> object:
            return np.matmul(X, U, out=product)

        def ours(X: Singles = X, call: Callable[[Singles], object] = call) -> object:
            return call(X)

        mine, floor = best_in_turns(ours, gemm, repeats=scale.repeats)
        yield Result(
            table="survey",
            case=f"{name} of {n:,} × {scale.d}",
            value=mine / floor,
            sense="at most",
            goal=goal,
            ours=shown(mine),
            theirs=f"GEMM X @ U, {shown(floor)}",
            floor=f"half a GEMM for the moments{', and the products of 10,000 rows with each other' * (call is everything)}",
            measures={"n": n, "d": scale.d, "seconds": mine, "gemm": floor},
        )
