"""Batched matrix products of a training step, in a chosen precision."""

from typing import Literal

import torch
from torch import Tensor

from marginals.numerics.matmul import tf32

Precision = Literal["full", "tf32", "bf16x3"]


def product(
    left: Tensor, right: Tensor, precision: Precision = "full", out: Tensor | None = None
) -> Tensor:
    """Multiply batches of float32 matrices, (N, a, b) by (N, b, c).

    The relative error of a sum of nonnegative terms is about 2^-23 with "full", at most 2^-10 with
    "tf32" (11-bit operands), and at most 2^-15 with "bf16x3" (each operand is the sum of two
    bfloat16 numbers; the product of the two small parts is dropped). On a CPU "tf32" is "full".

    >>> product(torch.ones(1, 1, 2), torch.ones(1, 2, 1))
    tensor([[[2.]]])
    """
    if precision != "bf16x3":
        with tf32(left, precision == "tf32"):
            return torch.bmm(left, right) if out is None else torch.bmm(left, right, out=out)
    (a, b), (c, d) = _halves(left), _halves(right)
    result = _widened(torch.cat([a, a, b], 2), torch.cat([c, d, c], 1))
    return result if out is None else out.copy_(result)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Split a number into a bfloat16 number and the bfloat16 of the remainder."""
    large = x.bfloat16()
    return large, (x - large.float()).bfloat16()


def _widened(left: Tensor, right: Tensor) -> Tensor:
    """Multiply bfloat16 matrices and sum in float32."""
    if not left.is_cuda:
        return torch.bmm(left.float(), right.float())
    try:
        return torch.bmm(left, right, out_dtype=torch.float32)
    except TypeError as error:  # an older torch
        raise ValueError(
            "Expected `products` to be 'tf32' or 'full', because this torch's `bmm` has no "
            f"`out_dtype`; got 'bf16x3' and torch {torch.__version__}."
        ) from error
