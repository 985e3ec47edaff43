"""Compile a kernel with numba where it is installed; without it the same NumPy code runs as it stands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import FunctionType
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


def calling(kernel: Kernel, **others: Callable[..., Any]) -> Kernel:
    """A copy of a kernel that calls these functions by their names: compiled ones, where the kernel itself calls plain ones."""
    names = {**getattr(kernel, "__globals__"), **others}  # noqa: B009  # of the general kind Callable has none
    copy = FunctionType(getattr(kernel, "__code__"), names, kernel.__name__, getattr(kernel, "__defaults__"))  # noqa: B009
    copy.__qualname__, copy.__module__ = kernel.__qualname__, kernel.__module__
    return cast(Kernel, copy)


def must_compile(*kernels: Callable[..., Any]) -> bool:
    """Whether calling these kernels will first make machine code of one of them: it is neither in memory nor cached on disk."""
    return any(_is_new(kernel) for kernel in kernels)


def _is_new(kernel: Callable[..., Any]) -> bool:
    stats = getattr(kernel, "stats", None)  # numba's; a plain function has none
    if stats is None or getattr(kernel, "signatures", None):
        return False
    return not any(Path(stats.cache_path).glob(f"*.{kernel.__name__}-*.nbi"))
