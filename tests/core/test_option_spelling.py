"""Options and commands in messages are spelled as the caller would type them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from theodolite.core.spelling import ON_COMMAND_LINE, command, option


@pytest.fixture
def on_command_line() -> Iterator[None]:
    token = ON_COMMAND_LINE.set(True)
    yield
    ON_COMMAND_LINE.reset(token)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("overwrite", "", "overwrite=True"),
        ("max_length", "128", "max_length=128"),
        ("level", "0.95", "level=0.95"),
        ("tolerance", "1e-05", "tolerance=1e-05"),
        ("shift", "-3", "shift=-3"),
        ("layers", "N", "layers=N"),
        ("layers", "[0, 6]", "layers=[0, 6]"),
        ("unit", "mean", "unit='mean'"),
        ("value", "nan", "value='nan'"),
        ("path", "it's", 'path="it\'s"'),
    ],
)
def test_in_python_an_option_is_a_keyword_argument(name: str, value: str, text: str) -> None:
    assert option(name, value) == text
    if value not in ("N", ""):
        assert compile(f"f({text})", "", "eval")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("overwrite", "", "--overwrite"), ("max_length", "128", "--max-length 128"), ("unit", "mean", "--unit mean")],
)
@pytest.mark.usefixtures("on_command_line")
def test_on_the_command_line_an_option_has_dashes(name: str, value: str, text: str) -> None:
    assert option(name, value) == text


def test_a_command_is_the_same_for_every_caller() -> None:
    text = command("repair fit whiten vectors.npy", to="repair", n_components="3", overwrite="")
    assert text == "theodolite repair fit whiten vectors.npy --to repair --n-components 3 --overwrite"
