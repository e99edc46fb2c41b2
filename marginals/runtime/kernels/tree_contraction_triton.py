r"""Contraction of a hierarchical tensor as Triton kernels around batched matrix products.

Each node has a slot: first the leaves' log values, then the nodes, level by level, as linear
numbers with the logarithm of a peak per row. A level takes two launches: one kernel adds the
children's logarithms, removes the peak and exponentiates; one batched product mixes. The backward
pass overwrites the same slots, with one kernel and two products per level.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from marginals.runtime.kernels.elementary_triton import fast_log, log_softplus

_BETA = tl.constexpr(20.0)  # of the softplus of the paper's weights
_LOG_BETA = tl.constexpr(math.log(20.0))
_FAR = tl.constexpr(-60.0)  # below, the softplus of s equals e^s and may underflow


def normalise(raw: Tensor, softplus: bool) -> tuple[Tensor, Tensor]:
    """Return weights that sum to one on the last dim, from free parameters (N, M, K).

    Also return the sums (N, M) of softplus weights for `normalise_back`; -1 marks rows so small
    that the softplus equals exp(20 raw).
    """
    weights, sums = torch.empty_like(raw), raw.new_empty(raw.shape[:-1])
    if sums.numel():
        row = _row(raw.shape[-1])
        _normalise[(sums.numel(),)](raw, weights, sums, SOFTPLUS=softplus, **row)
    return weights, sums


def normalise_back(
    grad: Tensor, weights: Tensor, sums: Tensor, raw: Tensor, softplus: bool, out: Tensor
) -> None:
    """Write the gradient of the free parameters to `out`, which may be `weights` itself."""
    if sums.numel():
        row = _row(raw.shape[-1])
        _normalise_back[(sums.numel(),)](grad, weights, sums, raw, out, SOFTPLUS=softplus, **row)


def log_normalise(raw: Tensor, softplus: bool) -> Tensor:
    """Return the logarithms of weights that sum to one, from free parameters (M,)."""
    logs = torch.empty_like(raw)
    _log_normalise[(1,)](raw, logs, SOFTPLUS=softplus, **_row(len(raw)))
    return logs


def log_normalise_back(grad: Tensor, logs: Tensor, raw: Tensor, softplus: bool) -> Tensor:
    """Turn the gradient of log weights into that of their free parameters, in place."""
    _log_normalise_back[(1,)](grad, logs, raw, SOFTPLUS=softplus, **_row(len(raw)))
    return grad


def open_level(
    leaves: Tensor, nodes: Tensor, peaks: Tensor, children: Tensor, terms: Tensor, first: int
) -> None:
    """Multiply the children of a level's nodes: write exp(sum - peak) and the peak.

    Args:
        leaves: log values (n, B, M).
        nodes: linear numbers (N, B, M) of the nodes contracted so far.
        peaks: the logarithms removed from them, (N, B); those of this level are written.
        children: slots (m, p), -1 for no child.
        terms: where to write, (m, B, M).
        first: the first node of this level.
    """
    count, most = children.shape
    rows, width = leaves.shape[1:]
    _open[(count * rows,)](
        *(leaves, nodes, peaks, children, terms, first, rows, len(leaves)),
        least=least_sum(width),
        MOST=most,
        **_row(width),
    )


def close_root(
    leaves: Tensor, nodes: Tensor, peaks: Tensor, children: Tensor, log_root: Tensor
) -> Tensor:
    """Mix at the root: the log value of each row, (B,)."""
    rows, width = leaves.shape[1:]
    out = torch.empty(rows, dtype=leaves.dtype, device=leaves.device)
    _root[(rows,)](
        *(leaves, nodes, peaks, children, log_root, out, rows, len(leaves)),
        least=least_sum(width),
        MOST=children.shape[1],
        **_row(width),
    )
    return out


def root_back(
    grad: Tensor,
    out: Tensor,
    leaves: Tensor,
    nodes: Tensor,
    peaks: Tensor,
    children: Tensor,
    log_root: Tensor,
    by_leaf: Tensor,
) -> Tensor:
    """Pass the gradient of the root's values to its children; return it by component, (B, M).

    Leaves get theirs in `by_leaf`. A node's gradient, divided by its linear number, overwrites it.
    """
    rows, width = leaves.shape[1:]
    by_term = torch.empty(rows, width, dtype=leaves.dtype, device=leaves.device)
    _root_back[(rows,)](
        *(grad, out, leaves, nodes, peaks, children, log_root, by_leaf, by_term),
        *(rows, len(leaves)),
        least=least_sum(width),
        MOST=children.shape[1],
        **_row(width),
    )
    return by_term


def level_back(
    by_term: Tensor, terms: Tensor, nodes: Tensor, children: Tensor, by_leaf: Tensor
) -> None:
    """Pass the gradients (m, B, M) of a level's linear terms to the children; see `root_back`."""
    count, most = children.shape
    _, rows, width = terms.shape
    _level_back[(count * rows,)](
        *(by_term, terms, nodes, children, by_leaf, rows, len(by_leaf)),
        least=least_sum(width),
        MOST=most,
        **_row(width),
    )


def least_sum(width: int) -> float:
    """Return the sum above which all terms that underflowed are below one rounding error."""
    info = torch.finfo(torch.float32)
    return width * info.tiny / info.eps


def _row(width: int) -> dict[str, object]:
    """Return the constants of programs that hold a row."""
    lanes = triton.next_power_of_2(width)
    warps = max(1, min(8, lanes // 512))
    return {"WIDTH": width, "LANES": lanes, "num_warps": warps, "enable_fp_fusion": True}


# Small functions ------------------------------------------------------------------------------


@triton.jit
def _slope_of_softplus(raw):
    """Return the derivative of `log_softplus`."""
    scaled = raw * _BETA
    log_sigmoid = tl.minimum(scaled, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(scaled)))
    return tl.exp(log_sigmoid - log_softplus(raw, _BETA, _LOG_BETA))


@triton.jit
def _log_of(slot, row, leaves, nodes, peaks, lane, inside, rows, WIDTH: tl.constexpr, count, least):
    """Return the logarithms of one row of a slot."""
    if slot < count:
        at = leaves + (slot.to(tl.int64) * rows + row) * WIDTH + lane
        value = tl.load(at, mask=inside, other=-float("inf"))
    else:
        place = (slot - count).to(tl.int64) * rows + row
        linear = tl.load(nodes + place * WIDTH + lane, mask=inside, other=0.0)
        # A comparison, because a maximum would hide a NaN.
        linear = tl.where(linear < least, least, linear)
        value = tl.where(inside, tl.log(linear), -float("inf")) + tl.load(peaks + place)
    return value


@triton.jit
def _sum_of_children(
    children, row, leaves, nodes, peaks, lane, inside, rows, WIDTH: tl.constexpr, count, least,
    MOST: tl.constexpr,
):  # fmt: skip
    total = tl.where(inside, 0.0, -float("inf"))
    for i in tl.static_range(MOST):
        slot = tl.load(children + i)
        if slot >= 0:
            total += _log_of(
                slot, row, leaves, nodes, peaks, lane, inside, rows, WIDTH, count, least
            )
    return total


@triton.jit
def _send(
    children, by_sum, row, nodes, by_leaf, lane, inside, rows, WIDTH: tl.constexpr, count, least,
    MOST: tl.constexpr,
):  # fmt: skip
    """Give every child the gradient of the sum; a node's is divided by its linear number."""
    for i in tl.static_range(MOST):
        slot = tl.load(children + i)
        if slot >= 0:
            if slot < count:
                place = (slot.to(tl.int64) * rows + row) * WIDTH + lane
                tl.store(by_leaf + place, by_sum, mask=inside)
            else:
                place = ((slot - count).to(tl.int64) * rows + row) * WIDTH + lane
                linear = tl.load(nodes + place, mask=inside, other=1.0)
                # A sum that underflowed is a constant, without a gradient.
                share = tl.where(
                    linear < least, 0.0, by_sum / tl.where(linear < least, 1.0, linear)
                )
                tl.store(nodes + place, share, mask=inside)


# Kernels --------------------------------------------------------------------------------------


@triton.jit
def _normalise(
    raw_at, out_at, sums_at, SOFTPLUS: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr
):
    lane = tl.arange(0, LANES)
    inside = lane < WIDTH
    at = tl.program_id(0).to(tl.int64) * WIDTH + lane
    value = tl.load(raw_at + at, mask=inside, other=-float("inf"))
    if SOFTPLUS:
        value *= _BETA
    top = tl.max(value, 0)
    if SOFTPLUS and top > _FAR:
        # log(1 + e), by its series where 1 + e has lost the digits of e.
        e = tl.exp(-tl.abs(value))
        soft = tl.maximum(value, 0.0) + tl.where(e < 1e-3, e - 0.5 * e * e, fast_log(1.0 + e))
        total = tl.sum(soft, 0)
        tl.store(sums_at + tl.program_id(0), total)
    else:
        soft = tl.exp(value - top)
        total = tl.sum(soft, 0)
        tl.store(sums_at + tl.program_id(0), -1.0)
    tl.store(out_at + at, soft * (1.0 / total), mask=inside)


@triton.jit
def _normalise_back(
    grad_at, weight_at, sums_at, raw_at, out_at,
    SOFTPLUS: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    lane = tl.arange(0, LANES)
    inside = lane < WIDTH
    at = tl.program_id(0).to(tl.int64) * WIDTH + lane
    weight = tl.load(weight_at + at, mask=inside, other=0.0)
    grad = tl.load(grad_at + at, mask=inside, other=0.0)
    rest = grad - tl.sum(weight * grad, 0)
    if SOFTPLUS:
        total = tl.load(sums_at + tl.program_id(0))
        if total > 0:
            scaled = tl.load(raw_at + at, mask=inside, other=0.0) * _BETA
            e = tl.exp(-tl.abs(scaled))
            sigmoid = tl.where(scaled < 0, e, 1.0) / (1.0 + e)
            slope = sigmoid * (20.0 / total)
        else:
            slope = weight * 20.0
    else:
        slope = weight
    tl.store(out_at + at, rest * slope, mask=inside)


@triton.jit
def _log_normalise(
    raw_at, out_at, SOFTPLUS: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr
):
    lane = tl.arange(0, LANES)
    inside = lane < WIDTH
    value = tl.load(raw_at + lane, mask=inside, other=-float("inf"))
    if SOFTPLUS:
        value = tl.where(
            inside, log_softplus(tl.where(inside, value, 0.0), _BETA, _LOG_BETA), -float("inf")
        )
    value -= tl.max(value, 0)
    tl.store(out_at + lane, value - tl.log(tl.sum(tl.exp(value), 0)), mask=inside)


@triton.jit
def _log_normalise_back(
    grad_at, logs_at, raw_at, SOFTPLUS: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr
):
    lane = tl.arange(0, LANES)
    inside = lane < WIDTH
    grad = tl.load(grad_at + lane, mask=inside, other=0.0)
    logs = tl.load(logs_at + lane, mask=inside, other=-float("inf"))
    grad -= tl.exp(logs) * tl.sum(grad, 0)
    if SOFTPLUS:
        grad *= _slope_of_softplus(tl.load(raw_at + lane, mask=inside, other=0.0))
    tl.store(grad_at + lane, grad, mask=inside)


@triton.jit
def _open(
    leaves, nodes, peaks, children, terms, first, rows, count, least,
    MOST: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0) // rows
    row = tl.program_id(0) % rows
    lane = tl.arange(0, LANES)
    inside = lane < WIDTH
    total = _sum_of_children(
        *(children + node * MOST, row, leaves, nodes, peaks, lane, inside),
        *(rows, WIDTH, count, least, MOST),
    )
    peak = tl.max(total, 0)
    peak = tl.where(tl.abs(peak) < float("inf"), peak, 0.0)
    at = (node.to(tl.int64) * rows + row) * WIDTH + lane
    tl.store(terms + at, tl.exp(total - peak), mask=inside)
    tl.store(peaks + (first + node).to(tl.int64) * rows + row, peak)


@triton.jit
def _root(
    leaves, nodes, peaks, children, log_root, out, rows, count, least,
    MOST: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    lane = tl.arange(0, LANES)
    inside = lane < WIDTH
    total = _sum_of_children(
        *(children, row, leaves, nodes, peaks, lane, inside, rows, WIDTH, count, least, MOST)
    )
    total += tl.load(log_root + lane, mask=inside, other=0.0)
    peak = tl.max(total, 0)
    peak = tl.where(tl.abs(peak) < float("inf"), peak, 0.0)
    tl.store(out + row, tl.log(tl.sum(tl.exp(total - peak), 0)) + peak)


@triton.jit
def _root_back(
    grad_at, out_at, leaves, nodes, peaks, children, log_root, by_leaf, by_term,
    rows, count, least, MOST: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    lane = tl.arange(0, LANES)
    inside = lane < WIDTH
    total = _sum_of_children(
        *(children, row, leaves, nodes, peaks, lane, inside, rows, WIDTH, count, least, MOST)
    )
    total += tl.load(log_root + lane, mask=inside, other=0.0)
    value = tl.load(out_at + row)
    # A row without any mass has no gradient.
    empty = value == -float("inf")
    share = tl.where(empty, 0.0, tl.exp(total - tl.where(empty, 0.0, value)))
    by_sum = share * tl.load(grad_at + row)
    tl.store(by_term + row.to(tl.int64) * WIDTH + lane, by_sum, mask=inside)
    _send(*(children, by_sum, row, nodes, by_leaf, lane, inside, rows, WIDTH, count, least, MOST))


@triton.jit
def _level_back(
    by_term, terms, nodes, children, by_leaf, rows, count, least,
    MOST: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0) // rows
    row = tl.program_id(0) % rows
    lane = tl.arange(0, LANES)
    inside = lane < WIDTH
    at = (node.to(tl.int64) * rows + row) * WIDTH + lane
    by_sum = tl.load(by_term + at, mask=inside, other=0.0)
    by_sum *= tl.load(terms + at, mask=inside, other=0.0)
    _send(
        *(children + node * MOST, by_sum, row, nodes, by_leaf, lane, inside),
        *(rows, WIDTH, count, least, MOST),
    )
