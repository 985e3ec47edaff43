"""`theodolite demo`: the main job end to end, offline: fine-tune an encoder, see what that did to its space, repair it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.frame import guarded, progress, stdout

if TYPE_CHECKING:
    from theodolite.core.rows import Row
    from theodolite.tuning.run import Tuned

TASKS = ("demo-pairs", "demo-topics")
EPOCHS = 4
LEARNING_RATE = 1e-4  # a few hundred sentences give few steps
DIRECTIONS = 6  # the papers' 12 of 768, for 384 dimensions
CLUSTERS = 5  # a few hundred sentences do not fill the papers' 27


@guarded
def demo_command(
    to: Annotated[
        str,
        typer.Option("--to", metavar="FOLDER", help="Folder for all results; what an earlier demo wrote is replaced."),
    ] = "theodolite-demo",
    static: Annotated[
        bool, typer.Option("--static", help="Without torch: survey and repair a table of 32,000 word vectors instead.")
    ] = False,
) -> None:
    """Fine-tune a small English encoder on sentences that come with the package, and see what that does to its space.

    Takes a few minutes on two cores and needs no network: the encoder (all-MiniLM-L6-v2, a contrastively fine-tuned sentence
    model) comes with the extra [demo], the sentences with the package.

    \b
    Examples:
      theodolite demo
      theodolite demo --static
    """  # noqa: D301  # \b keeps the lines of the example apart
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    if static:
        from theodolite.cli.demo_static import run_static

        run_static(folder)
        return
    rows: list[Row] = []
    console = stdout()
    console.print(
        "Encoder: all-MiniLM-L6-v2, 6 layers, d = 384, contrastively fine-tuned; as it comes it is called A.", markup=False
    )
    for task in TASKS:
        tuned = fine_tune(task, folder)
        rows += tuned.rows
        rows += show_before_and_after(console, task, tuned)
    rows += show_repairs(console, folder)
    write_sentences(folder)
    say_where(console, folder, rows)


def fine_tune(task: str, folder: Path) -> Tuned:
    """The demo's encoder, tuned on one of the demo's tasks."""
    from theodolite.cli.tune_wish import preset_for
    from theodolite.models.demo import demo_folder
    from theodolite.tasks.load import find_task
    from theodolite.tuning import preset, tune

    name = preset_for(find_task(task).kind)
    settings = preset(
        name,
        task=task,
        model=demo_folder(),
        output=tuned_folder(folder, task),
        epochs=EPOCHS,
        learning_rate=LEARNING_RATE,
        validation=0.0,
        patience=None,
    )
    with progress() as bars:
        return tune(settings, overwrite=True, progress=bars.steps(f"fine-tuning on {task}"))


def tuned_folder(folder: Path, task: str) -> Path:
    """Where the run on a task lies."""
    return folder / f"tuned-{task.removeprefix('demo-')}"


def show_before_and_after(console: Any, task: str, tuned: Tuned) -> list[Row]:
    """Score and every layer's shape, before and after; returns the rows."""
    from theodolite.cli.layers import ModelTexts, show_change, survey_layered
    from theodolite.cli.numbers import number
    from theodolite.cli.texts import chosen_texts

    texts = ModelTexts(chosen_texts(task, None, None, None, None, None), "all", False, None, {})
    with progress() as bars:
        spaces = [texts.space(model, bars) for model in ("demo", str(tuned.folder))]
        before, after = (survey_layered(space, None, sample=10_000, seed=0, bootstrap=0, seen=bars) for space in spaces)
    score = next(row for row in tuned.rows if row.state == "fine-tuned" and row.layer is None)
    console.print(
        f"\n{task} (dev): {score.metric} {number(tuned.before)} → {number(tuned.after)} after {tuned.steps} steps\n"
        f"each layer, {texts.chosen.unit} vectors of {before[0].n} texts, A → fine-tuned:",
        markup=False,
    )
    show_change(console, before, after)
    return [*before, *after]


def show_repairs(console: Any, folder: Path) -> list[Row]:
    """Spearman of the pairs after each repair, on the encoder as it comes and fine-tuned; returns the rows."""
    from theodolite.advice.repaired import repaired_scores
    from theodolite.cli.extract import load_encoder
    from theodolite.cli.numbers import number
    from theodolite.cli.tables import plain_table
    from theodolite.core.rows import Row, current_versions
    from theodolite.models.extract import extract
    from theodolite.repairs import ClusterRemoveDirections, ClusterZeroMean, RemoveDirections, ZeroMean
    from theodolite.tasks.load import load_task

    examples = load_task("demo-pairs", "dev")
    assert examples.scores is not None
    repairs = {
        "zero-mean": ZeroMean(),
        "cluster-zero-mean": ClusterZeroMean(CLUSTERS),
        "global": RemoveDirections(DIRECTIONS),
        "cluster-based": ClusterRemoveDirections(CLUSTERS, DIRECTIONS),
    }
    scores: dict[str, dict[str, float]] = {}
    rows = []
    for state, model in (("as it comes", "demo"), ("fine-tuned", str(tuned_folder(folder, "demo-pairs") / "model"))):
        space = extract(load_encoder(model), examples, unit="mean", layers="last")
        side = space.rows["side"]
        first, second = (space[-1][[i for i, each in enumerate(side) if each == wanted]] for wanted in (0, 1))
        scores[state] = repaired_scores(first, second, examples.scores, repairs)
        about: dict[str, Any] = {
            "state": state,
            "model": model,
            "task": "demo-pairs",
            "split": "dev",
            "n": len(examples),
            "versions": current_versions(),
        }
        rows += [Row(metric="spearman", value=v, setting=f"repair={name}", **about) for name, v in scores[state].items()]
    table = plain_table(["Spearman after repair", *scores], right=set(scores))
    for name in ("none", *repairs):
        table.add_row(name, *(number(found[name]) for found in scores.values()))
    console.print()
    console.print(table)
    return rows


def write_sentences(folder: Path) -> None:
    """Vectors of all demo sentences, as the encoder comes: something to try the other verbs on."""
    from theodolite.cli.demo_static import write
    from theodolite.models.demo import demo_encoder
    from theodolite.models.extract import extract
    from theodolite.tasks.load import load_task

    texts: list[str] = []
    for task in TASKS:
        for split in ("train", "dev"):
            examples = load_task(task, split)
            texts += [*examples.texts, *(examples.second or ())]
    write(extract(demo_encoder(), texts, unit="mean", layers="last")[-1], folder / "sentences.npy")


def say_where(console: Any, folder: Path, rows: list[Row]) -> None:
    """What lies where, and what to try next."""
    from theodolite.core.rows import write_rows

    write_rows(rows, folder / "rows.parquet")
    console.print(
        f"\nIn {folder}: the fine-tuned encoders (tuned-pairs/model, tuned-topics/model), sentences.npy, and rows.parquet with "
        f"all {len(rows)} numbers.\nNext: theodolite survey {folder / 'sentences.npy'}",
        markup=False,
        soft_wrap=True,
    )
