"""Measure every layer of a model in training on a fixed sample, at whatever step it is called, without effect on the training."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from theodolite.core.rows import Row, write_rows
from theodolite.core.states import FINE_TUNING, PRE_TRAINED
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from theodolite.models.encoder import Encoder
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import TEXT_UNIT, Unit
from theodolite.tuning.heads import encoder_of
from theodolite.tuning.resume import undisturbed
from theodolite.tuning.rows import DIVERGED
from theodolite.tuning.settings import When, steps_to_track
from theodolite.tuning.tracking.label_distances import centroid_rows, hull_rows, no_hulls
from theodolite.tuning.tracking.sample import Floats, Sample, save_step

# What is measured by default: cheap on a few hundred vectors.
METRICS = ("iso_score", "mean_cosine", "effective_rank", "ev_1", "log_partition_isotropy")
# Texts in the sample by default.
TEXTS = 256
# A layer that was beyond a bound before training has collapsed if less than this share of what it had then is left.
REMAINDER = 0.1
# A mean cosine this close to 1 has nothing to lose: [CLS] in the embeddings is the same vector in every text.
NEGLIGIBLE = 1e-4


class CollapseWarning(UserWarning):
    """A layer's vectors all point one way, or vary along few directions only."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """The bounds beyond which a layer has collapsed.

    A layer that was beyond a bound before training, as [CLS] in low layers and many encoders' pooled texts are, is judged by a
    tenth of its own distance from 1, or of its own share, instead.

    Parameters
    ----------
    mean_cosine
        The largest mean cosine; None to judge none.
    rank_share
        The smallest effective rank, as a share of the largest possible one (the dimension d, or n - 1 for fewer vectors); None
        to judge none.
    """

    mean_cosine: float | None = 0.95
    rank_share: float | None = 0.01

    def crossings(self, before: Sequence[Row], now: Sequence[Row]) -> list[str]:
        """One sentence for every bound that a layer is beyond now and was not when it was last measured.

        Parameters
        ----------
        before
            All earlier rows, in the order they were measured.
        now
            The rows measured now; at step 0 nothing is judged.
        """
        first: dict[tuple[int | None, str], Row] = {}
        last: dict[tuple[int | None, str], Row] = {}
        for row in before:
            first.setdefault((row.layer, row.metric), row)
            last[row.layer, row.metric] = row
        sentences = []
        for row in now:
            start, previous = (rows.get((row.layer, row.metric)) for rows in (first, last))
            fault = self._fault(row, start)
            if fault and row.step and not (previous and self._fault(previous, start)):
                sentences.append(f"layer {row.layer} has collapsed at step {row.step}: {fault}")
        return sentences

    def _fault(self, row: Row, start: Row | None) -> str:
        if row.metric == "mean_cosine" and self.mean_cosine is not None:
            return _cosine_fault(row.value, self.mean_cosine, None if start is None else start.value)
        if row.metric == "effective_rank" and self.rank_share is not None and row.n is not None and row.d is not None:
            return _rank_fault(row.value, min(row.d, row.n - 1), self.rank_share, None if start is None else start.value)
        return ""


@dataclass(eq=False)
class GeometryTracker:
    """Measures every layer of an encoder on a fixed, seeded sample of texts or examples.

    In any training loop: `tracker.measure(model, step)`, which returns the rows and leaves weights, gradients, modes and random
    states as they were. A collapse is a `CollapseWarning`.

    Parameters
    ----------
    texts
        The texts, or examples of a task, to draw the sample from. Labels give the distances of their centroids too.
    tokenizer
        The encoder's tokenizer.
    every
        When `due` says yes: "epoch", every N steps, or at these steps; step 0 always.
    unit
        What gets a vector; words for tasks on words.
    layers
        "all", "last", a number or several.
    metrics
        Names of metrics.
    hulls
        Whether to measure the distances of the labels' convex hulls too.
    size
        Number of texts in the sample.
    seed
        Seed of the sample.
    max_length
        Texts are cut to this number of tokens; by default as many as the encoder takes.
    alarm
        The bounds of a collapse.
    stop
        Whether a collapse should end the training: `collapsed` is then True.
    path
        A `.jsonl` file that gets the rows as they are measured.
    vectors
        A folder that gets the measured vectors of every step, to be read with `read_steps`.
    about
        Further fields of every row.
    """

    texts: Examples | Sequence[str]
    tokenizer: Any
    _: KW_ONLY
    every: When | str | None = "epoch"
    unit: Unit = TEXT_UNIT
    layers: str | int | Sequence[int] = "all"
    metrics: Sequence[str] = METRICS
    hulls: bool = False
    size: int = TEXTS
    seed: int = 0
    max_length: int | None = None
    alarm: Alarm = field(default_factory=Alarm)
    stop: bool = False
    path: str | os.PathLike[str] | None = None
    vectors: str | os.PathLike[str] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    collapsed: bool = field(default=False, init=False)
    rows: list[Row] = field(default_factory=list, init=False)
    _sample: Sample | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.every = steps_to_track(self.every)

    def due(self, step: int) -> bool:
        """Whether to measure at a step; only a trainer knows where its epochs end.

        Parameters
        ----------
        step
            Steps of training so far.
        """
        if step == 0:
            return True
        if isinstance(self.every, int):
            return step % self.every == 0
        return isinstance(self.every, tuple) and step in self.every

    def measure(self, model: nn.Module, step: int) -> list[Row]:
        """Measure every layer now; the rows are returned, added to `rows`, written and judged by the alarm.

        Parameters
        ----------
        model
            The model that trains: an encoder, alone or with a head, or a SentenceTransformer.
        step
            Steps of training so far.
        """
        encoder = encoder_of(model)
        if self._sample is None:  # only the encoder knows how long a text may be
            reader = Encoder(encoder, self.tokenizer, max_length=self.max_length)
            self._sample = Sample.of(self.texts, reader, unit=self.unit, size=self.size, seed=self.seed)
        with undisturbed(encoder):
            vectors = self._sample.vectors(encoder, self.layers)
            rows = [row for layer, X in vectors.items() for row in self._layer_rows(X, self._sample.labels, layer, step)]
        if self.vectors is not None:
            save_step(Path(self.vectors), step, vectors, self._sample.labels, seed=self.seed)
        crossings = self.alarm.crossings(self.rows, rows)
        self.rows += rows
        self._append(rows)
        for sentence in crossings:
            warnings.warn(sentence, CollapseWarning, stacklevel=2)
        self.collapsed = self.collapsed or bool(crossings)
        return rows

    def resume(self, step: int) -> None:
        """Go back to what was known at a step: later rows, of a run that was interrupted, are dropped and measured again.

        Parameters
        ----------
        step
            The step that the training continues from.
        """
        if self.path is None:
            return
        self.rows = [row for row in read_complete_lines(Path(self.path)) if (row.step or 0) <= step] if step else []
        write_rows(self.rows, self.path)

    def _layer_rows(self, X: Floats, labels: Sequence[str], layer: int, step: int) -> list[Row]:
        about = {"state": FINE_TUNING if step else PRE_TRAINED, **self.about, "layer": layer, "step": step}
        if not np.isfinite(X).all():
            undefined = [Row(metric=name, value=float("nan"), reason=DIVERGED, **about) for name in self.metrics]
            return [*undefined, no_hulls(DIVERGED, about)] if self.hulls else undefined
        rows = metric_rows(Cloud(X, seed=self.seed), self.metrics, about=about)
        if labels:
            shape = {"n": X.shape[0], "d": X.shape[1], "seed": self.seed, "versions": rows[0].versions if rows else ""}
            rows += [replace(row, **about, **shape) for row in centroid_rows(X, labels)]
        if self.hulls:
            rows += hull_rows(X, labels, seed=self.seed, about=about)
        return rows

    def _append(self, rows: Sequence[Row]) -> None:
        if self.path is None:
            return
        # Line by line, so that a kill costs at most the last one.
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())


def read_complete_lines(path: Path) -> list[Row]:
    """The rows of a file that is appended to; a last line that a kill cut off is left out.

    Parameters
    ----------
    path
        A `.jsonl` file; it need not exist.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [Row.from_dict(json.loads(line)) for line in lines if line]


def _cosine_fault(value: float, bound: float, start: float | None) -> str:
    if start is not None and 1 - start < NEGLIGIBLE:
        return ""
    if start is not None and start > bound:
        bound = 1 - REMAINDER * (1 - start)
    return f"its mean cosine is {value:.4f}, above the bound {bound:.4g}; its vectors point one way" if value > bound else ""


def _rank_fault(value: float, possible: int, bound: float, start: float | None) -> str:
    if start is not None and start / possible < bound:
        bound = REMAINDER * start / possible
    share = value / possible
    if not share < bound:
        return ""
    return (
        f"its effective rank is {value:.1f} of {possible} possible, a share of {share:.4f}, below the bound {bound:.4g}; "
        "its vectors vary along few directions"
    )
