"""A Hub that does not answer is not asked again and again."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("datasets", reason="datasets is not installed")

from datasets import config
from huggingface_hub import constants

from theodolite.tasks import hub_access


def test_an_address_where_nobody_listens_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert hub_access.hub_answers()
    assert not hub_access.hub_answers()


@pytest.mark.parametrize("answers", [True, False])
def test_only_an_unreachable_hub_is_read_from_its_cache(monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    monkeypatch.setattr(hub_access, "hub_answers", lambda: answers)
    before = modes()
    with hub_access.cache_only_if_unreachable():
        assert modes() == (before if answers else (True, True))
    assert modes() == before


def modes() -> tuple[bool, bool]:
    return config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
