"""A result as Markdown: verdicts, findings, tables and the command, in which no string of the data becomes markup."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_samples import finding_of, study

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports.page import markdown_of


def lines_of(text: str, head: str) -> list[str]:
    """The lines of the table under a heading."""
    return [line for line in text.split(f"## {head}\n")[1].split("\n## ")[0].splitlines() if line.startswith("|")]


def test_verdicts_come_first_then_tables_then_the_command() -> None:
    text = markdown_of(study())
    verdict = "**✓ PD22-1 Repairing isotropy hurts a fine-tuned space:** supported"
    tables = ("## Repairs: score and isotropy", "## Isotropy by layer")
    heads = ("| claim |", verdict, *tables, "## The command", "## Notes")
    places = [text.index(head) for head in heads]
    assert text.startswith("# ") and places == sorted(places)


def test_tables_have_the_rows_numbers() -> None:
    result = study()
    text = markdown_of(result)
    (row,) = result.where(metric="spearman", setting="zero-mean", state="fine-tuned")
    (line,) = [line for line in lines_of(text, "Repairs: score and isotropy") if line.startswith("| zero-mean")]
    assert f"{row.value:.4g} [{row.low:.4g}, {row.high:.4g}]" in line
    widths = {line.count(" | ") for line in lines_of(text, "Repairs: score and isotropy")}
    assert len(widths) == 1


def test_printed_numbers_are_next_to_measured_ones_and_told_apart() -> None:
    lines = lines_of(markdown_of(study()), "RP21 table 1: Spearman")
    assert lines[0] == "| source | model | baseline |"
    assert lines[2:] == ["| RP21 table 1 | BERT-base | 54.14 |", "| measured here | minilm | 55.00 |"]


def test_a_result_without_printed_numbers_has_no_such_table() -> None:
    assert "RP21 table 1: Spearman" not in markdown_of(study(records={}))


def test_findings_are_listed_worst_first() -> None:
    findings = (finding_of("good"), finding_of("watch", cause="mean"), finding_of("bad", cause="one direction"))
    text = markdown_of(Result(verb="survey", findings=findings))
    assert text.index("**✗ one direction** : IsoScore 0.01") < text.index("**! mean**")


def test_a_string_of_the_data_is_not_markup() -> None:
    evil = "</script>|[x](javascript:1)`*\n# head\x00\u202e"
    row = Row(metric="iso_score", value=0.5, model=evil, state="a")
    provenance = {"name": evil, "command": "```\n# head\n```"}
    text = markdown_of(
        Result(verb="x", title=evil, rows=(row, replace(row, model="m", value=0.2)), notes=(evil,), provenance=provenance)
    )
    assert "</script>" not in text and "[x](" not in text and "\u202e" not in text and "\x00" not in text
    before, block, after = text.split("```")  # nothing in the block ends it
    assert "# head" in block
    assert not any(line.startswith("# head") for part in (before, after) for line in part.splitlines())


def test_a_claims_id_is_not_markup_in_its_heading() -> None:
    result = study()
    verdicts = tuple(replace(verdict, claim="a](x)<b>\n# head") for verdict in result.verdicts)
    text = markdown_of(replace(result, verdicts=verdicts))
    heads = [line for line in text.split("\n") if line.startswith("**")]
    assert len(heads) == len(verdicts) and all("a\\](x)\\<b\\>" in line for line in heads)
    assert "\n# head" not in text


@pytest.mark.parametrize("count", [59, 61])
def test_long_tables_are_cut_and_say_so(count: int) -> None:
    rows = tuple(Row(metric="iso_score", value=i / 100, model=f"m{i}") for i in range(count))
    assert (
        "The first 60 of 61 lines; the HTML page of this result has them all." in markdown_of(Result(verb="rows", rows=rows))
    ) == (count == 61)
