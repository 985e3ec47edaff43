"""Findings: planted defects are found, sound clouds are called good; rules have a source, and their sentences are complete."""

from __future__ import annotations

import math
import string

import numpy as np
import pytest

from theodolite.advice.diagnosis import RULES, Facts, FindingRule, findings
from theodolite.core.result import Finding
from theodolite.core.spelling import TypedInput
from theodolite.metrics import METRICS, Cloud, metric_rows
from theodolite.repairs import REPAIRS, make_repair


def judged(X: np.ndarray, metrics: list[str] | None = None) -> dict[str, Finding]:
    cloud = Cloud(X)
    return {finding.topic: finding for finding in findings(cloud, metric_rows(cloud, metrics))}


def sound(n: int = 400, d: int = 24, seed: int = 0) -> np.ndarray:
    """Points around many far-apart centres, scaled to unit length: what a good encoder gives."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n // 8, d)).repeat(8, axis=0) + 0.35 * rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_a_sound_cloud_has_no_bad_findings() -> None:
    by_topic = judged(sound())
    assert {topic for topic, finding in by_topic.items() if finding.verdict == "bad"} <= {"islands"}
    for topic in (
        "cone",
        "isotropy",
        "lengths",
        "zero vectors",
        "near-duplicates",
        "rogue dimensions",
        "cosine or inner product",
    ):
        assert by_topic[topic].verdict == "good"
        assert by_topic[topic].action == ""


def test_a_cone_is_described_with_the_effect_of_centring() -> None:
    X = sound() + np.eye(1, 24, 5) * 8
    cone = judged(X)["cone"]
    assert cone.value > 0.95 and cone.verdict == "bad"
    milder = judged(sound() + np.eye(1, 24, 5) * 2)["cone"]
    assert 0.4 < milder.value < 0.95 and milder.verdict == "watch"  # it costs thresholds, and not the order of search results
    assert "100% of random pairs have cosine above 0.8" in cone.meaning
    assert "dimensions 5," in cone.meaning
    assert "centring alone brings it to" in cone.meaning
    assert cone.command == "theodolite repair fit zero-mean vectors.npy --to repair"


@pytest.mark.parametrize(
    ("topic", "spoil", "rows"),
    [
        ("zero vectors", lambda X: np.where(np.arange(len(X))[:, None] < 20, 0, X), set(range(20))),
        ("near-duplicates", lambda X: np.concatenate([X[:60], X[:60], X[120:]]), set(range(120))),
        ("rogue dimensions", lambda X: sound(d=60) * np.where(np.arange(60) == 3, 30, 1), None),
        ("lengths", lambda X: X * np.geomspace(0.1, 10, len(X))[:, None], None),
        ("cosine or inner product", lambda X: X * np.geomspace(0.1, 10, len(X))[:, None], None),
        ("dominant direction", lambda X: X + np.outer(np.linspace(-9, 9, len(X)), np.ones(24)), None),
        ("isotropy", lambda X: X * ([40] + [1] * 23), None),
        ("effective rank", lambda X: X * ([40] + [0.1] * 23), None),
        ("uniformity", lambda X: X + 3, None),
        ("distance contrast", lambda X: np.random.default_rng(0).standard_normal((400, 600)), None),
    ],
)
def test_planted_defects_are_found(topic: str, spoil: object, rows: set[int] | None) -> None:
    finding = judged(spoil(sound()))[topic]  # type: ignore[operator]
    assert finding.verdict == "bad"
    assert finding.action
    if rows is not None:
        assert finding.rows
        assert set(finding.rows) <= rows


def test_an_outlier_is_named_by_its_row() -> None:
    rng = np.random.default_rng(1)
    X = np.abs(rng.standard_normal((300, 16))) + 2
    X[[17, 170, 200, 222]] = -4 * np.eye(4, 16) - 0.5
    finding = judged(X)["outliers"]
    assert finding.verdict != "good"
    assert set(finding.rows[:4]) == {17, 170, 200, 222}


def test_islands_are_named() -> None:
    rng = np.random.default_rng(2)
    main = rng.standard_normal((400, 8)) * 0.3 + np.eye(1, 8) * 3
    island = rng.standard_normal((12, 8)) * 0.01 - np.eye(1, 8) * 3
    finding = judged(np.concatenate([main, island]))["islands"]
    assert finding.verdict == "watch"
    assert set(finding.rows) <= set(range(400, 412))


def test_the_worst_come_first() -> None:
    cloud = Cloud(sound() + 2)
    severities = [finding.severity for finding in findings(cloud, metric_rows(cloud))]
    assert severities == sorted(severities, reverse=True)
    assert severities[0] == 2


def test_only_measured_metrics_are_judged_and_their_sentences_are_complete() -> None:
    by_topic = judged(sound() + 2, ["mean_cosine"])
    assert list(by_topic) == ["cone"]
    assert "nan" not in by_topic["cone"].meaning


@pytest.mark.parametrize("X", [np.ones((1, 4)), np.ones((9, 4)), np.zeros((9, 4)), np.arange(9.0)[:, None], np.eye(3)])
def test_no_cloud_breaks_a_sentence(X: np.ndarray) -> None:
    for finding in judged(X).values():
        assert "nan" not in finding.meaning
        assert np.isfinite(finding.value)


def test_a_hint_names_the_number_of_components_that_the_cloud_needs() -> None:
    command = judged(sound() * ([40] + [1.0] * 23))["effective rank"].command
    assert command == "theodolite repair fit whiten vectors.npy --to repair --components 1"


every = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.topic)


@every
def test_every_rule_is_based_on_a_default_metric_and_has_a_source(rule: FindingRule) -> None:
    assert METRICS[rule.metric].default
    assert rule.watch != rule.bad
    assert len(rule.source) > 10


@every
def test_every_name_in_a_sentence_is_a_metric_or_a_fact(rule: FindingRule) -> None:
    names = [name for text in (rule.meaning, rule.action) for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    for name in [*names, *filter(None, [rule.examples, rule.judged])]:
        assert name in METRICS or isinstance(vars(Facts)[name], property)


@every
def test_every_command_in_an_action_names_a_repair_and_its_settings(rule: FindingRule) -> None:
    for _, name, spec, _ in string.Formatter().parse(rule.action):
        if name == "fit":
            repair, *settings = str(spec).split()
            assert repair in REPAIRS
            make_repair(repair, **{setting.partition("=")[0]: 1 for setting in settings})
    assert "repair fit" not in rule.action


def test_commands_name_the_vectors_as_the_caller_did() -> None:
    cloud = Cloud(sound() + 2)
    rows = metric_rows(cloud, ["mean_cosine"])
    source = TypedInput("my docs.csv", {"columns": "x:z"}, before="theodolite extract m --to docs")
    first = "theodolite extract m --to docs && theodolite repair fit zero-mean 'my docs.csv' --to repair --columns x:z"
    assert findings(cloud, rows, source)[0].command == first
    assert findings(cloud, rows, TypedInput(""))[0].command == "th.repair.fit('zero-mean', X)"


def test_bounds_may_be_upper_or_lower() -> None:
    upper = FindingRule("a", "b", watch=1.0, bad=2.0, source="", meaning="", action="")
    lower = FindingRule("a", "b", watch=2.0, bad=1.0, source="", meaning="", action="")
    assert (upper.healthy, lower.healthy) == ("at most 1", "at least 2")
    assert upper.exceeds(1.5, upper.watch) and not upper.exceeds(1.5, upper.bad)
    assert lower.exceeds(1.5, lower.watch) and not lower.exceeds(1.5, lower.bad)
    assert not any(rule.exceeds(rule.watch, rule.watch) for rule in (upper, lower))
    assert not upper.exceeds(math.inf, math.inf)


def test_topics_cover_what_comparable_audits_report() -> None:
    assert {rule.topic for rule in RULES} >= {
        "hubness", "never retrieved", "cone", "effective rank", "near-duplicates", "rogue dimensions", "lengths",
        "cosine or inner product", "distance contrast", "outliers", "islands",
        "density", "stability", "intrinsic dimension", "conditioning",
    }  # fmt: skip
