"""The site: every page is in its contents, links lead somewhere, the reference is complete, and it builds without a warning."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest
import typer.main

from theodolite.advice.diagnosis import RULES
from theodolite.cli.app import app
from theodolite.metrics import METRICS
from theodolite.repairs import REPAIRS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*") if path.suffix in (".md", ".ipynb") and "_build" not in path.parts)
AROUND = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The module that writes the generated parts of the reference."""
    spec = importlib.util.spec_from_file_location("generated_reference", DOCS / "_ext" / "generated_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(path: Path) -> str:
    """The Markdown of a page or of a notebook's text cells, without code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", text_of(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(path: Path) -> Iterator[str]:
    for target in LINK.findall(text_of(path)):
        if "://" not in target and not target.startswith(("mailto:", "#theodolite.")):
            yield target


@pytest.mark.parametrize("page", [*(ROOT / f"{name}.md" for name in AROUND), *PAGES], ids=lambda p: p.name)
def test_links_lead_to_pages_and_headings_that_exist(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}; the headings are {sorted(anchors(target))}"


def test_every_page_is_in_the_contents(reference: ModuleType) -> None:
    text = reference.MARKER.sub(lambda match: "\n".join(reference.GENERATED[match[1]]()), (DOCS / "index.md").read_text("utf-8"))
    entries = [line for block in re.findall(r"```{toctree}\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()]
    names = [path.relative_to(DOCS).with_suffix("").as_posix() for path in PAGES if path != DOCS / "index.md"]
    assert len(names) > 20
    assert [name for name in names if not any(fnmatch(name, entry) for entry in entries)] == []


def test_a_page_that_comes_later_is_listed(reference: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.md").write_text("```{toctree}\nmodels\nstudy-*\n```\n")
    for name in ("models", "study-new", "advice"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n")
    monkeypatch.setattr(reference, "DOCS", tmp_path)
    assert reference.other_pages() == ["advice"]


def test_the_reference_has_every_metric_repair_and_command(reference: ModuleType) -> None:
    def headings(lines: list[str]) -> list[str]:
        return [line.removeprefix("## ") for line in lines if line.startswith("## ")]

    assert headings(reference.metrics()) == list(METRICS)
    assert headings(reference.repairs()) == list(REPAIRS)
    pages = reference.command_pages()
    assert list(pages) == list(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert "## theodolite repair fit" in pages["repair"]
    assert "| `--bootstrap N` |" in "\n".join(pages["survey"])
    assert "| whole number ≥ 2 |" in next(line for line in pages["survey"] if "`--sample N`" in line)


def test_a_metric_shows_its_formula_and_its_healthy_range(reference: ModuleType) -> None:
    pytest.importorskip("latex2mathml", reason="make setup installs it")
    text = "\n".join(reference.metrics())
    for name in reference.notes("formulas"):
        assert name in METRICS
    assert text.count("<math ") == len(reference.notes("formulas"))
    card = text.split("## mean_cosine\n")[1].split("\n## ")[0]
    bounds = [float(number) for number in re.findall(r'font-size="11" fill="currentColor">([^<]+)<', card)]
    rule = next(rule for rule in RULES if rule.metric == "mean_cosine")
    assert bounds == [rule.watch, rule.bad]


def test_the_notes_name_metrics_and_repairs() -> None:
    notes = tomllib.loads((DOCS / "reference" / "misleads.toml").read_text(encoding="utf-8"))
    assert set(notes["metrics"]) <= set(METRICS)
    assert set(notes["repairs"]) == set(REPAIRS)
    assert all(note.endswith(".") for kind in ("metrics", "repairs") for note in notes[kind].values())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds: every notebook is run, and a warning is an error."""
    for name in ("sphinx", "myst_nb", "furo", "sphinx_copybutton"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed; make setup installs it")
    folder = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "--fresh-env", "--write-all"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, DOCS, folder / "html"],
        env={**os.environ, "THEODOLITE_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site: Path) -> None:
    assert "theodolite.repairs.Whiten" in (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert "theodolite-report" in (site / "reports" / "rp21.html").read_text(encoding="utf-8")[:8192]
    assert "When it misleads" in (site / "reference" / "metric-details.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("notebook", [page.stem for page in PAGES if page.suffix == ".ipynb"])
def test_a_notebook_shows_its_results(site: Path, notebook: str) -> None:
    text = (site / "tutorials" / f"{notebook}.html").read_text(encoding="utf-8")
    assert "output text_html" in text  # a result that shows itself as a table, or a figure
    assert "Traceback" not in text


class Links(HTMLParser):
    """The ids of a page, and what it links to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.targets.add(unquote(value))


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {page.resolve(): Links(page) for page in site.rglob("*.html") if "_static" not in page.parts}
    assert len(pages) > len(PAGES)
    broken, external = [], set()
    for page, links in pages.items():
        for target in links.targets:
            if "://" in target or target.startswith(("mailto:", "data:", "javascript:")):
                external.add(target)
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name.partition("?")[0]).resolve() if name else page
            if not file.exists() or (anchor and file in pages and anchor not in pages[file].ids):
                broken.append(f"{page.name}: {target}")
    assert broken == []
    # Asking for these needs the network: `make linkcheck`.
    assert all(target.startswith(("https://", "mailto:", "data:")) for target in external), sorted(external)
