"""Log values of the paper's leaves, with their own backward pass.

On a CUDA device the Triton kernels (`leaf_values_triton`) take cells of every kind. On a CPU, in
training, the hand-written pass (`leaf_values_cpu`) takes exact cells, compiled or in blocks.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from marginals.numerics import select
from marginals.runtime.kernels import leaf_values_cpu
from marginals.runtime.kernels.compiled import call, compiles

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


def cpu_log_values(
    x: Tensor,
    location: Tensor,
    scale: Tensor,
    columns: Sequence[int],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    gates: Sequence[Tensor],
    *,
    host_free: bool = False,
    compiled: bool = False,
) -> Tensor:
    """Return the log values of exact or missing cells (n, B) by the hand-written pass, (n, B, M).

    Args:
        x: the cells, NaN where missing.
        location, scale, columns, weights, biases, gates: as in `log_values`.
        host_free: never branch on numbers of the device.
        compiled: run through `torch.compile`.
    """
    own = [select(part, columns, -2) for part in (*weights, *biases, *gates)]
    location, scale = (select(part, columns)[:, None] for part in (location, scale))
    return _CpuLogValues.apply(x, location, scale, len(gates), host_free, compiled, *own)


def _three(raw: Sequence[Tensor], depth: int) -> tuple[Sequence[Tensor], ...]:
    """Split parameters into weights, biases and gates."""
    return raw[: depth + 1], raw[depth + 1 : 2 * depth + 2], raw[2 * depth + 2 :]


# Compiled separately: in one piece, the compiler would constrain the parameters for every row.


def _constrain(*raw: Tensor) -> tuple[Any, ...]:
    return leaf_values_cpu.constrain(*_three(raw, (len(raw) - 2) // 3)).parts()


def _log_density(x: Tensor, *parts: Any) -> Tensor:
    return leaf_values_cpu.log_density(leaf_values_cpu.Constrained(*parts), x)


def _gradient(x: Tensor, grad: Tensor, *parts: Any) -> Tensor:
    return leaf_values_cpu.gradient(leaf_values_cpu.Constrained(*parts), x, grad)


def _to_raw(planes: Tensor, weights: Sequence[Tensor], *parts: Any) -> Tensor:
    return leaf_values_cpu.to_raw(planes, leaf_values_cpu.Constrained(*parts), weights)


def _log_density_in_blocks(x: Tensor, *parts: Any) -> Tensor:
    own = leaf_values_cpu.Constrained(*parts)
    width = own.log_size.shape[-1]
    out = torch.empty(*x.shape, width, dtype=x.dtype, device=x.device)
    for some, rows in leaf_values_cpu.in_blocks(*out.shape):
        out[some, rows] = leaf_values_cpu.log_density(own.columns(some), x[some, rows])
    return out


def _gradient_in_blocks(x: Tensor, grad: Tensor, *parts: Any) -> Tensor:
    own = leaf_values_cpu.Constrained(*parts)
    count = sum(len(part) for part in (*own.biases, *own.gates))
    count += sum(weight.shape[:2].numel() for weight in own.weights)
    planes = x.new_zeros(count, len(x), grad.shape[-1])
    for some, rows in leaf_values_cpu.in_blocks(*grad.shape):
        planes[:, some] += leaf_values_cpu.gradient(
            own.columns(some), x[some, rows], grad[some, rows]
        )
    return planes


class _CpuLogValues(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        location: Tensor,
        scale: Tensor,
        depth: int,
        host_free: bool,
        compiled: bool,
        *raw: Tensor,
    ) -> Tensor:
        inside = (x - location) / scale
        inside = torch.where(inside.isfinite(), inside, 0.0).to(raw[0].dtype).contiguous()
        ctx.compiled = compiled and compiles(_log_density)
        parts = call(_constrain, *raw, compiled=ctx.compiled)
        if ctx.compiled:
            value = call(_log_density, inside, *parts, compiled=True)
        else:
            value = _log_density_in_blocks(inside, *parts)
        value -= scale.log().to(value.dtype)[..., None]
        special = ~x.isfinite()
        masked = host_free or bool(special.any())
        ctx.special = special[..., None] if masked else None
        if masked:
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
        compiled = ctx.compiled and compiles(_gradient)
        if compiled:
            planes = call(_gradient, inside, grad, *ctx.parts, compiled=True)
        else:
            planes = _gradient_in_blocks(inside, grad, *ctx.parts)
        planes = call(_to_raw, planes, weights, *ctx.parts, compiled=compiled)
        return *[None] * 6, *unpack(planes, [part.shape for part in raw])
