"""Which form of a kernel is used: the fused one for float32 on a CUDA device, else the plain."""

import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

_LOCAL = threading.local()


def use_fused(like: Tensor) -> bool:
    """Say whether a computation on such tensors takes the fused kernels.

    They need float32, a CUDA device and Triton; `MARGINALS_KERNELS=plain` in the environment or
    `fused(False)` turns them off.

    >>> use_fused(torch.zeros(1))
    False
    """
    if like.dtype != torch.float32 or not has_triton():
        return False
    forced: bool | None = getattr(_LOCAL, "forced", None)
    if forced is not None:
        return forced
    return like.is_cuda and os.environ.get("MARGINALS_KERNELS", "fused") != "plain"


@contextmanager
def fused(on: bool) -> Iterator[None]:
    """Take the fused kernels, or do not, in this thread: on a CPU they need Triton's interpreter.

    >>> with fused(False):
    ...     use_fused(torch.zeros(1))
    False
    """
    before = getattr(_LOCAL, "forced", None)
    _LOCAL.forced = on
    try:
        yield
    finally:
        _LOCAL.forced = before


@cache
def has_triton() -> bool:
    """Say whether Triton is installed; torch brings it along where CUDA is."""
    return importlib.util.find_spec("triton") is not None
