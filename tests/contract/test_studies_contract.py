"""What every study that comes with the package promises."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re
from dataclasses import asdict

import pytest

from theodolite.advice.changes import CODES
from theodolite.core.declared import as_declared
from theodolite.core.measures import MEASURES
from theodolite.core.result import OUTCOMES, Verdict
from theodolite.core.rows import Row
from theodolite.metrics import METRICS
from theodolite.repairs import REPAIRS
from theodolite.studies import shared_steps, study_names
from theodolite.studies.claims import RULES
from theodolite.studies.claims.judging import compare_printed, judge_claims
from theodolite.studies.spec import HOME, load_spec
from theodolite.studies.steps import Action
from theodolite.tasks import TASKS

ALL = pytest.mark.parametrize("name", study_names())

CLAIMS = {
    "rp21": [
        "RP21-a",
        "RP21-b",
        "RP21-c",
        "PD22-1",
        "PD22-2",
        "PD22-3",
        "PD22-4",
        "RP21-d",
        "RP21-e",
        "RP21-f",
        "RP21-g",
        "RP21-h",
    ],
    "il23": ["IL23-a", "IL23-b", "IL23-c", "IL23-d"],
    "zs22": ["ZS22-a", "ZS22-b", "ZS22-c", "ZS22-d", "ZS22-e", "ZS22-f"],
    "do-no-harm": [],
}


def test_the_studies_are_there() -> None:
    assert set(study_names()) == set(CLAIMS)
    assert all((HOME / name.replace("-", "_") / "plan.py").is_file() for name in CLAIMS)


@ALL
def test_the_claims_are_complete(name: str) -> None:
    study = load_spec(name)
    assert study.name == name == study.plan
    assert [claim.id for claim in study.claims] == CLAIMS[name]
    for claim in study.claims:
        assert claim.title and claim.criterion and (claim.premises.learned or claim.premises.origin)
        assert 1 <= len(claim.primary) <= 3
        names = [effect.name for effect in (*claim.primary, *claim.secondary)]
        assert len(names) == len(set(names))
        for effect in (*claim.primary, *claim.secondary):
            assert RULES[effect.rule].misuse(effect.parameters) == ""
            # Norms that grow lower I(W) by themselves, so that a difference of it is checked at unit norm too; where there is an
            # absolute threshold instead, the card says that scale enters.
            on_isotropy = effect.parameters.get("metric") == "log_partition_isotropy"
            assert not (on_isotropy and effect in claim.primary) or effect.scale or "scale enters" in claim.note
        assert claim.decide.startswith("theodolite study run {study} --model")
        assert claim.printed or claim.stated
    assert re.search(r"\(20\d\d\)", study.citation) and study.link.startswith("https://") and study.notes
    assert pickle.loads(pickle.dumps(study)) == study


@ALL
def test_what_a_run_is_set_to_exists(name: str) -> None:
    study = load_spec(name)
    tasks = study.settings.get("tasks") or [study.settings["task"]]
    assert set(tasks) <= set(TASKS) and set(study.score) <= set(TASKS)
    assert study.settings["tuning"]["preset"] == (name if CLAIMS[name] else "rp21")  # a paper's own hyper-parameters
    assert study.settings["quick"]
    for metrics in study.settings.get("metrics", {}).values():
        assert set(metrics) <= set(METRICS)
    repairs = study.settings.get("repairs", {})
    assert all(options["repair"] in REPAIRS for options in repairs.values() if "repair" in options)
    assert all(options["code"] in CODES for options in repairs.values() if "code" in options)
    assert all(not options or {"repair", "code"} & set(options) for options in repairs.values())
    assert all(name in repairs for pair in study.settings.get("gains", {}).values() for name in pair)
    assert {task: TASKS[task].score for task in study.score} == study.score


@ALL
def test_printed_numbers_are_rows_with_a_source_and_no_interval(name: str) -> None:
    study = load_spec(name)
    models = {model.name for model in study.models}
    tables = {table.name for table in study.printed_tables}
    for value in study.printed:
        assert value.source and value.table in tables and value.row.model in models
        assert value.row.low is None and value.row.high is None and value.row.study == name
        assert value.relation in ("=", ">", "<")
        assert value.row.value == pytest.approx(float(value.text) * study.scale.get(value.row.metric, 1.0))
    assert len({(value.source, value.table, value.row) for value in study.printed}) == len(study.printed)


@ALL
def test_the_file_comes_back_from_what_was_read(name: str) -> None:
    """Every table's lines, made again from the rows, are those in the file."""
    from pathlib import Path

    from theodolite.studies.toml_reading import plain_values, read_toml

    study = load_spec(name)
    file = read_toml(Path(study.path)).values
    tables = {table.name: table for table in study.printed_tables}
    values = list(study.printed)
    for block in file.get("printed", ()):
        table = tables[block["table"]]
        for line in block["values"]:
            cells: list[object] = [getattr(values[0].row, key) for key in table.keys]
            for _ in table.columns or table.metrics[:1]:
                cell = [float(values.pop(0).text) for _ in table.metrics]
                cells += [cell] if table.across else cell
            assert cells == plain_values(line)
    assert values == []


@ALL
def test_with_nothing_measured_everything_is_open_and_says_what_would_decide_it(name: str) -> None:
    study = load_spec(name)
    verdicts = judge_claims(study, [])
    assert [verdict.claim for verdict in verdicts] == CLAIMS[name]
    for verdict in verdicts:
        assert verdict.measured.outcome == "not measured"
        assert verdict.measured.command.startswith(f"theodolite study run {name} --model")
        assert verdict.printed and all(judged.outcome in OUTCOMES and judged.why and judged.source for judged in verdict.printed)
        assert as_declared(Verdict, asdict(verdict)) == verdict
    assert all(value.measured is None and not value.comparable for value in compare_printed(study, []))


@ALL
def test_rows_that_say_nothing_decide_nothing(name: str) -> None:
    rows = [Row(metric="unheard-of", value=1.0, study=name, model="any", task="stsb", state="fine-tuned", layer=3)]
    for verdict in judge_claims(load_spec(name), rows):
        assert verdict.measured.outcome == "not measured" and verdict.measured.why.startswith("missing: ")
        assert verdict.measured.command.startswith("theodolite study run")


@pytest.mark.parametrize("rule", RULES)
def test_rules_take_few_named_options_and_no_number_of_a_paper(rule: str) -> None:
    judged = RULES[rule].function
    parameters = list(inspect.signature(judged).parameters.values())
    assert parameters[0].name == "evidence"
    assert all(option.kind is option.KEYWORD_ONLY for option in parameters[1:]) and 1 <= len(parameters[1:]) <= 8
    assert (inspect.getdoc(judged) or "").partition("\n")[0]


def test_no_printed_number_and_no_name_of_a_study_is_in_the_engine() -> None:
    """A study's numbers and names are in its own file, and only the plans know the studies by name."""
    engine = list(HOME.rglob("*.py"))
    assert len(engine) > 15
    numbers = {value.text for name in study_names() for value in load_spec(name).printed if len(value.text) > 4}
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
    for path in engine:
        code = re.sub(r'"""[\s\S]*?"""', "", path.read_text(encoding="utf-8"))
        assert not {number for number in numbers if re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", code)}, path
        names = set() if path.name == "plan.py" else set(study_names())
        assert not {word for word in words | names if f'"{word}' in code}, path


@ALL
def test_the_tables_of_a_report_show_rows_that_the_study_can_have(name: str) -> None:
    tables = load_spec(name).tables
    assert tables and all(table["title"] and table["metrics"] and table["rows"] for table in tables)
    fields = {field for table in tables for field in (*table["rows"], *table.get("columns", ()))}
    assert fields <= {"run", *Row.FIELDS}
    known = {*METRICS, *MEASURES}
    assert {metric for table in tables for metric in table["metrics"]} <= known


def test_every_kind_of_step_has_a_name_of_its_own() -> None:
    plans = [importlib.import_module(f"theodolite.studies.{name.replace('-', '_')}.plan") for name in study_names()]
    modules = [shared_steps, *plans]
    actions = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Action)}
    kinds = [action.kind for action in actions.values()]
    assert len(kinds) == len(set(kinds)) == 16
    assert all(pickle.loads(pickle.dumps(action)) == action for action in actions.values())  # steps go to other processes
