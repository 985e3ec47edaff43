"""The first screen of a page: the answer, what it was measured on, and the figure that carries it, which is there once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_samples import study

import theodolite as th
from theodolite.core.numbers import number_text
from theodolite.core.result import Answer, Judged, Result
from theodolite.core.rows import Row
from theodolite.reports.sections import page_content
from theodolite.reports.wording import judged_number


@pytest.mark.parametrize("rows", [60, 800])
def test_a_survey_opens_with_ranges_histogram_size_date_and_sample(rows: int) -> None:
    result = th.survey(np.random.default_rng(0).standard_normal((rows, 4)), sample=500)
    first = page_content([result], text=True).context
    assert [figure["section"] for figure in first["carrying"]] == ["figures-ranges", "figures-similarities"]
    assert f"{rows:,} × 4" in first["facts_line"] and result.provenance["date"] in first["facts_line"]
    assert any("sample of 500" in note for note in first["conditions"]) == (rows > 500)
    # What is on the first screen is not repeated below.
    shown = {figure["id"] for figure in first["carrying"]}
    assert not shown & {figure["id"] for section in first["figures"] for figure in section["figures"]}


def test_a_study_opens_with_its_claims_and_folds_the_rest() -> None:
    result = study(points=5)
    first = page_content([result], text=True).context
    assert [figure["section"] for figure in first["carrying"]] == ["figures-claims"] and first["folded"]


def test_a_study_that_decides_nothing_opens_with_what_it_measured() -> None:
    result = study(points=5)
    judged = Judged(source="", outcome="not measured", why="", effects=())
    result = replace(result, verdicts=tuple(replace(verdict, measured=judged) for verdict in result.verdicts))
    first = page_content([result], text=True).context
    assert [figure["section"] for figure in first["carrying"]] == ["figures-isotropy-by-layer"]


def test_several_results_have_a_conclusion_each_and_no_figure_of_one() -> None:
    answer = Answer(verdict="1 supported", sentence="Of 1 claim: 1 supported.")
    both = [replace(study(name, points=5), answer=answer) for name in ("one", "two")]
    first = page_content(both, text=True).context
    assert first["carrying"] == [] and [answer["run"] for answer in first["answers"]] == ["one", "two"]


def test_advice_opens_with_what_repairs_gain_and_the_answer_as_a_sentence() -> None:
    about: dict[str, Any] = {"model": "m", "task": "t"}
    rows = tuple(
        Row(metric=metric, value=value, state=state, setting=setting, **about)
        for state, settings in {"repair": ("whiten", "global"), "compression": ("int8", "binary"), "choice": ("whiten",)}.items()
        for value, setting in enumerate(settings)
        for metric in ("ndcg@10", "ndcg@10_gain")
    )
    answer = Answer(verdict="apply", sentence="Whitening helps.")
    result = Result(verb="advise", rows=rows, answer=answer)
    first = page_content([result], text=True).context
    assert [answer["sentence"] for answer in first["answers"]] == ["Whitening helps."]
    assert [figure["section"] for figure in first["carrying"]] == ["figures-gains"]
    assert [len(section["figures"]) for section in first["figures"]] == [1]  # that of compression; a single choice is no figure


def test_figures_that_say_the_same_of_themselves_say_it_once() -> None:
    rows = tuple(
        Row(metric=metric, value=0.1 * layer, model="m", layer=layer)
        for metric in ("iso_score", "mean_cosine", "effective_rank")
        for layer in range(3)
    )
    result = Result(verb="rows", rows=rows)
    (section,) = page_content([result], text=True).context["figures"]
    assert section["note"].startswith("Layer 0 is the embeddings") and not any(figure["note"] for figure in section["figures"])
    assert section["side_by_side"] and len({figure["height"] for figure in section["figures"]}) == 1


def test_a_study_of_repairs_without_claims_opens_with_what_they_gain() -> None:
    rows = [
        Row(metric="gain", value=value, low=value - 0.1, high=value + 0.1, model="m", task=task, state="tuned", setting=name)
        for task in ("stsb", "cisi")
        for name, value in (("zero-mean", 0.2), ("global", -0.3), ("cluster-based", -0.05))
    ]
    result = Result(verb="study", rows=tuple(rows))
    (figure,) = page_content([result], text=True).context["carrying"]
    assert figure["section"] == "figures-repair-gains"


def test_a_number_beside_a_range_is_the_tables_or_says_what_it_is_a_share_of() -> None:
    result = th.survey(np.random.default_rng(0).standard_normal((500, 16)))
    table = {row.metric: number_text(row.value) for row in result}
    for finding in result.findings:
        text = judged_number(finding)
        assert text == table.get(finding.metric) or text.endswith("% of max"), finding.topic


def test_a_result_without_an_answer_concludes_nothing() -> None:
    assert page_content([study(points=5)], text=True).context["answers"] == []
