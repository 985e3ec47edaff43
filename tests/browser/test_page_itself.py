"""The page as a whole: themes, contents, figures, phones and paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_samples import study

import theodolite as th
from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.reports.drawing import report

pytestmark = pytest.mark.slow

CUT_OFF = """[...document.querySelectorAll('h1, h2, h3, h4, p, button')].filter((one) => one.offsetParent
  && !one.closest('.table-scroll, .plot, .unseen, .skip') && one.getBoundingClientRect().right > innerWidth + 1)
  .map((one) => one.textContent.slice(0, 60))"""
"""What is cut off at the right edge of the window, apart from what scrolls by itself."""


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def lightness(colour: str) -> float:
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_the_theme_is_the_systems_until_one_is_chosen_and_is_remembered(visit: Any, study_page: Path) -> None:
    page = visit(study_page, color_scheme="dark")
    assert lightness(background(page)) < 60
    page.locator("#theme").click()
    assert lightness(background(page)) > 200
    assert page.locator("#theme").inner_text() == "Dark"
    page.reload()
    assert lightness(background(page)) > 200
    page.locator("#theme").click()
    assert lightness(background(page)) < 60


def test_plots_follow_the_theme(visit: Any, study_page: Path) -> None:
    page = visit(study_page, color_scheme="light")
    place = page.locator(".plot").first
    place.scroll_into_view_if_needed()
    text = place.locator(".xtick text").first
    text.wait_for()
    dark_ink = text.evaluate("one => getComputedStyle(one).fill")
    page.locator("#theme").click()
    page.wait_for_function("old => getComputedStyle(document.querySelector('.plot .xtick text')).fill !== old", arg=dark_ink)
    assert lightness(text.evaluate("one => getComputedStyle(one).fill")) > lightness(dark_ink) + 80


def test_figures_are_drawn_when_the_reader_comes_near(visit: Any, study_page: Path, draw_all: Callable[[Any], None]) -> None:
    page = visit(study_page)
    assert page.locator(".plot[data-drawn]").count() == 1  # the one on the first screen
    draw_all(page)
    assert page.locator(".plot[data-ready]").count() == page.locator(".plot").count() > 5
    assert page.locator(".plot.failed").count() == 0
    for plot in page.locator(".plot").all():
        assert plot.locator("svg.main-svg").count() >= 1


def test_a_figure_can_be_saved(visit: Any, study_page: Path) -> None:
    page = visit(study_page)
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    plot.locator(".main-svg").first.wait_for()
    plot.hover()
    with page.expect_download() as download:
        plot.locator('.modebar-btn[data-title*="ownload"]').first.click()
    assert Path(download.value.path()).read_bytes()[:4] == b"\x89PNG"


def test_no_button_of_a_figure_sends_it_anywhere(visit: Any, study_page: Path, draw_all: Callable[[Any], None]) -> None:
    page = visit(study_page)
    draw_all(page)
    titles = set(page.locator(".modebar-btn").evaluate_all("buttons => buttons.map((button) => button.dataset.title)"))
    assert titles == {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}


def test_the_slider_goes_through_the_steps(visit: Any, study_page: Path) -> None:
    page = visit(study_page)
    page.locator("#figures-centroid-paths summary").first.click()
    plot = page.locator("#figures-centroid-paths .plot")
    plot.scroll_into_view_if_needed()
    plot.locator(".slider-container").wait_for()
    label = plot.locator(".slider-label").filter(has_text="step")
    assert label.text_content() == "step 40"
    rail = plot.locator(".slider-rail-touch-rect")
    rail.scroll_into_view_if_needed()
    box = rail.bounding_box()
    page.mouse.click(box["x"] + 4, box["y"] + box["height"] / 2)
    label.filter(has_text="step 0").wait_for()


def test_the_contents_lead_to_their_sections(visit: Any, study_page: Path) -> None:
    page = visit(study_page)
    for link in page.locator(".toc a").all():
        link.click()
        target = page.locator(f"[id='{(link.get_attribute('href') or '')[1:]}']")
        page.wait_for_function(
            "one => { const { top } = one.getBoundingClientRect(); return -5 < top && top < innerHeight; }",
            arg=target.element_handle(),
        )


def test_the_keyboard_reaches_everything_and_shows_where_it_is(visit: Any, study_page: Path) -> None:
    page = visit(study_page)
    page.evaluate("document.querySelectorAll('main details.fold').forEach((box) => { box.open = true; })")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        tag, has_outline = page.evaluate(
            "(() => { const at = document.activeElement; const look = getComputedStyle(at);"
            "return [at.tagName, look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) > 0]; })()"
        )
        reached.add(tag)
        assert has_outline, f"{tag} does not show that it has the focus"
    assert {"A", "SUMMARY", "INPUT", "BUTTON", "DIV"} <= reached


def test_every_control_has_a_name(visit: Any, study_page: Path) -> None:
    page = visit(study_page)
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, select, input, [tabindex=\"0\"]')].filter((one) => !(one.textContent.trim()"
        " || one.getAttribute('aria-label') || one.labels && one.labels.length)).map((one) => one.outerHTML.slice(0, 90))"
    )
    assert nameless == []


def test_the_command_is_copied(visit: Any, study_page: Path) -> None:
    page = visit(study_page)
    page.locator(".copy-command").click()
    page.locator(".copy-command", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("theodolite study run rp21 --model first-model")


def test_rules_and_printed_rows_open(visit: Any, study_page: Path) -> None:
    page = visit(study_page)
    page.locator("summary", has_text="Every claim with its evidence").click()
    page.locator(".card-fold").first.click()
    rule = page.locator(".card details.rule").first
    assert not rule.locator("p").first.is_visible()
    rule.locator("summary").click()
    assert rule.locator("p").first.is_visible()


@pytest.mark.parametrize("width", [360, 768])
def test_a_phone_needs_no_scrolling_sideways(visit: Any, study_page: Path, draw_all: Callable[[Any], None], width: int) -> None:
    page = visit(study_page, width=width, height=800)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT_OFF) == []


def test_paper_gets_all_figures_and_no_controls(visit: Any, study_page: Path, tmp_path: Path) -> None:
    page = visit(study_page, color_scheme="dark")
    page.pdf(path=tmp_path / "page.pdf")
    assert page.locator(".plot[data-drawn]").count() == page.locator(".plot").count()
    page.emulate_media(media="print")
    assert background(page) == "rgb(255, 255, 255)"
    for control in (".bar", ".toc", ".table-tools button", ".cloud-tools", ".copy-command"):
        assert not page.locator(control).first.is_visible()
    assert (tmp_path / "page.pdf").stat().st_size > 50_000


def test_a_table_of_many_columns_fits_on_paper_and_folded_ones_are_filled(visit: Any, tmp_path: Path) -> None:
    metrics = ("iso_score", "mean_cosine", "effective_rank", "ev_1", "log_partition_isotropy", "condition_number")
    rows = tuple(
        Row(metric=metric, value=-1.2345, model="m", state=state, layer=layer)
        for metric in metrics
        for state in ("before", "after", "difference")
        for layer in range(3)
    )
    report([Result(verb="compare", rows=rows)], tmp_path / "wide.html")
    page = visit(tmp_path / "wide.html", width=1025, height=700)  # A4 across, without its margins
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#section-table-0 tbody tr").first.locator("td").count() == 1 + 3 * len(metrics)
    assert page.evaluate("[...document.querySelectorAll('.data')].every((table) => table.offsetWidth <= innerWidth)")
    assert page.locator("#section-table-all tbody tr").count() == 40
    assert page.locator("#section-table-all .line-count").inner_text() == "40 of 54 lines"


def test_a_study_is_short_when_folded_and_links_open_what_they_lead_to(visit: Any, study_page: Path) -> None:
    page = visit(study_page)
    height = "document.documentElement.scrollHeight"
    assert page.evaluate(height) < 6_000
    page.locator("#fold").click()
    assert page.evaluate(height) > 6_000 and page.locator("#fold").inner_text() == "Fold all"
    page.locator("#fold").click()
    assert page.evaluate(height) < 6_000
    page.locator(".toc a[href='#figures-spectra']").click()
    page.locator("#figures-spectra .plot").wait_for(state="visible")
    outcome = page.locator(".verdict-table a").nth(1)
    outcome.click()
    assert page.locator("#verdicts .card:target").get_attribute("id") == outcome.get_attribute("href")[1:]


@pytest.mark.parametrize(("ending", "start"), [("svg", b"<svg"), ("png", b"\x89PNG")])
def test_a_figure_has_buttons_that_save_it(visit: Any, study_page: Path, ending: str, start: bytes) -> None:
    page = visit(study_page, color_scheme="dark")
    page.locator(".plot[data-ready]").first.wait_for()
    with page.expect_download() as download:
        page.locator(f".save-figure[data-format={ending}]").first.click()
    assert download.value.suggested_filename.endswith(f".{ending}")
    assert Path(download.value.path()).read_bytes().startswith(start)


def test_the_first_column_of_a_wide_table_stays_in_view(visit: Any, study_page: Path) -> None:
    page = visit(study_page, width=600)
    page.locator("#section-table-all summary").click()
    table = page.locator("#section-table-all .table-scroll")
    table.evaluate("box => { box.scrollLeft = 300; }")
    first, second = table.locator("tbody tr").first.locator("td").all()[:2]
    left = table.bounding_box()["x"]
    assert abs(first.bounding_box()["x"] - left) < 3 and second.bounding_box()["x"] < left


def test_several_runs_are_side_by_side(visit: Any, tmp_path: Path, draw_all: Callable[[Any], None]) -> None:
    report([study("one", points=60), study("two", models=("other",), points=60)], tmp_path / "two.html")
    page = visit(tmp_path / "two.html")
    draw_all(page)
    first, second = page.locator("#figures-isotropy-by-layer figure").all()[:2]
    a, b = first.bounding_box(), second.bounding_box()
    assert a["y"] == b["y"] and a["x"] + a["width"] <= b["x"]
    assert [one.locator(".run-tag").inner_text() for one in (first, second)] == ["one", "two"]
    folded = page.locator("#verdicts > details")
    assert [fold.inner_text() for fold in folded.locator("summary h3").all()] == ["one", "two"]
    folded.last.evaluate("fold => { fold.open = false; }")
    card = page.locator("#verdicts .card").last
    assert not card.is_visible()
    page.locator(".verdict-table a").last.click()
    assert card.is_visible()


def test_an_empty_result_is_a_page_without_errors(visit: Any, tmp_path: Path) -> None:
    report([Result(verb="rows", title="nothing")], tmp_path / "nothing.html")
    assert visit(tmp_path / "nothing.html").locator("h1").inner_text() == "nothing"


INSIDE = """([place, inner]) => { const outer = place.getBoundingClientRect();
  return [...place.querySelectorAll(inner)].map((one) => one.getBoundingClientRect())
    .map((box) => box.left >= outer.left && box.right <= outer.right && outer.right <= innerWidth); }"""
"""Whether each of some marks of a figure is on the screen from left to right."""


def test_what_is_bad_is_on_the_screen_of_a_phone(visit: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((200, 8)) * 0.01 + 40  # a cone, all rows nearly the same
    result = th.survey(X)
    bad = [finding for finding in result.findings if finding.verdict == "bad"]
    assert len(bad) >= 2
    report([result], tmp_path / "bad.html")
    for width in (400, 1280):
        page = visit(tmp_path / "bad.html", width=width)
        place = page.locator(".plot").first
        page.wait_for_function("place => place.dataset.ready === 'yes'", arg=place.element_handle())
        for marks in (".points path", ".textpoint text"):
            inside = page.evaluate(INSIDE, [place.element_handle(), marks])
            assert len(inside) == len(result.findings) and all(inside), (width, marks)
        names = [name.strip() for name in place.locator(".annotation-text, .ytick text").all_text_contents()]
        assert {finding.topic for finding in bad} <= set(names)


PANELS = """place => [...place.querySelectorAll('.subplot .scatterlayer .trace:first-child .lines path')]
  .map((one) => one.getBoundingClientRect()).map((box) => [box.top, box.bottom, place.scrollWidth - place.clientWidth])"""
"""Top and bottom of the first line of every panel, and by how much the figure is wider than its place."""


def test_panels_are_below_each_other_on_a_phone(visit: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((200, 8))
    report([th.compare(X, X + 1, bootstrap=0)], tmp_path / "compare.html")
    for width in (400, 1280):
        page = visit(tmp_path / "compare.html", width=width)
        place = page.locator(".plot").first
        page.wait_for_function("place => place.dataset.ready === 'yes'", arg=place.element_handle())
        first, *_, last = place.evaluate(PANELS)
        assert (first[1] < last[0]) == (width == 400)
        assert first[2] <= 1  # nothing scrolls sideways
