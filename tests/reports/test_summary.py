"""What a terminal shows of a fine-tuning: the size of the tracked sample, and an IsoScore that this size allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from theodolite.core.result import Finding, Result
from theodolite.core.rows import Row
from theodolite.metrics import iso_score
from theodolite.reports.blocks import Paragraph
from theodolite.reports.summary import blocks_of
from theodolite.reports.tables import Table

VALUES = {"iso_score": 0.05, "iso_score_corrected": 0.4}


def test_the_finding_that_names_a_cause_leads_what_it_accounts_for() -> None:
    shared: dict[str, Any] = {
        "verdict": "watch",
        "value": 1.0,
        "healthy": "",
        "source": "",
        "meaning": "",
        "cause": "two populations",
    }
    topics = {"dominant direction": "ev_1_centered", "two populations": "second_population"}
    findings = tuple(
        Finding(topic=topic, metric=metric, action=f"look at {metric}", **shared) for topic, metric in topics.items()
    )
    blocks = blocks_of(Result(verb="survey", rows=(Row(metric="ev_1_centered", value=1.0),), findings=findings))
    text = "\n".join(block.text for block in blocks if isinstance(block, Paragraph))
    assert "Look at second_population" in text and "also unusual for this reason: dominant direction 1" in text


def tuned(n: int, d: int, **values: float) -> tuple[str, list[str]]:
    """The paragraphs of a run whose tracker measured n vectors in d dimensions, and the columns of its layer table."""
    rows = [
        Row(metric=metric, value=value, layer=layer, step=step, n=n, d=d, seed=0)
        for layer in range(2)
        for step in (0, 6)
        for metric, value in (values or VALUES).items()
    ]
    blocks = blocks_of(Result(verb="tune", title="a run", rows=tuple(rows)))
    text = "\n".join(block.text for block in blocks if isinstance(block, Paragraph))
    return text, [column.name for block in blocks if isinstance(block, Table) for column in block.columns]


def test_few_vectors_show_the_corrected_score_and_the_ceiling() -> None:
    text, columns = tuned(32, 256)
    assert "a fixed sample of 32 vectors" in text and "cannot exceed 0.118" in text
    assert "IsoScore, corrected" in columns and "IsoScore" not in columns
    text, columns = tuned(500, 256)  # above the number of dimensions, there is no ceiling but still a bias
    assert "cannot exceed" not in text and "IsoScore, corrected" in columns


def test_many_vectors_show_the_score_itself() -> None:
    text, columns = tuned(2560, 256)
    assert "a fixed sample of 2,560 vectors" in text and "corrected" not in text
    assert "IsoScore" in columns and "IsoScore, corrected" not in columns


def test_a_run_from_before_the_correction_shows_what_it_has() -> None:
    _, columns = tuned(32, 256, iso_score=0.05)
    assert "IsoScore" in columns


@pytest.mark.parametrize("n", [3, 10, 32])
def test_the_ceiling_is_reached_by_rows_at_right_angles(n: int) -> None:
    from theodolite.metrics.isoscore import iso_score_ceiling

    assert iso_score(np.eye(n, 64)) == pytest.approx(iso_score_ceiling(n, 64))
