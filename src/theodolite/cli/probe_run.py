"""What `probe` does: make the rows ready, look at the time it will take, probe each layer, and write what was asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from theodolite.cli.probe_inputs import Given, Vectors
from theodolite.cli.probe_tables import Probed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from theodolite.probes.direct import DirectProbe
    from theodolite.probes.rows import HeldOut
    from theodolite.probes.score import ProbeScore

WORTH_ASKING = 2000
"""Rows below which a run is over before an estimate of it would be."""
LONG = 30.0
"""Seconds from which on a run is announced."""
CLASSIFIERS = ("none", "linear", "mlp")
LABEL_DISTANCES = ("mean", "minimum")


@dataclass(frozen=True)
class Settings:
    """How to probe."""

    classifier: str = "none"
    label_distance: str = "mean"
    min_cluster_size: int = 1
    jobs: int | None = None
    seed: int = 0
    budget: float | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        for option, value, known in (
            ("--classifier", self.classifier, CLASSIFIERS),
            ("--label-distance", self.label_distance, LABEL_DISTANCES),
        ):
            if value not in known:
                raise ValueError(f"{option} {value!r} must be one of {', '.join(known)}")

    def check(self, given: Given) -> None:
        """Refuse what needs held-out rows where there are none."""
        if self.classifier != "none" and given.test is None:
            raise ValueError("--classifier is scored on held-out rows, and there are none; give --test PATH or --hold-out SHARE")


@dataclass(frozen=True)
class Outputs:
    """Text files in DirectProbe's own format; `{layer}` in a name becomes the layer's number."""

    clusters: str | None = None
    distances: str | None = None
    predictions: str | None = None
    overwrite: bool = False

    def check(self, given: Given) -> None:
        """Refuse what could not be written, before the work rather than after it."""
        from pathlib import Path

        if self.predictions and given.test is None:
            raise ValueError("--predictions are of held-out rows, and there are none; give --test FILE or --hold-out SHARE")
        for option, name in (("--clusters", self.clusters), ("--distances", self.distances), ("--predictions", self.predictions)):
            if name is None:
                continue
            if len(given.train.layers) > 1 and "{layer}" not in name:
                raise ValueError(f"{option} {name} would hold one of {len(given.train.layers)} layers; put {{layer}} in its name")
            for layer in given.train.layers:
                path = Path(self.named(name, layer))
                if path.exists() and not self.overwrite:
                    raise FileExistsError(f"{path} exists already; choose another name, or say --overwrite")
                if not path.parent.is_dir():
                    raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first")

    def named(self, name: str, layer: int | None) -> str:
        """The name of the file of one layer."""
        return name.replace("{layer}", "" if layer is None else str(layer))

    def write(self, probe: DirectProbe, layer: int | None, X: Any, y: Any) -> None:
        """The files of one layer; X and y are the held-out rows."""
        from theodolite.spaces import directprobe_results as results

        if self.clusters:
            results.write_clusters(probe.clusters_, self.named(self.clusters, layer), overwrite=self.overwrite)
        if self.distances:
            names = [str(label) for label in probe.cluster_labels_]
            pairs = (
                results.ClusterDistance(int(i), names[i], int(j), names[j], float(lower + upper) / 2)
                for i, j, lower, upper in probe.cluster_distances_
            )
            results.write_distances(pairs, self.named(self.distances, layer), overwrite=self.overwrite)
        if self.predictions:
            place = self.named(self.predictions, layer)
            results.write_predictions(y, probe.distances(X), probe.cluster_labels_.tolist(), place, overwrite=self.overwrite)


def prepared(given: Given, *, sample: int | None, hold_out: float | None, drop_unseen: bool, seed: int) -> Given:
    """The rows to fit and to score: held out and sampled as asked, with labels that can be told apart."""
    import numpy as np

    from theodolite.probes import sample as drawn

    train, test = given.train, given.test
    labels = np.unique(train.y)
    if len(labels) < 2:
        raise ValueError(
            f"all {len(train.y):,} rows have the label {labels[0]!s}; there must be at least two labels to tell apart"
        )
    if hold_out and test is None:
        held = drawn.hold_out(train.y, hold_out, seed=seed)
        test = replace(train.at(held), about={**train.about, "split": f"{train.about.get('split') or 'rows'}, held out"})
        train = train.at(np.delete(np.arange(len(train.y)), held))
    if test is not None:
        test = _known(train, test, drop_unseen)
    if sample is not None and sample < len(train.y):
        train = train.at(drawn.sample_by_label(train.y, sample, seed=seed))
    return replace(given, train=train, test=test)


def _known(train: Vectors, test: Vectors, drop_unseen: bool) -> Vectors:
    """The held-out rows, whose labels must be among those that are fitted."""
    import numpy as np

    if tuple(test.layers) != tuple(train.layers):
        raise ValueError(
            f"the layers {list(train.layers)} are fitted, the held-out rows have {list(test.layers)}; they must be the same"
        )
    known = np.isin(test.y, train.y)
    if known.all():
        return test
    unseen, counts = np.unique(test.y[~known], return_counts=True)
    listed = ", ".join(f"{label} ({count})" for label, count in zip(unseen, counts, strict=True))
    if not drop_unseen:
        raise ValueError(
            f"held-out row {int(np.flatnonzero(~known)[0])} has a label that no fitted row has; unseen in all: {listed}. "
            "Correct the labels, or leave those rows out with --drop-unseen"
        )
    print(
        f"theodolite: {int((~known).sum()):,} held-out rows with labels unseen in training are left out: {listed}",
        file=sys.stderr,
    )
    if not known.any():
        raise ValueError("no held-out row has a label that was fitted; give others")
    return test.at(np.flatnonzero(known))


def given_clusters(path: str | None, given: Given) -> NDArray[Any] | None:
    """The cluster of each row from a file, where one is named."""
    from theodolite.spaces.directprobe_results import read_clusters

    if path is None:
        return None
    found = read_clusters(path, n=len(given.train.y))
    if found.min() < 0:
        raise ValueError(
            f"{path}, line {int(found.argmin()) + 1} is -1, a row in no cluster; leave such rows out of the vectors too"
        )
    return found


def check_budget(given: Given, settings: Settings) -> None:
    """Say how long all layers will take, where that is long; an error where it is longer than the budget."""
    from theodolite.probes.direct import NoSpread
    from theodolite.probes.estimate import estimate_cost

    if settings.budget is None and len(given.train.y) < WORTH_ASKING:
        return
    seconds = 0.0
    for layer in given.train.layers:
        with suppress(NoSpread):  # such a layer is left out, and said so, when it is its turn
            seconds += estimate_cost(given.train.take(layer), given.train.y).seconds
    told = f"about {seconds:.0f} s for {len(given.train.layers)} layer(s) of {len(given.train.y):,} rows"
    if settings.budget is not None and seconds > settings.budget:
        raise ValueError(
            f"probing will take {told}, more than the budget of {settings.budget:g} s; "
            f"take a sample with --sample {max(2, len(given.train.y) // 4)}, or allow a larger --budget"
        )
    if seconds >= LONG:
        print(f"theodolite: probing will take {told}", file=sys.stderr)


def probe_layers(
    given: Given, settings: Settings, outputs: Outputs, clusters: NDArray[Any] | None, seen: Any
) -> Iterator[Probed]:
    """Each layer in turn; one without any spread, such as the [CLS] vectors of layer 0, is named and left out."""
    from theodolite.probes.direct import NoSpread

    for layer in given.train.layers:
        try:
            yield _probe_layer(layer, given, settings, outputs, clusters, seen)
        except NoSpread as error:
            if len(given.train.layers) == 1:
                raise
            print(f"theodolite: layer {layer} is left out: {error}", file=sys.stderr)


def _probe_layer(
    layer: int | None, given: Given, settings: Settings, outputs: Outputs, clusters: NDArray[Any] | None, seen: Any
) -> Probed:
    from theodolite.probes.direct import DirectProbe
    from theodolite.probes.rows import closest_pair, mean_minimum_distance, probe_rows, summaries

    train, test = given.train, given.test
    name = "" if layer is None else f" layer {layer}"
    X, y = train.take(layer), train.y
    probe = DirectProbe(
        label_distance=settings.label_distance,  # type: ignore[arg-type]  # held to the known ones by Settings
        min_cluster_size=settings.min_cluster_size,
        n_jobs=settings.jobs,
        progress=_stages(seen, name),
    )
    began = time.perf_counter()
    probe.fit(X, y, clusters=clusters)
    seconds = time.perf_counter() - began
    held_out, score = None, None
    T = test.take(layer) if test is not None else None
    if test is not None:
        held_out = _held_out(probe, T, test)
        score = _classified(settings, X, y, T, test.y, seen.steps(f"classifier{name}"))
    outputs.write(probe, layer, T, test.y if test is not None else None)
    about = {**train.about, "layer": layer, "d": int(X.shape[1]), "seed": settings.seed}
    found = summaries(probe, y)
    return Probed(
        layer=layer,
        verdict=probe.verdict(),
        clusters=int(probe.n_clusters_),
        is_linear=bool(probe.is_linear_),
        labels=found,
        closest=closest_pair(probe),
        mean_minimum=mean_minimum_distance(found),
        held_out=held_out,
        score=score,
        seconds=seconds,
        rows=probe_rows(probe, y, about=about, held_out=held_out, score=score, seconds=seconds),
    )


def _held_out(probe: DirectProbe, X: Any, test: Vectors) -> HeldOut:
    import numpy as np

    from theodolite.probes.rows import HeldOut

    return HeldOut(float(np.mean(probe.predict(X) == test.y)), len(test.y), str(test.about.get("split", "")))


def _classified(settings: Settings, X: Any, y: Any, T: Any, yt: Any, tick: Callable[[int, int], None]) -> ProbeScore | None:
    from theodolite.probes.classifier import ClassifierProbe
    from theodolite.probes.linear import LinearProbe

    if settings.classifier == "none":
        return None
    options: dict[str, Any] = {"seed": settings.seed, "progress": tick}
    if settings.classifier == "linear":
        return LinearProbe(**options).fit(X, y).evaluate(T, yt)
    device = "cpu" if settings.device == "auto" else settings.device
    return ClassifierProbe(device=device, **options).fit(X, y).evaluate(T, yt)


def _stages(seen: Any, name: str) -> Callable[[str, int, int], None]:
    """A bar for each stage of a probe."""
    bars: dict[str, Callable[[int, int], None]] = {}

    def tick(stage: str, done: int, total: int) -> None:
        if stage not in bars:
            bars[stage] = seen.steps(f"{stage}{name}")
        bars[stage](done, total)

    return tick
