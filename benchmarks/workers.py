"""A survey of shards with one and with two worker processes, where the installed version has that option."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import theodolite
from scale import Scale
from shard_survey import shard_folder
from table import Result
from timing import best_in_turns, shown


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    if "workers" not in inspect.signature(theodolite.survey).parameters:
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
