"""What every study promises, by being there."""

from __future__ import annotations

import inspect
import pickle
import re
from dataclasses import asdict

import pytest

from theodolite.core.result import OUTCOMES, Verdict
from theodolite.core.rows import Row
from theodolite.metrics import METRICS
from theodolite.repairs import REPAIRS
from theodolite.studies.check import check
from theodolite.studies.judge import audit, judge, notes_of
from theodolite.studies.rules import RULES
from theodolite.studies.spec import load_study, study_names
from theodolite.tasks import TASKS

ALL = pytest.mark.parametrize("name", study_names())

CLAIMS = {
    "rp21": ["RP21-a", "RP21-b", "RP21-c", "PD22-1", "PD22-2", "PD22-3", "PD22-4", "RP21-d"],
    "il23": ["IL23-a", "IL23-b", "IL23-c"],
    "zs22": ["ZS22-a", "ZS22-b", "ZS22-c", "ZS22-d", "ZS22-e", "ZS22-f"],
}


def test_the_three_studies_are_there() -> None:
    assert set(study_names()) == set(CLAIMS)


@ALL
def test_the_claims_are_complete(name: str) -> None:
    study = load_study(name)
    assert study.name == name == study.plan
    assert [claim.id for claim in study.claims] == CLAIMS[name]
    for claim in (*study.claims, *study.checks):
        assert claim.title and claim.asks and claim.rule in RULES
        assert RULES[claim.rule].faults(claim.parameters) == ""
    for claim in study.claims:
        assert claim.decide.startswith(f"theodolite study run {name} --model")
        assert claim.printed or claim.stated
    assert study.citation and study.notes
    assert pickle.loads(pickle.dumps(study)) == study


@ALL
def test_what_a_run_is_told_exists(name: str) -> None:
    study = load_study(name)
    tasks = study.settings.get("tasks") or [study.settings["task"]]
    assert set(tasks) <= set(TASKS) and set(study.score) <= set(TASKS)
    assert study.settings["tuning"]["preset"] == name
    assert study.settings["quick"]
    for metrics in study.settings.get("metrics", {}).values():
        assert set(metrics) <= set(METRICS)
    for wish in study.settings.get("repairs", {}).values():
        assert not wish or wish["repair"] in REPAIRS
    assert {task: TASKS[task].score for task in study.score} == study.score


@ALL
def test_printed_numbers_are_rows_with_a_source_and_no_interval(name: str) -> None:
    study = load_study(name)
    models = {model.name for model in study.models}
    tables = {table.name for table in study.tables}
    for one in study.printed:
        assert one.source and one.table in tables and one.row.model in models
        assert one.row.low is None and one.row.high is None and one.row.study == name
        assert one.half > 0 and one.relation in ("=", ">", "<")
        assert one.row.value == pytest.approx(float(one.text) * study.scale.get(one.row.metric, 1.0))
    assert len({(one.source, one.table, one.row) for one in study.printed}) == len(study.printed)


@ALL
def test_the_file_comes_back_from_what_was_read(name: str) -> None:
    """Every table's lines, made again from the rows, are those in the file."""
    from pathlib import Path

    from theodolite.studies.fields import plain, read_toml

    study = load_study(name)
    given = read_toml(Path(study.path))
    tables = {table.name: table for table in study.tables}
    left = list(study.printed)
    for block in given["printed"]:
        table = tables[block["table"]]
        for line in block["values"]:
            made: list[object] = [getattr(left[0].row, key) for key in table.keys]
            for _ in table.columns or table.metrics[:1]:
                cell = [float(left.pop(0).text) for _ in table.metrics]
                made += [cell] if table.across else cell
            assert made == plain(line)
    assert left == []


@ALL
def test_with_nothing_measured_everything_is_open_and_says_what_would_decide_it(name: str) -> None:
    study = load_study(name)
    verdicts = judge(study, [])
    assert [verdict.claim for verdict in verdicts] == CLAIMS[name]
    for verdict in verdicts:
        assert verdict.measured.outcome == "not decidable here"
        assert "theodolite study run" in verdict.measured.why
        assert verdict.printed and all(one.outcome in OUTCOMES and one.why and one.source for one in verdict.printed)
        assert Verdict.from_dict(asdict(verdict)) == verdict
    assert all(one.measured is None and not one.comparable for one in check(study, []))
    assert len(notes_of(study)) >= len(study.notes)
    assert all(one.printed for one in audit(study))


@ALL
def test_rows_that_say_nothing_decide_nothing(name: str) -> None:
    rows = [Row(metric="unheard-of", value=1.0, study=name, model="any", task="stsb", state="fine-tuned", layer=3)]
    for verdict in judge(load_study(name), rows):
        assert verdict.measured.outcome == "not decidable here"
        assert "theodolite study run" in verdict.measured.why


@pytest.mark.parametrize("rule", RULES)
def test_rules_take_few_named_options_and_no_number_of_a_paper(rule: str) -> None:
    judged = RULES[rule].judge
    parameters = list(inspect.signature(judged).parameters.values())
    assert parameters[0].name == "evidence"
    assert all(one.kind is one.KEYWORD_ONLY for one in parameters[1:]) and 1 <= len(parameters[1:]) <= 6
    assert (inspect.getdoc(judged) or "").partition("\n")[0]


def test_no_printed_number_and_no_name_of_a_study_is_in_the_rules() -> None:
    import theodolite.studies.rules as rules

    told = {one.text for name in study_names() for one in load_study(name).printed if len(one.text) > 4}
    words = {
        "stsb",
        "rte",
        "cola",
        "mrpc",
        "ps-fxn",
        "cluster-based",
        "least global",
        "isolayer",
        "isobn",
        "fine-tuned",
        "RoBERTa",
    }
    for module in vars(rules).values():
        if inspect.ismodule(module):
            code = re.sub(r'"""[\s\S]*?"""', "", inspect.getsource(module))
            assert not {number for number in told if re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", code)}
            assert not {word for word in words if f'"{word}' in code}
