"""Log values of the paper's leaves by fused kernels, with their own backward pass."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Beyond this, the unrolled networks of a program do not fit into the registers of a GPU.
_MOST_PLANES = 160


def fits(raw: Sequence[Tensor]) -> bool:
    """Return whether the fused kernels can take networks of this size."""
    return sum(part.shape[:-2].numel() for part in raw) <= _MOST_PLANES


def log_values(
    lower: Tensor,
    upper: Tensor,
    location: Tensor,
    scale: Tensor,
    columns: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    gates: Sequence[Tensor],
) -> Tensor:
    """Return the log value of cells (n, B) under each component, (n, B, M); 0 where missing.

    Args:
        lower, upper: equal (exact), NaN (missing) or the ends of an interval.
        location, scale: of all columns, (D,).
        columns: the column of each row of cells, (n,).
        weights: raw weights of each layer, (R, S, D, M).
        biases: biases of each layer, (R, D, M).
        gates: raw gates of each hidden layer, (R, D, M).
    """
    cells = (lower, upper, location, scale, columns)
    return _LogValues.apply(*cells, len(gates), *weights, *biases, *gates)


def is_recomputed(values: Tensor) -> bool:
    """Return whether these log values are recomputed, not read, by their backward pass."""
    return isinstance(values.grad_fn, _LogValues._backward_cls)


def pack(raw: Sequence[Tensor]) -> Tensor:
    """Stack parameters (..., D, M) as planes (P, D, M)."""
    return torch.cat([part.flatten(0, -3) for part in raw])


def unpack(planes: Tensor, raw: Sequence[torch.Size]) -> list[Tensor]:
    """Undo `pack`, for parameters of these shapes."""
    counts = [shape[:-2].numel() for shape in raw]
    return [part.view(shape) for part, shape in zip(planes.split(counts), raw, strict=True)]


class _LogValues(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        lower: Tensor,
        upper: Tensor,
        location: Tensor,
        scale: Tensor,
        columns: Tensor,
        depth: int,
        *raw: Tensor,
    ) -> Tensor:
        from marginals.runtime.kernels import leaf_values_triton

        if lower is not upper and lower.stride() != upper.stride():
            lower, upper = lower.contiguous(), upper.contiguous()
        planes = pack(raw)
        ctx.depth, ctx.plain = depth, lower is upper
        ctx.shapes = [part.shape for part in raw]
        ctx.save_for_backward(lower, upper, location, scale, planes, columns)
        return leaf_values_triton.log_values(lower, upper, location, scale, planes, columns, depth)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from marginals.runtime.kernels import leaf_values_triton

        lower, upper, location, scale, planes, columns = ctx.saved_tensors
        lower = upper if ctx.plain else lower
        cells = (lower, upper, location, scale)
        by_plane = leaf_values_triton.gradient(grads[0], *cells, planes, columns, ctx.depth)
        return *[None] * 6, *unpack(by_plane, ctx.shapes)
