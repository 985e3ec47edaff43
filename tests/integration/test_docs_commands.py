"""The pages' shell blocks, run as written in an empty folder; the text block behind one is what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", flags=re.DOTALL | re.MULTILINE)

EXAMPLES = [
    pytest.param(commands, printed, id=f"{page.stem} {number}")
    for page in sorted(DOCS.rglob("*.md"))
    for number, (commands, printed) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
]


def test_there_are_examples() -> None:
    assert "probes 1" in [example.id for example in EXAMPLES]


@pytest.mark.parametrize(("commands", "printed"), EXAMPLES)
def test_a_block_works_as_written(commands: str, printed: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "THEODOLITE_CACHE": str(tmp_path / "cache"), "PATH": path}
    done = subprocess.run(
        ["sh", "-e", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if printed:
        assert done.stdout == printed
