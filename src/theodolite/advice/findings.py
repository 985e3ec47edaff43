"""Findings: the measured numbers judged against what healthy spaces show, in words, with the smallest thing to try."""

from __future__ import annotations

import math
from collections.abc import Sequence

from theodolite.advice.facts import Facts
from theodolite.advice.rules import RULES, Rule
from theodolite.core.result import Finding, Severity
from theodolite.core.rows import Row
from theodolite.metrics.cloud import Cloud, Undefined


def findings(cloud: Cloud, rows: Sequence[Row]) -> list[Finding]:
    """What the rows of a survey say about the cloud, worst first. A rule whose metric was not measured says nothing."""
    facts = Facts(cloud, {row.metric: row.value for row in rows if math.isfinite(row.value)})
    found = [_judge(rule, facts) for rule in RULES if rule.metric in facts.values]
    return sorted(found, key=lambda finding: -finding.severity)


def _judge(rule: Rule, facts: Facts) -> Finding:
    value = rule.value(facts)
    verdict: Severity = "bad" if rule.exceeds(value, rule.bad) else "watch" if rule.exceeds(value, rule.watch) else "good"
    try:
        meaning = rule.meaning(facts)
        examples = () if rule.examples is None or verdict == "good" else tuple(int(row) for row in rule.examples(facts)[:5])
    except Undefined as undefined:
        meaning, examples = f"details are not defined: {undefined}", ()
    return Finding(
        topic=rule.topic,
        verdict=verdict,
        value=value,
        metric=rule.metric,
        healthy=rule.healthy,
        source=rule.source,
        meaning=meaning,
        action="" if verdict == "good" else rule.action,
        rows=examples,
    )
