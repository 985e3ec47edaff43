"""Vectors out of a database, as the documentation says: through a Parquet file that the database's own client fills."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import theodolite

X = np.random.default_rng(0).standard_normal((250, 6)).astype(np.float32)


@pytest.mark.slow
def test_the_recipe_for_qdrant_gives_back_what_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        qdrant = pytest.importorskip("qdrant_client")
    monkeypatch.chdir(tmp_path)
    client = qdrant.QdrantClient(path="store")
    # The distance is Euclidean: by cosine, Qdrant stores unit vectors, which are what a survey then sees.
    config = qdrant.models.VectorParams(size=6, distance=qdrant.models.Distance.EUCLID)
    client.create_collection("texts", vectors_config=config)
    points = [qdrant.models.PointStruct(id=i, vector=x.tolist(), payload={"text": f"text {i}"}) for i, x in enumerate(X)]
    client.upsert("texts", points)
    client.close()

    page = Path(__file__).parents[2] / "docs" / "files.md"
    recipe = page.read_text(encoding="utf-8").split("```python\nfrom qdrant_client")[1].split("```")[0]
    exec("from qdrant_client" + recipe, {})
    (row,) = theodolite.survey("texts.parquet", metrics=["iso_score"], findings=False, progress=False)
    expected = theodolite.survey(X, metrics=["iso_score"], findings=False, progress=False)[0].value
    assert (row.n, row.d) == X.shape
    assert row.value == pytest.approx(expected, rel=1e-6)
