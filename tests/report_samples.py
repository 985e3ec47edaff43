"""Results to draw: small, seeded, with everything that a page can show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from theodolite.core.pictures import Picture, draw_picture
from theodolite.core.result import Effect, Finding, Judged, Result, Verdict
from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, PRE_TRAINED

STATES = (PRE_TRAINED, FINE_TUNED)
REPAIRS = ("baseline", "zero-mean", "clustering+zero-mean", "global", "cluster-based", "least global 100", "least global 700")
LAYERS = 7
TAGS = ("NOUN", "VERB", "ADJ", "ADP", "DET", "PRON", "ADV", "NUM")
SENTENCE = "the a dog river runs over old bridge while rain falls on green hills and people walk home slowly under lamps"
WORDS = SENTENCE.split()
TABLES: list[dict[str, Any]] = [
    {
        "title": "Repairs: score and isotropy",
        "metrics": ["spearman", "spearman_change", "log_partition_isotropy", "iso_score"],
        "rows": ["run", "model", "setting"],
        "note": "Spearman of cosine and human score, its change against the baseline, and the isotropy of the tokens.",
        "settings": list(REPAIRS),
        "last_layer": True,
    },
    {
        "title": "Isotropy by layer",
        "metrics": ["log_partition_isotropy", "iso_score"],
        "rows": ["run", "model", "setting", "layer"],
        "settings": ["tokens", "cls"],
    },
    {
        "title": "Clusters and word frequency",
        "metrics": ["silhouette", "frequency_r2"],
        "rows": ["run", "model", "metric"],
        "columns": ["state"],
    },
    {
        "title": "Removing the top directions one by one",
        "metrics": ["spearman", "iso_score"],
        "rows": ["run", "model", "label"],
        "settings": ["sweep global"],
        "labels": True,
    },
]
"""The tables that the study declares."""


def rows_of(model: str = "minilm", seed: int = 0) -> Iterator[Row]:
    """Rows of a small `rp21`."""
    random = np.random.default_rng(seed)
    about: dict[str, Any] = {
        "study": "rp21",
        "model": model,
        "task": "stsb",
        "split": "dev",
        "n": 1500,
        "d": 384,
        "versions": "python 3",
    }

    def row(metric: str, value: float, width: float = 0.0, **fields: Any) -> Row:
        bounds = {"low": value - width, "high": value + width} if width else {}
        return Row(metric=metric, value=value, **bounds, **fields, **about)

    for at, state in enumerate(STATES):
        for i, setting in enumerate(REPAIRS):
            place: dict[str, Any] = {"state": state, "layer": LAYERS - 1, "setting": setting}
            score = 0.55 + 0.25 * at + (0.04 - 0.06 * at) * i / 6
            yield row("spearman", score, 0.02, **place)
            yield row("spearman_change", score - 0.55 - 0.25 * at, 0.01, **place)
            yield row("log_partition_isotropy", -40.0 + 5 * i - 20 * at, **place)
            yield row("iso_score", 0.05 + 0.04 * i, **place)
        for unit in ("tokens", "cls"):
            for layer in range(LAYERS):
                place = {"state": state, "layer": layer, "setting": unit}
                value = -5 - 4 * layer - 10 * at - 8 * (unit == "cls") + float(random.normal())
                yield row("log_partition_isotropy", value, **place)
                yield row("iso_score", 0.4 / (layer + 1), 0.05 / (layer + 1), **place)
        for removed in range(0, 16, 3):
            place = {"state": state, "setting": "sweep global", "label": str(removed)}
            yield row("spearman", 0.6 + 0.2 * at - 0.002 * removed, **place)
            yield row("iso_score", 0.1 + 0.01 * removed, **place)
        yield row("silhouette", 0.12 - 0.05 * at, 0.02, state=state)
        yield row("frequency_r2", float("nan"), reason="word frequencies are not at hand", state=state)


def verdicts_of(model: str = "minilm") -> tuple[Verdict, ...]:
    """One verdict of each kind, and one whose printed table disagrees with its claim."""
    how = "paired bootstrap over sentence pairs"
    hurts = Effect(name="cluster-based, fine-tuned", value=-0.021, low=-0.03, high=-0.012, n=1500, how=how)
    helps = Effect(name="cluster-based, pre-trained", value=0.083, low=0.071, high=0.094, n=1500, how=how)
    unsure = Effect(name="zero-mean, fine-tuned", value=0.002, low=-0.004, high=0.008, n=1500)
    three = (hurts, helps, unsure)
    printed = Judged(source="RP21, table 1", outcome="disagrees", why="Zero-mean raises it: 84.41 → 84.94.", effects=(unsure,))
    return (
        Verdict(
            claim="PD22-1",
            title="Repairing isotropy hurts a fine-tuned space",
            rule="Holds if clustering + zero-mean, global and cluster-based all hurt the tuned and help the pre-trained space.",
            model=model,
            measured=Judged(
                source="measured", outcome="supported", why="All three repairs lower the tuned score.", effects=three
            ),
            printed=(printed,),
        ),
        Verdict(
            claim="PD22-3",
            title="The clustered structure fades",
            rule="The gain from clustering shrinks, and silhouette and between-cluster share fall.",
            model=model,
            measured=Judged(
                source="measured", outcome="contradicted", why="The silhouette rises from 0.07 to 0.12.", effects=(unsure,)
            ),
        ),
        Verdict(
            claim="RP21-c",
            title="RoBERTa is less isotropic than BERT",
            rule="Needs both families.",
            model=model,
            measured=Judged(
                source="measured",
                outcome="not measured",
                why="There is one family of models here.",
                command="theodolite study run rp21 --model x",
            ),
        ),
    )


def finding_of(verdict: Any = "bad", **changes: Any) -> Finding:
    """A finding of a survey."""
    fields: dict[str, Any] = {
        "topic": "isotropy",
        "verdict": verdict,
        "value": 0.01,
        "metric": "iso_score",
        "healthy": "above 0.1",
        "source": "a paper",
        "meaning": "Few directions carry most of the variance.",
        "action": "Try the repair `global`.",
    }
    return Finding(**{**fields, **changes})


def pictures_of(points: int = 600, *, model: str = "minilm", text: str = "", seed: int = 0) -> tuple[Picture, ...]:
    """A cloud before and after, its rows described in every way."""
    random = np.random.default_rng(seed)
    sentences = [" ".join(random.choice(WORDS, 9)) + f" {i}" + text for i in range(max(1, points // 6))]
    number = random.integers(0, len(sentences), points)
    tokens = [sentences[i].split()[int(random.integers(0, 9))] for i in number]
    columns: dict[str, Any] = {
        "token": tokens,
        "text": [sentences[i] for i in number],
        "label": [f"label {WORDS.index(token) % 5}" for token in tokens],
        "pos": [TAGS[WORDS.index(token) % len(TAGS)] for token in tokens],
        "frequency": [7.0 - 0.2 * WORDS.index(token) for token in tokens],
        "cluster": [int(i) for i in random.integers(0, 27, points)],
    }
    X = random.normal(size=(points, 8)) * np.linspace(4, 0.5, 8)
    about = {"model": model, "layer": 6, "task": "stsb"}
    return tuple(
        draw_picture(cloud, columns=columns, about={**about, "state": state}, points=points)
        for state, cloud in zip(STATES, (X, X * np.linspace(1, 2, 8) + random.normal(size=8)), strict=True)
    )


def spectra_of(model: str = "minilm") -> pa.Table:
    """Shares of the eigenvalues in every state at two layers."""
    lines = [(model, state, layer, "tokens", k) for state in STATES for layer in (1, 6) for k in range(1, 33)]
    shares = {state: np.arange(1, 33.0) ** -(1.0 + i) for i, state in enumerate(STATES)}
    names = ("model", "state", "layer", "setting", "k")
    table = {name: [line[i] for line in lines] for i, name in enumerate(names)}
    return pa.table(table | {"value": [float(shares[line[1]][line[4] - 1] / shares[line[1]].sum()) for line in lines]})


def paths_of() -> pa.Table:
    """Four labels that move apart over five steps."""
    lines = [
        ("pos", layer, tag, 10 * step, step * (i - 1) * 0.3 + i, step * 0.1 * i, 0.1 * i)
        for layer in (1, 6)
        for i, tag in enumerate(TAGS[:4])
        for step in range(5)
    ]
    names = ("task", "layer", "label", "step", "x", "y", "z")
    return pa.table({name: [line[i] for line in lines] for i, name in enumerate(names)})


def paper_tables_of() -> pa.Table:
    """A cell of a paper's table, and what was measured in it."""
    cell = {"table": "RP21 table 1: Spearman", "fields": ["source", "model"], "head": ["baseline", ""]}
    return pa.Table.from_pylist(
        [
            {**cell, "line": ["RP21 table 1", "BERT-base"], "text": "54.14"},
            {**cell, "line": ["measured here", "minilm"], "text": "55.00"},
        ]
    )


def study(
    name: str = "rp21-minilm",
    *,
    points: int = 600,
    models: tuple[str, ...] = ("minilm",),
    provenance: dict[str, Any] | None = None,
    **changes: Any,
) -> Result:
    """A whole result of a study; `provenance` is added to its own, `changes` replace other fields."""
    about: dict[str, Any] = {
        "name": name,
        "command": f"theodolite study run rp21 --model {models[0]} --task stsb --to {name}",
        "study": "rp21",
        "models": list(models),
        "settings": {"seed": 0, "k": 27, "D": 12},
        "versions": "python 3.11.7; numpy 2.4.6",
        "tables": TABLES,
    }
    fields: dict[str, Any] = {
        "verb": "study",
        "title": "RP21: what fine-tuning does to isotropy",
        "rows": tuple(row for i, model in enumerate(models) for row in rows_of(model, i)),
        "verdicts": tuple(verdict for model in models for verdict in verdicts_of(model)),
        "pictures": tuple(picture for i, model in enumerate(models) for picture in pictures_of(points, model=model, seed=i)),
        "records": {"paths": paths_of(), "spectra": spectra_of(models[0]), "paper_tables": paper_tables_of()},
        "notes": ("Word frequencies are those of wordfreq, not of a Wikipedia dump.",),
        "provenance": {**about, **(provenance or {})},
    }
    return Result(**{**fields, **changes})


STEPS = (0, 10, 20)


def numbers() -> Iterator[float]:
    """Values that are all different, so that none can stand in for another."""
    n = 1
    while True:
        yield (n * 0.6180339887) % 1
        n += 1


def figure_rows(
    model: str = "m", labels: tuple[str, ...] = ("A", "B", "C"), tasks: tuple[str, ...] = ("rte", "cola")
) -> list[Row]:
    """Rows of every figure, each with a value of its own."""
    value = numbers()
    rows: list[Row] = []

    def add(metric: str, **fields: Any) -> None:
        at = next(value)
        bounds = {"low": at - 0.01, "high": at + 0.02} if fields.pop("interval", False) else {}
        rows.append(Row(metric=metric, value=at, model=model, n=100, **bounds, **fields))

    for state in STATES:
        place: dict[str, Any] = {"state": state, "task": "stsb", "split": "dev"}
        for layer in range(3):
            for setting in ("tokens", "cls"):
                add("iso_score", layer=layer, setting=setting, interval=True, **place)
            for setting in ("baseline", "zero-mean", "global", "least global 700"):
                add("spearman", layer=layer, setting=setting, interval=True, **place)
        for setting in ("zero-mean", "global", "least global 700"):
            add("spearman_change", layer=2, setting=setting, interval=True, **place)
            add("gain", layer=2, setting=setting, interval=True, **place)
            add("iso_score", layer=2, setting=setting, **place)
        for d in (0, 1, 12):
            for metric in ("spearman", "log_partition_isotropy", "iso_score"):
                add(metric, layer=2, setting="sweep global", label=str(d), **place)
    for task in tasks:
        for state in ("fine-tuned", "isolayer"):
            for seed in range(3):
                place = {"state": state, "task": task, "split": "dev", "seed": seed}
                for metric in ("accuracy", "iso_score", *(f"ev_{k}" for k in range(1, 21))):
                    add(metric, **place)
    for state in STATES:
        place = {"state": state, "task": "pos", "layer": 2}
        for metric in ("clusters", "labels", "probe_accuracy", "hull_accuracy"):
            add(metric, **place)
        add("train_test_similarity", interval=True, **place)
        for i, first in enumerate(labels):
            for second in labels[i + 1 :]:
                add("label_distance", label=first, other_label=second, interval=True, **place)
    for step in STEPS:
        place = {"state": "fine-tuned", "task": "pos", "step": step}
        for label in labels:
            add("minimum_distance", label=label, layer=2, **place)
        add("mean_minimum_distance", layer=2, **place)
        for layer in range(3):
            add("similarity_to_original", layer=layer, **place)
            add("cka_to_original", layer=layer, **place)
    place = {"state": "fine-tuned", "task": "pos", "step": STEPS[-1]}
    for layer in range(3):
        for label in labels:
            add("centroid_movement", label=label, layer=layer, interval=True, **place)
            add("movement_pca_1", label=label, layer=layer, **place)
            add("movement_pca_2", label=label, layer=layer, **place)
        for metric in ("movement_share_1", "movement_share_2"):
            add(metric, layer=layer, **place)
    return rows


def figure_paths(task: str = "pos", labels: tuple[str, ...] = ("A", "B", "C")) -> pa.Table:
    """Paths of every label at two layers, each coordinate of its own."""
    value = numbers()
    lines = [
        {"task": task, "layer": layer, "label": label, "step": step, "x": next(value), "y": next(value), "z": next(value)}
        for layer in (1, 2)
        for label in labels
        for step in STEPS
    ]
    return pa.Table.from_pylist(lines)


def figure_spectra(model: str = "m") -> pa.Table:
    """Spectra of three layers, each share of its own."""
    value = numbers()
    lines = [
        {"model": model, "state": state, "layer": layer, "setting": "tokens", "k": k, "value": next(value)}
        for state in STATES
        for layer in range(3)
        for k in range(1, 6)
    ]
    return pa.Table.from_pylist(lines)
