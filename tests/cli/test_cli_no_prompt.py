"""No verb asks anything, and code in a model's folder never runs, even for `yes | theodolite ...`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from theodolite.cli.app import app

pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("sentence_transformers", reason="the extra models is not installed")

Tiny = Callable[[str], Path]

OWN = ["--own", "train=own.csv", "--own", "dev=own.csv", "--kind", "classification"]
STUDY = ["study", "run", "rp21", "-m", "MODEL", "--data", ".", "--to", "study"]
COMMANDS: dict[str, list[str]] = {
    "survey": ["survey", "-m", "MODEL", "--texts", "texts.txt"],
    "survey, streamed": ["survey", "-m", "MODEL", "--texts", "texts.txt", "--no-store"],
    "extract": ["extract", "MODEL", "--texts", "texts.txt", "--to", "space"],
    "extract text": ["extract", "MODEL", "--texts", "texts.txt", "--unit", "text", "--to", "space"],
    "compare": ["compare", "MODEL", "MODEL", "--texts", "texts.txt"],
    "probe": ["probe", "-m", "MODEL", *OWN],
    "tune": ["tune", "MODEL", *OWN, "--epochs", "1", "--pooling", "mean", "--to", "run"],
    "advise": ["repair", "advise", "-m", "MODEL", "--own", "train=own.csv", "--kind", "classification"],
    "calibrate": ["calibrate", "-m", "MODEL"],
    "study": STUDY,
    "study, dry run": [*STUDY, "--dry-run"],
}


@pytest.fixture(params=["unknown type", "known type", "sentence model"])
def model(request: pytest.FixtureRequest, tiny: Tiny, here: Path) -> Path:
    """A folder whose configuration names code that would create the file `mark`."""
    folder = here / "model"
    shutil.copytree(tiny("bert"), folder)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel", "AutoTokenizer": ["own.Own", None]}
    if request.param != "known type":
        config["model_type"] = "own"
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(here / 'mark')!r}, 'w')\n")
    if request.param == "sentence model":
        kinds = ("sentence_transformers.models.Transformer", "own.OwnModel")
        modules = [{"idx": i, "name": str(i), "path": "", "type": kind} for i, kind in enumerate(kinds)]
        (folder / "modules.json").write_text(json.dumps(modules))
    (here / "texts.txt").write_text("the cat sat\na dog on the mat\nthe river\n")
    (here / "own.csv").write_text("text,label\n" + "".join(f"the cat {letter},x\na dog {letter},y\n" for letter in "abcdefgh"))
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_no_verb_asks_or_runs_code(command: str, model: Path, here: Path) -> None:
    arguments = [str(model) if word == "MODEL" else word for word in COMMANDS[command]]
    result = CliRunner().invoke(app, arguments, input="yes\n" * 20)
    assert "wish to run" not in result.output and "[y/N]" not in result.output
    assert not (here / "mark").exists()
    assert result.exit_code in (0, 2), result.output
    if result.exit_code:
        assert result.stderr.count("\n") == 1, result.stderr
