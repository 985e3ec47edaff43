"""Options: the same names and defaults on the command line and in Python, and no message names one that does not exist."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

import theodolite
from theodolite.cli.app import app
from theodolite.cli.options import PRINTING, SECTIONS
from theodolite.studies import Study

ROOT = Path(__file__).parents[2]
COMMAND = typer.main.get_command(app)


def commands(command: Any = COMMAND, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its full name, such as `repair fit`."""
    for name, child in getattr(command, "commands", {}).items():
        full = f"{path} {name}".strip()
        if hasattr(child, "commands"):
            yield from commands(child, full)
        else:
            yield full, child


COMMANDS = dict(commands())
OPTIONS = {
    name: {text for p in c.params for text in (*p.opts, *p.secondary_opts) if text.startswith("-")}
    for name, c in COMMANDS.items()
}
GENERAL = {"--help", "-h", "--version", "--debug", "--install-completion", "--show-completion"}

VERBS: dict[str, Callable[..., Any]] = {
    "survey": theodolite.survey,
    "compare": theodolite.compare,
    "verify": theodolite.verify,
    "probe": theodolite.probe,
    "extract": theodolite.extract,
    "tune": theodolite.tune,
    "repair fit": theodolite.repair.fit,
    "repair apply": theodolite.repair.apply,
    "repair export": theodolite.repair.export,
    "repair check": theodolite.repair.check,
    "repair advise": theodolite.advise,
    "calibrate": theodolite.calibrate,
    "gate": theodolite.gate,
    "migrate": theodolite.migrate,
    "report": theodolite.report,
    "study run": Study.run,
}
ONLY_ON_THE_COMMAND_LINE = {
    "survey": {"paths", "model", "list_metrics", "strict"},
    "compare": {"before", "after", "strict"},
    "verify": {"path"},
    "probe": {"path", "model", "embeddings"},
    "extract": {"model"},
    "tune": {"model"},
    "repair fit": {"name", "path"},
    "repair apply": {"folder", "path"},
    "repair export": {"folder", "model"},
    "repair check": set(),
    "repair advise": {"path", "model"},
    "calibrate": {"path", "model", "list_sentences"},
    "gate": set(),
    "migrate": {"old", "new"},
    "report": {"results"},
    "study run": {"name", "models"},
}
ONLY_IN_PYTHON = {
    "progress",
    "tokenizer",
    "self",
    "source",
    "texts",
    "before",
    "after",
    "old",
    "new",
    "model",
    "name",
    "repair",
    "results",
    "models",
}


@pytest.mark.parametrize("name", VERBS)
def test_names_and_defaults_are_the_verbs_own(name: str) -> None:
    parameters = inspect.signature(VERBS[name]).parameters
    for option in COMMANDS[name].params:
        if option.name in ONLY_ON_THE_COMMAND_LINE[name] or (option.name in PRINTING and option.name not in parameters):
            continue
        assert option.name in parameters, f"{name}: Python has no {option.name}"
        default = parameters[option.name].default
        if option.required:
            continue  # the command line insists, where Python can do without
        shown = option.default
        assert shown == default or (shown in (None, ()) and not default), (
            f"{name} --{option.name}: {shown!r}, Python has {default!r}"
        )


@pytest.mark.parametrize("name", VERBS)
def test_the_command_line_has_every_option_of_the_verb(name: str) -> None:
    known = {option.name for option in COMMANDS[name].params}
    assert set(inspect.signature(VERBS[name]).parameters) - known - ONLY_IN_PYTHON == set()


SPELLED = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
THEODOLITE = re.compile(r"theodolite ((?:[a-z]+ )?[a-z]+)\b([^\n`]*)")


@cache
def strings(path: Path) -> list[tuple[str, int]]:
    """Every string of a Python file, docstrings too, and the calls of `option` as the command line spells them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: list[tuple[str, int]] = []
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            found.append((text, node.lineno))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            found.append((node.value, node.lineno))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "option" and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant):
                found.append((f"--{str(name.value).replace('_', '-')}", node.lineno))
    return found


SOURCES = [path for path in sorted((ROOT / "src").rglob("*.py")) if "cli" not in path.parts]
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def known_somewhere(text: str) -> bool:
    return text in GENERAL or any(text in options for options in OPTIONS.values())


def test_an_option_in_a_message_exists() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {option}"
        for path in SOURCES
        for text, line in strings(path)
        for option in SPELLED.findall(text)
        if not known_somewhere(option)
    ]
    assert wrong == []


@pytest.mark.parametrize("path", sorted((ROOT / "src/theodolite/cli").glob("*.py")), ids=lambda path: path.name)
def test_an_option_in_a_commands_own_text_exists_there(path: Path) -> None:
    names = [name for name in COMMANDS if name.partition(" ")[0] == path.stem] or list(COMMANDS)
    own = GENERAL.union(*(OPTIONS[name] for name in names))
    wrong = []
    for text, line in strings(path):
        lines = [each for each in text.splitlines() if "theodolite " not in each and " --list-metrics" not in each]
        wrong += [f"line {line}: {option}" for option in SPELLED.findall("\n".join(lines)) if option not in own]
    assert wrong == []


def command_lines() -> Iterator[tuple[str, str]]:
    """Every command line that a document, docstring, help text or hint shows."""
    for path in DOCS:
        for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            yield from ((f"{path.name}: {found[0]}", found[0]) for found in THEODOLITE.finditer(line))
    for path in sorted((ROOT / "src").rglob("*.py")):
        for text, line in strings(path):
            for each in text.splitlines():
                yield from ((f"{path.name}:{line}: {found[0]}", found[0]) for found in THEODOLITE.finditer(each))


def test_a_shown_command_has_the_options_it_shows() -> None:
    wrong = []
    for place, line in sorted(set(command_lines())):
        words = line.split()[1:]
        name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
        if name in COMMANDS:
            wrong += [f"{place}: {option}" for option in SPELLED.findall(line) if option not in OPTIONS[name] | GENERAL]
        elif name in {each.partition(" ")[0] for each in COMMANDS} and len(words) > 1:  # else prose that goes on after the name
            wrong.append(f"{place}: no such command")
    assert wrong == []


def test_the_collection_is_not_empty() -> None:
    assert len(list(command_lines())) > 60
    assert not known_somewhere("--no-such-option")


def test_the_sections_of_help_name_options_that_exist() -> None:
    used = {parameter.name for command in COMMANDS.values() for parameter in command.params} | {"help"}
    listed = [name for names in SECTIONS.values() for name in names]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= used
