"""Runs to make pages of: small, seeded, with everything that a page can show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from theodolite.core.pictures import Picture, draw_picture, write_picture
from theodolite.core.result import Effect, Judged, Verdict
from theodolite.core.rows import Row, write_rows
from theodolite.reports.run_folder import RunData

STATES = ("pre-trained", "fine-tuned")
REPAIRS = ("baseline", "zero-mean", "clustering+zero-mean", "global", "cluster-based", "least global 100", "least global 700")
LAYERS = 7
TAGS = ("NOUN", "VERB", "ADJ", "ADP", "DET", "PRON", "ADV", "NUM")
SENTENCE = "the a dog river runs over old bridge while rain falls on green hills and people walk home slowly under lamps"
WORDS = SENTENCE.split()


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
    for at, state in enumerate(STATES):
        for i, setting in enumerate(REPAIRS):
            score = 0.55 + 0.25 * at + (0.04 - 0.06 * at) * i / 6
            yield Row(
                metric="spearman",
                value=score,
                low=score - 0.02,
                high=score + 0.02,
                state=state,
                layer=6,
                setting=setting,
                **about,
            )
            change = score - 0.55 - 0.25 * at
            yield Row(
                metric="spearman_change",
                value=change,
                low=change - 0.01,
                high=change + 0.01,
                state=state,
                layer=6,
                setting=setting,
                **about,
            )
            yield Row(
                metric="log_partition_isotropy", value=-40 + 5 * i - 20 * at, state=state, layer=6, setting=setting, **about
            )
            yield Row(metric="iso_score", value=0.05 + 0.04 * i, state=state, layer=6, setting=setting, **about)
        for unit in ("tokens", "cls"):
            for layer in range(LAYERS):
                value = -5 - 4 * layer - 10 * at - 8 * (unit == "cls") + float(random.normal())
                yield Row(metric="log_partition_isotropy", value=value, state=state, layer=layer, setting=unit, **about)
                yield Row(
                    metric="iso_score",
                    value=0.4 / (layer + 1),
                    low=0.35 / (layer + 1),
                    high=0.45 / (layer + 1),
                    state=state,
                    layer=layer,
                    setting=unit,
                    **about,
                )
        for removed in range(0, 16, 3):
            yield Row(
                metric="spearman",
                value=0.6 + 0.2 * at - 0.002 * removed,
                state=state,
                setting="sweep global",
                label=str(removed),
                **about,
            )
            yield Row(
                metric="iso_score", value=0.1 + 0.01 * removed, state=state, setting="sweep global", label=str(removed), **about
            )
        yield Row(metric="silhouette", value=0.12 - 0.05 * at, low=0.1 - 0.05 * at, high=0.14 - 0.05 * at, state=state, **about)
        yield Row(metric="frequency_r2", value=float("nan"), reason="word frequencies are not at hand", state=state, **about)


def verdicts_of(model: str = "minilm") -> tuple[Verdict, ...]:
    """One verdict of each kind, and one whose printed table bends its claim."""
    hurts = Effect(
        name="cluster-based, fine-tuned", value=-0.021, low=-0.03, high=-0.012, n=1500, how="paired bootstrap over sentence pairs"
    )
    helps = Effect(
        name="cluster-based, pre-trained", value=0.083, low=0.071, high=0.094, n=1500, how="paired bootstrap over sentence pairs"
    )
    unsure = Effect(name="zero-mean, fine-tuned", value=0.002, low=-0.004, high=0.008, n=1500)
    return (
        Verdict(
            claim="PD22-1",
            title="Repairing isotropy hurts a fine-tuned space",
            rule="Holds if clustering + zero-mean, global and cluster-based all hurt the tuned and help the pre-trained space.",
            model=model,
            measured=Judged(
                source="measured", outcome="holds", why="All three repairs lower the tuned score.", effects=(hurts, helps, unsure)
            ),
            printed=(
                Judged(
                    source="RP21, table 1", outcome="does not hold", why="Zero-mean raises it: 84.41 → 84.94.", effects=(unsure,)
                ),
            ),
        ),
        Verdict(
            claim="PD22-3",
            title="The clustered structure fades",
            rule="The gain from clustering shrinks, and silhouette and between-cluster share fall.",
            model=model,
            measured=Judged(
                source="measured", outcome="does not hold", why="The silhouette rises from 0.07 to 0.12.", effects=(unsure,)
            ),
        ),
        Verdict(
            claim="RP21-c",
            title="RoBERTa is less isotropic than BERT",
            rule="Needs both families.",
            model=model,
            measured=Judged(source="measured", outcome="not decidable here", why="There is one family of models here."),
        ),
    )


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
        "frequency": [-2.0 - 0.2 * WORDS.index(token) for token in tokens],
        "cluster": [int(i) for i in random.integers(0, 27, points)],
    }
    X = random.normal(size=(points, 8)) * np.linspace(4, 0.5, 8)
    about = {"model": model, "layer": 6, "task": "stsb"}
    return tuple(
        draw_picture(cloud, columns=columns, about={**about, "state": state}, points=points)
        for state, cloud in zip(STATES, (X, X * np.linspace(1, 2, 8) + random.normal(size=8)), strict=True)
    )


def spectra_of(model: str = "minilm") -> pa.Table:
    """Eigenvalue shares of every state at two layers."""
    lines = [(model, state, layer, "tokens", k) for state in STATES for layer in (1, 6) for k in range(1, 33)]
    shares = {state: np.arange(1, 33.0) ** -(1.0 + i) for i, state in enumerate(STATES)}
    names = ("model", "state", "layer", "setting", "k")
    table = {name: [line[i] for line in lines] for i, name in enumerate(names)}
    return pa.table(table | {"value": [float(shares[line[1]][line[4] - 1] / shares[line[1]].sum()) for line in lines]})


def paths_of() -> pa.Table:
    """Three labels that move apart over five steps."""
    lines = [
        ("pos", layer, tag, 10 * step, step * (i - 1) * 0.3 + i, step * 0.1 * i, 0.1 * i)
        for layer in (1, 6)
        for i, tag in enumerate(TAGS[:4])
        for step in range(5)
    ]
    names = ("task", "layer", "label", "step", "x", "y", "z")
    return pa.table({name: [line[i] for line in lines] for i, name in enumerate(names)})


def study(name: str = "rp21-minilm", *, points: int = 600, models: tuple[str, ...] = ("minilm",), **changes: Any) -> RunData:
    """A whole run."""
    told: dict[str, Any] = {
        "name": name,
        "title": "RP21: what fine-tuning does to isotropy",
        "kind": "study",
        "command": f"theodolite study run rp21 --model {models[0]} --task stsb --to {name}",
        "facts": {
            "study": "rp21",
            "models": list(models),
            "settings": {"seed": 0, "k": 27, "D": 12},
            "versions": "python 3.11.7; numpy 2.4.6",
            "notes": ["Word frequencies are those of wordfreq, not of a Wikipedia dump."],
        },
        "rows": tuple(row for i, model in enumerate(models) for row in rows_of(model, i)),
        "verdicts": tuple(verdict for model in models for verdict in verdicts_of(model)),
        "pictures": tuple(one for i, model in enumerate(models) for one in pictures_of(points, model=model, seed=i)),
        "paths": paths_of(),
        "spectra": spectra_of(models[0]),
    }
    return RunData(**{**told, **changes})


def write_run(run: RunData, folder: Path) -> Path:
    """The run as `study run` leaves it."""
    (folder / "pictures").mkdir(parents=True)
    told = {"name": run.name, "title": run.title, "kind": run.kind, "command": run.command, **run.facts}
    (folder / "run.json").write_text(json.dumps(told), encoding="utf-8")
    write_rows(run.rows, folder / "rows.parquet")
    (folder / "verdicts.json").write_text(json.dumps([asdict(one) for one in run.verdicts]), encoding="utf-8")
    for i, one in enumerate(run.pictures):
        write_picture(one, folder / "pictures" / f"{i}.parquet")
    for name, table in (("paths", run.paths), ("spectra", run.spectra)):
        if table is not None:
            pq.write_table(table, folder / f"{name}.parquet")
    return folder
