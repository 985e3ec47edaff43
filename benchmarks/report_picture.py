"""The README's picture: the first screen of a report page, light and dark, by headless Chromium.

`theodolite survey -m minilm-mlm --task stsb --data data --report page.html && python benchmarks/report_picture.py page.html`
writes docs/images/report-light.png and report-dark.png; minilm-mlm is described in docs/advice-results.md.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
WIDTH, HEIGHT = 1100, 760
LARGEST = 200_000  # bytes: a README should load at once


def draw(page: Path, folder: Path = IMAGES) -> list[Path]:
    """Write report-light.png and report-dark.png into the folder."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise FileNotFoundError(f"there is no browser here, none of {', '.join(BROWSERS)}; install one")
    pictures = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=ARGUMENTS)
        for scheme in ("light", "dark"):
            view = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            view.goto(page.resolve().as_uri())
            view.wait_for_timeout(1500)  # figures that are drawn as they come into view
            picture = folder / f"report-{scheme}.png"
            view.screenshot(path=picture)
            if picture.stat().st_size > LARGEST:
                raise ValueError(f"{picture} has {picture.stat().st_size:,} bytes, more than {LARGEST:,}; choose a plainer page")
            pictures.append(picture)
        chromium.close()
    return pictures


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
