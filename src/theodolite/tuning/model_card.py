"""A model card written from rows: what was done, what it gave, on which data, and how to load it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from theodolite.core.files import write_text
from theodolite.core.rows import Row
from theodolite.core.states import state_title
from theodolite.models.location import model_name
from theodolite.tuning.settings import METHODS, TuneSettings

# Metrics of the head's vectors in the table, after the task's score.
SHOWN = ("iso_score", "ev_1", "ev_2", "ev_3")


def write_card(folder: Path, rows: Sequence[Row], settings: TuneSettings) -> None:
    """Write `README.md` of a model folder, with the front matter that the Hub reads.

    Parameters
    ----------
    folder
        The model's folder.
    rows
        The run's rows; the table has the first and the last state of the scored split.
    settings
        The run's settings.
    """
    task, name = settings.declared, model_name(settings.model)
    scores = [row for row in rows if row.metric == task.score and row.split not in ("train", "validation")]
    before, after = scores[0], scores[-1]
    lines = [
        "---",
        "library_name: theodolite",
        *([f"base_model: {name}"] if name == settings.model else []),  # the Hub knows no folders
        f"tags: [theodolite, {settings.method}, {task.name}]",
        "---",
        "",
        f"# {Path(name).name} on {task.name}, {settings.method}",
        "",
        f"Fine-tuned with {METHODS[settings.method]}. Seed {settings.seed}.",
        "",
        f"| {after.split}, {after.n} rows | {state_title(before.state)} | {state_title(after.state)} |",
        "|---|---|---|",
        *(f"| {metric} | {_value(rows, metric, before)} | {_value(rows, metric, after)} |" for metric in (task.score, *SHOWN)),
        "",
        *_data(rows, settings),
        "",
        *_loading(settings),
        "",
        f"Made with {after.versions}.",
        "",
    ]
    write_text(folder / "README.md", "\n".join(lines))


def _value(rows: Sequence[Row], metric: str, score: Row) -> str:
    """The value of a metric in the state of a score."""
    row = next((row for row in rows if (row.metric, row.state, row.split) == (metric, score.state, score.split)), None)
    return "–" if row is None else "not defined" if row.value != row.value else f"{row.value:.4f}"


def _data(rows: Sequence[Row], settings: TuneSettings) -> list[str]:
    counts = {row.split: row.n for row in rows if row.n is not None and row.split}
    splits = ", ".join(f"{split} {n}" for split, n in counts.items())
    limit = "" if settings.max_length is None else f" Texts are cut to {settings.max_length} tokens."
    return [f"Data: {settings.declared.name}; rows: {splits}.{limit} The numbers above are all from these rows, one seed."]


def _loading(settings: TuneSettings) -> list[str]:
    is_pair = settings.declared.kind in ("pair_classification", "similarity")
    arguments = '["a text"], ["the other"]' if is_pair else '["a text"]'
    libraries = "`AutoModel` loads the encoder alone, without what is between it and the head."
    if settings.method == "isolayer" and (settings.layer is None or settings.layer.activation == "identity"):
        libraries += " `SentenceTransformer` loads encoder and Isotropy Layer: its vectors are those that the head takes."
    return [
        "```python",
        "from theodolite.tuning import TunedClassifier",
        "",
        'classifier = TunedClassifier.from_pretrained("this folder")',
        f"classifier.predict({arguments})",
        f"classifier.vectors({arguments})  # what the head takes",
        "```",
        "",
        libraries,
    ]
