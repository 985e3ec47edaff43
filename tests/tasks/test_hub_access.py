"""Whether the Hub can be reached is known within seconds, also behind a proxy."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from theodolite.tasks.hub_access import PATIENCE, hub_answers

constants = pytest.importorskip("huggingface_hub.constants", reason="the extra models is not installed")

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.invalid")
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextmanager
def proxy(answer: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that gives one answer, or none at all; and what it was asked."""
    server = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            asked.append(connection.recv(4096))
            if answer is None:
                time.sleep(PATIENCE + 1)
            else:
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    with server:
        yield f"127.0.0.1:{server.getsockname()[1]}", asked


def timed() -> tuple[bool, float]:
    start = time.monotonic()
    return hub_answers(), time.monotonic() - start


def test_offline_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    answers, seconds = timed()
    assert not answers and seconds < 0.5


def test_a_name_that_does_not_exist_is_known_in_time() -> None:
    answers, seconds = timed()
    assert not answers and seconds < PATIENCE + 0.9


def test_a_server_that_listens_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert hub_answers()


def test_a_proxy_is_asked_to_connect_with_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(b"HTTP/1.1 200 Connection established\r\n\r\n") as (address, asked):
        monkeypatch.setenv("https_proxy", f"http://me:secret@{address}")
        assert hub_answers()
        assert asked[0].startswith(b"CONNECT hub.invalid:443 ") and b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n" in asked[0]


@pytest.mark.slow
@pytest.mark.parametrize("answer", [b"HTTP/1.1 404 Not Found\r\n\r\n", b"", b"nonsense\r\n\r\n", None])
def test_a_proxy_that_does_not_reach_the_hub_is_known_in_time(answer: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(answer) as (address, _):
        monkeypatch.setenv("https_proxy", f"http://{address}")
        answers, seconds = timed()
        assert not answers and seconds < PATIENCE + 0.9


def test_a_proxy_that_is_not_for_the_hub_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(b"HTTP/1.1 200 Connection established\r\n\r\n") as (address, asked):
        monkeypatch.setenv("https_proxy", f"http://{address}")
        monkeypatch.setenv("no_proxy", "hub.invalid")
        assert not hub_answers() and not asked
