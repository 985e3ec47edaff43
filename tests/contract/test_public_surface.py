"""The public names: locked one by one, documented, annotated, and loaded on demand."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import entry_points, version
from types import ModuleType

import pytest

import theodolite

VERBS = ["advise", "calibrate", "compare", "extract", "gate", "migrate", "probe", "repair", "report", "study", "survey", "tune"]
VERBS += ["verify"]
NOUNS = ["Cloud", "DirectProbe", "GeometryCallback", "Result", "Row", "Space"]
OTHERS = ["METRICS", "REPAIRS", "findings", "load_repair", "read"]
PACKAGES = [
    "advice",
    "cli",
    "core",
    "metrics",
    "models",
    "probes",
    "repairs",
    "reports",
    "spaces",
    "studies",
    "tasks",
    "tuning",
    "verbs",
]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_list_of_names_is_exactly_this() -> None:
    assert sorted(theodolite.__all__) == sorted([*VERBS, *NOUNS, *OTHERS])


def test_dir_shows_the_names_and_the_packages_and_nothing_else() -> None:
    expected = sorted([*VERBS, *NOUNS, *OTHERS, *PACKAGES])
    code = "import theodolite\nprint(dir(theodolite))\ntheodolite.survey, theodolite.tuning\nprint(dir(theodolite))"
    before, after = run(code).splitlines()
    assert before == after == str(expected)


@pytest.mark.slow
def test_packages_resolve_without_a_further_import() -> None:
    code = f"import theodolite\nprint([getattr(theodolite, name).__name__ for name in {PACKAGES!r}])"
    assert run(code).strip() == str([f"theodolite.{name}" for name in PACKAGES])


@pytest.mark.slow
def test_a_star_import_gives_the_names_and_importing_every_module_changes_and_shadows_none() -> None:
    code = """
import importlib, inspect, pkgutil, theodolite
from theodolite import *
print(sorted(set(theodolite.__all__) - set(globals())))
first = {name: globals()[name] for name in theodolite.__all__}
for module in pkgutil.walk_packages(theodolite.__path__, "theodolite."):
    if module.name.endswith("__main__"):
        continue
    loaded = importlib.import_module(module.name)
    last = module.name.rpartition(".")[2]
    own = getattr(loaded, last, None)
    if inspect.isroutine(own) or inspect.isclass(own):
        print(module.name, "is named like a function it exports")
    # A package's attribute of a submodule's name is that submodule.
    if hasattr(loaded, "__path__"):
        for child in pkgutil.iter_modules(loaded.__path__):
            importlib.import_module(f"{module.name}.{child.name}")
            if not inspect.ismodule(getattr(loaded, child.name)):
                print(f"{module.name}.{child.name} is shadowed")
print([name for name, value in first.items() if getattr(theodolite, name) is not value])
"""
    assert run(code).split() == ["[]", "[]"]


@pytest.mark.parametrize("name", [*VERBS, *NOUNS, "findings", "load_repair", "read"])
def test_every_name_has_a_docstring_whose_first_line_is_complete(name: str) -> None:
    first = (inspect.getdoc(getattr(theodolite, name)) or "").partition("\n")[0]
    assert first.endswith((".", ":", ";", ")")) and len(first) > 20, f"{name}: {first!r}"


FUNCTIONS = [theodolite.repair.fit, theodolite.repair.apply, theodolite.repair.export, theodolite.repair.check] + [
    getattr(theodolite, name) for name in [*VERBS, "findings", "load_repair", "read"] if name != "repair"
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_functions_are_annotated_and_their_options_are_keyword_only(function: object) -> None:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, str(parameter)
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]
    assert len(positional) <= 3, "options are keyword-only"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_functions_document_every_parameter(function: object) -> None:
    from theodolite.verbs.inputs import Reading

    text = inspect.getdoc(function) or ""
    _, _, described = text.partition("Parameters\n----------\n")
    names = {name.strip(" *") for line in described.splitlines() if line[:1].strip() for name in line.split(",")}
    reading = set(Reading.__dataclass_fields__) if "reading" in names else set()
    missing = set(inspect.signature(function).parameters) - names - reading  # type: ignore[arg-type]
    assert missing == set()


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = theodolite.no_such_name


def test_the_version_is_the_distributions() -> None:
    assert theodolite.__version__ == version("theodolite")


def test_the_command_is_declared() -> None:
    declared = {each.name: each.value for each in entry_points(group="console_scripts") if each.value.startswith("theodolite.")}
    assert declared == {"theodolite": "theodolite.cli:main"}


def test_repair_is_a_module_with_its_two_verbs() -> None:
    assert isinstance(theodolite.repair, ModuleType)
    assert callable(theodolite.repair.fit) and callable(theodolite.repair.apply)
