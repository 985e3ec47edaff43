"""What a run reports: the rows of scores, losses and shape, its `Result`, statistics over seeds, and the model card."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.files import write_text
from theodolite.core.result import Answer, Command, Result
from theodolite.core.rows import Row, today
from theodolite.core.spelling import command
from theodolite.core.states import FINE_TUNING, state_title
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from theodolite.metrics.registry import label_of
from theodolite.metrics.spectral import explained_variance_curve
from theodolite.models.extraction import model_versions
from theodolite.models.location import model_name
from theodolite.tasks.scores import Learning
from theodolite.tuning.runs import Splits
from theodolite.tuning.settings import METHODS, TuneSettings

SHAPE_METRICS = ("iso_score", "iso_score_corrected")
# Directions of the curve of explained variance (IL23, figure 2).
CURVE = 20
# How the names of metrics of centred vectors end.
CENTRED = "_centered"
# Metrics of the head's vectors on the model card, after the task's score.
ON_CARD = ("iso_score", "ev_1", "ev_2", "ev_3", "ev_1_centered", "ev_2_centered", "ev_3_centered")
# Learning rates that are usually tried for encoders (IL23), in ascending order.
LEARNING_RATES = (2e-5, 5e-5, 1e-4, 3e-4)
# Takes options as they are typed, and returns the command that repeats a run with them.
Again: TypeAlias = Callable[..., str]
DIVERGED = "the vectors are not finite: the training has diverged"


def row_fields(settings: TuneSettings, state: str, step: int) -> dict[str, Any]:
    """What every row of a run says about where it comes from."""
    origin = {"model": model_name(settings.model), "revision": settings.revision or "", "task": settings.declared.name}
    return {**origin, "state": state, "step": step, "seed": settings.seed, "versions": run_versions()}


def run_versions() -> str:
    """The versions of the libraries that a fine-tuned model depends on, in one line."""
    return model_versions("sentence-transformers", "accelerate")


def run_result(
    settings: TuneSettings,
    rows: Sequence[Row],
    learned: Learning,
    *,
    best_epoch: float,
    steps: int,
    notes: Sequence[str] = (),
    again: Again | None = None,
) -> Result:
    """What a finished run saves in its folder."""
    before, after = _main_scores(settings, rows)
    limit = f"Trained on at most {settings.train_rows:,} examples." if settings.train_rows else ""
    name = model_name(settings.model)
    method = "" if settings.method == "plain" else f", {settings.method_summary()}"
    return Result(
        verb="tune",
        title=f"Fine-tuning {name} on {settings.declared.name}{method}",
        answer=_answer(settings, after, learned, again),
        rows=tuple(rows),
        conditions=(limit,) if limit else (),
        notes=tuple(notes),
        provenance={
            "inputs": [settings.model],
            "date": today(),
            "settings": settings.to_dict(),
            "models": [{"name": name, "place": settings.model, "revision": settings.revision or ""}],
            "versions": run_versions(),
            "outcome": {
                "before": before.value,
                "after": after.value,
                "low": learned.low,
                "baseline": learned.baseline,
                "best_epoch": best_epoch,
                "steps": steps,
            },
        },
    )


def _answer(settings: TuneSettings, score: Row, learned: Learning, again: Again | None) -> Answer:
    """Whether a run learned its task, by the one-sided 95% lower limit of its score over the scored examples."""
    task, where = settings.declared.name, f"its {label_of(score.metric)} on {score.split}"
    value, baseline = f"{where} is {score.value:.3f}", f"{learned.baseline:.3f} ({learned.what})"
    if learned.learned:
        sentence = f"The model learned {task}: {value}, at least {learned.low:.3f} with 95% confidence, above {baseline}."
        return Answer(verdict="learned", sentence=sentence, next=(_report(settings.output),))
    if learned.one_answer:
        sentence = f"The model did not learn {task}: it gives all {score.n:,} {score.split} examples the same answer"
        sentence += "." if math.isnan(score.value) else f", and {value}."
    elif math.isnan(score.value):
        sentence = f"Whether the model learned {task} is not known: {where} is not defined, because {score.reason}."
    else:
        sentence = f"The model did not learn {task}: {value}, and its 95% lower limit {learned.low:.3f} is not above {baseline}."
    commands: tuple[Command, ...] = ()
    if again is not None:
        higher = [rate for rate in LEARNING_RATES if rate > settings.learning_rate]
        lower = [rate for rate in LEARNING_RATES if rate < settings.learning_rate]
        if higher:
            commands = (Command(words=again(learning_rate=f"{higher[0]:g}"), why="try a higher learning rate"),)
        elif learned.one_answer:
            commands = (Command(words=again(learning_rate=f"{lower[-1]:g}"), why="try a lower learning rate"),)
        else:
            commands = (Command(words=again(epochs=str(2 * settings.epochs)), why="train for twice as long"),)
    return Answer(verdict="collapsed" if learned.one_answer else "not learned", sentence=sentence, next=commands)


def _report(folder: str | os.PathLike[str]) -> Command:
    return Command(words=command("report", os.fspath(folder)), why="see the scores and the geometry on a page")


def median_answer(results: Sequence[Result], folder: str | os.PathLike[str]) -> Answer | None:
    """The answer of the seed with the median score, with how many seeds learned; None if a run of an earlier release has none."""
    answers = [result.answer for result in results if result.answer is not None]
    if len(answers) < len(results):
        return None
    scores = [result.provenance["outcome"]["after"] for result in results]
    scores = [-math.inf if value is None or math.isnan(value) else value for value in scores]
    middle = sorted(range(len(scores)), key=scores.__getitem__)[(len(scores) - 1) // 2]
    count, seed = sum(answer.verdict == "learned" for answer in answers), results[middle].provenance["settings"]["seed"]
    reason = f"{count} of {len(answers)} seeds learned the task; the answer is for seed {seed}, which has the median score."
    commands = (_report(folder),) if answers[middle].verdict == "learned" else answers[middle].next
    return replace(answers[middle], reasons=(reason,), next=commands)


def _main_scores(settings: TuneSettings, rows: Sequence[Row]) -> tuple[Row, Row]:
    """The first and the last row of the main score on the scored split; those of validation rows are taken while training."""
    scores = [row for row in rows if row.metric == settings.declared.score and row.state != FINE_TUNING]
    return scores[0], scores[-1]


def loss_rows(settings: TuneSettings, splits: Splits, history: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Losses and validation scores of a training."""
    name = splits.dev.task.score
    for entry in history:
        fields = row_fields(settings, FINE_TUNING, entry["step"])
        if "loss" in entry:
            yield Row(metric="train_loss", value=entry["loss"], split="train", n=len(splits.train), **fields)
        value = entry.get(f"eval_{name}_cosine" if settings.is_siamese else f"eval_{name}")
        if value is not None and splits.validation is not None:
            yield validation_row(name, value, len(splits.validation), fields)


def validation_row(metric: str, value: float, n: int, fields: Mapping[str, Any]) -> Row:
    """A score on the validation rows, with a reason if it is nan."""
    reason = f"{metric} is not defined on the validation rows" if math.isnan(value) else ""
    return Row(metric=metric, value=value, reason=reason, split="validation", n=n, **fields)


def shape_rows(X: NDArray[Any], fields: Mapping[str, Any]) -> list[Row]:
    """IsoScore, plain and corrected, and EV 1 to 20, uncentred (IL23 eq. 1) and centred, of the vectors that a head takes."""
    n, d = X.shape
    if not np.isfinite(X).all():
        names = (*SHAPE_METRICS, *(f"ev_{k}{ending}" for ending in ("", CENTRED) for k in range(1, min(CURVE, d) + 1)))
        return [Row(metric=name, value=float("nan"), reason=DIVERGED, n=n, d=d, **fields) for name in names]
    # The cloud's seed becomes that of its rows, so it must not be in `about` too.
    cloud = Cloud(X, seed=int(fields.get("seed") or 0))
    rows = metric_rows(cloud, SHAPE_METRICS, about={name: value for name, value in fields.items() if name != "seed"})
    for ending, undefined in (("", "all rows are zero"), (CENTRED, "all rows are the same point")):
        curve = explained_variance_curve(cloud, min(CURVE, d), centered=bool(ending))
        if ending and not cloud.moments.has_spread:  # what is left of the variance is rounding
            curve = np.full_like(curve, np.nan)
        for k, share in enumerate(curve, 1):
            reason = undefined if np.isnan(share) else ""
            rows.append(Row(metric=f"ev_{k}{ending}", value=float(share), reason=reason, n=n, d=d, **fields))
    return rows


def over_seeds(rows: Sequence[Row]) -> list[Row]:
    """Median and standard deviation (n - 1) over the seeds of every number that every seed has.

    `setting` says which of the two a row is, and of how many seeds. If the number is not defined for some seed, neither are
    they. `step` is left out: runs may stop at different steps.
    """
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        # What the rows of one number have in common, whatever the seed.
        shared = replace(row, value=0.0, low=None, high=None, reason="", seed=None, step=None)
        groups.setdefault(shared, []).append(row)
    seeds = {row.seed for row in rows}
    summary = []
    for shared, group in groups.items():
        if {row.seed for row in group} == seeds and len(group) == len(seeds):
            values = [row.value for row in group]
            undefined = "the number is not defined for every seed" if any(map(math.isnan, values)) else ""
            no_spread = "" if len(values) > 1 else "one seed has no spread"
            median, deviation = (statistics.median, undefined), (statistics.stdev, undefined or no_spread)
            for name, (function, reason) in (("median", median), ("standard deviation", deviation)):
                value = math.nan if reason else function(values)
                setting = " ".join(filter(None, [shared.setting, f"{name} of {len(group)} seeds"]))
                summary.append(replace(shared, value=value, reason=reason, setting=setting))
    return summary


def write_card(folder: Path, rows: Sequence[Row], settings: TuneSettings) -> None:
    """Write `README.md` of a model folder, with the front matter that the Hub reads."""
    task, name = settings.declared, model_name(settings.model)
    before, after = _main_scores(settings, rows)
    values = {(row.metric, row.state): row.value for row in reversed(rows) if row.split == after.split}
    table = "\n".join(
        f"| {metric} | {' | '.join(_card_value(values.get((metric, state))) for state in (before.state, after.state))} |"
        for metric in (task.score, *ON_CARD)
    )
    counts = {row.split: row.n for row in rows if row.n is not None and row.split}
    splits = ", ".join(f"{split} {n}" for split, n in counts.items())
    limit = "" if settings.max_length is None else f" Texts are cut to {settings.max_length} tokens."
    texts = '["a text"], ["the other"]' if task.kind in ("pair_classification", "similarity") else '["a text"]'
    libraries = "`AutoModel` loads the encoder alone, without what is between it and the head."
    if settings.layer is not None and settings.layer.activation == "identity":
        libraries += " `SentenceTransformer` loads encoder and Isotropy Layer: its vectors are those that the head takes."
    base_model = f"base_model: {name}\n" if name == settings.model else ""  # the Hub knows no folders
    card = f"""---
library_name: theodolite
{base_model}tags: [theodolite, {settings.method}, {task.name}]
---

# {Path(name).name} on {task.name}, {settings.method}

Fine-tuned with {METHODS[settings.method]}. Seed {settings.seed}.

| {after.split}, {after.n} rows | {state_title(before.state)} | {state_title(after.state)} |
|---|---|---|
{table}

Data: {task.name}; rows: {splits}.{limit} The numbers above are all from these rows, one seed.

```python
from theodolite.tuning import TunedClassifier

classifier = TunedClassifier.from_pretrained("this folder")
classifier.predict({texts})
classifier.vectors({texts})  # what the head takes
```

{libraries}

Made with {after.versions}.
"""
    write_text(folder / "README.md", card)


def _card_value(value: float | None) -> str:
    return "–" if value is None else "not defined" if math.isnan(value) else f"{value:.4f}"
