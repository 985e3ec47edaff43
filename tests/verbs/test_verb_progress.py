"""Progress is shown to who watches; a log gets a line every half minute, and short work none."""

from __future__ import annotations

from typing import Any

import pytest

from theodolite.core.spelling import ON_COMMAND_LINE
from theodolite.verbs import progress
from theodolite.verbs.progress import progress_bars


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def work(clock: Clock, seconds: float, chosen: Any = None) -> None:
    """A hundred batches that take so many seconds each."""
    with progress_bars(chosen) as bars:
        report = bars.steps("encoding")
        for done in range(1, 101):
            clock.now += seconds
            report(done, 100)


def test_a_log_has_a_line_every_half_minute(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    token = ON_COMMAND_LINE.set(True)
    try:
        work(clock, 1.0)
    finally:
        ON_COMMAND_LINE.reset(token)
    assert capsys.readouterr().err.splitlines() == [
        "encoding: 30 of 100 (30%), 30.0 s so far, about 1.2 min to go",
        "encoding: 60 of 100 (60%), 1.0 min so far, about 40.0 s to go",
        "encoding: 90 of 100 (90%), 1.5 min so far, about 10.0 s to go",
    ]


def test_work_in_rounds_is_estimated_from_the_round_that_runs(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars(True) as bars:
        report = bars.steps("trials")
        for done in [*range(1, 21), *range(1, 16)]:  # the second round is three times as slow
            clock.now += 1.0 if clock.now < 1020 else 3.0
            report(done, 100)
    assert capsys.readouterr().err.splitlines() == [
        "trials: 4 of 100 (4%), 32.0 s so far, about 4.8 min to go",
        "trials: 14 of 100 (14%), 1.0 min so far, about 4.3 min to go",
    ]


def test_rows_without_a_total_are_counted(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars(True) as bars:
        read = bars.rows("reading", None)
        for _ in range(3):
            clock.now += 20
            read(500)
    assert capsys.readouterr().err == "reading: 1,000, 40.0 s so far\n"


@pytest.mark.parametrize(("seconds", "chosen"), [(0.2, True), (5.0, False), (5.0, None)])
def test_short_work_and_a_library_call_in_a_program_print_nothing(
    clock: Clock, capsys: pytest.CaptureFixture[str], seconds: float, chosen: Any
) -> None:
    work(clock, seconds, chosen)
    assert capsys.readouterr().err == ""
