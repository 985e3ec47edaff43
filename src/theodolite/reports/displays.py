"""All displays that a run has numbers for, in reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from theodolite.core.pictures import Picture
from theodolite.core.rows import Row
from theodolite.reports.display import Display
from theodolite.reports.figures.base import grouped
from theodolite.reports.figures.centroid_movement import CentroidMovement
from theodolite.reports.figures.centroid_paths import CentroidPaths
from theodolite.reports.figures.cloud_pair import CloudPair
from theodolite.reports.figures.clusters import Clusters
from theodolite.reports.figures.ev_curves import EVCurves
from theodolite.reports.figures.isotropy_by_layer import METRICS, IsotropyByLayer
from theodolite.reports.figures.label_distances import LabelDistances
from theodolite.reports.figures.layer_scores import LayerScores
from theodolite.reports.figures.minimum_distances import MinimumDistances
from theodolite.reports.figures.probe_scores import ProbeScores
from theodolite.reports.figures.repair_scores import RepairScores
from theodolite.reports.figures.seed_scores import SeedScores
from theodolite.reports.figures.similarity_by_layer import SimilarityByLayer
from theodolite.reports.figures.spectra import Spectra
from theodolite.reports.figures.sweep import Sweep

if TYPE_CHECKING:
    from theodolite.reports.run_folder import RunData


def displays_of(run: RunData) -> list[Display]:
    """The displays of a run: clouds and isotropy first, then what repairs, layers and labels do."""
    return [one for one in _candidates(run) if one is not None]


def clouds(pictures: Sequence[Picture]) -> list[CloudPair]:
    """Pictures as pairs: each state of a model, layer and task against the pre-trained one; two that are left, together."""
    shown: list[CloudPair | None] = []
    alone: list[Picture] = []
    for group in grouped(pictures, lambda one: tuple(str(one.about.get(key, "")) for key in ("model", "task", "layer"))).values():
        first, *others = sorted(group, key=lambda one: one.about.get("state") != "pre-trained")
        shown += [CloudPair.of([first, other]) for other in others]
        alone += [] if others else [first]
    shown += [CloudPair.of(alone)] if len(alone) == 2 else [CloudPair.of([one]) for one in alone]
    return [one for one in shown if one is not None]


def _candidates(run: RunData) -> Iterator[Display | None]:
    yield from clouds(run.pictures)
    for metric in METRICS:
        yield IsotropyByLayer.of(run.rows, metric)
    yield Spectra.of(run.spectra)
    yield EVCurves.of(run.rows)
    models = grouped(run.rows, lambda row: row.model).values()
    for rows in models:
        yield from _each(rows, RepairScores.of)
        yield from _each(rows, LayerScores.of)
        yield from _each(rows, Sweep.of)
        yield SeedScores.of(rows)
        yield Clusters.of(rows)
        yield ProbeScores.of(rows)
    for rows in models:
        yield from _each(rows, LabelDistances.of)
        yield from _each(rows, MinimumDistances.of)
        yield from _each(rows, SimilarityByLayer.of)
        yield from _each(rows, CentroidMovement.of)
    for table in _tables(run.paths):
        yield CentroidPaths.of(table)


def _each(rows: Iterable[Row], of: Callable[[Iterable[Row]], Any]) -> Iterator[Any]:
    """A display for each task."""
    for group in grouped(rows, lambda row: row.task).values():
        yield of(group)


def _tables(paths: Any) -> Iterator[Any]:
    """The lines of a table of paths, model by model and task by task."""
    if paths is None or paths.num_rows == 0:
        return
    fields = [name for name in ("model", "task") if name in paths.column_names]
    places = grouped(range(paths.num_rows), list(zip(*(paths[name].to_pylist() for name in fields), strict=True)).__getitem__)
    yield from (paths.take(lines) for lines in places.values())
