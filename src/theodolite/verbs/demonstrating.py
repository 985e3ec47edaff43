"""The demo: the main job end to end, offline. Fine-tune an encoder, see what that did to its space, and repair it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.core.result import Result
from theodolite.core.states import FINE_TUNED
from theodolite.verbs.progress import Progress

if TYPE_CHECKING:
    from theodolite.core.rows import Row

TASKS = ("demo-pairs", "demo-topics")
EPOCHS = 4
LEARNING_RATE = 1e-4  # a few hundred sentences give few steps
DIRECTIONS = 6  # the papers' 12 of 768, for 384 dimensions
CLUSTERS = 5  # a few hundred sentences do not fill the papers' 27
AS_IT_COMES = "as it comes"

STATIC_REPAIRS = ("zero-mean", "global")
STATIC_SAMPLE = 5_000  # half of what a survey takes by itself: three clouds are measured, and it should not take long
STATIC_METRICS = ("iso_score", "mean_cosine", "effective_rank", "hubness")


def demo(to: str | os.PathLike[str] = "theodolite-demo", *, progress: bool | Progress | None = None) -> Iterator[Result]:
    """Fine-tune a small English encoder on sentences that come with the package, and see what that does to its space."""
    from theodolite.core.rows import write_rows
    from theodolite.tasks.declarations import find_task
    from theodolite.verbs.comparing import compare
    from theodolite.verbs.fine_tuning import tune

    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for task in TASKS:
        run = folder / f"tuned-{task.removeprefix('demo-')}"
        tuned = tune(
            "demo",
            task=task,
            to=run,
            epochs=EPOCHS,
            learning_rate=LEARNING_RATE,
            validation=0.0,
            overwrite=True,
            progress=progress,
        )
        yield tuned
        # The task's unit shows every layer; a sentence model's own text has one.
        changed = compare("demo", run / "model", task=task, unit=find_task(task).unit, progress=progress)
        rows += [*tuned.rows, *changed.rows]
        yield changed
    repaired = _repair_scores({AS_IT_COMES: "demo", FINE_TUNED: str(folder / "tuned-pairs" / "model")})
    yield repaired
    _write_sentences(folder / "sentences.npy")
    write_rows([*rows, *repaired.rows], folder / "rows.parquet")


def static_demo(to: str | os.PathLike[str] = "theodolite-demo", *, progress: bool | Progress | None = None) -> Iterator[Result]:
    """Survey, repair and compare 32,000 real word vectors, without torch."""
    from theodolite.core.rows import write_rows
    from theodolite.spaces import write_vectors
    from theodolite.spaces.opening import demo_vectors
    from theodolite.verbs import repairing
    from theodolite.verbs.comparing import compare
    from theodolite.verbs.surveying import survey

    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    vectors, original = demo_vectors(), folder / "vectors.npy"
    write_vectors([vectors], original, n=len(vectors), d=vectors.shape[1], dtype=vectors.dtype, overwrite=True)
    result = survey(original, sample=STATIC_SAMPLE, progress=progress)
    rows = list(result.rows)
    yield result
    for name in STATIC_REPAIRS:
        repair = repairing.fit(name, original, to=folder / f"repair-{name}", overwrite=True, progress=progress)
        repaired = folder / f"{name}.npy"
        yield repairing.apply(repair, original, to=repaired, overwrite=True, progress=progress)
        rows += survey(repaired, sample=STATIC_SAMPLE, findings=False, progress=progress).rows
    yield compare(original, repaired, metrics=STATIC_METRICS, sample=STATIC_SAMPLE, bootstrap=50, progress=progress)
    write_rows(rows, folder / "rows.json")


def _repair_scores(models: dict[str, str]) -> Result:
    """Spearman of the demo's pairs after each repair, on the encoder as it comes and fine-tuned."""
    from theodolite.advice.pair_scores import SentencePairs
    from theodolite.core.rows import Row, current_versions
    from theodolite.repairs import make_repair
    from theodolite.tasks.scores import spearman
    from theodolite.verbs.extracting import extract

    repairs = {
        "zero-mean": make_repair("zero-mean"),
        "cluster-zero-mean": make_repair("cluster-zero-mean", clusters=CLUSTERS),
        "global": make_repair("global", directions=DIRECTIONS),
        "cluster-based": make_repair("cluster-based", clusters=CLUSTERS, directions=DIRECTIONS),
    }
    rows = []
    for state, model in models.items():
        space = extract(model, task="demo-pairs", split="dev", unit="mean", layers="last", progress=False)
        X, pairs = space[-1], SentencePairs(space)
        about: dict[str, Any] = {"state": state, "model": model, "task": "demo-pairs", "split": "dev", "n": len(pairs)}
        vectors = {"none": X} | {name: repair.fit(X).transform(X) for name, repair in repairs.items()}
        for name, repaired in vectors.items():
            value = spearman(pairs.scores, pairs.cosines(repaired))
            rows.append(Row(metric="spearman", value=value, setting=f"repair={name}", versions=current_versions(), **about))
    return Result(verb="repairs", title="Spearman after each repair (demo-pairs dev)", rows=tuple(rows))


def _write_sentences(path: Path) -> None:
    """Vectors of all demo sentences, as the encoder comes: something to try the other verbs on."""
    from theodolite.spaces import write_vectors
    from theodolite.tasks.loading import load_task
    from theodolite.verbs.extracting import extract

    texts: list[str] = []
    for task in TASKS:
        for split in ("train", "dev"):
            examples = load_task(task, split)
            texts += [*examples.texts, *(examples.second or ())]
    vectors = extract("demo", texts, layers="last", progress=False)[-1]
    write_vectors([vectors], path, n=len(vectors), d=vectors.shape[1], dtype=vectors.dtype, overwrite=True)
