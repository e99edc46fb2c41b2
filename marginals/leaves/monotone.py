"""The monotone network z(x) of the paper's leaves, as pure functions of its parameters.

Hidden units come first in every shape: the sum over a handful of units then runs over whole,
contiguous slices. The trailing dims of the parameters only need to broadcast against x, so the same
code serves all leaves at once, (n, B, M), and one chosen leaf per cell, (n, N).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from marginals.numerics import invert_monotone, log_softplus, select, x_minus_tanh

# Inputs of a layer for which one operation on all units is faster than one for each unit.
_FEW_NUMBERS = 1 << 13


@dataclass(frozen=True)
class Layer:
    """An affine map with nonnegative weights: `weight` (R, S, ...), from S to R units.

    `relative` is `weight` over its largest entry, whose logarithm is `log_scale`: the slope of a
    nearly flat network is a product of tiny numbers that would underflow.
    """

    weight: Tensor
    relative: Tensor
    log_scale: Tensor
    bias: Tensor


@dataclass(frozen=True)
class Network:
    """Layers and, after each but the last, the gates `a` and `1 + a` of h + a tanh(h)."""

    layers: tuple[Layer, ...]
    gates: tuple[tuple[Tensor, Tensor], ...]

    def to(self, dtype: torch.dtype) -> "Network":
        """Return the same network in another dtype."""
        layers = tuple(
            Layer(*(getattr(layer, field.name).to(dtype) for field in fields(Layer)))
            for layer in self.layers
        )
        return Network(layers, tuple((gate.to(dtype), one.to(dtype)) for gate, one in self.gates))

    def select(self, columns: Sequence[int], dim: int) -> "Network":
        """Return the networks of some columns, which lie along a dim."""
        layers = tuple(
            Layer(*(select(getattr(layer, field.name), columns, dim) for field in fields(Layer)))
            for layer in self.layers
        )
        gates = tuple((select(a, columns, dim), select(b, columns, dim)) for a, b in self.gates)
        return Network(layers, gates)


def make_layer(raw: Tensor, bias: Tensor, beta: float = 10.0) -> Layer:
    """Constrain raw weights (R, S, ...) to be positive by a softplus, the paper's with beta 10."""
    log_weight = log_softplus(raw, beta)
    log_scale = log_weight.detach().amax((0, 1))
    return Layer(log_weight.exp(), (log_weight - log_scale).exp(), log_scale, bias)


def make_gate(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Constrain raw gates to (-1, 1), and give 1 + a without cancellation near -1."""
    return torch.tanh(raw), 2 * torch.sigmoid(2 * raw)


def value_and_slope(network: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return z(x) and log z'(x)."""
    value, slope = x[None], None
    for layer, (gate, one_plus_gate) in zip(network.layers, network.gates, strict=False):
        h = _affine(layer, value)
        t = torch.tanh(h)
        value = h + gate * t
        # 1 + a (1 - t^2), written so that both terms are nonnegative when a is near -1.
        bend = one_plus_gate - gate * t * t
        slope = bend * (layer.relative[:, 0] if slope is None else _mix(layer.relative, slope))
    last = network.layers[-1]
    assert slope is not None
    log_slope = _mix(last.relative, slope)[0].log()
    return _affine(last, value)[0], log_slope + sum(layer.log_scale for layer in network.layers)


def value(network: Network, x: Tensor) -> Tensor:
    """Return z(x)."""
    out = x[None]
    for layer, (gate, _) in zip(network.layers, network.gates, strict=False):
        h = _affine(layer, out)
        out = h + gate * torch.tanh(h)
    return _affine(network.layers[-1], out)[0]


def values_and_gap(
    network: Network, lower: Tensor, upper: Tensor, width: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return z(lower), z(upper) and their difference, which is carried along, not subtracted.

    A narrow interval keeps its relative precision this way, however far out it lies:
    tanh b - tanh a = tanh(b - a) (1 - tanh a tanh b).
    """
    low, high, gap = lower[None], upper[None], width[None]
    for layer, (gate, one_plus_gate) in zip(network.layers, network.gates, strict=False):
        low, high, gap = _affine(layer, low), _affine(layer, high), _mix(layer.weight, gap)
        t_low, t_high = torch.tanh(low), torch.tanh(high)
        t_gap = torch.tanh(gap) * (1 - t_low * t_high)
        low, high = low + gate * t_low, high + gate * t_high
        # gap + a t_gap, in terms that keep their digits when a is near -1.
        bend = x_minus_tanh(gap) + torch.tanh(gap) * t_low * t_high
        gap = bend + one_plus_gate * t_gap
    last = network.layers[-1]
    gap = _mix(last.weight, gap)[0].clamp_min(0)
    return _affine(last, low)[0], _affine(last, high)[0], gap


@dataclass(frozen=True)
class Line:
    """The line that a network is without its tanh terms, which move it by at most a constant.

    |z(x) - (slope x + offset)| <= spread. Beyond `reach` times the largest float, layers overflow.
    """

    slope: Tensor
    offset: Tensor
    spread: Tensor
    reach: Tensor

    def bracket(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return numbers between which the solution of z(x) = target lies."""
        middle = target - self.offset
        # A little wider than proven, for the rounding of the bounds themselves.
        margin = self.spread * 1.001 + 1e-3 * (1 + middle.abs())
        # A slope that underflows leaves all floats as the bracket, as far as no layer overflows.
        limit = torch.finfo(target.dtype).max * self.reach
        low, high = (middle - margin) / self.slope, (middle + margin) / self.slope
        return low.clamp(-limit, limit), high.clamp(-limit, limit)


def line_of(network: Network) -> Line:
    """Return the line of a network."""
    slope = torch.ones_like(network.layers[0].bias[:1])
    offset, spread = torch.zeros_like(slope), torch.zeros_like(slope)
    growth = torch.ones_like(slope[0])
    for i, layer in enumerate(network.layers):
        slope = _mix(layer.weight, slope)
        growth = growth * 2 * (1 + layer.weight.sum(1).amax(0))
        offset = _affine(layer, offset)
        spread = _mix(layer.weight, spread)
        if i < len(network.gates):
            spread = spread + network.gates[i][0].abs()
    return Line(slope[0], offset[0], spread[0], 0.25 / growth)


def bracket(network: Network, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers between which the solution of z(x) = target lies."""
    return line_of(network).bracket(target)


def solve(network: Network, target: Tensor, line: Line | None = None) -> Tensor:
    """Return where the network reaches `target`, in the dtype of `target`.

    A wider dtype than the network's costs little: the solution in the narrow one is refined. The
    line of the network is computed if it is not given.
    """
    own = network.layers[0].weight.dtype

    def z_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_slope = value_and_slope(network, x)
        return z, log_slope.exp()

    narrow = target.to(own)
    ends = (line or line_of(network)).bracket(narrow)
    x = invert_monotone(z_and_slope, narrow, *ends)
    if target.dtype == own:
        return x
    return refined(network.to(target.dtype), target, x.to(target.dtype))


def refined(network: Network, target: Tensor, x: Tensor) -> Tensor:
    """Improve a solution by a step of Newton's method, where it brings the network closer.

    Solutions in float32 lie on a grid that is visible in narrow intervals. A step in float64
    squares their error.
    """
    z, log_slope = value_and_slope(network, x)
    newton = x - (z - target) / log_slope.exp()
    closer = (value(network, newton) - target).abs() < (z - target).abs()
    return torch.where(closer, newton, x)


def finite(x: Tensor) -> Tensor:
    """Replace NaN and infinities by 0: their cells are set elsewhere, with a clean gradient."""
    if not torch.is_grad_enabled():
        return x.nan_to_num(0.0, 0.0, 0.0)
    return torch.where(x.isfinite(), x, 0.0)


def inverse_softplus(y: float, beta: float = 1.0) -> float:
    """Return the x whose softplus is `y` > 0.

    >>> round(inverse_softplus(1.0), 4)
    0.5413
    """
    return y + math.log(-math.expm1(-beta * y)) / beta


def _affine(layer: Layer, x: Tensor) -> Tensor:
    return _mix(layer.weight, x, layer.bias)


def _mix(weight: Tensor, x: Tensor, total: Tensor | None = None) -> Tensor:
    """Sum over the S incoming units one by one: (R, S, ...) and (S, ...) to (R, ...)."""
    if weight.shape[1] > 1 and not torch.is_grad_enabled() and x.numel() <= _FEW_NUMBERS:
        # Units last, so that the order of the sum is the same for any number of cells.
        mixed = (weight * x).movedim(1, -1).contiguous().sum(-1)
        return mixed if total is None else mixed + total
    # Unbind at once: the gradient of single indices would fill whole arrays.
    for w, unit in zip(weight.unbind(1), x.unbind(0), strict=True):
        total = w * unit if total is None else torch.addcmul(total, w, unit)
    assert total is not None
    return total
