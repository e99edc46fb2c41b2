"""The log values of the paper's leaves, by a fused kernel with a backward pass of its own."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Beyond this, the unrolled networks of a program no longer fit into the registers of a GPU.
_MOST_PLANES = 160


def fits(raw: Sequence[Tensor], cells: Sequence[Tensor]) -> bool:
    """Say whether the fused kernel can take these parameters and cells."""
    planes = sum(part.shape[:-2].numel() for part in raw)
    return planes <= _MOST_PLANES and not any(bound.requires_grad for bound in cells)


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
        lower, upper: equal, NaN or an interval, see `Cells`.
        location, scale: of all columns, (D,).
        columns: those of the cells, (n,).
        weights: the raw weights of each layer, (R, S, D, M).
        biases: of each layer, (R, D, M).
        gates: the raw gates of each hidden layer, (R, D, M).
    """
    cells = (lower, upper, location, scale, columns)
    return _LogValues.apply(*cells, len(gates), *weights, *biases, *gates)


def pack(raw: Sequence[Tensor]) -> Tensor:
    """Lay parameters (..., D, M) out as planes (P, D, M)."""
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
        from marginals.kernels import leaves_triton

        if lower is not upper and lower.stride() != upper.stride():
            lower, upper = lower.contiguous(), upper.contiguous()
        planes = pack(raw)
        ctx.depth, ctx.plain = depth, lower is upper
        ctx.shapes = [part.shape for part in raw]
        ctx.save_for_backward(lower, upper, location, scale, planes, columns)
        return leaves_triton.log_values(lower, upper, location, scale, planes, columns, depth)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from marginals.kernels import leaves_triton

        lower, upper, location, scale, planes, columns = ctx.saved_tensors
        lower = upper if ctx.plain else lower
        cells = (lower, upper, location, scale)
        by_plane = leaves_triton.gradient(grads[0], *cells, planes, columns, ctx.depth)
        return None, None, None, None, None, None, *unpack(by_plane, ctx.shapes)
