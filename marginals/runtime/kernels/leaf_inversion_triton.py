r"""Inversion of the paper's leaves as a Triton kernel.

Each lane owns one cell: it loads the parameters of the cell's leaf once and then runs Newton's
method inside a bracket, as in `numerics/inversion.py`, without leaving the registers. A program
ends with the last of its lanes; the host decides nothing.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from marginals.runtime.kernels.elementary_triton import (
    load_lanes,
    log1p,
    log_sigmoid,
    store_lanes,
)
from marginals.runtime.kernels.leaf_network_triton import constrained, log_mass, walk, walk_ends
from marginals.runtime.kernels.leaf_values_triton import hidden_units

_LANES = 128  # cells per program
# Steps that shrink a bracket of all floats to two neighbours if every other one halves it.
_MOST_STEPS = 640


def invert_chosen(
    cells: Sequence[Tensor], components: Tensor, columns: Tensor, planes: Tensor, depth: int
) -> Tensor:
    """Return where the leaves of cells (n, N) reach levels u, in units of the networks.

    Args:
        cells: log u, log(1 - u) and, if any cell is bounded, lower end, upper end and length in
            units of the networks; (n, N), contiguous, float32.
        components: the leaf of each cell, (n, N).
        columns: the column of each row of cells, (n,).
        planes: the parameters of all leaves, (P, D, M), see `leaf_values.pack`.
        depth: the number of hidden layers.
    """
    count, rows = components.shape
    width = planes.shape[2]
    out = torch.empty(count, rows, dtype=planes.dtype, device=planes.device)
    if out.numel():
        ends = cells[2:] or (out, out, out)  # not read
        grid = (triton.cdiv(rows, _LANES), count)
        _invert[grid](
            *(*cells[:2], *ends, components, columns, planes, out),
            *(rows, width, planes.shape[1] * width),
            R=hidden_units(planes.shape[0], depth),
            DEPTH=depth,
            BOUNDED=len(cells) > 2,
            LANES=_LANES,
            STEPS=_MOST_STEPS,
            num_warps=4,
        )
    return out


# Kernel ---------------------------------------------------------------------------------------


@triton.jit
def _log_add_exp(x, y):
    top = tl.maximum(x, y)
    none = top == -float("inf")
    away = tl.where(none, 0.0, tl.abs(x - y))
    return tl.where(none, top, top + log1p(tl.exp(-away)))


@triton.jit
def _target(
    log_u, log_1mu, lower, upper, length,
    weight, size, bias, gate, one_plus, R: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Return the logit of F(lower) + u (F(upper) - F(lower)), see `logit_of_interval`."""
    low_open = lower == -float("inf")
    high_open = upper == float("inf")
    low, high, gap, _, _, _, _, _, _ = walk_ends(
        tl.where(low_open, 0.0, lower),
        tl.where(high_open, 0.0, upper),
        tl.where(low_open | high_open, 1.0, length),
        *(weight, size, bias, gate, one_plus, R, DEPTH),
    )
    mass = log_mass(low, high, gap, low_open, high_open)
    below = tl.where(low_open, -float("inf"), log_sigmoid(low))
    above = tl.where(high_open, -float("inf"), log_sigmoid(-high))
    return _log_add_exp(below, log_u + mass) - _log_add_exp(above, log_1mu + mass)


@triton.jit
def _layer(weights, FIRST: tl.constexpr, size, units, S: tl.constexpr, R: tl.constexpr):
    """Return R sums over S units with weights from `FIRST` on."""
    out = ()
    for r in tl.static_range(R):
        one = weights[FIRST + r * S] * units[0]
        for s in tl.static_range(1, S):
            one += weights[FIRST + r * S + s] * units[s]
        out = out + (size * one,)
    return out


@triton.jit
def _most(weights, FIRST: tl.constexpr, size, S: tl.constexpr, R: tl.constexpr):
    """Return 2 (1 + the largest of R sums of S weights)."""
    most = weights[FIRST] * 0.0
    for r in tl.static_range(R):
        one = weights[FIRST + r * S]
        for s in tl.static_range(1, S):
            one += weights[FIRST + r * S + s]
        most = tl.maximum(most, one)
    return 2.0 * (1.0 + size * most)


@triton.jit
def _bracket(target, weight, size, bias, gate, R: tl.constexpr, DEPTH: tl.constexpr):
    """Return a bracket of z(x) = target, as `bracket` in `leaves/monotone.py`."""
    zero = target * 0.0
    slope = _layer(weight, 0, size[0], (zero + 1.0,), 1, R)
    growth = _most(weight, 0, size[0], 1, R)
    offset = ()
    spread = ()
    for r in tl.static_range(R):
        offset = offset + (bias[r],)
        spread = spread + (tl.abs(gate[r]),)
    for layer in tl.static_range(1, DEPTH):
        slope = _layer(weight, R + (layer - 1) * R * R, size[layer], slope, R, R)
        growth = growth * _most(weight, R + (layer - 1) * R * R, size[layer], R, R)
        moved = _layer(weight, R + (layer - 1) * R * R, size[layer], offset, R, R)
        wider = _layer(weight, R + (layer - 1) * R * R, size[layer], spread, R, R)
        offset = ()
        spread = ()
        for r in tl.static_range(R):
            offset = offset + (moved[r] + bias[layer * R + r],)
            spread = spread + (wider[r] + tl.abs(gate[layer * R + r]),)
    last: tl.constexpr = R + (DEPTH - 1) * R * R
    slope = _layer(weight, last, size[DEPTH], slope, R, 1)
    growth = growth * _most(weight, last, size[DEPTH], R, 1)
    offset = _layer(weight, last, size[DEPTH], offset, R, 1)
    spread = _layer(weight, last, size[DEPTH], spread, R, 1)
    middle = target - (offset[0] + bias[DEPTH * R])
    margin = spread[0] * 1.001 + 1e-3 * (1.0 + tl.abs(middle))
    limit = 8.5e37 / growth  # a quarter of the largest float
    low = _clamped((middle - margin) / slope[0], limit)
    return low, _clamped((middle + margin) / slope[0], limit)


@triton.jit
def _clamped(x, limit):
    return tl.minimum(tl.maximum(x, -limit), limit)


@triton.jit
def _invert(
    log_u_at, log_1mu_at, lower_at, upper_at, length_at,
    components_at, columns_at, planes_at, out_at, rows, width, plane,
    R: tl.constexpr, DEPTH: tl.constexpr, BOUNDED: tl.constexpr,
    LANES: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1)
    row = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = row < rows
    # Lanes beyond the last row repeat it and are not stored.
    cell = column.to(tl.int64) * rows + tl.minimum(row, rows - 1)
    own = tl.load(columns_at + column)
    at = own * width + tl.load(components_at + cell)
    _logs, weight, size, log_size, bias, gate, one_plus = constrained(
        planes_at + at, plane, R, DEPTH
    )
    steepness = tl.exp(log_size)
    log_u = load_lanes(log_u_at + cell)
    log_1mu = load_lanes(log_1mu_at + cell)
    target = log_u - log_1mu
    if BOUNDED:
        lower = load_lanes(lower_at + cell)
        upper = load_lanes(upper_at + cell)
        length = load_lanes(length_at + cell)
        target = _target(
            *(log_u, log_1mu, lower, upper, length),
            *(weight, size, bias, gate, one_plus, R, DEPTH),
        )
    low, high = _bracket(target, weight, size, bias, gate, R, DEPTH)
    tolerance = 4.8e-7 * (1.0 + tl.abs(target))  # 4 eps
    x = 0.5 * low + 0.5 * high
    previous = x * 0.0 + float("inf")
    step = 0
    left = 1
    while (left > 0) & (step < STEPS):
        z, slope, _, _, _, _ = walk(x, weight, size, bias, gate, one_plus, R, DEPTH)
        residual = z - target
        low = tl.where(residual <= 0.0, x, low)
        high = tl.where(residual >= 0.0, x, high)
        middle = 0.5 * low + 0.5 * high
        # A NaN residual ends the search too: a level at infinity has no solution.
        away = tl.abs(residual)
        far = (away > tolerance) & (middle > low) & (middle < high)
        newton = x - residual / (steepness * slope)
        good = (newton > low) & (newton < high) & (away <= 0.5 * previous)
        previous = away
        x = tl.where(far, tl.where(good, newton, middle), x)
        left = tl.max(far.to(tl.int32), axis=0)
        step += 1
    store_lanes(out_at + cell, x, inside)
