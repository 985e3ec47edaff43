"""The architecture, held: imports point down the layers, heavy libraries are imported late, torch stays in its own layers."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = SOURCE / "theodolite"

LAYERS = (
    "core",
    "metrics",
    "repairs",
    "probes",
    "spaces",
    "tasks",
    "models",
    "tuning",
    "advice",
    "verbs",
    "studies",
    "reports",
    "cli",
)
LATE_BOUND = {"core/result.py": "theodolite.reports.drawing"}
"""The one exception: a Result draws itself through this module, which it imports by name when it is asked to."""
WITH_TORCH = {"models", "tuning"}
LAZILY_WITH_TORCH = {"probes/classifiers/networks.py"}
"""Outside of those layers: imported inside functions alone, for an extra that has a way without it."""
TORCH = {"torch", "transformers", "sentence_transformers", "accelerate"}

LIGHT = {"numpy", "threadpoolctl"}
"""What a module may import at its top; everything else waits inside the function that needs it."""
LIGHT_IN = {
    "repairs": {"sklearn"},  # estimators inherit from scikit-learn's
    "probes": {"sklearn"},
    "cli": {"typer", "click"},
    "models": TORCH,
    "tuning": TORCH,
}
CORE_MAY_USE = {"numpy", "scipy", "threadpoolctl"}
CORE_EXCEPTIONS = {
    "core/engines.py": {"joblib", "dask", "distributed"},
    "core/frames.py": {"pyarrow"},
    "core/pictures.py": {"pyarrow"},
    "core/result.py": {"pandas", "pyarrow"},
    "core/rows.py": {"pyarrow"},
}

FILES = sorted(PACKAGE.rglob("*.py"))


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    lazy: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports_of(file: Path) -> tuple[Import, ...]:
    """Every import of a file, those inside functions too; relative ones with their full name."""
    package = file.relative_to(SOURCE).parent.parts

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, child.lineno, lazy) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = ".".join([*package[: len(package) - child.level + 1], child.module or ""]) if child.level else child.module
                base = (base or "").strip(".")
                # `from theodolite import core` names a layer, `from theodolite.core import rows` a module.
                names = [f"{base}.{alias.name}" for alias in child.names] if base == "theodolite" else [base]
                yield from (Import(name, child.lineno, lazy) for name in names)
            else:
                inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                yield from visit(child, lazy or inside or is_for_types_only(child))

    return tuple(visit(tree_of(file), lazy=False))


def is_for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def layer_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0] if file.parent != PACKAGE else ""


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def upward(layer: str, module: str) -> bool:
    """Whether a module of `layer` may not import `module`."""
    parts = module.split(".")
    if parts[0] != "theodolite":
        return False
    if len(parts) == 1 or parts[1] not in LAYERS:
        return layer != "cli"  # the package's front door stands above all layers but the command line
    return LAYERS.index(parts[1]) > LAYERS.index(layer)


def faults(is_fault: Callable[[Path, Import], bool]) -> list[str]:
    """Every import that is a fault, with its place."""
    return [f"{name_of(file)}:{each.line}: {each.module}" for file in FILES for each in imports_of(file) if is_fault(file, each)]


def test_every_module_lies_in_a_layer() -> None:
    assert {name_of(file) for file in FILES if layer_of(file) not in LAYERS} == {"__init__.py", "__main__.py"}


@pytest.mark.slow
def test_imports_point_down() -> None:
    assert faults(lambda file, each: bool(layer_of(file)) and upward(layer_of(file), each.module)) == []


def test_torch_stays_in_its_layers() -> None:
    def is_fault(file: Path, each: Import) -> bool:
        is_allowed = layer_of(file) in WITH_TORCH or (each.lazy and name_of(file) in LAZILY_WITH_TORCH)
        return each.top in TORCH and not is_allowed

    assert faults(is_fault) == []


def test_core_stands_on_numpy_and_scipy() -> None:
    always = CORE_MAY_USE | {"theodolite"} | sys.stdlib_module_names

    def is_fault(file: Path, each: Import) -> bool:
        return layer_of(file) == "core" and each.top not in always | CORE_EXCEPTIONS.get(name_of(file), set())

    assert faults(is_fault) == []


def test_heavy_libraries_wait_for_their_use() -> None:
    always = LIGHT | {"theodolite"} | sys.stdlib_module_names
    assert faults(lambda file, each: not each.lazy and each.top not in always | LIGHT_IN.get(layer_of(file), set())) == []


def test_only_a_result_binds_late() -> None:
    calls = {}
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and layer_of(file):
                target = ast.unparse(node.args[0]).strip("f'")
                if target.startswith("theodolite.") and not target.startswith(f"theodolite.{layer_of(file)}"):
                    calls[name_of(file)] = target
    assert calls == LATE_BOUND


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_there_are_no_import_cycles() -> None:
    """Imports inside functions and those that only a type checker reads count; a Result's late-bound drawing does not."""
    modules = {module_of(file): file for file in FILES}
    graph: dict[str, set[str]] = {}
    for name, file in modules.items():
        found = set()
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    target = f"{node.module}.{alias.name}"
                    found.add(target if target in modules else node.module)
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        graph[name] = {each for each in found if each in modules and each != name}
    assert list(cycles(graph)) == []


def cycles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """The strongly connected components of more than one module."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    names = sorted(graph)
    places = {name: i for i, name in enumerate(names)}
    pairs = [(places[a], places[b]) for a, others in graph.items() for b in others]
    rows, columns = zip(*pairs, strict=True)
    matrix = csr_matrix(([1] * len(pairs), (rows, columns)), shape=(len(names), len(names)))
    count, labels = connected_components(matrix, directed=True, connection="strong")
    for number in range(count):
        members = [name for name, label in zip(names, labels, strict=True) if label == number]
        if len(members) > 1:
            yield members


def test_the_search_for_cycles_finds_one() -> None:
    assert list(cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == [["a", "b", "c"]]


def test_the_rule_bites() -> None:
    assert upward("core", "theodolite.metrics.cloud")
    assert upward("metrics", "theodolite.repairs")
    assert upward("core", "theodolite")
    assert not upward("advice", "theodolite.repairs.scaling")
    assert not upward("cli", "theodolite.reports")
    assert not upward("core", "numpy.linalg")


def run(code: str) -> str:
    # The first probe of a fresh checkout compiles its kernels, which takes minutes on a busy machine.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


WITHOUT_TORCH = f"""
import importlib, pkgutil, sys

class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(TORCH)!r}:
            raise ImportError(f"{{name}} is not there")

sys.meta_path.insert(0, Forbid())
"""


@pytest.mark.slow
def test_everything_but_the_torch_layers_runs_without_torch() -> None:
    code = WITHOUT_TORCH + (
        "import theodolite\n"
        f"skipped = tuple(f'theodolite.{{layer}}' for layer in {sorted(WITH_TORCH)!r})\n"
        "names = [m.name for m in pkgutil.walk_packages(theodolite.__path__, 'theodolite.')]\n"
        "for name in names:\n"
        "    if not name.startswith(skipped) and not name.endswith('__main__'):\n"
        "        importlib.import_module(name)\n"
        "import numpy as np\n"
        "X = np.random.default_rng(0).standard_normal((64, 5))\n"
        "assert len(theodolite.survey(X)) > 10\n"
        "theodolite.compare(X, X + 1, metrics=['iso_score'], bootstrap=20)\n"
        "theodolite.probe(X, ['a', 'b'] * 32, hold_out=0.2, classifier='linear')\n"
        "theodolite.repair.fit('global', X, directions=1).transform(X)\n"
        "assert 'torch' not in sys.modules\n"
        "print(len(names))\n"
    )
    assert int(run(code)) > 20


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ["scipy", "sklearn", "pyarrow", "pandas", "polars", "plotly", "rich", "typer", "numba", "torch"]
    code = f"import sys, theodolite\nprint([name for name in {heavy!r} if name in sys.modules])"
    assert run(code).strip() == "[]"


def test_a_survey_does_not_wait_for_libraries_it_has_no_use_for() -> None:
    slow = ["sklearn", "pandas", "plotly", "torch", "scipy.stats"]
    code = (
        "import sys, numpy as np, theodolite\n"
        "repr(theodolite.survey(np.random.default_rng(0).standard_normal((64, 5))))\n"
        f"print([name for name in {slow!r} if name in sys.modules])"
    )
    assert run(code).strip() == "[]"
