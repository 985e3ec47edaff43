"""The README's commands, run as written, in an empty folder with an empty cache."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[2] / "README.md"


def commands() -> list[str]:
    """Every line of the shell blocks that calls theodolite."""
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("theodolite ")]


@pytest.mark.slow
def test_the_commands_work_as_written(tmp_path: Path) -> None:
    """The reader's own files are stood in for by random ones of these names."""
    assert [command.split()[1] for command in commands()] == ["survey", "compare", "calibrate", "repair"]
    folder, cache = tmp_path / "work", tmp_path / "cache"
    folder.mkdir()
    random = np.random.default_rng(0)
    for name in ("vectors", "before", "after", "first", "second"):
        np.save(folder / f"{name}.npy", random.standard_normal((300, 16), dtype=np.float32))
    (folder / "topics.txt").write_text("news\nsport\nmusic\n" * 100)
    np.savetxt(folder / "scores.txt", random.uniform(0, 5, 300))
    environment = {**os.environ, "THEODOLITE_CACHE": str(cache), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands():
        words = shlex.split(command, comments=True)
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout.strip(), command
        assert "Traceback" not in done.stderr
    assert (folder / "survey.html").is_file()


def test_the_first_screen_has_a_picture_for_both_themes_and_the_install() -> None:
    screen = README.read_text(encoding="utf-8").splitlines()[:25]
    pictures = re.findall(r'(?:src|srcset)="(.+?)"', "\n".join(screen))
    assert [Path(picture).stem for picture in pictures] == ["report-dark", "report-light"]
    assert all((README.parent / picture).stat().st_size < 200_000 for picture in pictures)
    # Nothing is on PyPI: what a reader pastes first must work in a clone.
    assert [line.partition("  ")[0] for line in screen if line.startswith(("make ", "pip "))] == [
        "make demo",
        "pip install .",
        'pip install ".[models]"',
    ]


def test_every_page_that_it_links_to_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_code_fits_80_columns() -> None:
    blocks = re.findall(r"```(?:sh|text)\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > 80] == []
