"""Figures that carry a page: dots are on the side that their words say, and every number is where it belongs."""

from __future__ import annotations

import numpy as np
import pytest
from report_samples import study

import theodolite as th
from theodolite.advice.diagnosis import RULES
from theodolite.core.result import Effect, Finding, Judged, Result, Verdict
from theodolite.core.rows import Row
from theodolite.reports.displays import Display
from theodolite.reports.figures import displays_of
from theodolite.reports.overviews import REACH


def display(result: Result, kind: str) -> Display:
    return next(display for display in displays_of(result) if display.kind == kind)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.topic)
def test_a_finding_is_drawn_where_its_verdict_is(rule: th.advice.diagnosis.Rule) -> None:
    step = 1.0 if not np.isfinite(rule.bad) else abs(rule.bad - rule.watch)
    away = -1 if rule.bad < rule.watch else 1
    for verdict, value in (("good", rule.watch - away * step / 2), ("watch", rule.watch + away * step / 2)):
        finding = Finding(
            topic=rule.topic, verdict=verdict, value=value, metric=rule.metric, healthy="", source="", meaning="", action=""  # type: ignore[arg-type]
        )  # fmt: skip
        (dot,) = display(Result(verb="survey", findings=(finding,)), "ranges").plot().data
        assert (dot.x[0] < 0) == (verdict == "good") and dot.x[0] < 1


def test_the_forest_has_one_line_per_deciding_effect_beyond_the_line_if_its_interval_excludes_0() -> None:
    result = study(points=5)
    effects = [effect for verdict in result.verdicts for effect in verdict.measured.effects if effect.primary]
    forest = display(result, "claims")
    without = sum(not any(effect.primary for effect in verdict.measured.effects) for verdict in result.verdicts)
    assert len(forest.frame()) == len(effects) + without
    places = sorted(x for trace in forest.plot().data for x in trace.x if x is not None)
    outside = sum(not effect.low <= 0 <= effect.high for effect in effects if effect.low is not None and effect.high is not None)
    assert sum(abs(x) > 1 for x in places) == outside


@pytest.mark.parametrize(
    ("claimed", "boundary", "place"),
    [("above 0", 0.0, 2.0), ("below 0", 0.0, -2.0), ("below 5", 5.0, 3.0), ("inside ±4", 4.0, 2.0)],
)
def test_what_is_as_claimed_is_to_the_right(claimed: str, boundary: float, place: float) -> None:
    effect = Effect(name="a", value=2.0, low=1.0, high=3.0, claimed=claimed, side=claimed.split()[0], boundary=boundary)
    judged = Judged(source="", outcome="supported", why="", effects=(effect,))
    verdict = Verdict(claim="A", title="t", rule="r", model="m", measured=judged)
    (trace,) = display(Result(verb="study", verdicts=(verdict,)), "claims").plot().data
    assert list(trace.x) == [place]


def test_changes_are_a_map_of_metrics_and_layers() -> None:
    rows = tuple(
        Row(metric=metric, state=state, layer=layer, value=sign * (layer + 1.0))
        for metric, sign in (("iso_score", 1), ("mean_cosine", -1))
        for layer in range(3)
        for state in ("before", "after", "difference")
    )
    (map_,) = display(Result(verb="compare", rows=rows), "changes").plot().data
    assert np.allclose(np.array(map_.z, float), [[1 / 3, 2 / 3, 1], [-1 / 3, -2 / 3, -1]])
    assert map_.text[1][2] == "−3"


def test_the_histogram_of_a_comparison_has_both_sides_and_shares_that_sum_to_1() -> None:
    X = np.random.default_rng(0).standard_normal((50, 4))
    result = th.compare(X, X + 3, metrics=["pair_cosine_median"], bootstrap=20)
    before, after = display(result, "similarities").plot().data
    assert sum(before.y) == pytest.approx(1) and sum(after.y) == pytest.approx(1)
    middle = [np.average(trace.x, weights=trace.y) for trace in (before, after)]
    assert middle[0] < 0.2 and middle[1] > 0.6


def test_two_clouds_are_drawn_in_one_frame_so_that_a_shift_can_be_seen() -> None:
    X = np.random.default_rng(0).standard_normal((50, 4))
    before, after = th.compare(X, X + 3, metrics=["iso_score"], bootstrap=20).pictures
    assert before.about["frame"] == after.about["frame"] == "common"
    shift = (after.points - before.points).mean(axis=0)
    assert np.linalg.norm(shift) == pytest.approx(6, abs=0.5)  # 3 in each of 4 dimensions, nearly all in the three drawn
    assert np.linalg.norm(before.points.mean(axis=0)) < 1


def test_an_effect_beyond_the_axis_is_an_arrow_at_its_edge() -> None:
    effects = [
        Effect(name=str(v), value=v, low=v - 1, high=v + 1, claimed="above 0", side="above") for v in (1000.0, -1000.0, 2.0)
    ]
    measured = Judged(source="measured", outcome="inconclusive", why="", effects=tuple(effects))
    verdict = Verdict(claim="C", title="c", rule="", model="m", measured=measured)
    (trace,) = display(Result(verb="study", verdicts=(verdict,)), "claims").plot().data
    assert list(trace.x) == [REACH + 1, -REACH - 1, 2.0] and list(trace.error_x.array) == [0, 0, 1]
    assert list(trace.marker.symbol) == ["triangle-right", "triangle-left", "circle"]
