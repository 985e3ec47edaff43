"""DirectProbe: against the published algorithm written plainly, its authors' recorded times, and limits in seconds.

As a script, `direct_probe.py N D LABELS` prints the seconds and the peak memory of one separable fit in a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from published_greedy import published_greedy
from scale import Scale
from table import Result
from theodolite.probes.direct_probe import DirectProbe
from theodolite.probes.hulls.active_set import Kernel
from timing import cpu_seconds, run, seconds, shown

Cloud = tuple[NDArray[np.float32], NDArray[np.int64]]

SHORT = 5.0
"""Seconds from which once is enough: the noise is small by then."""
RECORDED_5000 = 323.0
"""CPU seconds of the authors' program on 5,000 × 768 with 17 separable labels, by those who recorded the reference cases."""
GOALS = {"ovl_N1000": 300.0, "xor": 100.0, "mixed": 80.0}
"""How many times faster than the recorded time a reference case must be, by the start of its name."""
KINDS = {"ovl": "overlapping", "sep": "separable", "xor": "exclusive or", "mixed": "some overlapping", "breast": "breast cancer"}
"""What the reference cases are, by the start of their names; the others are called by it."""


class Case(NamedTuple):
    name: str
    cloud: Cloud

    @property
    def title(self) -> str:
        X, y = self.cloud
        return f"DirectProbe of {X.shape[0]:,} × {X.shape[1]}, {len(np.unique(y))} labels, {self.name}"


def measure(scale: Scale, folder: Path) -> Iterator[Result]:  # noqa: ARG001  # the clouds are small
    full = scale.d >= 768
    warm_up()
    for case in against_plain(full):
        yield plain(case, scale.repeats)
    if full:
        for labels in (5, 17):
            case = Case("separable, five directions with most of the variance", anisotropic(1_000, 768, labels))
            yield plain(case, scale.repeats, goal=60.0)
    yield from recorded(full, scale.repeats)
    if full:
        separable = Case("separable", blobs(5_000, 768, (1,) * 17, apart=13.5))
        yield against_record(separable, RECORDED_5000, scale.repeats, goal=200.0)
    for case in not_separable(full):
        yield limited(case, 20.0, scale.repeats)
    yield from large(*(50_000, 768, 50) if full else (2_000, 96, 10))


def against_plain(full: bool) -> Iterator[Case]:
    if not full:
        yield Case("overlapping", blobs(120, 6, (1, 1, 1), apart=2.0))
        return
    yield Case("separable", blobs(1_000, 128, (1,) * 17, apart=13.5))
    yield Case("separable", blobs(1_000, 768, (1,) * 5, apart=13.5))
    yield Case("exclusive or", exclusive_or(500, 8))
    yield Case("exclusive or", exclusive_or(2_000, 32))
    yield Case("overlapping", blobs(300, 8, (1, 1, 1), apart=3.5))
    yield Case("overlapping", blobs(500, 16, (1, 1, 1), apart=3.3))
    yield Case("overlapping", blobs(1_000, 8, (1, 1, 1), apart=2.0))


def not_separable(full: bool) -> Iterator[Case]:
    """More points than planes can part: about two for each dimension, so five labels have to be of unequal size."""
    n, d = (2_000, 768) if full else (240, 80)
    yield Case("not separable", blobs(n, d, (1, 1), apart=1.0))
    yield Case("not separable", blobs(n, d, (45, 40, 7, 5, 3), apart=1.0))


def blobs(n: int, d: int, shares: tuple[int, ...], *, apart: float, seed: int = 0) -> Cloud:
    """Gaussians of unit variance, their centroids about so far apart; labels in the given shares, in no order."""
    random = np.random.default_rng(seed)
    sizes = np.floor(n * np.array(shares) / sum(shares)).astype(int)
    sizes[0] += n - sizes.sum()
    y = random.permutation(np.repeat(np.arange(len(shares)), sizes))
    centres = random.standard_normal((len(shares), d), dtype=np.float32)
    centres *= apart / np.sqrt(2) / np.linalg.norm(centres, axis=1, keepdims=True)
    X = random.standard_normal((n, d), dtype=np.float32)
    for label, centre in enumerate(centres):
        X[y == label] += centre
    return X, y


def anisotropic(n: int, d: int, labels: int, *, seed: int = 0) -> Cloud:
    """Separable Gaussians, stretched 20 times along five directions, which then carry about three quarters of the variance."""
    X, y = blobs(n, d, (1,) * labels, apart=13.5, seed=seed)
    X[:, :5] *= 20
    rotation = np.linalg.qr(np.random.default_rng(seed + 1).standard_normal((d, d)))[0]
    return X @ rotation.astype(np.float32), y


def exclusive_or(n: int, d: int, *, seed: int = 0) -> Cloud:
    """Four Gaussians of unit variance at the corners of a square of side 8, opposite ones with the same label."""
    random = np.random.default_rng(seed)
    signs = random.choice([-1, 1], (n, 2))
    X = random.standard_normal((n, d), dtype=np.float32)
    X[:, :2] += 4 * signs
    return X, (signs[:, 0] != signs[:, 1]).astype(np.int64)


def warm_up() -> None:
    """Compile the kernels, which are others for few dimensions than for many, and are not compiled for inputs this small."""
    Kernel.seconds = math.inf
    for d in (8, 96):
        for apart in (1.0, 30.0):
            X, y = blobs(3 * d, d, (1, 1, 1), apart=apart)
            DirectProbe().fit(X, y).predict(X[:2])


def fitted(cloud: Cloud) -> DirectProbe:
    return DirectProbe().fit(*cloud)


def best(call: Callable[[], object], repeats: int) -> float:
    """The least processor seconds of a few runs; of one, where it takes long. Other work on the machine changes them little."""
    shortest = cpu_seconds(call)
    for _ in range(max(repeats, 3) - 1):
        if shortest > SHORT:
            break
        shortest = min(shortest, cpu_seconds(call))
    return shortest


def plain(case: Case, repeats: int, *, goal: float = math.nan) -> Result:
    X, y = case.cloud
    probe = fitted(case.cloud)
    mine = best(lambda: fitted(case.cloud), repeats)
    found: dict[str, NDArray[np.int64]] = {}

    def theirs() -> None:
        found["clusters"] = published_greedy(np.asarray(X, dtype=np.float64), y)[0]

    peer = best(theirs, repeats)
    pairs = set(zip(probe.clusters_.tolist(), found["clusters"].tolist(), strict=True))
    same = len(pairs) == probe.n_clusters_ == len(np.unique(found["clusters"]))
    return Result(
        table="direct",
        case=case.title,
        value=peer / mine,
        sense="at least",
        goal=goal,
        ours=shown(mine),
        theirs=f"the published algorithm with HiGHS and SVC, {shown(peer)}",
        note=f"{probe.n_clusters_} clusters, {'the same' if same else 'NOT the same'}",
    )


def recorded(full: bool, repeats: int) -> Iterator[Result]:
    """CPU time of the reference cases against what the authors' program took, on one core of another machine."""
    data = os.environ.get("THEODOLITE_DATA")
    paths = sorted((Path(data).parent / "reference" / "directprobe").glob("*.ref.json")) if data else []
    if not paths:
        yield not_run("reference cases of DirectProbe", "there are no reference cases beside THEODOLITE_DATA")
    for path in paths if full else paths[:1]:
        name = path.name.removesuffix(".ref.json")
        took: dict[str, Any] = json.loads(path.read_text())
        with np.load(path.with_name(f"{name}.npz")) as stored:
            kind = name.partition("_")[0]
            case = Case(KINDS.get(kind, kind), (stored["X"], stored["y"]))
        yield against_record(case, took["probing_total"] + took["convex2convex"], repeats, goal=goal_of(name))


def goal_of(name: str) -> float:
    return next((goal for start, goal in GOALS.items() if name.startswith(start)), math.nan)


def against_record(case: Case, theirs: float, repeats: int, *, goal: float) -> Result:
    probe = fitted(case.cloud)
    mine = best(lambda: fitted(case.cloud), repeats)
    return Result(
        table="direct",
        case=case.title,
        value=theirs / mine,
        sense="at least",
        goal=goal,
        ours=shown(mine),
        theirs=f"authors' program, recorded elsewhere, {shown(theirs)}",
        note=f"{probe.n_clusters_} clusters",
    )


def limited(case: Case, limit: float, repeats: int) -> Result:
    found: dict[str, DirectProbe] = {}

    def ours() -> None:
        found["probe"] = fitted(case.cloud)

    mine = best(ours, repeats)
    probe = found["probe"]
    return Result(
        table="direct",
        case=case.title,
        value=limit / mine,
        sense="at least",
        goal=1,
        ours=shown(mine),
        theirs=f"a limit of {shown(limit)}",
        note=f"{probe.n_clusters_} clusters{', linear' if probe.is_linear_ else ''}",
    )


def large(n: int, d: int, labels: int) -> Iterator[Result]:
    """A separable cloud in a process of its own: seconds, and the most memory it held, its input and its libraries included."""
    seen = json.loads(run([sys.executable, __file__, str(n), str(d), str(labels)]).splitlines()[-1])
    case = f"DirectProbe of {n:,} × {d}, {labels} labels, separable"
    yield Result(
        table="direct",
        case=case,
        value=120.0 / seen["seconds"],
        sense="at least",
        goal=1,
        ours=shown(seen["seconds"]),
        theirs=f"a limit of {shown(120.0)}",
        note=f"{seen['clusters']} clusters",
    )
    yield Result(
        table="direct",
        case=f"{case}: memory of the whole process",
        value=seen["gigabytes"],
        sense="at most",
        goal=4,
        unit="GB",
        ours=f"{seen['gigabytes']:.2f} GB",
        theirs=f"input of {4 * n * d / 1e9:.2f} GB",
    )


def child(n: int, d: int, labels: int) -> dict[str, float]:
    warm_up()
    cloud = blobs(n, d, (1,) * labels, apart=13.5)
    found: list[DirectProbe] = []
    took = seconds(lambda: found.append(fitted(cloud)))
    return {"seconds": took, "gigabytes": peak_gigabytes(), "clusters": found[0].n_clusters_}


def peak_gigabytes() -> float:
    """The most memory that this process held: on Linux its own alone, because the system's count begins with the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        (peak,) = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(peak) * 1024 / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9  # bytes on macOS


def not_run(case: str, why: str) -> Result:
    return Result(table="direct", case=case, value=math.nan, sense="at least", note=why)


if __name__ == "__main__":
    print(json.dumps(child(*map(int, sys.argv[1:]))))
