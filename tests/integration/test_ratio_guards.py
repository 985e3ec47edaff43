"""What keeps the benchmarks' ratios, counted as work rather than as seconds: passes, products and sums that must not come back.

Also that the page of results and its pictures are what its records give.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from theodolite.core import moments
from theodolite.core.vectors import source
from theodolite.metrics import Cloud, metric_rows, nearest_rows, sphere
from theodolite.repairs import ClusterRemoveDirections, clusterwise

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def rows(n: int, d: int = 16) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, d)).astype(np.float32) * np.arange(1, d + 1, dtype=np.float32) + 1


def test_a_survey_reads_twice_and_multiplies_its_sample_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(3_000)
    read: list[int] = []
    products: list[int] = []
    each_tile = nearest_rows.each_tile

    def counted(points: Any, visit: Any) -> Any:
        products.append(len(points) ** 2)
        return each_tile(points, visit)

    for module in (nearest_rows, sphere):
        monkeypatch.setattr(module, "each_tile", counted)
    metric_rows(Cloud(source(X).watched(read.append), sample=500))
    assert sum(read) == 2 * len(X)
    assert sum(products) == 500**2


def test_a_repair_multiplies_the_rows_of_each_cluster_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = rows(2_000), np.arange(2_000) % 5
    sizes: list[int] = []
    of = moments.BlockMoments.of

    def counted(block: Any, **options: Any) -> Any:
        sizes.append(len(block))
        return of(block, **options)

    monkeypatch.setattr(clusterwise.BlockMoments, "of", counted)
    monkeypatch.setattr(moments, "unit_sums", lambda *_, **__: pytest.fail("unit vectors are not needed for directions"))
    # In blocks smaller than a cluster, whose rows must wait for each other.
    monkeypatch.setattr("theodolite.core.vectors.BLOCK_BYTES", 64 * 16 * 4)
    ClusterRemoveDirections(5, 3).fit(X, labels=labels)
    assert sizes == [400] * 5


def test_freed_memory_is_returned_while_texts_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the extra `models` is not installed")
    from theodolite.models import batches

    trimmed: list[int] = []
    monkeypatch.setattr(batches, "_malloc_trim", lambda: trimmed.append)
    reading = object.__new__(batches.TokenReading)
    object.__setattr__(reading, "batches", [np.arange(2)] * (3 * batches.TRIM_EVERY + 1))
    monkeypatch.setattr(batches.TokenReading, "encode", lambda _, batch: (batch, {}))
    assert len(list(reading.blocks())) == 3 * batches.TRIM_EVERY + 1
    assert trimmed == [0, 0, 0]


def test_the_page_and_its_pictures_are_what_the_records_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from performance_page import DOCS, files

    records = json.loads((BENCHMARKS / "records.json").read_text(encoding="utf-8"))
    written = {path: path.read_text(encoding="utf-8") for path in (DOCS / "images").glob("scaling-*.svg")}
    written[DOCS / "images" / "performance.svg"] = (DOCS / "images" / "performance.svg").read_text(encoding="utf-8")
    written[DOCS / "performance.md"] = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert files(records) == written, "write them again: python benchmarks/run.py --page"


def test_equal_ratios_are_equal_distances_in_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from curves import Line, Panel, in_proportion, picture

    measured = [(10.0, 3.0), (100.0, 30.0), (1000.0, 300.0)]
    lines = [Line("a & b", measured), in_proportion("expected", measured)]
    drawing = ElementTree.fromstring(picture([Panel("rows", "time, s", lines)], "rows < time"))
    shapes = [shape.get("d", "") for shape in drawing.findall(".//{*}path") if shape.get("fill") == "none"]
    curve, reference = ([tuple(map(float, point.split())) for point in shape[1:].split("L")] for shape in shapes)
    assert curve == reference
    steps = np.diff(curve, axis=0)
    assert steps[0] == pytest.approx(steps[1], abs=0.2)
    assert steps[0][0] > 0 > steps[0][1]
    assert "a & b" in [text.text for text in drawing.findall(".//{*}text")]
