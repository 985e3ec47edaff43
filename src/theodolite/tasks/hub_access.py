"""Whether the Hugging Face Hub can be reached: its libraries would repeat every request for half a minute if it cannot."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

# Seconds in which the Hub must answer before only its cache is read.
PATIENCE = 2.0


def hub_answers() -> bool:
    """Whether the Hub can be reached now, through the proxy of the environment if there is one."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    answers: list[bool] = []

    def connect() -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            _connect(constants.ENDPOINT)
            answers.append(True)

    # In a thread, because looking up a name has no time limit of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return bool(answers)


@contextlib.contextmanager
def only_cache() -> Iterator[None]:
    """Have the libraries of the Hub answer from their caches inside the block."""
    import datasets
    from huggingface_hub import constants

    modules: tuple[Any, ...] = (constants, datasets.config)
    before = [module.HF_HUB_OFFLINE for module in modules]
    for module in modules:
        module.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value


def _connect(endpoint: str) -> None:
    """Connect to a server, or have the proxy connect to it; raises an error if that fails."""
    server = urlsplit(endpoint)
    host, port = server.hostname or "", server.port or (80 if server.scheme == "http" else 443)
    proxies = getproxies()
    proxy = urlsplit(proxies.get(server.scheme) or proxies.get("all") or "")
    if not proxy.hostname or proxy_bypass(host):
        socket.create_connection((host, port), timeout=PATIENCE).close()
    elif proxy.scheme == "http" and server.scheme == "https":
        names = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
        headers = {"Proxy-Authorization": f"Basic {b64encode(names).decode()}"} if proxy.username else {}
        with contextlib.closing(http.client.HTTPConnection(proxy.hostname, proxy.port or 80, timeout=PATIENCE)) as connection:
            connection.set_tunnel(host, port, headers)
            connection.connect()
    else:  # other proxies are asked for nothing, only reached
        socket.create_connection((proxy.hostname, proxy.port or 1080), timeout=PATIENCE).close()
