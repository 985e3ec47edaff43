"""A device that does not exist, for machines without a GPU: its tensors compute on the CPU and refuse to meet tensors of it.

A tensor on the device has the device type "meta", which torch knows without a driver, and keeps its numbers in `inner`. As on a
GPU, an operation on it and on a tensor of the CPU is an error, and so is `.numpy()` before `.cpu()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = "meta"
# What may read from one device and write to another.
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class DeviceTensor(torch.Tensor):
    """A tensor that says it is on the device, around one that is not."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> DeviceTensor:
        options: dict[str, Any] = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        tensor = torch.Tensor._make_wrapper_subclass(cls, inner.shape, device=DEVICE, **options)
        tensor.inner = inner.detach()
        return tensor

    def __repr__(self, **_: Any) -> str:
        return f"DeviceTensor({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


def _run(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    is_there = [isinstance(each, DeviceTensor) for each in tensors]
    # A GPU too takes single numbers from the CPU.
    if any(is_there) and function not in COPIES and any(each.dim() > 0 for each in tensors if not isinstance(each, DeviceTensor)):
        raise RuntimeError(f"{function} got tensors of the device and of the CPU")
    target = kwargs.get("device")
    goes_there = any(is_there) if target is None else torch.device(target).type == DEVICE
    args, kwargs = tree_map(lambda each: each.inner if isinstance(each, DeviceTensor) else each, (args, kwargs))
    if target is not None:
        kwargs["device"] = torch.device("cpu")
    output = function(*args, **kwargs)
    known = {id(each.inner): each for each in tensors if isinstance(each, DeviceTensor)}  # what was changed in place
    if function is torch.ops.aten.copy_.default:
        goes_there = is_there[0]

    def placed(each: Any) -> Any:
        if not isinstance(each, torch.Tensor) or not goes_there:
            return each
        return known[id(each)] if id(each) in known else DeviceTensor(each)

    return tree_map(placed, output)


@contextmanager
def pretended_device() -> Iterator[str]:
    """The name of the device, which exists inside the context."""
    with pytest.MonkeyPatch.context() as patch, _Mode():
        patch.setattr(torch, "inference_mode", torch.no_grad)  # tensors like these have no views in inference mode
        for name in ("tensor", "as_tensor"):  # for the type "meta" these would keep no numbers, without asking the mode
            patch.setattr(torch, name, _made_here_first(getattr(torch, name)))
        yield DEVICE


def _made_here_first(make: Any) -> Any:
    def made(data: Any, *args: Any, device: Any = None, **options: Any) -> torch.Tensor:
        tensor: torch.Tensor = make(data, *args, **options)
        return tensor if device is None else tensor.to(device)

    return made
