"""Pages in a real browser: Chromium, driven by Playwright, which reports every error and every request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from report_samples import study

from theodolite.reports.drawing import report

UNFOLD = "document.querySelectorAll('main details.fold').forEach((box) => { box.open = true; })"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--use-angle=swiftshader",  # WebGL without a graphics card
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def missing(reason: str) -> None:
    """Skip on a developer's machine; on CI, where everything is installed on purpose, a missing browser is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and CI is set")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        missing(f"there is no browser here, none of {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def study_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything on it, of two models."""
    place = tmp_path_factory.mktemp("page") / "study.html"
    report([study(models=("first-model", "second-model"), points=600)], place)
    return place


Open = Callable[..., Any]


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Opens a page; after the test, there must be no error on its console and no request but for the page itself."""
    contexts: list[Any] = []
    problems: list[str] = []

    def go(path: Path, *, width: int = 1280, height: int = 900, folded: bool = True, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce", **options)
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(f"{error}"))
        page.on("dialog", lambda dialog: (problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: problems.append(request.url[:200]) if not _is_own(request.url, path) else None)
        page.goto(path.as_uri())
        page.wait_for_function("document.documentElement.dataset.ready === 'yes'")
        if not folded:
            page.evaluate(UNFOLD)
        return page

    yield go
    for context in contexts:
        context.close()
    assert problems == []


def _is_own(url: str, path: Path) -> bool:
    return url.partition("#")[0] == path.as_uri() or url.startswith(("blob:", "data:"))


@pytest.fixture
def draw_all() -> Callable[[Any], None]:
    """Scrolls through a page until all its figures are drawn."""

    def draw(page: Any) -> None:
        page.evaluate(UNFOLD)
        for place in page.locator(".plot").all():
            place.scroll_into_view_if_needed()
            page.wait_for_function("place => place.dataset.ready === 'yes'", arg=place.element_handle())

    return draw
