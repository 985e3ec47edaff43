"""The registry: names, labels and axis titles, defaults, and hints for misspelt names."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import theodolite.metrics as package
from theodolite.metrics import LAYER_METRICS, METRICS, axis_of, check_metrics, default_metrics, label_of
from theodolite.metrics.registry import metric


@pytest.mark.parametrize(
    ("name", "message"),
    [("isoscore", "did you mean 'iso_score'"), ("zzz", "known: iso_score"), ("alignment", "second input")],
)
def test_unknown_metrics_get_a_hint(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_metrics([name])


def test_names_are_checked_and_come_back_without_repetitions() -> None:
    assert check_metrics(["iso_score", "ev_1", "iso_score"]) == ["iso_score", "ev_1"]
    assert check_metrics() == check_metrics(None) == default_metrics()
    assert check_metrics([]) == []


def test_defaults_are_metrics_of_one_cloud() -> None:
    assert set(LAYER_METRICS) <= set(default_metrics())
    assert all(METRICS[name].needs not in ("pairs", "reference") for name in default_metrics())


@pytest.mark.parametrize(
    ("name", "label", "axis"),
    [
        ("iso_score", "IsoScore", "IsoScore (1 is isotropic)"),
        ("mean_cosine", "mean cosine", "mean cosine (0 is isotropic)"),
        ("effective_rank", "effective rank", "effective rank (more is isotropic)"),
        ("ev_1", "EV 1", "EV 1 (small is isotropic)"),
        ("mean_norm", "mean norm", "mean norm"),
        ("matthews", "Matthews", "Matthews correlation"),
        ("silhouette", "silhouette", "silhouette"),
        ("something_else", "something else", "something else"),
    ],
)
def test_labels_and_axis_titles(name: str, label: str, axis: str) -> None:
    assert (label_of(name), axis_of(name)) == (label, axis)


def test_a_name_cannot_be_registered_twice() -> None:
    def iso_score(X: object) -> float:
        return 0.0

    with pytest.raises(ValueError, match="'iso_score' is registered twice"):
        metric("[0, 1]", "neither", needs="moments")(iso_score)


def test_no_module_is_hidden_by_a_function_of_its_name() -> None:
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
        assert inspect.ismodule(getattr(package, module.name))
