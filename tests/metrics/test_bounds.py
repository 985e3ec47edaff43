"""Bounds: what is inside holds, what is outside is one sentence with the value, the limit and the baseline."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.rows import Row
from theodolite.metrics.bounds import Bound

NUMBERS = st.floats(-10, 10)


@given(value=NUMBERS, low=NUMBERS, high=NUMBERS, baseline=NUMBERS, drop=st.floats(0, 5), share=st.integers(0, 100))
def test_a_value_breaks_a_bound_exactly_if_it_is_outside(
    value: float, low: float, high: float, baseline: float, drop: float, share: int
) -> None:
    bound = Bound.parse("iso_score", {"min": low, "max": high, "drop": drop, "rise": f"{share}%"})
    inside = low <= value <= high and baseline - drop <= value <= baseline + share / 100 * abs(baseline)
    assert (bound.breach(Row(metric="iso_score", value=value), baseline) == "") == inside


def test_the_sentence_names_the_value_the_limit_and_the_baseline_that_sets_it() -> None:
    row = Row(metric="mean_cosine", value=0.35, layer=6)
    assert Bound(metric="mean_cosine", max=0.3).breach(row) == "mean cosine in layer 6 0.35 is above the bound 0.3"
    relative = Bound(metric="mean_cosine", max=0.3, rise=0.1)
    assert relative.breach(row, 0.12) == "mean cosine in layer 6 0.35 is above the bound 0.22 (the baseline has 0.12)"
    assert relative.breach(row, 0.25) == "mean cosine in layer 6 0.35 is above the bound 0.3"
    label = Row(metric="minimum_distance", value=0.1, label="noun")
    assert Bound(metric="minimum_distance", min=1).breach(label) == "minimum distance of noun 0.1 is below the bound 1"
    undefined = Row(metric="iso_score", value=math.nan, reason="one row")
    assert Bound(metric="iso_score", min=0).breach(undefined) == "IsoScore is not defined: one row"


@pytest.mark.parametrize(
    ("metric", "values", "said"),
    [
        ("isoscore", {"min": 0}, "did you mean 'iso_score'"),
        ("iso_score", {"mim": 0}, "has no 'mim'; did you mean 'min'"),
        ("iso_score", 0.3, "must be a table such as"),
        ("iso_score", {"layer": 3}, "must be a table such as"),
        ("iso_score", {"min": "0.1"}, r"min = '0\.1' .* must be a number"),
        ("iso_score", {"max": math.nan}, "must be a number"),
        ("iso_score", {"max": True}, "must be a number"),
        ("iso_score", {"drop": -0.1}, "not negative"),
        ("iso_score", {"drop": "5"}, 'a share such as "5%"'),
        ("iso_score", {"rise": "x%"}, 'a share such as "5%"'),
        ("iso_score", {"min": 0, "layer": -1}, "the number of a layer"),
    ],
)
def test_a_wrong_bound_is_refused(metric: str, values: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Bound.parse(metric, values)
