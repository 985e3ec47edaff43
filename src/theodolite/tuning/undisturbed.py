"""Looking at a model in training without leaving a trace: modes of its modules and every random state are put back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Put the random states of Python, NumPy and torch (all devices) back at the end."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.random.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        if mps is not None:
            torch.mps.set_rng_state(mps)


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every part is in the mode it was in, and so is chance."""
    modes = [(part, part.training) for part in module.modules()]
    with kept_random_state(), torch.no_grad():
        module.eval()
        try:
            yield
        finally:
            for part, training in modes:
                part.training = training
