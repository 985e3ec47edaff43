"""The pages' shell blocks, run as written in an empty folder; the text block behind one is what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", flags=re.DOTALL | re.MULTILINE)

EXAMPLES = [
    pytest.param(commands, printed, id=f"{page.stem} {number}")
    for page in sorted(DOCS.rglob("*.md"))
    for number, (commands, printed) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
]


def test_there_are_examples() -> None:
    assert "probes 1" in [example.id for example in EXAMPLES]


@pytest.mark.slow
@pytest.mark.parametrize(("commands", "printed"), EXAMPLES)
def test_a_block_works_as_written(commands: str, printed: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "THEODOLITE_CACHE": str(tmp_path / "cache"), "PATH": path}
    done = subprocess.run(
        ["sh", "-e", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    # On a slow machine what takes long says how far it is.
    assert [line for line in done.stderr.splitlines() if " so far" not in line] == []
    if printed:
        assert _without_rounding(done.stdout) == _without_rounding(printed)


def _without_rounding(text: str) -> str:
    """The text without the digits of rounding errors, which differ between processors."""
    return re.sub(r"[ -]\d\.\d\de-(?:0[7-9]|1\d)", " rounding", text)


# A fenced block, the comment above it, its language and its content.
FENCED = re.compile(r"(?:^<!-- (.+?) -->\n)?^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
CODE = re.compile(
    r"^(?:theodolite|pip|make|import|from|CREATE|SELECT) |^\w+ = th\.|^name: |^repos:|^\[\w+\]$", flags=re.MULTILINE
)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem)
def test_a_block_that_no_test_runs_says_why(page: Path) -> None:
    """Shell blocks and `>>>` are run as they are; commands that made the numbers of a page name their data by a variable."""
    for mark, language, content in FENCED.findall(page.read_text(encoding="utf-8")):
        is_run = language == "sh" or ">>> " in content
        is_record = "$THEODOLITE_" in content or page.stem.startswith("study-")
        if is_run or is_record or not CODE.search(content):
            continue
        reason, _, details = mark.partition(": ") if mark.startswith("not run") else ("run by", "", mark.removeprefix("run by "))
        assert details, f"{page.name}: no test runs this block, and nothing says why:\n{content}"
        if reason == "run by":
            assert (ROOT / details).is_file(), f"{page.name}: {details} does not exist"
