"""Tables of the page in a browser: sorted, filtered, opened and copied."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SECTION = "#section-table-0"


@pytest.fixture
def page(visit: Any, study_page: Path) -> Any:
    return visit(study_page, folded=False)


def column(page: Any, at: int, section: str = SECTION) -> list[str]:
    return page.locator(f"{section} tbody tr td:nth-child({at})").all_inner_texts()


def numbers(page: Any, at: int) -> list[float]:
    return [float(text.split()[0].replace("−", "-")) for text in column(page, at)]


def test_a_click_sorts_up_then_down_then_not_at_all(page: Any) -> None:
    head = page.locator(f"{SECTION} thead th[aria-sort]").nth(2)
    first = column(page, 2)
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers(page, 3) == sorted(numbers(page, 3))
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers(page, 3) == sorted(numbers(page, 3), reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert column(page, 2) == first


def test_the_keyboard_sorts_too_and_one_column_at_a_time(page: Any) -> None:
    heads = page.locator(f"{SECTION} thead th[aria-sort]")
    heads.nth(2).locator("button").focus()
    page.keyboard.press("Enter")
    heads.nth(1).locator("button").focus()
    page.keyboard.press("Space")
    assert [heads.nth(i).get_attribute("aria-sort") for i in (1, 2)] == ["ascending", "none"]
    assert column(page, 2) == sorted(column(page, 2))


def test_typing_filters_the_lines(page: Any) -> None:
    page.locator(f"{SECTION} input[type=search]").fill("second CLUSTER-based")
    assert column(page, 1) == ["second-model"]
    assert column(page, 2) == ["cluster-based"]
    assert page.locator(f"{SECTION} .line-count").inner_text() == "1 of 14 lines"
    page.locator(f"{SECTION} input[type=search]").fill("")
    assert len(column(page, 1)) == 14


def test_numbers_are_right_aligned_with_their_intervals(page: Any) -> None:
    cell = page.locator(f"{SECTION} tbody td.num").first
    assert cell.evaluate("cell => getComputedStyle(cell).textAlign") == "right"
    assert cell.inner_text().replace("\n", "") == "0.5500 [0.530, 0.570]"


def test_a_long_table_opens_on_request(page: Any) -> None:
    rows = page.locator("#section-table-all tbody tr")
    rows.first.wait_for()
    assert rows.count() == 40
    page.get_by_role("button", name="Show all 280 lines").click()
    assert rows.count() == 280
    assert not page.locator("#section-table-all .table-more").is_visible()


def test_what_is_copied_as_csv_is_what_is_shown_with_all_digits(page: Any) -> None:
    page.locator(f"{SECTION} input[type=search]").fill("first-model")
    page.locator(f"{SECTION} .copy-csv").click()
    page.locator(f"{SECTION} .copy-csv", has_text="Copied").wait_for()
    lines = list(csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))
    assert lines[0][:5] == ["model", "setting", "pre-trained Spearman", "pre-trained Spearman low", "pre-trained Spearman high"]
    assert len(lines) == 8
    assert [line[1] for line in lines[1:]] == column(page, 2)
    assert float(lines[2][2]) == pytest.approx(0.55 + 0.04 / 6, rel=1e-6)


def test_what_is_copied_as_latex_is_a_table(page: Any) -> None:
    page.locator(f"{SECTION} .copy-latex").click()
    page.locator(f"{SECTION} .copy-latex", has_text="Copied").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    assert "\\begin{tabular}{llrrrrrrrr}" in text and text.rstrip().endswith("\\end{tabular}")
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0].strip().splitlines()
    assert len(body) == 14
    assert all(line.count(" & ") == 9 and line.endswith("\\\\") for line in body)
    assert "$0.5500 [0.530, 0.570]$" in body[0] and "$-40$" in body[0]


def test_the_numbers_of_a_figure_open_as_a_table(page: Any) -> None:
    box = page.locator("#figures details.table-box").first
    assert box.locator("table").count() == 0
    box.locator("summary").click()
    box.locator("tbody tr").first.wait_for()
    assert "iso_score\t0.4000\t0.3500\t0.4500" in box.locator("tbody").inner_text()
