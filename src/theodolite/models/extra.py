"""The extra `models`: whether it is there, and how its libraries are kept quiet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INSTALL = 'pip install "theodolite[models]"'


def require_models() -> None:
    """Raise one sentence with the command to run where torch or transformers cannot be imported."""
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise ImportError(f"encoders need torch and transformers ({error}); get them with: {INSTALL}") from None


def limit_threads(threads: int) -> None:
    """Let torch use so many threads in this process, where it is installed."""
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)


@contextmanager
def quietly() -> Iterator[None]:
    """Without the progress bars and reports of transformers while it loads; what matters of them is checked by the caller."""
    import transformers

    logging: Any = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
