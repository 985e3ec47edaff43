"""Compile kernels with numba if it is installed (without it the same NumPy code runs as it is), and the arrays they take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def jit(kernel: Kernel) -> Kernel:
    """Compile a kernel to machine code that releases the interpreter's lock and is cached on disk.

    Parameters
    ----------
    kernel
        A function in the subset of NumPy that numba compiles.

    Returns
    -------
    Kernel
        The compiled function; `kernel` itself if numba is not installed.
    """
    try:
        from numba import njit
    except ImportError:
        return kernel
    # Sums may be reordered, as NumPy's are too; infinities must keep their meaning, so full fastmath is out.
    freedom = {"reassoc", "contract", "nsz"}
    return cast(Kernel, njit(cache=True, nogil=True, error_model="numpy", fastmath=freedom)(kernel))


def jit_or(plain: Kernel) -> Callable[[Kernel], Kernel]:
    """Decorate loops: compiled with numba, or replaced by `plain` without it.

    Parameters
    ----------
    plain
        A function that computes the same with whole arrays, because the loops would be slow in Python.
    """

    def choose(loops: Kernel) -> Kernel:
        machine_code = jit(loops)
        return plain if machine_code is loops else machine_code

    return choose


def with_callees(kernel: Kernel, **callees: Callable[..., Any]) -> Kernel:
    """A copy of a function that calls other functions under the names it uses.

    One source serves twice: as plain Python that calls plain functions, and compiled, calling compiled ones.

    Parameters
    ----------
    kernel
        The function to copy.
    callees
        What each name in its body is to refer to.
    """
    names = {**getattr(kernel, "__globals__"), **callees}  # noqa: B009  # a Callable in general has no such attribute
    copy = FunctionType(getattr(kernel, "__code__"), names, kernel.__name__, getattr(kernel, "__defaults__"))  # noqa: B009
    copy.__qualname__, copy.__module__ = kernel.__qualname__, kernel.__module__
    return cast(Kernel, copy)


def needs_compiling(kernel: Callable[..., Any]) -> bool:
    """Whether calling a kernel compiles it first: it is neither in memory nor cached on disk.

    Parameters
    ----------
    kernel
        What `jit` returned.
    """
    stats = getattr(kernel, "stats", None)  # numba's own; a plain function has none
    if stats is None or getattr(kernel, "signatures", None):
        return False
    return not any(Path(stats.cache_path).glob(f"*.{kernel.__name__}-*.nbi"))
