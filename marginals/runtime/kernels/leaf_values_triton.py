r"""The paper's leaves as two Triton kernels: log values, and gradients of the parameters.

A program owns some components of one column, one per lane. It constrains their parameters once and
then loops over its rows: hidden units stay in registers, and gradients accumulate there without a
reduction. All lanes see the same cell, so a program branches on its kind and pays only for that.
The backward kernel recomputes the networks instead of storing them.

Parameters come as planes (P, n, M): the weights of all layers, then all biases, then the gates (see
`leaf_values.pack`). The networks themselves are in `leaf_network_triton`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from marginals.runtime.kernels.elementary_triton import (
    fast_log,
    load_lanes,
    log_logistic,
    log_sigmoid,
    store_lanes,
)
from marginals.runtime.kernels.leaf_network_triton import (
    BETA,
    added,
    constrained,
    load_planes,
    log_mass,
    store_planes,
    walk,
    walk_back,
    walk_ends,
    walk_ends_back,
)

_LANES = 128  # components per program
_PROGRAMS = 1536  # programs that keep a large GPU busy
_LEAST_ROWS = 16  # rows per program, which share the cost of constraining the parameters


def log_values(
    lower: Tensor,
    upper: Tensor,
    location: Tensor,
    scale: Tensor,
    planes: Tensor,
    columns: Tensor,
    depth: int,
) -> Tensor:
    """Return the log value of cells (n, B) under each component, (n, B, M); 0 where missing.

    Args:
        lower, upper: cells (n, B): equal (exact), NaN (missing) or the ends of an interval.
        location, scale: of all columns, (D,).
        planes: parameters of all columns, (P, D, M), float32.
        columns: the column of each row of cells, (n,).
        depth: the number of hidden layers.
    """
    count, rows = upper.shape
    width = planes.shape[2]
    out = torch.empty(count, rows, width, dtype=planes.dtype, device=planes.device)
    if out.numel():
        grid, per = _grid(count, rows, width)
        sizes = (rows, width, per, planes.shape[1] * width, upper.stride(0), upper.stride(1))
        _forward[grid](
            *(lower, upper, location, scale, planes, columns, out, *sizes),
            **_constants(planes, depth, lower is not upper),
        )
    return out


def gradient(
    grad: Tensor,
    lower: Tensor,
    upper: Tensor,
    location: Tensor,
    scale: Tensor,
    planes: Tensor,
    columns: Tensor,
    depth: int,
) -> Tensor:
    """Return the gradient with respect to the planes, (P, D, M), from that of the values."""
    count, rows = upper.shape
    width = planes.shape[2]
    if not grad.numel():
        return torch.zeros_like(planes)
    grid, per = _grid(count, rows, width)
    # Other columns have no gradient.
    make = torch.empty if count == planes.shape[1] else torch.zeros
    parts = make(grid[2], *planes.shape, dtype=planes.dtype, device=planes.device)
    sizes = (rows, width, per, planes.shape[1] * width, upper.stride(0), upper.stride(1))
    _backward[grid](
        *(grad.contiguous(), lower, upper, location, scale, planes, columns, parts, *sizes),
        **_constants(planes, depth, lower is not upper),
    )
    return parts[0] if len(parts) == 1 else parts.sum(0)


def _grid(columns: int, rows: int, width: int) -> tuple[tuple[int, int, int], int]:
    """Return the grid over components, columns and rows, and the rows of each program."""
    blocks = triton.cdiv(width, _LANES)
    most = max(1, _PROGRAMS // (blocks * columns))
    per = max(_LEAST_ROWS, triton.cdiv(rows, most))
    return (blocks, columns, max(1, triton.cdiv(rows, per))), per


def _constants(planes: Tensor, depth: int, intervals: bool) -> dict[str, object]:
    return {
        "R": hidden_units(planes.shape[0], depth),
        "DEPTH": depth,
        "INTERVALS": intervals,
        "LANES": _LANES,
        "num_warps": 4,
        "enable_fp_fusion": True,
    }


def hidden_units(planes: int, depth: int) -> int:
    """Return the units R of each hidden layer, from the number of planes.

    >>> hidden_units(13, depth=1), hidden_units(91, depth=3)
    (3, 5)
    """
    # (depth - 1) R^2 + 2 R weights, depth R + 1 biases, depth R gates.
    return next(
        r for r in range(1, planes) if (depth - 1) * r * r + 2 * (1 + depth) * r + 1 == planes
    )


# Kernels --------------------------------------------------------------------------------------


@triton.jit
def _inside(bound, location, scale):
    """Return a bound in units of its column, 0 if infinite, and whether it is infinite."""
    far = tl.abs(bound) == float("inf")
    return tl.where(far, 0.0, (bound - location) / scale).to(tl.float32), far


@triton.jit
def _forward(
    lower_at, upper_at, location_at, scale_at, planes_at, columns_at, out_at,
    rows, width, per, plane, stride_column, stride_row,
    R: tl.constexpr, DEPTH: tl.constexpr, INTERVALS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1)
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = lane < width
    own = tl.load(columns_at + column)
    # Lanes beyond the last component repeat it and are not stored.
    last = tl.minimum(lane, width - 1)
    at = own * width + last
    _logs, weight, size, log_size, bias, gate, one_plus = constrained(
        planes_at + at, plane, R, DEPTH
    )
    location = tl.load(location_at + own)
    scale = tl.load(scale_at + own)
    # The slope of the network on the column's own scale.
    log_size -= tl.log(scale.to(tl.float32))
    start = tl.program_id(2) * per
    for row in range(start, tl.minimum(start + per, rows)):
        cell = column * stride_column + row * stride_row
        upper = tl.load(upper_at + cell)
        lower = upper
        if INTERVALS:
            lower = tl.load(lower_at + cell)
        to = out_at + (column.to(tl.int64) * rows + row) * width + lane
        if upper != upper:
            store_lanes(to, tl.zeros([LANES], tl.float32), inside)
        elif lower == upper:
            x, far = _inside(upper, location, scale)
            z, slope, _, _, _, _ = walk(x, weight, size, bias, gate, one_plus, R, DEPTH)
            value = log_size + fast_log(slope) + log_logistic(z)
            store_lanes(to, tl.where(far, -float("inf"), value), inside)
        else:
            first, low_open = _inside(lower, location, scale)
            final, high_open = _inside(upper, location, scale)
            length = tl.where(low_open | high_open, 1.0, (upper - lower) / scale).to(tl.float32)
            low, high, gap, _, _, _, _, _, _ = walk_ends(
                first, final, length, weight, size, bias, gate, one_plus, R, DEPTH
            )
            store_lanes(to, log_mass(low, high, gap, low_open, high_open), inside)


@triton.jit
def _backward(
    grad_at, lower_at, upper_at, location_at, scale_at, planes_at, columns_at, parts_at,
    rows, width, per, plane, stride_column, stride_row,
    R: tl.constexpr, DEPTH: tl.constexpr, INTERVALS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1)
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = lane < width
    own = tl.load(columns_at + column)
    # Lanes beyond the last component repeat it and are not stored.
    last = tl.minimum(lane, width - 1)
    at = own * width + last
    weights: tl.constexpr = 2 * R + (DEPTH - 1) * R * R
    units: tl.constexpr = DEPTH * R
    logs, weight, size, _log_size, bias, gate, one_plus = constrained(
        planes_at + at, plane, R, DEPTH
    )
    location = tl.load(location_at + own)
    scale = tl.load(scale_at + own)
    none = tl.zeros([LANES], tl.float32)
    by_weight = (none,) * weights
    by_bias = (none,) * (units + 1)
    by_gate = (none,) * units
    start = tl.program_id(2) * per
    for row in range(start, tl.minimum(start + per, rows)):
        cell = column * stride_column + row * stride_row
        upper = tl.load(upper_at + cell)
        lower = upper
        if INTERVALS:
            lower = tl.load(lower_at + cell)
        if upper == upper:
            grad = load_lanes(grad_at + (column.to(tl.int64) * rows + row) * width + last)
            final, high_open = _inside(upper, location, scale)
            if lower == upper:
                grad = tl.where(high_open, 0.0, grad)
                more_weight, more_bias, more_gate = walk_back(
                    grad, final, weight, size, bias, gate, one_plus, R, DEPTH
                )
                by_weight = added(by_weight, more_weight, weights)
                by_bias = added(by_bias, more_bias, units + 1)
                by_gate = added(by_gate, more_gate, units)
            else:
                first, low_open = _inside(lower, location, scale)
                length = tl.where(low_open | high_open, 1.0, (upper - lower) / scale).to(tl.float32)
                more_weight, more_bias, more_gate = walk_ends_back(
                    *(grad, first, final, length, low_open, high_open),
                    *(weight, size, bias, gate, one_plus, R, DEPTH),
                )
                by_weight = added(by_weight, more_weight, weights)
                by_bias = added(by_bias, more_bias, units + 1)
                by_gate = added(by_gate, more_gate, units)
    # From log weights back to raw ones: beta sigmoid(s) / softplus(s), s = beta raw.
    raw = load_planes(planes_at + at, 0, weights, plane)
    to_raw = ()
    for i in tl.static_range(weights):
        ratio = tl.exp(log_sigmoid(raw[i] * BETA) - logs[i])
        to_raw = to_raw + (by_weight[i] * weight[i] * ratio,)
    to_gate = ()
    for i in tl.static_range(units):
        to_gate = to_gate + (by_gate[i] * (1.0 - gate[i]) * one_plus[i],)
    split = parts_at + tl.program_id(2).to(tl.int64) * (weights + 2 * units + 1) * plane + at
    store_planes(split, 0, weights, to_raw, plane, inside)
    store_planes(split, weights, units + 1, by_bias, plane, inside)
    store_planes(split, weights + units + 1, units, to_gate, plane, inside)
