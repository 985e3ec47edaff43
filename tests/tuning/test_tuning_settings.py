"""Settings of runs and of the Isotropy Layer refuse what cannot be meant, and need no torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from theodolite.tuning.settings import LayerSettings, TuneSettings, steps_to_track

Quick = Callable[..., Any]


def settings(**changes: Any) -> TuneSettings:
    return TuneSettings(**{"task": "cola", "model": "m", "output": "o", **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be above 0"),
        ({"warmup": 1.0}, "warmup=1.0 must be a share"),
        ({"validation": 1.5}, "validation=1.5 must be a share"),
        ({"patience": 2}, "set validation=0.3"),
        ({"strategy": "frozen"}, "frozen:N"),
        ({"strategy": "freeze:2"}, "frozen:N"),
        ({"schedule": "cosine"}, "schedule is 'cosine'; it must be one of linear, constant"),
        ({"pooling": "max"}, "pooling is 'max'; it must be one of"),
        ({"task": "colla"}, "did you mean 'cola'"),
        ({"task": "stsb", "strategy": "head"}, "has no head"),
    ],
)
def test_wrong_settings_are_errors(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings(**changes)


def test_pooling_follows_the_task() -> None:
    assert settings(task="stsb").pooled == "mean"
    assert settings(task="cola").pooled == "cls"
    assert settings(task="cola", pooling="mean").pooled == "mean"


def test_settings_need_no_torch() -> None:
    code = "import sys; from theodolite.tuning import PRESETS, TuneSettings; print('torch' in sys.modules, len(PRESETS))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "4"]


@pytest.mark.slow
def test_a_missing_extra_raises_one_sentence() -> None:
    code = (
        "import sys\n"
        "sys.modules['transformers'] = None\n"
        "try:\n    from theodolite.tuning import fine_tune\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "theodolite[models]"' in done.stdout and len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "isonet"}, "must be one of plain, isolayer"),
        ({"method": "isobn", "batch_size": 1}, "at least 2"),
        ({"method": "plain", "strength": 1.0}, "cosreg or istar"),
        ({"method": "cosreg", "published": True}, "isobn"),
        ({"method": "isobn", "layer": LayerSettings()}, "isolayer"),
        ({"method": "isolayer"}, "validation"),
    ],
)
def test_wrong_methods_are_errors(quick: Quick, moods: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(moods, **values)


def test_words_and_siamese_runs_have_no_place_for_a_method(quick: Quick, tags: Any, alike: Any) -> None:
    with pytest.raises(ValueError, match="many vectors per text"):
        quick(tags, method="isobn")
    with pytest.raises(ValueError, match="Siamese"):
        quick(alike, method="isobn")


def test_tracking_hulls_needs_tracking_and_labels(quick: Quick, moods: Any, alike: Any) -> None:
    assert quick(moods, track="epoch", track_hulls=True).to_dict()["track_hulls"] is True
    with pytest.raises(ValueError, match="set track='epoch'"):
        quick(moods, track=None, track_hulls=True)
    with pytest.raises(ValueError, match="task 'alike' has scores"):
        quick(alike, track="epoch", track_hulls=True)


@pytest.mark.parametrize(
    ("track", "steps"),
    [
        ("epoch", "epoch"),
        ("never", None),
        (None, None),
        (10, 10),
        ("10", 10),
        ((0, 10, 50), (0, 10, 50)),
        ([5], (5,)),
        ("0,10,50", (0, 10, 50)),
        ("5,", (5,)),
    ],
)
def test_every_spelling_of_when_to_track(track: Any, steps: Any) -> None:
    assert steps_to_track(track) == steps
    assert settings(track=track).track == steps


@pytest.mark.parametrize("track", ["often", "", "0", 0, -1, "1,two", ()])
def test_wrong_times_to_track_are_errors(track: Any) -> None:
    with pytest.raises(ValueError, match="must be epoch, never, a number of steps, or steps with commas"):
        settings(track=track)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 1}, "at least 3"),
        ({"batch_size": 1, "corrected": False}, "at least 2"),
        ({"alpha": 1.5}, "alpha=1.5"),
        ({"trains": "head"}, "alternate"),
        ({"epochs": 0}, "epochs=0"),
        ({"learning_rate": 0.0}, "above 0"),
    ],
)
def test_wrong_settings_of_the_layer_are_errors(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LayerSettings(**values)


def test_settings_of_the_layer_from_names_and_values() -> None:
    assert LayerSettings.from_options({"alpha": 0.3, "depth": 2}) == LayerSettings(alpha=0.3, depth=2)
    with pytest.raises(ValueError, match=r"has no setting 'aplha'; it has trains, depth, .* patience"):
        LayerSettings.from_options({"aplha": 0.3})


def test_the_summary_names_what_differs_from_the_defaults() -> None:
    assert LayerSettings().summary() == "isolayer"
    assert LayerSettings(trains="joint", alpha=0.3).summary() == "isolayer trains=joint alpha=0.3"
