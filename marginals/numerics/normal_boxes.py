r"""Probabilities of boxes of correlated normals, and draws inside them.

    log_box      any number of columns       log_box2    two, by quadrature
    log_box_qmc  by a randomised Sobol rule  sample_box  draws of the truncated normal

A box is (lower, upper], (..., n), with infinite ends allowed. The normal is given by its mean,
(..., n), and the lower Cholesky factor of its covariance, (..., n, n), which keeps the conditional
standard deviations that a nearly singular covariance has lost. Leading dims broadcast. `gap` is
`upper - lower`, if the caller knows it more accurately than by subtraction. All work is done in
float64, because layers can be as thin as 1e-4.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from marginals.numerics.draws import draw
from marginals.numerics.logspace import logsumexp
from marginals.numerics.normal import (
    log_normal_cdf,
    log_normal_density,
    log_normal_interval,
    normal_quantile,
)

# Where the integrand of `log_box2` is below e^-42 of its peak lies 1e-16 of its mass.
_DROP = 42.0
# Halvings that shrink the search for the peak and its edges from 1e20 to a thousandth.
_HALVINGS = 80
# Equal panels on each side of the peak; each spans 7 e-folds on average.
_PANELS = 6
# Panel ends around the point where the second column's interval opens or closes, in units of
# the width of that layer.
_LAYER = (-9.0, -6.0, -3.0, 0.0, 3.0, 6.0, 9.0)
_NODES, _WEIGHTS = torch.as_tensor(np.array(np.polynomial.legendre.leggauss(14))) * 0.5
# Nodes, points or proposals held at once; bounds the memory.
_AT_ONCE = 1 << 21
# Independent scramblings, whose spread gives the error: three standard errors, as in Genz.
_RANDOMISATIONS, _STANDARD_ERRORS, _FIRST_POINTS = 8, 3.0, 128
# Proposals per open box: in each round of rejection, and in the final resampling.
_PROPOSALS, _RESAMPLED = 16, 1024


class Box(NamedTuple):
    """Boxes about a mean of 0, flattened to one leading dim, in float64."""

    lower: Tensor  # (M, n)
    upper: Tensor  # (M, n)
    gap: Tensor  # (M, n)
    cholesky: Tensor  # (M, n, n)

    def take(self, index: Tensor) -> "Box":
        """Select boxes."""
        return Box(*(x[index] for x in self))


def log_box(
    lower: Tensor, upper: Tensor, mean: Tensor, cholesky: Tensor, gap: Tensor | None = None
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
        return log_box_qmc(lower, upper, mean, cholesky, gap)[0]
    if size == 2:
        return log_box2(lower, upper, mean, cholesky, gap)
    box, shape = _flat(lower, upper, mean, cholesky, gap)
    return log_normal_interval(*_interval(box, 0)).view(shape).to(lower.dtype)


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
    box, shape = _flat(lower, upper, mean, cholesky, gap)
    index = torch.arange(len(box.lower), device=box.lower.device)
    # A box has about 2^9 nodes.
    parts = [_pair(box.take(part)) for part in index.split(_AT_ONCE >> 9)]
    return torch.cat(parts).view(shape).to(lower.dtype)


def log_box_qmc(
    lower: Tensor,
    upper: Tensor,
    mean: Tensor,
    cholesky: Tensor,
    gap: Tensor | None = None,
    *,
    tolerance: float = 1e-4,
    max_points: int = 1 << 14,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Compute the log probability of boxes and the error of the probability, (...,) each.

    Uses Genz's separation of variables, least likely column first, with eight independent
    scramblings of a Sobol sequence, doubling the points until the error is below the tolerance.

    Args:
        lower, upper, mean, cholesky, gap: see the module.
        tolerance: the error to reach.
        max_points: the most points of each scrambling.
        seed: seed of the scramblings; the same seed gives the same answer.

    Returns:
        The log probability, differentiable for fixed points, and the error of the probability.

    >>> zero, one = torch.zeros(4), torch.eye(4)
    >>> log_box_qmc(zero - torch.inf, zero, zero, one)[0].exp()
    tensor(0.0625)
    """
    box, shape = _flat(lower, upper, mean, cholesky, gap)
    box = _ordered(box)[0]
    # The last column is not drawn, but the engine needs at least one dimension.
    size = max(1, box.lower.shape[1] - 1)
    source = torch.Generator().manual_seed(seed)
    seeds = torch.randint(1 << 31, (_RANDOMISATIONS,), generator=source, device="cpu").tolist()
    engines = [SobolEngine(size, scramble=True, seed=s) for s in seeds]
    values = _sobol_sums(box, engines, _FIRST_POINTS)  # (M, R), log sums over points
    points, counts = _FIRST_POINTS, torch.full_like(box.lower[:, :1], _FIRST_POINTS)
    while points < max_points:
        rows = (_error(values - counts.log()) > tolerance).nonzero().squeeze(-1)
        if not len(rows):
            break
        more = _sobol_sums(box.take(rows), engines, points)
        values = values.index_put((rows,), torch.logaddexp(values[rows], more))
        counts = counts.index_put((rows,), 2 * counts[rows])
        points *= 2
    values = values - counts.log()
    log_mass = logsumexp(values) - math.log(_RANDOMISATIONS)
    return log_mass.view(shape).to(lower.dtype), _error(values).view(shape).to(lower.dtype)


def sample_box(
    lower: Tensor,
    upper: Tensor,
    mean: Tensor,
    cholesky: Tensor,
    gap: Tensor | None = None,
    *,
    rounds: int = 64,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw once from each normal truncated to its box, (..., n).

    Columns are proposed one by one, each inside its interval given those before. A proposal is
    accepted with the probability of the later intervals relative to its upper bound, which makes
    accepted draws exact. A box still open after `rounds` rounds gets one of 1024 fresh proposals by
    importance resampling, which is approximate. A box without mass gives NaN.

    >>> zero = torch.zeros(2)
    >>> bool((sample_box(zero, zero + 1, zero, torch.eye(2)) > 0).all())
    True
    """
    box, shape = _flat(lower, upper, mean, cholesky, gap)
    with torch.no_grad():
        box, order = _ordered(box)
        drawn = torch.full_like(box.lower, torch.nan)
        rows = (log_normal_interval(*_interval(box, 0)) > -torch.inf).nonzero().squeeze(-1)
        for _ in range(rounds):
            if not len(rows):
                break
            count = max(1, min(_PROPOSALS, _AT_ONCE // len(rows)))
            proposed, log_accept = _proposals(box.take(rows), count, generator)
            accepted = _uniform(log_accept, generator).log() < log_accept  # (m, proposals)
            done = accepted.any(1).nonzero().squeeze(-1)
            # argmax of a mask is its first true entry: the first accepted proposal.
            drawn[rows[done]] = proposed[done, accepted[done].to(torch.uint8).argmax(1)]
            rows = rows[~accepted.any(1)]
        for part in rows.split(_AT_ONCE // _RESAMPLED):
            proposed, log_weight = _proposals(box.take(part), _RESAMPLED, generator)
            alive = (log_weight.amax(1) > -torch.inf).nonzero().squeeze(-1)
            drawn[part[alive]] = proposed[alive, draw(log_weight[alive], generator)]
        drawn = torch.zeros_like(drawn).scatter(1, order, drawn).view(*shape, order.shape[1])
        # Adding the mean back may round past the bounds.
        return (drawn.to(lower.dtype) + mean).maximum(lower).minimum(upper)


def _flat(
    lower: Tensor, upper: Tensor, mean: Tensor, cholesky: Tensor, gap: Tensor | None
) -> tuple[Box, torch.Size]:
    """Return centred boxes with one leading dim, and the leading dims they had."""
    size = lower.shape[-1]
    if cholesky.shape[-2:] != (size, size):
        raise ValueError(
            f"Expected `cholesky` to have shape (..., {size}, {size}) like `lower` (..., {size}); "
            f"got {tuple(cholesky.shape)}. Give one factor per box or one that broadcasts."
        )
    gap = upper.double() - lower.double() if gap is None else gap.double()
    ends = (lower.double() - mean.double(), upper.double() - mean.double(), gap)
    shape = torch.broadcast_shapes(*(x.shape[:-1] for x in ends), cholesky.shape[:-2])
    low, high, gap = (x.expand(*shape, size).reshape(-1, size) for x in ends)
    factor = cholesky.double().expand(*shape, size, size).reshape(-1, size, size)
    return Box(low, high, gap, factor), shape


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, dtype=like.dtype, device=like.device, generator=generator)


def _interval(box: Box, column: int, shift: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return a column's ends, less a shift (M, ...), and gap in units of its own deviation."""
    shift = torch.zeros_like(box.lower[:, column]) if shift is None else shift
    ends = torch.stack([*(x[:, column] for x in box[:3]), box.cholesky[:, column, column]])
    low, high, gap, scale = ends.view(4, -1, *(1,) * (shift.ndim - 1))
    return _over(low - shift, scale), _over(high - shift, scale), _over(gap, scale)


def _over(x: Tensor, scale: Tensor) -> Tensor:
    """Divide; an infinite end stays, and gives the scale no gradient (which would be 0 * inf)."""
    infinite = x.isinf()
    return torch.where(infinite, x, torch.where(infinite, 0.0, x) / scale)


def _ordered(box: Box) -> tuple[Box, Tensor]:
    """Sort columns so that the least likely interval comes first; also return the order."""
    covariance = box.cholesky @ box.cholesky.transpose(1, 2)
    with torch.no_grad():
        scale = covariance.diagonal(dim1=1, dim2=2).sqrt()
        mass = log_normal_interval(box.lower / scale, box.upper / scale, box.gap / scale)
        order = mass.argsort(dim=-1, stable=True)  # (M, n)
    rows = order[:, :, None].expand_as(covariance)
    covariance = covariance.gather(1, rows).gather(2, rows.transpose(1, 2))
    low, high, gap = (x.gather(1, order) for x in box[:3])
    moved = (order.diff(dim=1) < 0).any(1)[:, None, None]
    # A box already in order keeps its factor, which is more accurate than that of its square.
    safe = torch.where(moved, covariance, torch.eye(order.shape[1]).to(covariance))
    factor = torch.where(moved, torch.linalg.cholesky(safe), box.cholesky)
    return Box(low, high, gap, factor), order


def _pair(box: Box) -> Tensor:
    """Return the log probability of boxes of two columns, (M,)."""
    low, high, gap = _interval(box, 0)
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
    return log_normal_density(z) + log_normal_interval(*_interval(box, 1, slope * z))


def _panels(box: Box, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ends of the mass, (M,) each, and the panels' ends between 0 and 1, (M, panels)."""
    low, high = _within_reach(box, low, high)
    peak = _peak(box, low, high)[:, None]
    level = _integrand(box, peak) - _DROP
    outer = torch.stack([low, high], -1)  # (M, 2)
    ends = _halve(lambda z: _integrand(box, z) < level, outer, peak.expand_as(outer))
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
    e_low, e_high, _ = _interval(box, 1, box.cholesky[:, 1, 0] * z)
    e = torch.zeros_like(z).maximum(e_low).minimum(e_high)
    reach = z.abs() + e.abs() + 40.0
    return low.maximum(-reach), high.minimum(reach)


def _peak(box: Box, low: Tensor, high: Tensor) -> Tensor:
    """Return where the integrand peaks, by bisection on the sign of its slope."""
    ratio = box.cholesky[:, 1, 0] / box.cholesky[:, 1, 1]

    def rises(z: Tensor) -> Tensor:
        e_low, e_high, gap = _interval(box, 1, box.cholesky[:, 1, 0] * z)
        log_mass = log_normal_interval(e_low, e_high, gap)
        inward = (log_normal_density(e_low) - log_mass).exp()
        outward = (log_normal_density(e_high) - log_mass).exp()
        # The difference is the mean of e in its interval; in a narrow one it cancels.
        return ratio * (inward - outward).fmax(e_low).fmin(e_high) > z

    return _halve(rises, low, high)


def _halve(before: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    """Return where `before` turns from true (towards `low`) to false (towards `high`)."""
    for _ in range(_HALVINGS):
        middle = 0.5 * low + 0.5 * high
        first = before(middle)
        low, high = torch.where(first, middle, low), torch.where(first, high, middle)
    return low


def _layers(box: Box) -> Tensor:
    """Return panel ends around where the second column's interval opens and closes, (M, 14)."""
    slope = box.cholesky[:, 1, 0, None]
    ends = torch.stack([box.lower[:, 1], box.upper[:, 1]], 1) / slope  # (M, 2)
    spread = torch.tensor(_LAYER).to(slope) * (box.cholesky[:, 1, 1, None] / slope)
    return (ends[..., None] + spread[:, None]).flatten(1)


def _sequence(box: Box, log_u: Tensor, log_1mu: Tensor) -> tuple[Tensor, Tensor]:
    """Draw column by column inside the box, from uniforms (M or 1, N, n - 1 or n).

    Also return the log probability of each interval given the columns before it, (M, N, n).
    """
    size = box.lower.shape[1]
    shift = torch.zeros(len(box.lower), log_u.shape[1]).to(box.lower)
    drawn: list[Tensor] = []
    masses: list[Tensor] = []
    for j in range(size):
        low, high, gap = _interval(box, j, shift)
        mass = log_normal_interval(low, high, gap)
        masses.append(mass)
        if j == log_u.shape[2]:
            break
        # A path without mass continues with harmless numbers; its weight is already zero.
        dead = mass == -torch.inf
        alive = torch.where(dead, 0.0, mass)
        log_cdf = torch.logaddexp(log_normal_cdf(low), log_u[..., j] + alive)
        log_sf = torch.logaddexp(log_normal_cdf(-high), log_1mu[..., j] + alive)
        y = normal_quantile(torch.where(dead, -1.0, log_cdf), torch.where(dead, -1.0, log_sf))
        drawn.append(torch.where(dead, 0.0, y.maximum(low).minimum(high)))
        if j + 1 < size:
            shift = (torch.stack(drawn, -1) * box.cholesky[:, None, j + 1, : j + 1]).sum(-1)
    return torch.stack(drawn, -1), torch.stack(masses, -1)


def _sobol_sums(box: Box, engines: list[SobolEngine], points: int) -> Tensor:
    """Return the log of the sum over the next points of each engine, (M, R)."""
    # Sobol points are multiples of 2^-30; half a step keeps them off 0 and 1.
    u = torch.cat([e.draw(points, dtype=torch.float64) for e in engines]) + 2.0**-31
    u = u.to(box.lower.device)[None]  # (1, R * N, n - 1)
    log_u, log_1mu = u.log(), torch.log1p(-u)
    index = torch.arange(len(box.lower), device=u.device)
    sums = []
    for part in index.split(max(1, _AT_ONCE // u.shape[1])):
        masses = _sequence(box.take(part), log_u, log_1mu)[1].sum(-1)
        sums.append(logsumexp(masses.view(len(part), len(engines), points)))
    return torch.cat(sums)


def _error(values: Tensor) -> Tensor:
    """Return three standard errors of the mean of probabilities given as logarithms, (M,)."""
    return _STANDARD_ERRORS * values.detach().exp().std(-1) / _RANDOMISATIONS**0.5


def _proposals(box: Box, count: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Return proposals (M, count, n) and the log probability to accept each, (M, count)."""
    like = box.lower[:, None, :].expand(-1, count, -1)
    u = _uniform(like, generator).clamp(2.0**-54, 1 - 2.0**-53)
    y, masses = _sequence(box, u.log(), torch.log1p(-u))
    half = 0.5 * box.gap / box.cholesky.diagonal(dim1=1, dim2=2)
    # Of all intervals of one width, the one around 0 has the most mass.
    most = log_normal_interval(-half, half, 2 * half)[:, None]
    drawn = (box.cholesky[:, None] @ y[..., None]).squeeze(-1)
    return drawn, (masses - most)[..., 1:].sum(-1).clamp(max=0.0)
