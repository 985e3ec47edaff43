"""A run as Markdown: verdicts, tables and the command, with nothing in it that a stranger's string could turn into markup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from report_samples import study, write_run
from typer.testing import CliRunner

from theodolite.cli.app import app
from theodolite.core.rows import Row
from theodolite.reports.markdown import markdown_of
from theodolite.reports.run_folder import RunData


def lines_of(text: str, head: str) -> list[str]:
    """The lines of the table under a heading."""
    return [line for line in text.split(f"## {head}\n")[1].split("\n## ")[0].splitlines() if line.startswith("|")]


def test_verdicts_come_first_then_tables_then_the_command() -> None:
    text = markdown_of(study())
    places = [
        text.index(part) for part in ("## Verdicts", "## Repairs: score and isotropy", "## Isotropy by layer", "## The command")
    ]
    assert places == sorted(places)


def test_tables_hold_the_rows_numbers() -> None:
    run = study()
    text = markdown_of(run)
    row = next(row for row in run.rows if row.metric == "spearman" and row.setting == "zero-mean" and row.state == "fine-tuned")
    (line,) = [line for line in lines_of(text, "Repairs: score and isotropy") if line.startswith("| zero-mean")]
    assert f"{row.value:.3g} [{row.low:.3g}, {row.high:.3g}]" in line
    widths = {line.count(" | ") for line in lines_of(text, "Repairs: score and isotropy")}
    assert len(widths) == 1


def test_printed_numbers_stand_beside_measured_ones_and_are_told_apart() -> None:
    text = markdown_of(study())
    table = text.split("## Beside the printed numbers")[1]
    assert "no reproduction" in table
    assert "RP21 table 1" in table and "measured here" in table and "0.541" in table  # 54.14 as printed


def test_a_strangers_string_is_no_markup() -> None:
    evil = "</script>|[x](javascript:1)`*\n# head\x00\u202e"
    row = Row(metric="iso_score", value=0.5, model=evil, state="a")
    text = markdown_of(RunData(name=evil, title=evil, rows=(row, replace(row, model="m", value=0.2)), facts={"notes": [evil]}))
    assert "</script>" not in text and "[x](" not in text and "\u202e" not in text and "\x00" not in text
    assert not any(line.startswith("# head") for line in text.splitlines())


def test_the_command_writes_it_and_overwrites_only_when_asked(tmp_path: Path) -> None:
    folder = str(write_run(study(), tmp_path / "run"))
    to = str(tmp_path / "run.md")
    assert CliRunner().invoke(app, ["report", folder, "--to", to]).exit_code == 0
    assert Path(to).read_text(encoding="utf-8").startswith("# ")
    again = CliRunner().invoke(app, ["report", folder, "--to", to])
    assert again.exit_code == 2 and "--overwrite" in again.stderr
    both = CliRunner().invoke(app, ["report", folder, folder, "--to", str(tmp_path / "two.md")])
    assert both.exit_code == 2 and "shows one run" in both.stderr


@pytest.mark.parametrize("count", [59, 61])
def test_long_tables_are_cut_and_say_so(count: int) -> None:
    rows = tuple(Row(metric="iso_score", value=i / 100, model=f"m{i}") for i in range(count))
    assert ("The first 60 of 61 lines." in markdown_of(RunData(name="r", rows=rows))) == (count == 61)
