"""Tables in LaTeX: what was measured, in booktabs' rules, with nothing that LaTeX would run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from report_samples import study

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports.drawing import report
from theodolite.reports.page import latex_of


def test_every_number_is_in_a_cell_of_a_table_with_as_many_columns() -> None:
    rows = [Row(metric=metric, value=value, model="m") for metric, value in (("iso_score", 0.25), ("mean_cosine", 0.125))]
    text = latex_of(Result(verb="survey", title="t", rows=tuple(rows)))
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert body == [r"IsoScore & 0.25 \\", r"mean cosine & 0.125 \\"]
    assert r"\begin{tabular}{lr}" in text


def test_minus_signs_are_set_as_such_and_no_line_begins_with_a_bracket() -> None:
    rows = [Row(metric=metric, value=-0.25, low=-0.5, high=1e-05) for metric in ("[CLS]", "a-1")]
    text = latex_of(Result(verb="survey", title="t", rows=tuple(rows)))
    assert r"{}[CLS] & $-$0.25 [$-$0.5, 1.00e-05] \\" in text and r"a-1 & $-$0.25" in text


def test_columns_agree_with_their_declaration_and_heads_span_them() -> None:
    for table in latex_of(study()).split(r"\begin{table}")[1:]:
        columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", table)
        assert columns is not None
        lines = table.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {len(columns[1])}
    assert r"\cmidrule(lr)" in latex_of(study())


def test_nothing_of_the_data_is_a_command() -> None:
    hostile = Row(metric="iso_score", value=1.0, model=r"\input{/etc/passwd} 50% & $x_1$ #~^", layer=0)
    text = latex_of(Result(verb="survey", title="t", rows=(hostile, Row(metric="iso_score", value=1.0, model="b", layer=0))))
    body = text.partition(r"\begin{table}")[2]
    assert r"\input" not in body
    assert r"\textbackslash{}input\{/etc/passwd\} 50\% \& \$x\_1\$ \#" in body


def test_the_ending_decides_and_several_results_are_refused(tmp_path: Path) -> None:
    result = Result(verb="survey", title="t", rows=(Row(metric="iso_score", value=0.25),))
    assert report(result, tmp_path / "tables.tex").read_text(encoding="utf-8").startswith(r"% needs \usepackage{booktabs}")
    with pytest.raises(ValueError, match="a LaTeX file shows one result, not 2"):
        report([result, result], tmp_path / "both.tex")
