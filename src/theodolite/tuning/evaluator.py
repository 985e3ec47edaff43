"""A sentence-transformers evaluator that reports the geometry of a model's own vectors, and how many bounds they break."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers.base.evaluation import BaseEvaluator

from theodolite.core.rows import Row
from theodolite.metrics import registry
from theodolite.metrics.bounds import Bound
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from theodolite.tuning.tracked_sample import undisturbed
from theodolite.tuning.tracker import METRICS

BROKEN = "broken_bounds"


class GeometryEvaluator(BaseEvaluator):
    """Surveys what `model.encode` returns for some texts: in a trainer's evaluation loop, in its logs, and in the model card.

    The training is not affected: modes, gradients and random states are as they were afterwards.

    Parameters
    ----------
    texts
        The texts to encode, at least two; a few hundred are enough.
    metrics
        Names of metrics; those with bounds are measured too. The first one chooses the best checkpoint.
    bounds
        Bounds by metric, as the table `[bounds]` of a `theodolite.toml` has them: `{"mean_cosine": {"max": 0.3, "rise": 0.05}}`.
        `drop` and `rise` are relative to the first evaluation.
    name
        What the names of the results begin with.
    batch_size
        Texts per batch.

    Attributes
    ----------
    breaches
        One sentence for every bound that the last evaluation broke.
    """

    def __init__(
        self,
        texts: Sequence[str],
        *,
        metrics: Sequence[str] = METRICS,
        bounds: Mapping[str, Mapping[str, Any]] | None = None,
        name: str = "geometry",
        batch_size: int = 32,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if len(texts) < 2:
            raise ValueError(f"there are {len(texts)} texts, but measuring geometry needs at least two")
        self.texts, self.name, self.batch_size = list(texts), name, batch_size
        self.bounds = [Bound.parse(metric, values) for metric, values in (bounds or {}).items()]
        self.metrics = registry.check_metrics([*metrics, *(bound.metric for bound in self.bounds)])
        self.primary_metric = self.metrics[0]
        self.greater_is_better = registry.METRICS[self.metrics[0]].direction != registry.LOWER
        self.breaches: list[str] = []
        self._first: dict[str, Row] = {}

    def __call__(self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1) -> dict[str, float]:
        """Measure the model now."""
        with undisturbed(model):
            X = model.encode(self.texts, batch_size=self.batch_size, show_progress_bar=False, convert_to_numpy=True)
        rows = {row.metric: row for row in metric_rows(Cloud(np.asarray(X, np.float32)), self.metrics)}
        self._first = self._first or rows
        sentences = (bound.breach(rows[bound.metric], self._first[bound.metric].value) for bound in self.bounds)
        self.breaches = [sentence for sentence in sentences if sentence]
        values = {metric: row.value for metric, row in rows.items()}
        if self.bounds:
            values[BROKEN] = float(len(self.breaches))
        values = self.prefix_name_to_metrics(values, self.name)
        self.store_metrics_in_model_card_data(model, values, int(epoch), steps)
        if output_path is not None:
            Path(output_path).mkdir(parents=True, exist_ok=True)
            finite = {key: value if np.isfinite(value) else None for key, value in values.items()}
            line = {"epoch": epoch, "steps": steps, **finite, "breaches": self.breaches}
            with (Path(output_path) / f"{self.name or 'geometry'}_results.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        return values

    def get_config_dict(self) -> dict[str, Any]:
        """What the model card says of the evaluator."""
        return {"texts": len(self.texts), "bounds": [bound.metric for bound in self.bounds]}
