"""The Hugging Face Hub: whether it can be reached, and reading only its cache if it cannot."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

# Seconds in which the Hub must answer before only its cache is read.
PATIENCE = 2.0


def hub_answers() -> bool:
    """Whether the Hub can be reached now. Its library would repeat every request for half a minute if it cannot."""
    from urllib.request import getproxies

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if getproxies():  # a connection of our own would not go through it
        return True
    address = urlsplit(constants.ENDPOINT)
    answers: list[bool] = []

    def connect() -> None:
        with contextlib.suppress(OSError):
            port = address.port or (80 if address.scheme == "http" else 443)
            socket.create_connection((address.hostname or "", port), timeout=PATIENCE).close()
            answers.append(True)

    # In a thread, because looking up a name has no time limit of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return bool(answers)


@contextlib.contextmanager
def cache_only_if_unreachable() -> Iterator[None]:
    """A context in which `datasets` reads its cache and asks nobody, if the Hub does not answer."""
    from datasets import config
    from huggingface_hub import constants

    before = (config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE)
    try:
        if not hub_answers():
            config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before
