"""Hostile content in a browser: shown as text, and nothing of it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_samples import finding_of, paths_of, pictures_of, rows_of, spectra_of, study, verdicts_of

from theodolite.reports.drawing import report

pytestmark = pytest.mark.slow

ATTACKS = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "<a href=\"javascript:window.hacked = 3\">click</a>",
    "{{ constructor.constructor('window.hacked = 4')() }}",
    "<svg onload='window.hacked = 5'>\x00\x1b\u202e\u2066",
    "<b>bold</b><script src=https://example.org/x.js></script>",
)  # fmt: skip
HUGE = "<i>y</i>" * 1_300_000


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    n = len(ATTACKS)
    whole = "".join(ATTACKS)
    pictures = []
    for picture in pictures_of(60):
        texts = [ATTACKS[i % n] for i in range(60)]
        columns = {"token": texts, "text": [*texts[:-1], HUGE], "label": texts, "pos": [ATTACKS[0]] * 60}
        pictures.append(replace(picture, columns=columns, about={**picture.about, "model": whole}))
    verdict = replace(verdicts_of()[0], claim=ATTACKS[0], title=ATTACKS[1], rule=HUGE, model=ATTACKS[3])
    paths = paths_of()
    nasty = [ATTACKS[i % n] for i in range(paths.num_rows)]
    hostile_paths = paths.set_column(paths.column_names.index("task"), "task", [[ATTACKS[1]] * paths.num_rows]).set_column(
        paths.column_names.index("label"), "label", [nasty]
    )
    result = study(
        name=whole,
        title=ATTACKS[0],
        provenance={
            "command": f"theodolite study run {ATTACKS[1]}",
            ATTACKS[0]: ATTACKS[1],
            "settings": {ATTACKS[2]: HUGE},
        },
        notes=ATTACKS,
        findings=(finding_of(topic=ATTACKS[0], meaning=ATTACKS[1], action=HUGE, model=ATTACKS[3]),),
        rows=tuple(replace(row, model=whole, task=ATTACKS[1], reason=row.reason and ATTACKS[2]) for row in rows_of()),
        verdicts=(verdict,),
        pictures=tuple(pictures),
        records={"paths": hostile_paths, "spectra": spectra_of(whole)},
    )
    place = tmp_path_factory.mktemp("hostile") / "page.html"
    report([result, replace(result, provenance={**result.provenance, "name": ATTACKS[4]})], place)
    return place


def test_nothing_runs_and_everything_is_shown_as_text(visit: Any, hostile_page: Path, draw_all: Callable[[Any], None]) -> None:
    page = visit(hostile_page, folded=False)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    draw_all(page)
    page.locator("#cloud-colour").select_option("label")
    page.locator("#cloud-find").fill(ATTACKS[1])
    page.keyboard.press("Enter")
    assert page.locator(".point-info .sentence").inner_text() == ATTACKS[1]
    page.locator(".legend button").first.click()
    for plot in page.locator(".plot").all()[:3]:
        plot.scroll_into_view_if_needed()
        plot.hover()
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert (
        page.evaluate("document.querySelectorAll('main img, main b > b, main i > i, main svg[onload], script[src]').length") == 0
    )
    assert page.locator("h1").inner_text() == ATTACKS[0]
    assert ATTACKS[1] in page.locator("#verdicts").inner_text()
    assert ATTACKS[0] in page.locator("#provenance").inner_text()
    links = page.evaluate(
        "[...document.querySelectorAll('a')].map((one) => one.getAttribute('href') || one.getAttribute('xlink:href'))"
    )
    assert all(link is None or link.startswith("#") for link in links)


def test_hostile_strings_do_not_blow_up_the_page(visit: Any, hostile_page: Path, draw_all: Callable[[Any], None]) -> None:
    assert hostile_page.stat().st_size < 6_000_000
    page = visit(hostile_page, folded=False, width=390, height=800)
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_copied_cells_are_not_formulas(visit: Any, tmp_path: Path) -> None:
    formula = '=HYPERLINK("https://example.org","x")'
    report(
        [study(rows=tuple(replace(row, model=formula) for row in rows_of()) + tuple(rows_of()), points=5)], tmp_path / "f.html"
    )
    page = visit(tmp_path / "f.html", folded=False)
    page.locator("#section-table-0 .copy-csv").click()
    page.locator("#section-table-0 .copy-csv", has_text="Copied").wait_for()
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[1].startswith("\"'=HYPERLINK(")
