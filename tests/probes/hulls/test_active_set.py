"""Kernels compiled, uncompiled and without numba: the same clusters, bounds of the same distances; and when they are compiled."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hull_oracles import cloud

from theodolite.probes import cluster_forest, shared_planes
from theodolite.probes.direct_probe import DirectProbe
from theodolite.probes.hulls import active_set, working_set
from theodolite.probes.hulls.active_set import Kernel, jit
from theodolite.probes.hulls.gap import hull_gap

pytest.importorskip("numba", reason="without numba there is one way only")


KERNELS = [
    value
    for module in (active_set, working_set, cluster_forest, shared_planes)
    for value in vars(module).values()
    if isinstance(value, Kernel)
]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels as after long work: compiled."""
    monkeypatch.setattr(Kernel, "seconds", math.inf)


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels as at the start of a process on a machine that has compiled none."""
    monkeypatch.setattr(Kernel, "seconds", 0.0)
    for kernel in KERNELS:
        monkeypatch.setitem(kernel.__dict__, "is_on_disk", False)


def test_a_kernel_is_compiled_once_it_has_worked_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernels.py").write_text("def twice(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("kernels", tmp_path / "kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    calls = []

    def plain(x: int) -> int:
        calls.append(x)
        return 2 * x

    monkeypatch.setattr(Kernel, "seconds", 0.0)
    active_set._say_compiling.cache_clear()
    kernel = jit(module.twice, plain=plain)
    assert kernel(4) == 8 and calls == [4] and 0 < Kernel.seconds < active_set.WORTH_COMPILING
    assert not kernel.compiled.signatures and not capsys.readouterr().err
    Kernel.seconds = 2 * active_set.WORTH_COMPILING
    assert kernel(4) == kernel(5) - 2 == 8 and calls == [4] and len(kernel.compiled.signatures) == 1
    assert capsys.readouterr().err.count("compiling") == 1
    Kernel.seconds = 0.0
    later = jit(module.twice, plain=plain)
    assert later(4) == 8 and calls == [4] and later.is_on_disk  # another process finds it on disk
    (tmp_path / "kernels.py").touch()
    changed = jit(module.twice, plain=plain)
    assert changed(4) == 8 and calls == [4, 4] and not changed.is_on_disk  # and not that of an older source


@pytest.mark.parametrize(("n", "d", "labels"), [(90, 2, 3), (120, 16, 3), (240, 70, 2), (60, 300, 3)])
@pytest.mark.usefixtures("uncompiled")
def test_a_small_fit_compiles_nothing_and_gives_the_same(n: int, d: int, labels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cloud(n, d, labels, apart=1 / d, seed=n)
    before = [len(kernel.compiled.signatures) for kernel in KERNELS]
    plain = DirectProbe().fit(X, y)
    nearest = plain.predict(X[:20] + 0.1)
    assert len(KERNELS) > 10 and [len(kernel.compiled.signatures) for kernel in KERNELS] == before
    assert 0 < Kernel.seconds < active_set.WORTH_COMPILING and plain.is_linear_ == (d == 300)
    monkeypatch.setattr(Kernel, "seconds", math.inf)
    probe = DirectProbe().fit(X, y)
    np.testing.assert_array_equal(plain.clusters_, probe.clusters_)
    tables = [np.stack([fit.cluster_distances_[bound] for bound in ("lower", "upper")]) for fit in (plain, probe)]
    assert_same_bounds(*tables)
    np.testing.assert_array_equal(nearest, probe.predict(X[:20] + 0.1))


@pytest.mark.usefixtures("uncompiled")
def test_kernels_may_be_compiled_in_the_middle_of_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cloud(120, 5, 3, apart=0.3, seed=0)
    plain = DirectProbe().fit(X, y)
    monkeypatch.setattr(active_set, "WORTH_COMPILING", 0.3 * Kernel.seconds)
    monkeypatch.setattr(Kernel, "seconds", 0.0)
    np.testing.assert_array_equal(plain.clusters_, DirectProbe().fit(X, y).clusters_)
    assert Kernel.seconds > active_set.WORTH_COMPILING and cluster_forest.merge_tested.compiled.signatures


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


@pytest.mark.usefixtures("compiled")
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


@pytest.mark.usefixtures("compiled")
@pytest.mark.slow
def test_clusters_of_clouds_with_few_and_with_many_dimensions(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    clouds = {}
    for name, n, d, labels in (("flat", 120, 2, 3), ("heap", 150, 5, 2), ("wide", 240, 80, 2)):
        y = random.integers(0, labels, n)
        clouds[name] = random.standard_normal((n, d)) + random.standard_normal((labels, d))[y] / np.sqrt(d), y
    probes = compared(tmp_path, clouds)
    assert not any(probe.is_linear_ for probe in probes)


@pytest.mark.usefixtures("compiled")
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
