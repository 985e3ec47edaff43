"""The verb `tune`: its options, and what it concludes."""

from __future__ import annotations

import inspect

import pytest

import theodolite as th
from theodolite.tuning.tune_options import TUNE_DEFAULTS


def test_a_misspelt_option_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(TypeError, match="tune\\(\\) has no option 'epoch'; did you mean 'epochs'"):
        th.tune("demo", epoch=3)  # type: ignore[call-arg]


def test_every_option_is_in_the_signature_with_its_default() -> None:
    parameters = inspect.signature(th.tune).parameters
    assert {name: parameters[name].default for name in TUNE_DEFAULTS} == TUNE_DEFAULTS
    assert set(parameters) - set(TUNE_DEFAULTS) == {"model", "progress"}
    assert TUNE_DEFAULTS["resume"] is True and TUNE_DEFAULTS["epochs"] is None and TUNE_DEFAULTS["allow_unknown"] is False
