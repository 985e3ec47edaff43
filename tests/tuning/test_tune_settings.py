"""Settings refuse what cannot be meant; the papers' presets are what the papers print."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from theodolite.tuning.settings import PRESETS, TuneSettings, preset


def settings(**changes: Any) -> TuneSettings:
    return TuneSettings(**{"task": "cola", "model": "m", "output": "o", **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be above 0"),
        ({"warmup": 1.0}, "warmup=1.0 is a share"),
        ({"validation": 1.5}, "validation=1.5 is a share"),
        ({"patience": 2}, "set validation, such as 0.3"),
        ({"strategy": "frozen"}, "frozen:N"),
        ({"strategy": "freeze:2"}, "frozen:N"),
        ({"schedule": "cosine"}, "schedule='cosine' must be one of"),
        ({"pooling": "max"}, "pooling='max' must be one of"),
        ({"task": "colla"}, "did you mean 'cola'"),
        ({"task": "stsb", "strategy": "head"}, "has no head"),
    ],
)
def test_settings_refuse(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        settings(**changes)


def test_presets_are_the_papers() -> None:
    rp21 = preset("rp21", task="stsb", model="m", output="o")
    assert (rp21.learning_rate, rp21.batch_size, rp21.epochs, rp21.pooled) == (7e-5, 32, 3, "mean")
    assert rp21.is_siamese
    il23 = preset("il23", task="rte", model="m", output="o")
    assert (il23.validation, il23.pooled) == (0.3, "cls") and il23.patience is not None
    assert not preset("il23", task="stsb", model="m", output="o").is_siamese
    zs22 = preset("zs22", task="pos", model="m", output="o", epochs=3)
    assert (zs22.learning_rate, zs22.batch_size, zs22.warmup, zs22.schedule, zs22.epochs) == (3e-4, 32, 0.1, "linear", 3)
    with pytest.raises(ValueError, match="there is no preset 'rp22'; there are rp21, il23, zs22"):
        preset("rp22", task="stsb", model="m", output="o")


def test_every_preset_is_json_and_names_settings() -> None:
    for name in PRESETS:
        told = preset(name, task="stsb", model="m", output="o").to_dict()
        assert json.loads(json.dumps(told))["model"] == "m"
        assert "output" not in told


def test_pooling_follows_the_task() -> None:
    assert settings(task="stsb").pooled == "mean"
    assert settings(task="cola").pooled == "cls"
    assert settings(task="cola", pooling="mean").pooled == "mean"
    assert settings(strategy="frozen:4").frozen_layers == 4
    assert settings().frozen_layers is None


def test_settings_need_no_torch() -> None:
    code = "import sys; from theodolite.tuning import PRESETS, TuneSettings; print('torch' in sys.modules, len(PRESETS))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "3"]


def test_a_missing_extra_is_one_sentence() -> None:
    code = (
        "import sys\n"
        "sys.modules['transformers'] = None\n"
        "try:\n    from theodolite.tuning import tune\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'theodolite[models]'" in done.stdout and len(done.stdout.splitlines()) == 1
