"""A model card written from rows: what was done, what it gave, on which data, and how to load it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from theodolite.core.rows import Row
from theodolite.tuning.settings import METHODS, TuneSettings

SHOWN = ("iso_score", "ev_1", "ev_2", "ev_3")


def write_card(folder: Path, rows: Sequence[Row], settings: TuneSettings) -> None:
    """`README.md` of a model folder, with the front matter that the hub reads."""
    (folder / "README.md").write_text(card(rows, settings), encoding="utf-8")


def card(rows: Sequence[Row], settings: TuneSettings) -> str:
    """The card's Markdown. The scored split's rows are told for the first and the last state that they have."""
    task = settings.declared
    scored = [row for row in rows if row.metric == task.score and row.split not in ("train", "validation")]
    before, after = scored[0], scored[-1]
    lines = [
        "---",
        "library_name: theodolite",
        *([] if Path(settings.model).is_dir() else [f"base_model: {settings.model}"]),  # the hub knows no folders
        f"tags: [theodolite, {settings.method}, {task.name}]",
        "---",
        "",
        f"# {Path(settings.model).name} on {task.name}, {settings.method}",
        "",
        f"Fine-tuned with {METHODS[settings.method]}. Seed {settings.seed}.",
        "",
        f"| {after.split}, {after.n} rows | {before.state} | {after.state} |",
        "|---|---|---|",
    ]
    for name in (task.score, *SHOWN):
        values = [_value(rows, name, each) for each in (before, after)]
        lines.append(f"| {name} | {values[0]} | {values[1]} |")
    lines += ["", *_data(rows, settings), "", *_loading(settings), "", f"Made with {after.versions}.", ""]
    return "\n".join(lines)


def _value(rows: Sequence[Row], name: str, like: Row) -> str:
    found = next((row for row in rows if (row.metric, row.state, row.split) == (name, like.state, like.split)), None)
    return "–" if found is None else "not defined" if found.value != found.value else f"{found.value:.4f}"


def _data(rows: Sequence[Row], settings: TuneSettings) -> list[str]:
    counts = {row.split: row.n for row in rows if row.n is not None and row.split}
    told = ", ".join(f"{split} {n}" for split, n in counts.items())
    limit = "" if settings.max_length is None else f" Texts are cut to {settings.max_length} tokens."
    return [f"Data: {settings.declared.name}; rows: {told}.{limit} The numbers above are all from these rows, one seed."]


def _loading(settings: TuneSettings) -> list[str]:
    pair = settings.declared.kind in ("pair_classification", "similarity")
    arguments = '["a text"], ["the other"]' if pair else '["a text"]'
    alone = "`AutoModel` loads the encoder alone, without what stands between it and the head."
    if settings.method == "isolayer" and (settings.layer is None or settings.layer.activation == "identity"):
        alone += " `SentenceTransformer` loads encoder and Isotropy Layer: its vectors are those that the head takes."
    return [
        "```python",
        "from theodolite.tuning import TunedClassifier",
        "",
        'classifier = TunedClassifier.from_pretrained("this folder")',
        f"classifier.predict({arguments})",
        f"classifier.vectors({arguments})  # what the head takes",
        "```",
        "",
        alone,
    ]
