"""What the report draws of a layer: its cloud with what is known of each point, and its spectrum."""

from __future__ import annotations

import numpy as np

from theodolite.core.kmeans import kmeans, nearest
from theodolite.core.moments import Moments
from theodolite.core.pictures import draw_picture as picture
from theodolite.core.pictures import write_picture
from theodolite.core.rows import Row
from theodolite.spaces.space import Space
from theodolite.studies.actions.vectors import about, examples, opened
from theodolite.studies.step import Work
from theodolite.tasks.examples import Examples

PICTURE = "picture.parquet"
SPECTRUM = "spectrum.parquet"
KNOWN = ("token", "word", "label", "frequency")


def draw_picture(work: Work) -> list[Row]:
    """The layer on its first three directions: a sample of its rows, the same ones in every state."""
    space, layer = opened(work), int(work.settings["layer"])
    X = np.asarray(space[layer])
    columns = {("token" if name == "word" else name): list(space.rows[name]) for name in KNOWN if name in space.rows}
    columns["text"] = _sentences(space, examples(work))
    if work.settings.get("k"):
        labels = nearest(X, kmeans(X, work.settings["k"], seed=work.settings["seed"]).centroids)
        columns["cluster"] = [str(label) for label in labels]
    shown = picture(X, columns=columns, about=about(space, layer), points=work.settings["points"], seed=work.settings["seed"])
    write_picture(shown, work.folder / PICTURE)
    return []


def spectrum(work: Work) -> list[Row]:
    """The shares of the variance on every principal direction, descending, as a table."""
    import pyarrow
    import pyarrow.parquet as parquet

    space, layer = opened(work), int(work.settings["layer"])
    values = np.linalg.eigvalsh(Moments.of(space[layer]).covariance())[::-1].clip(min=0.0)
    shares = values / max(float(values.sum()), np.finfo(float).tiny)
    told = about(space, layer)
    same = {"model": told["model"], "state": told["state"], "layer": layer, "setting": work.settings["setting"]}
    table = {name: [value] * len(shares) for name, value in same.items()}
    parquet.write_table(pyarrow.table({**table, "k": np.arange(1, len(shares) + 1), "value": shares}), work.folder / SPECTRUM)
    return []


def _sentences(space: Space, given: Examples) -> list[str]:
    """The text of each row."""
    if "sentence" in space.rows:
        return [str(text) for text in space.rows["sentence"]]
    second = given.second or given.texts
    sides = space.rows["side"] if "side" in space.rows else [0] * space.n
    return [(second if side else given.texts)[text] for text, side in zip(space.rows["text"], sides, strict=True)]
