r"""The paper's leaves at exact cells for training on a CPU, with a hand-written backward pass.

The functions run eagerly in blocks that stay in the processor's cache, or compiled into one loop.
The backward pass recomputes the networks instead of storing them. The reference is the autograd
form in `leaves/neural.py`.

Shapes: parameters (n, 1, M) for each weight, bias and gate; cells (n, B).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from marginals.numerics import log_softplus, select
from marginals.runtime.kernels.compiled import call, compiles
from marginals.runtime.kernels.leaf_values import unpack

_BETA = 10.0  # of the weights' softplus, as in the paper

# Numbers per block: with temporaries they fill one or two megabytes.
_BLOCK = 1 << 18

Layers = tuple[tuple[Tensor, ...], ...]


def log_values(
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
    """Return the log values of exact cells (n, B), NaN where missing, (n, B, M).

    Args:
        x: the cells.
        location, scale: of all columns, (D,).
        columns: the column of each row of cells.
        weights, biases, gates: raw parameters of each layer, (..., D, M).
        host_free: never branch on numbers of the device.
        compiled: run through `torch.compile`.
    """
    own = [select(part, columns, -2) for part in (*weights, *biases, *gates)]
    location, scale = (select(part, columns)[:, None] for part in (location, scale))
    return _LogValues.apply(x, location, scale, len(gates), host_free, compiled, *own)


class _LogValues(torch.autograd.Function):
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
        # Compiled separately: in one piece, the compiler would constrain parameters for every row.
        layers = (raw[: depth + 1], raw[depth + 1 : 2 * depth + 2], raw[2 * depth + 2 :])
        own = call(_constrain, *layers, compiled=ctx.compiled)
        if ctx.compiled:
            value = call(_log_density, own, inside, compiled=True)
        else:
            value = inside.new_empty(*inside.shape, raw[0].shape[-1])
            for some, rows in _in_blocks(*value.shape):
                value[some, rows] = _log_density(own.columns(some), inside[some, rows])
        value -= scale.log().to(value.dtype)[..., None]
        special = ~x.isfinite()
        masked = host_free or bool(special.any())
        ctx.special = special[..., None] if masked else None
        if masked:
            value.masked_fill_(x.isnan()[..., None], 0.0)
            value.masked_fill_(x.isinf()[..., None], -torch.inf)
        ctx.save_for_backward(inside, *raw)
        ctx.own, ctx.depth = own, depth
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inside, *raw = ctx.saved_tensors
        grad = grads[0]
        if ctx.special is not None:
            grad = grad.masked_fill(ctx.special, 0.0)
        compiled = ctx.compiled and compiles(_gradient)
        shapes = [part.shape for part in raw]
        if compiled:
            planes = call(_gradient, ctx.own, inside, grad, compiled=True)
        else:
            count = sum(shape[:-2].numel() for shape in shapes)
            planes = inside.new_zeros(count, len(inside), grad.shape[-1])
            for some, rows in _in_blocks(*grad.shape):
                part = ctx.own.columns(some), inside[some, rows], grad[some, rows]
                planes[:, some] += _gradient(*part)
        planes = call(_to_raw, planes, ctx.own, raw[: ctx.depth + 1], compiled=compiled)
        return *[None] * 6, *unpack(planes, shapes)


class _Constrained(NamedTuple):
    """The constrained parameters of all leaves.

    Args:
        weights: weights of each layer, (R, S, ...), relative to the layer's largest.
        sizes: the largest weight of each layer.
        log_size: the log of the product of all sizes.
        biases: biases of each layer, (R, ...).
        gates: gates a of each hidden layer, (R, ...).
        one_plus: 1 + a, without cancellation near -1.
    """

    weights: tuple[Tensor, ...]
    sizes: tuple[Tensor, ...]
    log_size: Tensor
    biases: tuple[Tensor, ...]
    gates: tuple[Tensor, ...]
    one_plus: tuple[Tensor, ...]

    def columns(self, some: slice) -> "_Constrained":
        """Return the parameters of some columns."""
        return _Constrained(
            tuple(w[:, :, some] for w in self.weights),
            tuple(size[some] for size in self.sizes),
            self.log_size[some],
            tuple(part[:, some] for part in self.biases),
            tuple(part[:, some] for part in self.gates),
            tuple(part[:, some] for part in self.one_plus),
        )


class _Walk(NamedTuple):
    """The results of one pass through the networks, by layer and unit."""

    z: Tensor
    slope: Tensor
    values: Layers
    tanhs: Layers
    before: Layers
    slopes: Layers


def _constrain(
    weights: Sequence[Tensor], biases: Sequence[Tensor], gates: Sequence[Tensor]
) -> _Constrained:
    """Constrain raw parameters (..., n, M) and give them a dim for rows."""
    logs = [log_softplus(raw, _BETA)[..., None, :] for raw in weights]
    tops = [log.amax((0, 1)) for log in logs]
    raw_gates = [raw[..., None, :] for raw in gates]
    return _Constrained(
        tuple((log - top).exp() for log, top in zip(logs, tops, strict=True)),
        tuple(top.exp() for top in tops),
        torch.stack(tops).sum(0),
        tuple(bias[..., None, :] for bias in biases),
        tuple(torch.tanh(raw) for raw in raw_gates),
        tuple(2 * torch.sigmoid(2 * raw) for raw in raw_gates),
    )


def _walk(own: _Constrained, x: Tensor) -> _Walk:
    """Go through the networks at `x` (n, B)."""
    values: list[tuple[Tensor, ...]] = [(x[..., None],)]
    slopes: list[tuple[Tensor, ...]] = []
    tanhs, before = [], []
    for layer, (gate, one_plus) in enumerate(zip(own.gates, own.one_plus, strict=True)):
        h = _affine(own, layer, values[-1])
        t = tuple(_tanh(one) for one in h)
        if slopes:
            into = tuple(_mixed(own.weights[layer][r], slopes[-1]) for r in range(len(h)))
        else:
            into = tuple(own.weights[0][:, 0])
        values.append(tuple(torch.addcmul(one, gate[r], t[r]) for r, one in enumerate(h)))
        # 1 + a (1 - t^2), with both terms nonnegative when a is near -1.
        bends = (torch.addcmul(one_plus[r], gate[r] * t[r], t[r], value=-1) for r in range(len(h)))
        slopes.append(tuple(bend * into[r] for r, bend in enumerate(bends)))
        tanhs.append(t)
        before.append(into)
    (z,) = _affine(own, len(own.gates), values[-1])
    slope = _mixed(own.weights[-1][0], slopes[-1])
    return _Walk(z, slope, tuple(values), tuple(tanhs), tuple(before), tuple(slopes))


def _log_density(own: _Constrained, x: Tensor) -> Tensor:
    """Return the log density of leaves at `x` (n, B), on the scale of the networks, (n, B, M)."""
    found = _walk(own, x)
    away = found.z.abs()
    return own.log_size + found.slope.log() - away - 2 * torch.log1p(torch.exp(-away))


def _gradient(own: _Constrained, x: Tensor, grad: Tensor) -> Tensor:
    """Return the gradients of log weights, biases and gates, summed over rows, (P, n, M).

    Gradients of log weights still lack the relative weight as a factor; see `_to_raw`.
    """
    found = _walk(own, x)
    by_z = -grad * _tanh(0.5 * found.z)
    by_slope = grad / found.slope
    by_h: tuple[Tensor, ...] = (by_z,)
    by_before: tuple[Tensor, ...] = (by_slope,)
    by_weight: list[Tensor] = []
    by_bias: list[Tensor] = []
    by_gate: list[Tensor] = []
    for layer in range(len(own.gates), -1, -1):
        size, weight, into = own.sizes[layer], own.weights[layer], found.values[layer]
        slopes = found.slopes[layer - 1] if layer else None
        rows: list[Tensor] = []
        for r, (one, other) in enumerate(zip(by_h, by_before, strict=True)):
            scaled = size * one
            for s, unit in enumerate(into):
                share = other if slopes is None else other * slopes[s]
                rows.append(torch.addcmul(share, scaled, unit).sum(-2))
            by_bias.insert(r, one.sum(-2))
        by_weight = rows + by_weight
        if layer == 0:
            break
        by_value = [size * _mixed(weight[:, s], by_h) for s in range(len(into))]
        by_after = [_mixed(weight[:, s], by_before) for s in range(len(into))]
        gate, one_plus = own.gates[layer - 1], own.one_plus[layer - 1]
        new_h, new_before = [], []
        for r, (one, other) in enumerate(zip(by_value, by_after, strict=True)):
            t = found.tanhs[layer - 1][r]
            square = t * t
            rest = 1 - square
            bend = other * found.before[layer - 1][r]
            by_gate.insert(r, torch.addcmul(one * t, bend, rest).sum(-2))
            inner = torch.addcmul(one, t, bend, value=-2) * rest
            new_h.append(torch.addcmul(one, gate[r], inner))
            new_before.append(other * torch.addcmul(one_plus[r], gate[r], square, value=-1))
        by_h, by_before = tuple(new_h), tuple(new_before)
    return torch.stack([*by_weight, *by_bias, *by_gate])


def _in_blocks(columns: int, rows: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of (n, B, M) that fit the cache: whole columns, or rows of one column.

    >>> list(_in_blocks(2, 5, width=_BLOCK // 4))
    [(slice(0, 1, None), slice(0, 4, None)), (slice(0, 1, None), slice(4, 8, None)), \
(slice(1, 2, None), slice(0, 4, None)), (slice(1, 2, None), slice(4, 8, None))]
    """
    high = max(1, min(rows, _BLOCK // width))
    wide = max(1, _BLOCK // max(1, rows * width)) if high == rows else 1
    for c in range(0, columns, wide):
        for r in range(0, rows, high):
            yield slice(c, c + wide), slice(r, r + high)


def _to_raw(planes: Tensor, own: _Constrained, weights: Sequence[Tensor]) -> Tensor:
    """Turn the gradients of `_gradient` into those of the raw parameters."""
    factors = [
        (weight.squeeze(-2) * _slope_of_weights(raw)).flatten(0, 1)
        for weight, raw in zip(own.weights, weights, strict=True)
    ]
    gate, one_plus = (torch.cat(parts).squeeze(-2) for parts in (own.gates, own.one_plus))
    units = sum(len(bias) for bias in own.biases)
    factors += [torch.ones_like(gate[:1]).expand(units, -1, -1), (1 - gate) * one_plus]
    return planes * torch.cat(factors)


def _slope_of_weights(raw: Tensor) -> Tensor:
    """Return the derivative of the log of the softplus: beta sigmoid(s) / softplus(s)."""
    return torch.exp(F.logsigmoid(_BETA * raw) - log_softplus(raw, _BETA))


def _affine(own: _Constrained, layer: int, units: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    size, weight, bias = own.sizes[layer], own.weights[layer], own.biases[layer]
    if len(units) == 1:
        return tuple(
            torch.addcmul(bias[r], size * row[0], units[0]) for r, row in enumerate(weight)
        )
    return tuple(torch.addcmul(bias[r], size, _mixed(row, units)) for r, row in enumerate(weight))


def _mixed(weights: Tensor, units: Sequence[Tensor]) -> Tensor:
    total = weights[0] * units[0]
    for weight, unit in zip(weights[1:], units[1:], strict=True):
        total = torch.addcmul(total, weight, unit)
    return total


def _tanh(x: Tensor) -> Tensor:
    """Return tanh to absolute precision; in float32 by an exponential, which is faster."""
    if x.dtype != torch.float32:
        return torch.tanh(x)
    return 1 - 2 / (1 + torch.exp(2 * x))
