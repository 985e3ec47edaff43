"""The front door: what `import theodolite` offers is small, documented, annotated and loaded on demand."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import entry_points, version

import pytest

import theodolite

NAMES = [name for name in theodolite.__all__ if not name.startswith("__")]


def test_the_surface_is_about_a_dozen_names() -> None:
    assert 5 <= len(NAMES) <= 16
    assert len(set(theodolite.__all__)) == len(theodolite.__all__)
    assert set(NAMES) <= set(dir(theodolite))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_resolves_and_says_what_it_is(name: str) -> None:
    offered = getattr(theodolite, name)
    if callable(offered):
        first = (inspect.getdoc(offered) or "").partition("\n")[0]
        assert first.endswith((".", ":", ";", ")")) and len(first) > 20, f"{name}: {first!r}"


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isroutine(getattr(theodolite, name))])
def test_functions_are_annotated_and_their_options_are_keyword_only(name: str) -> None:
    signature = inspect.signature(getattr(theodolite, name))
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, f"{name}({parameter})"
    positional = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert len(positional) <= 3, f"{name} takes {len(positional)} positional arguments; options are keyword-only"


def test_star_import_gives_what_is_listed() -> None:
    code = "from theodolite import *\nimport theodolite\nprint(sorted(set(theodolite.__all__) - set(globals())))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = theodolite.no_such_name


def test_the_version_is_the_distributions() -> None:
    assert theodolite.__version__ == version("theodolite")


def test_the_command_is_declared() -> None:
    declared = {each.name: each.value for each in entry_points(group="console_scripts") if each.value.startswith("theodolite.")}
    assert declared == {"theodolite": "theodolite.cli:main"}
