"""The demo: the main job end to end, offline. Fine-tune an encoder, see what that did to its space, and try to repair it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.advice.folds import resample_counts, spearman_influence
from theodolite.advice.scorers import SentencePairs
from theodolite.core.files import write_text
from theodolite.core.intervals import deviation_interval
from theodolite.core.result import Answer, Command, Result
from theodolite.core.rows import Row, current_versions, write_rows
from theodolite.core.spelling import command
from theodolite.core.states import DIFFERENCE, FINE_TUNED
from theodolite.verbs.progress import Progress

TASK = "demo-pairs"
EPOCHS = 4
LEARNING_RATE = 1e-4  # a few hundred sentences give few steps
DIRECTIONS = 6  # the papers' 12 of 768, for 384 dimensions
CLUSTERS = 5  # a few hundred sentences do not fill the papers' 27
DRAWS = 1000
UNTUNED = "before fine-tuning"
REASON = (
    "Fine-tuning stores what the task needs in the directions of most variance, and a repair removes or flattens just those: "
    "a better-shaped space is not a better model."
)

STATIC_REPAIRS = ("zero-mean", "global")
STATIC_SAMPLE = 5_000  # half of what a survey takes by itself: three clouds are measured, and it should not take long
STATIC_METRICS = ("iso_score", "mean_cosine", "effective_rank", "hubness")


def demo(to: str | os.PathLike[str] = "theodolite-demo", *, progress: bool | Progress | None = None) -> list[Result]:
    """Show what repairs do to a fine-tuned encoder, what fine-tuning did to its space, and the training run, in this order."""
    from theodolite.models.encoder import Encoder
    from theodolite.tasks.declarations import find_task
    from theodolite.verbs.comparing import compare
    from theodolite.verbs.fine_tuning import tune

    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    run = folder / "tuned-pairs"
    tuned = tune(
        "demo",
        task=TASK,
        to=run,
        epochs=EPOCHS,
        learning_rate=LEARNING_RATE,
        validation=0.0,
        by_length=False,  # what the documents show was made with it
        overwrite=True,
        progress=progress,
    )
    encoder = Encoder.load("demo")  # not its name, which a folder here may have, too
    # The task's unit shows every layer; a sentence model's own text has one.
    changed = compare(encoder, run / "model", task=TASK, unit=find_task(TASK).unit, progress=progress)
    repaired = _repair_scores(encoder, run / "model")
    _write_sentences(encoder, folder)
    results = [repaired, changed, tuned]
    write_rows([row for result in results for row in result.rows], folder / "rows.parquet")
    return results


def static_demo(to: str | os.PathLike[str] = "theodolite-demo", *, progress: bool | Progress | None = None) -> list[Result]:
    """Survey 32,000 real word vectors and show what a repair changed; needs no torch."""
    from theodolite.spaces import write_vectors
    from theodolite.spaces.opening import demo_vectors
    from theodolite.verbs import repairing
    from theodolite.verbs.comparing import compare
    from theodolite.verbs.surveying import survey

    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    vectors, original = demo_vectors(), folder / "vectors.npy"
    write_vectors([vectors], original, n=len(vectors), d=vectors.shape[1], dtype=vectors.dtype, overwrite=True)
    surveyed = survey(original, sample=STATIC_SAMPLE, progress=progress)
    rows = list(surveyed.rows)
    for name in STATIC_REPAIRS:
        repair = repairing.fit(name, original, to=folder / f"repair-{name}", overwrite=True, progress=progress)
        repaired = folder / f"{name}.npy"
        repairing.apply(repair, original, to=repaired, overwrite=True, progress=progress)
        rows += survey(repaired, sample=STATIC_SAMPLE, findings=False, progress=progress).rows
    changed = compare(original, repaired, metrics=STATIC_METRICS, sample=STATIC_SAMPLE, bootstrap=50, progress=progress)
    write_rows(rows, folder / "rows.json")
    return [surveyed, changed]


def _repair_scores(encoder: Any, tuned: Path) -> Result:
    """Spearman of the demo's pairs after each repair, before and after fine-tuning; changes after it have an interval."""
    from theodolite.repairs import make_repair
    from theodolite.verbs.extracting import extract

    repairs = {
        "zero-mean": make_repair("zero-mean"),
        "cluster-zero-mean": make_repair("cluster-zero-mean", clusters=CLUSTERS),
        "global": make_repair("global", directions=DIRECTIONS),
        "cluster-based": make_repair("cluster-based", clusters=CLUSTERS, directions=DIRECTIONS),
    }
    rows: list[Row] = []
    for state, model in {UNTUNED: encoder, FINE_TUNED: tuned}.items():
        space = extract(model, task=TASK, split="dev", unit="mean", layers="last", progress=False)
        X, pairs = space[-1], SentencePairs(space)
        shared: dict[str, Any] = {"metric": "spearman", "task": TASK, "split": "dev", "n": len(pairs)}
        shared |= {"model": space.origin.model, "versions": current_versions()}
        draws = resample_counts(np.arange(len(pairs)), DRAWS, seed=0) / len(pairs)
        unrepaired, influence = spearman_influence(pairs.scores, pairs.cosines(X))
        rows.append(Row(value=unrepaired, setting="none", state=state, **shared))
        for name, repair in repairs.items():
            value, moved = spearman_influence(pairs.scores, pairs.cosines(repair.fit(X).transform(X)))
            rows.append(Row(value=value, setting=name, state=state, **shared))
            if state == FINE_TUNED:
                change = value - unrepaired
                low, high = deviation_interval(change, draws @ (moved - influence))
                rows.append(Row(value=change, low=low, high=high, setting=name, state=DIFFERENCE, **shared))
    title = f"Spearman after each repair ({TASK}, {shared['n']} pairs)"
    return Result(verb="repairs", title=title, rows=tuple(rows), answer=_conclusion(rows, tuned))


def _conclusion(rows: list[Row], tuned: Path) -> Answer:
    """How many repairs lower the score of the fine-tuned encoder, and how many of them beyond doubt."""
    changes = [row for row in rows if row.state == DIFFERENCE]
    lower = [row for row in changes if row.value < 0]
    certain = [row for row in lower if row.high is not None and row.high < 0]
    counts = f"{len(lower)} of {len(changes)}"
    return Answer(
        verdict=f"{counts} lower",
        sentence=f"{counts} repairs lower the score of the fine-tuned encoder, {len(certain)} of them beyond doubt.",
        reasons=(REASON,) if len(lower) > len(changes) / 2 else (),
        next=(Command(words=command("repair advise", model=str(tuned), task=TASK), why="try all repairs, each on unseen pairs"),),
    )


def _write_sentences(encoder: Any, folder: Path) -> None:
    """All demo sentences, and their vectors before fine-tuning: something to try the other verbs on."""
    from theodolite.spaces import write_vectors
    from theodolite.tasks.loading import load_task
    from theodolite.verbs.extracting import extract

    splits = [load_task(task, split) for task in (TASK, "demo-topics") for split in ("train", "dev")]
    texts = [text for examples in splits for text in (*examples.texts, *(examples.second or ()))]
    vectors = extract(encoder, texts, layers="last", progress=False)[-1]
    write_vectors([vectors], folder / "sentences.npy", n=len(vectors), d=vectors.shape[1], dtype=vectors.dtype, overwrite=True)
    write_text(folder / "sentences.txt", "".join(f"{text}\n" for text in texts))
