"""No command runs the code of a model's folder, nor asks whether it should, whatever is typed at it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")

from tiny_encoders import build
from typer.testing import CliRunner

from theodolite.cli.app import app

COMMANDS = {
    "survey": "survey -m FOLDER --texts texts.txt",
    "compare": "compare FOLDER FOLDER --texts texts.txt",
    "probe": "probe -m FOLDER --own train=labels.csv --own test=labels.csv --kind classification",
    "extract": "extract FOLDER --texts texts.txt --to space",
    "tune": "tune FOLDER --own train=labels.csv --own dev=labels.csv --kind classification --to run",
    "repair advise": "repair advise -m FOLDER --own train=labels.csv --kind classification",
    "calibrate": "calibrate -m FOLDER",
    "study run": "study run il23 -m FOLDER --own train=labels.csv --own dev=labels.csv --kind classification",
    "study run --dry-run": "study run il23 -m FOLDER --own train=labels.csv --own dev=labels.csv --kind classification --dry-run",
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=list(COMMANDS))
def test_no_command_runs_or_asks_for_code_of_a_folder(words: str, here: Path, tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    build("bert", folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "unheard-of", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'it-ran')!r}, 'w')\n")
    (here / "texts.txt").write_text("the cat\na dog\n" * 20)
    (here / "labels.csv").write_text("text,label\n" + "the cat,x\na dog,y\n" * 20)
    answered = CliRunner().invoke(app, words.replace("FOLDER", str(folder)).split(), input="y\n" * 20)
    assert not (tmp_path / "it-ran").exists()
    assert answered.exit_code == 2 and "code of its own" in answered.output and "[y/N]" not in answered.output, answered.output
