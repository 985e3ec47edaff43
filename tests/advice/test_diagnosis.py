"""Findings: planted defects are found and attributed to what was planted, sound clouds are called good, rules have a source."""

from __future__ import annotations

import math
import re
import string

import numpy as np
import pytest

from theodolite.advice.diagnosis import FEWEST_ROWS, RULES, Facts, FindingRule, diagnose, findings
from theodolite.core.result import Answer, Finding
from theodolite.metrics import METRICS, Cloud, mean_cosine, metric_rows


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


def diagnosed(X: np.ndarray) -> tuple[Answer, dict[str, set[str]]]:
    """The answer, and the topics of each cause."""
    cloud = Cloud(X)
    found, answer = diagnose(cloud, metric_rows(cloud))
    causes: dict[str, set[str]] = {}
    for finding in found:
        assert bool(finding.cause) == bool(finding.severity)
        causes.setdefault(finding.cause, set()).add(finding.topic)
    causes.pop("", None)
    return answer, causes


def healthy(n: int = 1500, d: int = 64, seed: int = 0) -> np.ndarray:
    """Rows in families of four, as paraphrases are, with the spectrum of a good sentence encoder, at unit length."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    scales = (np.arange(1, d + 1) + d / 10) ** -0.9
    X = (rng.standard_normal((-(-n // 4), d)) * scales).repeat(4, axis=0)[:n] + 0.8 * rng.standard_normal((n, d)) * scales
    return X @ turn / np.linalg.norm(X, axis=1, keepdims=True)


def direction(d: int = 64) -> np.ndarray:
    return np.random.default_rng(99).standard_normal(d) / np.sqrt(d)


def test_a_healthy_cloud_is_ok() -> None:
    answer, causes = diagnosed(healthy())
    assert (answer.verdict, causes) == ("OK", {})
    assert answer.sentence == "All 21 checks are within their usual ranges."


def test_a_planted_mean_is_the_one_cause() -> None:
    answer, causes = diagnosed(healthy() + direction())
    assert list(causes) == ["mean"] and {"cone", "uniformity", "partition"} <= causes["mean"]
    cosine = mean_cosine(healthy() + direction())
    assert answer.verdict == "watch"  # below 0.88, where no harm was measured
    assert f"a cosine of {cosine:.2f} on average" in answer.sentence


def test_a_planted_direction_is_the_one_cause() -> None:
    rng = np.random.default_rng(5)
    X = healthy() + 2 * rng.standard_normal((1500, 1)) * direction()
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    answer, causes = diagnosed(X)
    assert list(causes) == ["one direction"]
    values = np.linalg.eigvalsh(np.cov(X.T))
    assert answer.sentence.startswith(f"One direction explains {values[-1] / values.sum():.0%} of the variance")
    assert answer.verdict == "bad"


def test_a_mean_and_a_direction_are_one_or_two_causes() -> None:
    rng = np.random.default_rng(5)
    X = healthy() + 1.5 * rng.standard_normal((1500, 1)) * direction() + 1.5 * rng.standard_normal(64) / 8
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    answer, causes = diagnosed(X)
    assert 1 <= len(causes) <= 2 and set(causes) <= {"mean", "one direction", "mean and one direction"}
    assert sum(map(len, causes.values())) >= 5  # many numbers, few causes
    assert f"of {sum(map(len, causes.values()))} unusual numbers" in answer.sentence


def test_planted_copies_are_the_cause_and_are_named() -> None:
    X = healthy()
    X[100:200] = X[:100] + 1e-4
    answer, causes = diagnosed(X)
    assert list(causes) == ["duplicates"] and "near-duplicates" in causes["duplicates"]
    assert answer.sentence.startswith("13.3% of rows have another row at cosine 0.99 or more")
    assert set(judged(X)["near-duplicates"].rows) <= set(range(200))


def test_copies_are_found_in_a_file_of_many_rows() -> None:
    """Most pairs of copies are not in a sample of 1,000 of 4,000 rows, unless it is drawn with them in mind."""
    X = healthy(4000)
    X[3000:3200] = X[:200] + 1e-4
    answer, causes = diagnosed(X)
    assert list(causes) == ["duplicates"] and answer.verdict in ("watch", "bad")


def test_a_narrow_cone_is_not_taken_for_copies() -> None:
    """At a mean cosine of 0.98 most rows have another at 0.99; it is the mean that makes them look alike."""
    answer, causes = diagnosed(healthy() + 7 * direction())
    assert answer.verdict == "bad" and "near-duplicates" in causes["mean"] and "duplicates" not in causes


def test_scaled_rows_are_a_matter_of_length() -> None:
    answer, causes = diagnosed(healthy() * np.random.default_rng(3).lognormal(0, 0.7, (1500, 1)))
    assert list(causes) == ["lengths"] and {"lengths", "cosine or inner product"} <= causes["lengths"]
    assert answer.sentence.startswith("The lengths of the rows vary by")


def test_lengths_that_are_in_their_range_are_not_the_headline() -> None:
    """Of noise, whose lengths vary by 9%, it is the two measures' disagreement that is unusual."""
    answer, causes = diagnosed(np.random.default_rng(0).standard_normal((900, 64)))
    assert causes["lengths"] == {"cosine or inner product"}
    assert re.match(r"The 10 nearest rows by .* agree in \d\d%, because the lengths of the rows vary by 9%;", answer.sentence)


@pytest.mark.parametrize(("scale", "verdict"), [(8, "watch"), (30, "bad")])
def test_a_rogue_dimension_is_named(scale: float, verdict: str) -> None:
    X = healthy() * np.where(np.arange(64) == 17, scale, 1)
    answer, causes = diagnosed(X / np.linalg.norm(X, axis=1, keepdims=True))
    assert "rogue dimensions" in causes and "one direction" not in causes
    assert answer.sentence.startswith("Dimension 17 alone holds") and answer.verdict == verdict


def test_zero_vectors_are_a_cause_of_their_own() -> None:
    X = healthy()
    X[:30] = 0
    answer, causes = diagnosed(X)
    assert list(causes) == ["zero vectors"] and answer.verdict == "bad"
    assert answer.sentence.startswith("2.00% of rows are exactly zero")


def test_what_no_remedy_clears_is_unexplained() -> None:
    answer, causes = diagnosed(np.random.default_rng(0).standard_normal((600, 500)))
    assert causes["unexplained"] == {"distance contrast", "stability"}
    assert answer.sentence.startswith("A random row is 1.16 times as far") and "accounts" not in answer.sentence


def test_a_cone_with_a_decaying_spectrum_like_a_masked_language_model() -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((1500, 128)) * np.arange(1, 129) ** -0.55
    X = X @ np.linalg.qr(rng.standard_normal((128, 128)))[0] / np.linalg.norm(X, axis=1).mean()
    X += rng.standard_normal(128) / np.sqrt(128)
    answer, causes = diagnosed(X)
    assert answer.verdict == "watch" and "cone" in causes["mean"]
    assert len(causes) <= 4


def test_a_number_within_chance_of_its_bound_is_no_warning() -> None:
    upper = next(rule for rule in RULES if rule.topic == "hubness")
    assert not upper.exceeds(upper.watch + 0.002, upper.watch, 1000) and upper.exceeds(upper.watch * 1.1, upper.watch, 1000)
    lower = next(rule for rule in RULES if rule.topic == "stability")
    assert not lower.exceeds(lower.watch - 0.002, lower.watch, 1000) and lower.exceeds(lower.watch * 0.98, lower.watch, 1000)
    share = next(rule for rule in RULES if rule.topic == "never retrieved")
    assert not share.exceeds(0.07, share.watch, 400) and share.exceeds(0.07, share.watch, 4000)  # two standard errors
    zeros = next(rule for rule in RULES if rule.topic == "zero vectors")
    assert zeros.exceeds(0.0001, zeros.watch, 10_000)  # one zero vector is a fact


def test_healthy_clouds_are_rarely_flagged() -> None:
    """The seeded small version of benchmarks/healthy_clouds.py."""
    verdicts = [diagnosed(healthy(300, 48, seed))[0].verdict for seed in range(12)]
    assert verdicts.count("OK") >= 11


def test_no_finding_tells_anyone_to_apply_a_repair() -> None:
    for rule in RULES:
        assert "{" not in rule.action and "theodolite" not in rule.action and "th." not in rule.action
        assert not re.search(r"\b(subtract|centre|remove|drop|whiten|standardi[sz]e|scale|apply|repair)\b", rule.action)


def test_a_mean_in_one_dimension_is_located() -> None:
    cone = judged(sound() + np.eye(1, 24, 5) * 8)["cone"]
    assert cone.value > 0.95 and cone.verdict == "bad"
    milder = judged(sound() + np.eye(1, 24, 5) * 2)["cone"]
    assert 0.4 < milder.value < 0.95 and milder.verdict == "watch"  # it costs cutoffs, and not the order of search results
    assert "100% of random pairs have a cosine above 0.8; dimensions 5," in cone.meaning
    assert "dimensions" not in judged(sound() + 1)["cone"].meaning  # all 24 carry it alike


@pytest.mark.parametrize(
    ("topic", "spoil", "rows"),
    [
        ("zero vectors", lambda X: np.where(np.arange(len(X))[:, None] < 20, 0, X), set(range(20))),
        ("near-duplicates", lambda X: np.concatenate([X[:60], X[:60], X[120:]]), set(range(120))),
        ("rogue dimensions", lambda X: sound(d=60) * np.where(np.arange(60) == 3, 30, 1), None),
        ("lengths", lambda X: X * np.geomspace(0.1, 10, len(X))[:, None], None),
        ("dominant direction", lambda X: X + np.outer(np.linspace(-9, 9, len(X)), np.ones(24)), None),
        ("isotropy", lambda X: X * ([40] + [1] * 23), None),
        ("effective rank", lambda X: X * ([40] + [0.1] * 23), None),
        ("uniformity", lambda X: X + 3, None),  # a mean cosine above 0.95
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


every = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.topic)


@every
def test_every_rule_is_based_on_a_default_metric_and_has_a_source(rule: FindingRule) -> None:
    assert METRICS[rule.metric].default
    assert rule.watch != rule.bad
    assert len(rule.source) > 10


@every
def test_every_name_in_a_sentence_is_a_metric_or_a_fact(rule: FindingRule) -> None:
    names = [name for _, name, _, _ in string.Formatter().parse(rule.meaning) if name is not None]
    for name in [*names, *filter(None, [rule.examples, rule.judged])]:
        assert name in METRICS or isinstance(vars(Facts)[name], property)


def test_bounds_may_be_upper_or_lower() -> None:
    upper = FindingRule("a", "b", watch=1.0, bad=2.0, source="", meaning="", action="")
    lower = FindingRule("a", "b", watch=2.0, bad=1.0, source="", meaning="", action="")
    assert (upper.healthy, lower.healthy) == ("at most 1", "at least 2")
    assert upper.exceeds(1.5, upper.watch, 9) and not upper.exceeds(1.5, upper.bad, 9)
    assert lower.exceeds(1.5, lower.watch, 9) and not lower.exceeds(1.5, lower.bad, 9)
    assert not any(rule.exceeds(rule.watch, rule.watch, 9) for rule in (upper, lower))
    assert not upper.exceeds(math.inf, math.inf, 9)


def test_topics_cover_what_comparable_audits_report() -> None:
    assert {rule.topic for rule in RULES} >= {
        "hubness", "never retrieved", "cone", "effective rank", "near-duplicates", "rogue dimensions", "lengths",
        "cosine or inner product", "distance contrast", "outliers", "islands",
        "density", "stability", "intrinsic dimension", "conditioning",
    }  # fmt: skip


@pytest.mark.parametrize("n", [1, 6, FEWEST_ROWS - 1])
def test_a_handful_of_rows_is_not_judged(n: int) -> None:
    cloud = Cloud(np.random.default_rng(0).standard_normal((n, 384)) + 1)
    found, answer = diagnose(cloud, metric_rows(cloud))
    assert found == [] and answer.verdict == "not judged"
    assert answer.sentence.startswith("1 row is too few" if n == 1 else f"{n} rows are too few")
