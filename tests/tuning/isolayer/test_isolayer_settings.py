"""Settings of the Isotropy Layer refuse what cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from theodolite.tuning.isolayer.settings import LayerSettings


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
def test_wrong_settings_are_errors(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LayerSettings(**values)


def test_settings_from_names_and_values() -> None:
    assert LayerSettings.from_options({"alpha": 0.3, "depth": 2}) == LayerSettings(alpha=0.3, depth=2)
    with pytest.raises(ValueError, match=r"has no setting 'aplha'; it has trains, depth, .* patience"):
        LayerSettings.from_options({"aplha": 0.3})


def test_the_summary_names_what_differs_from_the_defaults() -> None:
    assert LayerSettings().summary() == "isolayer"
    assert LayerSettings(trains="joint", alpha=0.3).summary() == "isolayer trains=joint alpha=0.3"
