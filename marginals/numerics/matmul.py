"""Matrix products whose precision does not depend on torch's global TF32 setting."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def exact_matmul(left: Tensor, right: Tensor) -> Tensor:
    """Multiply batches of matrices, (N, a, b) by (N, b, c), without TF32, forward and backward.

    >>> exact_matmul(torch.ones(1, 1, 2), torch.ones(1, 2, 1))
    tensor([[[2.]]])
    """
    return _ExactMatmul.apply(left, right)


class _ExactMatmul(torch.autograd.Function):
    """The backward products run long after the forward call, so they set the guard themselves."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        with tf32(left, on=False):
            return left @ right

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        left, right = ctx.saved_tensors
        need_left, need_right = ctx.needs_input_grad
        by_left = exact_matmul(grads[0], right.transpose(1, 2)) if need_left else None
        by_right = exact_matmul(left.transpose(1, 2), grads[0]) if need_right else None
        return by_left, by_right


@contextmanager
def tf32(like: Tensor, on: bool) -> Iterator[None]:
    """Switch TF32 for float32 products on CUDA, and restore the setting afterwards."""
    if not like.is_cuda or like.dtype != torch.float32:
        yield
        return
    # Use the CUDA backend's own setting: the one for all backends raises when read after a caller
    # has set this one. Before torch 2.9 it has its older name.
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
