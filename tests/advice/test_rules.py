"""Rules: each is based on a metric of the survey, says where its range comes from, and its sentences are well formed."""

from __future__ import annotations

import math
import re
import string

import pytest

from theodolite.advice.diagnosis import Facts
from theodolite.advice.rules import RULES, Rule
from theodolite.metrics import METRICS
from theodolite.repairs import REPAIRS, make_repair

every = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.topic)


@every
def test_every_rule_is_based_on_a_default_metric_and_has_a_source(rule: Rule) -> None:
    assert METRICS[rule.metric].default
    assert rule.watch != rule.bad
    assert len(rule.source) > 10


@every
def test_every_name_in_a_sentence_is_a_metric_or_a_fact(rule: Rule) -> None:
    names = [name for text in (rule.meaning, rule.action) for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    for name in [*names, *filter(None, [rule.examples, rule.judged])]:
        assert name in METRICS or isinstance(vars(Facts)[name], property)


@every
def test_every_command_in_an_action_names_a_repair_and_its_settings(rule: Rule) -> None:
    for name, options in re.findall(r"theodolite repair fit (\S+) vectors\.npy --to repair((?: --\S+ [^\s;]+)*)", rule.action):
        assert name in REPAIRS
        make_repair(name, **dict.fromkeys(re.findall(r"--(\S+)", options), 1))
    assert rule.action.count("repair fit") == rule.action.count("theodolite repair fit")


def test_bounds_may_be_upper_or_lower() -> None:
    upper = Rule("a", "b", watch=1.0, bad=2.0, source="", meaning="", action="")
    lower = Rule("a", "b", watch=2.0, bad=1.0, source="", meaning="", action="")
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
