"""A survey of shards with one and with two worker processes, by the clock on the wall: on a quiet machine only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import theodolite
from scale import Scale
from shard_survey import shard_folder
from table import Result
from timing import CLOCK, best_in_turns, shown


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    if CLOCK in os.environ:  # the processor time of this process is not that of its workers
        return
    for n in scale.workers:
        shards = str(shard_folder(folder, n, scale.d, size=max(1, n // 4)))

        def survey(count: int, shards: str = shards) -> object:
            options: dict[str, Any] = {"workers": count, "cache": False, "findings": False, "progress": False}
            return theodolite.survey(shards, **options)

        two, one = best_in_turns(lambda: survey(2), lambda: survey(1), repeats=scale.repeats)
        yield Result(
            table="workers",
            case=f"survey of {n:,} × {scale.d} in four shards, two workers",
            value=one / two,
            sense="at least",
            ours=shown(two),
            theirs=f"one worker, {shown(one)}",
            measures={"n": n, "d": scale.d, "one": one, "two": two},
        )
