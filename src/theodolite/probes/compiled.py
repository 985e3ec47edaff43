"""Compile a kernel with numba where it is installed; without it the same NumPy code runs as it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """The kernel as machine code that releases the interpreter's lock, cached on disk; itself where numba is missing."""
    try:
        from numba import njit
    except ImportError:
        return kernel
    # Sums may be taken in another order, as NumPy's are too; infinities keep their meaning.
    freedom = {"reassoc", "contract", "nsz"}
    return cast(Kernel, njit(cache=True, nogil=True, error_model="numpy", fastmath=freedom)(kernel))


def compiled_or(plain: Kernel) -> Callable[[Kernel], Kernel]:
    """Compile loops with numba; without it take `plain`, which does the same with whole arrays."""

    def choose(loops: Kernel) -> Kernel:
        machine = compiled(loops)
        return plain if machine is loops else machine

    return choose
