"""The log values of the paper's leaves, with a backward pass of their own.

On a CUDA device by fused kernels (`leaves_triton.py`), for all kinds of cells; else, in training
and for exact cells, by plain functions (`leaves_plain.py`), compiled or in blocks.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from marginals.numerics import is_host_free, select
from marginals.runtime.kernels import compiled
from marginals.runtime.kernels import leaf_values_cpu as leaves_plain

# Beyond this, the unrolled networks of a program no longer fit into the registers of a GPU.
_MOST_PLANES = 160


def fits(raw: Sequence[Tensor]) -> bool:
    """Say whether the fused kernel can take networks of this size."""
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
        lower, upper: equal, NaN or an interval, see `Cells`.
        location, scale: of all columns, (D,).
        columns: those of the cells, (n,).
        weights: the raw weights of each layer, (R, S, D, M).
        biases: of each layer, (R, D, M).
        gates: the raw gates of each hidden layer, (R, D, M).
    """
    cells = (lower, upper, location, scale, columns)
    return _LogValues.apply(*cells, len(gates), *weights, *biases, *gates)


def is_recomputed(values: Tensor) -> bool:
    """Say whether these are log values whose backward pass does not look at them."""
    return isinstance(values.grad_fn, _LogValues._backward_cls)


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
        from marginals.runtime.kernels import leaf_values_triton as leaves_triton

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
        from marginals.runtime.kernels import leaf_values_triton as leaves_triton

        lower, upper, location, scale, planes, columns = ctx.saved_tensors
        lower = upper if ctx.plain else lower
        cells = (lower, upper, location, scale)
        by_plane = leaves_triton.gradient(grads[0], *cells, planes, columns, ctx.depth)
        return None, None, None, None, None, None, *unpack(by_plane, ctx.shapes)


def plain_log_values(
    x: Tensor,
    location: Tensor,
    scale: Tensor,
    columns: Sequence[int],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    gates: Sequence[Tensor],
) -> Tensor:
    """Return the log values of exact cells (n, B), NaN where missing, on any device; see above."""
    own = [select(part, columns, -2) for part in (*weights, *biases, *gates)]
    location, scale = (select(part, columns)[:, None] for part in (location, scale))
    return _PlainLogValues.apply(x, location, scale, len(gates), *own)


def _three(raw: Sequence[Tensor], depth: int) -> tuple[Sequence[Tensor], ...]:
    """Part parameters into weights, biases and gates."""
    return raw[: depth + 1], raw[depth + 1 : 2 * depth + 2], raw[2 * depth + 2 :]


# Compiled apart: in one piece, the compiler would constrain parameters anew for every row.


def _constrain(*raw: Tensor) -> tuple[Any, ...]:
    return leaves_plain.constrain(*_three(raw, (len(raw) - 2) // 3)).parts()


def _log_density(x: Tensor, *parts: Any) -> Tensor:
    return leaves_plain.log_density(leaves_plain.Constrained(*parts), x)


def _gradient(x: Tensor, grad: Tensor, *parts: Any) -> Tensor:
    return leaves_plain.gradient(leaves_plain.Constrained(*parts), x, grad)


def _to_raw(planes: Tensor, weights: Sequence[Tensor], *parts: Any) -> Tensor:
    return leaves_plain.to_raw(planes, leaves_plain.Constrained(*parts), weights)


def _log_density_in_blocks(x: Tensor, *parts: Any) -> Tensor:
    own = leaves_plain.Constrained(*parts)
    width = own.log_size.shape[-1]
    out = torch.empty(*x.shape, width, dtype=x.dtype, device=x.device)
    for some, rows in leaves_plain.in_blocks(*out.shape):
        out[some, rows] = leaves_plain.log_density(own.columns(some), x[some, rows])
    return out


def _gradient_in_blocks(x: Tensor, grad: Tensor, *parts: Any) -> Tensor:
    own = leaves_plain.Constrained(*parts)
    count = sum(len(part) for part in (*own.biases, *own.gates))
    count += sum(weight.shape[:2].numel() for weight in own.weights)
    planes = x.new_zeros(count, len(x), grad.shape[-1])
    for some, rows in leaves_plain.in_blocks(*grad.shape):
        planes[:, some] += leaves_plain.gradient(own.columns(some), x[some, rows], grad[some, rows])
    return planes


class _PlainLogValues(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, location: Tensor, scale: Tensor, depth: int, *raw: Tensor
    ) -> Tensor:
        inside = (x - location) / scale
        inside = torch.where(inside.isfinite(), inside, 0.0).to(raw[0].dtype).contiguous()
        ctx.compiled = compiled.can_call(_log_density)
        if ctx.compiled:
            parts = compiled.call(_constrain, *raw)
            value = compiled.call(_log_density, inside, *parts)
        else:
            parts = _constrain(*raw)
            value = _log_density_in_blocks(inside, *parts)
        value -= scale.log().to(value.dtype)[..., None]
        special = ~x.isfinite()
        # The host does not look in a recorded step.
        some = is_host_free() or bool(special.any())
        ctx.special = special[..., None] if some else None
        if ctx.special is not None:
            value.masked_fill_(x.isnan()[..., None], 0.0)
            value.masked_fill_(x.isinf()[..., None], -torch.inf)
        ctx.save_for_backward(inside, *raw)
        ctx.parts, ctx.depth = parts, depth
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inside, *raw = ctx.saved_tensors
        grad = grads[0]
        if ctx.special is not None:
            grad = grad.masked_fill(ctx.special, 0.0)
        weights = raw[: ctx.depth + 1]
        if ctx.compiled and compiled.is_sound(_gradient):
            planes = compiled.call(_gradient, inside, grad, *ctx.parts)
            planes = compiled.call(_to_raw, planes, weights, *ctx.parts)
        else:
            planes = _gradient_in_blocks(inside, grad, *ctx.parts)
            planes = _to_raw(planes, weights, *ctx.parts)
        return None, None, None, None, *unpack(planes, [part.shape for part in raw])
