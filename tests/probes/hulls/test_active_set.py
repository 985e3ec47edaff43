"""Kernels with and without numba: the same clusters, bounds of the same distances; and whether a call compiles."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from theodolite.probes.direct_probe import DirectProbe
from theodolite.probes.hulls.active_set import jit, needs_compiling
from theodolite.probes.hulls.gap import hull_gap

pytest.importorskip("numba", reason="without numba there is one way only")


def test_a_plain_function_needs_no_compiling() -> None:
    assert not needs_compiling(np.mean)


def test_a_kernel_needs_compiling_until_it_was_called_once_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("def twice(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("kernels", tmp_path / "kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = jit(module.twice)
    assert needs_compiling(kernel)
    assert kernel(4) == 8
    assert not needs_compiling(kernel)
    assert not needs_compiling(jit(module.twice))  # another process finds it on disk


PLAIN = """
import sys

class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numba":
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Forbid())
import numpy as np
from theodolite.probes.direct_probe import DirectProbe
from theodolite.probes.hulls.gap import hull_gap
from theodolite.probes.hulls.active_set import solve_by_points, solve_by_points_in_arrays

assert solve_by_points is solve_by_points_in_arrays  # the way under test
inputs, results = np.load(sys.argv[1]), {}
for name in sorted({key.partition(" ")[0] for key in inputs.files}):
    if f"{name} y" in inputs:
        probe = DirectProbe().fit(inputs[f"{name} X"], inputs[f"{name} y"])
        results[f"{name} clusters"] = probe.clusters_
        results[f"{name} lower"], results[f"{name} upper"] = probe.cluster_distances_["lower"], probe.cluster_distances_["upper"]
        results[f"{name} nearest"] = probe.predict(inputs[f"{name} points"])
    else:
        gap = hull_gap(inputs[f"{name} A"], inputs[f"{name} B"])
        results[f"{name} gap"] = np.array([gap.lower, gap.upper])
assert "numba" not in sys.modules
np.savez(sys.argv[2], **results)
"""


def without_numba(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The results of a Python that cannot import numba."""
    np.savez(folder / "inputs.npz", **inputs)
    script = [sys.executable, "-W", "error", "-c", PLAIN, str(folder / "inputs.npz"), str(folder / "results.npz")]
    process = subprocess.run(script, capture_output=True, text=True, check=False, timeout=300)
    assert process.returncode == 0, process.stderr
    with np.load(folder / "results.npz") as results:
        return {name: results[name] for name in results.files}


def assert_same_bounds(first: np.ndarray, second: np.ndarray) -> None:
    """Lower and upper bounds of the same distances: they overlap, and are equally tight."""
    assert (first[0] <= second[1] * (1 + 1e-9)).all() and (second[0] <= first[1] * (1 + 1e-9)).all()
    np.testing.assert_array_equal(first[0] > 0, second[0] > 0)
    disjoint = first[0] > 0
    np.testing.assert_allclose(first[:, disjoint], second[:, disjoint], rtol=3e-6)


@pytest.mark.slow
def test_gaps_of_every_kind(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    sets = {
        "apart": (random.standard_normal((40, 3)), random.standard_normal((30, 3)) + 3),
        "meeting": (random.standard_normal((60, 5)), random.standard_normal((60, 5))),
        "copies": (np.repeat(random.standard_normal((9, 4)), 3, axis=0), random.standard_normal((20, 4)) + 2),
        "lone": (np.ones((1, 6)), random.standard_normal((50, 6))),
        "wide": (random.standard_normal((50, 90)), random.standard_normal((60, 90))),
        "below": (random.standard_normal((170, 200)), random.standard_normal((170, 200))),
        "beyond": (random.standard_normal((240, 200)), random.standard_normal((240, 200))),
    }
    results = without_numba(
        tmp_path, {f"{name} {side}": X for name, pair in sets.items() for side, X in zip("AB", pair, strict=True)}
    )
    for name, (A, B) in sets.items():
        gap = hull_gap(A, B)
        assert_same_bounds(np.array([[gap.lower], [gap.upper]]), results[f"{name} gap"][:, None])
    assert results["below gap"][0] > 0 == results["beyond gap"][0]


@pytest.mark.slow
def test_clusters_of_clouds_with_few_and_with_many_dimensions(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    clouds = {}
    for name, n, d, labels in (("flat", 120, 2, 3), ("heap", 150, 5, 2), ("wide", 240, 80, 2)):
        y = random.integers(0, labels, n)
        clouds[name] = random.standard_normal((n, d)) + random.standard_normal((labels, d))[y] / np.sqrt(d), y
    probes = compared(tmp_path, clouds)
    assert not any(probe.is_linear_ for probe in probes)


@pytest.mark.slow
def test_clusters_of_reference_cases(tmp_path: Path, reference: Path) -> None:
    clouds = {}
    for name in ("iris", "wine", "ovl_N300_D8_L3"):
        with np.load(reference / "directprobe" / f"{name}.npz") as case:
            clouds[name] = case["X"], case["y"]
    probes = compared(tmp_path, clouds)
    assert [probe.is_linear_ for probe in probes] == [False, True, False]


def compared(folder: Path, clouds: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[DirectProbe]:
    """The probes of some clouds, after a comparison with those without numba."""
    inputs = {}
    for name, (X, y) in clouds.items():
        points = X[:20] + 0.3 * np.random.default_rng(2).standard_normal(X[:20].shape)
        inputs |= {f"{name} X": X, f"{name} y": y, f"{name} points": points}
    results = without_numba(folder, inputs)
    probes = [DirectProbe().fit(X, y) for X, y in clouds.values()]
    for name, probe in zip(clouds, probes, strict=True):
        np.testing.assert_array_equal(results[f"{name} clusters"], probe.clusters_)
        table = probe.cluster_distances_
        bounds = np.stack([results[f"{name} lower"], results[f"{name} upper"]])
        assert_same_bounds(np.stack([table["lower"], table["upper"]]), bounds)
        np.testing.assert_array_equal(results[f"{name} nearest"], probe.predict(inputs[f"{name} points"]))
    return probes
