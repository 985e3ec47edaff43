"""Every command runs in an empty folder, with a cache of its own, and opens no connection."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from theodolite.cli.app import app

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the test."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("THEODOLITE_DEBUG", raising=False)
    monkeypatch.chdir(folder)

    def refuse(self: socket.socket, address: Any) -> None:
        raise OSError(f"a test tried to connect to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line that must end with an exit code, 0 by default."""

    def invoke(*arguments: object, code: int = 0) -> Result:
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr("sys.argv", ["theodolite", *words])  # what provenance names as the command
        result = CliRunner().invoke(app, words)
        assert result.exit_code == code, result.output
        return result

    return invoke


@pytest.fixture
def refused() -> Callable[..., str]:
    """Runs a command line that must be refused: exit code 2, nothing on stdout, one line on stderr, which is returned."""

    def invoke(*arguments: object) -> str:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr

    return invoke
