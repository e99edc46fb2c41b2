"""The precision of matrix products in training on a CUDA device."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

Precision = Literal["full", "tf32", "bf16x3"]

_LOCAL = threading.local()


@contextmanager
def training(precision: Precision = "full") -> Iterator[None]:
    """Promise one backward pass of first order at most, in this thread, and set the precision.

    Kernels then bring a backward pass of their own, and products on a CUDA device the precision.
    """
    before = precision_in_training()
    _LOCAL.precision = precision
    try:
        yield
    finally:
        _LOCAL.precision = before


def precision_in_training() -> Precision | None:
    """Return the precision of products in this thread's training step; None outside of one."""
    return getattr(_LOCAL, "precision", None)


def product(
    left: Tensor, right: Tensor, precision: Precision = "full", out: Tensor | None = None
) -> Tensor:
    """Multiply batches of float32 matrices, (N, a, b) by (N, b, c).

    The relative error of a sum of nonnegative terms is at most 2^-10 with "tf32" (operands of 11
    bits), 2^-15 with "bf16x3" (each operand as the sum of two bfloat16 numbers; the product of
    the small parts is left out), and of the order of 2^-23 with "full". On a CPU the first is full.

    >>> product(torch.ones(1, 1, 2), torch.ones(1, 2, 1))
    tensor([[[2.]]])
    """
    if precision == "bf16x3":
        return _by_three(left, right, out)
    with _tf32(left, precision == "tf32"):
        return torch.bmm(left, right) if out is None else torch.bmm(left, right, out=out)


def _by_three(left: Tensor, right: Tensor, out: Tensor | None) -> Tensor:
    (a, b), (c, d) = _halves(left), _halves(right)
    both = torch.cat([a, a, b], 2), torch.cat([c, d, c], 1)
    if left.is_cuda:
        result = _wide_product(*both)
    else:
        result = torch.bmm(both[0].float(), both[1].float())
    return result if out is None else out.copy_(result)


def _wide_product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply bfloat16 matrices into float32."""
    try:
        return torch.bmm(left, right, out_dtype=torch.float32)
    except TypeError as error:  # an older torch
        raise ValueError(
            "Expected `products` to be 'tf32' or 'full' with a torch whose `bmm` has no "
            f"`out_dtype`; got 'bf16x3' and torch {torch.__version__}."
        ) from error


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Split into a bfloat16 number and one for what it leaves."""
    large = x.bfloat16()
    return large, (x - large.float()).bfloat16()


@contextmanager
def _tf32(like: Tensor, on: bool) -> Iterator[None]:
    """Switch TF32 for a product on CUDA, and leave the setting as it was."""
    if not like.is_cuda or like.dtype != torch.float32:
        yield
        return
    # The setting of the CUDA backend alone: the one for all backends refuses to be read
    # where a caller has set this one. It has its older name before torch 2.9.
    backend: Any = torch.backends.cuda.matmul
    newer = hasattr(backend, "fp32_precision")
    name = "fp32_precision" if newer else "allow_tf32"
    chosen: Any = ("tf32" if on else "ieee") if newer else on
    before = getattr(backend, name)
    setattr(backend, name, chosen)
    try:
        yield
    finally:
        setattr(backend, name, before)
