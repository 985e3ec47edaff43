"""Packages that measure the same things, unmodified and with their defaults, each in a process of its own.

As a script, `peers.py isoscore|four FILE REPEATS` prints the seconds of one call: what the table starts for each side.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from data import cloud_file, load
from scale import Scale
from table import Result
from timing import Call, best_in_turns, command, run, seconds, shown


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    for n in scale.isoscore:
        yield isoscore(cloud_file(folder, n, scale.d), n, scale)
    for n in scale.audit:
        path = cloud_file(folder, n, scale.d)
        # vecscope ends with 1 where it finds fault with the vectors.
        yield audit(path, n, scale, "vecscope", ["audit", path], fine=(0, 1))
        yield audit(path, n, scale, "spectralyte", ["audit", path], note="two metrics, no neighbours")
        yield audit(path, n, scale, "spectralyte", ["audit", path, "--experimental"], note="all five metrics")


def isoscore(path: Path, n: int, scale: Scale) -> Result:
    """All four of ours against IsoScore's one; imports and loading are not counted on either side."""
    case = f"four measures of {n:,} × {scale.d}, against IsoScore alone"
    if find_spec("IsoScore") is None or find_spec("torch") is None:
        return missing(case, "IsoScore")
    mine, peer = (timed_in_child(side, path, scale.repeats) for side in ("four", "isoscore"))
    return Result(
        table="peers",
        case=case,
        value=peer / mine,
        sense="at least",
        goal=1,
        ours=shown(mine),
        theirs=f"IsoScore(), one measure, {shown(peer)}",
    )


def timed_in_child(side: str, path: Path, repeats: int) -> float:
    return float(run([sys.executable, __file__, side, path, str(repeats)]).split()[-1])


def audit(
    path: Path, n: int, scale: Scale, peer: str, arguments: Sequence[str | Path], *, fine: tuple[int, ...] = (0,), note: str = ""
) -> Result:
    """Whole commands on the same file, from start to the last line."""
    called = " ".join([peer, *(str(part) for part in arguments if part != path)])
    case = f"survey with findings of {n:,} × {scale.d}, against {called}"
    ours, theirs = command("theodolite"), command(peer)
    if ours is None or theirs is None:
        return missing(case, peer)
    survey: list[str | Path] = [ours, "survey", path, "--no-cache"]
    rival: list[str | Path] = [theirs, *arguments]
    for each in (ours, theirs):
        run([each, "--help"])  # compiles and caches what a first start would be charged for
    repeats = 1 if "--experimental" in arguments else scale.repeats  # that takes minutes, far more than its noise
    mine, other = best_in_turns(lambda: run(survey), lambda: run(rival, fine=fine), repeats=repeats)
    return Result(
        table="peers",
        case=case,
        value=other / mine,
        sense="at least",
        goal=1,
        ours=shown(mine),
        theirs=f"{called}, {shown(other)}",
        note=note,
    )


def missing(case: str, package: str) -> Result:
    note = f"{package} is not installed: make bench"
    return Result(table="peers", case=case, value=math.nan, sense="at least", goal=1, note=note)


def child(side: str, path: Path, repeats: int) -> float:
    """Best seconds of one side, in this process."""
    X = load(path)
    if side == "isoscore":
        from IsoScore.IsoScore import IsoScore

        def call() -> object:
            return IsoScore(X)
    else:
        from survey_speed import four

        def call() -> object:
            return four(X)

    work: Call = call
    return min(seconds(work) for _ in range(repeats))


if __name__ == "__main__":
    print(child(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
