"""What is public documents its parameters; everything else has a first line, and no tables."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import theodolite

PACKAGE = Path(theodolite.__file__).parent
SECTIONS = ("Parameters", "Returns", "Raises", "Yields", "Warns", "Attributes")
TABLE = re.compile(rf"^({'|'.join(SECTIONS)})\n-+$", re.MULTILINE)
# Modules that are looked up by their folder, so that one name serves several of them.
REPEATED_NAMES = {"__init__", "__main__", "plan"}
RESULTS = ("theodolite.core.result", "theodolite.core.rows")


def modules() -> Iterator[ModuleType]:
    """Every module of the package."""
    for info in pkgutil.walk_packages(theodolite.__path__, "theodolite."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


@cache
def classes() -> dict[str, type]:
    """Every class of the package by its name."""
    return {
        name: value
        for module in modules()
        for name, value in vars(module).items()
        if inspect.isclass(value) and is_defined_in(module, value)
    }


@cache
def public() -> dict[tuple[str, str], Any]:
    """What packages export and what verbs take, by module and qualified name, with the methods of classes."""
    exported = [getattr(package, name) for package in (theodolite, *modules()) for name in getattr(package, "__all__", ())]
    repairing = theodolite.repair
    exported += [value for name, value in vars(repairing).items() if name[0] != "_" and is_defined_in(repairing, value)]
    waiting = [value for value in exported if inspect.isclass(value) or inspect.isfunction(value)]
    found: dict[tuple[str, str], Any] = {}
    while waiting:
        value = waiting.pop()
        key = (value.__module__, value.__qualname__)
        if key in found or not value.__module__.startswith("theodolite"):
            continue
        found[key] = value
        if inspect.isclass(value):
            waiting += [base for base in value.__mro__[1:] if base.__module__.startswith("theodolite")]
            # What overrides a method of another library is described there.
            others = [base for base in value.__mro__[1:] if not base.__module__.startswith("theodolite")]
            waiting += [
                each
                for name, raw in vars(value).items()
                if not name.startswith("_")
                and not any(hasattr(base, name) for base in others)
                and inspect.isfunction(each := getattr(raw, "__func__", raw))
            ]
            # What a result is made of is as public as the result.
            annotations = [str(each.type) for each in fields(value)] if value.__module__ in RESULTS else []
        else:
            is_verb = value.__module__.startswith("theodolite.verbs.")
            annotations = [str(each) for each in inspect.get_annotations(value).values()] if is_verb else []
        words = {word for text in annotations for word in re.findall(r"\w+", text)}
        waiting += [classes()[word] for word in words & classes().keys() if word[0] != "_"]
    return found


def is_defined_in(module: ModuleType, value: Any) -> bool:
    """Whether a function or class was written in the module, rather than imported into it."""
    return (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == module.__name__


def documented() -> Iterator[tuple[str, Path, ast.AST, str]]:
    """Every function and class of the source: its module, file, node and qualified name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        waiting: list[tuple[ast.AST, str]] = [(ast.parse(path.read_text()), "")]
        while waiting:
            node, name = waiting.pop()
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    inner = f"{name}.{child.name}".lstrip(".")
                    yield module, path, child, inner
                    waiting.append((child, inner if isinstance(child, ast.ClassDef) else f"{inner}.<locals>"))


def parameters(value: Any) -> list[str]:
    """The parameters that a caller names; those of a class without a constructor of its own are its fields."""
    if inspect.isclass(value) and value.__init__ is object.__init__:
        return []
    try:
        names = list(inspect.signature(value).parameters)
    except ValueError:
        return []
    return [name for name in names if name not in ("self", "cls")]


def test_what_is_public_describes_its_parameters() -> None:
    missing = [
        f"{module}.{name}"
        for (module, name), value in public().items()
        if parameters(value)
        and not issubclass(value if inspect.isclass(value) else object, BaseException)
        # A class that users do not construct describes its attributes.
        and not re.search(r"^(Parameters|Attributes)$", inspect.getdoc(value) or "", re.MULTILINE)
    ]
    assert missing == []


def test_what_is_internal_has_no_tables() -> None:
    tables = [
        f"{module}.{name}"
        for module, _, node, name in documented()
        if (module, name) not in public() and TABLE.search(ast.get_docstring(node) or "")  # type: ignore[arg-type]
    ]
    assert tables == []


@pytest.mark.parametrize("kind", ["module", "class"])
def test_names_are_unique(kind: str) -> None:
    if kind == "module":
        names = [path.stem for path in PACKAGE.rglob("*.py") if path.parent.name != "cli" and path.stem not in REPEATED_NAMES]
    else:
        names = [node.name for _, _, node, _ in documented() if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter(names).items() if count > 1] == []
