"""Probabilities of boxes of correlated normals: exact for one column, quadrature for two.

    log_box   any number of columns       log_box2   two, by quadrature

Boxes are given as in `ghk.py`, which has those of more columns.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from marginals.numerics.ghk import Box, flat_boxes, log_box_qmc
from marginals.numerics.logspace import logsumexp
from marginals.numerics.normal import (
    log_normal_density,
    log_normal_interval,
)

# Where the integrand of `log_box2` is below e^-42 of its peak lies 1e-16 of its mass.
_DROP = 42.0
# The peak of the integrand and its edges are found to this precision.
_PRECISION = 1e-3
# Sections of a search whose solutions are at most that many; others are bisected.
_SECTIONS, _FEW = 32, 256
# Equal panels on each side of the peak; each spans 7 e-folds on average.
_PANELS = 6
# Panel ends around the point where the second column's interval opens or closes, in units of
# the width of that layer.
_LAYER = (-9.0, -6.0, -3.0, 0.0, 3.0, 6.0, 9.0)
_NODES, _WEIGHTS = torch.as_tensor(np.array(np.polynomial.legendre.leggauss(14))) * 0.5
# Nodes held at once; bounds the memory.
_AT_ONCE = 1 << 21


def log_box(
    lower: Tensor,
    upper: Tensor,
    mean: Tensor,
    cholesky: Tensor,
    gap: Tensor | None = None,
    log_weights: Tensor | None = None,
) -> Tensor:
    """Compute the log probability of boxes of n >= 1 columns, (...,).

    It is exact for one column, accurate to 1e-10 for two, and `log_box_qmc` with its defaults for
    more; call that to get the error.

    >>> zero, one = torch.zeros(3), torch.eye(3)
    >>> log_box(zero, zero + torch.inf, zero, one).exp()
    tensor(0.1250)
    """
    size = lower.shape[-1]
    if size > 2:
        return log_box_qmc(lower, upper, mean, cholesky, gap, log_weights=log_weights)[0]
    if size == 2:
        return log_box2(lower, upper, mean, cholesky, gap)
    box, shape = flat_boxes(lower, upper, mean, cholesky, gap)
    return log_normal_interval(*box.interval(0)).view(shape).to(lower.dtype)


def log_box2(
    lower: Tensor, upper: Tensor, mean: Tensor, cholesky: Tensor, gap: Tensor | None = None
) -> Tensor:
    r"""Compute the log probability of boxes of two columns by quadrature, (...,).

    The integrand over the first column is :math:`\phi(z)` times the interval probability of the
    second given z. It is log-concave, so bisection finds its peak and the ends of its mass. Panels
    end there and where the second column's interval opens or closes, however sharply. All terms
    are positive: nothing cancels, in any tail, at any correlation.

    >>> z = torch.zeros(2)
    >>> log_box2(z, z + torch.inf, z, torch.tensor([[1.0, 0.0], [0.6, 0.8]])).exp()
    tensor(0.3524)
    """
    if lower.shape[-1] != 2:
        raise ValueError(
            f"Expected `lower` to have 2 columns in its last dim; got {lower.shape[-1]}. "
            "Call `log_box`, which accepts any number."
        )
    box, shape = flat_boxes(lower, upper, mean, cholesky, gap)
    index = torch.arange(len(box.lower), device=box.lower.device)
    # A box has about 2^9 nodes.
    parts = [_pair(box.take(part)) for part in index.split(_AT_ONCE >> 9)]
    return torch.cat(parts).view(shape).to(lower.dtype)


def _pair(box: Box) -> Tensor:
    """Return the log probability of boxes of two columns, (M,)."""
    low, high, gap = box.interval(0)
    with torch.no_grad():
        start, end, fractions = _panels(box, low, high)
    # The ends carry a gradient where they are the box's own. The fractions between them need none:
    # the integral does not depend on where its panels meet.
    whole = (start <= low) & (end >= high)
    start, end = torch.where(start <= low, low, start), torch.where(end >= high, high, end)
    width = torch.where(whole, gap, end - start)
    full = (gap > 0) & (box.gap[:, 1] > 0) & (width > 0)
    left, step = fractions[:, :-1], fractions.diff(dim=1)  # (M, panels)
    at = left[..., None] + step[..., None] * (_NODES.to(step) + 0.5)
    share = (step[..., None] * _WEIGHTS.to(step)).flatten(1)  # (M, nodes)
    width = torch.where(full, width, 1.0)[:, None]
    z = torch.where(full, start, 0.0)[:, None] + width * at.flatten(1)
    mass = logsumexp(_integrand(box, z) + share.log()) + width.squeeze(1).log()
    return torch.where(full, mass, -torch.inf)


def _integrand(box: Box, z: Tensor) -> Tensor:
    """Return the log of the first column's density times the second's interval, (M, ...)."""
    slope = box.cholesky[:, 1, 0].view(-1, *(1,) * (z.ndim - 1))
    return log_normal_density(z) + log_normal_interval(*box.interval(1, slope * z))


def _panels(box: Box, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ends of the mass, (M,) each, and the panels' ends between 0 and 1, (M, panels)."""
    low, high = _within_reach(box, low, high)
    peak = _peak(box, low, high)[:, None]
    level = _integrand(box, peak) - _DROP
    outer = torch.stack([low, high], -1)  # (M, 2)
    ends = _turn(lambda z: _integrand(box, z) < level[..., None], outer, peak.expand_as(outer))
    # An end that never falls below the level is the box's own.
    start, end = torch.where(_integrand(box, outer) < level, ends, outer).unbind(-1)
    width = (end - start)[:, None]
    shares = torch.linspace(0, 1, _PANELS + 1).to(low)
    middle = ((peak - start[:, None]) / width).nan_to_num(0.5).clamp(0, 1)
    layers = ((_layers(box) - start[:, None]) / width).nan_to_num(0.0).clamp(0, 1)  # (M, 14)
    inner = [shares * middle, middle + shares * (1 - middle), layers]
    return start, end, torch.cat(inner, 1).sort(1).values


def _within_reach(box: Box, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Cut infinite ends to a range around the point of the box nearest to the origin.

    In independent coordinates (z, e) the mass lies near that point.
    """
    z = torch.zeros_like(low).maximum(low).minimum(high)
    e_low, e_high, _ = box.interval(1, box.cholesky[:, 1, 0] * z)
    e = torch.zeros_like(z).maximum(e_low).minimum(e_high)
    reach = z.abs() + e.abs() + 40.0
    return low.maximum(-reach), high.minimum(reach)


def _peak(box: Box, low: Tensor, high: Tensor) -> Tensor:
    """Return where the integrand peaks, (M,), by the sign of its slope."""
    slope = box.cholesky[:, 1, 0, None]
    ratio = slope / box.cholesky[:, 1, 1, None]

    def rises(z: Tensor) -> Tensor:  # (M, T)
        e_low, e_high, gap = box.interval(1, slope * z)
        log_mass = log_normal_interval(e_low, e_high, gap)
        inward = (log_normal_density(e_low) - log_mass).exp()
        outward = (log_normal_density(e_high) - log_mass).exp()
        # The difference is the mean of e in its interval; in a narrow one it cancels.
        return ratio * (inward - outward).fmax(e_low).fmin(e_high) > z

    return _turn(rises, low, high)


def _turn(before: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    """Return where `before` turns from true (towards `low`) to false (towards `high`), (M, ...).

    Args:
        before: of points (M, ..., T), T for each solution.
        low, high: the ends of the search, in either order.
    """
    widest = float((high - low).abs().max()) if low.numel() else 0.0
    if not widest > _PRECISION:
        return low
    # Many sections take as long as two where the solutions are few: one operation does it.
    sections = _SECTIONS if low.numel() <= _FEW else 2
    shares = torch.arange(1, sections, dtype=low.dtype, device=low.device) / sections
    step = high - low
    for _ in range(math.ceil(math.log(widest / _PRECISION, sections))):
        first = before(low[..., None] + step[..., None] * shares)
        step = step / sections
        low = low + step * first.sum(-1)
    return low


def _layers(box: Box) -> Tensor:
    """Return panel ends around where the second column's interval opens and closes, (M, 14)."""
    slope = box.cholesky[:, 1, 0, None]
    ends = torch.stack([box.lower[:, 1], box.upper[:, 1]], 1) / slope  # (M, 2)
    spread = torch.tensor(_LAYER).to(slope) * (box.cholesky[:, 1, 1, None] / slope)
    return (ends[..., None] + spread[:, None]).flatten(1)
