"""How numbers, intervals, sizes and durations are written."""

from __future__ import annotations

import math

import pytest

from theodolite.core.numbers import bytes_text, duration_text, interval_text, number_text, short_number


@pytest.mark.parametrize(
    ("value", "text", "short"),
    [
        (0.0, "0", "0"),
        (0.46731, "0.4673", "0.47"),
        (-1234.56, "-1235", "-1.23e+03"),
        (12345.6, "12346", "1.23e+04"),
        (0.000667, "6.67e-04", "0.00067"),
        (1e5, "1.00e+05", "1e+05"),
        (math.nan, "–", "–"),
        (None, "–", "–"),
    ],
)
def test_a_number_has_few_digits_and_an_undefined_one_is_a_dash(value: float | None, text: str, short: str) -> None:
    assert (number_text(value), short_number(value)) == (text, short)


def test_an_interval_is_empty_unless_both_ends_are_known() -> None:
    assert interval_text(0.1, 0.25) == "[0.1, 0.25]"
    assert interval_text(None, None) == interval_text(0.1, None) == ""


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (2_500, "2.5 kB"), (2_500_000, "2.5 MB"), (3 * 10**12, "3000.0 GB")]
)
def test_bytes_have_a_unit(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_a_minute_and_more_is_in_minutes() -> None:
    assert (duration_text(59.94), duration_text(90)) == ("59.9 s", "1.5 min")
