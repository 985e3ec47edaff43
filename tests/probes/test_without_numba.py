"""The kernels without numba: the same clusters, and bounds that hold the same distances."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from theodolite.probes.direct import DirectProbe
from theodolite.probes.hulls import hull_gap

pytest.importorskip("numba", reason="without numba there is one way only")

PLAIN = """
import sys

class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numba":
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Forbid())
import numpy as np
from theodolite.probes.active_set import settle, settle_arrays
from theodolite.probes.direct import DirectProbe
from theodolite.probes.hulls import hull_gap

assert settle is settle_arrays  # the way under test
given, found = np.load(sys.argv[1]), {}
for name in sorted({key.partition(" ")[0] for key in given.files}):
    if f"{name} y" in given:
        probe = DirectProbe().fit(given[f"{name} X"], given[f"{name} y"])
        found[f"{name} clusters"] = probe.clusters_
        found[f"{name} lower"], found[f"{name} upper"] = probe.cluster_distances_["lower"], probe.cluster_distances_["upper"]
        found[f"{name} nearest"] = probe.predict(given[f"{name} asked"])
    else:
        gap = hull_gap(given[f"{name} A"], given[f"{name} B"])
        found[f"{name} gap"] = np.array([gap.lower, gap.upper])
assert "numba" not in sys.modules
np.savez(sys.argv[2], **found)
"""


def without_numba(folder: Path, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a Python that cannot import numba makes of it."""
    np.savez(folder / "given.npz", **given)
    script = [sys.executable, "-W", "error", "-c", PLAIN, str(folder / "given.npz"), str(folder / "found.npz")]
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz") as found:
        return {name: found[name] for name in found.files}


def same_bounds(one: np.ndarray, two: np.ndarray) -> None:
    """Lower and upper bounds of the same distances: they overlap, and are as tight."""
    assert (one[0] <= two[1] * (1 + 1e-9)).all() and (two[0] <= one[1] * (1 + 1e-9)).all()
    np.testing.assert_array_equal(one[0] > 0, two[0] > 0)
    apart = one[0] > 0
    np.testing.assert_allclose(one[:, apart], two[:, apart], rtol=3e-6)


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
    found = without_numba(
        tmp_path, {f"{name} {side}": X for name, pair in sets.items() for side, X in zip("AB", pair, strict=True)}
    )
    for name, (A, B) in sets.items():
        gap = hull_gap(A, B)
        same_bounds(np.array([[gap.lower], [gap.upper]]), found[f"{name} gap"][:, None])
    assert found["below gap"][0] > 0 == found["beyond gap"][0]


def test_clusters_of_clouds_with_few_and_with_many_dimensions(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    clouds = {}
    for name, n, d, labels in (("flat", 120, 2, 3), ("heap", 150, 5, 2), ("wide", 240, 80, 2)):
        y = random.integers(0, labels, n)
        clouds[name] = random.standard_normal((n, d)) + random.standard_normal((labels, d))[y] / np.sqrt(d), y
    probes = compared(tmp_path, clouds)
    assert not any(probe.is_linear_ for probe in probes)


def test_clusters_of_reference_cases(tmp_path: Path, reference: Path) -> None:
    clouds = {}
    for name in ("iris", "wine", "ovl_N300_D8_L3"):
        with np.load(reference / "directprobe" / f"{name}.npz") as case:
            clouds[name] = case["X"], case["y"]
    probes = compared(tmp_path, clouds)
    assert [probe.is_linear_ for probe in probes] == [False, True, False]


def compared(folder: Path, clouds: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[DirectProbe]:
    """The probes of some clouds, after they were found equal to those without numba."""
    given = {}
    for name, (X, y) in clouds.items():
        asked = X[:20] + 0.3 * np.random.default_rng(2).standard_normal(X[:20].shape)
        given |= {f"{name} X": X, f"{name} y": y, f"{name} asked": asked}
    found = without_numba(folder, given)
    probes = [DirectProbe().fit(X, y) for X, y in clouds.values()]
    for name, probe in zip(clouds, probes, strict=True):
        np.testing.assert_array_equal(found[f"{name} clusters"], probe.clusters_)
        table = probe.cluster_distances_
        same_bounds(np.stack([table["lower"], table["upper"]]), np.stack([found[f"{name} lower"], found[f"{name} upper"]]))
        np.testing.assert_array_equal(found[f"{name} nearest"], probe.predict(given[f"{name} asked"]))
    return probes
