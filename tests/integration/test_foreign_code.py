"""A model's own code runs only if the command line or a call allows it: never because a file says so, in any release."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="the extra models is not installed")

import theodolite as th
from theodolite.models.encoder import Encoder
from theodolite.models.export import check_dense, write_dense
from theodolite.models.location import EncoderError

Tiny = Callable[[str], Path]


@pytest.fixture
def hostile(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an encoder whose code leaves a file behind when it runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "hostile"
    shutil.copytree(tiny("bert"), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "unheard-of", "auto_map": {"AutoConfig": "code_of_it.Config", "AutoModel": "code_of_it.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code_of_it.py").write_text(
        f"open({str(tmp_path / 'RAN')!r}, 'w').close()\nfrom transformers import BertConfig, BertModel\n"
        "class Config(BertConfig):\n    model_type = 'unheard-of'\nclass Model(BertModel):\n    config_class = Config\n"
    )
    Path("texts.txt").write_text("a dog\nthe cat sat\nriver banks\nunbelievable dogs\n")
    return folder


def test_a_gates_file_cannot_allow_it(hostile: Path, tmp_path: Path) -> None:
    table = f'[survey]\nsource = "{hostile}"\ntexts = "texts.txt"\n'
    Path("theodolite.toml").write_text(f"{table}trust_remote_code = true\n[bounds]\nmean_cosine = {{ max = 1.0 }}\n")
    with pytest.raises(ValueError, match=r"theodolite.toml has the key trust_remote_code.*allow it with trust_remote_code=True"):
        th.gate()
    with pytest.raises(ValueError, match="has the key trust_remote_code"):
        th.gate(trust_remote_code=True)
    Path("theodolite.toml").write_text(f"{table}[bounds]\nmean_cosine = {{ max = 1.0 }}\n")
    with pytest.raises(EncoderError, match="code of its own"):
        th.gate()
    assert not (tmp_path / "RAN").exists()
    th.gate(trust_remote_code=True)
    assert (tmp_path / "RAN").exists()


@pytest.mark.parametrize("words", [["gate"], ["study", "run", "rp21"]])
def test_the_command_line_can_allow_it(words: list[str]) -> None:
    from typer.testing import CliRunner

    from theodolite.cli.app import app

    assert "--trust-remote-code" in CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"}).output


@pytest.mark.parametrize(
    "place",
    ["[settings.tuning]", "[settings.task_tuning.cola]", "[settings.quick.tuning]", "[[models]]\nname = 'x'\n[models.tuning]"],
)
def test_a_studys_file_cannot_allow_it(place: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f"title = 'mine'\n{place}\ntrust_remote_code = true\n")
    with pytest.raises(ValueError, match=r"mine.toml has the key trust_remote_code"):
        th.study(file)


def test_the_settings_of_a_run_cannot_allow_it(tmp_path: Path) -> None:
    from theodolite.tuning.run_plans import plan_runs, settings_of_run
    from theodolite.tuning.settings import TuneSettings

    settings = TuneSettings(task="cola", model="someone/encoder", output=str(tmp_path), trust_remote_code=True, validation=0.3)
    values = json.loads(json.dumps(settings.to_dict()))
    (tmp_path / "settings.json").write_text(json.dumps({"format": 1, "verb": "tune", **values}))
    with pytest.raises(ValueError, match=r"settings.json has the key trust_remote_code.*allow it with trust_remote_code=True"):
        plan_runs(to=tmp_path / "new", method="isolayer", plain=tmp_path)
    (run,) = plan_runs(to=tmp_path / "new", method="isolayer", plain=tmp_path, trust_remote_code=True)
    assert run.settings.trust_remote_code
    (tmp_path / "settings.json").write_text(json.dumps({"format": 1, "verb": "tune", **values, "trust_remote_code": False}))
    assert not settings_of_run(tmp_path, output=tmp_path / "new").trust_remote_code


@pytest.fixture
def pipeline(tiny: Tiny, tmp_path: Path) -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    modules: list[Any] = [Transformer(str(tiny("bert"))), Pooling(16, "mean"), Dense(16, 16)]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(tmp_path / "model"), create_model_card=False)
    return tmp_path / "model"


def name_class(folder: Path, where: str) -> None:
    """Let a model name a class of its own: as a module, as an activation function, or inside a Router."""
    if where == "module":
        file, modules = folder / "modules.json", json.loads((folder / "modules.json").read_text())
        modules[2]["type"] = "code_of_it.Own"
        file.write_text(json.dumps(modules))
    elif where == "activation":
        file = folder / "2_Dense" / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "activation_function": "code_of_it.Own"}))
    else:
        (folder / "2_Dense" / "router_config.json").write_text(json.dumps({"types": {"0_Own": "code_of_it.Own"}}))


@pytest.mark.parametrize("where", ["module", "activation", "router"])
def test_a_class_of_a_models_own_is_not_loaded_whatever_the_release(
    pipeline: Path, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sentence_transformers

    source = "raise SystemExit('this ran')"
    (pipeline / "code_of_it.py").write_text(source)
    (tmp_path / "code_of_it.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    name_class(pipeline, where)
    # Releases before 6 import the class: nothing may even be handed to the library.
    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", None)
    with pytest.raises(EncoderError, match=r"code of its own.*code_of_it\.Own"):
        write_dense(pipeline, np.eye(16), np.zeros(16), tmp_path / "out")
    assert not (tmp_path / "out").exists() and "code_of_it" not in sys.modules
    (pipeline / "3_Dense").mkdir()
    (pipeline / "3_Dense" / "self_test.json").write_text('{"texts": ["a"], "vectors": [[0.0]]}')
    with pytest.raises(EncoderError, match=r"code of its own"):
        check_dense(pipeline)
    monkeypatch.undo()
    with pytest.raises(EncoderError, match=r"code of its own.*trust_remote_code=True"):
        Encoder.load(pipeline).pipeline  # noqa: B018  # it loads the modules


def test_a_model_with_known_classes_is_exported(pipeline: Path, tmp_path: Path) -> None:
    write_dense(pipeline, np.eye(16), np.zeros(16), tmp_path / "out")
    assert check_dense(tmp_path / "out") < 1e-6
