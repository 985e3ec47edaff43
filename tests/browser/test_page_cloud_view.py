"""The clouds in a browser: drawn, turned, coloured, searched and read, both panels as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_samples import pictures_of, study

from theodolite.reports.drawing import report

pytestmark = pytest.mark.slow

INK = """(stage) => {
  const { width, height } = stage.querySelector('canvas');
  const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
  copy.drawImage(stage.querySelector('canvas'), 0, 0);
  const data = copy.getImageData(0, 0, width, height).data;
  const from = (x, y) => Math.hypot(x - width / 3, y - height / 3);
  let [sum, ink, at] = [0, 0, [1e9, 1e9]];
  for (let i = 0; i < data.length; i += 4) {
    const pixel = [data[i], data[i + 1], data[i + 2]];
    if (Math.max(...pixel) - Math.min(...pixel) < 60) continue; // the page's greys
    const place = [(i / 4) % width, Math.floor(i / 4 / width)];
    sum = (sum * 31 + i * 7 + pixel[0] + 3 * pixel[1] + 5 * pixel[2]) % 1000000007;
    ink += 1;
    if (from(...place) < from(...at)) at = place;
  }
  return { ink, sum, at: [at[0] * stage.clientWidth / width, at[1] * stage.clientHeight / height] };
}"""
"""The number of coloured pixels of a panel, a checksum of its drawing, and the position of one of its points."""


@pytest.fixture
def page(visit: Any, study_page: Path) -> Any:
    page = visit(study_page, folded=False)
    page.locator("#cloud-place").scroll_into_view_if_needed()
    settled(page)
    return page


def settled(page: Any) -> None:
    """Wait for the next drawing to be on the screen."""
    page.wait_for_function("document.querySelector('.panels').dataset.drawn")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))))")


def panels_of(page: Any) -> list[dict[str, Any]]:
    settled(page)
    return [stage.evaluate(INK) for stage in page.locator(".stage").all()]


def changed(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[bool]:
    return [a["sum"] != b["sum"] for a, b in zip(before, after, strict=True)]


def test_two_panels_hold_points(page: Any) -> None:
    assert page.locator(".panel h4").count() == 2
    assert [text.split("\n")[0] for text in page.locator(".panel h4").all_inner_texts()] == ["pre-trained", "fine-tuned"]
    assert all(panel["ink"] > 2000 for panel in panels_of(page))


def test_three_dimensions_and_back(page: Any) -> None:
    flat = panels_of(page)
    page.locator("#cloud-3d").click()
    assert page.locator("#cloud-3d").get_attribute("aria-pressed") == "true"
    assert changed(flat, panels_of(page)) == [True, True]
    page.locator("#cloud-2d").click()
    assert changed(flat, panels_of(page)) == [False, False]


@pytest.mark.parametrize("mode", ["#cloud-2d", "#cloud-3d"])
def test_dragging_one_panel_moves_both_and_reset_brings_all_back(page: Any, mode: str) -> None:
    page.locator(mode).click()
    before = panels_of(page)
    box = page.locator(".stage").first.bounding_box()
    page.mouse.move(box["x"] + 150, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 230, box["y"] + 190, steps=4)
    page.mouse.up()
    assert changed(before, panels_of(page)) == [True, True]
    page.get_by_role("button", name="Show all points again").click()
    assert changed(before, panels_of(page)) == [False, False]


def test_the_wheel_zooms_only_in_a_panel_that_has_the_focus(page: Any) -> None:
    before = panels_of(page)
    stage = page.locator(".stage").nth(1)
    box = stage.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    top = page.evaluate("scrollY")
    page.mouse.wheel(0, -120)
    page.wait_for_function("top => scrollY !== top", arg=top)
    assert changed(before, panels_of(page)) == [False, False]
    stage.focus()
    box = stage.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    top = page.evaluate("scrollY")
    page.mouse.wheel(0, -120)
    assert changed(before, panels_of(page)) == [True, True]
    assert page.evaluate("scrollY") == top


def test_keys_and_buttons_zoom_and_move(page: Any) -> None:
    first = panels_of(page)
    page.locator(".stage").first.focus()
    for key in ("ArrowRight", "+", "-", "ArrowLeft"):
        before = panels_of(page)
        page.keyboard.press(key)
        assert changed(before, panels_of(page)) == [True, True], key
    page.keyboard.press("0")
    assert changed(first, panels_of(page)) == [False, False]
    page.locator("#cloud").get_by_role("button", name="Zoom in").click()
    assert changed(first, panels_of(page)) == [True, True]
    page.locator("#cloud").get_by_role("button", name="Zoom out").click()
    page.get_by_role("button", name="Show all points again").click()
    assert changed(first, panels_of(page)) == [False, False]


def test_colours_change_and_one_class_can_be_shown_alone(page: Any) -> None:
    choices = page.locator("#cloud-colour option").all_inner_texts()
    assert choices == ["word frequency (Zipf scale)", "label", "part of speech", "cluster"]
    assert page.locator(".legend .ramp").count() == 1
    by_frequency = panels_of(page)
    page.locator("#cloud-colour").select_option("pos")
    by_pos = panels_of(page)
    assert changed(by_frequency, by_pos) == [True, True]
    chip = page.locator(".legend button").first
    chip.click()
    alone = panels_of(page)
    assert all(0 < few["ink"] < 0.6 * many["ink"] for few, many in zip(alone, by_pos, strict=True))
    page.locator(".legend button").first.click()
    assert changed(by_pos, panels_of(page)) == [False, False]
    page.locator("#cloud-colour").select_option("cluster")
    assert page.locator(".legend button .name").all_inner_texts()[:3] == ["0", "1", "2"]


def test_pointing_at_a_point_shows_it_in_its_sentence_and_marks_it_in_both_panels(page: Any) -> None:
    (first, _) = panels_of(page)
    stage = page.locator(".stage").first
    box = stage.bounding_box()
    page.mouse.move(box["x"] + first["at"][0], box["y"] + first["at"][1])
    token = page.locator(".point-info .about b")
    token.wait_for()
    sentence = page.locator(".point-info .sentence")
    assert token.inner_text() in sentence.inner_text().split()
    assert set(sentence.locator("mark").all_inner_texts()) == {token.inner_text()}
    assert "word frequency (Zipf scale) " in page.locator(".point-info .about").inner_text()
    ring = "one => one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some((value) => value)"
    rings = [stage.locator("canvas").nth(1).evaluate(ring) for stage in page.locator(".stage").all()]
    assert rings == [True, True]


def test_a_token_is_found_and_enter_goes_from_one_to_the_next(page: Any) -> None:
    page.locator("#cloud-find").fill("River")
    count = int(page.locator(".point-info").inner_text().split()[0])
    assert count > 2 and count % 2 == 0
    sentences = []
    for _ in range(2):
        page.keyboard.press("Enter")
        assert page.locator(".point-info .about b").inner_text() == "river"
        sentences.append(page.locator(".point-info .sentence").inner_text())
    assert sentences[0] != sentences[1]


def test_another_pair_can_be_shown(page: Any) -> None:
    before = panels_of(page)
    assert page.locator("#cloud-pair option").all_inner_texts() == [
        "first-model · stsb · layer 6",
        "second-model · stsb · layer 6",
    ]
    page.locator("#cloud-pair").select_option("1")
    assert changed(before, panels_of(page)) == [True, True]


def test_without_text_a_point_is_described_by_what_colours_it(visit: Any, tmp_path: Path) -> None:
    report([study(pictures=pictures_of(300))], tmp_path / "silent.html", text=False)
    page = visit(tmp_path / "silent.html", folded=False)
    page.locator("#cloud-place").scroll_into_view_if_needed()
    assert page.locator("#cloud-find").count() == 0
    box = page.locator(".stage").first.bounding_box()
    at = panels_of(page)[0]["at"]
    page.mouse.move(box["x"] + at[0], box["y"] + at[1])
    page.locator(".point-info .about", has_text="part of speech").wait_for()
    assert page.locator(".point-info .sentence").inner_text() == ""


def test_a_finger_turns_and_reads_on_a_phone(visit: Any, study_page: Path) -> None:
    page = visit(study_page, folded=False, width=390, height=800, has_touch=True, is_mobile=True)
    page.locator(".stage").first.scroll_into_view_if_needed()
    first = panels_of(page)[0]
    box = page.locator(".stage").first.bounding_box()
    page.touchscreen.tap(box["x"] + first["at"][0], box["y"] + first["at"][1])
    page.locator(".point-info .sentence mark").first.wait_for()


def test_twenty_thousand_points_are_drawn_and_turn(visit: Any, tmp_path: Path) -> None:
    report([study(pictures=pictures_of(20_000))], tmp_path / "many.html")
    page = visit(tmp_path / "many.html", folded=False)
    page.locator("#cloud-place").scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('.panels').dataset.drawn")
    page.locator("#cloud-3d").click()
    before = page.locator(".stage").first.screenshot()
    page.locator(".stage").first.dispatch_event("keydown", {"key": "ArrowLeft"})
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.locator(".stage").first.screenshot() != before
